//! How commands speak to a running node: where it is, with which token, and what its answers mean.
//!
//! Guarantees: an error says what to do next; a token travels encrypted, or to this machine alone.
//!
//! Refuses to: take a token as an argument (others see arguments), follow a redirect, or read an answer without end.

mod answered;
mod place;

use std::future::Future;
use std::time::Duration;

use reqwest::header::{AUTHORIZATION, CONTENT_TYPE, HeaderValue};
use reqwest::{Client, ClientBuilder, Method, Response, Url};

use crate::exit::Failure;

pub(crate) use answered::Answered;
pub(crate) use place::NodeArgs;

/// The most of an answer that is read.
const ANSWER_BYTES: usize = 64 << 20;
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
const ANSWER_TIMEOUT: Duration = Duration::from_secs(60);

/// A node that is spoken to.
pub(crate) struct NodeClient {
    http: Client,
    base: Url,
    authorization: Option<HeaderValue>,
    answer_timeout: Duration,
}

/// Runs a conversation with a node on this thread.
pub(crate) fn block_on<T>(talk: impl Future<Output = Result<T, Failure>>) -> Result<T, Failure> {
    tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|error| Failure::damaged(format!("cannot open sockets: {error}")))?
        .block_on(talk)
}

impl NodeClient {
    /// A client of the node at `base`.
    pub(crate) fn new(base: Url, authorization: Option<HeaderValue>) -> Result<Self, Failure> {
        // Another part of the program may have chosen a provider already.
        let _ = rustls::crypto::aws_lc_rs::default_provider().install_default();
        let http = without_roots(Client::builder(), &base)
            .redirect(reqwest::redirect::Policy::none())
            .no_proxy()
            .connect_timeout(CONNECT_TIMEOUT)
            .user_agent(concat!("chancery/", env!("CARGO_PKG_VERSION")))
            .build()
            .map_err(|error| Failure::damaged(format!("cannot set up HTTP: {error}")))?;
        Ok(Self {
            http,
            base,
            authorization,
            answer_timeout: ANSWER_TIMEOUT,
        })
    }

    /// The same, for a question that is answered at once or not at all.
    pub(crate) fn within(mut self, answer_timeout: Duration) -> Self {
        self.answer_timeout = answer_timeout;
        self
    }

    /// A client without a token of the node at an address.
    pub(crate) fn at(address: &str) -> Result<Self, Failure> {
        Self::new(place::parse(address)?, None)
    }

    /// Where the node is.
    pub(crate) fn place(&self) -> &str {
        self.base.as_str().trim_end_matches('/')
    }

    /// Reads a path, given by its segments.
    pub(crate) async fn get(&self, segments: &[&str]) -> Result<Answered, Failure> {
        self.call(Method::GET, self.address(segments)?, None).await
    }

    /// The same with a query parameter.
    pub(crate) async fn get_where(
        &self,
        segments: &[&str],
        (name, value): (&str, &str),
    ) -> Result<Answered, Failure> {
        let mut address = self.address(segments)?;
        address.query_pairs_mut().append_pair(name, value);
        self.call(Method::GET, address, None).await
    }

    /// Posts JSON to a path.
    pub(crate) async fn post(
        &self,
        segments: &[&str],
        body: impl Into<Vec<u8>>,
    ) -> Result<Answered, Failure> {
        self.post_as("application/json", segments, body).await
    }

    /// Posts a body of another media type.
    pub(crate) async fn post_as(
        &self,
        media_type: &'static str,
        segments: &[&str],
        body: impl Into<Vec<u8>>,
    ) -> Result<Answered, Failure> {
        let body = Some((HeaderValue::from_static(media_type), body.into()));
        self.call(Method::POST, self.address(segments)?, body).await
    }

    /// Deletes what a path names.
    pub(crate) async fn delete(&self, segments: &[&str]) -> Result<Answered, Failure> {
        self.call(Method::DELETE, self.address(segments)?, None)
            .await
    }

    async fn call(
        &self,
        method: Method,
        address: Url,
        body: Option<(HeaderValue, Vec<u8>)>,
    ) -> Result<Answered, Failure> {
        let mut request = self.http.request(method, address);
        request = request.timeout(self.answer_timeout);
        if let Some(authorization) = &self.authorization {
            request = request.header(AUTHORIZATION, authorization.clone());
        }
        if let Some((media_type, body)) = body {
            request = request.header(CONTENT_TYPE, media_type).body(body);
        }
        let response = request
            .send()
            .await
            .map_err(|error| self.no_answer(&error))?;
        let status = response.status().as_u16();
        let headers = response.headers().clone();
        let body = self.body(response).await?;
        Ok(Answered {
            by: self.place().to_owned(),
            status,
            headers,
            body,
        })
    }

    /// Segments are percent-encoded here, so that an agent's name stays one of them.
    fn address(&self, segments: &[&str]) -> Result<Url, Failure> {
        let mut address = self.base.clone();
        match address.path_segments_mut() {
            Ok(mut path) => {
                path.pop_if_empty().extend(segments);
            }
            Err(()) => return Err(place::no_address(self.base.as_str())),
        }
        Ok(address)
    }

    async fn body(&self, mut response: Response) -> Result<Vec<u8>, Failure> {
        let mut whole = Vec::new();
        while let Some(part) = response
            .chunk()
            .await
            .map_err(|error| self.no_answer(&error))?
        {
            if whole.len() + part.len() > ANSWER_BYTES {
                return Err(Failure::no(format!(
                    "the answer of {} is too long",
                    self.base
                )));
            }
            whole.extend_from_slice(&part);
        }
        Ok(whole)
    }

    fn no_answer(&self, error: &reqwest::Error) -> Failure {
        let at = self.place();
        // A web server may also cut such a connection off, or answer in the clear.
        if self.base.scheme() == "https" && is_no_tls(error) {
            return Failure::usage(format!("{at} does not speak TLS")).next(
                "use http:// with an address of this machine; or name the port that speaks TLS",
            );
        }
        if error.is_connect() {
            return Failure::usage(format!("no node answers at {at}: {}", cause(error)))
                .next("start it with: chancery serve; or name another with --url or CHANCERY_URL");
        }
        if error.is_timeout() {
            let waited = self.answer_timeout.as_secs();
            return Failure::no(format!("the node at {at} did not answer within {waited} s"))
                .next("what was asked may be done all the same: look before asking again");
        }
        let next = match self.base.scheme() {
            "http" if is_no_http(error) => {
                "is there a chancery node at that address? One with TLS is named with https://"
            }
            _ => "what was asked may be done all the same: look before asking again",
        };
        Failure::no(format!("the node at {at} broke off: {}", cause(error))).next(next)
    }
}

/// Whether what answered a greeting of TLS was something else, or nothing. The reason is wrapped too deep to be asked by type.
pub(crate) fn is_no_tls(error: &reqwest::Error) -> bool {
    let told = cause(error);
    told.starts_with("received corrupt message") || told.ends_with("handshake eof")
}

/// Whether what came back is no HTTP at all, such as the alert of a port that speaks TLS.
fn is_no_http(error: &reqwest::Error) -> bool {
    cause(error).starts_with("invalid HTTP")
}

fn causes<'e>(
    error: &'e reqwest::Error,
) -> impl Iterator<Item = &'e (dyn std::error::Error + 'static)> {
    let first: &(dyn std::error::Error + 'static) = error;
    std::iter::successors(Some(first), |error| error.source())
}

/// A client of an address without TLS asks for no certificates: a system that has none can speak to itself.
pub(crate) fn without_roots(builder: ClientBuilder, url: &Url) -> ClientBuilder {
    if url.scheme() == "https" {
        builder
    } else {
        builder.tls_certs_only([])
    }
}

/// The innermost reason: the outer ones only say that a request failed.
pub(crate) fn cause(error: &reqwest::Error) -> String {
    causes(error)
        .last()
        .map(ToString::to_string)
        .unwrap_or_default()
}
