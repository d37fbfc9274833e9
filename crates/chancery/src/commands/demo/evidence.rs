//! The end of the demo: the log is verified and replayed as `chancery log` does it.

use chancery_node::suite::Chancery;

use super::stage::Stage;
use super::{Playbill, Shown, Step};
use crate::commands::log::rules;
use crate::exit::{Failed, Failure};
use crate::host::{read_seed, seed_kept_in};
use crate::log::{Lines, find, replay, verify};
use crate::terminal::Progress;

/// Verifies and replays the log of the story.
pub(super) fn check(stage: &Stage, playbill: &mut Playbill<'_>) -> Result<(), Failed> {
    let step = verified(stage).map_err(|failure| failure.what).flatten();
    playbill.show("verify: form, sequence, hash chain, signatures", step)?;
    let step = replayed(stage).map_err(|failure| failure.what).flatten();
    playbill.show("replay: the rules, run again, give every line again", step)
}

fn lines(stage: &Stage) -> Result<Lines, Failure> {
    Ok(Lines::of(find(std::slice::from_ref(&stage.config.data))?))
}

/// The rules over the world seed that the node kept.
fn suite(stage: &Stage) -> Result<Chancery, Failure> {
    match seed_kept_in(&stage.config.data) {
        Some(path) => Ok(Chancery::with_seed(read_seed(&path)?.0)),
        None => Ok(Chancery::default()),
    }
}

fn verified(stage: &Stage) -> Result<Step, Failure> {
    let suite = suite(stage)?;
    let checked = verify(rules(&suite), lines(stage)?, None, &mut Progress::hidden())?;
    let report = &checked.report;
    if report.found > 0 || checked.unended.is_some() || checked.unserved.is_some() {
        return Ok(Err(match report.findings.first() {
            Some(finding) => format!("line {}: {}", finding.seq, finding.check),
            None => "the log does not end whole".to_owned(),
        }));
    }
    if report.signatures == 0 {
        return Ok(Err("no signature was checked".to_owned()));
    }
    Ok(Ok(Shown::new()
        .line(format!(
            "{} lines in {} units, {} signatures: every check passed",
            report.lines, report.units, report.signatures
        ))
        .line(format!(
            "last line {}:{}",
            report.head.seq, report.head.hash
        ))
        .with("lines", report.lines)
        .with("signatures", report.signatures)
        .with(
            "head",
            format!("{}:{}", report.head.seq, report.head.hash),
        )))
}

fn replayed(stage: &Stage) -> Result<Step, Failure> {
    let suite = suite(stage)?;
    let checked = replay(rules(&suite), lines(stage)?, &mut Progress::hidden())?;
    let report = &checked.report;
    if let Some(divergence) = &report.divergence {
        return Ok(Err(format!(
            "line {}: {}",
            divergence.seq, divergence.reason
        )));
    }
    if report.left_out > 0 || report.replayed != report.verified {
        return Ok(Err(format!(
            "{} of {} lines were not replayed",
            report.verified.saturating_sub(report.replayed),
            report.verified
        )));
    }
    Ok(Ok(Shown::new()
        .line(format!(
            "{} of {} lines identical",
            report.replayed, report.verified
        ))
        .with("lines", report.verified)
        .with("replayed", report.replayed)))
}
