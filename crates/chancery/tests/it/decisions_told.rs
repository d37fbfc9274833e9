//! What becomes of an envelope is counted and told in the process's log, for every protocol: once, with its reason, and
//! without anything that it says.

use serde_json::{Value, json};

use crate::market::{envelope, world};
use crate::served::{HOSTED, SENDER, Served, share};
use crate::support::Place;
use crate::wire::Wire;

/// What an accepted and a refused text say: no line may hold it.
const SAID: &str = "canary-of-what-was-said";

/// A node that serves all four protocols and tells decisions.
pub fn place() -> Place {
    let place = Place::for_dev_node()
        .with("CHANCERY_LOG", "warn,chancery::decision=info")
        .with("NO_COLOR", "1");
    for key in ["bob.key", "ada.key"] {
        place.run(&["vacant", "init", key]).exits(0);
    }
    place.write("goods.json", world().to_string());
    place.write(
        "chancery.toml",
        "[vibe]\nworld = \"goods.json\"\n\
         [[vacant.agent]]\nname = \"bob\"\nseed = \"bob.key\"\nstate = \"ACTIVE\"\n\
         capability = \"echoes what it hears\"\nbehaviour = \"echo\"\n\
         [[agh.peer]]\nid = \"ann\"\nchannel = \"builders\"\n\
         [[agh.peer]]\nid = \"bob\"\nchannel = \"builders\"\n",
    );
    place
}

/// How often the node counted this.
fn count(wire: &mut Wire, protocol: &str, verdict: &str, reason: &str) -> u64 {
    let metrics = wire.get("/metrics").unwrap().text();
    let labels = format!("{{protocol=\"{protocol}\",verdict=\"{verdict}\",reason=\"{reason}\"}} ");
    let name = format!("chancery_envelopes_total{labels}");
    let told = metrics.lines().find_map(|line| line.strip_prefix(&name));
    told.map_or(0, |count| count.parse().unwrap())
}

fn post(wire: &mut Wire, path: &str, body: &Value) -> u16 {
    wire.post(path, body.to_string().as_bytes()).unwrap().status
}

fn value_context(wire: &mut Wire) {
    let share = share(HOSTED[0]);
    for _ in ["accepted", "duplicate"] {
        assert_eq!(wire.share(&share.bytes).unwrap().status, 200);
    }
    let mut forged: Value = serde_json::from_slice(&share.bytes).unwrap();
    forged["timestamp"] = json!(forged["timestamp"].as_str().unwrap().replace('Z', "1Z"));
    assert_eq!(
        wire.share(forged.to_string().as_bytes()).unwrap().status,
        401
    );
    assert_eq!(wire.share(b"{").unwrap().status, 400);
    let sent = json!({"sender": HOSTED[0], "recipient": HOSTED[1], "type": "context_share", "payload": {
        "context": "⏰🌅|📍🏡", "constitution_ref": "creed://creed.space/family.safe.guide@1.2.0"}});
    assert_eq!(post(wire, "/send/value-context", &sent), 200);
}

/// A goal as a caller has it: the node adds identifier and time.
pub fn goal() -> Value {
    let mut goal = envelope(
        "shop",
        "goal",
        "merchant:owner",
        "merchant:pricing",
        "delegate.set_business_goal",
        json!({
            "offer_mandate_id": "om_1", "merchant_id": "m_keys", "goal": SAID, "skus": ["sku_quiet"],
            "pricing": {"list_price": 12_900, "floor_price": 8_317, "floor_currency": "USD"},
            "permitted_claims": [], "fulfillment": {"methods": ["courier"]},
        }),
    );
    for made in ["msg_id", "ts"] {
        goal.as_object_mut().unwrap().remove(made);
    }
    goal
}

fn vibe(wire: &mut Wire) {
    let goal = goal();
    for _ in ["accepted", "duplicate"] {
        assert_eq!(post(wire, "/send/vibe", &goal), 200);
    }
    let mut unknown = goal.clone();
    unknown["idempotency_key"] = json!("another");
    unknown["action"] = json!({"kind": "commerce.haggle", "payload": {"words": SAID}});
    assert_eq!(post(wire, "/send/vibe", &unknown), 400);
}

fn vacant(place: &Place, node: &Served, wire: &mut Wire) {
    let url = format!("http://{}", node.address);
    let call = ["vacant", "call", &url, "--key", "ada.key", "--text", SAID];
    place.run(&call).exits(0);
    assert_eq!(post(wire, "/a2a/message/send", &json!({"text": SAID})), 400);
}

fn agh(wire: &mut Wire) {
    let body = json!({"text": SAID});
    let direct = json!({"kind": "direct", "channel": "builders", "from": "ann", "to": "bob",
        "interaction_id": "int-1", "body": body});
    assert_eq!(post(wire, "/send/agh", &direct), 200);
    let mut strange = direct;
    strange["kind"] = json!("shout");
    assert_eq!(post(wire, "/send/agh", &strange), 400);
    assert_eq!(post(wire, "/agh", &json!([SAID])), 400);
}

/// The fields of a line that tells a decision.
fn fields(line: &str) -> Vec<(String, String)> {
    let (_, told) = line.split_once("chancery::decision: ").unwrap();
    let fields = told.split(' ').filter_map(|field| field.split_once('='));
    let bare = |text: &str| text.trim_matches('"').to_owned();
    fields
        .map(|(name, value)| (bare(name), bare(value)))
        .collect()
}

fn field<'f>(fields: &'f [(String, String)], name: &str) -> Option<&'f str> {
    let found = fields.iter().find(|(known, _)| known == name);
    found.map(|(_, value)| value.as_str())
}

// AG-OBS-1, AG-OBS-2, CH-ID-3, CH-JRN-11
#[test]
fn every_envelope_is_counted_and_told_once() {
    let place = place();
    let node = place.serve();
    let mut wire = node.wire();
    value_context(&mut wire);
    vibe(&mut wire);
    vacant(&place, &node, &mut wire);
    agh(&mut wire);
    // A vacant's answer is an envelope as well.
    let expected = [
        ("value-context", "accepted", "none", 2),
        ("value-context", "duplicate", "none", 1),
        ("value-context", "rejected", "signature_invalid", 1),
        ("value-context", "rejected", "malformed_json", 1),
        ("vibe", "accepted", "none", 1),
        ("vibe", "duplicate", "none", 1),
        ("vibe", "rejected", "unknown_action", 1),
        ("vacant", "accepted", "none", 2),
        ("vacant", "rejected", "ENVELOPE_FORMAT", 1),
        ("agh", "accepted", "none", 1),
        ("agh", "rejected", "unsupported_kind", 1),
        ("agh", "rejected", "not_object", 1),
    ];
    for (protocol, verdict, reason, times) in expected {
        let counted = count(&mut wire, protocol, verdict, reason);
        assert_eq!(counted, times, "{protocol} {verdict} {reason}");
    }
    node.stop_well();
    let log = place.read("stderr.log");
    let decisions: Vec<_> = log
        .lines()
        .filter(|line| line.contains("chancery::decision"))
        .map(fields)
        .collect();
    for (protocol, verdict, reason, times) in expected {
        let is_it = |fields: &&Vec<(String, String)>| {
            field(fields, "protocol") == Some(protocol)
                && field(fields, "verdict") == Some(verdict)
                && field(fields, "reason") == Some(reason)
        };
        let told: Vec<_> = decisions.iter().filter(is_it).collect();
        assert_eq!(
            told.len() as u64,
            times,
            "{protocol} {verdict} {reason}: {log}"
        );
        for fields in told {
            assert!(field(fields, "micros").unwrap().parse::<u64>().is_ok());
            let has_line = field(fields, "seq").is_some_and(|seq| seq.parse::<u64>().is_ok());
            assert_eq!(has_line, verdict == "accepted", "{fields:?}");
            if verdict == "accepted" {
                assert!(field(fields, "sender").is_some(), "{fields:?}");
            }
        }
    }
    assert_eq!(
        decisions.len() as u64,
        expected.iter().map(|told| told.3).sum::<u64>()
    );
    // Nothing of what was said, and value-context names hashed only.
    for secret in [SAID, SENDER, HOSTED[0]] {
        assert!(!log.contains(secret), "{secret}: {log}");
    }
    assert!(log.contains("sender=\"sha256:"), "{log}");
}

#[test]
fn nothing_is_told_unless_it_is_asked_for() {
    let place = Place::for_dev_node();
    let node = place.serve();
    assert_eq!(
        node.wire().share(&share(HOSTED[0]).bytes).unwrap().status,
        200
    );
    node.stop_well();
    assert!(!place.read("stderr.log").contains("chancery::decision"));
}
