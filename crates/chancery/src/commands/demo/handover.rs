//! The AGH story: a planner finds who can do something, hands over work, and gets it done, or changes its mind.

use serde_json::{Value, json};

use super::{Playbill, Shown, Step};
use crate::client::NodeClient;
use crate::exit::{Failed, Failure};

const CHANNEL: &str = "builders";
const PLANNER: &str = "planner.session-7";
const WORKER: &str = "patch-worker.session-19";

/// The peers of the story, as a configuration names them.
pub(super) const PEERS: &str = "
[[agh.peer]]
id = \"planner.session-7\"
channel = \"builders\"

[[agh.peer]]
id = \"patch-worker.session-19\"
channel = \"builders\"
capabilities = [\"test.run\"]
";

/// Plays it on a node that serves.
pub(super) async fn act(node: &NodeClient, playbill: &mut Playbill<'_>) -> Result<(), Failed> {
    let step = asked(node).await;
    playbill.show("the planner asks who can run tests: one answers", step)?;
    let ask = json!({"text": "Run the migration tests."});
    let step = moved(
        node,
        PLANNER,
        "direct",
        "work_tests",
        ask.clone(),
        "submitted",
    )
    .await;
    playbill.show("it hands over the work: submitted", step)?;
    let accepted = json!({"for_id": "the request", "status": "accepted"});
    let step = moved(node, WORKER, "receipt", "work_tests", accepted, "working").await;
    playbill.show("the worker takes it on: working", step)?;
    let done = json!({"state": "completed", "result": {"passed": 214}});
    let step = moved(node, WORKER, "trace", "work_tests", done, "completed").await;
    playbill.show("the worker reports its end: completed", step)?;
    let step = refused(node, "work_tests", "interaction_closed").await;
    playbill.show("it reports once more: the work is over, refused", step)?;
    let step = moved(node, PLANNER, "direct", "work_docs", ask, "submitted").await;
    playbill.show("the planner hands over more", step)?;
    let cancel = json!({"for_id": "the request", "status": "canceled"});
    let step = moved(node, PLANNER, "receipt", "work_docs", cancel, "canceled").await;
    playbill.show("and changes its mind: canceled", step)
}

async fn asked(node: &NodeClient) -> Step {
    let question = json!({
        "from": PLANNER, "channel": CHANNEL, "kind": "whois",
        "body": {"type": "request", "query": "test.run"},
    });
    let (status, told) = send(node, &question).await?;
    let answers = told["emitted"].as_array().cloned().unwrap_or_default();
    let [answer] = answers.as_slice() else {
        return Err(format!("{status} with {} answers", answers.len()));
    };
    let from = answer["from"].as_str().unwrap_or_default();
    if from != WORKER {
        return Err(format!("{from} answered"));
    }
    Ok(Shown::new()
        .line(format!("{from} can run tests"))
        .with("from", from))
}

/// Sends something about a piece of work, and looks what became of it.
async fn moved(
    node: &NodeClient,
    from: &str,
    kind: &str,
    work: &str,
    body: Value,
    state: &str,
) -> Step {
    let to = if from == PLANNER { WORKER } else { PLANNER };
    let envelope = json!({
        "from": from, "channel": CHANNEL, "kind": kind, "to": to, "interaction_id": work, "body": body,
    });
    let (status, told) = send(node, &envelope).await?;
    if status != 200 {
        return Err(format!("{status} {}", told["error"]));
    }
    let path = ["state", "agh", CHANNEL];
    let channel: Value = node
        .get(&path)
        .await
        .and_then(|answered| answered.value())
        .map_err(what)?;
    let mut works = channel["interactions"].as_array().into_iter().flatten();
    let now = works
        .find(|one| one["interaction_id"] == work)
        .map(|one| &one["state"]);
    if now != Some(&json!(state)) {
        return Err(format!("{work} is {now:?}"));
    }
    let words = format!("{kind} {from} → {to}: {work} is {state}");
    Ok(Shown::new()
        .line(words)
        .with("id", told["id"].clone())
        .with("state", state))
}

async fn refused(node: &NodeClient, work: &str, code: &str) -> Step {
    let envelope = json!({
        "from": WORKER, "channel": CHANNEL, "kind": "trace", "to": PLANNER, "interaction_id": work,
        "body": {"state": "working"},
    });
    let (status, told) = send(node, &envelope).await?;
    if told["error"] != code {
        return Err(format!("{status} {}", told["error"]));
    }
    Ok(Shown::new()
        .line(format!("{status} {code}"))
        .with("error", code))
}

async fn send(node: &NodeClient, envelope: &Value) -> Result<(u16, Value), String> {
    let answered = node.post(&["send", "agh"], envelope.to_string()).await;
    let answered = answered.map_err(what)?;
    let told = answered.value().map_err(what)?;
    Ok((answered.status, told))
}

fn what(failure: Failure) -> String {
    failure.what
}
