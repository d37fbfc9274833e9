//! What commands about vibe share: sending, telling the answer, and `chancery vibe`.

mod ap2;

use std::io::Write as _;

use bytes::Bytes;
use chancery_vibe::code::Code;
use clap::Subcommand;
use serde::Deserialize;
use serde_json::Value;

use super::explain;
use crate::client::{Answered, NodeClient};
use crate::exit::{Exit, Failure, Outcome};
use crate::terminal::Terminal;

/// The commands of `vibe`.
#[derive(Debug, Subcommand)]
pub(crate) enum VibeCommand {
    /// Purchase mandates as AP2 writes them, and back
    #[command(
        subcommand,
        after_help = "Example:\n  chancery vibe ap2 export mandate.json"
    )]
    Ap2(ap2::Ap2Command),
}

/// Runs a command of `vibe`.
pub(crate) fn run(command: VibeCommand, terminal: &mut Terminal) -> Outcome {
    match command {
        VibeCommand::Ap2(command) => ap2::run(command, terminal),
    }
}

/// The answer to an envelope.
pub(crate) struct Sent(Answered);

/// Posts an envelope; one without `msg_id` and `ts` is completed by the node.
pub(crate) async fn send(node: &NodeClient, envelope: Bytes) -> Result<Sent, Failure> {
    let parsed: Option<Value> = serde_json::from_slice(&envelope).ok();
    let is_whole = parsed.is_none_or(|envelope| {
        ["msg_id", "ts"]
            .iter()
            .any(|name| envelope.get(name).is_some())
    });
    let path: &[&str] = if is_whole {
        &["vcp"]
    } else {
        &["send", "vibe"]
    };
    node.post(path, envelope).await.map(Sent)
}

#[derive(Deserialize)]
struct Accepted {
    msg_id: String,
    session_id: String,
    seq: u64,
    state_diff: Option<Diff>,
    emitted: Vec<Emitted>,
    follow_up_error: Option<Refused>,
}

#[derive(Deserialize)]
struct Diff {
    diff_id: String,
    ops: Vec<Op>,
}

#[derive(Deserialize)]
struct Op {
    table: String,
    key: String,
    op: String,
}

#[derive(Deserialize)]
struct Emitted {
    action: Kind,
    from: String,
    to: String,
}

#[derive(Deserialize)]
struct Kind {
    kind: String,
}

#[derive(Deserialize)]
struct Refused {
    code: String,
    message: String,
    param: Option<String>,
    msg_id: Option<String>,
    details: Option<Value>,
}

impl Sent {
    /// Whether it is on record.
    pub(crate) const fn is_yes(&self) -> bool {
        self.0.is_yes()
    }

    /// Tells it, and how the command ends.
    pub(crate) fn tell(&self, terminal: &mut Terminal) -> Outcome {
        let exit = if self.is_yes() { Exit::Done } else { Exit::No };
        if terminal.json {
            writeln!(terminal.out, "{}", self.0.text())?;
        } else if self.is_yes() {
            self.tell_accepted(terminal)?;
        } else {
            self.tell_refused(terminal)?;
        }
        Ok(exit)
    }

    fn tell_accepted(&self, terminal: &mut Terminal) -> Outcome {
        let told: Accepted = self.0.value()?;
        let accepted = terminal.good("accepted");
        writeln!(
            terminal.out,
            "{accepted}  {} as line {} of session {}",
            told.msg_id, told.seq, told.session_id
        )?;
        if let Some(diff) = told.state_diff {
            writeln!(terminal.out, "  changed      {}", diff.diff_id)?;
            for op in diff.ops {
                writeln!(
                    terminal.out,
                    "               {} {} {}",
                    op.op, op.table, op.key
                )?;
            }
        }
        for made in told.emitted {
            writeln!(
                terminal.out,
                "  caused       {} {} → {}",
                made.action.kind, made.from, made.to
            )?;
        }
        if let Some(error) = told.follow_up_error {
            writeln!(
                terminal.out,
                "  not caused   {}: {}",
                error.code, error.message
            )?;
        }
        Ok(Exit::Done)
    }

    fn tell_refused(&self, terminal: &mut Terminal) -> Outcome {
        let told: Refused = self.0.value()?;
        let rejected = terminal.bad("rejected");
        let id = told.msg_id.as_deref().unwrap_or("without msg_id");
        writeln!(terminal.out, "{rejected}  {id}")?;
        writeln!(
            terminal.out,
            "  reason       {}: {}",
            told.code, told.message
        )?;
        let requirement = Code::parse(&told.code).map(Code::requirement);
        let details = told.details.map(|details| details.to_string());
        let lines = [
            ("path", told.param.as_deref()),
            ("details", details.as_deref()),
            ("requirement", requirement),
            ("next", explain::next_of("vibe", &told.code)),
        ];
        for (name, text) in lines {
            if let Some(text) = text {
                writeln!(terminal.out, "  {name:<12} {text}")?;
            }
        }
        Ok(Exit::No)
    }
}
