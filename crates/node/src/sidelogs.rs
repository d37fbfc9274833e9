//! The side logs: what was refused, and what was ignored, repeated or soft, both without bodies (CH-JRN-6); and, for
//! the owner alone, critical and emergency escalations in full (VX-AUD-2). Never the journal.

use std::borrow::Cow;

use chancery_core::decision::{Audit, Event};
use chancery_core::digest::{Sha256, hex};
use chancery_core::line::{ProtocolName, Seq};
use chancery_core::refusal::Refusal;
use chancery_core::time::Time;
use chancery_store::SideLog;
use serde::Serialize;
use serde_json::{Map, Value};

/// The details of a refusal that are noted: names of a closed list and offsets, no value of a message.
const NOTED: [&str; 2] = ["first_difference_at", "would_verify_as"];

/// The side logs of a node; without a data directory there are none.
#[derive(Default)]
pub struct SideLogs {
    rejections: Option<SideLog>,
    events: Option<SideLog>,
    salt: [u8; 16],
    audits: Option<SideLog>,
}

#[derive(Serialize)]
struct AuditLine<'a> {
    at: Time,
    event: &'static str,
    protocol: &'static str,
    envelope: &'a serde_json::Value,
}

#[derive(Serialize)]
struct Rejection<'a> {
    at: Time,
    protocol: &'static str,
    code: &'static str,
    check: &'static str,
    requirement: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    path: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    message_id: Option<&'a str>,
    #[serde(flatten)]
    help: Map<String, Value>,
}

#[derive(Serialize)]
struct EventLine<'a> {
    event: &'static str,
    protocol: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    message_id: Option<&'a str>,
}

#[derive(Serialize)]
struct DeliveryLine<'a> {
    event: &'static str,
    protocol: &'static str,
    seq: Seq,
    recipient_hash: &'a str,
}

impl SideLogs {
    /// Both logs.
    pub fn new(rejections: SideLog, events: SideLog) -> Self {
        Self {
            rejections: Some(rejections),
            events: Some(events),
            salt: [0; 16],
            audits: None,
        }
    }

    /// The same with a log of what is kept in full (VX-AUD-2).
    #[must_use]
    pub fn with_audits(self, audits: SideLog) -> Self {
        Self {
            audits: Some(audits),
            ..self
        }
    }

    /// The same with what names are hashed with.
    pub(crate) fn salted(self, salt: [u8; 16]) -> Self {
        Self { salt, ..self }
    }

    /// Notes a refusal.
    pub fn rejected(&self, protocol: ProtocolName, at: Time, refusal: &Refusal) {
        let Some(log) = &self.rejections else { return };
        write(
            log,
            &Rejection {
                at,
                protocol: protocol.as_str(),
                code: refusal.code,
                check: refusal.check,
                requirement: refusal.requirement,
                path: refusal.path.as_deref(),
                message_id: refusal.message_id.as_deref(),
                help: help_of(refusal),
            },
        );
    }

    /// Keeps an envelope in full.
    pub fn audit(&self, audit: &Audit) {
        let Some(log) = &self.audits else { return };
        let Ok(envelope) = serde_json::from_slice(&audit.envelope) else {
            return;
        };
        write(
            log,
            &AuditLine {
                at: audit.at,
                event: audit.name,
                protocol: audit.protocol.as_str(),
                envelope: &envelope,
            },
        );
    }

    /// Notes an event.
    pub fn event(&self, event: &Event) {
        metrics::counter!("chancery_events_total", "event" => event.name).increment(1);
        let Some(log) = &self.events else { return };
        write(
            log,
            &EventLine {
                event: event.name,
                protocol: event.protocol.as_str(),
                message_id: event.message_id.as_deref(),
            },
        );
    }
}

impl SideLogs {
    /// Notes what became of a delivery; the line is named by its number, the recipient by its salted hash.
    pub(crate) fn delivery(
        &self,
        event: &'static str,
        protocol: ProtocolName,
        seq: Seq,
        recipient: &str,
    ) {
        metrics::counter!("chancery_events_total", "event" => event).increment(1);
        let Some(log) = &self.events else { return };
        write(
            log,
            &DeliveryLine {
                event,
                protocol: protocol.as_str(),
                seq,
                recipient_hash: &self.hashed(recipient),
            },
        );
    }

    /// A name as the process's log has it: those of value-context agents leave hashed only (CH-JRN-11).
    pub(crate) fn in_process_log<'n>(&self, protocol: ProtocolName, name: &'n str) -> Cow<'n, str> {
        match protocol {
            ProtocolName::ValueContext => self.hashed(name).into(),
            _ => name.into(),
        }
    }

    /// A name as logs have it: the same for the same name, on this node alone.
    fn hashed(&self, name: &str) -> String {
        let mut hash = Sha256::new();
        hash.update(&self.salt);
        hash.update(name.as_bytes());
        format!("sha256:{}", hex::encode(&hash.finish().0))
    }
}

fn help_of(refusal: &Refusal) -> Map<String, Value> {
    let details = refusal.details.as_deref().unwrap_or("{}");
    let mut details: Map<String, Value> = serde_json::from_str(details).unwrap_or_default();
    details.retain(|name, _| NOTED.contains(&name.as_str()));
    details
}

/// Writes one line. A side log that is full loses it and counts that: it must never hold up an answer.
fn write<T: Serialize>(log: &SideLog, line: &T) {
    if let Ok(line) = serde_json::to_vec(line) {
        log.write(&line);
    }
}
