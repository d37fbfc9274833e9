//! The turn loop: what drives it, what it may do, when it ends, what is told about it.

use chancery_agents::Outcome;
use chancery_agents::behaviour::Script;
use chancery_agents::memory::Memory;
use chancery_core::ids::is_uuid4;
use serde_json::{Value, json};

use crate::desk::{Desk, Outputs, answer, codes, keep, merchant, no_reply, offer, part};

/// VC-TURN-1: one envelope drives one turn, with one inference a step and at most one envelope out.
#[test]
fn one_envelope_drives_one_turn() {
    let agent = merchant("one", "m1");
    let desk = Desk::new(&[&agent]);
    let asked = desk.ask("s1");
    let before = desk.head();
    let outputs = [
        keep("rounds", &json!(1), "int", None),
        keep("rounds", &json!(2), "int", None),
        offer(&asked, &json!(12_500)),
        // Never asked for: the turn is over.
        offer(&asked, &json!(12_400)),
    ];
    let (record, _, seen) = desk.play(&agent, &outputs);
    assert_eq!(record.outcome, Outcome::Emitted);
    assert_eq!((seen.len(), record.inference_calls), (3, 3));
    assert_eq!(record.steps.len(), 3);
    assert_eq!(desk.head(), before + 1);
    let line = desk.last();
    assert_eq!(line["meta"]["origin"], "agent");
    assert_eq!(line["meta"]["principal"], "one");
    assert_eq!(line["meta"]["answers"], json!(desk.latest(&agent).seq));
    desk.assert_replays();
}

/// VC-TURN-2: the four decisions, each with its effect.
#[test]
fn each_decision_has_its_effect() {
    let mut agent = merchant("one", "m1");
    let dir = tempfile::tempdir().unwrap();
    let skill = dir.path().join("merchant/haggle");
    std::fs::create_dir_all(&skill).unwrap();
    let text = "---\nname: haggle\ndescription: How to haggle.\n---\nNever be first.\n";
    std::fs::write(skill.join("SKILL.md"), text).unwrap();
    agent.skills =
        chancery_agents::Skills::read(dir.path(), chancery_vibe::address::Side::Merchant).unwrap();
    let desk = Desk::new(&[&agent]);
    let asked = desk.ask("s1");
    let outputs = [
        json!({"decision": "load_skill", "skill": "haggle"}),
        keep("mood", &json!("calm"), "string", None),
        answer(&asked, "very quiet"),
    ];
    let (record, memory, seen) = desk.play(&agent, &outputs);
    // Before it is loaded an agent knows of it by its description alone.
    assert_eq!(part(&seen[0], "skills"), &json!([]));
    let told = part(&seen[0], "instructions").as_str().unwrap();
    assert!(told.contains("How to haggle."), "{told}");
    assert_eq!(part(&seen[1], "skills"), &json!([text]));
    assert_eq!(memory.text("mood"), Some("calm"));
    assert_eq!(record.outcome, Outcome::Emitted);
    let line = desk.last();
    assert_eq!(
        line["envelope"]["action"]["payload"]["answer"],
        "very quiet"
    );

    desk.ask("s1");
    let before = desk.head();
    let (record, ..) = desk.play(&agent, &[no_reply()]);
    assert_eq!(record.outcome, Outcome::NoReply);
    assert_eq!(record.outbound_msg_id, None);
    assert_eq!(desk.head(), before);
}

/// VC-TURN-3: what another participant says during a turn comes as a later turn, not into this one.
#[test]
fn what_others_say_comes_as_a_later_turn() {
    struct Interrupted<'d>(&'d Desk, Outputs);
    impl chancery_agents::behaviour::Infer for Interrupted<'_> {
        fn infer(&self, context: &chancery_agents::context::Context<'_>) -> String {
            if context.step == 1 {
                self.0.ask("s1");
            }
            self.1.infer(context)
        }
    }
    let agent = merchant("one", "m1");
    let desk = Desk::new(&[&agent]);
    let first = desk.ask("s1");
    let inbound = desk.latest(&agent);
    let outputs = Outputs::new(&[keep("a", &json!(1), "int", None), no_reply()]);
    let interrupted = Interrupted(&desk, outputs);
    let (record, _) = desk.turn(&agent, &inbound, Memory::default(), &interrupted);
    assert_eq!(record.inbound_msg_id, first);
    let seen = interrupted.1.seen.into_inner().unwrap();
    let second = desk.latest(&agent);
    assert_ne!(second.msg_id, first);
    assert_eq!(part(&seen[1], "inbound")["msg_id"], json!(first));
    assert!(!seen[1].to_string().contains(&second.msg_id));
    let (record, _, seen) = desk.play(&agent, &[no_reply()]);
    assert_eq!(record.inbound_msg_id, second.msg_id);
    assert_eq!(part(&seen[0], "inbound")["msg_id"], json!(second.msg_id));
}

/// VC-TURN-4: the runtime supplies protocol, version, identifier, time, sender and session; a decision that brings its
/// own, or lacks a member, is none.
#[test]
fn the_runtime_supplies_the_rest_of_an_envelope() {
    let agent = merchant("one", "m1");
    let desk = Desk::new(&[&agent]);
    let asked = desk.ask("s1");
    let with = |name: &str, value: Value| {
        let mut decision = answer(&asked, "yes");
        decision[name] = value;
        decision
    };
    let without = |decision: &Value, name: &str| {
        let mut decision = decision.clone();
        decision.as_object_mut().unwrap().remove(name);
        decision
    };
    let update = keep("a", &json!(1), "int", None);
    let outputs = [
        with("from", json!("merchant:owner")),
        with("session_id", json!("s2")),
        without(&answer(&asked, "yes"), "action"),
        without(&update, "type"),
        json!({"decision": "sleep"}),
        json!({"decision": "no_reply"}),
        answer(&asked, "yes"),
    ];
    let (record, ..) = desk.play(&agent, &outputs);
    let undecodable = Some("undecodable_decision");
    let wanted = [[undecodable; 6].as_slice(), &[None]].concat();
    assert_eq!(codes(&record), wanted);
    let envelope = &desk.last()["envelope"];
    assert_eq!(envelope["protocol"], "vcp");
    assert_eq!(envelope["version"], "1.0");
    assert_eq!(envelope["from"], "merchant");
    assert_eq!(envelope["session_id"], "s1");
    assert_eq!(envelope["ts"], "2026-05-15T12:00:00Z");
    let msg_id = envelope["msg_id"].as_str().unwrap();
    assert!(is_uuid4(msg_id));
    assert_eq!(record.outbound_msg_id.as_deref(), Some(msg_id));
}

/// VC-TURN-5: eight steps, then the turn ends silently; nine memory updates are one too many.
#[test]
fn a_turn_ends_after_eight_steps() {
    let agent = merchant("one", "m1");
    let desk = Desk::new(&[&agent]);
    desk.ask("s1");
    let before = desk.head();
    let update = |n: i32| keep(&format!("k{n}"), &json!(n), "int", None);
    let nine: Vec<Value> = (1..=9).map(update).collect();
    let (record, memory, _) = desk.play(&agent, &nine);
    assert_eq!(record.outcome, Outcome::BudgetExhausted);
    assert_eq!(record.inference_calls, 8);
    assert_eq!(memory.amount("k8"), Some(8));
    assert_eq!(memory.get("k9"), None);
    assert_eq!(desk.head(), before);

    let mut short = merchant("one", "m1");
    short.budget.steps = 2;
    let (record, ..) = desk.play(&short, &nine);
    assert_eq!(record.inference_calls, 2);
}

/// VC-TURN-8: after an emit the rest of the output is ignored; two envelopes in one output make it undecodable.
#[test]
fn an_output_speaks_once() {
    let agent = merchant("one", "m1");
    let desk = Desk::new(&[&agent]);
    let asked = desk.ask("s1");
    let before = desk.head();
    let twice = json!([
        keep("half", &json!(1), "int", None),
        answer(&asked, "one"),
        answer(&asked, "two"),
    ]);
    let once = json!([
        answer(&asked, "only this"),
        keep("late", &json!(1), "int", None),
        no_reply(),
    ]);
    let (record, memory, _) = desk.play(&agent, &[twice, once]);
    assert_eq!(codes(&record), [Some("undecodable_decision"), None]);
    // Nothing of an output that is refused as a whole happens, and nothing of what follows an emit.
    assert!(memory.is_empty());
    assert_eq!(record.steps[1].decisions, ["emit_envelope"]);
    assert_eq!(desk.head(), before + 1);
    let payload = &desk.last()["envelope"]["action"]["payload"];
    assert_eq!(payload["answer"], "only this");
}

/// VC-TURN-11: a script is inference; the same envelope gives the same outputs, and replay needs none of it.
#[test]
fn a_script_is_inference_and_replay_needs_none() {
    let agent = merchant("one", "m1");
    let desk = Desk::new(&[&agent]);
    let asked = desk.ask("s1");
    let script = json!({"turns": [
        {"when": {"action.kind": "commerce.accept_offer"}, "outputs": ["not JSON at all"]},
        {"when": {"action.kind": "commerce.request_offer"}, "outputs": [
            {"decision": "memory_update", "key": "asked", "value": "$inbound.msg_id", "type": "string"},
            {"decision": "emit_envelope", "to": "$inbound.from", "in_reply_to": "$inbound.msg_id",
             "idempotency_key": "$turn", "action": {"kind": "commerce.propose_offer", "payload": {
                "offer_id": "$turn", "merchant_id": "$inbound.action.payload.merchant_id", "sku_id": "sku",
                "qty": 1, "unit_price": 12_000, "fulfillment": {"method": "courier", "eta_days": 1},
                "claims": [], "expires_at": "2026-05-15T13:00:00Z"}}}]},
    ]});
    let script = Script::parse(script.to_string().as_bytes()).unwrap();
    let inbound = desk.latest(&agent);
    let (record, memory) = desk.turn(&agent, &inbound, Memory::default(), &script);
    assert_eq!(record.outcome, Outcome::Emitted);
    assert_eq!(memory.text("asked"), Some(asked.as_str()));
    assert_eq!(
        desk.last()["envelope"]["action"]["payload"]["unit_price"],
        12_000
    );
    // The log alone gives every line again; no behaviour is at hand there.
    desk.assert_replays();
    for wrong in ["", "{}", "{\"turns\": [{\"outputs\": 1}]}", "\"text\""] {
        assert!(Script::parse(wrong.as_bytes()).is_err(), "{wrong}");
    }
}

/// VC-TURN-12: the record of a turn, member by member.
#[test]
fn a_turn_leaves_a_record() {
    let agent = merchant("one", "m1");
    let desk = Desk::new(&[&agent]);
    let asked = desk.ask("s1");
    let outputs = [
        json!("?"),
        json!([keep("a", &json!(1), "int", None), answer(&asked, "yes")]),
    ];
    let (record, ..) = desk.play(&agent, &outputs);
    let outbound = desk.last()["envelope"]["msg_id"].clone();
    let told = serde_json::to_value(&record).unwrap();
    let wanted = json!({
        "turn_id": record.turn_id,
        "agent": "one",
        "inbound_msg_id": asked,
        "session_id": "s1",
        "steps": [
            {"decisions": [], "code": "undecodable_decision"},
            {"decisions": ["memory_update", "emit_envelope"], "code": null},
        ],
        "inference_calls": 2,
        "outcome": "emitted",
        "outbound_msg_id": outbound,
        "usage": {"prompt_tokens": 0, "completion_tokens": 0, "micros": 0},
    });
    assert_eq!(told, wanted);
    assert!(is_uuid4(&record.turn_id));
    let log = desk.lines().concat();
    let log = String::from_utf8_lossy(&log);
    assert!(!log.contains(&record.turn_id), "a record is not on the log");
}
