//! `chancery send agh`: an envelope as it stands, one that the node completes, or one signed under a verified handle.

use std::io::Write as _;
use std::path::Path;

use chancery_agh::envelope::{PROTOCOL, parse};
use chancery_agh::trust;
use chancery_core::canonical::{Dialect, to_bytes};
use chancery_core::ids::v4;
use chancery_core::json::{Object, Value};
use chancery_core::keys::ed25519::SigningKey;
use chancery_node::Clock;
use serde::Deserialize;

use super::explain;
use crate::client::{Answered, NodeClient, block_on};
use crate::exit::{Exit, Failed, Failure, Outcome};
use crate::secret_file;
use crate::terminal::Terminal;

/// Posts an envelope. One that has neither `id` nor `ts` is what a hosted peer decided: the node adds the rest.
pub(super) fn run(
    text: &[u8],
    key: Option<&Path>,
    node: &NodeClient,
    terminal: &mut Terminal,
) -> Outcome {
    let is_hosted = |it: &Object<'_>| !it.contains("id") && !it.contains("ts");
    let (body, path): (Vec<u8>, &[&str]) = match (key, members(text)) {
        (Some(key), members) => (signed(members?, &secret_file::read_key(key)?)?, &["agh"]),
        (None, Ok(members)) if is_hosted(&members) => (text.to_vec(), &["send", "agh"]),
        (None, _) => (text.to_vec(), &["agh"]),
    };
    let id = id_of(&body);
    let answered = block_on(node.post(path, body))?;
    if terminal.json {
        writeln!(terminal.out, "{}", answered.text())?;
    } else {
        tell(&answered, id, terminal)?;
    }
    let is_yes = answered.is_yes();
    Ok(if is_yes { Exit::Done } else { Exit::No })
}

fn members(text: &[u8]) -> Result<Object<'static>, Failure> {
    match parse(text, usize::MAX) {
        Ok(Value::Object(members)) => Ok(members.into_owned()),
        Ok(_) => Err(Failure::no("an envelope is a JSON object")),
        Err(fault) => Err(Failure::no(fault.error.sentence())),
    }
}

/// The envelope with what the caller left to us, and its proof (AG-TRU-10).
fn signed(mut envelope: Object<'static>, key: &SigningKey) -> Result<Vec<u8>, Failure> {
    let public = *key.verifying_key().as_bytes();
    let from = envelope.get("from").and_then(Value::as_str);
    let nickname = from.and_then(|from| from.split('@').next());
    let handle = nickname.and_then(|nickname| trust::handle(nickname, &public));
    if handle.is_none() || handle.as_deref() != from {
        let right = handle.or_else(|| trust::handle("name", &public));
        let next = format!("write {}", right.unwrap_or_default());
        return Err(Failure::no("from is not the handle of the key").next(next));
    }
    if !envelope.contains("protocol") {
        envelope.insert("protocol", PROTOCOL);
    }
    if !envelope.contains("id") {
        let id = v4(*secret_file::random::<16>()?);
        envelope.insert("id", id.to_string());
    }
    if !envelope.contains("ts") {
        envelope.insert("ts", Clock::System.now().unix_seconds());
    }
    if !envelope.contains("to") {
        envelope.insert("to", Value::Null);
    }
    let signed = trust::sign(envelope, key).ok_or_else(|| {
        Failure::no("it cannot be signed").next("every name in ext needs a prefix with a dot")
    })?;
    Ok(to_bytes(&Value::Object(signed), Dialect::Rfc8785))
}

fn id_of(envelope: &[u8]) -> Option<String> {
    let members = members(envelope).ok()?;
    members.get("id")?.as_str().map(str::to_owned)
}

#[derive(Deserialize)]
struct Told {
    verdict: String,
    error: Option<String>,
    path: Option<String>,
    step: u8,
    id: Option<String>,
}

fn tell(answered: &Answered, id: Option<String>, terminal: &mut Terminal) -> Result<(), Failed> {
    if !answered.is_yes() && answered.value::<Told>().is_err() {
        // The door itself refused: no token, or no such path.
        answered.clone().done("agh")?;
    }
    let told: Told = answered.value()?;
    let id = told.id.or(id).unwrap_or_else(|| "without id".to_owned());
    let verdict = match told.verdict.as_str() {
        "accept" => terminal.good("accepted"),
        "ignore" => terminal.good("ignored"),
        _ => terminal.bad("rejected"),
    };
    writeln!(terminal.out, "{verdict}  {id}")?;
    let Some(code) = told.error else {
        return Ok(());
    };
    let guide = explain::guide_of("agh", &code);
    let when = guide
        .as_ref()
        .map(|guide| format!("{code}: {}", guide.when));
    let step = told.step.to_string();
    let lines = [
        ("reason", Some(when.as_deref().unwrap_or(&code))),
        ("check", Some(step.as_str())),
        ("path", told.path.as_deref()),
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
