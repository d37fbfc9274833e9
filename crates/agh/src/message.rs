//! An envelope as the rules take it: everything they read, owned, with the faults that rank after a check of theirs.

use bytes::Bytes;
use chancery_core::canonical::{Canonical, Dialect, canonical_cutting};
use chancery_core::json::Value;

use crate::body::Content as Checked;
use crate::body::card::PeerCard;
use crate::conversation::{self, Container as ContainerRef};
use crate::envelope::{Envelope, parse};
use crate::fault::Fault;
use crate::kind::Kind;
use crate::lifecycle::Event;
use crate::revision::Revision;
use crate::settings::Settings;
use crate::trust::{self, TrustState};
use crate::validate::{check_content, members};
use crate::whois::{Catalog, Wanted};
use crate::{freshness, secret};

/// Where something is said in revision B.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Container {
    /// `thread` or `direct`.
    pub surface: &'static str,
    /// The thread's or room's name.
    pub id: Box<str>,
}

impl Container {
    fn of(container: ContainerRef<'_>) -> Self {
        Self {
            surface: container.surface(),
            id: container.id().into(),
        }
    }
}

/// What an envelope says, as far as rules look at it.
#[derive(Clone, Debug, PartialEq)]
pub enum Content {
    /// `greet`
    Greet(Box<PeerCard>),
    /// A question.
    Request {
        /// What is asked for.
        query: Option<Box<str>>,
        /// Whether the whole catalog is wanted.
        wanted: Wanted,
    },
    /// Its answer.
    Response {
        /// Who answers.
        card: Box<PeerCard>,
        /// What it can do, when it was asked to say.
        catalog: Option<Catalog>,
    },
    /// `say`, `direct` and `capability`
    Said,
    /// `receipt` and `trace`
    Report(Event),
}

/// An envelope whose members are well formed.
#[derive(Clone, Debug)]
pub struct Message {
    /// Which revision it is of.
    pub revision: Revision,
    /// Its identifier.
    pub id: Box<str>,
    /// What it is for; none for a kind that is not known.
    pub kind: Option<Kind>,
    /// The workspace (revision B).
    pub workspace: Option<Box<str>>,
    /// Where it is said.
    pub channel: Box<str>,
    /// Who says so.
    pub from: Box<str>,
    /// Whom it is directed to.
    pub to: Option<Box<str>>,
    /// The interaction or work it names.
    pub work: Option<Box<str>>,
    /// The container, when it is a good one (revision B).
    pub container: Option<Container>,
    /// What it answers.
    pub reply_to: Option<Box<str>>,
    /// End-to-end correlation.
    pub trace_id: Option<Box<str>>,
    /// When it was made.
    pub ts: u64,
    /// When it ends.
    pub expires_at: Option<u64>,
    /// What it says, or what is wrong with that; raised after freshness.
    pub content: Result<Content, Fault>,
    /// What is known about its sender.
    pub trust: TrustState,
    journal: Canonical,
    received: Bytes,
}

/// What could not be read, with what could: so that a refusal names its message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Undecodable {
    /// What is wrong.
    pub fault: Fault,
    /// The identifier, when there is a good one.
    pub id: Option<String>,
    /// The revision, as far as it can be told.
    pub revision: Revision,
}

impl Message {
    /// Reads an envelope. `received_at` (whole Unix seconds) only saves work: a proof that would be looked at after
    /// a fault is not looked at.
    pub fn decode(
        received: Bytes,
        settings: &Settings,
        received_at: Option<i64>,
    ) -> Result<Self, Undecodable> {
        let undecodable = |fault| Undecodable {
            fault,
            id: None,
            revision: Revision::A,
        };
        let value = parse(&received, settings.max_payload).map_err(undecodable)?;
        let envelope = members(&value, settings).map_err(|fault| Undecodable {
            id: value.get("id").and_then(Value::as_str).map(str::to_owned),
            revision: guess_revision(&value),
            fault,
        })?;
        Ok(Self::of(
            &value,
            &envelope,
            received.clone(),
            settings,
            received_at,
        ))
    }

    fn of(
        value: &Value<'_>,
        envelope: &Envelope<'_>,
        received: Bytes,
        settings: &Settings,
        received_at: Option<i64>,
    ) -> Self {
        let checked = check_content(envelope, settings);
        let is_stale = received_at.is_some_and(|now| {
            freshness::check(
                envelope.ts,
                envelope.expires_at,
                now,
                settings.max_replay_age_s,
            )
            .is_err()
        });
        let trust = if checked.is_ok() && !is_stale {
            trust::evaluate(value, envelope, settings)
        } else {
            TrustState::Unverified
        };
        let container = match &checked {
            Ok(checked) => checked.container,
            // A receipt for what is refused stands where that stood.
            Err(_) => conversation::container(envelope).ok(),
        };
        let content = checked.and_then(|checked| {
            if settings.secret_guard_inbound {
                secret::check(envelope.body, envelope.proof, envelope.ext)?;
            }
            Ok(Content::of(checked.content, envelope))
        });
        Self {
            revision: envelope.revision,
            id: envelope.id.into(),
            kind: envelope.kind,
            workspace: envelope.workspace_id.map(Into::into),
            channel: envelope.channel.into(),
            from: envelope.from.into(),
            to: envelope.to.map(Into::into),
            work: envelope.work().map(Into::into),
            container: container.map(Container::of),
            reply_to: envelope.reply_to.map(Into::into),
            trace_id: envelope.trace_id.map(Into::into),
            ts: envelope.ts,
            expires_at: envelope.expires_at,
            content,
            trust,
            journal: canonical_cutting(value, "proof", Dialect::Vibe),
            received,
        }
    }

    /// The envelope in the form a journal line holds (CH-JRN-3).
    pub fn journal_bytes(&self) -> &[u8] {
        self.journal.bytes()
    }

    /// The received text, when reading the journal's form back would not give the received values again (AG-ENV-19).
    pub fn raw_for_journal(&self) -> Option<&Bytes> {
        (!self.journal.verbatim()).then_some(&self.received)
    }

    /// The bytes as they came in.
    pub const fn received(&self) -> &Bytes {
        &self.received
    }
}

impl Content {
    fn of(content: Checked<'_>, envelope: &Envelope<'_>) -> Self {
        match content {
            Checked::Greet(card) => Self::Greet(Box::new(card.kept())),
            Checked::Request { query } => Self::Request {
                query: query.map(Into::into),
                wanted: Wanted::of(envelope),
            },
            Checked::Response(card) => Self::Response {
                card: Box::new(card.kept()),
                catalog: Catalog::of(envelope),
            },
            Checked::Talk { .. } | Checked::Capability(_) => Self::Said,
            Checked::Receipt(status) => Self::Report(Event::Receipt(status)),
            Checked::Trace(state) => Self::Report(Event::Trace(state)),
        }
    }
}

fn guess_revision(value: &Value<'_>) -> Revision {
    if value.get("workspace_id").is_some() {
        Revision::B
    } else {
        Revision::A
    }
}
