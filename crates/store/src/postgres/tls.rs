//! TLS towards the server, as its address asks for it.
//!
//! `sslmode=verify-full` keeps what is said secret and lets the server prove who it is: by the certificates of the file
//! that `sslrootcert` names, or by those that the system trusts. `sslmode=require` keeps it secret from whoever listens,
//! and asks nobody for a proof. Nothing is secured half: words that mean "perhaps" are refused.

use std::future::Future;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use percent_encoding::percent_decode_str;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{ClientConfig, DigitallySignedStruct, RootCertStore, SignatureScheme};
use rustls_platform_verifier::Verifier;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio_postgres::Socket;
use tokio_postgres::tls::{ChannelBinding, MakeTlsConnect, TlsConnect, TlsStream};
use tokio_rustls::TlsConnector;

use super::PostgresError;

/// An address without what is ours to understand, and how connections to it are secured.
pub(super) struct Asked {
    /// What the driver is given.
    pub(super) url: String,
    pub(super) tls: Tls,
}

impl Asked {
    pub(super) fn of(address: &str) -> Result<Self, PostgresError> {
        let (place, query) = address.split_once('?').unwrap_or((address, ""));
        let (mut mode, mut roots, mut others) = (None, None, Vec::new());
        for parameter in query.split('&').filter(|one| !one.is_empty()) {
            match parameter.split_once('=') {
                Some(("sslmode", value)) => mode = Some(value),
                Some(("sslrootcert", value)) => {
                    let path = percent_decode_str(value).decode_utf8();
                    let path = path.map_err(|_| wrong("sslrootcert is no text"))?;
                    roots = Some(path.into_owned());
                }
                _ => others.push(parameter),
            }
        }
        let config = match (mode, roots) {
            (None | Some("disable"), None) => None,
            (Some("require"), None) => Some(of_anybody()?),
            (Some("verify-full"), roots) => Some(verified(roots.as_deref())?),
            (Some("disable" | "require") | None, Some(_)) => {
                return Err(wrong("sslrootcert needs sslmode=verify-full"));
            }
            (Some(_), _) => {
                return Err(wrong("sslmode is disable, require or verify-full"));
            }
        };
        let mode = if config.is_some() {
            "require"
        } else {
            "disable"
        };
        let mode = format!("sslmode={mode}");
        others.push(&mode);
        Ok(Self {
            url: format!("{place}?{}", others.join("&")),
            tls: Tls(config),
        })
    }
}

fn wrong(reason: impl ToString) -> PostgresError {
    PostgresError::Address(reason.to_string())
}

fn provider() -> Arc<CryptoProvider> {
    Arc::new(rustls::crypto::aws_lc_rs::default_provider())
}

/// Whoever answers is believed; nobody else can listen.
fn of_anybody() -> Result<Arc<ClientConfig>, PostgresError> {
    configured(Arc::new(Anybody(provider())))
}

/// Who is verified by the certificates of a file, or by those of the system.
fn verified(roots: Option<&str>) -> Result<Arc<ClientConfig>, PostgresError> {
    let Some(path) = roots else {
        return configured(Arc::new(Verifier::new(provider()).map_err(wrong)?));
    };
    let told = |error: &dyn std::fmt::Display| wrong(format!("sslrootcert {path}: {error}"));
    let mut store = RootCertStore::empty();
    let found = CertificateDer::pem_file_iter(path).map_err(|error| told(&error))?;
    for certificate in found {
        let certificate = certificate.map_err(|error| told(&error))?;
        store.add(certificate).map_err(|error| told(&error))?;
    }
    let verifier =
        rustls::client::WebPkiServerVerifier::builder_with_provider(Arc::new(store), provider());
    configured(verifier.build().map_err(|error| told(&error))?)
}

fn configured(verifier: Arc<dyn ServerCertVerifier>) -> Result<Arc<ClientConfig>, PostgresError> {
    let builder = ClientConfig::builder_with_provider(provider())
        .with_protocol_versions(&[&rustls::version::TLS13, &rustls::version::TLS12])
        .map_err(wrong)?;
    let config = builder
        .dangerous()
        .with_custom_certificate_verifier(verifier)
        .with_no_client_auth();
    Ok(Arc::new(config))
}

/// Believes every certificate, but no signature that its key did not make.
#[derive(Debug)]
struct Anybody(Arc<CryptoProvider>);

impl ServerCertVerifier for Anybody {
    fn verify_server_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        let algorithms = &self.0.signature_verification_algorithms;
        verify_tls12_signature(message, certificate, signed, algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        let algorithms = &self.0.signature_verification_algorithms;
        verify_tls13_signature(message, certificate, signed, algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.signature_verification_algorithms.supported_schemes()
    }
}

/// Secures connections; without a configuration none is asked to be.
#[derive(Clone)]
pub(super) struct Tls(Option<Arc<ClientConfig>>);

impl MakeTlsConnect<Socket> for Tls {
    type Stream = Secured;
    type TlsConnect = Handshake;
    type Error = io::Error;

    /// The driver asks for this also where no TLS is wanted, and does not use it then.
    fn make_tls_connect(&mut self, host: &str) -> io::Result<Handshake> {
        Ok(Handshake {
            config: self.0.clone(),
            host: host.to_owned(),
        })
    }
}

/// One connection that is about to be secured.
pub(super) struct Handshake {
    config: Option<Arc<ClientConfig>>,
    host: String,
}

impl TlsConnect<Socket> for Handshake {
    type Stream = Secured;
    type Error = io::Error;
    type Future = Pin<Box<dyn Future<Output = io::Result<Secured>> + Send>>;

    fn connect(self, stream: Socket) -> Self::Future {
        Box::pin(async move {
            let name = ServerName::try_from(self.host).map_err(io::Error::other)?;
            let config = self.config;
            let config = config.ok_or_else(|| io::Error::other("TLS was not asked for"))?;
            let stream = TlsConnector::from(config).connect(name, stream).await?;
            Ok(Secured(Box::new(stream)))
        })
    }
}

/// A secured connection.
pub(super) struct Secured(Box<tokio_rustls::client::TlsStream<Socket>>);

impl TlsStream for Secured {
    /// A password is not bound to the connection: who the server is, verify-full proves.
    fn channel_binding(&self) -> ChannelBinding {
        ChannelBinding::none()
    }
}

impl AsyncRead for Secured {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        into: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut *self.0).poll_read(cx, into)
    }
}

impl AsyncWrite for Secured {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut *self.0).poll_write(cx, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut *self.0).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut *self.0).poll_shutdown(cx)
    }
}
