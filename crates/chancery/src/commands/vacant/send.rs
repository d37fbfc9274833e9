//! `chancery send vacant`: a call as it stands in a file, or made of a message and signed on the caller's chain.

use std::io::Write as _;
use std::path::Path;

use chancery_core::json::Place;
use chancery_vacant::envelope::{Envelope, Verified};
use chancery_vacant::id::VacantId;
use chancery_vacant::payload::{Payload, Profile};
use chancery_vacant::wire::{METADATA_KEY, from_response, message_of, read_json, read_payload};
use serde_json::Value as Told;

use super::abroad::{self, NamedBy};
use super::call::{Caller, state_of};
use super::chains::Chains;
use super::told;
use crate::client::{Answered, NodeClient, block_on};
use crate::commands::explain;
use crate::exit::{Exit, Failed, Failure, Outcome};
use crate::secret_file;
use crate::terminal::Terminal;

/// Posts a call. With a key file the call is made of a message that names its target, and goes on the chain beside the
/// key as those of `vacant call` do; without one the bytes go as they are.
pub(crate) fn run(
    text: &[u8],
    key: Option<&Path>,
    node: &NodeClient,
    terminal: &mut Terminal,
) -> Outcome {
    if let Some(key) = key {
        let call = Call::read(text)?;
        let (answer, verified) = block_on(call.send(key, node))?;
        return tell(&answer, &verified, terminal);
    }
    let target = Call::read(text).ok().map(|call| call.target);
    let name = target.as_ref().map(VacantId::hex);
    let path: &[&str] = match &name {
        Some(name) => &["agents", name, "a2a", "message", "send"],
        None => &["a2a", "message", "send"],
    };
    let answered = block_on(node.post(path, text))?;
    if terminal.json {
        writeln!(terminal.out, "{}", answered.text())?;
        let is_yes = answered.is_yes();
        return Ok(if is_yes { Exit::Done } else { Exit::No });
    }
    if !answered.is_yes() {
        tell_refused(&answered, terminal)?;
        return Ok(Exit::No);
    }
    // What is no JSON at all was not said by a node.
    answered.value::<serde::de::IgnoredAny>()?;
    let body = read_json(&answered.body, usize::MAX).map_err(told)?;
    let answer = from_response(&body).map_err(told)?;
    let verified = answer.verify().map_err(told)?;
    if target.is_some_and(|target| target != answer.from) {
        return Err(Failure::no("the answer is of another vacant").into());
    }
    tell(&answer, &verified, terminal)
}

/// A call as a file has it: for whom, and what is said.
struct Call {
    target: VacantId,
    payload: Payload,
    idempotency_key: Option<String>,
}

impl Call {
    /// Reads a JSON-RPC body, or the message in it.
    fn read(text: &[u8]) -> Result<Self, Failure> {
        let body = read_json(text, usize::MAX).map_err(told)?;
        let message = message_of(&body).unwrap_or(&body);
        let no_message = || {
            Failure::no("the file holds no A2A message")
                .next("write {\"role\": …, \"parts\": …, \"metadata\": {\"urn:vacant:v1\": {\"to_vacant_id\": …}}}")
        };
        let members = message.as_object().ok_or_else(no_message)?;
        let envelope = message
            .get("metadata")
            .and_then(|data| data.get(METADATA_KEY));
        let member = |name| envelope.and_then(|envelope| envelope.get(name)?.as_str());
        let target = member("to_vacant_id").ok_or_else(no_message)?;
        Ok(Self {
            target: VacantId::from_hex(target).map_err(|_| no_message())?,
            payload: read_payload(members, &Place::ROOT).map_err(told)?,
            idempotency_key: member("idempotency_key").map(str::to_owned),
        })
    }

    async fn send(self, key: &Path, node: &NodeClient) -> Result<(Envelope, Verified), Failure> {
        let endpoint = format!(
            "{}/agents/{}/a2a/message/send",
            node.place(),
            self.target.hex()
        );
        let mut caller = Caller {
            key: secret_file::read_key(key)?,
            target: self.target,
            chains: Chains::read(&state_of(key))?,
            endpoint: abroad::parse(&endpoint)?,
            named_by: NamedBy::User,
            profile: Profile::Base,
        };
        caller.settle_pending().await?;
        caller.call(self.payload, self.idempotency_key).await
    }
}

fn tell(answer: &Envelope, verified: &Verified, terminal: &mut Terminal) -> Outcome {
    let text = answer.payload.joined();
    if terminal.json {
        terminal.json_line(&serde_json::json!({
            "vacant_id": answer.from.hex(), "text": text,
            "sequence_no": answer.sequence_no, "hash": verified.hash.hex(),
        }))?;
        return Ok(Exit::Done);
    }
    let status = terminal.good("answered");
    writeln!(terminal.out, "{status}  {}", verified.hash.hex())?;
    writeln!(terminal.out, "  {:<12} {text}", "text")?;
    Ok(Exit::Done)
}

/// A refusal of the native binding (VA-SRV-10); its sentence ends with the place where there is one.
fn tell_refused(answered: &Answered, terminal: &mut Terminal) -> Result<(), Failed> {
    let body: Told = answered.value()?;
    let error = &body["error"];
    let code = error["data"][0]["reason"].as_str().unwrap_or("TRANSPORT");
    let sentence = error["message"].as_str().unwrap_or_default();
    let (sentence, path) = match sentence
        .strip_suffix(')')
        .and_then(|it| it.rsplit_once(" (at "))
    {
        Some((sentence, path)) => (sentence, Some(path)),
        None => (sentence, None),
    };
    let guide = explain::guide_of("vacant", code);
    let status = terminal.bad("rejected");
    writeln!(terminal.out, "{status}  {}", answered.status)?;
    writeln!(terminal.out, "  {:<12} {code}: {sentence}", "reason")?;
    let lines = [
        ("path", path),
        ("requirement", guide.as_ref().map(|guide| guide.requirement)),
        ("next", guide.as_ref().map(|guide| guide.next)),
    ];
    for (name, text) in lines {
        if let Some(text) = text {
            writeln!(terminal.out, "  {name:<12} {text}")?;
        }
    }
    Ok(())
}
