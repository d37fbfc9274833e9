//! Where an envelope's time went, as a collector is told: one span a stage, below the span of whoever sent it; and the
//! trace goes on wherever the envelope does.

use std::collections::BTreeSet;

use chancery_core::digest::hex;
use chancery_core::keys::ed25519::SigningKey;
use opentelemetry_proto::tonic::trace::v1::Span;
use opentelemetry_proto::tonic::trace::v1::span::SpanKind;
use serde_json::{Value, json};

use crate::agh_house::until;
use crate::collector::{Collected, Collector, header, number, text};
use crate::reserved::Reserved;
use crate::served::{HOSTED, SENDER, Served, share, trusted, world};
use crate::support::Place;

const TRACE: &str = "4bf92f3577b34da6a3ce929d0e0e4736";
const CALLER: &str = "00f067aa0ba902b7";
/// The secret seed of a hosted agent.
const SEED: [u8; 32] = [0x52; 32];
const STAGES: [&str; 5] = ["decode", "authenticate", "decide", "commit", "deliver"];

fn parent(trace: &str, flags: &str) -> String {
    format!("00-{trace}-{CALLER}-{flags}")
}

fn bytes(text: &str) -> Vec<u8> {
    hex::decode(text).unwrap()
}

/// A node that tells this collector.
fn place(collector: &Collector) -> Place {
    let place = Place::for_dev_node().with("CHANCERY_OTLP_URL", &collector.url);
    let mut world = world();
    world["addresses"] = json!({SENDER: format!("{}/delivered", collector.url)});
    // Its messages leave signed.
    let key = SigningKey::from_seed(&SEED);
    let anchor = json!({"type": "agent", "keys": [trusted("k-01", &key)]});
    world["trust"]["trust_anchors"][HOSTED[0]] = anchor;
    world["secret_seeds_hex"] = json!({HOSTED[0]: hex::encode(&SEED)});
    place.write("world.json", world.to_string());
    let peer = |id: &str| format!("[[agh.peer]]\nid = \"{id}\"\nchannel = \"builders\"\n");
    place.write("chancery.toml", peer("ann") + &peer("bob"));
    place
}

/// All that the collector has when the node has stopped: what was left in the queue is flushed.
fn after(node: Served, collector: &Collector) -> Collected {
    node.stop_well();
    collector.collected()
}

/// The span of the envelope itself.
fn envelope<'s>(spans: &[&'s Span]) -> &'s Span {
    let mut found = spans.iter().filter(|span| span.name == "envelope");
    let (Some(span), None) = (found.next(), found.next()) else {
        panic!("one envelope: {spans:?}");
    };
    span
}

fn names(spans: &[&Span]) -> BTreeSet<String> {
    spans.iter().map(|span| span.name.clone()).collect()
}

#[test]
fn an_envelope_gives_a_span_a_stage_below_its_senders() {
    let collector = Collector::listen();
    let place = place(&collector).with("CHANCERY_OTLP_SAMPLE_ONE_IN", "1000000");
    let node = place.serve();
    let mut wire = node
        .wire()
        .with_header("traceparent", &parent(TRACE, "01"))
        .with_header("tracestate", "vendor=opaque");
    wire.share(&share(HOSTED[0]).bytes).unwrap().ok();
    let told = after(node, &collector);
    let spans = told.of_trace(&bytes(TRACE));
    let own = envelope(&spans);
    assert_eq!(own.parent_span_id, bytes(CALLER));
    assert_eq!(own.kind(), SpanKind::Server);
    assert_eq!(own.trace_state, "vendor=opaque");
    // Sampled, and its parent is of another process; those of the stages are not.
    assert_eq!(own.flags, 0x301);
    assert_eq!(
        text(&own.attributes, "chancery.protocol"),
        Some("value-context")
    );
    assert_eq!(text(&own.attributes, "chancery.verdict"), Some("accepted"));
    assert_eq!(text(&own.attributes, "chancery.reason"), Some("none"));
    let line = number(&own.attributes, "chancery.seq").unwrap();
    assert_eq!(usize::try_from(line).unwrap(), place.log_lines().len());
    let mut ended = own.start_time_unix_nano;
    for stage in STAGES {
        let of_stage: Vec<_> = spans.iter().filter(|span| span.name == stage).collect();
        let [span] = of_stage[..] else {
            panic!("one {stage}: {of_stage:?}");
        };
        assert_eq!(span.parent_span_id, own.span_id, "{stage}");
        assert_eq!(span.flags, 0x101, "{stage}");
        // One after the other, within the envelope's own.
        assert!(span.start_time_unix_nano >= ended, "{stage}");
        assert!(span.end_time_unix_nano >= span.start_time_unix_nano);
        ended = span.end_time_unix_nano;
    }
    assert!(own.end_time_unix_nano >= ended);
    assert_eq!(spans.len(), 1 + STAGES.len(), "{spans:?}");
    let ids: BTreeSet<_> = spans.iter().map(|span| &span.span_id).collect();
    assert_eq!(ids.len(), spans.len());
    for request in &told.requests {
        for of_resource in &request.resource_spans {
            let resource = of_resource.resource.as_ref().unwrap();
            assert_eq!(text(&resource.attributes, "service.name"), Some("chancery"));
            let version = text(&resource.attributes, "service.version");
            assert_eq!(version, Some(env!("CARGO_PKG_VERSION")));
            assert!(text(&resource.attributes, "service.instance.id").is_some());
        }
    }
}

#[test]
fn a_refused_envelope_tells_where_it_ended_and_whose_fault_it_is() {
    let collector = Collector::listen();
    let node = place(&collector).serve();
    let mut wire = node.wire().with_header("traceparent", &parent(TRACE, "01"));
    let mut forged: Value = serde_json::from_slice(&share(HOSTED[0]).bytes).unwrap();
    forged["timestamp"] = json!(forged["timestamp"].as_str().unwrap().replace('Z', "1Z"));
    let refused = wire.share(forged.to_string().as_bytes()).unwrap();
    assert_eq!(refused.status, 401);
    let told = after(node, &collector);
    let spans = told.of_trace(&bytes(TRACE));
    let own = envelope(&spans);
    assert_eq!(text(&own.attributes, "chancery.verdict"), Some("rejected"));
    assert_eq!(
        text(&own.attributes, "chancery.reason"),
        Some("signature_invalid")
    );
    assert_eq!(number(&own.attributes, "chancery.seq"), None);
    assert!(
        own.status.is_none(),
        "the sender's fault is none of this node's"
    );
    let expected = ["authenticate", "decode", "envelope"].map(str::to_owned);
    assert_eq!(names(&spans), BTreeSet::from(expected));
}

#[test]
fn callers_decide_about_their_traces_and_the_rest_is_sampled() {
    let collector = Collector::listen();
    let place = place(&collector).with("CHANCERY_OTLP_SAMPLE_ONE_IN", "2");
    let node = place.serve();
    // Not recorded by its caller: not recorded here.
    let mut wire = node.wire().with_header("traceparent", &parent(TRACE, "00"));
    wire.share(&share(HOSTED[0]).bytes).unwrap().ok();
    // No trace context at all, or none that is one: every second begins a trace of its own.
    let mut wire = node.wire().with_header("traceparent", "00-nonsense");
    for _ in 0..4 {
        wire.share(&share(HOSTED[0]).bytes).unwrap().ok();
    }
    let told = after(node, &collector);
    assert!(told.of_trace(&bytes(TRACE)).is_empty());
    let own: Vec<_> = told
        .spans()
        .filter(|span| span.name == "envelope")
        .collect();
    assert_eq!(own.len(), 2);
    assert_ne!(own[0].trace_id, own[1].trace_id);
    for span in own {
        assert!(span.parent_span_id.is_empty());
        assert_eq!(span.flags, 0x101);
        assert_eq!(told.of_trace(&span.trace_id).len(), 1 + STAGES.len());
    }
}

#[test]
fn a_trace_goes_on_with_what_is_delivered_elsewhere() {
    let collector = Collector::listen();
    let node = place(&collector).serve();
    let mut wire = node
        .wire()
        .with_header("traceparent", &parent(TRACE, "01"))
        .with_header("tracestate", "vendor=opaque");
    let send = json!({"sender": HOSTED[0], "recipient": SENDER, "type": "context_share", "payload": {
        "context": "⏰🌅|📍🏡", "constitution_ref": "creed://creed.space/family.safe.guide@1.2.0"}});
    wire.post("/send/value-context", send.to_string().as_bytes())
        .unwrap()
        .ok();
    until("it is delivered", || {
        let metrics = node.wire().get("/metrics").unwrap().text();
        metrics
            .contains("chancery_events_total{event=\"delivered\"} 1")
            .then_some(())
    });
    let told = after(node, &collector);
    let spans = told.of_trace(&bytes(TRACE));
    let own = envelope(&spans);
    let attempt = spans.iter().find(|span| span.name == "attempt").unwrap();
    assert_eq!(attempt.kind(), SpanKind::Client);
    assert_eq!(attempt.parent_span_id, own.span_id);
    assert_eq!(
        text(&attempt.attributes, "chancery.outcome"),
        Some("delivered")
    );
    let [(head, _)] = &told.delivered[..] else {
        panic!("one delivery");
    };
    let named = format!("00-{TRACE}-{}-01", hex::encode(&attempt.span_id));
    assert_eq!(header(head, "traceparent"), Some(&*named));
    assert_eq!(header(head, "tracestate"), Some("vendor=opaque"));
}

// AG-ENV-15, AG-EXT-1
#[test]
fn an_agh_envelope_names_its_trace_in_ext() {
    let collector = Collector::listen();
    let node = place(&collector).serve();
    let now = std::time::SystemTime::now()
        .duration_since(std::time::UNIX_EPOCH)
        .unwrap();
    let heard = json!({"protocol": "agh-network/v0", "id": "say-1", "kind": "say", "channel": "builders",
        "from": "carol", "to": null, "ts": now.as_secs(), "body": {"text": "hello"}, "proof": null,
        "ext": {"traceparent": parent(TRACE, "01"), "tracestate": "vendor=heard"}});
    let mut wire = node.wire();
    wire.post("/agh", heard.to_string().as_bytes())
        .unwrap()
        .ok();
    let other = TRACE.replace("4bf9", "1111");
    let mut wire = node
        .wire()
        .with_header("traceparent", &parent(&other, "01"))
        .with_header("tracestate", "vendor=told");
    let direct = json!({"kind": "direct", "channel": "builders", "from": "ann", "to": "bob",
        "interaction_id": "int-1", "body": {"text": "work"}});
    wire.post("/send/agh", direct.to_string().as_bytes())
        .unwrap()
        .ok();
    let say =
        json!({"kind": "say", "channel": "builders", "from": "ann", "body": {"text": "no state"}});
    let third = TRACE.replace("4bf9", "2222");
    let mut wire = node
        .wire()
        .with_header("traceparent", &parent(&third, "01"));
    wire.post("/send/agh", say.to_string().as_bytes())
        .unwrap()
        .ok();
    let inbox = wire.get("/inbox/agh/builders/bob?after=0").unwrap().ok();
    let entries = inbox["entries"].as_array().unwrap().clone();
    let told = after(node, &collector);
    let spans = told.of_trace(&bytes(TRACE));
    let heard = envelope(&spans);
    assert_eq!(heard.parent_span_id, bytes(CALLER));
    assert_eq!(heard.trace_state, "vendor=heard");
    let sent = envelope(&told.of_trace(&bytes(&other))).span_id.clone();
    let named = format!("00-{other}-{}-01", hex::encode(&sent));
    let of_work = entries
        .iter()
        .find(|entry| entry["envelope"]["interaction_id"] == "int-1");
    let ext = &of_work.unwrap()["envelope"]["ext"];
    assert_eq!(ext["traceparent"], json!(named));
    assert_eq!(ext["tracestate"], "vendor=told");
    // A place without such a state names none.
    let of_say = entries
        .iter()
        .find(|entry| entry["envelope"]["body"]["text"] == "no state");
    let ext = of_say.unwrap()["envelope"]["ext"].as_object().unwrap();
    assert_eq!(ext.keys().collect::<Vec<_>>(), ["traceparent"]);
}

// CH-NET-5
#[test]
fn a_call_of_a_tool_over_mcp_names_its_trace_in_meta() {
    let collector = Collector::listen();
    let node = place(&collector)
        .with("CHANCERY_OTLP_SAMPLE_ONE_IN", "1000000")
        .serve();
    let arguments =
        json!({"kind": "say", "channel": "builders", "from": "ann", "body": {"text": "hello"}});
    let call = |meta: Value| {
        let mut wire = node
            .wire()
            .with_header("accept", "application/json, text/event-stream")
            .with_header("mcp-protocol-version", "2025-11-25");
        let params = json!({"name": "send_agh", "arguments": arguments, "_meta": meta});
        let body = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params});
        let told = wire
            .post("/mcp/node", body.to_string().as_bytes())
            .unwrap()
            .ok();
        assert_eq!(told["result"]["isError"], false, "{told}");
    };
    // The first trace that begins here is the one in a million.
    call(json!({}));
    call(json!({"traceparent": parent(TRACE, "01"), "tracestate": "vendor=opaque"}));
    call(json!({"traceparent": 7}));
    let told = after(node, &collector);
    let spans = told.of_trace(&bytes(TRACE));
    let own = envelope(&spans);
    assert_eq!(own.parent_span_id, bytes(CALLER));
    assert_eq!(
        (own.flags, own.trace_state.as_str()),
        (0x301, "vendor=opaque")
    );
    assert_eq!(
        told.spans().filter(|span| span.name == "envelope").count(),
        2
    );
}

#[test]
fn a_collector_that_is_away_holds_nobody_up_and_losses_are_counted() {
    let collector = Collector::listen();
    let nobody = Reserved::new();
    let away = format!("http://{}", nobody.address());
    let node = place(&collector).with("CHANCERY_OTLP_URL", &away).serve();
    let mut wire = node.wire().with_header("traceparent", &parent(TRACE, "01"));
    wire.share(&share(HOSTED[0]).bytes).unwrap().ok();
    until("the spans are given up", || {
        let metrics = node.wire().get("/metrics").unwrap().text();
        let lost = format!(
            "chancery_spans_dropped_total{{why=\"export\"}} {}",
            1 + STAGES.len()
        );
        metrics.contains(&lost).then_some(())
    });
    node.stop_well();
}

/// How many spans the node counts as `counted`.
fn counted(node: &Served, counted: &str) -> usize {
    let metrics = node.wire().get("/metrics").unwrap().text();
    let name = format!("chancery_spans_{counted} ");
    let told = metrics.lines().find_map(|line| line.strip_prefix(&name));
    told.map_or(0, |count| count.parse().unwrap())
}

#[test]
fn a_collector_that_is_busy_is_asked_again_and_one_that_refuses_is_not() {
    // What OTLP says of the answers of a collector: 429 may be tried again, 500 may not.
    let other = TRACE.replace("4bf9", "1111");
    let (first, second) = (bytes(TRACE), bytes(&other));
    let collector = Collector::answering(&[(&first, &[429, 200]), (&second, &[500])]);
    let node = place(&collector).serve();
    let one = 1 + STAGES.len();
    for (trace, counter, why) in [
        (TRACE, "exported_total", "it is taken the second time"),
        (
            &other,
            "dropped_total{why=\"export\"}",
            "it is given up at once",
        ),
    ] {
        let mut wire = node.wire().with_header("traceparent", &parent(trace, "01"));
        wire.share(&share(HOSTED[0]).bytes).unwrap().ok();
        until(why, || (counted(&node, counter) == one).then_some(()));
    }
    let told = after(node, &collector);
    let first = told.requests_of(&first);
    assert_eq!(first[0], first[1], "the same once more");
    // On a busy machine a trace may be told in parts: none comes again.
    for requests in [&first[1..], &told.requests_of(&second)[..]] {
        for (place, request) in requests.iter().enumerate() {
            assert!(!requests[..place].contains(request), "{request:?}");
        }
    }
}

#[test]
fn an_address_that_is_none_is_refused_at_the_start() {
    // CH-CFG-1
    let place = Place::for_dev_node().with("CHANCERY_OTLP_URL", "collector:4318");
    let refused = place.run(&["serve"]).exits(2);
    assert!(refused.err.contains("otlp.url"), "{}", refused.err);
}
