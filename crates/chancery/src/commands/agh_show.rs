//! What `chancery agh` shows of a channel: who is there, and what they work on.

use serde_json::{Value, json};

use super::agh::{ChannelArgs, SourcesOf, new_visitor};
use super::agh_visit::no_node;
use crate::client::{self, Answered, NodeClient};
use crate::exit::{Exit, Failed, Failure, Outcome};
use crate::terminal::Terminal;

pub(super) fn show_cards(cards: &[Value], terminal: &mut Terminal) -> Outcome {
    if terminal.json {
        terminal.json_line(&json!({ "answers": cards }))?;
        return Ok(Exit::Done);
    }
    let text = |card: &Value, name: &str| card[name].as_str().unwrap_or_default().to_owned();
    let rows = cards.iter().map(|card| {
        let can = words(&card["capabilities"]);
        [text(card, "peer_id"), text(card, "display_name"), can]
    });
    terminal.table(["PEER", "NAME", "CAN"], rows)?;
    Ok(Exit::Done)
}

/// What a node knows of a channel.
pub(super) async fn state(
    node: &NodeClient,
    channel: &str,
    workspace: Option<&str>,
) -> Result<Answered, Failure> {
    let path = ["state", "agh", channel];
    let read = node.get_where(&path, ("workspace", workspace.unwrap_or_default()));
    read.await?.done(channel)
}

pub(super) fn peers(
    args: &ChannelArgs,
    sources: SourcesOf<'_>,
    terminal: &mut Terminal,
) -> Outcome {
    if args.place.way.is_broker() {
        let from = new_visitor()?;
        let visit = args.place.visit(&args.channel, &from, sources);
        let visit = visit.ok_or_else(|| Failure::usage("a broker is asked with --nats"))?;
        return show_cards(&visit.ask(None, None)?, terminal);
    }
    let told = told_of_channel(args, sources)?;
    let all = told["peers"].as_array().cloned().unwrap_or_default();
    if terminal.json {
        terminal.json_line(&json!({ "peers": all }))?;
        return Ok(Exit::Done);
    }
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let rows = all.iter().map(|peer| {
        let card = &peer["card"];
        let can = words(&card["capabilities"]);
        [
            text(&peer["peer_id"]),
            text(&peer["state"]),
            text(&card["display_name"]),
            can,
        ]
    });
    terminal.table(["PEER", "STATE", "NAME", "CAN"], rows)?;
    Ok(Exit::Done)
}

pub(super) fn interactions(
    args: &ChannelArgs,
    sources: SourcesOf<'_>,
    terminal: &mut Terminal,
) -> Outcome {
    if args.place.way.is_broker() {
        return Err(no_node("interactions"));
    }
    let told = told_of_channel(args, sources)?;
    let all = told["interactions"].as_array().cloned().unwrap_or_default();
    if terminal.json {
        terminal.json_line(&json!({ "interactions": all }))?;
        return Ok(Exit::Done);
    }
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let rows = all.iter().map(|work| {
        let name = work.get("interaction_id").unwrap_or(&work["work_id"]);
        [
            text(name),
            text(&work["state"]),
            text(&work["initiator"]),
            text(&work["target"]),
        ]
    });
    terminal.table(["WORK", "STATE", "ASKED BY", "DONE BY"], rows)?;
    Ok(Exit::Done)
}

fn told_of_channel(args: &ChannelArgs, sources: SourcesOf<'_>) -> Result<Value, Failed> {
    let node = args.place.node.client(sources)?;
    let workspace = args.place.workspace.as_deref();
    let answered = client::block_on(state(&node, &args.channel, workspace))?;
    Ok(answered.value()?)
}

/// A list of texts as one.
fn words(list: &Value) -> String {
    let words = list
        .as_array()
        .into_iter()
        .flatten()
        .filter_map(Value::as_str);
    words.collect::<Vec<_>>().join(", ")
}
