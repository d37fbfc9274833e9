//! `chancery log replay --with-policy`: which decisions would differ, and by which rule.

use std::io::Write as _;
use std::path::Path;

use chancery_node::suite::{Chancery, SEED_NEEDED};
use chancery_vibe::action::Action;
use serde::Deserialize;
use serde_json::json;

use super::{are_empty, no_log};
use crate::exit::{Exit, Failed, Failure, Outcome};
use crate::log::{Difference, Item, Lines, LogFile, NotJudged, Party, WhatIf};
use crate::terminal::{Progress, Terminal};

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct PolicyFile {
    #[serde(default)]
    partition: Vec<PartitionRow>,
    max_spend_without_confirmation: Option<u64>,
    min_reputation: Option<i64>,
    ranking_version: Option<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct PartitionRow {
    action: String,
    from: String,
    to: String,
    allow: bool,
}

fn read(path: &Path) -> Result<Vec<Item>, Failure> {
    let wrong = |reason: String| {
        Failure::usage(format!("{}: {reason}", path.display()))
            .next("a policy has [[partition]] rows with action, from, to (an address, or * for anybody) and allow; max_spend_without_confirmation; min_reputation; ranking_version")
    };
    let text = std::fs::read_to_string(path).map_err(|error| wrong(error.to_string()))?;
    let file: PolicyFile =
        toml::from_str(&text).map_err(|error| wrong(error.message().to_owned()))?;
    let mut items = Vec::new();
    for (number, row) in (1..).zip(&file.partition) {
        let at = |field: &str, reason: String| {
            wrong(format!("partition row {number}: {field}: {reason}"))
        };
        let action = Action::parse(&row.action)
            .ok_or_else(|| at("action", format!("there is no action {:?}", row.action)))?;
        let from = Party::sender(&row.from)
            .map_err(|_| at("from", format!("{:?} is no address that sends", row.from)))?;
        let to = Party::receiver(&row.to)
            .map_err(|_| at("to", format!("{:?} is no address", row.to)))?;
        items.push(Item::Partition {
            action,
            from,
            to,
            allow: row.allow,
        });
    }
    items.extend(file.max_spend_without_confirmation.map(Item::Ceiling));
    items.extend(file.min_reputation.map(Item::MinReputation));
    items.extend(file.ranking_version.map(Item::Ranking));
    if items.is_empty() {
        return Err(wrong("it changes nothing".to_owned()));
    }
    Ok(items)
}

/// Judges a log under another policy.
pub(super) fn run(
    policy: &Path,
    cascade: bool,
    suite: Chancery,
    files: Vec<LogFile>,
    terminal: &mut Terminal,
) -> Outcome {
    let mut judge = WhatIf::new(suite, read(policy)?, cascade).map_err(not_judged)?;
    let mut lines = Lines::of(files.clone());
    let mut taken = 0;
    let mut progress = Progress::of_bytes(lines.total_bytes(), terminal);
    let mut found = 0_u64;
    while let Some(block) = lines.next_block()? {
        for text in &block.lines {
            if let Some(difference) = judge.take(text).map_err(not_judged)? {
                found += 1;
                tell(&difference, terminal)?;
            }
        }
        taken += block.lines.len() as u64;
        progress.advance(block.bytes);
    }
    progress.finish();
    if are_empty(taken, &files) {
        return Err(no_log(&files, Failure::usage).into());
    }
    if !terminal.json {
        match found {
            0 => writeln!(terminal.out, "no decision would differ")?,
            1 => writeln!(terminal.out, "1 decision would differ")?,
            _ => writeln!(terminal.out, "{found} decisions would differ")?,
        }
    }
    Ok(if found == 0 { Exit::Done } else { Exit::No })
}

fn not_judged(error: NotJudged) -> Failure {
    let text = error.to_string();
    if text.contains(SEED_NEEDED) {
        return Failure::usage(text)
            .next("name the world seed that the log began with: --world SEED");
    }
    Failure::usage(text).next("see what is wrong with it: chancery log replay")
}

fn tell(difference: &Difference, terminal: &mut Terminal) -> Result<(), Failed> {
    let consequence = difference.rules.is_empty();
    if terminal.json {
        return terminal.json_line(&json!({
            "seq": difference.seq,
            "msg_id": difference.msg_id,
            "kind": difference.kind,
            "recorded": "accepted",
            "would": difference.would,
            "rules": difference.rules,
            "consequence": consequence,
        }));
    }
    let rule = match consequence {
        true => "a consequence of what differs before".to_owned(),
        false => format!("by {}", difference.rules.join(", ")),
    };
    let id = difference.msg_id.iter().map(|id| format!(" {id}"));
    writeln!(
        terminal.out,
        "line {} {}{}: {}\n  {rule}",
        difference.seq,
        difference.kind,
        id.collect::<String>(),
        difference.would
    )?;
    Ok(())
}
