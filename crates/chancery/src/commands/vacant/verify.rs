//! `chancery vacant verify`: what a signed message, body or card says, and whether it holds (VA-CLI-2).

use std::io::Write as _;
use std::path::PathBuf;

use chancery_core::json::Value;
use chancery_vacant::card::CapabilityCard;
use chancery_vacant::wire::{METADATA_KEY, from_message, read_json};
use serde_json::json;

use super::told;
use crate::exit::{Exit, Failure, Outcome};
use crate::input;
use crate::terminal::Terminal;

/// What `verify` takes.
#[derive(Debug, clap::Args)]
pub(crate) struct VerifyArgs {
    /// A JSON-RPC body, an answer, a message or a card; - reads standard input
    file: PathBuf,
}

/// Checks it: exit 1 where it does not hold.
pub(crate) fn run(args: &VerifyArgs, terminal: &mut Terminal) -> Outcome {
    let text = input::read(&args.file)?;
    let value = read_json(&text, usize::MAX).map_err(told)?;
    let inside = |outer: &str| value.get(outer).and_then(|outer| outer.get("message"));
    let message = [
        inside("params"),
        inside("result"),
        value.get("message"),
        Some(&value),
    ];
    let message = message
        .into_iter()
        .flatten()
        .find(|value| is_message(value));
    match message {
        Some(message) => {
            let envelope = from_message(message).map_err(told)?;
            let verified = envelope.verify().map_err(told)?;
            let found = json!({
                "kind": "envelope", "verified": true,
                "from": envelope.from.hex(), "to": envelope.to.hex(),
                "sequence_no": envelope.sequence_no,
                "profile": verified.profile.as_str(), "hash": verified.hash.hex(),
            });
            tell(&found, terminal)
        }
        None if value.get("vacant_id").is_some() => {
            let card = CapabilityCard::deserialize(&text).map_err(told)?;
            if !card.verify() {
                return Err(Failure::no("ENVELOPE_SIGNATURE: the card does not verify").into());
            }
            let found = json!({
                "kind": "card", "verified": true, "vacant_id": card.vacant_id.hex(),
                "capability": card.capability_text, "endpoint": card.endpoint,
                "hash": card.hash().hex(),
            });
            tell(&found, terminal)
        }
        None => Err(Failure::no("ENVELOPE_FORMAT: there is neither an envelope nor a card").into()),
    }
}

fn is_message(value: &Value<'_>) -> bool {
    let metadata = value.get("metadata");
    metadata.is_some_and(|metadata| metadata.get(METADATA_KEY).is_some())
}

fn tell(found: &serde_json::Value, terminal: &mut Terminal) -> Outcome {
    if terminal.json {
        terminal.json_line(found)?;
        return Ok(Exit::Done);
    }
    for (name, value) in found.as_object().into_iter().flatten() {
        let text = value
            .as_str()
            .map_or_else(|| value.to_string(), str::to_owned);
        writeln!(terminal.out, "{name:<12} {text}")?;
    }
    Ok(Exit::Done)
}
