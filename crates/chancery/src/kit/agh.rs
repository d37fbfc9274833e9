//! AGH Network v0, revision A, over `POST /agh`: verdicts, reasons, receipts and answers.

use chancery_node::Clock;
use serde_json::{Value, json};

use super::setup::{CHANNEL, PEERS};
use super::{Exchange, Kit, fresh_id};
use crate::exit::Failure;

const SENDER: &str = "kit-visitor";
const EXPIRED: &str = "400 reject expired";
const MALFORMED: &str = "400 reject malformed";
/// Far enough from both ends of the five minutes.
const TOO_LONG_S: i64 = 400;

fn now() -> i64 {
    Clock::System.now().unix_seconds()
}

/// An envelope of the visitor, made now.
fn envelope(kind: &str, body: &Value) -> Result<Value, Failure> {
    Ok(json!({
        "protocol": "agh-network/v0",
        "id": fresh_id()?,
        "kind": kind,
        "channel": CHANNEL,
        "from": SENDER,
        "to": null,
        "ts": now(),
        "body": body,
        "proof": null,
    }))
}

pub(super) fn say() -> Result<Value, Failure> {
    envelope("say", &json!({"text": "the kit asks"}))
}

/// Work for the first peer.
fn work(kind: &str, interaction: &str, body: &Value) -> Result<Value, Failure> {
    let mut envelope = envelope(kind, body)?;
    envelope["to"] = PEERS[0].into();
    envelope["interaction_id"] = interaction.into();
    Ok(envelope)
}

fn direct(interaction: &str) -> Result<Value, Failure> {
    work("direct", interaction, &json!({"text": "the kit asks"}))
}

fn told(exchange: &Exchange) -> String {
    let verdict = exchange.told(&exchange.body["verdict"]);
    match exchange.body["reason_code"].as_str() {
        Some(reason) => format!("{verdict} {reason}"),
        None => verdict,
    }
}

pub(super) async fn expect(
    kit: &mut Kit<'_>,
    requirement: &'static str,
    asked: &str,
    envelope: &Value,
    expected: &str,
) -> Result<bool, Failure> {
    expect_text(kit, requirement, asked, envelope.to_string(), expected).await
}

async fn expect_text(
    kit: &mut Kit<'_>,
    requirement: &'static str,
    asked: &str,
    body: String,
    expected: &str,
) -> Result<bool, Failure> {
    let exchange = kit.post(&["agh"], body).await?;
    Ok(kit.check(requirement, asked, expected, told(&exchange)))
}

/// Asks everything.
pub(super) async fn ask(kit: &mut Kit<'_>) -> Result<(), Failure> {
    audience(kit).await?;
    freshness(kit).await?;
    members(kit).await?;
    json_layer(kit).await?;
    bodies(kit).await?;
    duplicates(kit).await?;
    receipts(kit).await?;
    questions(kit).await?;
    interactions(kit).await
}

async fn audience(kit: &mut Kit<'_>) -> Result<(), Failure> {
    let reached = |exchange: &Exchange| {
        let mut peers: Vec<&str> = exchange.body["deliver_to"]
            .as_array()
            .map(|peers| peers.iter().filter_map(Value::as_str).collect())
            .unwrap_or_default();
        peers.sort_unstable();
        format!("{} to {}", told(exchange), peers.join(" "))
    };
    let exchange = kit.post(&["agh"], say()?.to_string()).await?;
    let asked = "a broadcast say";
    let came_back = reached(&exchange);
    kit.check("AG-RTE-2", asked, "200 accept to kit-a kit-b", came_back);
    let mut own = say()?;
    own["from"] = PEERS[0].into();
    let exchange = kit.post(&["agh"], own.to_string()).await?;
    let asked = "a broadcast say of a local peer";
    kit.check("AG-RTE-3", asked, "200 accept to kit-b", reached(&exchange));
    let mut elsewhere = direct(&fresh_id()?)?;
    elsewhere["to"] = "kit-nobody".into();
    let asked = "work for a peer that is not here";
    expect(kit, "AG-RTE-1", asked, &elsewhere, "400 reject not_target").await?;
    Ok(())
}

async fn freshness(kit: &mut Kit<'_>) -> Result<(), Failure> {
    let mut old = say()?;
    old["ts"] = (now() - TOO_LONG_S).into();
    expect(kit, "AG-FRS-4", "ts 400 s ago", &old, EXPIRED).await?;
    let mut lasting = say()?;
    lasting["ts"] = (now() - TOO_LONG_S).into();
    lasting["expires_at"] = (now() + 60).into();
    let asked = "ts 400 s ago, expires_at in a minute";
    expect(kit, "AG-FRS-3", asked, &lasting, "200 accept").await?;
    let mut ended = say()?;
    ended["expires_at"] = (now() - 1).into();
    let asked = "expires_at a second ago";
    expect(kit, "AG-FRS-2", asked, &ended, EXPIRED).await?;
    let mut early = say()?;
    early["ts"] = (now() + TOO_LONG_S).into();
    expect(kit, "AG-FRS-1", "ts 400 s ahead", &early, EXPIRED).await?;
    early["id"] = fresh_id()?.into();
    early["body"] = json!({});
    let asked = "ts 400 s ahead and a body without text: freshness goes first";
    expect(kit, "AG-VAL-3", asked, &early, EXPIRED).await?;
    Ok(())
}

async fn members(kit: &mut Kit<'_>) -> Result<(), Failure> {
    let with = |name: &str, value: Value| -> Result<Value, Failure> {
        let mut envelope = say()?;
        envelope[name] = value;
        Ok(envelope)
    };
    let asked = "a member that the envelope does not have";
    expect(kit, "AG-ENV-16", asked, &with("x", 1.into())?, MALFORMED).await?;
    let asked = "trace_id null";
    expect(
        kit,
        "AG-ENV-17",
        asked,
        &with("trace_id", Value::Null)?,
        MALFORMED,
    )
    .await?;
    let asked = "a channel with a trailing newline";
    expect(
        kit,
        "AG-ENV-18",
        asked,
        &with("channel", "kit\n".into())?,
        MALFORMED,
    )
    .await?;
    let asked = "a sender with capitals";
    expect(
        kit,
        "AG-ENV-5",
        asked,
        &with("from", "Kit".into())?,
        MALFORMED,
    )
    .await?;
    let later = with("protocol", "agh-network/v7".into())?;
    let expected = "400 reject unsupported_profile";
    expect(kit, "AG-VAL-5", "agh-network/v7", &later, expected).await?;
    let unknown = with("kind", "shout".into())?;
    let expected = "400 reject unsupported_kind";
    expect(kit, "AG-VAL-4", "a kind nobody knows", &unknown, expected).await?;
    let asked = "ts with a fraction";
    expect(kit, "AG-JSON-7", asked, &with("ts", 1.5.into())?, MALFORMED).await?;
    let asked = "an ext key nobody knows";
    let extended = with("ext", json!({"x.y": [1]}))?;
    expect(kit, "AG-EXT-1", asked, &extended, "200 accept").await?;
    Ok(())
}

async fn json_layer(kit: &mut Kit<'_>) -> Result<(), Failure> {
    let text = say()?.to_string();
    let twice = text.replacen('{', r#"{"kind":"say","#, 1);
    let asked = "a member name that occurs twice";
    expect_text(kit, "AG-JSON-3", asked, twice, MALFORMED).await?;
    let asked = "an array";
    expect_text(kit, "AG-JSON-1", asked, "[]".to_owned(), MALFORMED).await?;
    let asked = "something after the object";
    expect_text(kit, "AG-JSON-2", asked, format!("{text} 1"), MALFORMED).await?;
    Ok(())
}

async fn bodies(kit: &mut Kit<'_>) -> Result<(), Failure> {
    let mut directed = say()?;
    directed["to"] = PEERS[0].into();
    expect(kit, "AG-SAY-2", "a say with to", &directed, MALFORMED).await?;
    let blank = envelope("say", &json!({"text": " "}))?;
    expect(kit, "AG-SAY-1", "a say of blanks", &blank, MALFORMED).await?;
    let mut open = direct("x")?;
    open["to"] = Value::Null;
    expect(kit, "AG-DIR-1", "a direct without to", &open, MALFORMED).await?;
    let offered = |digest: String| {
        json!({"capability": {
            "id": "kit", "summary": "asks", "outcome": "answers", "digest": digest,
        }})
    };
    let wrong = envelope("capability", &offered(format!("sha256:{}", "0".repeat(64))))?;
    let expected = "400 reject verification_failed";
    let asked = "a capability with another's digest";
    expect(kit, "AG-CAP-5", asked, &wrong, expected).await?;
    let bytes = br#"{"id":"kit","summary":"asks","outcome":"answers"}"#;
    let digest = chancery_core::digest::Sha256Digest::of(bytes).hex();
    let right = envelope("capability", &offered(format!("sha256:{digest}")))?;
    let asked = "a capability with its own digest";
    expect(kit, "AG-DIG-1", asked, &right, "200 accept").await?;
    let report = json!({"for_id": "x", "status": "accepted", "reason_code": "busy"});
    let receipt = work("receipt", "x", &report)?;
    let asked = "a receipt that accepts for a reason";
    expect(kit, "AG-RCP-2", asked, &receipt, MALFORMED).await?;
    Ok(())
}

async fn duplicates(kit: &mut Kit<'_>) -> Result<(), Failure> {
    let first = say()?;
    kit.post(&["agh"], first.to_string()).await?;
    let asked = "the same say again";
    expect(kit, "AG-DUP-5", asked, &first, "400 reject duplicate").await?;
    let mut other = first;
    other["from"] = "kit-other".into();
    let asked = "the same id from another sender";
    expect(kit, "AG-DUP-1", asked, &other, "200 accept").await?;
    Ok(())
}

/// Work that comes too early is refused with a receipt; a receipt that does is not.
async fn receipts(kit: &mut Kit<'_>) -> Result<(), Failure> {
    let mut early = direct(&fresh_id()?)?;
    early["ts"] = (now() + TOO_LONG_S).into();
    let exchange = kit.post(&["agh"], early.to_string()).await?;
    let emitted = &exchange.body["emitted"];
    let receipt = &emitted[0];
    let word = |value: &Value| value.as_str().unwrap_or("nothing").to_owned();
    let came_back = format!(
        "{} {}",
        word(&receipt["kind"]),
        word(&receipt["body"]["status"])
    );
    let asked = "work stamped 400 s ahead";
    if kit.check("AG-RCT-2", asked, "receipt expired", came_back) {
        let says = |name: &str| receipt[name] == early[name];
        let fits = receipt["from"] == early["to"]
            && receipt["to"] == early["from"]
            && says("channel")
            && says("interaction_id")
            && receipt["reply_to"] == early["id"]
            && receipt["body"]["for_id"] == early["id"];
        let came_back = if fits { "yes" } else { "no" };
        let asked = "whether that receipt goes back to the sender and names the work";
        kit.check("AG-RCT-4", asked, "yes", came_back);
    }
    let report = json!({"for_id": "x", "status": "accepted"});
    let mut receipt = work("receipt", &fresh_id()?, &report)?;
    receipt["ts"] = (now() + TOO_LONG_S).into();
    let exchange = kit.post(&["agh"], receipt.to_string()).await?;
    let count = exchange.body["emitted"].as_array().map_or(0, Vec::len);
    let asked = "a receipt stamped 400 s ahead";
    kit.check("AG-RCT-1", asked, "0 receipts", format!("{count} receipts"));
    Ok(())
}

async fn questions(kit: &mut Kit<'_>) -> Result<(), Failure> {
    for (query, expected) in [("kit-b", "whois of kit-b"), ("kit", "")] {
        let question = envelope("whois", &json!({"type": "request", "query": query}))?;
        let exchange = kit.post(&["agh"], question.to_string()).await?;
        let answers = exchange.body["emitted"].as_array().cloned();
        let said = answers.unwrap_or_default();
        let said: Vec<String> = said
            .iter()
            .map(|answer| {
                let word = |name: &str| answer[name].as_str().unwrap_or_default().to_owned();
                format!("{} of {}", word("kind"), word("from"))
            })
            .collect();
        let asked = format!("who is {query}, of the whole channel");
        kit.check("AG-WHO-3", asked, expected, said.join(", "));
    }
    Ok(())
}

async fn interactions(kit: &mut Kit<'_>) -> Result<(), Failure> {
    let work_id = fresh_id()?;
    let asked = "work for a local peer";
    expect(kit, "AG-DIR-2", asked, &direct(&work_id)?, "200 accept").await?;
    let again = work("trace", &work_id, &json!({"state": "submitted"}))?;
    let asked = "a trace that it is submitted";
    expect(kit, "AG-LIF-2", asked, &again, "400 reject internal").await?;
    let canceled = json!({"for_id": "x", "status": "canceled"});
    let mut meddling = work("receipt", &work_id, &canceled)?;
    meddling["from"] = "kit-meddler".into();
    let expected = "200 ignore not_target";
    let asked = "a cancellation by somebody else";
    let ignored = expect(kit, "AG-LIF-4", asked, &meddling, expected).await?;
    if ignored {
        let cancel = work("receipt", &work_id, &canceled)?;
        let asked = "a cancellation by the one who asked for the work";
        expect(kit, "AG-LIF-6", asked, &cancel, "200 accept").await?;
    }
    let expected = "400 reject interaction_closed";
    let asked = "more for work that has ended";
    expect(kit, "AG-LIF-7", asked, &direct(&work_id)?, expected).await?;
    let unknown = work("receipt", &fresh_id()?, &canceled)?;
    let asked = "a receipt for work nobody opened";
    expect(kit, "AG-LIF-9", asked, &unknown, "200 ignore not_found").await?;
    Ok(())
}
