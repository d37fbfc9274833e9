//! TLS towards other nodes: 1.2 or later, certificates verified, by the system's roots and those of a file (VX-HTTP-5).

use std::io;
use std::sync::Arc;

use rustls::ClientConfig;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls_platform_verifier::Verifier;
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

use crate::http::TlsError;

/// What connections to other nodes are secured with.
pub struct OutgoingTls {
    config: Arc<ClientConfig>,
}

impl OutgoingTls {
    /// Trusts what the system trusts, and the certificates of this PEM text.
    pub fn new(extra_roots_pem: Option<&[u8]>) -> Result<Self, TlsError> {
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let roots = extra_roots_pem.map(roots).transpose()?.unwrap_or_default();
        let verifier = Verifier::new_with_extra_roots(roots, Arc::clone(&provider))?;
        let config = ClientConfig::builder_with_provider(provider)
            .with_protocol_versions(&[&rustls::version::TLS13, &rustls::version::TLS12])?
            .dangerous()
            .with_custom_certificate_verifier(Arc::new(verifier))
            .with_no_client_auth();
        Ok(Self {
            config: Arc::new(config),
        })
    }

    /// The same for a client that brings its own connections.
    pub(crate) fn config(&self) -> ClientConfig {
        (*self.config).clone()
    }

    pub(crate) async fn connect(
        &self,
        host: &str,
        stream: TcpStream,
    ) -> io::Result<TlsStream<TcpStream>> {
        let name = ServerName::try_from(host.to_owned()).map_err(io::Error::other)?;
        let connector = TlsConnector::from(Arc::clone(&self.config));
        connector.connect(name, stream).await
    }
}

fn roots(pem: &[u8]) -> Result<Vec<CertificateDer<'static>>, TlsError> {
    let roots: Vec<_> = CertificateDer::pem_slice_iter(pem)
        .collect::<Result<_, _>>()
        .map_err(|error| TlsError::Certificates(error.to_string()))?;
    match roots.is_empty() {
        true => Err(TlsError::Certificates(
            "there is none in the file".to_owned(),
        )),
        false => Ok(roots),
    }
}
