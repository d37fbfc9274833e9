//! The stages of an envelope's trace, for every protocol and every door that one comes in by: one span each, one after
//! the other, below the span of whoever sent it.

use std::time::{SystemTime, UNIX_EPOCH};

use chancery_core::digest::hex;
use chancery_core::keys::ed25519::SigningKey;
use chancery_vacant::envelope::{EMPTY_PREV_HASH, EnvelopeHash};
use opentelemetry_proto::tonic::trace::v1::Span;
use serde_json::{Value, json};

use crate::collector::{Collector, text};
use crate::decisions_told::{goal, place};
use crate::letters::{CALLS, Link, bob, letter};
use crate::served::{HOSTED, Served, share};
use crate::wire::{Answer, Wire};

const CALLER: &str = "00f067aa0ba902b7";
/// What an envelope passes that somebody else sends.
const ALL: [&str; 5] = ["decode", "authenticate", "decide", "commit", "deliver"];
/// The same of one that somebody here sends: the door knows who that is.
const OWN: [&str; 4] = ["decode", "decide", "commit", "deliver"];
/// And of one that the node made itself, as the answer to a call.
const MADE: [&str; 3] = ["decide", "commit", "deliver"];

/// The trace of each thing that is sent here.
fn trace(number: u8) -> String {
    format!("{number:032x}")
}

/// A connection whose requests belong to a trace.
fn wire(node: &Served, number: u8) -> Wire {
    let parent = format!("00-{}-{CALLER}-01", trace(number));
    node.wire().with_header("traceparent", &parent)
}

fn post(wire: &mut Wire, path: &str, body: &Value) -> Answer {
    let answer = wire.post(path, body.to_string().as_bytes()).unwrap();
    assert_eq!(answer.status, 200, "{path}: {}", answer.text());
    answer
}

/// A say of a peer that no node hosts.
fn heard() -> Value {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
    json!({"protocol": "agh-network/v0", "id": "say-1", "kind": "say", "channel": "builders",
        "from": "carol", "to": null, "ts": now.as_secs(), "body": {"text": "hello"}, "proof": null})
}

/// A caller in this test, and how far its chain is.
struct Caller {
    key: SigningKey,
    link: Link,
}

impl Caller {
    fn call(&mut self, node: &Served, text: &str) -> Value {
        let (bytes, hash): (Vec<u8>, EnvelopeHash) =
            letter(&self.key, bob(node), self.link, text, text);
        self.link = Link {
            number: self.link.number + 1,
            prev: hash,
        };
        serde_json::from_slice(&bytes).unwrap()
    }
}

/// Calls bob by each binding: in JSON-RPC of his own, of A2A, over HTTP+JSON, and as a tool of MCP.
fn call_bob(node: &Served) {
    let mut caller = Caller {
        key: SigningKey::from_seed(&[0x61; 32]),
        link: Link {
            number: 1,
            prev: EMPTY_PREV_HASH,
        },
    };
    post(&mut wire(node, 5), CALLS, &caller.call(node, "one"));
    let mut over_a2a = wire(node, 6).with_header("a2a-version", "1.0");
    let message = caller.call(node, "two")["params"]["message"].take();
    let params = json!({"message": message});
    let body = json!({"jsonrpc": "2.0", "id": 1, "method": "SendMessage", "params": params});
    post(&mut over_a2a, "/a2a", &body);
    let message = caller.call(node, "three")["params"]["message"].take();
    let mut over_rest = wire(node, 7).with_header("a2a-version", "1.0");
    post(
        &mut over_rest,
        "/a2a/v1/message:send",
        &json!({"message": message}),
    );
    let mut over_mcp = wire(node, 8)
        .with_header("accept", "application/json, text/event-stream")
        .with_header("mcp-protocol-version", "2025-11-25");
    let arguments = json!({"envelope": caller.call(node, "four")});
    let params = json!({"name": "vacant_call", "arguments": arguments});
    let body = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params});
    let told = post(&mut over_mcp, "/mcp", &body).json();
    assert_eq!(told["result"]["isError"], false, "{told}");
}

/// The stages below a span are these: one each, one after the other, within it.
fn assert_stages(spans: &[&Span], own: &Span, stages: &[&str], what: &str) {
    let mut below: Vec<_> = spans
        .iter()
        .filter(|span| span.parent_span_id == own.span_id)
        .filter(|span| !["envelope", "attempt"].contains(&span.name.as_str()))
        .collect();
    below.sort_by_key(|span| (span.start_time_unix_nano, span.end_time_unix_nano));
    let names: Vec<&str> = below.iter().map(|span| span.name.as_str()).collect();
    assert_eq!(names, stages, "{what}");
    let mut ended = own.start_time_unix_nano;
    for span in below {
        assert!(span.start_time_unix_nano >= ended, "{what} {}", span.name);
        ended = span.end_time_unix_nano;
    }
    assert!(own.end_time_unix_nano >= ended, "{what}");
}

/// The envelopes below a span.
fn envelopes<'s>(spans: &[&'s Span], below: &[u8]) -> Vec<&'s Span> {
    let found = spans.iter().copied();
    found
        .filter(|span| span.name == "envelope" && span.parent_span_id == below)
        .collect()
}

// VA-A2A-4, VA-MCP-4
#[test]
fn every_protocol_tells_its_stages_by_every_door() {
    let collector = Collector::listen();
    let place = place()
        .with("CHANCERY_OTLP_URL", &collector.url)
        .with("CHANCERY_OTLP_SAMPLE_ONE_IN", "1000000");
    let node = place.serve();
    let shared = wire(&node, 1).share(&share(HOSTED[0]).bytes).unwrap();
    assert_eq!(shared.status, 200, "{}", shared.text());
    post(&mut wire(&node, 2), "/send/vibe", &goal());
    post(&mut wire(&node, 3), "/agh", &heard());
    let say =
        json!({"kind": "say", "channel": "builders", "from": "ann", "body": {"text": "hello"}});
    post(&mut wire(&node, 4), "/send/agh", &say);
    call_bob(&node);
    node.stop_well();
    let told = collector.collected();
    let expected: [(u8, &str, &[&str]); 8] = [
        (1, "value-context", &ALL),
        (2, "vibe", &ALL),
        (3, "agh", &ALL),
        (4, "agh", &OWN),
        (5, "vacant", &ALL),
        (6, "vacant", &ALL),
        (7, "vacant", &ALL),
        (8, "vacant", &ALL),
    ];
    for (number, protocol, stages) in expected {
        let what = format!("{number}: {protocol}");
        let spans = told.of_trace(&hex::decode(&trace(number)).unwrap());
        let [own] = envelopes(&spans, &hex::decode(CALLER).unwrap())[..] else {
            panic!("{what}: one envelope below its sender's span: {spans:?}");
        };
        assert_eq!(
            text(&own.attributes, "chancery.protocol"),
            Some(protocol),
            "{what}"
        );
        assert_eq!(
            text(&own.attributes, "chancery.verdict"),
            Some("accepted"),
            "{what}"
        );
        assert_stages(&spans, own, stages, &what);
        // The answer to a call belongs to the call.
        let answers = envelopes(&spans, &own.span_id);
        assert_eq!(answers.len(), usize::from(protocol == "vacant"), "{what}");
        for answer in answers {
            assert_stages(&spans, answer, &MADE, &what);
        }
    }
}
