//! `chancery log replay` (CH-JRN-7, VC-RPL-2).

use std::io::Write as _;

use chancery_journal::ReplayReport;
use serde_json::json;

use super::{SourcesOf, Which, beyond_lines, no_log, place, rules};
use crate::exit::{Exit, Failed, Failure, Outcome};
use crate::log::{Checked, Lines, LogFile, replay};
use crate::terminal::{Progress, Terminal};

/// What `log replay` is asked.
#[derive(Debug, clap::Args)]
pub(crate) struct ReplayArgs {
    #[command(flatten)]
    which: Which,
    /// Check signatures one by one, never in batches (this build always does)
    #[arg(long)]
    strict: bool,
}

/// Replays a log.
pub(super) fn run(args: &ReplayArgs, sources: SourcesOf<'_>, terminal: &mut Terminal) -> Outcome {
    let files = args.which.find(sources)?;
    let lines = Lines::of(files.clone());
    let mut progress = Progress::of_bytes(lines.total_bytes(), terminal);
    let replayed = replay(rules(), lines, &mut progress)?;
    progress.finish();
    if replayed.is_no_log() {
        // VC-RPL-2: unusable input is 2.
        return Err(no_log(&files, Failure::usage).into());
    }
    let diverged = divergence(&replayed, &files);
    if terminal.json {
        tell_machine(&replayed, diverged.as_deref(), terminal)?;
    } else {
        tell_people(&replayed, diverged.as_deref(), terminal)?;
    }
    Ok(if diverged.is_none() {
        Exit::Done
    } else {
        Exit::No
    })
}

/// The first divergence, with its place.
fn divergence(replayed: &Checked<ReplayReport>, files: &[LogFile]) -> Option<String> {
    if let Some(divergence) = &replayed.report.divergence {
        let at = place(replayed.place(divergence.seq), files);
        return Some(format!(
            "{at}: seq {}: {}",
            divergence.seq, divergence.reason
        ));
    }
    let (at, what) = beyond_lines(replayed, files).into_iter().next()?;
    Some(format!("{at}: {what}"))
}

fn tell_machine(
    replayed: &Checked<ReplayReport>,
    diverged: Option<&str>,
    terminal: &mut Terminal,
) -> Result<(), Failed> {
    let report = &replayed.report;
    terminal.json_line(&json!({
        "identical": diverged.is_none(),
        "lines": report.verified,
        "replayed": report.replayed,
        "left_out": report.left_out,
        "signatures": report.signatures,
        "signature_check": "one by one",
        "divergence": diverged,
        "seq": report.divergence.as_ref().map(|divergence| divergence.seq),
        "head": {"seq": report.head.seq, "sha256": report.head.hash.hex()},
    }))
}

fn tell_people(
    replayed: &Checked<ReplayReport>,
    diverged: Option<&str>,
    terminal: &mut Terminal,
) -> Result<(), Failed> {
    let report = &replayed.report;
    writeln!(
        terminal.out,
        "{} lines, {} given again by the rules, {} signatures checked one by one",
        report.verified, report.replayed, report.signatures
    )?;
    if report.left_out > 0 {
        writeln!(
            terminal.out,
            "{} lines verified and not replayed: this build does not have their rules",
            report.left_out
        )?;
    }
    writeln!(
        terminal.out,
        "last line: {}:{}",
        report.head.seq, report.head.hash
    )?;
    match diverged {
        None => {
            let identical = terminal.good("identical");
            writeln!(terminal.out, "{identical}")?;
            writeln!(
                terminal.out,
                "\nThat shows the rules were followed. What it does not prove: chancery log verify"
            )?;
        }
        Some(what) => {
            let mark = terminal.bad("DIVERGED");
            writeln!(terminal.out, "{mark} {what}")?;
        }
    }
    Ok(())
}
