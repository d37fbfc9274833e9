//! A node that runs elsewhere, over its HTTP doors (section 2 of the interface).

use std::net::IpAddr;
use std::time::Duration;

use chancery_core::line::Seq;
use reqwest::header::{AUTHORIZATION, CONTENT_TYPE, HeaderValue};
use reqwest::{Client, Method, RequestBuilder, Url};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use crate::agent::Agent;
use crate::error::{Error, Refused};
use crate::way::{PAGE, Way};

/// The most of an answer that is read.
const ANSWER_BYTES: usize = 16 << 20;
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
/// How long an answer may take beyond the wait that was asked for.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(30);
/// Attempts to make one request whose answer did not come; the first, and two more.
const ATTEMPTS: u32 = 3;

/// A node elsewhere, and the token to speak to it with.
#[derive(Clone)]
pub struct Remote {
    client: Client,
    base: Url,
    authorization: Option<HeaderValue>,
}

#[derive(Deserialize)]
struct Page {
    entries: Vec<Value>,
}

#[derive(Deserialize)]
struct Sent {
    message_id: Option<String>,
    error: Option<Refused>,
}

impl Remote {
    /// The node at this address. A token goes to another machine over TLS only.
    pub fn new(address: &str, token: Option<&str>) -> Result<Self, Error> {
        // Another part of the program may have chosen a provider already.
        let _ = rustls::crypto::aws_lc_rs::default_provider().install_default();
        let base = Url::parse(address).map_err(|error| Error::Given(error.to_string()))?;
        if !may_be_used(&base) {
            let why = "a node on another machine is reached by https:// alone";
            return Err(Error::Given(why.to_owned()));
        }
        let client = Client::builder()
            .redirect(reqwest::redirect::Policy::none())
            .no_proxy()
            .connect_timeout(CONNECT_TIMEOUT)
            .build()
            .map_err(|error| Error::Given(error.to_string()))?;
        let authorization = token
            .map(|token| {
                let mut value = HeaderValue::try_from(format!("Bearer {token}"))
                    .map_err(|_| Error::Given("the token has other characters".to_owned()))?;
                value.set_sensitive(true);
                Ok::<_, Error>(value)
            })
            .transpose()?;
        Ok(Self {
            client,
            base,
            authorization,
        })
    }

    /// An agent that is hosted there. The token has to allow to speak as it and to read its inbox and state.
    pub fn agent(&self, id: &str) -> Agent {
        Agent::new(Way::Remote(self.clone()), id)
    }

    pub(crate) async fn send(&self, body: &Value, once: &str) -> Result<String, Error> {
        let request = || {
            self.request(Method::POST, &["send", "value-context"])
                .map(|request| {
                    request
                        .header("idempotency-key", once)
                        .header(CONTENT_TYPE, "application/json")
                        .body(body.to_string())
                        .timeout(ANSWER_TIMEOUT)
                })
        };
        let (status, body) = repeated(request).await?;
        let sent: Sent = read(status, &body)?;
        match (sent.error, sent.message_id) {
            (Some(refused), _) => Err(refused.into()),
            (None, Some(id)) => Ok(id),
            (None, None) => Err(Error::NotLetIn(status)),
        }
    }

    pub(crate) async fn inbox(
        &self,
        agent: &str,
        after: Option<Seq>,
        wait: Duration,
    ) -> Result<Vec<Value>, Error> {
        let mut query = vec![
            ("limit", PAGE.to_string()),
            ("wait", wait.as_secs().to_string()),
        ];
        query.extend(after.map(|after| ("after", after.to_string())));
        let request = || {
            let mut address = self.address(&["inbox", "value-context", agent])?;
            address.query_pairs_mut().extend_pairs(&query);
            let request = self.authorized(Method::GET, address);
            Ok(request.timeout(wait + ANSWER_TIMEOUT))
        };
        let (status, body) = repeated(request).await?;
        let page: Page = let_in(status, &body)?;
        Ok(page.entries)
    }

    pub(crate) async fn acknowledge(&self, agent: &str, through: Seq) -> Result<(), Error> {
        let request = || {
            let path = ["inbox", "value-context", agent, "ack"];
            let request = self.request(Method::POST, &path)?;
            Ok(request
                .header(CONTENT_TYPE, "application/json")
                .body(json!({ "through": through }).to_string())
                .timeout(ANSWER_TIMEOUT))
        };
        let (status, body) = repeated(request).await?;
        let_in::<Value>(status, &body).map(drop)
    }

    pub(crate) async fn state(&self, agent: &str) -> Result<Value, Error> {
        let request = || {
            let request = self.request(Method::GET, &["state", "value-context", agent])?;
            Ok(request.timeout(ANSWER_TIMEOUT))
        };
        let (status, body) = repeated(request).await?;
        let_in(status, &body)
    }

    fn request(&self, method: Method, path: &[&str]) -> Result<RequestBuilder, Error> {
        Ok(self.authorized(method, self.address(path)?))
    }

    fn authorized(&self, method: Method, address: Url) -> RequestBuilder {
        let request = self.client.request(method, address);
        match &self.authorization {
            Some(authorization) => request.header(AUTHORIZATION, authorization.clone()),
            None => request,
        }
    }

    /// Segments are percent-encoded here, so that an agent's name stays one of them.
    fn address(&self, path: &[&str]) -> Result<Url, Error> {
        let mut address = self.base.clone();
        match address.path_segments_mut() {
            Ok(mut segments) => {
                segments.pop_if_empty().extend(path);
            }
            Err(()) => return Err(Error::Given("the address has no paths".to_owned())),
        }
        Ok(address)
    }
}

/// TLS, or this machine.
fn may_be_used(address: &Url) -> bool {
    let here = address.host_str().is_some_and(|host| {
        let host = host.trim_start_matches('[').trim_end_matches(']');
        host == "localhost" || host.parse::<IpAddr>().is_ok_and(|ip| ip.is_loopback())
    });
    match address.scheme() {
        "https" => true,
        "http" => here,
        _ => false,
    }
}

/// Makes a request until an answer comes, a few times. What the node answers is an answer, also a refusal.
async fn repeated(
    request: impl Fn() -> Result<RequestBuilder, Error>,
) -> Result<(u16, Vec<u8>), Error> {
    let mut attempt = 0;
    loop {
        attempt += 1;
        match answered(request()?).await {
            Err(Error::NoAnswer(_)) if attempt < ATTEMPTS => {
                tokio::time::sleep(Duration::from_secs(1 << (attempt - 1))).await;
            }
            result => return result,
        }
    }
}

async fn answered(request: RequestBuilder) -> Result<(u16, Vec<u8>), Error> {
    // Without the address: it may hold what is not for a log.
    let no_answer = |error: reqwest::Error| Error::NoAnswer(error.without_url().to_string());
    let mut response = request.send().await.map_err(no_answer)?;
    let status = response.status().as_u16();
    let mut body = Vec::new();
    while let Some(part) = response.chunk().await.map_err(no_answer)? {
        if body.len() + part.len() > ANSWER_BYTES {
            return Err(Error::Answer("it is too long".to_owned()));
        }
        body.extend_from_slice(&part);
    }
    Ok((status, body))
}

fn let_in<T: DeserializeOwned>(status: u16, body: &[u8]) -> Result<T, Error> {
    match status {
        200 => read(status, body),
        503 => Err(Error::NoAnswer("the node is busy".to_owned())),
        _ => Err(Error::NotLetIn(status)),
    }
}

fn read<T: DeserializeOwned>(status: u16, body: &[u8]) -> Result<T, Error> {
    serde_json::from_slice(body).map_err(|error| match status {
        200 => Error::Answer(error.to_string()),
        _ => Error::NotLetIn(status),
    })
}

impl std::fmt::Debug for Remote {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Remote({})", self.base)
    }
}
