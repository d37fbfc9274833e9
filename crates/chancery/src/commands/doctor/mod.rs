//! `chancery doctor`: looks at a node from outside and says what is wrong, where, and what to do next.
//!
//! Guarantees: it changes nothing, runs beside a node that serves, and goes on after a finding.

mod certificate;
mod data;
mod database;
mod outside;
mod secrets;

use std::io::Write as _;

use chancery_node::Clock;
use serde::Serialize;
use serde_json::json;

use crate::client::NodeArgs;
use crate::config::{self, Config, Flags, Sources};
use crate::exit::{Exit, Failure, Outcome};
use crate::terminal::Terminal;

/// What `doctor` is asked.
#[derive(Debug, clap::Args)]
pub(crate) struct DoctorArgs {
    #[command(flatten)]
    node: NodeArgs,
    /// Keys and certificates that end within so many days are told
    #[arg(long, value_name = "DAYS", default_value_t = 14)]
    expiry_days: u32,
    /// Less free space than this on the disk of the data is told
    #[arg(long, value_name = "BYTES", default_value_t = 1 << 30)]
    free_bytes: u64,
}

/// Something that is wrong.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
struct Finding {
    /// Which check found it.
    check: &'static str,
    /// Where.
    place: String,
    /// What is wrong.
    what: String,
    /// What to do next.
    next: String,
}

/// What was looked at, and what was found.
#[derive(Debug, Default)]
struct Round {
    /// What is well, in a few words.
    fine: Vec<(&'static str, String)>,
    findings: Vec<Finding>,
}

impl Round {
    /// Something is wrong.
    fn find(
        &mut self,
        check: &'static str,
        place: impl ToString,
        what: impl Into<String>,
        next: impl Into<String>,
    ) {
        self.findings.push(Finding {
            check,
            place: place.to_string(),
            what: what.into(),
            next: next.into(),
        });
    }

    /// A failure that another part of the program would end with.
    fn find_failure(&mut self, check: &'static str, place: impl ToString, failure: Failure) {
        let mend = || "mend what it names, then look again: chancery doctor".to_owned();
        let next = failure.next.unwrap_or_else(mend);
        self.find(check, place, failure.what, next);
    }

    /// A check is done: it is well unless it found something.
    fn done(&mut self, check: &'static str, fine: impl Into<String>) {
        if self.findings.iter().all(|finding| finding.check != check) {
            self.fine.push((check, fine.into()));
        }
    }
}

/// Makes the round.
pub(crate) fn run(
    args: &DoctorArgs,
    sources: &dyn Fn(Flags) -> Sources,
    terminal: &mut Terminal,
) -> Outcome {
    let mut round = Round::default();
    let place = sources(Flags::default()).file.map_or_else(
        || config::DEFAULT_FILE.to_owned(),
        |file| file.display().to_string(),
    );
    match Config::load(&sources(Flags::default())) {
        Ok(config) => {
            if let Err(failure) = config.check_files() {
                round.find_failure("configuration", &place, failure);
            }
            round.done("configuration", "every key is known, every file is there");
            secrets::look(&config, &mut round);
            certificate::look(&config, args.expiry_days, &mut round);
            let holder = data::look(&config, args, &mut round, terminal);
            outside::look(&config, args, holder.as_deref(), sources, &mut round);
        }
        Err(failure) => round.find_failure("configuration", &place, failure),
    }
    tell(&round, terminal)
}

fn tell(round: &Round, terminal: &mut Terminal) -> Outcome {
    let is_well = round.findings.is_empty();
    if terminal.json {
        let fine: serde_json::Map<String, serde_json::Value> = round
            .fine
            .iter()
            .map(|(check, told)| ((*check).to_owned(), json!(told)))
            .collect();
        terminal.json_line(&json!({"ok": is_well, "fine": fine, "findings": round.findings}))?;
    } else {
        for (check, told) in &round.fine {
            let mark = terminal.good("ok");
            writeln!(terminal.out, "{mark}     {check:<14} {told}")?;
        }
        for finding in &round.findings {
            let mark = terminal.bad("wrong");
            writeln!(
                terminal.out,
                "{mark}  {:<14} {}",
                finding.check, finding.what
            )?;
            writeln!(terminal.out, "       {:<14} at {}", "", finding.place)?;
            if !finding.next.is_empty() {
                writeln!(terminal.out, "       {:<14} next: {}", "", finding.next)?;
            }
        }
    }
    Ok(if is_well { Exit::Done } else { Exit::No })
}

/// The clock that a node of this configuration goes by.
fn clock(config: &Config) -> Clock {
    match config.clock {
        config::Clock::System => Clock::System,
        config::Clock::Fixed(now) => Clock::fixed(now),
        config::Clock::Shifted { ahead, by } => Clock::Shifted { ahead, by },
    }
}
