//! TLS towards other nodes: 1.2 or later, certificates verified, by the system's roots and those of a file (VX-HTTP-5).

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;

use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use rustls_platform_verifier::Verifier;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use url::Url;

use crate::http::TlsError;

/// What connections to other nodes are secured with.
#[derive(Clone)]
pub struct OutgoingTls {
    config: Arc<ClientConfig>,
}

impl OutgoingTls {
    /// Trusts what the system trusts, and the certificates of this PEM text.
    pub fn new(extra_roots_pem: Option<&[u8]>) -> Result<Self, TlsError> {
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let roots = extra_roots_pem.map(roots).transpose()?.unwrap_or_default();
        let verifier = Verifier::new_with_extra_roots(roots, Arc::clone(&provider));
        let builder = ClientConfig::builder_with_provider(provider)
            .with_protocol_versions(&[&rustls::version::TLS13, &rustls::version::TLS12])?;
        let config = match verifier {
            Ok(verifier) => builder
                .dangerous()
                .with_custom_certificate_verifier(Arc::new(verifier))
                .with_no_client_auth(),
            // A system without root certificates trusts nobody; what needs no TLS goes on there.
            Err(rustls::Error::General(_)) => builder
                .with_root_certificates(RootCertStore::empty())
                .with_no_client_auth(),
            Err(error) => return Err(error.into()),
        };
        Ok(Self {
            config: Arc::new(config),
        })
    }

    /// The same for a client that secures its connections itself.
    pub(crate) fn config(&self) -> ClientConfig {
        (*self.config).clone()
    }

    /// Connects to the host of an address, with TLS where its scheme says so.
    pub(crate) async fn reach(&self, url: &Url) -> io::Result<AnyStream> {
        let stream = TcpStream::connect(host_and_port(url)?).await?;
        self.secure(url, stream).await
    }

    /// Connects to these addresses of the host, which is not looked up again.
    pub(crate) async fn reach_at(&self, url: &Url, at: &[SocketAddr]) -> io::Result<AnyStream> {
        self.secure(url, TcpStream::connect(at).await?).await
    }

    async fn secure(&self, url: &Url, stream: TcpStream) -> io::Result<AnyStream> {
        let (host, _) = host_and_port(url)?;
        stream.set_nodelay(true)?;
        if !is_tls(url) {
            return Ok(Box::new(stream));
        }
        let name = ServerName::try_from(host.to_owned()).map_err(io::Error::other)?;
        let connector = TlsConnector::from(Arc::clone(&self.config));
        Ok(Box::new(connector.connect(name, stream).await?))
    }
}

fn is_tls(url: &Url) -> bool {
    matches!(url.scheme(), "https" | "wss")
}

/// The host of an address without brackets, and its port.
pub(crate) fn host_and_port(url: &Url) -> io::Result<(&str, u16)> {
    let host = url.host_str();
    let host = host.ok_or_else(|| io::Error::other("an address without a host"))?;
    let host = host.trim_start_matches('[').trim_end_matches(']');
    let port = url.port().unwrap_or(if is_tls(url) { 443 } else { 80 });
    Ok((host, port))
}

/// A stream of bytes, secured or not.
pub(crate) type AnyStream = Box<dyn Stream>;

/// What a stream of bytes has to be.
pub(crate) trait Stream: AsyncRead + AsyncWrite + Unpin + Send {}

impl<T: AsyncRead + AsyncWrite + Unpin + Send> Stream for T {}

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
