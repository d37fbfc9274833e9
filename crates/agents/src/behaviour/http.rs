//! `http:URL`: the agent is a web service.
//!
//! One POST a step, with the context of `schemas/request.json`, answered 200 with a decision or a list of them as in
//! `schemas/decision.json`. Whoever answers in words is asked as in `schemas/question.json` and answers as in
//! `schemas/words.json`. The request is signed with the agent's key (RFC 9421). One that was not answered is
//! repeated once, under the same `id`: a service that has seen it gives the same answer.

use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use chancery_core::keys::ed25519::SigningKey;
use futures_util::future::BoxFuture;
use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::{Form, InferElsewhere, Inferred, Request, Unanswered, signed};
use crate::budget::Usage;

/// The largest answer.
const MAX_ANSWER: usize = 262_144;
/// How long a connection may take.
const CONNECT: Duration = Duration::from_secs(5);
/// Attempts in all.
const ATTEMPTS: u32 = 2;

/// The service could not be reached, or did not answer in the form it has to.
pub const HTTP_FAILED: &str = "http_failed";
/// The service answered with another status than 200.
pub const HTTP_STATUS: &str = "http_status";
/// The answer is too large, no text, or no words where words are wanted.
pub const HTTP_ANSWER: &str = "http_answer";

/// A web service that answers for an agent.
pub struct Http {
    url: String,
    key: Arc<SigningKey>,
    client: reqwest::Client,
}

/// A client for behaviours elsewhere: follows no redirect, and asks no proxy.
///
/// # Errors
/// TLS cannot be set up.
pub fn client() -> Result<reqwest::Client, reqwest::Error> {
    // Another part of the program may have chosen a provider already.
    let _ = rustls::crypto::aws_lc_rs::default_provider().install_default();
    let builder = || {
        reqwest::Client::builder()
            .redirect(reqwest::redirect::Policy::none())
            .connect_timeout(CONNECT)
            .no_proxy()
    };
    // A system without root certificates trusts nobody; what needs no TLS goes on there.
    let trusting_nobody = |_| builder().tls_certs_only([]).build();
    builder().build().or_else(trusting_nobody)
}

/// The body of a request.
pub fn body(request: &Request) -> Value {
    let context = request.parts.iter().cloned();
    let context: Map<String, Value> = context
        .map(|(name, part)| (name.to_owned(), part))
        .collect();
    json!({
        "id": format!("{}/{}", request.turn_id, request.step),
        "turn_id": request.turn_id,
        "step": request.step,
        "agent": request.agent,
        "address": request.address,
        "context": context,
    })
}

impl Http {
    /// The service at an address.
    pub fn new(url: &str, key: Arc<SigningKey>, client: reqwest::Client) -> Self {
        Self {
            url: url.to_owned(),
            key,
            client,
        }
    }

    async fn ask(&self, body: &[u8]) -> Result<String, Failed> {
        let now = SystemTime::now().duration_since(UNIX_EPOCH);
        let created = now.map_or(0, |now| i64::try_from(now.as_secs()).unwrap_or(i64::MAX));
        let headers = signed::sign(&self.key, &self.url, body, created);
        let sent = self
            .client
            .post(&self.url)
            .header("content-type", "application/json")
            .header("content-digest", headers.content_digest)
            .header("signature-input", headers.signature_input)
            .header("signature", headers.signature)
            .body(body.to_vec());
        let mut response = sent.send().await.map_err(|_| Failed::again(HTTP_FAILED))?;
        match response.status().as_u16() {
            200 => {}
            502..=504 => return Err(Failed::again(HTTP_STATUS)),
            _ => return Err(Failed::for_good(HTTP_STATUS)),
        }
        let mut answer = Vec::new();
        while let Some(part) = response
            .chunk()
            .await
            .map_err(|_| Failed::again(HTTP_FAILED))?
        {
            if answer.len() + part.len() > MAX_ANSWER {
                return Err(Failed::for_good(HTTP_ANSWER));
            }
            answer.extend_from_slice(&part);
        }
        String::from_utf8(answer).map_err(|_| Failed::for_good(HTTP_ANSWER))
    }
}

/// An answer in words.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Said {
    text: String,
}

fn words(text: &str) -> Result<String, Unanswered> {
    let said: Result<Said, _> = serde_json::from_str(text);
    said.map(|said| said.text).map_err(|_| Unanswered {
        code: HTTP_ANSWER,
        usage: Usage::FREE,
    })
}

/// Why an attempt failed, and whether another may help.
struct Failed {
    code: &'static str,
    again: bool,
}

impl Failed {
    const fn again(code: &'static str) -> Self {
        Self { code, again: true }
    }

    const fn for_good(code: &'static str) -> Self {
        Self { code, again: false }
    }
}

impl InferElsewhere for Http {
    fn infer(&self, request: Request) -> BoxFuture<'_, Result<Inferred, Unanswered>> {
        Box::pin(async move {
            let body = body(&request).to_string();
            let mut attempt = 1;
            loop {
                match self.ask(body.as_bytes()).await {
                    Ok(text) => {
                        let usage = Usage::FREE;
                        let text = match request.form {
                            Form::Decisions => text,
                            Form::Words => words(&text)?,
                        };
                        return Ok(Inferred { text, usage });
                    }
                    Err(failed) if failed.again && attempt < ATTEMPTS => attempt += 1,
                    Err(failed) => {
                        return Err(Unanswered {
                            code: failed.code,
                            usage: Usage::FREE,
                        });
                    }
                }
            }
        })
    }
}
