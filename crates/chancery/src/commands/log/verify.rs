//! `chancery log verify` (CH-JRN-7).

use std::io::Write as _;

use chancery_core::digest::Sha256Digest;
use chancery_journal::Head;
use chancery_node::suite::Chancery;
use serde_json::{Value, json};

use super::{SourcesOf, Which, are_empty, beyond_lines, no_log, place, rules};
use crate::exit::{Exit, Failed, Failure, Outcome};
use crate::log::{Lines, LogFile, Verified, verify};
use crate::terminal::{Progress, Terminal};

/// What `log verify` is asked.
#[derive(Debug, clap::Args)]
pub(crate) struct VerifyArgs {
    #[command(flatten)]
    which: Which,
    /// The last line as it is known from elsewhere: shows whether the end was cut off
    #[arg(long, value_name = "SEQ:SHA256", value_parser = head)]
    head: Option<Head>,
}

fn head(text: &str) -> Result<Head, String> {
    let parsed = text.split_once(':').and_then(|(seq, hash)| {
        Some(Head {
            seq: seq.parse().ok()?,
            hash: Sha256Digest::from_hex(hash).ok()?,
            time: None,
        })
    });
    parsed.ok_or_else(|| "the last line's number, a colon, and its SHA-256 in hex".to_owned())
}

/// Verifies a log.
pub(super) fn run(args: &VerifyArgs, sources: SourcesOf<'_>, terminal: &mut Terminal) -> Outcome {
    let files = args.which.find(sources)?;
    let lines = Lines::of(files.clone());
    let mut progress = Progress::of_bytes(lines.total_bytes(), terminal);
    let suite = Chancery::default();
    let verified = verify(rules(&suite), lines, args.head, &mut progress)?;
    progress.finish();
    if verified.is_no_log() || are_empty(verified.lines, &files) {
        return Err(no_log(&files, Failure::damaged).into());
    }
    let findings = findings(&verified, &files);
    if terminal.json {
        terminal.json_line(&as_json(&verified, &findings))?;
    } else {
        tell_people(&verified, &findings, terminal)?;
    }
    Ok(if findings.is_empty() {
        Exit::Done
    } else {
        Exit::No
    })
}

/// What to do about an end that was not written whole.
pub(crate) const CUT_OFF: &str = "start the node: it cuts off what was never acknowledged, and says so if more than that is missing";

/// Place and check of every finding that was kept.
pub(crate) fn findings(verified: &Verified, files: &[LogFile]) -> Vec<(String, String)> {
    let of_lines = verified.report.findings.iter().map(|finding| {
        let at = place(verified.nth(finding.line), files);
        (at, finding.check.to_string())
    });
    of_lines.chain(beyond_lines(verified, files)).collect()
}

/// What verification of a log tells a machine.
pub(crate) fn verified(log: LogFile) -> Result<Value, Failure> {
    let files = vec![log];
    let suite = Chancery::default();
    let lines = Lines::of(files.clone());
    let verified = verify(rules(&suite), lines, None, &mut Progress::hidden())?;
    Ok(as_json(&verified, &findings(&verified, &files)))
}

fn as_json(verified: &Verified, findings: &[(String, String)]) -> Value {
    let report = &verified.report;
    let told: Vec<_> = findings
        .iter()
        .map(|(at, check)| json!({"at": at, "check": check}))
        .collect();
    json!({
        "passed": findings.is_empty(),
        "lines": report.lines,
        "units": report.units,
        "signatures": report.signatures,
        "found": findings.len() as u64 + left_out(verified),
        "findings": told,
        "head": {"seq": report.head.seq, "sha256": report.head.hash.hex()},
        "not_proven": report.not_proven,
    })
}

/// Findings that were counted and not kept.
fn left_out(verified: &Verified) -> u64 {
    verified.report.found - verified.report.findings.len() as u64
}

fn tell_people(
    verified: &Verified,
    findings: &[(String, String)],
    terminal: &mut Terminal,
) -> Result<(), Failed> {
    let report = &verified.report;
    for (at, check) in findings {
        writeln!(terminal.out, "{at}: {check}")?;
    }
    if left_out(verified) > 0 {
        writeln!(terminal.out, "and {} more", left_out(verified))?;
    }
    writeln!(
        terminal.out,
        "{} lines in {} units, {} signatures checked one by one\nlast line: {}:{}",
        report.lines, report.units, report.signatures, report.head.seq, report.head.hash
    )?;
    let verdict = if findings.is_empty() {
        terminal.good("every check passed")
    } else {
        terminal.bad("NOT VALID")
    };
    writeln!(terminal.out, "{verdict}")?;
    if verified.torn_after().is_some() {
        writeln!(terminal.out, "  {:<12} {CUT_OFF}", "next")?;
    }
    writeln!(terminal.out, "\nA pass does not prove:")?;
    for what in report.not_proven {
        writeln!(terminal.out, "  - {what}")?;
    }
    Ok(())
}
