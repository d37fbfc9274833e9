//! What answers in words for a hosted participant: the hook for behaviours that live outside the rules.
//!
//! A protocol that hosts somebody builds a [`Responder`] from whatever implements [`Respond`], takes a [`Slot`] before
//! it accepts what has to be answered, and then asks. It gets words or the reason why there are none, in time:
//!
//! ```no_run
//! # async fn example(responder: chancery_node::respond::Responder, question: chancery_node::respond::Question) {
//! use std::time::Duration;
//! let Some(slot) = responder.slot() else {
//!     return; // Answer "try again": too much is under way already.
//! };
//! // Accept and commit what is to be answered here, then:
//! match responder.ask(slot, question, Duration::from_secs(60)).await {
//!     Ok(words) => drop(words), // Commit and send the answer.
//!     Err(unheard) => drop(unheard), // Commit that there is none.
//! }
//! # }
//! ```
//!
//! Guarantees: an answer that does not come in time is given up and its behaviour ended; one that panics has failed and
//! nothing else; no more than the bound run at once; what came of each is counted. Whether an answer counts is up to
//! the rules: it is an input like any other, so a participant that is suspended meanwhile says nothing (CH-ID-5), and
//! nobody is answered twice (CH-JRN-16).
//!
//! Refuses: to be called in replay, which takes answers from the log.

use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use chancery_core::line::{ProtocolName, Seq};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// What a hosted participant is asked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Question {
    /// The protocol that it came by.
    pub protocol: ProtocolName,
    /// Its line in the log: the same when it is asked again after a restart. 0 for what is on no record.
    pub seq: Seq,
    /// Who is asked, by the name in the configuration.
    pub agent: String,
    /// Who is asked, as the protocol writes it.
    pub address: String,
    /// Who asks, as the protocol writes it.
    pub from: String,
    /// What is asked, in words.
    pub text: String,
    /// The message itself, marked as not to be trusted, where its protocol has such a form (AG-DLV-5).
    pub marked: Option<String>,
}

/// Why there are no words, as a code for logs and metrics.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NoWords(pub &'static str);

/// An answer under way.
pub type Answering<'a> = Pin<Box<dyn Future<Output = Result<String, NoWords>> + Send + 'a>>;

/// Answers in words. It may hang, fail, flood and panic.
pub trait Respond: Send + Sync {
    /// Answers a question. Dropping the answer ends whatever works on it.
    fn respond(&self, question: Question) -> Answering<'_>;

    /// Whether asking twice does no harm and gives the same: then a restart asks again (CH-JRN-16).
    fn is_pure(&self) -> bool;
}

/// Why a question stays without an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unheard {
    /// Its time is over.
    Timeout,
    /// The behaviour could not answer.
    Failed(&'static str),
}

/// A place among those that are answered at once.
#[derive(Debug)]
pub struct Slot {
    _permit: OwnedSemaphorePermit,
}

/// What answers for one participant, within bounds.
#[derive(Clone)]
pub struct Responder {
    respond: Arc<dyn Respond>,
    slots: Arc<Semaphore>,
}

impl fmt::Debug for Responder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let free = self.slots.available_permits();
        f.debug_struct("Responder")
            .field("free", &free)
            .finish_non_exhaustive()
    }
}

impl Responder {
    /// A behaviour of which so many answers may be under way at once.
    #[must_use]
    pub fn new(respond: Arc<dyn Respond>, at_once: usize) -> Self {
        Self {
            respond,
            slots: Arc::new(Semaphore::new(at_once)),
        }
    }

    /// Whether a restart asks again by itself.
    #[must_use]
    pub fn is_pure(&self) -> bool {
        self.respond.is_pure()
    }

    /// A place, if one is free.
    #[must_use]
    pub fn slot(&self) -> Option<Slot> {
        let slot = Arc::clone(&self.slots).try_acquire_owned();
        slot.ok().map(|permit| Slot { _permit: permit })
    }

    /// A place, as soon as one is free: for what is accepted already.
    pub async fn wait_for_slot(&self) -> Option<Slot> {
        let slot = Arc::clone(&self.slots).acquire_owned().await;
        slot.ok().map(|permit| Slot { _permit: permit })
    }

    /// Asks, on a task of its own.
    ///
    /// # Errors
    /// There is no answer in time, or none at all.
    pub async fn ask(
        &self,
        slot: Slot,
        question: Question,
        timeout: Duration,
    ) -> Result<String, Unheard> {
        let agent = question.agent.clone();
        let respond = Arc::clone(&self.respond);
        let task = tokio::spawn(async move {
            let words = respond.respond(question).await;
            drop(slot);
            words
        });
        // Whoever stops waiting, for whatever reason, wants no answer any more.
        let _ending = EndsWith(task.abort_handle());
        let heard = match tokio::time::timeout(timeout, task).await {
            Ok(Ok(Ok(words))) => Ok(words),
            Ok(Ok(Err(NoWords(code)))) => Err(Unheard::Failed(code)),
            Ok(Err(_)) => Err(Unheard::Failed("panicked")),
            Err(_) => Err(Unheard::Timeout),
        };
        count(agent, &heard);
        heard
    }
}

struct EndsWith(tokio::task::AbortHandle);

impl Drop for EndsWith {
    fn drop(&mut self) {
        self.0.abort();
    }
}

fn count(agent: String, heard: &Result<String, Unheard>) {
    let (outcome, code) = match heard {
        Ok(_) => ("answered", None),
        Err(Unheard::Timeout) => ("timeout", Some("timeout")),
        Err(Unheard::Failed(code)) => ("failed", Some(*code)),
    };
    if let Some(code) = code {
        tracing::debug!(%agent, code, "a behaviour gave no answer");
        metrics::counter!("chancery_agent_faults_total", "agent" => agent.clone(), "code" => code)
            .increment(1);
    }
    metrics::counter!("chancery_agent_turns_total", "agent" => agent, "outcome" => outcome)
        .increment(1);
}
