//! `chancery log replay` (CH-JRN-7, VC-RPL-2).

use std::io::Write as _;
use std::path::PathBuf;

use chancery_core::rows::{Rows, RowsDamaged};
use chancery_journal::{Reason, ReplayReport};
use chancery_node::suite::SEED_NEEDED;
use chancery_vibe::world::hash::{state_hash, world_hash};
use serde_json::json;

use super::{SourcesOf, Which, World, are_empty, beyond_lines, no_log, place, rules, what_if};
use crate::exit::{Exit, Failed, Failure, Outcome};
use crate::log::{Checked, Lines, LogFile, replay_to_rows};
use crate::terminal::{Progress, Terminal};

/// What `log replay` is asked.
#[derive(Debug, clap::Args)]
pub(crate) struct ReplayArgs {
    #[command(flatten)]
    which: Which,
    #[command(flatten)]
    world: World,
    /// Check signatures one by one, never in batches (this build always does)
    #[arg(long)]
    strict: bool,
    /// Judge every vibe input under another policy, and list what would differ. The file has [[partition]] rows
    /// (action, from, to, allow), max_spend_without_confirmation, min_reputation, ranking_version, or some of them
    #[arg(long, value_name = "FILE")]
    with_policy: Option<PathBuf>,
    /// With a policy: let what differs change the state that later inputs meet, changes of the world by an operator too
    #[arg(long, requires = "with_policy")]
    cascade: bool,
}

/// Replays a log.
pub(super) fn run(args: &ReplayArgs, sources: SourcesOf<'_>, terminal: &mut Terminal) -> Outcome {
    let files = args.which.find(sources)?;
    if let Some(policy) = &args.with_policy {
        let suite = args.world.suite(&files)?;
        return what_if::run(policy, args.cascade, suite, files, terminal);
    }
    let lines = Lines::of(files.clone());
    let mut progress = Progress::of_bytes(lines.total_bytes(), terminal);
    let suite = args.world.suite(&files)?;
    let (replayed, rows) = replay_to_rows(rules(&suite), lines, &mut progress)?;
    progress.finish();
    if let Some(needed) = seed_needed(&replayed) {
        return Err(Failure::usage(needed)
            .next("name the world seed that the log began with: --world SEED")
            .into());
    }
    let hashes = Hashes::of(&rows)?;
    if replayed.is_no_log() || are_empty(replayed.lines, &files) {
        // VC-RPL-2: unusable input is 2. What replay starts from stands in the first line.
        return Err(no_log(&files, Failure::usage).into());
    }
    let diverged = divergence(&replayed, &files);
    if terminal.json {
        tell_machine(&replayed, diverged.as_deref(), hashes.as_ref(), terminal)?;
    } else {
        tell_people(&replayed, diverged.as_deref(), hashes.as_ref(), terminal)?;
    }
    Ok(if diverged.is_none() {
        Exit::Done
    } else {
        Exit::No
    })
}

/// The world's hashes after the last line (VC-WLD-4); none where the log has no world.
struct Hashes {
    world: String,
    state: String,
}

impl Hashes {
    fn of(rows: &dyn Rows) -> Result<Option<Self>, Failure> {
        let damaged = |damage: RowsDamaged| Failure::damaged(damage.to_string());
        let Some(world) = world_hash(rows).map_err(damaged)? else {
            return Ok(None);
        };
        Ok(Some(Self {
            world: world.hex(),
            state: state_hash(rows).map_err(damaged)?.hex(),
        }))
    }
}

/// What is said when the log names a world seed that is not here (VC-RPL-2: unusable input).
fn seed_needed(replayed: &Checked<ReplayReport>) -> Option<String> {
    match &replayed.report.divergence.as_ref()?.reason {
        Reason::Damaged(what) if what.starts_with(SEED_NEEDED) => Some(what.clone()),
        _ => None,
    }
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
    hashes: Option<&Hashes>,
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
        "world_hash": hashes.map(|hashes| &hashes.world),
        "state_hash": hashes.map(|hashes| &hashes.state),
    }))
}

fn tell_people(
    replayed: &Checked<ReplayReport>,
    diverged: Option<&str>,
    hashes: Option<&Hashes>,
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
            tell_hashes(hashes, terminal)?;
            writeln!(
                terminal.out,
                "\nThat shows the rules were followed. What it does not prove: chancery log verify"
            )?;
        }
        Some(what) => {
            let mark = terminal.bad("DIVERGED");
            writeln!(terminal.out, "{mark} {what}")?;
            tell_hashes(hashes, terminal)?;
        }
    }
    Ok(())
}

fn tell_hashes(hashes: Option<&Hashes>, terminal: &mut Terminal) -> Result<(), Failed> {
    if let Some(hashes) = hashes {
        writeln!(
            terminal.out,
            "world hash: {}\nstate hash: {}",
            hashes.world, hashes.state
        )?;
    }
    Ok(())
}
