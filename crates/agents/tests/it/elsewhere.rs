//! Behaviours elsewhere: a web service and a model, both of which may be slow, busy, cut off or talk nonsense.

use std::sync::Arc;
use std::time::Duration;

use chancery_agents::behaviour::http::{self, Http};
use chancery_agents::behaviour::model::{Model, ModelSettings, decision_schema};
use chancery_agents::behaviour::{
    Behaviour, Form, InferElsewhere, Inferred, Request, Unanswered, signed,
};
use chancery_agents::budget::{Budget, Usage};
use chancery_core::digest::Sha256Digest;
use chancery_core::keys::base64;
use chancery_core::keys::ed25519::SigningKey;
use serde_json::{Value, json};

use crate::desk::{answer, merchant, no_reply};
use crate::hosted::{House, question};
use crate::server::{Answer, Server};

const KEY: &str = "sk-test-4711-never-to-be-seen";

fn request() -> Request {
    let parts = [
        ("instructions", json!("You sell.")),
        ("inbound", json!({"msg_id": "m"})),
        ("thread", json!([])),
        ("world", json!({})),
        ("memory", json!({})),
        ("skills", json!([])),
        ("observations", json!([{"step": 1, "code": "memory_type"}])),
    ];
    Request {
        turn_id: "turn".to_owned(),
        step: 2,
        agent: "keys".to_owned(),
        address: "merchant".to_owned(),
        parts: parts.into(),
        form: Form::Decisions,
    }
}

fn schema(name: &str) -> jsonschema::Validator {
    let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("schemas")
        .join(name);
    let schema: Value = serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap();
    jsonschema::validator_for(&schema).unwrap()
}

fn key() -> Arc<SigningKey> {
    Arc::new(SigningKey::from_seed(&[7; 32]))
}

fn http_agent(server: &Server) -> Http {
    let url = format!("{}/turns", server.url);
    Http::new(&url, key(), http::client().unwrap())
}

fn ok(body: &Value) -> Answer {
    Answer::Whole(200, "content-type: application/json\r\n", body.to_string())
}

/// RFC 9421, appendix B.2.6: the base and the signature with Ed25519.
#[test]
fn the_signature_base_is_that_of_the_standard() {
    let params = "(\"date\" \"@method\" \"@path\" \"@authority\" \"content-type\" \"content-length\");created=1618884473;\
                  keyid=\"test-key-ed25519\"";
    let components = [
        ("date", "Tue, 20 Apr 2021 02:07:55 GMT"),
        ("@method", "POST"),
        ("@path", "/foo"),
        ("@authority", "example.com"),
        ("content-type", "application/json"),
        ("content-length", "18"),
    ];
    let base = signed::signature_base(&components, params);
    let seed =
        base64::decode_url_array::<32>("n4Ni-HpISpVObnQMW0wOhCKROaIKqKtW_2ZYb2p9KcU").unwrap();
    let signature = base64::encode(&SigningKey::from_seed(&seed).sign(base.as_bytes()));
    let wanted =
        "wqcAqbmYJ2ji2glfAMaRy4gruYYnx2nEFN2HN6jrnDnQCK1u02Gb04v9EDgwUPiu4A0w6vuQv5lIp5WPpBKRCw==";
    assert_eq!(signature, wanted);
}

/// The request has the form of its schema, is signed with the agent's key, and its answer is the output as it is.
#[tokio::test]
async fn a_web_service_is_asked_under_signature() {
    let server = Server::start(vec![ok(&no_reply())]).await;
    let inferred = http_agent(&server).infer(request()).await.unwrap();
    assert_eq!(inferred.text, no_reply().to_string());
    let asked = &server.asked()[0];
    let body = asked.json();
    assert!(schema("request.json").is_valid(&body), "{body}");
    assert_eq!((&body["id"], &body["step"]), (&json!("turn/2"), &json!(2)));
    let digest = format!(
        "sha-256=:{}:",
        base64::encode(&Sha256Digest::of(&asked.body).0)
    );
    assert_eq!(asked.header("content-digest"), Some(digest.clone()));
    let input = asked.header("signature-input").unwrap();
    let params = input.strip_prefix("sig1=").unwrap();
    assert!(params.contains("alg=\"ed25519\""), "{params}");
    let uri = format!("{}/turns", server.url);
    let components = [
        ("@method", "POST"),
        ("@target-uri", uri.as_str()),
        ("content-digest", digest.as_str()),
        ("content-type", "application/json"),
    ];
    let base = signed::signature_base(&components, params);
    let signature = asked.header("signature").unwrap();
    let signature = signature
        .strip_prefix("sig1=:")
        .unwrap()
        .strip_suffix(':')
        .unwrap();
    let signature = base64::decode(signature).unwrap();
    assert!(key().verifying_key().verify(base.as_bytes(), &signature));
}

/// What was not answered is asked once more under the same id, and no more than that; a refusal is final.
#[tokio::test]
async fn a_web_service_is_asked_twice_at_most() {
    let unavailable = || Answer::Whole(503, "", String::new());
    let cases = [
        (vec![Answer::Hangup, ok(&no_reply())], Ok(()), 2),
        (vec![unavailable(), ok(&no_reply())], Ok(()), 2),
        (
            vec![unavailable(), unavailable(), ok(&no_reply())],
            Err("http_status"),
            2,
        ),
        (
            vec![Answer::Hangup, Answer::Hangup, ok(&no_reply())],
            Err("http_failed"),
            2,
        ),
        (
            vec![Answer::Whole(400, "", String::new()), ok(&no_reply())],
            Err("http_status"),
            1,
        ),
        (
            vec![Answer::Whole(
                302,
                "location: /elsewhere\r\n",
                String::new(),
            )],
            Err("http_status"),
            1,
        ),
        (
            vec![Answer::Whole(200, "", "x".repeat(300_000))],
            Err("http_answer"),
            1,
        ),
    ];
    for (answers, wanted, count) in cases {
        let server = Server::start(answers).await;
        let got = http_agent(&server).infer(request()).await;
        assert_eq!(got.map(|_| ()).map_err(|failed| failed.code), wanted);
        let ids: Vec<Value> = server
            .asked()
            .iter()
            .map(|asked| asked.json()["id"].clone())
            .collect();
        assert_eq!(ids, vec![json!("turn/2"); count]);
    }
}

/// Decisions of the turn loop are what the answer's schema says.
#[test]
fn the_schema_of_an_answer_is_what_is_decoded() {
    let schema = schema("decision.json");
    let right = [
        no_reply(),
        answer("m", "text"),
        json!([{"decision": "load_skill", "skill": "haggle"}, no_reply()]),
        json!({"decision": "memory_update", "key": "k", "value": 1, "type": "int", "tag": "PRIVATE_UTILITY"}),
    ];
    for decision in right {
        assert!(schema.is_valid(&decision), "{decision}");
        assert!(chancery_agents::decision::decode(&decision.to_string()).is_some());
    }
    let wrong = [
        json!({}),
        json!([]),
        json!("no_reply"),
        json!({"decision": "no_reply"}),
        json!({"decision": "sleep", "reason": "tired"}),
        json!({"decision": "no_reply", "reason": "r", "more": 1}),
        json!({"decision": "memory_update", "key": "k", "value": 1, "type": "float"}),
        json!({"decision": "emit_envelope", "to": "buyer"}),
    ];
    for decision in wrong {
        assert!(!schema.is_valid(&decision), "{decision}");
        assert!(chancery_agents::decision::decode(&decision.to_string()).is_none());
    }
    assert_eq!(
        decision_schema()["title"],
        json!("Answer of an http or model behaviour: one decision, or a list of them")
    );
}

fn model(server: &Server, prices: Option<(u64, u64)>) -> Model {
    let settings = ModelSettings {
        url: format!("{}/v1", server.url),
        model: "tiny".to_owned(),
        key: Some(KEY.to_owned()),
        price_in: prices.map(|(price, _)| price),
        price_out: prices.map(|(_, price)| price),
    };
    assert!(!format!("{settings:?}").contains(KEY));
    Model::new(settings, http::client().unwrap())
}

/// The events of a streamed answer, cut into pieces that respect no boundary.
fn streamed(text: &str, usage: Option<(u64, u64)>, ends: bool) -> Vec<String> {
    let mut events = String::from(": a comment\r\n\r\n");
    let chars: Vec<char> = text.chars().collect();
    for part in chars.chunks(7) {
        let content: String = part.iter().collect();
        let event = json!({"choices": [{"index": 0, "delta": {"content": content}, "finish_reason": null}]});
        events.push_str(&format!("data: {event}\r\n\r\n"));
    }
    if ends {
        let event = json!({"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]});
        events.push_str(&format!("data: {event}\n\n"));
        if let Some((prompt, completion)) = usage {
            let usage = json!({"prompt_tokens": prompt, "completion_tokens": completion});
            events.push_str(&format!(
                "data: {}\n\n",
                json!({"choices": [], "usage": usage})
            ));
        }
        events.push_str("data: [DONE]\n\n");
    }
    let bytes: Vec<char> = events.chars().collect();
    bytes
        .chunks(31)
        .map(|piece| piece.iter().collect())
        .collect()
}

fn stream(pieces: Vec<String>) -> Answer {
    Answer::Stream {
        pieces,
        pause: Duration::ZERO,
        cut: false,
    }
}

async fn asked(model: &Model) -> Result<Inferred, Unanswered> {
    model.infer(request()).await
}

/// A streamed answer, its tokens and its cost; a missing price or count is unknown, never zero.
#[tokio::test]
async fn a_model_streams_and_is_accounted_for() {
    let text = answer("m", "quiet, and größer").to_string();
    // 3.50 and 7.25 for a million tokens.
    let prices = Some((3_500_000, 7_250_000));
    let cases = [
        (prices, Some((1_000, 10)), Some(3_573)),
        (None, Some((1_000, 10)), None),
        (prices, None, None),
    ];
    for (prices, tokens, micros) in cases {
        let server = Server::start(vec![stream(streamed(&text, tokens, true))]).await;
        let inferred = asked(&model(&server, prices)).await.unwrap();
        assert_eq!(inferred.text, text);
        let (prompt_tokens, completion_tokens) = tokens.unwrap_or_default();
        let wanted = Usage {
            prompt_tokens,
            completion_tokens,
            micros,
        };
        assert_eq!(inferred.usage, wanted);
        let request = &server.asked()[0];
        assert!(
            request.head.starts_with("POST /v1/chat/completions "),
            "{}",
            request.head
        );
        assert_eq!(
            request.header("authorization"),
            Some(format!("Bearer {KEY}"))
        );
        let body = request.json();
        assert_eq!(
            (&body["model"], &body["stream"]),
            (&json!("tiny"), &json!(true))
        );
        assert_eq!(body["response_format"]["type"], "json_schema");
        assert_eq!(
            &body["response_format"]["json_schema"]["schema"],
            decision_schema()
        );
        // The parts in their order.
        let shown = body["messages"][1]["content"].as_str().unwrap();
        let places: Vec<usize> = [
            "instructions",
            "inbound",
            "thread",
            "world",
            "memory",
            "skills",
            "observations",
        ]
        .map(|name| shown.find(&format!("## {name}")).unwrap())
        .into();
        assert!(places.is_sorted(), "{shown}");
    }
}

/// Rate limits, faults and cut streams are tried again with a growing pause; refusals and nonsense are not.
#[tokio::test(start_paused = true)]
async fn a_model_is_asked_again_where_that_helps() {
    let text = no_reply().to_string();
    let good = || stream(streamed(&text, Some((5, 5)), true));
    let busy = |headers| Answer::Whole(429, headers, String::new());
    let broken = || Answer::Whole(500, "", String::new());
    let cut = || Answer::Stream {
        pieces: streamed(&text, None, false),
        pause: Duration::ZERO,
        cut: true,
    };
    let early = || stream(streamed(&text, None, false));
    let garbled = || stream(vec!["data: {not json\n\n".to_owned()]);
    let long = || stream(vec!["data: ".to_owned(), "x".repeat(300_000)]);
    let cases: Vec<(Vec<Answer>, Result<(), &str>, usize)> = vec![
        (vec![busy("retry-after: 2\r\n"), good()], Ok(()), 2),
        (vec![broken(), Answer::Hangup, good()], Ok(()), 3),
        (vec![cut(), early(), good()], Ok(()), 3),
        (
            vec![busy(""), busy(""), busy(""), busy(""), good()],
            Err("model_busy"),
            4,
        ),
        (
            vec![busy("retry-after: 3600\r\n"), good()],
            Err("model_busy"),
            1,
        ),
        (
            vec![Answer::Whole(401, "", KEY.to_owned()), good()],
            Err("model_status"),
            1,
        ),
        (vec![garbled(), good()], Err("model_answer"), 1),
        (vec![long(), good()], Err("model_answer"), 1),
    ];
    for (number, (answers, wanted, count)) in cases.into_iter().enumerate() {
        let server = Server::start(answers).await;
        let got = asked(&model(&server, Some((1, 1)))).await;
        let told = format!("{got:?}");
        assert!(!told.contains(KEY), "{told}");
        assert_eq!(
            got.map(|_| ()).map_err(|failed| failed.code),
            wanted,
            "case {number}"
        );
        assert_eq!(server.asked().len(), count, "case {number}");
    }
}

fn hosted_model(server: &Server, budget: Budget) -> chancery_agents::host::Hosted {
    let mut agent = merchant("keys", "m1");
    agent.budget = budget;
    let model = model(server, Some((1_000_000, 1_000_000)));
    chancery_agents::host::Hosted {
        agent,
        behaviour: Behaviour::Elsewhere(Arc::new(model)),
    }
}

/// End to end: a model answers in a node; one that is slow ends as a timeout, one that is dear as exhausted.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_model_answers_in_a_node() {
    let says = |text: &Value| stream(streamed(&text.to_string(), Some((50, 50)), true));
    let load = json!({"decision": "memory_update", "key": "k", "value": 1, "type": "int"});
    // The first turn is that of the merchant's goal.
    let answers = vec![
        says(&no_reply()),
        says(&load),
        says(&answer("msg-10", "yes")),
    ];
    let server = Server::start(answers).await;
    let house = House::new(vec![hosted_model(&server, Budget::default())]).await;
    crate::hosted::post(&house.office, question("m1", "s1"), 10).await;
    house.turns(2).await;
    assert_eq!(house.outcomes("keys"), ["emitted", "no_reply"]);
    let record = house.record("keys");
    assert_eq!(record["inference_calls"], 2);
    assert_eq!(
        record["usage"],
        json!({"prompt_tokens": 100, "completion_tokens": 100, "micros": 200})
    );
    let told = serde_json::to_string(&record).unwrap();
    assert!(!told.contains(KEY));

    let slow = Answer::Stream {
        pieces: streamed(&no_reply().to_string(), None, true),
        pause: Duration::from_secs(3_600),
        cut: false,
    };
    let server = Server::start(vec![slow]).await;
    let budget = Budget {
        time: Duration::from_millis(100),
        ..Budget::default()
    };
    let house = House::new(vec![hosted_model(&server, budget)]).await;
    house.turns(1).await;
    assert_eq!(house.outcomes("keys"), ["timeout"]);

    let server = Server::start(vec![says(&load), says(&no_reply())]).await;
    let budget = Budget {
        micros: Some(99),
        ..Budget::default()
    };
    let house = House::new(vec![hosted_model(&server, budget)]).await;
    house.turns(1).await;
    assert_eq!(house.outcomes("keys"), ["budget_exhausted"]);
    assert_eq!(server.asked().len(), 1);
}
