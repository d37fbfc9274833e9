//! What crosses the bridge between the revisions, and in which words (AG-B-46).

use chancery_agh::bridge::{Crossing, OtherSide};
use chancery_agh::conversation::direct_id;
use chancery_agh::fault::Reason;
use chancery_agh::revision::Revision;
use chancery_agh::settings::Bridge;
use serde_json::{Value, json};

const FERRY: &str = "ferry.bridge";

fn bridge() -> Bridge {
    Bridge {
        peer: FERRY.to_owned(),
        channel_a: "builders".to_owned(),
        workspace_id: "ws_alpha".to_owned(),
        channel_b: "makers".to_owned(),
    }
}

fn over(crossing: Crossing) -> Value {
    match crossing {
        Crossing::Over(body) => body,
        other => panic!("{other:?}"),
    }
}

fn of_a(members: Value) -> Value {
    let mut envelope = json!({"id": "m1", "channel": "builders", "from": "alice.a", "ts": 1});
    for (name, value) in members.as_object().unwrap() {
        envelope[name] = value.clone();
    }
    envelope
}

fn of_b(members: Value) -> Value {
    let mut envelope = of_a(members);
    envelope["workspace_id"] = json!("ws_alpha");
    envelope["channel"] = json!("makers");
    envelope["from"] = json!("bob.b");
    envelope
}

// AG-B-46
#[test]
fn what_is_said_to_everybody_crosses_both_ways() {
    let said =
        of_a(json!({"kind": "say", "body": {"text": "hi"}, "trace_id": "t", "proof": {"x": 1}}));
    let crossed = over(bridge().across(&said, Revision::A, None));
    let expected = json!({
        "kind": "say", "from": FERRY, "id": "bridge.m1", "causation_id": "m1", "trace_id": "t",
        "workspace_id": "ws_alpha", "channel": "makers", "surface": "thread",
        "thread_id": "thread_legacy_builders", "body": {"text": "hi"}, "ext": {"agh.bridged": "alice.a"},
    });
    assert_eq!(crossed, expected);
    let said = of_b(json!({
        "kind": "say", "surface": "thread", "thread_id": "thread_abc", "body": {"text": "hi"},
    }));
    let crossed = over(bridge().across(&said, Revision::B, None));
    let expected = json!({
        "kind": "say", "from": FERRY, "id": "bridge.m1", "causation_id": "m1", "channel": "builders",
        "body": {"text": "hi"}, "ext": {"agh.bridged": "bob.b"},
    });
    assert_eq!(crossed, expected);
}

// AG-B-46
#[test]
fn nothing_crosses_twice() {
    let said = of_a(json!({"kind": "say", "body": {"text": "hi"}}));
    let mut crossed = over(bridge().across(&said, Revision::A, None));
    crossed["from"] = json!("another.bridge");
    assert_eq!(
        bridge().across(&crossed, Revision::B, None),
        Crossing::Stays
    );
    for kind in ["greet", "whois"] {
        let soft = of_a(json!({"kind": kind, "body": {}}));
        assert_eq!(bridge().across(&soft, Revision::A, None), Crossing::Stays);
    }
    // Chat with the bridge itself has nowhere to go.
    let chat =
        of_b(json!({"kind": "say", "to": FERRY, "surface": "direct", "body": {"text": "hi"}}));
    assert_eq!(bridge().across(&chat, Revision::B, None), Crossing::Stays);
}

// AG-B-46, AG-B-7, AG-B-8
#[test]
fn work_keeps_its_name_or_is_renamed_and_says_so() {
    let ask = |interaction: &str| {
        of_a(json!({
            "kind": "direct", "to": FERRY, "interaction_id": interaction, "body": {"text": "do"},
            "ext": {"agh.bridge_to": "bob.b", "acme.x": 1},
        }))
    };
    let crossed = over(bridge().across(&ask("work_1"), Revision::A, None));
    assert_eq!(crossed["kind"], "say");
    assert_eq!(crossed["to"], "bob.b");
    assert_eq!(crossed["work_id"], "work_1");
    assert_eq!(crossed["surface"], "direct");
    let room = direct_id("ws_alpha", "makers", FERRY, "bob.b").unwrap();
    assert_eq!(crossed["direct_id"], room);
    assert_eq!(
        crossed["ext"],
        json!({"agh.bridged": "alice.a", "acme.x": 1})
    );
    // `work_` and the first half of SHA-256 over "builders", NUL, "int 1": from sha256sum.
    let crossed = over(bridge().across(&ask("int 1"), Revision::A, None));
    assert_eq!(crossed["work_id"], "work_4a37e814aa21f1d77b4f46a64ca2b878");
    assert_eq!(crossed["ext"]["agh.legacy_interaction_id"], "int 1");
    // Work for nobody is refused where it came from.
    let mut lost = ask("work_1");
    lost["ext"] = json!({});
    assert_eq!(bridge().across(&lost, Revision::A, None), Crossing::Nobody);
    let receipt = bridge().refusal(&lost, Revision::A, Reason::NotFound);
    assert_eq!(
        receipt["body"],
        json!({"for_id": "m1", "status": "rejected", "reason_code": "not_found"})
    );
    assert_eq!(
        (&receipt["to"], &receipt["interaction_id"]),
        (&json!("alice.a"), &json!("work_1"))
    );
}

// AG-B-46, AG-B-21
#[test]
fn reports_find_their_way_back_in_the_words_of_the_side() {
    let known = OtherSide {
        work: "int 1".to_owned(),
        peer: "alice.a".to_owned(),
        container: None,
    };
    let done = of_b(json!({
        "kind": "receipt", "to": FERRY, "work_id": "work_x", "surface": "direct", "direct_id": "d",
        "reply_to": "bridge.m1",
        "body": {"for_id": "bridge.m1", "status": "rejected", "reason_code": "work_closed"},
    }));
    let crossed = over(bridge().across(&done, Revision::B, Some(&known)));
    assert_eq!(
        (&crossed["to"], &crossed["interaction_id"]),
        (&json!("alice.a"), &json!("int 1"))
    );
    assert_eq!(crossed["reply_to"], "m1");
    assert_eq!(crossed["body"]["for_id"], "m1");
    assert_eq!(crossed["body"]["reason_code"], "interaction_closed");
    assert!(crossed.get("surface").is_none() && crossed.get("workspace_id").is_none());
    // The other way, into the thread that the work was opened in.
    let known = OtherSide {
        work: "work_7".to_owned(),
        peer: "bob.b".to_owned(),
        container: Some("thread_abc".to_owned()),
    };
    let done = of_a(json!({
        "kind": "receipt", "to": FERRY, "interaction_id": "work_7",
        "body": {"for_id": "bridge.b7", "status": "rejected", "reason_code": "interaction_closed"},
    }));
    let crossed = over(bridge().across(&done, Revision::A, Some(&known)));
    assert_eq!(
        (&crossed["surface"], &crossed["thread_id"]),
        (&json!("thread"), &json!("thread_abc"))
    );
    assert_eq!(
        (&crossed["to"], &crossed["work_id"]),
        (&json!("bob.b"), &json!("work_7"))
    );
    assert_eq!(crossed["body"]["reason_code"], "work_closed");
    // A thread's work becomes a `direct`; without work it would be talk in public.
    let ask = of_b(json!({
        "kind": "say", "to": FERRY, "work_id": "work_7", "surface": "thread", "thread_id": "thread_abc",
        "body": {"text": "do"}, "ext": {"agh.bridge_to": "alice.a"},
    }));
    let crossed = over(bridge().across(&ask, Revision::B, None));
    assert_eq!(
        (&crossed["kind"], &crossed["interaction_id"]),
        (&json!("direct"), &json!("work_7"))
    );
    // A report about work that is not there tells nobody anything.
    let trace = of_a(
        json!({"kind": "trace", "to": FERRY, "interaction_id": "?", "body": {"state": "working"}}),
    );
    assert_eq!(bridge().across(&trace, Revision::A, None), Crossing::Stays);
}
