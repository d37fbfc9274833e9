//! Transcripts: a fresh node over a world, and requests in order with what each must be answered.

use bytes::Bytes;
use chancery_core::admin::TokenRecord;
use chancery_core::json::{self, ReadRules, Value};
use chancery_core::rows::Rows as _;
use chancery_core::time::{Time, parse_vibe};

use super::case::{Case, Outcome, canonical, expect, expect_partly, verbatim};
use super::host::{Host, Reply, Request};
use crate::settings::{Clock, Platform, Settings};
use crate::world::hash::{entry_of, state_hash, world_hash};
use crate::world::rows::Table;
use crate::world::seed::Seed;

/// How a transcript is played: tests change what is sent, or look at the node afterwards.
pub struct Play<'p> {
    /// Rewrites a body before it is sent.
    pub rewrite: &'p dyn Fn(&[u8]) -> Vec<u8>,
    /// Looks at the node at the end.
    pub at_end: &'p mut dyn FnMut(&Host) -> Outcome,
}

/// Plays every transcript of a file.
pub(super) fn run_all(file: &mut Case<'_>) -> Result<Vec<(String, Outcome)>, String> {
    let mut outcomes = Vec::new();
    for transcript in file.array("transcripts")? {
        let id = transcript.get("id").and_then(Value::as_str).unwrap_or("?");
        let mut play_ = Play {
            rewrite: &|body| body.to_vec(),
            at_end: &mut |_| Ok(()),
        };
        outcomes.push((id.to_owned(), play(transcript, &mut play_)));
    }
    Ok(outcomes)
}

/// Plays one transcript.
///
/// # Errors
/// The first step that is not answered as the file expects, and how.
pub fn play(transcript: &Value<'_>, play: &mut Play<'_>) -> Result<(), String> {
    let mut case = Case::of(transcript)?;
    expect("suite", case.text("suite")?, "vibe/transcript")?;
    case.text("id")?;
    case.text("note")?;
    case.texts("requirements")?;
    let (settings, now, tokens) = read_settings(Case::of(case.take("settings")?)?)?;
    let mut world = Vec::new();
    verbatim(case.take("world")?, &mut world);
    let seed = Seed::parse(&world).map_err(|fault| format!("world: {fault}"))?;
    let mut host = Host::new(&seed, settings, tokens)?;
    for (index, step) in case.array("steps")?.iter().enumerate() {
        run_step(step, &mut host, now, play.rewrite)
            .map_err(|reason| format!("step {index}: {reason}"))?;
    }
    let mut last = Case::of(case.take("final")?)?;
    let damaged = |damage: chancery_core::rows::RowsDamaged| damage.to_string();
    let state = state_hash(host.rows()).map_err(damaged)?;
    let world = world_hash(host.rows())
        .map_err(damaged)?
        .ok_or("there is no world")?;
    expect("state_hash", state.hex().as_str(), last.text("state_hash")?)?;
    expect("world_hash", world.hex().as_str(), last.text("world_hash")?)?;
    last.finish()?;
    case.finish()?;
    (play.at_end)(&host)
}

type Tokens = Vec<(String, TokenRecord)>;

fn read_settings(mut case: Case<'_>) -> Result<(Settings, Time, Option<Tokens>), String> {
    let platform = match case.text("platform")? {
        "auto" => Platform::Auto,
        "manual" => Platform::Manual,
        other => return Err(format!("no platform {other}")),
    };
    let (clock, now) = match case.text("clock")? {
        "envelope" => (Clock::Envelope, Time::UNIX_EPOCH),
        text => {
            let at = text.strip_prefix("fixed:").ok_or("no such clock")?;
            (
                Clock::Wall,
                parse_vibe(at).map_err(|error| error.to_string())?,
            )
        }
    };
    let signed = case.bool("signed")?;
    let strict_uuid = case
        .optional("strict_uuid")
        .is_some_and(|flag| flag.as_bool() == Some(true));
    let tokens = match case.optional("tokens") {
        None => None,
        Some(tokens) => Some(read_tokens(tokens)?),
    };
    case.finish()?;
    let settings = Settings {
        platform,
        clock,
        signed,
        strict_uuid,
        ..Settings::default()
    };
    Ok((settings, now, tokens))
}

fn read_tokens(value: &Value<'_>) -> Result<Tokens, String> {
    let tokens = value.as_object().ok_or("tokens are no object")?;
    let read = |(number, (token, value)): (usize, (&str, &Value<'_>))| {
        let mut case = Case::of(value)?;
        let optional = |value: Option<&Value<'_>>| value.and_then(Value::as_str).map(str::to_owned);
        let record = TokenRecord {
            id: format!("t{number}"),
            principal: case.text("principal")?.to_owned(),
            scopes: Vec::new(),
            addresses: case
                .texts("addresses")?
                .into_iter()
                .map(str::to_owned)
                .collect(),
            consumer_id: optional(case.optional("consumer_id")),
            merchant_id: optional(case.optional("merchant_id")),
            agent: None,
            revoked: false,
        };
        case.finish()?;
        Ok((token.to_owned(), record))
    };
    tokens.iter().enumerate().map(read).collect()
}

fn run_step(
    step: &Value<'_>,
    host: &mut Host,
    now: Time,
    rewrite: &dyn Fn(&[u8]) -> Vec<u8>,
) -> Outcome {
    let mut case = Case::of(step)?;
    case.optional("why");
    let send = case.take("send")?;
    let body = match send.as_object() {
        Some(object) if object.len() == 1 && object.contains("raw") => {
            let raw = send.get("raw").and_then(Value::as_str);
            raw.ok_or("raw is no string")?.as_bytes().to_vec()
        }
        _ => {
            let mut body = Vec::new();
            verbatim(send, &mut body);
            rewrite(&body)
        }
    };
    let mut request = Request {
        body: Bytes::from(body),
        ..Request::default()
    };
    if let Some(headers) = case.optional("headers") {
        for (name, value) in headers.as_object().ok_or("headers are no object")?.iter() {
            let value = value.as_str().ok_or("a header is no string")?.to_owned();
            match name.to_ascii_lowercase().as_str() {
                "authorization" => request.authorization = Some(value),
                "content-type" => request.content_type = Some(value),
                "idempotency-key" => request.idempotency_key = Some(value),
                other => return Err(format!("no door knows header {other}")),
            }
        }
    }
    let reply = host.receive(&request, now);
    let expected = Case::of(case.take("expect")?)?;
    check(&reply, expected, host)?;
    case.finish()
}

fn check(reply: &Reply, mut expected: Case<'_>, host: &Host) -> Outcome {
    let told = || String::from_utf8_lossy(&reply.body).into_owned();
    let body = json::read(&reply.body, &ReadRules::OWN).map_err(|fault| fault.to_string())?;
    let status = u64::from(reply.status);
    expect("status", status, expected.number("status")?)
        .map_err(|reason| format!("{reason}: {}", told()))?;
    expect(
        "lines_added",
        reply.lines_added as u64,
        expected.number("lines_added")?,
    )?;
    let text = |name: &str| body.get(name).and_then(Value::as_str);
    if let Some(code) = expected.optional("code") {
        expect("code", text("code"), code.as_str())
            .map_err(|reason| format!("{reason}: {}", told()))?;
    }
    if let Some(param) = expected.optional("param") {
        expect("param", text("param"), param.as_str())?;
    }
    if let Some(details) = expected.optional("details") {
        expect_partly("details", body.get("details"), details)?;
    }
    if let Some(replayed) = expected.optional("replayed") {
        expect("replayed", Some(reply.replayed), replayed.as_bool())?;
    }
    if reply.status == 200 {
        check_accepted(&body, &mut expected)?;
    }
    if let Some(world) = expected.optional("world") {
        check_world(world, host)?;
    }
    expected.finish()
}

fn check_accepted(body: &Value<'_>, expected: &mut Case<'_>) -> Outcome {
    let emitted = body
        .get("emitted")
        .and_then(Value::as_array)
        .ok_or("emitted is missing")?;
    if let Some(kinds) = expected.optional("emitted_kinds") {
        let found: Vec<Value<'_>> = emitted
            .iter()
            .filter_map(|envelope| envelope.get("action")?.get("kind").cloned())
            .collect();
        expect(
            "emitted_kinds",
            canonical(&Value::Array(found)),
            canonical(kinds),
        )?;
    }
    if let Some(envelopes) = expected.optional("emitted") {
        let found = body.get("emitted").map(canonical);
        expect("emitted", found, Some(canonical(envelopes)))?;
    }
    let code = body
        .get("follow_up_error")
        .and_then(|error| error.get("code"));
    let wanted = expected.optional("follow_up_error").and_then(Value::as_str);
    expect("follow_up_error", code.and_then(Value::as_str), wanted)?;
    if let Some(diff) = expected.optional("state_diff") {
        expect_partly("state_diff", body.get("state_diff"), diff)?;
    }
    Ok(())
}

/// Compares rows of the world, table by table and key by key.
fn check_world(expected: &Value<'_>, host: &Host) -> Outcome {
    for (name, rows) in expected.as_object().ok_or("world is no object")?.iter() {
        let table = Table::parse(name).ok_or_else(|| format!("no table {name}"))?;
        let found = host
            .rows()
            .scan(&table.prefix())
            .map_err(|damage| damage.to_string())?;
        for (entry, row) in rows.as_object().ok_or("a table is no object")?.iter() {
            let bytes = found
                .iter()
                .find(|(key, _)| entry_of(key) == entry)
                .map(|(_, bytes)| bytes)
                .ok_or_else(|| format!("{name} has no {entry}"))?;
            let value = json::read(bytes, &ReadRules::OWN).map_err(|fault| fault.to_string())?;
            expect_partly(&format!("world.{name}.{entry}"), Some(&value), row)?;
        }
    }
    Ok(())
}
