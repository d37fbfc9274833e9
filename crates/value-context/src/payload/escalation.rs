//! The payload of an `escalation`, and when one is an acknowledgement (VX-ES-1 to 3, VX-ACK-1).

use super::is_longer_than;
use crate::code::Fault;
use crate::members::{closed, required, required_text, text};
use crate::message::Version;
use crate::message_id::MessageId;
use chancery_core::admin::RunState;
use chancery_core::fault;
use chancery_core::json::{Place, Value};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Longest reason in code points.
pub const MAX_REASON: usize = 4_096;
/// Longest blocked action in code points.
const MAX_BLOCKED_ACTION: usize = 1_024;
/// The length of an identifier's text.
const ID_LENGTH: usize = 36;

/// How grave a concern is, lowest first.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "lowercase")]
#[schemars(rename = "severity")]
pub enum Severity {
    /// To be known.
    Info,
    /// To be looked at.
    Warning,
    /// To be attended to at once.
    Critical,
    /// To be acted on at once.
    Emergency,
}

impl Severity {
    /// All four, lowest first.
    pub const ALL: [Self; 4] = [Self::Info, Self::Warning, Self::Critical, Self::Emergency];

    /// The word for it.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Info => "info",
            Self::Warning => "warning",
            Self::Critical => "critical",
            Self::Emergency => "emergency",
        }
    }

    /// The severity of that word.
    pub fn named(word: &str) -> Option<Self> {
        Self::ALL
            .into_iter()
            .find(|severity| severity.as_str() == word)
    }

    /// Whether it stops somebody: critical and emergency.
    pub const fn is_grave(self) -> bool {
        matches!(self, Self::Critical | Self::Emergency)
    }
}

/// A concern of a child, or its acknowledgement.
#[derive(Clone, Debug, PartialEq, Eq, JsonSchema)]
#[schemars(rename = "escalation", deny_unknown_fields)]
#[schemars(extend("allOf" = crate::schema::when_acks_are_asked_for()))]
pub struct Escalation {
    /// How grave it is.
    pub severity: Severity,
    /// Why, for people.
    #[schemars(length(min = 1, max = MAX_REASON))]
    pub reason: Box<str>,
    /// The sender's context; any text, because a cry for help is never refused over it (VX-CTX-8).
    #[schemars(length(min = 1))]
    pub context: Box<str>,
    /// Whether the sender asks for an acknowledgement.
    pub requires_ack: bool,
    /// What the sender was about to do.
    #[schemars(length(max = MAX_BLOCKED_ACTION))]
    pub blocked_action: Option<Box<str>>,
    /// What it acknowledges, when it is an acknowledgement.
    #[schemars(skip)]
    pub acknowledges: Option<Acknowledgement>,
}

/// What an acknowledgement says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Acknowledgement {
    /// The escalation it is for.
    pub of: MessageId,
    /// What the acknowledging agent did to the sender, when it says so.
    pub state: Option<AckState>,
}

/// The state that an acknowledgement tells.
pub type AckState = RunState;

impl Escalation {
    pub(super) fn read(
        value: &Value<'_>,
        version: Version,
        place: &Place<'_>,
    ) -> Result<Self, Fault> {
        const NAMES: [&str; 5] = [
            "severity",
            "reason",
            "context",
            "requires_ack",
            "blocked_action",
        ];
        let [severity, reason, context, requires_ack, blocked] = closed(value, place, NAMES)?;
        let severity = read_severity(severity, &place.child("severity"))?;
        let reason = read_reason(reason, &place.child("reason"))?;
        let context_place = place.child("context");
        let context = required_text(context, &context_place)?;
        if context.is_empty() {
            return Err(Fault::schema(&context_place, "context is empty", "VX-ES-1"));
        }
        let blocked_action = read_blocked(blocked, &place.child("blocked_action"))?;
        let acknowledges = acknowledgement_of(reason, version);
        let place = place.child("requires_ack");
        let requires_ack = required(requires_ack, &place)?
            .as_bool()
            .ok_or_else(|| Fault::schema(&place, "must be a boolean", "VX-ES-1"))?;
        check_ack(severity, acknowledges.is_some(), requires_ack, &place)?;
        Ok(Self {
            severity,
            reason: reason.into(),
            context: context.into(),
            requires_ack,
            blocked_action,
            acknowledges,
        })
    }

    /// Whether it acknowledges another one.
    pub const fn is_acknowledgement(&self) -> bool {
        self.acknowledges.is_some()
    }
}

fn check_ack(
    severity: Severity,
    is_acknowledgement: bool,
    requires_ack: bool,
    place: &Place<'_>,
) -> Result<(), Fault> {
    let fault = |message, requirement| Err(Fault::schema(place, message, requirement));
    match (is_acknowledgement, requires_ack) {
        (true, true) => fault("an acknowledgement asks for none", "VX-ES-3"),
        (false, false) if severity.is_grave() && !fault::on("vx-grave-without-ack") => {
            fault("must be true for critical and emergency", "VX-ES-2")
        }
        _ => Ok(()),
    }
}

/// What a reason acknowledges: `ACK:`, at most one blank, an identifier that does not run on (VX-ES-3); then perhaps
/// `;state=` and a run state (VX-ACK-1).
pub fn acknowledgement_of(reason: &str, version: Version) -> Option<Acknowledgement> {
    let rest = reason.strip_prefix("ACK:")?;
    let rest = rest.strip_prefix(' ').unwrap_or(rest);
    let of = version.read_id(rest.get(..ID_LENGTH)?)?;
    let rest = &rest[ID_LENGTH..];
    let runs_on = |c: char| c.is_ascii_alphanumeric() || c == '-';
    if rest.starts_with(runs_on) {
        return None;
    }
    let state = rest.strip_prefix(";state=").and_then(|rest| {
        let end = rest
            .find(|c: char| !c.is_ascii_alphabetic())
            .unwrap_or(rest.len());
        let states = [RunState::Running, RunState::Paused, RunState::Suspended];
        states
            .into_iter()
            .find(|state| state.as_str() == &rest[..end])
    });
    Some(Acknowledgement { of, state })
}

fn read_severity(member: Option<&Value<'_>>, place: &Place<'_>) -> Result<Severity, Fault> {
    let word = required_text(member, place)?;
    Severity::named(word)
        .ok_or_else(|| Fault::schema(place, "severity is none of the four", "VX-ES-1"))
}

fn read_reason<'v>(member: Option<&'v Value<'_>>, place: &Place<'_>) -> Result<&'v str, Fault> {
    let reason = required_text(member, place)?;
    if reason.is_empty() || is_longer_than(reason, MAX_REASON) {
        let message = "must have 1 to 4096 characters";
        return Err(Fault::schema(place, message, "VX-ES-1"));
    }
    Ok(reason)
}

fn read_blocked(member: Option<&Value<'_>>, place: &Place<'_>) -> Result<Option<Box<str>>, Fault> {
    let Some(value) = member else { return Ok(None) };
    let action = text(value, place)?;
    if is_longer_than(action, MAX_BLOCKED_ACTION) {
        let message = "must have at most 1024 characters";
        return Err(Fault::schema(place, message, "VX-ES-1"));
    }
    Ok(Some(action.into()))
}
