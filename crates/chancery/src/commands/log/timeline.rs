//! `chancery log timeline`: the envelopes of an AGH channel in their order, out of the log (AG-AUD-4).
//!
//! Greetings are in no log (CH-JRN-13), so none of them stands between what was said.

use std::collections::VecDeque;

use chancery_agh::preview;
use chancery_core::json::{ReadRules, read as read_envelope};
use chancery_core::line::{Line, Origin, ProtocolName};
use chancery_core::time::{Time, format_audit};
use chancery_journal::line::read;
use serde_json::{Map, Value, json};

use super::{SourcesOf, Which};
use crate::exit::{Exit, Outcome};
use crate::log::Lines;
use crate::terminal::Terminal;

/// What an entry has of its envelope, where that has it: who, what, and what relates it to others.
const MEMBERS: [&str; 14] = [
    "id",
    "workspace_id",
    "channel",
    "from",
    "to",
    "kind",
    "interaction_id",
    "work_id",
    "thread_id",
    "direct_id",
    "reply_to",
    "causation_id",
    "trace_id",
    "body",
];

/// What `log timeline` is asked.
#[derive(Debug, clap::Args)]
pub(crate) struct TimelineArgs {
    /// The channel
    channel: String,
    #[command(flatten)]
    which: Which,
    /// Its workspace, in revision B
    #[arg(long, value_name = "ID")]
    workspace: Option<String>,
    /// How many envelopes to show, the last ones
    #[arg(long, value_name = "N", default_value_t = 100)]
    limit: usize,
}

/// Shows the envelopes of a channel.
pub(super) fn run(args: &TimelineArgs, sources: SourcesOf<'_>, terminal: &mut Terminal) -> Outcome {
    let mut lines = Lines::of(args.which.find(sources)?);
    let mut last = VecDeque::new();
    while let Some(block) = lines.next_block()? {
        let of_line = |text| entry(&read(text).ok()?.line, args);
        for entry in block.lines.iter().filter_map(of_line) {
            last.push_back(entry);
            if last.len() > args.limit {
                last.pop_front();
            }
        }
    }
    if terminal.json {
        for entry in last {
            terminal.json_line(&entry)?;
        }
        return Ok(Exit::Done);
    }
    let titles = ["timestamp", "direction", "from", "to", "kind", "preview"];
    let text = |entry: &Map<String, Value>, name| {
        let text = entry.get(name).and_then(Value::as_str);
        text.unwrap_or_default().to_owned()
    };
    let rows = last
        .iter()
        .map(|entry| titles.map(|name| text(entry, name)));
    terminal.table(titles, rows)?;
    Ok(Exit::Done)
}

/// The entry of a line that holds an envelope of the channel.
fn entry(line: &Line, args: &TimelineArgs) -> Option<Map<String, Value>> {
    if line.protocol != ProtocolName::Agh {
        return None;
    }
    let mut envelope: Map<String, Value> = serde_json::from_slice(&line.envelope).ok()?;
    let text = |name: &str| envelope.get(name).and_then(Value::as_str);
    if text("channel") != Some(&args.channel) || text("workspace_id") != args.workspace.as_deref() {
        return None;
    }
    let shown =
        read_envelope(&line.envelope, &ReadRules::AGH).map(|envelope| preview::of(&envelope));
    let made = envelope.get("ts").and_then(Value::as_i64);
    let made = made.and_then(Time::from_unix_seconds);
    let direction = match line.origin {
        Origin::External => "received",
        Origin::Agent | Origin::Runtime => "sent",
    };
    let mut entry = Map::new();
    entry.insert("seq".to_owned(), json!(line.seq));
    entry.insert("direction".to_owned(), json!(direction));
    entry.insert("preview".to_owned(), json!(shown.unwrap_or_default()));
    entry.insert(
        "timestamp".to_owned(),
        json!(made.map(|at| format_audit(at).as_str().to_owned())),
    );
    for name in MEMBERS {
        if let Some(value) = envelope.remove(name).filter(|value| !value.is_null()) {
            entry.insert(name.to_owned(), value);
        }
    }
    Some(entry)
}
