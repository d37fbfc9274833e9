//! Cases about escalations: what a receiver owes, and what a child's run state becomes.

use std::time::Duration;

use bytes::Bytes;
use chancery_core::admin::RunState;
use chancery_core::json::{Object, Value};
use chancery_core::protocol::Door;
use chancery_core::time::Time;

use super::host::Host;
use super::requests::Scene;
use super::{Run, expect};
use crate::agent_id::AgentId;
use crate::message::{Kind, Recipient};
use crate::message_id::MessageId;
use crate::payload::{Acknowledgement, Escalation, RESUME, Severity};
use crate::protocol::Answer;
use crate::rules::Duties;
use crate::settings::Settings;
use crate::sign::{envelope, seal};
use chancery_core::conformance::Case;

const PARENT: &str = "agent://orchestrator.prod/parent-001";
const CHILD: &str = "agent://orchestrator.prod/child-007";
const PEER: &str = "agent://home.local/kitchen-agent";
const CONSTITUTION: &str = "creed://creed.space/family.safe.guide@1.2.0";

/// What the receiver of an escalation does.
pub(super) fn obligations(case: &mut Case, _: &Run<'_>) -> Result<(), String> {
    let severity = Severity::named(&case.text("severity")?).ok_or("no such severity")?;
    let requires_ack = case.bool("requires_ack")?;
    let has_parent = case.bool("receiver_has_parent")?;
    let id = MessageId::made(chancery_core::ids::v7(1, 0, 1));
    let acknowledges = case.bool("is_acknowledgement")?.then_some(Acknowledgement {
        of: id,
        state: None,
    });
    let escalation = Escalation {
        severity,
        reason: "a case".into(),
        context: "📍💻".into(),
        requires_ack,
        blocked_action: None,
        acknowledges,
    };
    let duties = Duties::of(&escalation, has_parent, &Settings::default());
    let mut expected = case.case("expect")?;
    expect("send_ack", duties.acknowledges, expected.bool("send_ack")?)?;
    let deadline = expected.take("ack_deadline_ms")?;
    let found = duties
        .ack_deadline_ms
        .map_or(serde_json::Value::Null, Into::into);
    expect("ack_deadline_ms", found, deadline)?;
    let state = duties.holds_child.map_or("unchanged", RunState::as_str);
    expect("child_state", state, &expected.text("child_state")?)?;
    let propagates = expected.bool("propagate_to_parent")?;
    expect("propagate_to_parent", duties.propagates, propagates)?;
    let audits = expected.bool("audit_full_payload")?;
    expect("audit_full_payload", duties.audits_in_full, audits)?;
    expected.finish()
}

/// A child in some state, something that happens, and its state after it.
pub(super) fn resume(case: &mut Case, run: &Run<'_>) -> Result<(), String> {
    let scene = Scene::of(run)?;
    let mut stage = Stage {
        host: Host::new(&scene.world)?,
        scene,
        sent: Vec::new(),
    };
    stage.enter(&case.text("state")?)?;
    let code = stage.happen(&case.text("message")?)?;
    expect("code", code, case.optional_text("code")?)?;
    let state = stage.host.run_state(CHILD)?;
    expect("new_state", state.as_str(), &case.text("new_state")?)
}

/// A parent and its child on one node.
struct Stage {
    scene: Scene,
    host: Host,
    /// What the child escalated.
    sent: Vec<MessageId>,
}

impl Stage {
    /// Brings the child into the state that a case begins with.
    fn enter(&mut self, state: &str) -> Result<(), String> {
        let (severity, times) = match state {
            "running" => return Ok(()),
            "paused" => (Severity::Critical, 1),
            "paused with two open criticals" => (Severity::Critical, 2),
            "suspended" => (Severity::Emergency, 1),
            "suspended with two open emergencies" => (Severity::Emergency, 2),
            other => return Err(format!("no check knows the state {other:?}")),
        };
        for _ in 0..times {
            self.child_escalates(severity)?;
        }
        Ok(())
    }

    fn at(&self, seconds: i64) -> Time {
        let away = Duration::from_secs(seconds.unsigned_abs());
        if seconds < 0 {
            self.scene.now.saturating_sub(away)
        } else {
            self.scene.now.saturating_add(away)
        }
    }

    fn child_escalates(&mut self, severity: Severity) -> Result<(), String> {
        let body = serde_json::json!({
            "sender": CHILD,
            "recipient": PARENT,
            "type": "escalation",
            "payload": {
                "severity": severity.as_str(),
                "reason": "a case",
                "context": "📍💻",
                "requires_ack": severity.is_grave(),
            },
        });
        match self.host.send(&body, self.at(0)) {
            Ok(Answer::Accepted(id)) => {
                self.sent.push(id);
                Ok(())
            }
            other => Err(format!("the escalation was not sent: {other:?}")),
        }
    }

    /// Lets something happen; gives the code with which it was refused.
    fn happen(&mut self, message: &str) -> Result<Option<String>, String> {
        let has = |words: &str| message.contains(words);
        if has("process restart") {
            self.host.restart()?;
            return Ok(None);
        }
        if has("passes without a message") {
            return Ok(None);
        }
        if has("agent sends") {
            let named = Severity::ALL
                .into_iter()
                .find(|severity| has(severity.as_str()));
            self.child_escalates(named.ok_or("no severity is named")?)?;
            return Ok(None);
        }
        let sender = if has("from a peer") || has("from another") {
            PEER
        } else {
            PARENT
        };
        let made_at = if has("before the escalation") || has("older than the escalation") {
            self.at(-1)
        } else {
            self.at(1)
        };
        let (kind, payload) = self.content(message)?;
        let recipient = if has("broadcast") {
            Recipient::Broadcast
        } else {
            Recipient::Directed(agent(CHILD)?)
        };
        let door = if has("first context_share of a new WebSocket") {
            Door::WebSocket { greeting: true }
        } else {
            Door::Http
        };
        let raw = self.envelope(kind, sender, &recipient, made_at, payload)?;
        match self.host.receive_by(raw, door, self.at(2)) {
            Ok(_) => Ok(None),
            Err(refusal) => Ok(Some(refusal.code.to_owned())),
        }
    }

    /// The type and payload that a case speaks of.
    fn content(&self, message: &str) -> Result<(Kind, Object<'static>), String> {
        if message.contains("context_share") {
            let context = message.split_once("context ").map(|(_, rest)| rest.trim());
            let context = context.ok_or("no context is given")?.to_owned();
            let payload = Object::new()
                .with("context", context)
                .with("constitution_ref", CONSTITUTION);
            return Ok((Kind::ContextShare, payload));
        }
        if message.contains("constraint_propagate") {
            return Ok((Kind::ConstraintPropagate, self.constraints(message)?));
        }
        if message.contains("ACK") {
            return Ok((Kind::Escalation, self.acknowledgement(message)?));
        }
        Err(format!("no check knows the message {message:?}"))
    }

    fn constraints(&self, message: &str) -> Result<Object<'static>, String> {
        let entry = |kind: &'static str, value: Value<'static>| {
            let constraint = Object::new()
                .with("type", kind)
                .with("value", value)
                .with("source_constitution_ref", CONSTITUTION);
            Value::Object(constraint)
        };
        let mut constraints = vec![entry("token_limit", Value::from(1_000_u64))];
        if let Some((_, rest)) = message.split_once('{') {
            let (inside, _) = rest.split_once('}').ok_or("a brace is not closed")?;
            let plain: String = inside
                .chars()
                .filter(|c| !c.is_whitespace() && *c != '"')
                .collect();
            let resume = match plain
                .split(',')
                .find_map(|part| part.strip_prefix("resume:"))
            {
                Some("true") => true,
                Some("false") => false,
                _ => return Err(format!("no check knows {{{inside}}}")),
            };
            let mut value = Object::new().with("resume", resume);
            let names_one = plain.contains("escalation_id") || message.contains("escalation_id of");
            if names_one && !message.contains("no escalation_id") {
                let second = message.contains("second") || message.contains("newer one");
                let id = self
                    .sent
                    .get(usize::from(second))
                    .ok_or("nothing is open")?;
                value.insert("escalation_id", id.to_string());
            }
            constraints.push(entry(RESUME, Value::Object(value)));
        }
        Ok(Object::new()
            .with("constraints", constraints)
            .with("propagation_mode", "merge"))
    }

    fn acknowledgement(&self, message: &str) -> Result<Object<'static>, String> {
        let id = self.sent.first().ok_or("nothing is open")?;
        let state = message.split_once(";state=").map(|(_, rest)| {
            let end = rest.find(|c: char| !c.is_ascii_alphabetic());
            format!(";state={}", &rest[..end.unwrap_or(rest.len())])
        });
        let severity = Severity::ALL
            .into_iter()
            .find(|severity| message.contains(severity.as_str()))
            .unwrap_or(Severity::Emergency);
        Ok(Object::new()
            .with("severity", severity.as_str())
            .with("reason", format!("ACK:{id}{}", state.unwrap_or_default()))
            .with("context", "📍💻")
            .with("requires_ack", false))
    }

    fn envelope(
        &self,
        kind: Kind,
        sender: &str,
        recipient: &Recipient,
        made_at: Time,
        payload: Object<'static>,
    ) -> Result<Bytes, String> {
        let id = MessageId::made(chancery_core::ids::v7(2, 0, 2));
        let sender = agent(sender)?;
        let members = envelope(kind, id, &sender, recipient, made_at, payload);
        let key = self.scene.world.secret_keys.get(&sender);
        Ok(seal(
            members,
            key.ok_or("world.json holds no seed of the sender")?,
        )
        .bytes)
    }
}

fn agent(name: &str) -> Result<AgentId, String> {
    AgentId::parse(name).map_err(|fault| fault.to_string())
}
