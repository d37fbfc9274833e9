//! Requests and repetitions: what a node answers to bodies.

use std::time::Duration;

use bytes::Bytes;
use chancery_core::digest::hex;
use chancery_core::json::Object;
use chancery_core::keys::ed25519::SigningKey;
use chancery_core::time::{Time, parse_value_context};

use super::host::{Host, Outcome};
use super::{Run, expect};
use crate::agent_id::AgentId;
use crate::message::{Kind, Recipient};
use crate::message_id::MessageId;
use crate::protocol::Answer;
use crate::sign::{envelope, seal};
use crate::world::World;
use chancery_core::conformance::Case;

/// The name of the suite. Its parts are the four types.
pub(super) const SUITE: &str = "value-context/requests";

/// The world that the other files speak of.
pub(super) struct Scene {
    pub(super) world: World,
    pub(super) now: Time,
}

impl Scene {
    pub(super) fn of(run: &Run<'_>) -> Result<Self, String> {
        let text = run.world.ok_or("world.json must lie beside this file")?;
        let world =
            World::parse(text.as_bytes()).map_err(|fault| format!("world.json: {fault}"))?;
        let now = Case::parse(text)?.text("now")?;
        let now = parse_value_context(&now).map_err(|error| format!("world.json: now: {error}"))?;
        Ok(Self { world, now })
    }
}

/// One body on a fresh node.
pub(super) fn request(case: &mut Case, run: &Run<'_>) -> Result<(), String> {
    let body = body(case)?;
    let mut expected = case.case("expect")?;
    let (status, code) = (expected.number("http_status")?, expected.text("code")?);
    let path = expected.optional_text("path")?;
    expected.finish()?;
    let scene = Scene::of(run)?;
    match Host::new(&scene.world)?.receive(body.into(), scene.now, false) {
        Ok(answer) => {
            expect("code", word(&Ok(answer)), code)?;
            expect("http_status", 200, status)
        }
        Err(refusal) => {
            expect("code", refusal.code.to_owned(), code)?;
            expect("http_status", u64::from(refusal.status), status)?;
            expect("path", refusal.path.clone(), path)
        }
    }
}

/// Whether a request's body names this type, or no other of the four.
pub(super) fn is_about(case: &Case, kind: &str) -> bool {
    let named = case
        .peek("body")
        .and_then(serde_json::Value::as_str)
        .and_then(|body| serde_json::from_str::<serde_json::Value>(body).ok())
        .and_then(|body| Kind::named(body.get("type")?.as_str()?));
    named.is_none_or(|named| named.as_str() == kind)
}

fn body(case: &mut Case) -> Result<Vec<u8>, String> {
    if let Some(text) = case.optional_text("body_hex")? {
        return hex::decode(&text).map_err(|error| error.to_string());
    }
    let mut body = case.text("body")?.into_bytes();
    if let Some(length) = case.optional("pad_to_bytes") {
        let length = length
            .as_u64()
            .and_then(|length| usize::try_from(length).ok());
        body.resize(length.ok_or("pad_to_bytes is no length")?, b' ');
    }
    Ok(body)
}

/// Messages at one receiver over time.
pub(super) fn dedupe(case: &mut Case, run: &Run<'_>) -> Result<(), String> {
    let scene = Scene::of(run)?;
    let mut host = Host::new(&scene.world)?;
    let mut stamps = std::collections::BTreeMap::new();
    for mut step in case.cases("steps")? {
        let after = Duration::from_millis(step.number("t_ms")?);
        let now = scene.now.saturating_add(after);
        let phrase = Phrase::parse(&step.text("message")?)?;
        let stamp = *stamps
            .entry(phrase.label)
            .or_insert_with(|| phrase.stamped(now));
        let body = phrase.body(stamp, &scene.world)?;
        let outcomes: Vec<Outcome> = (0..phrase.copies)
            .map(|_| host.receive(body.clone(), now, phrase.full))
            .collect();
        expect("outcome", summary(&outcomes), step.text("expect")?)?;
        step.finish()?;
    }
    Ok(())
}

fn word(outcome: &Outcome) -> String {
    match outcome {
        Ok(Answer::Accepted(_)) => "accepted",
        Ok(Answer::Duplicate(_)) => "duplicate",
        Ok(_) => "other",
        Err(refusal) => refusal.code,
    }
    .to_owned()
}

/// One outcome by its word, several as `1 accepted, 99 duplicate`.
fn summary(outcomes: &[Outcome]) -> String {
    if let [only] = outcomes {
        return word(only);
    }
    let mut counts = std::collections::BTreeMap::<String, usize>::new();
    for outcome in outcomes {
        *counts.entry(word(outcome)).or_default() += 1;
    }
    let parts: Vec<_> = counts
        .into_iter()
        .map(|(word, count)| format!("{count} {word}"))
        .collect();
    parts.join(", ")
}

/// What a step's `message` says: a label, and how this copy differs.
struct Phrase {
    label: char,
    offset_ms: i64,
    copies: usize,
    full: bool,
    other_payload: bool,
    bad_signature: bool,
    other_sender: bool,
}

impl Phrase {
    fn parse(text: &str) -> Result<Self, String> {
        let unknown = || format!("no check knows the message {text:?}");
        let mut chars = text.chars();
        let label = chars
            .next()
            .filter(char::is_ascii_uppercase)
            .ok_or_else(unknown)?;
        let mut phrase = Self {
            label,
            offset_ms: 0,
            copies: 1,
            full: false,
            other_payload: false,
            bad_signature: false,
            other_sender: false,
        };
        let rest = chars.as_str().trim();
        match rest {
            "" => {}
            "while the queue is full" => phrase.full = true,
            "with other payload, validly signed" => phrase.other_payload = true,
            "with a bad signature" | "with bad signature" | "badly signed" => {
                phrase.bad_signature = true
            }
            "from another sender" | "from another sender, validly signed" => {
                phrase.other_sender = true
            }
            _ => phrase.read_number(rest).ok_or_else(unknown)?,
        }
        Ok(phrase)
    }

    /// `stamped +30000 ms` or `x100 at once`.
    fn read_number(&mut self, rest: &str) -> Option<()> {
        if let Some(offset) = rest
            .strip_prefix("stamped ")
            .and_then(|rest| rest.strip_suffix(" ms"))
        {
            self.offset_ms = offset.parse().ok()?;
        } else {
            self.copies = rest
                .strip_prefix('x')?
                .strip_suffix(" at once")?
                .parse()
                .ok()?;
        }
        Some(())
    }

    fn stamped(&self, now: Time) -> Time {
        let offset = Duration::from_millis(self.offset_ms.unsigned_abs());
        if self.offset_ms < 0 {
            now.saturating_sub(offset)
        } else {
            now.saturating_add(offset)
        }
    }

    /// The envelope: one identifier a label, always to the same agent.
    fn body(&self, stamp: Time, world: &World) -> Result<Bytes, String> {
        const SENDER: &str = "agent://orchestrator.prod/child-007";
        const OTHER: &str = "agent://orchestrator.prod/parent-001";
        const RECIPIENT: &str = "agent://home.local/kitchen-agent";
        let sender = if self.other_sender { OTHER } else { SENDER };
        let id = MessageId::made(chancery_core::ids::v7(
            1,
            0,
            u64::from(u32::from(self.label)),
        ));
        let agent = |name: &str| AgentId::parse(name).map_err(|fault| fault.to_string());
        let context = if self.other_payload {
            "⏰🌙"
        } else {
            "⏰🌅"
        };
        let payload = Object::with_capacity(2).with("context", context).with(
            "constitution_ref",
            "creed://creed.space/family.safe.guide@1.2.0",
        );
        let recipient = Recipient::Directed(agent(RECIPIENT)?);
        let members = envelope(
            Kind::ContextShare,
            id,
            &agent(sender)?,
            &recipient,
            stamp,
            payload,
        );
        let wrong = SigningKey::from_seed(&[0; 32]);
        let key = if self.bad_signature {
            Some(&wrong)
        } else {
            world.secret_keys.get(&agent(sender)?)
        };
        Ok(seal(
            members,
            key.ok_or("world.json holds no seed of the sender")?,
        )
        .bytes)
    }
}
