//! `chancery doctor`: looks at a node from outside and says what is wrong, where, and what to do next.
//!
//! Guarantees: it changes nothing, runs beside a node that serves, and goes on after a finding. Each check has its line, also
//! one that could not be made, and a line is printed before the next check may have to wait for somebody.

mod certificate;
mod configuration;
mod data;
mod database;
mod outside;
mod secrets;

use std::io::Write as _;

use chancery_node::Clock;
use serde::Serialize;
use serde_json::{Map, json};

use crate::client::NodeArgs;
use crate::config::{self, Config, Flags, Sources};
use crate::exit::{Exit, Failed, Failure, Outcome};
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

/// What came of a check.
#[derive(Debug)]
enum Line {
    /// It is well, in a few words.
    Fine(&'static str, String),
    /// It was not made, and why.
    LeftOut(&'static str, String),
    Wrong(Finding),
}

impl Line {
    const fn check(&self) -> &'static str {
        match self {
            Self::Fine(check, _) | Self::LeftOut(check, _) => check,
            Self::Wrong(finding) => finding.check,
        }
    }
}

/// What was looked at, and what was found.
#[derive(Debug, Default)]
struct Round {
    lines: Vec<Line>,
    /// How many of them are printed.
    told: usize,
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
        self.lines.push(Line::Wrong(Finding {
            check,
            place: place.to_string(),
            what: what.into(),
            next: next.into(),
        }));
    }

    /// A failure that another part of the program would end with.
    fn find_failure(&mut self, check: &'static str, place: impl ToString, failure: Failure) {
        let mend = || "mend what it names, then look again: chancery doctor".to_owned();
        let next = failure.next.unwrap_or_else(mend);
        self.find(check, place, failure.what, next);
    }

    /// A check is done: it is well unless it found something.
    fn done(&mut self, check: &'static str, fine: impl Into<String>) {
        if self.findings().all(|finding| finding.check != check) {
            self.lines.push(Line::Fine(check, fine.into()));
        }
    }

    /// A check was not made.
    fn leave_out(&mut self, checks: &[&'static str], why: &str) {
        for check in checks {
            if self.findings().all(|finding| finding.check != *check) {
                self.lines.push(Line::LeftOut(check, why.to_owned()));
            }
        }
    }

    /// What has no line by now could not be looked at, because of what was found.
    fn leave_out_the_rest(&mut self) {
        let told: Vec<&str> = self.lines.iter().map(Line::check).collect();
        let rest: Vec<_> = CHECKS
            .into_iter()
            .filter(|check| !told.contains(check))
            .collect();
        self.leave_out(&rest, "what was found comes first");
    }

    fn findings(&self) -> impl Iterator<Item = &Finding> {
        self.lines.iter().filter_map(|line| match line {
            Line::Wrong(finding) => Some(finding),
            Line::Fine(..) | Line::LeftOut(..) => None,
        })
    }

    /// Prints what is known by now, for people.
    fn tell(&mut self, terminal: &mut Terminal) -> Result<(), Failed> {
        if terminal.json {
            return Ok(());
        }
        for line in &self.lines[self.told..] {
            tell_line(line, terminal)?;
        }
        self.told = self.lines.len();
        Ok(terminal.out.flush()?)
    }
}

/// Makes the round.
pub(crate) fn run(
    args: &DoctorArgs,
    sources: &dyn Fn(Flags) -> Sources,
    terminal: &mut Terminal,
) -> Outcome {
    let mut round = Round::default();
    let read_from = sources(Flags::default());
    let read = read_from.settings().and_then(|settings| {
        let config = Config::of(&settings)?;
        Ok((settings, config))
    });
    match read {
        Ok((settings, config)) => {
            let secrets = secrets::named(&config);
            let of_certificate =
                configuration::look(&read_from, (&settings, &config), args, &secrets, &mut round);
            secrets::look(&config, &secrets, &mut round);
            certificate::look(&config, args.expiry_days, of_certificate, &mut round);
            round.tell(terminal)?;
            let holder = data::look(&config, args, &mut round, terminal);
            round.tell(terminal)?;
            outside::look_at_brokers(&config, &mut round);
            round.tell(terminal)?;
            outside::look(&config, args, holder.as_deref(), sources, &mut round);
        }
        Err(failure) => {
            let place = configuration::place(&read_from);
            round.find_failure("configuration", place, failure);
        }
    }
    round.leave_out_the_rest();
    round.tell(terminal)?;
    if terminal.json {
        tell_machine(&round, terminal)?;
    }
    let is_well = round.findings().next().is_none();
    Ok(if is_well { Exit::Done } else { Exit::No })
}

/// What is looked at.
const CHECKS: [&str; 11] = [
    "configuration",
    "secrets",
    "certificate",
    "disk",
    "log",
    "store",
    "clock",
    "keys",
    "broker",
    "bus",
    "node",
];

fn tell_line(line: &Line, terminal: &mut Terminal) -> Result<(), Failed> {
    match line {
        Line::Fine(check, told) => {
            let mark = terminal.good("ok");
            writeln!(terminal.out, "{mark}     {check:<14} {told}")?;
        }
        Line::LeftOut(check, why) => {
            let mark = terminal.dim("--");
            writeln!(terminal.out, "{mark}     {check:<14} not looked at: {why}")?;
        }
        Line::Wrong(finding) => {
            let mark = terminal.bad("wrong");
            let Finding {
                check,
                place,
                what,
                next,
            } = finding;
            writeln!(terminal.out, "{mark}  {check:<14} {what}")?;
            writeln!(terminal.out, "       {:<14} at {place}", "")?;
            if !next.is_empty() {
                writeln!(terminal.out, "       {:<14} next: {next}", "")?;
            }
        }
    }
    Ok(())
}

fn tell_machine(round: &Round, terminal: &mut Terminal) -> Result<(), Failed> {
    let (mut fine, mut left_out) = (Map::new(), Map::new());
    for line in &round.lines {
        match line {
            Line::Fine(check, told) => drop(fine.insert((*check).to_owned(), json!(told))),
            Line::LeftOut(check, why) => drop(left_out.insert((*check).to_owned(), json!(why))),
            Line::Wrong(_) => {}
        }
    }
    let findings: Vec<&Finding> = round.findings().collect();
    terminal.json_line(&json!({
        "ok": findings.is_empty(), "fine": fine, "left_out": left_out, "findings": findings,
    }))
}

/// The clock that a node of this configuration goes by.
fn clock(config: &Config) -> Clock {
    match config.clock {
        config::Clock::System => Clock::System,
        config::Clock::Fixed(now) => Clock::fixed(now),
        config::Clock::Shifted { ahead, by } => Clock::Shifted { ahead, by },
    }
}
