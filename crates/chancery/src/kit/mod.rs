//! The test kit: questions to any live server of a protocol, each with the requirement that its answer shows.
//!
//! Guarantees: the kit uses the protocol's own door and nothing else of the server, makes every identifier anew, and
//! leaves the server so that it can be run again. Every question is answered for in the report.
//!
//! Refuses to: guess. The server has to be set up with the participants of [`setup`], whose keys the kit has.

mod agh;
pub(crate) mod setup;
mod signed;
mod vacant;
mod value_context;
mod vibe;

use std::time::Duration;

use chancery_core::ids::v4;
use reqwest::header::RETRY_AFTER;
use serde::Serialize;
use serde_json::Value;

use crate::client::{Answered, NodeClient};
use crate::exit::{Exit, Failure};
use crate::secret_file;

/// How often the kit comes back to a server that finds it too fast.
const ATTEMPTS: u32 = 20;
/// The longest that it waits each time.
const LONGEST_PAUSE: Duration = Duration::from_secs(5);

/// One question and what came back.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Check {
    /// The requirement that the answer shows.
    pub(crate) requirement: &'static str,
    /// What was asked.
    pub(crate) asked: String,
    /// What the requirement wants to hear.
    pub(crate) expected: String,
    /// What was heard.
    pub(crate) came_back: String,
    /// Whether they are the same.
    pub(crate) passed: bool,
}

/// A run of the kit.
pub(crate) struct Kit<'n> {
    node: &'n NodeClient,
    checks: Vec<Check>,
}

/// Whether there are questions about what is signed: value-context and vacant are always signed.
pub(crate) fn is_signed_on_demand(protocol: &str) -> bool {
    matches!(protocol, "vibe" | "agh")
}

/// Asks a server everything that the kit knows about a protocol; or about what is signed in it, where it need not be.
///
/// # Errors
/// Nothing answers there, or this machine gives no random bytes.
pub(crate) async fn run(
    node: &NodeClient,
    protocol: &str,
    signed: bool,
) -> Result<Vec<Check>, Failure> {
    let checks = Vec::new();
    let mut kit = Kit { node, checks };
    match protocol {
        "agh" if signed => signed::ask_agh(&mut kit).await?,
        "vibe" if signed => signed::ask_vibe(&mut kit).await?,
        "value-context" => value_context::ask(&mut kit).await?,
        "agh" => agh::ask(&mut kit).await?,
        "vacant" => vacant::ask(&mut kit).await?,
        _ => vibe::ask(&mut kit).await?,
    }
    Ok(kit.checks)
}

impl Kit<'_> {
    /// Notes what came back; says whether it is what the requirement wants.
    fn check(
        &mut self,
        requirement: &'static str,
        asked: impl Into<String>,
        expected: &str,
        came_back: impl Into<String>,
    ) -> bool {
        let came_back = came_back.into();
        let passed = came_back == expected;
        self.checks.push(Check {
            requirement,
            asked: asked.into(),
            expected: expected.to_owned(),
            came_back,
            passed,
        });
        passed
    }

    /// Posts JSON to a path; again, when the server finds the kit too fast.
    async fn post(&self, path: &[&str], body: impl Into<Vec<u8>>) -> Result<Exchange, Failure> {
        self.post_as("application/json", path, body).await
    }

    /// The same with another media type.
    async fn post_as(
        &self,
        media_type: &'static str,
        path: &[&str],
        body: impl Into<Vec<u8>>,
    ) -> Result<Exchange, Failure> {
        let body = body.into();
        let mut attempt = 1;
        loop {
            let answered = self.node.post_as(media_type, path, body.clone()).await;
            let exchange = Exchange::of(answered)?;
            let Some(pause) = exchange.pause().filter(|_| attempt < ATTEMPTS) else {
                return Ok(exchange);
            };
            attempt += 1;
            tokio::time::sleep(pause).await;
        }
    }

    /// Reads a path.
    async fn get(&self, path: &[&str]) -> Result<Exchange, Failure> {
        Exchange::of(self.node.get(path).await)
    }
}

/// An answer, or that there was none.
struct Exchange {
    /// The HTTP status; 0 when the server broke off.
    status: u16,
    /// The body, where it is JSON.
    body: Value,
    /// The answer as it came.
    answered: Option<Answered>,
}

impl Exchange {
    /// A server that breaks off has answered in its way; one that nobody can reach cannot be tested.
    fn of(answered: Result<Answered, Failure>) -> Result<Self, Failure> {
        match answered {
            Ok(answered) => Ok(Self {
                status: answered.status,
                body: serde_json::from_slice(&answered.body).unwrap_or_default(),
                answered: Some(answered),
            }),
            Err(failure) if failure.exit == Exit::No => Ok(Self {
                status: 0,
                body: Value::Null,
                answered: None,
            }),
            Err(failure) => Err(failure),
        }
    }

    /// The status and one word of the body.
    fn told(&self, word: &Value) -> String {
        match (self.status, word.as_str()) {
            (0, _) => "no answer".to_owned(),
            (status, Some(word)) => format!("{status} {word}"),
            (status, None) => status.to_string(),
        }
    }

    /// The bytes of the body.
    fn bytes(&self) -> &[u8] {
        self.answered
            .as_ref()
            .map_or(&[], |answered| &answered.body)
    }

    /// A header.
    fn header(&self, name: &str) -> Option<&str> {
        self.answered.as_ref()?.headers.get(name)?.to_str().ok()
    }

    /// How long to wait before the next attempt, for a server that finds the kit too fast.
    fn pause(&self) -> Option<Duration> {
        if self.status != 429 {
            return None;
        }
        let seconds = self.header(RETRY_AFTER.as_str())?.parse().ok()?;
        Some(Duration::from_secs(seconds).min(LONGEST_PAUSE))
    }
}

/// A fresh identifier.
fn fresh_id() -> Result<String, Failure> {
    Ok(v4(*secret_file::random::<16>()?).to_string())
}
