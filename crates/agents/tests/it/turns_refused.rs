//! What an agent does wrong stays with the agent.

use chancery_agents::Outcome;
use serde_json::{Value, json};

use crate::desk::{
    BUDGET, Desk, FLOOR, answer, buyer, codes, keep, merchant, no_reply, offer, part,
};

/// VC-TURN-6: each fault is a step, and the next step's observation; nothing of it reaches the log.
#[test]
fn a_fault_is_a_step_and_an_observation() {
    let agent = merchant("one", "m1");
    let desk = Desk::new(&[&agent]);
    let asked = desk.ask("s1");
    let before = desk.head();
    let outputs = [
        json!("I think we should answer."),
        json!({"decision": "load_skill", "skill": "unheard-of"}),
        keep("price", &json!("12"), "int", None),
        answer(&asked, &format!("we never go below {FLOOR}")),
        answer(&asked, "we have our limits"),
    ];
    let (record, _, seen) = desk.play(&agent, &outputs);
    let wanted = [
        Some("undecodable_decision"),
        Some("unknown_skill"),
        Some("memory_type"),
        Some("private_utility_leak"),
        None,
    ];
    assert_eq!(codes(&record), wanted);
    assert_eq!(record.outcome, Outcome::Emitted);
    assert_eq!(record.inference_calls, 5);
    assert_eq!(part(&seen[0], "observations"), &json!([]));
    let told = part(&seen[4], "observations");
    let wanted = json!([
        {"step": 1, "code": "undecodable_decision"},
        {"step": 2, "code": "unknown_skill"},
        {"step": 3, "code": "memory_type"},
        {"step": 4, "code": "private_utility_leak", "at": "$.action.payload.answer"},
    ]);
    assert_eq!(told, &wanted);
    assert_eq!(desk.head(), before + 1);
    let payload = &desk.last()["envelope"]["action"]["payload"];
    assert_eq!(payload["answer"], "we have our limits");
}

/// VC-TURN-6: a type-wrong value in each type, and a private value that is no amount.
#[test]
fn memory_takes_what_it_is_said_to_be() {
    let agent = merchant("one", "m1");
    let desk = Desk::new(&[&agent]);
    desk.ask("s1");
    let wrong = [
        ("int", json!("1"), None),
        ("int", json!(1.5), None),
        ("int", json!(9_007_199_254_740_993_i64), None),
        ("string", json!(1), None),
        ("bool", json!(0), None),
        ("string", json!("12"), Some("PRIVATE_UTILITY")),
        ("int", json!(-1), Some("PRIVATE_UTILITY")),
    ];
    for (kind, value, tag) in wrong {
        let outputs = [keep("k", &value, kind, tag), no_reply()];
        let (record, memory, _) = desk.play(&agent, &outputs);
        assert_eq!(
            codes(&record),
            [Some("memory_type"), None],
            "{kind} {value}"
        );
        assert!(memory.is_empty());
    }
    let right = [
        ("int", json!(-1)),
        ("string", json!("1")),
        ("bool", json!(false)),
        ("json", json!({"a": [null, 1.5]})),
    ];
    for (kind, value) in right {
        let (record, memory, _) = desk.play(&agent, &[keep("k", &value, kind, None), no_reply()]);
        assert_eq!(codes(&record), [None, None]);
        assert_eq!(memory.get("k"), Some(&value));
    }
    // What an agent may keep has a bound.
    let long = "x".repeat(40_000);
    let outputs = [
        keep("a", &json!(long), "string", None),
        keep("b", &json!(long), "string", None),
        no_reply(),
    ];
    let (record, ..) = desk.play(&agent, &outputs);
    assert_eq!(codes(&record), [None, Some("memory_full"), None]);
}

/// An offer of which one member is another.
fn changed(asked: &str, path: &[&str], value: Value) -> Value {
    let mut decision = offer(asked, &json!(12_500));
    let mut place = &mut decision;
    for name in path {
        place = &mut place[name];
    }
    *place = value;
    decision
}

/// A decision for each step of the pipeline that fails there, with the code.
fn failing(asked: &str) -> Vec<(u32, &'static str, Value)> {
    let with = |path: &[&str], value: Value| changed(asked, path, value);
    let payload = |name: &str, value: Value| changed(asked, &["action", "payload", name], value);
    let late = json!("2026-05-15T11:00:00Z");
    vec![
        (
            3,
            "idempotency_key_too_long",
            with(&["idempotency_key"], json!("k".repeat(256))),
        ),
        (
            3,
            "malformed_envelope",
            with(&["action", "payload"], json!([])),
        ),
        (4, "invalid_address", with(&["to"], json!("seller:pricing"))),
        (4, "reserved_address", with(&["to"], json!("*"))),
        (
            7,
            "unknown_action",
            with(&["action", "kind"], json!("commerce.haggle")),
        ),
        (8, "partition_denied", with(&["to"], json!("platform:psp"))),
        (
            8,
            "partition_denied",
            with(&["action", "kind"], json!("platform.rank_offers")),
        ),
        (
            9,
            "idempotency_key_required",
            with(&["idempotency_key"], json!(null)),
        ),
        (12, "malformed_payload", payload("qty", json!(0))),
        (
            12,
            "money_not_integer",
            payload("unit_price", json!(12_500.5)),
        ),
        (
            13,
            "private_utility_leak",
            payload("unit_price", json!(FLOOR)),
        ),
        (
            14,
            "in_reply_to_not_found",
            with(&["in_reply_to"], json!("unheard-of")),
        ),
        (14, "identity_mismatch", payload("merchant_id", json!("m2"))),
        (
            15,
            "offer_outside_mandate",
            payload("unit_price", json!(FLOOR - 1)),
        ),
        (15, "offer_expired", payload("expires_at", late)),
    ]
}

/// VC-TURN-7: pipeline steps 3, 4, 7 to 9, 12, 13 and 15, each with an envelope that fails there, by the agent's own
/// rules and before the gate sees it.
#[test]
fn outbound_checks_are_the_pipeline() {
    let agent = merchant("one", "m1");
    let desk = Desk::new(&[&agent]);
    let asked = desk.ask("s1");
    let before = desk.head();
    for (step, code, decision) in failing(&asked) {
        let record = desk.play_unsent(&agent, &[decision, no_reply()]);
        assert_eq!(codes(&record), [Some(code), None], "step {step}");
    }
    assert_eq!(desk.head(), before);
    // A money literal is judged as it is written (VC-MON-3), so an output is not normalized on its way.
    let written = offer(&asked, &json!(12_500)).to_string();
    let float = written.replace("\"unit_price\":12500", "\"unit_price\":12500.0");
    assert_ne!(written, float);
    let record = desk.play_unsent(&agent, &[json!(float), no_reply()]);
    assert_eq!(codes(&record), [Some("money_not_integer"), None]);
}

/// VC-TURN-7: the checks do not replace the router's; what the gate refuses is an observation too.
#[test]
fn the_gate_has_the_last_word() {
    let agent = merchant("one", "m1");
    let desk = Desk::new(&[&agent]);
    let asked = desk.ask("s1");
    let inbound = desk.latest(&agent);
    // The agent's record changes between the check and the gate: the snapshot cannot know.
    let outputs = crate::desk::Outputs::new(&[answer(&asked, "yes"), no_reply()]);
    let turn = chancery_agents::Turn::new(
        std::sync::Arc::new(agent.clone()),
        inbound,
        chancery_agents::Memory::default(),
    );
    let refusal = chancery_vibe::code::Code::IdentityMismatch.refuse();
    let (record, _) = chancery_agents::host::with_snapshot(&desk.office, &agent, |snapshot| {
        chancery_agents::run(turn, &outputs, snapshot, |_| Err(refusal.clone()))
    });
    assert_eq!(codes(&record), [Some("identity_mismatch"), None]);
    assert_eq!(record.outcome, Outcome::NoReply);
    assert_eq!(record.outbound_msg_id, None);
}

/// VC-PRIV-3, VC-PRIV-6, VC-PRIV-7, CH-JRN-11: values that an agent tagged in its memory are checked before anything
/// leaves, in every form of the guard, beside those that the log knows.
#[test]
fn no_form_of_a_private_value_leaves() {
    let agent = buyer("ada", "c1");
    let desk = Desk::new(&[&agent]);
    // 43,210 is the agent's own secret, the budget what its mandate says.
    let secret = keep("walk_away", &json!(43_210), "int", Some("PRIVATE_UTILITY"));
    let search = |payload: &Value| {
        json!({"decision": "emit_envelope", "to": "platform:aggregator", "in_reply_to": null,
               "idempotency_key": null, "action": {"kind": "commerce.search", "payload": payload}})
    };
    let before = desk.head();
    for (value, whole, grouped) in [
        (43_210_u64, "432.10", "43,210"),
        (BUDGET, "115.00", "11_500"),
    ] {
        let texts = [
            value.to_string(),
            whole.to_owned(),
            grouped.to_owned(),
            grouped.replace([',', '_'], "\u{202f}"),
            grouped.replace([',', '_'], "'"),
            format!("up to {value}."),
            format!("USD{value}"),
            // NFKC folds full-width digits.
            value
                .to_string()
                .chars()
                .map(|c| char::from_u32(u32::from(c) + 0xfee0).unwrap())
                .collect(),
        ];
        for text in texts {
            let payload = json!({"query": format!("keyboard {text}")});
            let outputs = [secret.clone(), search(&payload), no_reply()];
            let record = desk.play_unsent(&agent, &outputs);
            assert_eq!(codes(&record)[1], Some("private_utility_leak"), "{text}");
        }
        let numbers = [
            json!({"query": "q", "constraints": {"max_price": value}}),
            json!({"query": "q", "x": {"y": [value]}}),
            json!({"query": "q", value.to_string(): 1}),
        ];
        for payload in numbers {
            let outputs = [secret.clone(), search(&payload), no_reply()];
            let record = desk.play_unsent(&agent, &outputs);
            assert_eq!(codes(&record)[1], Some("private_utility_leak"), "{payload}");
        }
        for token in [format!("{value}.0"), format!("{value}e0"), whole.to_owned()] {
            let text = search(&json!({"query": "q", "x": 1})).to_string();
            let text = text.replace("\"x\":1", &format!("\"x\":{token}"));
            let record = desk.play_unsent(&agent, &[secret.clone(), json!(text), no_reply()]);
            assert_eq!(codes(&record)[1], Some("private_utility_leak"), "{token}");
        }
    }
    assert_eq!(desk.head(), before);
    let (record, ..) = desk.play(
        &agent,
        &[secret, search(&json!({"query": "keyboard 43211"}))],
    );
    assert_eq!(record.outcome, Outcome::Emitted);
}
