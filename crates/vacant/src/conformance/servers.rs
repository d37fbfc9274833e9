//! Chains and servers: ordered steps on one store, and requests against one fresh server.

use bytes::Bytes;
use chancery_core::canonical::{Dialect, to_bytes};
use chancery_core::digest::Blake2b256;
use chancery_core::json::Value;
use chancery_core::keys::ed25519::SigningKey;

use super::host::{Host, Reply};
use super::{Case, File, expect, key_of};
use crate::dispatch::check_response;
use crate::id::VacantId;
use crate::message::Message;
use crate::payload::Profile;
use crate::rules::chain::ReplayState;
use crate::state::State;
use crate::wire::read_json;

const MAX_BYTES: usize = 1 << 24;

/// Steps on one store: outcome and state after each.
pub(super) fn replay(case: &mut Case, file: &mut File) -> Result<(), String> {
    let mut host = Host::new();
    let steps = case.cases("steps")?;
    let mut hosted: Vec<String> = Vec::new();
    if let Some(seeded) = case.optional("seeded") {
        let mut seeded = Case::of(seeded)?;
        let (from, to) = (id_of(&mut seeded, "from")?, id_of(&mut seeded, "to")?);
        let state = read_state(&mut seeded)?;
        seeded.finish()?;
        host.seed(&from, &to, state);
    }
    for (index, mut step) in steps.into_iter().enumerate() {
        let outcome = replay_step(&mut step, file, &mut host, &mut hosted);
        outcome
            .and_then(|()| step.finish())
            .map_err(|reason| format!("step {index}: {reason}"))?;
    }
    Ok(())
}

fn replay_step(
    step: &mut Case,
    file: &File,
    host: &mut Host,
    hosted: &mut Vec<String>,
) -> Result<(), String> {
    let (sender, target) = (step.text("from")?, step.text("to")?);
    if !hosted.contains(&target) {
        host.host(&target, key_of(&target), State::Active)?;
        hosted.push(target.clone());
    }
    let (from, to) = (
        VacantId::of(&key_of(&sender)),
        VacantId::of(&key_of(&target)),
    );
    let text: Bytes = to_bytes(&step.take("jsonrpc")?, Dialect::Python).into();
    let body = read_json(&text, MAX_BYTES).map_err(|error| error.to_string())?;
    let message = Message::of_body(&body).map_err(|error| error.to_string())?;
    let envelope = &message.envelope;
    expect("sender", envelope.from, from)?;
    expect("target", envelope.to, to)?;
    expect("number", envelope.sequence_no, step.number("sequence_no")?)?;
    expect("hash before", envelope.prev.hex(), step.text("prev_hex")?)?;
    let hash = envelope.hash(file.profile).hex();
    expect("hash", hash, step.text("envelope_hash_hex")?)?;
    let found = match host.call(Some(&to), message) {
        Ok(_) => "ok",
        Err(refusal) if refusal.code == "REPLAY_DETECTED" => "ReplayDetectedError",
        Err(refusal) if refusal.code == "CHAIN_FORK" => "ChainForkError",
        Err(refusal) => return Err(refusal.to_string()),
    };
    expect("outcome", found, step.text("expect")?.as_str())?;
    let mut after = step.object("state_after")?;
    expect("state", host.state_of(&from, &to)?, read_state(&mut after)?)?;
    after.finish()
}

fn read_state(state: &mut Case) -> Result<ReplayState, String> {
    let tip = Blake2b256::from_hex(&state.text("chain_tip_hex")?);
    Ok(ReplayState {
        last_sequence_no: state.number("last_sequence_no")?,
        chain_tip: tip.map_err(|error| error.to_string())?,
    })
}

fn id_of(case: &mut Case, name: &str) -> Result<VacantId, String> {
    Ok(VacantId::of(&key_of(&case.text(name)?)))
}

/// Requests against one fresh server: status and facts about the answer.
pub(super) fn serve(case: &mut Case, file: &mut File) -> Result<(), String> {
    let server = file.server.ok_or("the file names no server")?;
    let state = case.text("state")?;
    let state = State::parse(&state).ok_or("no such state")?;
    let mut host = Host::new();
    host.host("server", SigningKey::from_seed(&server), state)?;
    let at = VacantId::of(&SigningKey::from_seed(&server));
    for (index, mut request) in case.cases("requests")?.into_iter().enumerate() {
        let outcome = exchange(&mut request, file.profile, &at, &mut host);
        outcome
            .and_then(|()| request.finish())
            .map_err(|reason| format!("request {index}: {reason}"))?;
    }
    Ok(())
}

fn exchange(
    request: &mut Case,
    profile: Profile,
    at: &VacantId,
    host: &mut Host,
) -> Result<(), String> {
    request.optional("reference_status");
    let body: Bytes = match (request.optional("body"), request.optional_text("raw_hex")?) {
        (_, Some(raw)) => chancery_core::digest::hex::decode(&raw)
            .map_err(|error| error.to_string())?
            .into(),
        (Some(body), None) => to_bytes(&body, Dialect::Python).into(),
        (None, None) => return Err("the request has no body".to_owned()),
    };
    let media_type = match request.optional("headers") {
        None => Some("application/json".to_owned()),
        Some(headers) => {
            let mut headers = Case::of(headers)?;
            let media_type = headers.optional_text("content-type")?;
            headers.finish()?;
            media_type
        }
    };
    let reply = host.post(at, media_type.as_deref(), &body);
    expect(
        "status",
        u64::from(reply.status),
        request.number("expect_status")?,
    )?;
    match request.optional("expect_response") {
        Some(expected) => check_answer(&reply, Case::of(expected)?, profile, at),
        None => Ok(()),
    }
}

/// The answer is the server's, verifies in the profile of the request, and says what it should.
fn check_answer(
    reply: &Reply,
    mut expected: Case,
    profile: Profile,
    at: &VacantId,
) -> Result<(), String> {
    let body = read_json(&reply.body, MAX_BYTES).map_err(|error| error.to_string())?;
    let id = body.get("id").cloned().unwrap_or(Value::Null);
    let expected_id = expected.take("id")?;
    expect("id", id.into_owned(), expected_id)?;
    let to = VacantId::from_hex(&expected.text("to")?).map_err(|error| error.to_string())?;
    let (envelope, verified) = check_response(&body, at, &to).map_err(|error| error.to_string())?;
    expect("profile", verified.profile, profile)?;
    expect("from", envelope.from.hex(), expected.text("from")?)?;
    expect(
        "number",
        envelope.sequence_no,
        expected.number("sequence_no")?,
    )?;
    let payload = envelope.payload;
    expect(
        "role",
        payload.role.as_str(),
        expected.text("role")?.as_str(),
    )?;
    expect("texts", payload.parts, expected.texts("texts")?)?;
    expected.finish()
}
