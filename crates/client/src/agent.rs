//! An agent: what it says, what it hears, and whether it may act.

use std::collections::{BTreeMap, VecDeque};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use chancery_core::admin::RunState;
use chancery_core::line::Seq;
use chancery_value_context::message_id::MessageId;
use chancery_value_context::payload::{Mode, Payload, RESUME, Severity};
use serde::Deserialize;
use serde_json::{Value, json};

use crate::error::Error;
use crate::incoming::{Incoming, Verdict};
use crate::way::Way;

/// How long one look into the inbox waits.
const LOOK: Duration = Duration::from_secs(20);
/// How long an acknowledgement is waited for: four attempts of delivery with their pauses, then six seconds (VX-RTY-1,
/// VX-RTY-2, VX-ACK-6).
const ACKNOWLEDGED_WITHIN: Duration = Duration::from_secs(4 * 5 + 7 + 6);
/// The context of an agent that has none (VX-ACK-1).
const NO_CONTEXT: &str = "📍💻";
/// The constitution that a constraint is said to come from when none was given.
const NO_CONSTITUTION: &str = "creed://localhost/agent";

/// An agent that a node hosts.
pub struct Agent {
    way: Way,
    id: String,
    constitution: String,
    /// Entries that were read and not given out.
    page: VecDeque<Value>,
    /// The last line that was read.
    read: Option<Seq>,
}

/// What the node holds about an agent.
#[derive(Clone, Debug, PartialEq, Deserialize)]
pub struct State {
    /// Whether it may act.
    pub run_state: RunState,
    /// Its children and whether they may.
    #[serde(default)]
    pub children: BTreeMap<String, RunState>,
    /// The constraints it is under, `type` and `value` each.
    #[serde(default)]
    pub constraints: Vec<Value>,
    /// Its current context.
    #[serde(default)]
    pub context: Option<String>,
    /// Escalations that are open.
    #[serde(default)]
    pub open_escalations: Vec<String>,
}

/// An operation that has begun; a pause lets it end (VX-RUN-1).
#[derive(Debug)]
#[must_use = "an operation that has begun is ended with end_operation"]
pub struct Operation(());

/// What an agent has to say when it needs help.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Asked<'a> {
    /// How grave it is.
    pub severity: Severity,
    /// Why, for people.
    pub reason: &'a str,
    /// What it was about to do.
    pub blocked_action: Option<&'a str>,
}

/// An escalation that is on record and on its way.
#[derive(Debug)]
#[must_use = "its outcome tells whether anybody heard it"]
pub struct Escalated<'a> {
    agent: &'a Agent,
    /// Its identifier.
    pub message_id: MessageId,
    after: Option<Seq>,
}

/// What became of an escalation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The parent has it; this is what it says it did to the agent, if it says so.
    Acknowledged(Option<RunState>),
    /// Nobody acknowledged it in time. The node has gone on along the escalation path by itself (VX-ACK-7).
    Unacknowledged,
}

impl Agent {
    pub(crate) fn new(way: Way, id: &str) -> Self {
        Self {
            way,
            id: id.to_owned(),
            constitution: NO_CONSTITUTION.to_owned(),
            page: VecDeque::new(),
            read: None,
        }
    }

    /// The same agent, whose constraints come from this constitution.
    #[must_use]
    pub fn with_constitution(mut self, constitution_ref: impl Into<String>) -> Self {
        self.constitution = constitution_ref.into();
        self
    }

    /// Its identifier.
    pub fn id(&self) -> &str {
        &self.id
    }

    /// What the node holds about it.
    pub async fn state(&self) -> Result<State, Error> {
        let state = self.way.state(&self.id).await?;
        serde_json::from_value(state).map_err(|error| Error::Answer(error.to_string()))
    }

    /// Begins something new; refused while the agent is paused or suspended (VX-RUN-3).
    pub async fn begin_operation(&self) -> Result<Operation, Error> {
        match self.state().await?.run_state {
            RunState::Running => Ok(Operation(())),
            held => Err(Error::Held(held)),
        }
    }

    /// Asks for leave to put something out, as part of an operation; refused while suspended (VX-RUN-3).
    pub async fn emit(&self, _: &Operation) -> Result<(), Error> {
        match self.state().await?.run_state {
            RunState::Suspended => Err(Error::Held(RunState::Suspended)),
            _ => Ok(()),
        }
    }

    /// Ends what was begun. That is never refused.
    pub fn end_operation(&self, operation: Operation) {
        let Operation(()) = operation;
    }

    /// Waits until the agent may act.
    pub async fn until_running(&self) -> Result<(), Error> {
        let mut after = None;
        while self.state().await?.run_state != RunState::Running {
            // What lets it go on comes by its inbox.
            let page = self.way.inbox(&self.id, after, LOOK).await?;
            after = page
                .last()
                .and_then(|entry| entry["seq"].as_u64())
                .or(after);
        }
        Ok(())
    }

    /// Shares a context; `to` is an agent or `broadcast`.
    pub async fn share(&self, to: &str, context: &str) -> Result<MessageId, Error> {
        let payload = json!({ "context": context, "constitution_ref": self.constitution });
        self.send(to, "context_share", payload).await
    }

    /// Announces the constitution that it acts under; the hash is of its manifest (VX-CA-2).
    pub async fn announce(&self, to: &str, manifest_hash: &str) -> Result<MessageId, Error> {
        let payload = json!({
            "constitution_ref": self.constitution,
            "manifest_hash": manifest_hash,
        });
        self.send(to, "constitution_announce", payload).await
    }

    /// Puts a child under constraints, type and value each. Whether the child goes on is said as well: only
    /// [`Agent::resume`] and [`Verdict::Resolve`] let it.
    pub async fn propagate(
        &self,
        child: &str,
        constraints: &[(String, Value)],
        mode: Mode,
    ) -> Result<MessageId, Error> {
        let stays = (RESUME.to_owned(), json!({ "resume": false }));
        let entries = constraints.iter().chain([&stays]);
        self.constrain(child, entries, mode).await
    }

    /// Lets a child go on, whatever it escalated.
    pub async fn resume(&self, child: &str) -> Result<MessageId, Error> {
        let goes_on = (RESUME.to_owned(), json!({ "resume": true }));
        self.constrain(child, [&goes_on], Mode::Merge).await
    }

    async fn constrain(
        &self,
        child: &str,
        constraints: impl IntoIterator<Item = &(String, Value)>,
        mode: Mode,
    ) -> Result<MessageId, Error> {
        let constraints = self.entries(constraints);
        let mode = match mode {
            Mode::Merge => "merge",
            Mode::Override => "override",
        };
        let payload = json!({ "constraints": constraints, "propagation_mode": mode });
        self.send(child, "constraint_propagate", payload).await
    }

    /// Constraints as a payload carries them.
    fn entries<'a>(
        &self,
        constraints: impl IntoIterator<Item = &'a (String, Value)>,
    ) -> Vec<Value> {
        let source = &self.constitution;
        let entry = |(kind, value): &(String, Value)| json!({ "type": kind, "value": value, "source_constitution_ref": source });
        constraints.into_iter().map(entry).collect()
    }

    /// Asks the parent for help. The agent is paused or suspended when this returns, as the severity has it (VX-RUN-2);
    /// [`Escalated::outcome`] tells whether anybody heard.
    pub async fn escalate(&self, parent: &str, asked: Asked<'_>) -> Result<Escalated<'_>, Error> {
        // The acknowledgement comes after what is in the inbox now.
        let mut after = None;
        loop {
            let page = self.way.inbox(&self.id, after, Duration::ZERO).await?;
            match page.last().and_then(|entry| entry["seq"].as_u64()) {
                Some(last) => after = Some(last),
                None => break,
            }
        }
        let context = self.state().await?.context;
        let mut payload = json!({
            "severity": asked.severity.as_str(),
            "reason": asked.reason,
            "context": context.as_deref().unwrap_or(NO_CONTEXT),
            "requires_ack": true,
        });
        if let Some(action) = asked.blocked_action {
            payload["blocked_action"] = action.into();
        }
        let message_id = self.send(parent, "escalation", payload).await?;
        Ok(Escalated {
            agent: self,
            message_id,
            after,
        })
    }

    /// The next message, in the order of the journal. One that is not acknowledged is shown again to the next that reads.
    pub async fn next(&mut self) -> Result<Incoming, Error> {
        loop {
            if let Some(entry) = self.page.pop_front() {
                let incoming = Incoming::read(entry)?;
                self.read = Some(incoming.seq);
                return Ok(incoming);
            }
            self.page = self.way.inbox(&self.id, self.read, LOOK).await?.into();
        }
    }

    /// Says that everything up to this message is dealt with.
    pub async fn acknowledge(&self, incoming: &Incoming) -> Result<(), Error> {
        self.way.acknowledge(&self.id, incoming.seq).await
    }

    /// Says what becomes of a child's escalation (VX-RUN-7). Only a critical one waits to be held or passed on.
    pub async fn answer(&self, incoming: &Incoming, verdict: Verdict) -> Result<MessageId, Error> {
        if !matches!(incoming.payload, Payload::Escalation(_)) {
            return Err(Error::Given("only an escalation is answered".to_owned()));
        }
        let (word, constraints) = match verdict {
            Verdict::Resolve(constraints) => ("resolve", constraints),
            Verdict::Hold => ("hold", Vec::new()),
            Verdict::Escalate => ("escalate", Vec::new()),
        };
        let mut body = json!({
            "sender": self.id,
            "verdict": word,
            "escalation_id": incoming.message_id.to_string(),
        });
        if !constraints.is_empty() {
            body["constraints"] = self.entries(&constraints).into();
        }
        self.hand_over(&body).await
    }

    async fn send(&self, to: &str, kind: &str, payload: Value) -> Result<MessageId, Error> {
        let body = json!({
            "sender": self.id,
            "recipient": to,
            "type": kind,
            "payload": payload,
        });
        self.hand_over(&body).await
    }

    async fn hand_over(&self, body: &Value) -> Result<MessageId, Error> {
        let id = self.way.send(body, &once()).await?;
        MessageId::parse(&id).ok_or_else(|| Error::Answer("its identifier".to_owned()))
    }
}

impl Escalated<'_> {
    /// Waits for the acknowledgement, for as long as one can still come in time: half a minute at most.
    pub async fn outcome(&self) -> Result<Outcome, Error> {
        self.outcome_within(ACKNOWLEDGED_WITHIN).await
    }

    /// The same for somebody who cannot wait so long.
    pub async fn outcome_within(&self, wait: Duration) -> Result<Outcome, Error> {
        let waited = tokio::time::timeout(wait, self.acknowledged()).await;
        match waited {
            Ok(state) => Ok(Outcome::Acknowledged(state?)),
            Err(_) => Ok(Outcome::Unacknowledged),
        }
    }

    async fn acknowledged(&self) -> Result<Option<RunState>, Error> {
        let mut after = self.after;
        loop {
            for entry in self.agent.way.inbox(&self.agent.id, after, LOOK).await? {
                let incoming = Incoming::read(entry)?;
                after = Some(incoming.seq);
                if let Payload::Escalation(escalation) = &incoming.payload
                    && let Some(acknowledgement) = escalation.acknowledges
                    && acknowledgement.of == self.message_id
                {
                    return Ok(acknowledgement.state);
                }
            }
        }
    }
}

impl std::fmt::Debug for Agent {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Agent({})", self.id)
    }
}

/// A key that no other request of this machine has: chosen before the first attempt, so that a repeat has one effect.
fn once() -> String {
    static REQUESTS: AtomicU64 = AtomicU64::new(0);
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    let nanos = since.unwrap_or_default().as_nanos();
    let number = REQUESTS.fetch_add(1, Ordering::Relaxed);
    format!("{}-{nanos}-{number}", std::process::id())
}
