//! `script:FILE`: decisions written down beforehand.
//!
//! A script is JSON: a list of outputs, or `{"turns": [{"when": {…}, "outputs": […]}, …]}`. The first turn whose `when`
//! the inbound envelope meets is played: step n gives the n-th output, and after the last the agent says nothing. So
//! the same envelope gives the same outputs, whenever and how often it is asked.
//!
//! `when` names members of the envelope by dots and what they must equal, such as `{"action.kind":
//! "commerce.request_offer"}`. An output is a decision or a list of decisions; a text is taken as it is. In a decision a
//! text `$inbound.PATH` stands for that member of the inbound envelope and `$turn` for the turn's identifier.
//!
//! Whoever answers in words is asked once: its output is a text, or `{"text": …}`, where `$inbound.text` is what it was
//! asked.

use std::path::Path;

use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::Infer;
use crate::context::Context;

/// The largest script.
const MAX_BYTES: u64 = 1_048_576;

/// Decisions written down beforehand.
#[derive(Clone, Debug, PartialEq)]
pub struct Script(Vec<Part>);

#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
struct Part {
    #[serde(default)]
    when: Map<String, Value>,
    outputs: Vec<Value>,
}

#[derive(Deserialize)]
#[serde(untagged)]
enum File {
    Outputs(Vec<Value>),
    Turns { turns: Vec<Part> },
}

/// Why a script cannot be played.
#[derive(Debug, thiserror::Error)]
#[error("not a script: {0}")]
pub struct ScriptError(String);

impl Script {
    /// The script that is in a file.
    pub fn read(path: &Path) -> Result<Self, ScriptError> {
        let size = std::fs::metadata(path).map_err(|error| ScriptError(error.to_string()))?;
        if size.len() > MAX_BYTES {
            return Err(ScriptError(format!("it has more than {MAX_BYTES} bytes")));
        }
        let text = std::fs::read(path).map_err(|error| ScriptError(error.to_string()))?;
        Self::parse(&text)
    }

    /// A script from its text.
    pub fn parse(text: &[u8]) -> Result<Self, ScriptError> {
        let file: File = serde_json::from_slice(text).map_err(|_| {
            let form = "a list of outputs, or {\"turns\": [{\"when\", \"outputs\"}]}";
            ScriptError(form.to_owned())
        })?;
        Ok(Self(match file {
            File::Outputs(outputs) => vec![Part {
                when: Map::new(),
                outputs,
            }],
            File::Turns { turns } => turns,
        }))
    }
}

impl Script {
    /// The output of a step, as it is written.
    fn output(&self, inbound: &Value, step: u32) -> Option<&Value> {
        let part = self.0.iter().find(|part| {
            let mut wanted = part.when.iter();
            wanted.all(|(path, value)| member(inbound, path) == Some(value))
        });
        let step = usize::try_from(step.saturating_sub(1)).unwrap_or(usize::MAX);
        part.and_then(|part| part.outputs.get(step))
    }

    /// What it answers in words; none where it has nothing to say to this.
    pub fn words(&self, inbound: &Value, turn_id: &str) -> Option<String> {
        match filled(self.output(inbound, 1)?, inbound, turn_id) {
            Value::String(text) => Some(text),
            said => Some(said.get("text")?.as_str()?.to_owned()),
        }
    }
}

impl Infer for Script {
    fn infer(&self, context: &Context<'_>) -> String {
        let inbound = &context.inbound.envelope;
        match self.output(inbound, context.step) {
            Some(Value::String(text)) => text.clone(),
            Some(output) => filled(output, inbound, context.turn_id).to_string(),
            None => json!({"decision": "no_reply", "reason": "the script is over"}).to_string(),
        }
    }
}

fn member<'v>(value: &'v Value, path: &str) -> Option<&'v Value> {
    let mut parts = path.split('.');
    parts.try_fold(value, |value, name| match value {
        Value::Array(items) => items.get(name.parse::<usize>().ok()?),
        value => value.get(name),
    })
}

fn filled(value: &Value, inbound: &Value, turn_id: &str) -> Value {
    match value {
        Value::String(text) if text == "$turn" => json!(turn_id),
        Value::String(text) => match text.strip_prefix("$inbound.") {
            Some(path) => member(inbound, path).cloned().unwrap_or_default(),
            None => value.clone(),
        },
        Value::Array(items) => {
            let items = items.iter().map(|item| filled(item, inbound, turn_id));
            items.collect()
        }
        Value::Object(members) => {
            let members = members
                .iter()
                .map(|(name, member)| (name.clone(), filled(member, inbound, turn_id)));
            Value::Object(members.collect())
        }
        value => value.clone(),
    }
}
