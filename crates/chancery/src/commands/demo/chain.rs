//! The vacant story: a caller with a key of its own, a signed card, calls that are chained, and what breaks the chain.

use chancery_core::canonical::{Dialect, to_bytes};
use chancery_core::digest::hex;
use chancery_core::ids::v4;
use chancery_core::keys::ed25519::SigningKey;
use chancery_node::Clock;
use chancery_vacant::card::CapabilityCard;
use chancery_vacant::envelope::{Draft, EMPTY_PREV_HASH, Envelope, EnvelopeHash};
use chancery_vacant::id::VacantId;
use chancery_vacant::payload::{Payload, Profile, Role};
use chancery_vacant::rules::chain::ReplayState;
use chancery_vacant::wire::{from_response, read_json, to_jsonrpc};
use serde_json::{Value, json};

use super::{Playbill, Shown, Step};
use crate::client::{Answered, NodeClient};
use crate::exit::{Failed, Failure};
use crate::secret_file;

/// The vacants of the story, as a configuration names them.
pub(super) const VACANTS: &str = "
[[vacant.agent]]
name = \"echo\"
seed = \"echo.key\"
state = \"ACTIVE\"
capability = \"echoes what it hears\"
behaviour = \"echo\"

[[vacant.agent]]
name = \"scribe\"
seed = \"scribe.key\"
state = \"ACTIVE\"
capability = \"writes letters\"
behaviour = \"inbox\"
";
/// Their key files.
pub(super) const KEYS: [&str; 2] = ["echo.key", "scribe.key"];

/// Bytes of an answer.
const MAX_BYTES: usize = 1 << 20;

/// Plays it on a node that serves.
pub(super) async fn act(node: &NodeClient, playbill: &mut Playbill<'_>) -> Result<(), Failed> {
    let name = "a caller reads the card of a vacant: signed";
    let key = playbill.need(name, secret_file::random::<32>())?;
    let key = SigningKey::from_seed(&key);
    let card = match card(node).await {
        Ok((card, shown)) => {
            playbill.show(name, Ok(shown))?;
            card
        }
        Err(reason) => return playbill.show(name, Err(reason)),
    };
    let mut caller = Caller {
        node,
        id: VacantId::of(&key),
        key,
        target: card.vacant_id,
        sent: ReplayState::default(),
        heard: ReplayState::default(),
    };
    let name = "it calls: accepted, and the answer is signed";
    let first = playbill.need(name, caller.next("one"))?;
    let step = caller.answered(&first).await;
    playbill.show(name, step)?;
    let name = "it calls again: the second names the first by its hash";
    let second = playbill.need(name, caller.next("two"))?;
    let step = caller.answered(&second).await;
    playbill.show(name, step)?;
    let step = caller.lost(&second).await;
    playbill.show(
        "the same bytes again: nothing happens, the answer is told",
        step,
    )?;
    let name = "a call that leaves out what was said before: refused";
    let fork = caller.draft("three", caller.sent.last_sequence_no + 1, EMPTY_PREV_HASH);
    let fork = playbill.need(name, fork)?;
    let step = caller.refused(&fork, 409, "CHAIN_FORK").await;
    playbill.show(name, step)?;
    let name = "a call whose text was changed on the way: refused";
    let mut forged = playbill.need(name, caller.next("three"))?;
    forged.payload = Payload::text(Role::User, "four");
    let step = caller.refused(&forged, 401, "ENVELOPE_SIGNATURE").await;
    playbill.show(name, step)?;
    let step = between(node, &caller.target).await;
    playbill.show("a hosted vacant calls another: one line for both", step)
}

async fn card(node: &NodeClient) -> Result<(CapabilityCard, Shown), String> {
    let told: Value = get(node, &["card"]).await?;
    let blob = told["capability_card_blob_hex"].as_str();
    let blob = blob.and_then(|text| hex::decode(text).ok());
    let card = blob.and_then(|blob| CapabilityCard::deserialize(&blob).ok());
    let card = card.ok_or("the card cannot be read")?;
    if !card.verify() {
        return Err("the card does not verify".to_owned());
    }
    let id = card.vacant_id.hex();
    let shown = Shown::new()
        .line(format!("vacant {id}"))
        .line(format!(
            "\"{}\", signed with its own key",
            card.capability_text
        ))
        .with("vacant_id", id);
    Ok((card, shown))
}

/// Who calls, and how far its chains are.
struct Caller<'n> {
    node: &'n NodeClient,
    key: SigningKey,
    id: VacantId,
    target: VacantId,
    sent: ReplayState,
    heard: ReplayState,
}

impl Caller<'_> {
    fn next(&self, text: &str) -> Result<Envelope, Failure> {
        self.draft(text, self.sent.last_sequence_no + 1, self.sent.chain_tip)
    }

    fn draft(&self, text: &str, number: u64, prev: EnvelopeHash) -> Result<Envelope, Failure> {
        let draft = Draft {
            from: self.id,
            to: self.target,
            payload: Payload::text(Role::User, text),
            sequence_no: number,
            prev,
            timestamp: Clock::System.now(),
            idempotency_key: v4(*secret_file::random::<16>()?).to_string(),
            profile: Profile::Base,
        };
        draft
            .sign(&self.key)
            .map_err(|error| Failure::damaged(error.to_string()))
    }

    async fn answered(&mut self, call: &Envelope) -> Step {
        let answered = self.post(call).await?;
        if answered.status != 200 {
            return Err(format!("{} {}", answered.status, answered.text()));
        }
        let body = read_json(&answered.body, MAX_BYTES).map_err(said)?;
        let answer = from_response(&body).map_err(said)?;
        let verified = answer.verify_under(&self.target).map_err(said)?;
        let hash = call.hash(Profile::Base);
        self.sent.check_and_advance(call, hash).map_err(said)?;
        self.heard
            .check_and_advance(&answer, verified.hash)
            .map_err(said)?;
        Ok(Shown::new()
            .line(format!("call {}, sha256 {}", call.sequence_no, hash.hex()))
            .line(format!(
                "answer {}: \"{}\", verified",
                answer.sequence_no,
                answer.payload.joined()
            ))
            .with("sequence_no", call.sequence_no)
            .with("hash", hash.hex())
            .with("text", answer.payload.joined()))
    }

    async fn lost(&self, call: &Envelope) -> Step {
        let (status, error) = self.error(call).await?;
        let text = error["response"]["parts"][0]["text"].as_str();
        let is_ours = error["data"][0]["metadata"]["chain_tip"] == call.hash(Profile::Base).hex();
        match text {
            Some(text) if status == 409 && is_ours => Ok(Shown::new()
                .line(format!("409 REPLAY_DETECTED, with the answer \"{text}\""))
                .with("text", text)),
            _ => Err(format!("{status} {error}")),
        }
    }

    async fn refused(&self, call: &Envelope, status: u16, code: &str) -> Step {
        let (told, error) = self.error(call).await?;
        if told != status || error["data"][0]["reason"] != code {
            return Err(format!("{told} {error}"));
        }
        let message = error["message"].as_str().unwrap_or_default();
        Ok(Shown::new()
            .line(format!("{status} {code}: {message}"))
            .with("code", code))
    }

    async fn error(&self, call: &Envelope) -> Result<(u16, Value), String> {
        let answered = self.post(call).await?;
        let mut told: Value = answered.value().map_err(what)?;
        Ok((answered.status, told["error"].take()))
    }

    async fn post(&self, call: &Envelope) -> Result<Answered, String> {
        let body = to_bytes(&to_jsonrpc(call, Profile::Base).into(), Dialect::Python);
        let path = ["a2a", "message", "send"];
        self.node.post(&path, body).await.map_err(what)
    }
}

async fn between(node: &NodeClient, target: &VacantId) -> Step {
    let body = json!({"from": "scribe", "to": target.hex(), "text": "Dear echo"}).to_string();
    let answered = node.post(&["send", "vacant"], body).await.map_err(what)?;
    let told: Value = answered
        .done("the call")
        .and_then(|it| it.value())
        .map_err(what)?;
    let text = told["result"]["message"]["parts"][0]["text"].as_str();
    let text = text.ok_or("the answer has no text")?;
    let state = get(node, &["state", "vacant", "scribe"]).await?;
    let chains = state["chains"].as_array().map_or(0, Vec::len);
    if chains != 2 {
        return Err(format!("there are {chains} chains"));
    }
    Ok(Shown::new()
        .line(format!("scribe → echo: \"{text}\"; a chain each way"))
        .with("text", text))
}

async fn get(node: &NodeClient, path: &[&str]) -> Result<Value, String> {
    let answered = node.get(path).await.map_err(what)?;
    answered
        .done(path[0])
        .and_then(|it| it.value())
        .map_err(what)
}

fn what(failure: Failure) -> String {
    failure.what
}

fn said(error: impl std::fmt::Display) -> String {
    error.to_string()
}
