//! Vacant over its native binding: the card, signed calls, their chains, and the signed answers.
//!
//! Every question has a caller of its own, with a fresh key, so that no chain depends on an answer before.

use std::time::Duration;

use chancery_core::canonical::{Dialect, to_bytes};
use chancery_core::digest::hex;
use chancery_core::keys::ed25519::SigningKey;
use chancery_core::time::format_vacant;
use chancery_node::Clock;
use chancery_vacant::card::CapabilityCard;
use chancery_vacant::envelope::{Draft, EMPTY_PREV_HASH, Envelope, EnvelopeHash, Verified};
use chancery_vacant::id::VacantId;
use chancery_vacant::payload::{Payload, Profile, Role, SelfEval};
use chancery_vacant::wire::{METADATA_KEY, from_response, read_json, to_jsonrpc};
use serde_json::Value;

use super::{Exchange, Kit, fresh_id};
use crate::exit::Failure;
use crate::secret_file;

const CALLS: [&str; 3] = ["a2a", "message", "send"];
const MAX_BYTES: usize = 1 << 20;
const REPLAY: &str = "409 REPLAY_DETECTED";
const FORMAT: &str = "400 ENVELOPE_FORMAT";

/// A caller at the beginning of its chains.
struct Caller {
    key: SigningKey,
    target: VacantId,
}

impl Caller {
    fn new(target: VacantId) -> Result<Self, Failure> {
        let key = SigningKey::from_seed(&*secret_file::random::<32>()?);
        Ok(Self { key, target })
    }

    fn draft(&self, sequence_no: u64, prev: EnvelopeHash, text: &str) -> Result<Draft, Failure> {
        Ok(Draft {
            from: VacantId::of(&self.key),
            to: self.target,
            payload: Payload::text(Role::User, text),
            sequence_no,
            prev,
            timestamp: Clock::System.now(),
            idempotency_key: fresh_id()?,
            profile: Profile::Base,
        })
    }

    fn sign(&self, draft: Draft) -> Envelope {
        let profile = draft.profile_of_payload();
        draft.unsigned().signed(&self.key, profile)
    }

    fn call(&self, sequence_no: u64, prev: EnvelopeHash, text: &str) -> Result<Envelope, Failure> {
        Ok(self.sign(self.draft(sequence_no, prev, text)?))
    }

    fn first(&self) -> Result<Envelope, Failure> {
        self.call(1, EMPTY_PREV_HASH, "one")
    }
}

/// The request of an envelope, to be changed before it is sent.
fn request(envelope: &Envelope) -> Value {
    let body = to_bytes(&to_jsonrpc(envelope, Profile::Base).into(), Dialect::Python);
    serde_json::from_slice(&body).expect("canonical bytes are JSON")
}

fn metadata(request: &mut Value) -> &mut Value {
    &mut request["params"]["message"]["metadata"][METADATA_KEY]
}

fn told(exchange: &Exchange) -> String {
    exchange.told(&exchange.body["error"]["data"][0]["reason"])
}

/// The answer's envelope, if it is signed by the target.
fn answer_of(exchange: &Exchange, target: &VacantId) -> Option<(Envelope, Verified)> {
    let body = read_json(exchange.bytes(), MAX_BYTES).ok()?;
    let answer = from_response(&body).ok()?;
    let verified = answer.verify_under(target).ok()?;
    Some((answer, verified))
}

async fn send(kit: &Kit<'_>, envelope: &Envelope) -> Result<Exchange, Failure> {
    kit.post(&CALLS, request(envelope).to_string()).await
}

async fn expect(
    kit: &mut Kit<'_>,
    requirement: &'static str,
    asked: &str,
    request: &Value,
    expected: &str,
) -> Result<bool, Failure> {
    let exchange = kit.post(&CALLS, request.to_string()).await?;
    Ok(kit.check(requirement, asked, expected, told(&exchange)))
}

/// Asks everything.
pub(super) async fn ask(kit: &mut Kit<'_>) -> Result<(), Failure> {
    let Some(target) = card(kit).await? else {
        return Ok(());
    };
    answers(kit, target).await?;
    chains(kit, target).await?;
    lost_answer(kit, target).await?;
    signatures(kit, target).await?;
    spellings(kit, target).await?;
    profiles(kit, target).await?;
    parts(kit, target).await?;
    frames(kit, target).await
}

/// Whom the kit calls. Without a card that verifies there is nobody to call.
async fn card(kit: &mut Kit<'_>) -> Result<Option<VacantId>, Failure> {
    let exchange = kit.get(&["card"]).await?;
    let blob = exchange.body["capability_card_blob_hex"].as_str();
    let blob = blob.and_then(|blob| hex::decode(blob).ok());
    let card = blob.and_then(|blob| CapabilityCard::deserialize(&blob).ok());
    let card = card.filter(CapabilityCard::verify);
    let id = card.map(|card| card.vacant_id);
    let named = id.map(|id| exchange.body["vacant_id"] == id.hex());
    let came_back = match named {
        Some(true) => "signed by its vacant_id",
        Some(false) => "signed by another",
        None => "no card that verifies",
    };
    let asked = "GET /card";
    let passed = kit.check("VA-SRV-16", asked, "signed by its vacant_id", came_back);
    Ok(id.filter(|_| passed))
}

/// Two calls, each answered on the chain that leads back.
async fn answers(kit: &mut Kit<'_>, target: VacantId) -> Result<(), Failure> {
    let caller = Caller::new(target)?;
    let mut sent = EMPTY_PREV_HASH;
    let mut heard = EMPTY_PREV_HASH;
    for number in 1..=2 {
        let call = caller.call(number, sent, "hello")?;
        sent = call.hash(Profile::Base);
        let mut request = request(&call);
        request["id"] = number.into();
        let exchange = kit.post(&CALLS, request.to_string()).await?;
        let came_back = match answer_of(&exchange, &target) {
            None => format!("{} and no answer signed by the target", told(&exchange)),
            Some((answer, verified)) => {
                let follows = answer.prev == heard && answer.to == VacantId::of(&caller.key);
                heard = verified.hash;
                let place = if follows { "after" } else { "not after" };
                format!("answer {} {place} the one before", answer.sequence_no)
            }
        };
        let expected = format!("answer {number} after the one before");
        let asked = format!("call {number} of a chain");
        kit.check("VA-RSP-1", asked, &expected, came_back);
        let asked = format!("whether the id of call {number} is echoed as a number");
        let expected = number.to_string();
        let came_back = exchange.body["id"].to_string();
        kit.check("VA-WIRE-10", asked, &expected, came_back);
    }
    Ok(())
}

async fn chains(kit: &mut Kit<'_>, target: VacantId) -> Result<(), Failure> {
    let caller = Caller::new(target)?;
    let first = caller.first()?;
    let tip = first.hash(Profile::Base);
    send(kit, &first).await?;
    let gap = caller.call(3, tip, "three")?;
    let asked = "number 3 after number 1";
    expect(kit, "VA-REP-3", asked, &request(&gap), REPLAY).await?;

    let caller = Caller::new(target)?;
    let late = caller.call(2, EMPTY_PREV_HASH, "two")?;
    let asked = "a chain that begins with number 2";
    expect(kit, "VA-REP-3", asked, &request(&late), REPLAY).await?;

    let caller = Caller::new(target)?;
    let first = caller.first()?;
    send(kit, &first).await?;
    let second = caller.call(2, first.hash(Profile::Base), "two")?;
    send(kit, &second).await?;
    let again = caller.call(1, EMPTY_PREV_HASH, "another one")?;
    let exchange = send(kit, &again).await?;
    let asked = "number 1 after number 2";
    if kit.check("VA-REP-2", asked, REPLAY, told(&exchange)) {
        let place = &exchange.body["error"]["data"][0]["metadata"];
        let came_back = format!("{} {}", place["last_sequence_no"], place["chain_tip"]);
        let expected = format!("\"2\" \"{}\"", second.hash(Profile::Base).hex());
        let asked = "where the chain stands, told with that refusal";
        kit.check("VA-SRV-11", asked, &expected, came_back);
    }

    let caller = Caller::new(target)?;
    send(kit, &caller.first()?).await?;
    let fork = caller.call(2, EMPTY_PREV_HASH, "two")?;
    let asked = "number 2 that does not name number 1";
    expect(kit, "VA-ENV-7", asked, &request(&fork), "409 CHAIN_FORK").await?;
    let exchange = kit.post(&["a2a", "chain", "reset"], "{}").await?;
    let came_back = exchange.status.to_string();
    kit.check("VA-SRV-13", "a reset of the chain", "404", came_back);
    Ok(())
}

/// The last call again: not run twice, and its answer told.
async fn lost_answer(kit: &mut Kit<'_>, target: VacantId) -> Result<(), Failure> {
    let caller = Caller::new(target)?;
    let call = caller.first()?;
    let exchange = send(kit, &call).await?;
    let answered = exchange.body["result"]["message"].clone();
    let exchange = send(kit, &call).await?;
    let is_same = exchange.body["error"]["response"] == answered && !answered.is_null();
    let word = if is_same { "with" } else { "without" };
    let came_back = format!("{} {word} the answer", told(&exchange));
    let expected = format!("{REPLAY} with the answer");
    kit.check("VA-SRV-12", "the last call again", &expected, came_back);
    Ok(())
}

async fn signatures(kit: &mut Kit<'_>, target: VacantId) -> Result<(), Failure> {
    let caller = Caller::new(target)?;
    let call = caller.first()?;
    let mut forged = request(&call);
    forged["params"]["message"]["parts"][0]["text"] = "two".into();
    let expected = "401 ENVELOPE_SIGNATURE";
    let asked = "a call whose text was changed on its way";
    let refused = expect(kit, "VA-ENV-6", asked, &forged, expected).await?;
    if refused {
        let asked = "the call itself after that";
        expect(kit, "VA-SRV-6", asked, &request(&call), "200").await?;
    }
    let caller = Caller::new(VacantId::of(&caller.key))?;
    let mut misdirected = request(&caller.first()?);
    let asked = "a call for another vacant";
    expect(kit, "VA-ERR-2", asked, &misdirected, "421 MISDIRECTED").await?;
    misdirected["params"]["message"]["parts"][0]["text"] = "two".into();
    let asked = "a changed call for another vacant: the address goes first";
    expect(kit, "VA-SRV-4", asked, &misdirected, "421 MISDIRECTED").await?;
    Ok(())
}

/// The same content in other spellings is signed alike.
async fn spellings(kit: &mut Kit<'_>, target: VacantId) -> Result<(), Failure> {
    let text = "a/b <c> & \"d\"\\ \u{1}\u{7f}\u{2028} é 😀";
    let caller = Caller::new(target)?;
    let call = caller.call(1, EMPTY_PREV_HASH, text)?;
    let asked = "a text with characters that are not escaped";
    expect(kit, "VA-CJ-3", asked, &request(&call), "200").await?;
    let caller = Caller::new(target)?;
    let call = caller.first()?;
    let mut elsewhere = request(&call);
    let there = call.timestamp.saturating_add(Duration::from_secs(7_200));
    let there = format_vacant(there).as_str().replace("+00:00", "+02:00");
    metadata(&mut elsewhere)["timestamp"] = there.into();
    let asked = "the same instant written in another zone";
    expect(kit, "VA-TS-2", asked, &elsewhere, "200").await?;
    let caller = Caller::new(target)?;
    let mut older = request(&caller.first()?);
    older["params"]["message"]["role"] = "user".into();
    let asked = "the role as A2A 0.3 spells it";
    expect(kit, "VA-WIRE-8", asked, &older, "200").await?;
    let caller = Caller::new(target)?;
    let mut float = request(&caller.first()?);
    metadata(&mut float)["sequence_no"] = 1.0.into();
    let asked = "sequence_no 1.0";
    expect(kit, "VA-WIRE-5", asked, &float, "200").await?;
    let caller = Caller::new(target)?;
    let mut word = request(&caller.first()?);
    metadata(&mut word)["sequence_no"] = "1".into();
    let asked = "sequence_no as a text";
    expect(kit, "VA-WIRE-5", asked, &word, FORMAT).await?;
    Ok(())
}

async fn profiles(kit: &mut Kit<'_>, target: VacantId) -> Result<(), Failure> {
    let caller = Caller::new(target)?;
    let mut draft = caller.draft(1, EMPTY_PREV_HASH, "one")?;
    draft.profile = Profile::SelfEval;
    let exchange = send(kit, &caller.sign(draft)).await?;
    let asked = "a call signed in the self-evaluation profile";
    if kit.check("VA-MSG-7", asked, "200", told(&exchange)) {
        let answer = answer_of(&exchange, &target);
        let profile = answer.map(|(_, verified)| verified.profile.as_str());
        let came_back = profile.unwrap_or("none that verifies");
        let asked = "the profile of its answer";
        kit.check("VA-MSG-8", asked, Profile::SelfEval.as_str(), came_back);
    }
    let caller = Caller::new(target)?;
    let mut draft = caller.draft(1, EMPTY_PREV_HASH, "one")?;
    draft.payload.self_eval = Some(SelfEval {
        honesty: 1.0,
        adoption: 0.0,
        ..SelfEval::default()
    });
    let mut scored = request(&caller.sign(draft));
    let asked = "a call whose scores are signed as 1.0 and 0.0";
    expect(kit, "VA-MSG-3", asked, &scored, "200").await?;
    let scores = &mut scored["params"]["message"]["selfEval"];
    (scores["honesty"], scores["adoption"]) = (1.into(), 0.into());
    let asked = "the same with 1 and 0 on the wire: repeated, not forged";
    expect(kit, "VA-MSG-3", asked, &scored, REPLAY).await?;
    Ok(())
}

async fn parts(kit: &mut Kit<'_>, target: VacantId) -> Result<(), Failure> {
    let caller = Caller::new(target)?;
    let mut image = request(&caller.first()?);
    image["params"]["message"]["parts"][0]["type"] = "image".into();
    expect(kit, "VA-WIRE-7", "a part that is no text", &image, FORMAT).await?;
    let mut bare = request(&caller.first()?);
    let metadata = &mut bare["params"]["message"]["metadata"];
    *metadata = serde_json::json!({});
    expect(
        kit,
        "VA-WIRE-4",
        "a message without an envelope",
        &bare,
        FORMAT,
    )
    .await?;
    let zero = caller.sign(caller.draft(0, EMPTY_PREV_HASH, "zero")?);
    expect(kit, "VA-ENV-3", "number 0", &request(&zero), FORMAT).await?;
    Ok(())
}

async fn frames(kit: &mut Kit<'_>, target: VacantId) -> Result<(), Failure> {
    let caller = Caller::new(target)?;
    let mut old = request(&caller.first()?);
    old["jsonrpc"] = "1.0".into();
    expect(kit, "VA-SRV-3", "jsonrpc 1.0", &old, FORMAT).await?;
    let mut other = request(&caller.first()?);
    other["method"] = "tasks/get".into();
    expect(kit, "VA-SRV-3", "another method", &other, FORMAT).await?;
    let body = request(&caller.first()?).to_string();
    let exchange = kit.post_as("text/plain", &CALLS, body).await?;
    let came_back = exchange.status.to_string();
    kit.check("VA-SRV-2", "a body of text/plain", "415", came_back);
    Ok(())
}
