//! `chancery agh watch`: a channel as it goes on, from the log and from who is present.

use std::collections::BTreeMap;
use std::io::Write as _;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::agh_show;
use crate::client::{self, NodeClient};
use crate::exit::{Exit, Failed, Failure, Outcome};
use crate::terminal::Terminal;

/// The pause between two looks.
const LOOK_EVERY: Duration = Duration::from_millis(250);

/// What is known of a channel so far.
#[derive(Default)]
struct Seen {
    /// Peers and their standing.
    peers: BTreeMap<String, String>,
    /// The line to go on from.
    next: u64,
}

/// Shows a channel until the time is over, or for ever.
pub(super) fn run(
    node: &NodeClient,
    channel: &str,
    workspace: Option<&str>,
    until: Option<Instant>,
    terminal: &mut Terminal,
) -> Outcome {
    let mut seen = Seen {
        next: 1,
        ..Seen::default()
    };
    loop {
        let (state, lines) = client::block_on(async {
            let state: Value = agh_show::state(node, channel, workspace).await?.value()?;
            Ok((state, lines_from(node, seen.next).await?))
        })?;
        show_peers(&mut seen, &state, terminal)?;
        for line in lines {
            seen.next = line["seq"].as_u64().map_or(seen.next, |seq| seq + 1);
            show_line(&line, channel, workspace, terminal)?;
        }
        terminal.out.flush()?;
        if until.is_some_and(|until| Instant::now() >= until) {
            return Ok(Exit::Done);
        }
        std::thread::sleep(LOOK_EVERY);
    }
}

async fn lines_from(node: &NodeClient, from: u64) -> Result<Vec<Value>, Failure> {
    let from = from.to_string();
    let read = node.get_where(&["log"], ("from", &from)).await?;
    let text = read.done("the log")?.text();
    let read = |line: &str| serde_json::from_str(line).ok();
    Ok(text.lines().filter_map(read).collect())
}

/// Who came, who went, and whose standing changed.
fn show_peers(seen: &mut Seen, state: &Value, terminal: &mut Terminal) -> Result<(), Failed> {
    let peers = state["peers"].as_array().into_iter().flatten();
    let now: BTreeMap<String, String> = peers
        .filter_map(|peer| {
            let (id, standing) = (peer["peer_id"].as_str()?, peer["state"].as_str()?);
            Some((id.to_owned(), standing.to_owned()))
        })
        .collect();
    for (peer, standing) in &now {
        if seen.peers.get(peer) != Some(standing) {
            tell_peer(peer, standing, terminal)?;
        }
    }
    for peer in seen.peers.keys().filter(|peer| !now.contains_key(*peer)) {
        tell_peer(peer, "gone", terminal)?;
    }
    seen.peers = now;
    Ok(())
}

fn tell_peer(peer: &str, standing: &str, terminal: &mut Terminal) -> Result<(), Failed> {
    if terminal.json {
        return terminal.json_line(&json!({"peer": peer, "state": standing}));
    }
    let text = terminal.dim(&format!("{peer} is {standing}"));
    Ok(writeln!(terminal.out, "{text}")?)
}

/// A line of the log, when it is of the channel.
fn show_line(
    line: &Value,
    channel: &str,
    workspace: Option<&str>,
    terminal: &mut Terminal,
) -> Result<(), Failed> {
    let envelope = &line["envelope"];
    let is_ours = line["meta"]["protocol"] == "agh"
        && envelope["channel"] == channel
        && envelope["workspace_id"].as_str() == workspace;
    if !is_ours {
        return Ok(());
    }
    if terminal.json {
        return terminal.json_line(line);
    }
    show_envelope(envelope, terminal)
}

/// An envelope on one line.
pub(super) fn show_envelope(envelope: &Value, terminal: &mut Terminal) -> Result<(), Failed> {
    if terminal.json {
        return terminal.json_line(envelope);
    }
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let to = match envelope["to"].as_str() {
        Some(to) => format!(" → {to}"),
        None => String::new(),
    };
    let work = envelope
        .get("interaction_id")
        .or_else(|| envelope.get("work_id"));
    let work = work
        .and_then(Value::as_str)
        .map(|work| format!(" [{work}]"))
        .unwrap_or_default();
    let kind = terminal.bold(&text(&envelope["kind"]));
    let from = text(&envelope["from"]);
    Ok(writeln!(
        terminal.out,
        "{kind} {from}{to}{work} {}",
        said(&envelope["body"])
    )?)
}

/// What an envelope says, on one line.
fn said(body: &Value) -> String {
    let names = [
        "state", "status", "text", "message", "detail", "summary", "query",
    ];
    let words = names.iter().filter_map(|name| body[*name].as_str());
    let words = words.collect::<Vec<_>>().join(": ");
    words
        .chars()
        .filter(|c| !c.is_control())
        .take(160)
        .collect()
}
