//! `chancery log explain`: in words, which checks an envelope passed or failed and what it changed.

use std::io::Write as _;
use std::path::{Path, PathBuf};

use chancery_core::digest::Sha256Digest;
use chancery_core::line::{Line, Origin, ProtocolName, Seq};
use chancery_core::rows::RowChange;
use chancery_journal::line::read;
use chancery_journal::{Recorded, Units};
use chancery_node::suite::Chancery;
use serde_json::{Value, json};

use super::changes::Changes;
use super::{SourcesOf, Which, World, deal, render};
use crate::commands::explain::next_of;
use crate::commands::send::signature_in_words;
use crate::exit::{Exit, Failed, Failure, Outcome};
use crate::log::{Lines, LogFile, Note, Summary, message_id, notes_about};
use crate::terminal::{Progress, Terminal, plain};

/// What `log explain` is asked.
#[derive(Debug, clap::Args)]
pub(crate) struct ExplainArgs {
    /// The identifier of an envelope or of a vibe session, or the number of a line; a session is told with its disputes
    #[arg(value_name = "MSG_ID")]
    id: String,
    #[command(flatten)]
    which: Which,
    #[command(flatten)]
    world: World,
}

/// What the files say about one envelope.
#[derive(Default)]
struct Found {
    /// The units it is in.
    units: Vec<FoundUnit>,
    /// Later lines that are about it.
    later: Vec<Line>,
    /// What the two files beside the log say.
    notes: Vec<Note>,
    /// The deal of vibe that it belongs to: the session, its lines and those of its disputes.
    deal: Option<(String, Vec<Line>)>,
}

/// A unit with the envelope in it.
struct FoundUnit {
    lines: Vec<Line>,
    /// The place of its line.
    at: usize,
    /// The rows that the unit changed, where this build's rules tell.
    changes: Option<Vec<RowChange>>,
}

/// Explains an envelope.
pub(super) fn run(args: &ExplainArgs, sources: SourcesOf<'_>, terminal: &mut Terminal) -> Outcome {
    let files = args.which.find(sources)?;
    let suite = args.world.suite(&files)?;
    let bytes = Lines::of(files.clone()).total_bytes();
    let progress = Progress::of_bytes(bytes, terminal);
    let found = find(&args.id, suite, files.clone(), &folders(&files), progress)?;
    if terminal.json {
        terminal.json_line(&as_json(&found))?;
    } else {
        tell_people(&found, terminal)?;
    }
    Ok(if found.units.is_empty() && found.deal.is_none() {
        Exit::No
    } else {
        Exit::Done
    })
}

/// What a log tells a machine about an envelope; `folder` has the files beside it.
pub(crate) fn explained(
    id: &str,
    suite: Chancery,
    log: LogFile,
    folder: Option<&Path>,
) -> Result<Value, Failure> {
    let folders: Vec<PathBuf> = folder.map(Path::to_owned).into_iter().collect();
    let found = find(id, suite, vec![log], &folders, Progress::hidden())?;
    Ok(as_json(&found))
}

fn find(
    id: &str,
    suite: Chancery,
    files: Vec<LogFile>,
    folders: &[PathBuf],
    progress: Progress,
) -> Result<Found, Failure> {
    let mut found = search(id, suite, files.clone(), progress)?;
    let notes = folders.iter().flat_map(|folder| notes_about(id, folder));
    found.notes = notes.collect();
    found.deal = deal_of(id, &found, files)?;
    if found.units.is_empty() && found.notes.is_empty() && found.deal.is_none() {
        return Err(Failure::no(format!(
            "{id} is neither on the log nor in the files beside it"
        ))
        .next("look at what is: chancery log show"));
    }
    Ok(found)
}

/// The lines of the session that an envelope belongs to, or that was named itself, and of the disputes about what was
/// bought in it (VC-DSP-2).
fn deal_of(
    id: &str,
    found: &Found,
    files: Vec<LogFile>,
) -> Result<Option<(String, Vec<Line>)>, Failure> {
    let own = found.units.first().map(|unit| &unit.lines[unit.at]);
    let session = match own {
        Some(line) if line.protocol != ProtocolName::Vibe => return Ok(None),
        Some(line) => deal::session_of(line).unwrap_or_default(),
        None => id.to_owned(),
    };
    let mut deal = deal::Deal::of(session.clone());
    let mut lines = Lines::of(files);
    let mut of_deal = Vec::new();
    while let Some(block) = lines.next_block()? {
        let readings = block.lines.iter().filter_map(|text| read(text).ok());
        let lines = readings.map(|reading| reading.line);
        of_deal.extend(lines.filter(|line| deal.has(line)));
    }
    Ok((!of_deal.is_empty()).then_some((session, of_deal)))
}

fn search(
    id: &str,
    suite: Chancery,
    files: Vec<LogFile>,
    mut progress: Progress,
) -> Result<Found, Failure> {
    let mut lines = Lines::of(files);
    let mut search = Search {
        id,
        number: id.parse().ok(),
        found: Found::default(),
        units: Units::default(),
        changes: Changes::of_rules(suite),
    };
    while let Some(block) = lines.next_block()? {
        for text in &block.lines {
            if let Ok(reading) = read(text) {
                search.line(Recorded {
                    line: reading.line,
                    canonical: reading.canonical,
                    hash: Sha256Digest::of(text),
                });
            }
        }
        progress.advance(block.bytes);
    }
    progress.finish();
    let unfinished = search.units.abandon();
    search.unit(unfinished, None);
    Ok(search.found)
}

struct Search<'s> {
    id: &'s str,
    number: Option<Seq>,
    found: Found,
    units: Units<Recorded>,
    changes: Changes,
}

impl Search<'_> {
    fn line(&mut self, recorded: Recorded) {
        let more = recorded.line.more;
        if let Ok(Some(unit)) = self.units.push(recorded, more) {
            let changes = self.changes.of(&unit);
            self.unit(unit, changes);
        }
    }

    fn unit(&mut self, unit: Vec<Recorded>, changes: Option<Vec<RowChange>>) {
        let unit: Vec<Line> = unit.into_iter().map(|recorded| recorded.line).collect();
        let is_it = |line: &Line| {
            self.number == Some(line.seq) || message_id(line).as_deref() == Some(self.id)
        };
        if let Some(at) = unit.iter().position(is_it) {
            self.found.units.push(FoundUnit {
                lines: unit,
                at,
                changes,
            });
            return;
        }
        let about: Vec<Seq> = self
            .found
            .units
            .iter()
            .map(|unit| unit.lines[unit.at].seq)
            .collect();
        let later = unit
            .into_iter()
            .filter(|line| refers_to(line).is_some_and(|seq| about.contains(&seq)));
        self.found.later.extend(later);
    }
}

/// The line that another is about: what a hosted agent answers, or what failed.
fn refers_to(line: &Line) -> Option<Seq> {
    if let Some(answers) = line.meta_json("answers") {
        return answers.parse().ok();
    }
    if line.protocol != ProtocolName::Node {
        return None;
    }
    let act: Value = serde_json::from_slice(&line.envelope).ok()?;
    act.get("of")?.as_u64()
}

/// The folders that files are in.
fn folders(files: &[LogFile]) -> Vec<PathBuf> {
    let mut folders: Vec<PathBuf> = files
        .iter()
        .filter_map(|file| match file {
            LogFile::Path(path) => Some(path.parent()?.to_owned()),
            LogFile::Store(log) => log.folder().map(Path::to_owned),
            LogFile::Stdin | LogFile::Live(_) => None,
        })
        .collect();
    folders.dedup();
    folders
}

/// What a member of `meta` says, in words.
fn check_in_words(name: &str, value: &str) -> Option<String> {
    let text = value.trim_matches('"');
    Some(match name {
        "nonce" | "batch" | "principal" if text == "null" => return None,
        "nonce" => return None,
        "key" => format!("signature: holds under key {text} of its sender"),
        "form" => format!("signed form: {text}"),
        "via" => format!("came by: {text}"),
        "principal" => format!("sent with a token of {text}"),
        "answers" => format!("answers line {text}"),
        "applied_state_diff_id" if text == "null" => "changed nothing of the world".to_owned(),
        "applied_state_diff_id" => format!("changed the world: {text}"),
        other => format!("{}: {text}", other.replace('_', " ")),
    })
}

fn tell_people(found: &Found, terminal: &mut Terminal) -> Result<(), Failed> {
    for unit in &found.units {
        tell_unit(&unit.lines, unit.at, terminal)?;
        tell_changes(unit.changes.as_deref(), terminal)?;
    }
    if !found.later.is_empty() {
        writeln!(terminal.out, "\nlater lines about it:")?;
        for line in &found.later {
            render::write_line(line, terminal)?;
        }
    }
    for note in &found.notes {
        tell_note(note, terminal)?;
    }
    if let Some((session, lines)) = &found.deal {
        deal::tell(session, lines, terminal)?;
    }
    Ok(())
}

fn tell_unit(unit: &[Line], at: usize, terminal: &mut Terminal) -> Result<(), Failed> {
    let line = &unit[at];
    let accepted = terminal.good("accepted");
    writeln!(
        terminal.out,
        "{accepted} as line {} ({}) at {}\n  {words}",
        line.seq,
        line.protocol.as_str(),
        render::time(line),
        words = plain(&Summary::of(line).words())
    )?;
    let origin = match line.origin {
        Origin::External => "it came from outside",
        Origin::Agent => "a hosted agent sent it; the node added identifiers, time and signature",
        Origin::Runtime => "the rules derived it from the first line of its unit",
    };
    writeln!(terminal.out, "  {origin}")?;
    for (name, value) in line.meta.iter() {
        if let Some(words) = check_in_words(name, value) {
            writeln!(terminal.out, "  {}", plain(&words))?;
        }
    }
    if unit.len() > 1 {
        writeln!(terminal.out, "\non record together with it, in one unit:")?;
        for (index, other) in unit.iter().enumerate() {
            if index != at {
                render::write_line(other, terminal)?;
            }
        }
    }
    Ok(())
}

/// The rows that a unit changed: their names, not what is in them.
fn tell_changes(changes: Option<&[RowChange]>, terminal: &mut Terminal) -> Result<(), Failed> {
    let Some(changes) = changes else {
        writeln!(
            terminal.out,
            "\nwhat it changed is not known: the rules of this build do not give the log up to it"
        )?;
        return Ok(());
    };
    writeln!(terminal.out, "\nrows that it changed:")?;
    for (key, value) in changes {
        let how = if value.is_some() {
            "written"
        } else {
            "removed"
        };
        writeln!(terminal.out, "  {key:?} {how}")?;
    }
    Ok(())
}

fn tell_note(note: &Note, terminal: &mut Terminal) -> Result<(), Failed> {
    let text = |name: &str| plain(note.text(name).unwrap_or("-"));
    if !note.refused {
        writeln!(terminal.out, "{} ({})", text("event"), text("protocol"))?;
        return Ok(());
    }
    let refused = terminal.bad("refused");
    writeln!(
        terminal.out,
        "{refused} at {} ({}): {}\n  failed check: {}\n  requirement: {}",
        text("at"),
        text("protocol"),
        text("code"),
        text("check"),
        text("requirement")
    )?;
    if let Some(path) = note.text("path") {
        writeln!(terminal.out, "  at: {}", plain(path))?;
    }
    let tried = note.members.get("would_verify_as");
    let difference = note
        .members
        .get("first_difference_at")
        .and_then(Value::as_u64);
    match signature_in_words(tried.and_then(Value::as_str), difference) {
        Some(way) => writeln!(terminal.out, "  the signature would verify as {way}")?,
        None if tried.is_some() => writeln!(
            terminal.out,
            "  the signature verifies in no other dialect or encoding either"
        )?,
        None => {}
    }
    if let Some(next) = next_of(&text("protocol"), &text("code")) {
        writeln!(terminal.out, "  next: {next}")?;
    }
    Ok(())
}

fn as_json(found: &Found) -> Value {
    let describe = |line: &Line| {
        let summary = Summary::of(line);
        json!({
            "seq": line.seq,
            "protocol": line.protocol.as_str(),
            "origin": line.origin.as_str(),
            "eval_ts": render::time(line),
            "kind": summary.kind,
            "from": summary.from,
            "to": summary.to,
            "id": summary.id,
        })
    };
    let accepted: Vec<Value> = found
        .units
        .iter()
        .map(|unit| {
            let line = &unit.lines[unit.at];
            let mut told = describe(line);
            let meta = line.meta.iter().map(|(name, text)| {
                (
                    name.to_owned(),
                    serde_json::from_str(text).unwrap_or(Value::Null),
                )
            });
            told["meta"] = Value::Object(meta.collect());
            told["unit"] = unit.lines.iter().map(describe).collect();
            told["changes"] = unit.changes.as_deref().map_or(Value::Null, changes_as_json);
            told
        })
        .collect();
    json!({
        "accepted": accepted,
        "later": found.later.iter().map(describe).collect::<Vec<_>>(),
        "refused": notes_as_json(found, true),
        "events": notes_as_json(found, false),
        "deal": found.deal.as_ref().map(|(_, lines)| deal::as_json(lines)),
    })
}

fn changes_as_json(changes: &[RowChange]) -> Value {
    let change =
        |(key, value): &RowChange| json!({"row": format!("{key:?}"), "removed": value.is_none()});
    changes.iter().map(change).collect()
}

fn notes_as_json(found: &Found, refused: bool) -> Vec<&Value> {
    let wanted = found.notes.iter().filter(|note| note.refused == refused);
    wanted.map(|note| &note.members).collect()
}
