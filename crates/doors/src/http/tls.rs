//! TLS: rustls with aws-lc-rs, 1.2 or later, HTTP/2 and HTTP/1.1 by ALPN (VX-HTTP-5).

use std::sync::Arc;

use arc_swap::ArcSwap;
use rustls::ServerConfig;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::{ClientHello, ResolvesServerCert};
use rustls::sign::CertifiedKey;
use tokio_rustls::TlsAcceptor;

/// A certificate chain and its key, as PEM texts.
#[derive(Clone)]
pub struct TlsIdentity {
    /// The chain, the node's own certificate first.
    pub certificates_pem: Vec<u8>,
    /// The secret key.
    pub key_pem: Vec<u8>,
}

impl std::fmt::Debug for TlsIdentity {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("TlsIdentity(..)")
    }
}

/// Why an identity cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum TlsError {
    /// The certificates cannot be read.
    #[error("the TLS certificates cannot be read: {0}")]
    Certificates(String),
    /// The key cannot be read.
    #[error("the TLS key cannot be read: it has to be one PEM private key")]
    Key,
    /// They do not fit together, or cannot be used.
    #[error("TLS cannot be set up: {0}")]
    Setup(#[from] rustls::Error),
}

/// Holds the identity that new connections are shown; it can be replaced while the door is open.
#[derive(Debug)]
pub struct TlsKeeper {
    identity: ArcSwap<CertifiedKey>,
}

impl TlsKeeper {
    /// A keeper of this identity.
    pub fn new(identity: &TlsIdentity) -> Result<Arc<Self>, TlsError> {
        let identity = ArcSwap::from_pointee(certified(identity)?);
        Ok(Arc::new(Self { identity }))
    }

    /// Shows this identity from here on. One that cannot be used changes nothing.
    pub fn replace(&self, identity: &TlsIdentity) -> Result<(), TlsError> {
        self.identity.store(Arc::new(certified(identity)?));
        Ok(())
    }
}

impl ResolvesServerCert for TlsKeeper {
    fn resolve(&self, _: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        Some(self.identity.load_full())
    }
}

fn certified(identity: &TlsIdentity) -> Result<CertifiedKey, TlsError> {
    let unreadable =
        |error: rustls::pki_types::pem::Error| TlsError::Certificates(error.to_string());
    let certificates = CertificateDer::pem_slice_iter(&identity.certificates_pem)
        .collect::<Result<Vec<_>, _>>()
        .map_err(unreadable)?;
    if certificates.is_empty() {
        return Err(TlsError::Certificates(
            "there is none in the file".to_owned(),
        ));
    }
    let key = PrivateKeyDer::from_pem_slice(&identity.key_pem).map_err(|_| TlsError::Key)?;
    let provider = rustls::crypto::aws_lc_rs::default_provider();
    Ok(CertifiedKey::from_der(certificates, key, &provider)?)
}

/// An acceptor that shows what the keeper holds.
pub(crate) fn acceptor(keeper: &Arc<TlsKeeper>) -> Result<TlsAcceptor, TlsError> {
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let mut config = ServerConfig::builder_with_provider(provider)
        .with_protocol_versions(&[&rustls::version::TLS13, &rustls::version::TLS12])?
        .with_no_client_auth()
        .with_cert_resolver(Arc::clone(keeper) as Arc<dyn ResolvesServerCert>);
    config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    Ok(TlsAcceptor::from(Arc::new(config)))
}
