//! The transcripts of `vectors/vibe` and our own over HTTP, on every store.

use std::path::Path;
use std::sync::Arc;

use chancery_core::admin::TokenRecord;
use chancery_core::json::{ReadRules, Value as Json, read};
use chancery_core::time::parse_vibe;
use chancery_node::Clock;
use chancery_store::{Memory, Store, StoreRows};
use chancery_testkit::postgres_server::PostgresServer;
use chancery_vibe::conformance::verbatim;
use chancery_vibe::settings::{Clock as RuleClock, Platform, Settings};
use chancery_vibe::world::hash::{state_hash, world_hash};
use chancery_vibe::world::read::Reader;
use serde_json::Value;

use crate::kept::journal;
use crate::support::temporary;
use crate::vibe_support::{Market, Served};

/// What a vector names has to be there; what it does not name is free.
fn assert_partly(what: &str, found: &Value, expected: &Value) {
    match (found, expected) {
        (Value::Object(found), Value::Object(expected)) => {
            for (name, expected) in expected {
                let found = found.get(name).unwrap_or(&Value::Null);
                assert_partly(&format!("{what}.{name}"), found, expected);
            }
        }
        (Value::Array(found), Value::Array(expected)) if found.len() == expected.len() => {
            for (index, (found, expected)) in found.iter().zip(expected).enumerate() {
                assert_partly(&format!("{what}[{index}]"), found, expected);
            }
        }
        _ => assert_eq!(found, expected, "{what}"),
    }
}

fn market(transcript: &Json<'_>, settings: &Value) -> Market {
    let mut world = Vec::new();
    verbatim(transcript.get("world").unwrap(), &mut world);
    let mut market = Market::over(&world);
    let clock = settings["clock"].as_str().unwrap();
    if let Some(at) = clock.strip_prefix("fixed:") {
        market.clock = Clock::fixed(parse_vibe(at).unwrap());
    }
    market.settings = Settings {
        platform: match settings["platform"].as_str().unwrap() {
            "auto" => Platform::Auto,
            _ => Platform::Manual,
        },
        clock: match clock {
            "envelope" => RuleClock::Envelope,
            _ => RuleClock::Wall,
        },
        signed: settings["signed"].as_bool().unwrap(),
        strict_uuid: settings.get("strict_uuid") == Some(&Value::Bool(true)),
        ..Settings::default()
    };
    market.tokens = settings.get("tokens").map(tokens);
    market
}

fn tokens(tokens: &Value) -> Vec<(String, TokenRecord)> {
    let text = |value: &Value| value.as_str().map(str::to_owned);
    let record = |(number, (token, value)): (usize, (&String, &Value))| {
        let addresses = value["addresses"].as_array().unwrap();
        let record = TokenRecord {
            id: format!("t{number}"),
            principal: text(&value["principal"]).unwrap(),
            scopes: Vec::new(),
            addresses: addresses.iter().filter_map(text).collect(),
            consumer_id: text(&value["consumer_id"]),
            merchant_id: text(&value["merchant_id"]),
            agent: None,
            revoked: false,
        };
        (token.clone(), record)
    };
    tokens
        .as_object()
        .unwrap()
        .iter()
        .enumerate()
        .map(record)
        .collect()
}

async fn run_step(node: &Served, step: &Json<'_>, told: &Value, what: &str) {
    let send = step.get("send").unwrap();
    let body = match told["send"].get("raw").and_then(Value::as_str) {
        Some(raw) if told["send"].as_object().unwrap().len() == 1 => raw.as_bytes().to_vec(),
        _ => {
            let mut body = Vec::new();
            verbatim(send, &mut body);
            body
        }
    };
    let mut request = node.client.post(format!("{}/vcp", node.base)).body(body);
    let no_headers = serde_json::Map::new();
    let headers = told
        .get("headers")
        .and_then(Value::as_object)
        .unwrap_or(&no_headers);
    if !headers
        .keys()
        .any(|name| name.eq_ignore_ascii_case("content-type"))
    {
        request = request.header("content-type", "application/json");
    }
    for (name, value) in headers {
        request = request.header(name, value.as_str().unwrap());
    }
    let before = node.office.gate().store().head().seq;
    let response = request.send().await.unwrap();
    let added = node.office.gate().store().head().seq - before;
    let status = response.status().as_u16();
    let headers = response.headers().clone();
    let body: Value = serde_json::from_slice(&response.bytes().await.unwrap()).unwrap();
    let expected = &told["expect"];
    assert_eq!(status, expected["status"], "{what}: {body}");
    assert_eq!(added, expected["lines_added"], "{what}");
    for name in ["code", "param"] {
        if let Some(wanted) = expected.get(name) {
            assert_eq!(&body[name], wanted, "{what}: {body}");
        }
    }
    if let Some(details) = expected.get("details") {
        assert_partly(&format!("{what}: details"), &body["details"], details);
    }
    if let Some(replayed) = expected.get("replayed") {
        let header = headers
            .get("idempotent-replayed")
            .is_some_and(|value| value == "true");
        assert_eq!(header, replayed.as_bool().unwrap(), "{what}");
    }
    if status == 401 {
        assert!(headers.contains_key("www-authenticate"), "{what}");
    }
    if status == 200 {
        check_accepted(&body, expected, what);
    } else {
        let kind = if status < 500 {
            "invalid_request"
        } else {
            "service_unavailable"
        };
        assert_eq!(body["type"], kind, "{what}");
    }
    if let Some(world) = expected.get("world") {
        check_world(node, world, what);
    }
}

fn check_accepted(body: &Value, expected: &Value, what: &str) {
    let emitted = body["emitted"].as_array().unwrap();
    if let Some(kinds) = expected.get("emitted_kinds") {
        let found: Vec<&Value> = emitted.iter().map(|one| &one["action"]["kind"]).collect();
        assert_eq!(&serde_json::json!(found), kinds, "{what}");
    }
    if let Some(envelopes) = expected.get("emitted") {
        assert_eq!(&body["emitted"], envelopes, "{what}");
    }
    let wanted = expected.get("follow_up_error").unwrap_or(&Value::Null);
    let found = body["follow_up_error"].get("code").unwrap_or(&Value::Null);
    assert_eq!(found, wanted, "{what}");
    if let Some(diff) = expected.get("state_diff") {
        assert_partly(&format!("{what}: state_diff"), &body["state_diff"], diff);
    }
}

fn check_world(node: &Served, expected: &Value, what: &str) {
    for (table, rows) in expected.as_object().unwrap() {
        let found = node
            .office
            .vibe_table(table, &Reader::Psp)
            .unwrap()
            .unwrap();
        let found: Value = serde_json::from_slice(&found).unwrap();
        for (entry, row) in rows.as_object().unwrap() {
            assert_partly(
                &format!("{what}: {table} {entry}"),
                &found["rows"][entry],
                row,
            );
        }
    }
}

/// Opens an empty store for a market; the number tells one from the others.
type Open<'o> = &'o dyn Fn(&Market, usize) -> Arc<dyn Store>;

async fn play(transcript: &Json<'_>, told: &Value, store: Arc<dyn Store>, market: Market) -> usize {
    let node = market.start(store).await;
    let id = told["id"].as_str().unwrap();
    let steps = transcript.get("steps").unwrap().as_array().unwrap();
    for (index, step) in steps.iter().enumerate() {
        let what = format!("{id} step {index}");
        run_step(&node, step, &told["steps"][index], &what).await;
    }
    let rows = StoreRows(&**node.office.gate().store());
    let state = state_hash(&rows).unwrap().hex();
    let world = world_hash(&rows).unwrap().unwrap().hex();
    assert_eq!(state.as_str(), told["final"]["state_hash"], "{id}");
    assert_eq!(world.as_str(), told["final"]["world_hash"], "{id}");
    node.stop().await;
    steps.len()
}

async fn play_all(open: Open<'_>) {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    let (mut transcripts, mut steps) = (0, 0);
    let mut files: Vec<_> = ["../../vectors/vibe", "../vibe/tests/transcripts"]
        .iter()
        .flat_map(|folder| std::fs::read_dir(here.join(folder)).unwrap())
        .map(|file| file.unwrap().path())
        .collect();
    files.sort();
    for path in files
        .iter()
        .filter(|path| path.extension().is_some_and(|end| end == "json"))
    {
        let text = std::fs::read(path).unwrap();
        let told: Value = serde_json::from_slice(&text).unwrap();
        if told["suite"] != "vibe/transcripts" {
            continue;
        }
        let rules = ReadRules {
            max_bytes: usize::MAX,
            ..ReadRules::OWN
        };
        let file = read(&text, &rules).unwrap();
        let all = file.get("transcripts").unwrap().as_array().unwrap();
        for (index, transcript) in all.iter().enumerate() {
            let told = &told["transcripts"][index];
            let market = market(transcript, &told["settings"]);
            let store = open(&market, transcripts);
            steps += play(transcript, told, store, market).await;
            transcripts += 1;
        }
    }
    println!("{transcripts} transcripts, {steps} steps over HTTP");
    assert!(
        transcripts >= 110 && steps >= 1_200,
        "{transcripts} transcripts, {steps} steps"
    );
}

// VC-HTTP-1, VC-HTTP-2, VC-HTTP-3, VC-HTTP-4, VC-HTTP-6, VC-PIPE-1, VC-ERR-1
#[tokio::test(flavor = "multi_thread")]
async fn every_transcript_is_answered_as_it_says_in_memory() {
    play_all(&|_, _| Arc::new(Memory::new())).await;
}

// VC-HTTP-1, VC-HTTP-2, VC-PIPE-2
#[tokio::test(flavor = "multi_thread")]
async fn every_transcript_is_answered_as_it_says_on_disk() {
    let (_kept, dir) = temporary();
    play_all(&|market, number| market.embedded(&dir.join(number.to_string()))).await;
}

// VC-HTTP-1, VC-HTTP-2, VC-PIPE-2, CH-JRN-5
#[tokio::test(flavor = "multi_thread")]
async fn every_transcript_is_answered_as_it_says_in_postgresql() {
    let server = PostgresServer::start();
    play_all(&|market, number| journal(&server, &number.to_string(), &market.suite())).await;
}
