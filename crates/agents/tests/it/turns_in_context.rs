//! What an agent is shown, and what stays its own.

use chancery_agents::memory::Memory;
use chancery_agents::{Outcome, Skills};
use chancery_vibe::address::Side;
use serde_json::{Value, json};

use crate::desk::{Desk, Outputs, buyer, codes, keep, merchant, no_reply, offer, part};

/// VC-TURN-9: skills by name alone, dropped when the turn ends.
#[test]
fn skills_are_names_and_last_one_turn() {
    let dir = tempfile::tempdir().unwrap();
    let write = |path: &str, text: &str| {
        let path = dir.path().join(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    };
    write(
        "merchant/haggle/SKILL.md",
        "---\nname: haggle\ndescription: >\n  How to\n  haggle.\nmetadata:\n  author: us\n---\nText.\n",
    );
    write(
        "buyer/save/SKILL.md",
        "---\nname: save\ndescription: 'How to save.'\n---\nText.\n",
    );
    // A file that a path would reach.
    write("x/SKILL.md", "---\nname: x\ndescription: Outside.\n---\n");
    let skills = Skills::read(dir.path(), Side::Merchant).unwrap();
    assert_eq!(skills.get("haggle").unwrap().description, "How to haggle.");
    let mut agent = merchant("one", "m1");
    agent.skills = skills;
    let desk = Desk::new(&[&agent]);
    desk.ask("s1");
    let load = |skill: &str| json!({"decision": "load_skill", "skill": skill});
    for outside in [
        "../../x", "../x", "/x", "save", "Haggle", "haggle/", "", "haggle\0",
    ] {
        let (record, ..) = desk.play(&agent, &[load(outside), no_reply()]);
        assert_eq!(codes(&record), [Some("unknown_skill"), None], "{outside}");
    }
    let (_, _, seen) = desk.play(&agent, &[load("haggle"), load("haggle"), no_reply()]);
    assert_eq!(part(&seen[1], "skills").as_array().unwrap().len(), 1);
    // Loaded twice it is there once, and in the next turn not at all.
    assert_eq!(part(&seen[2], "skills").as_array().unwrap().len(), 1);
    let (_, _, seen) = desk.play(&agent, &[no_reply()]);
    assert_eq!(part(&seen[0], "skills"), &json!([]));

    write(
        "merchant/Bad Name/SKILL.md",
        "---\nname: Bad Name\ndescription: d\n---\n",
    );
    assert!(Skills::read(dir.path(), Side::Merchant).is_err());
    for (name, text) in [
        ("a", "no front matter"),
        ("a", "---\nname: b\ndescription: d\n---\n"),
        ("a", "---\nname: a\n---\n"),
        ("a", "---\nname: a\ndescription: d\n"),
    ] {
        assert!(
            chancery_agents::skill::Skill::parse(name, text.to_owned()).is_err(),
            "{text}"
        );
    }
}

/// VC-TURN-9: memory is one agent's in one session, shown to it in the next turn, and not on the log.
#[test]
fn memory_stays_with_its_agent_and_session() {
    let (one, two) = (merchant("one", "m1"), merchant("two", "m2"));
    let desk = Desk::new(&[&one, &two]);
    desk.ask("s1");
    let inbound = desk.latest(&one);
    let outputs = Outputs::new(&[
        keep("plan", &json!("sell dear 7777777"), "string", None),
        no_reply(),
    ]);
    let (_, memory) = desk.turn(&one, &inbound, Memory::default(), &outputs);
    let outputs = Outputs::new(&[no_reply()]);
    let (_, memory) = desk.turn(&one, &inbound, memory, &outputs);
    let seen = outputs.seen.into_inner().unwrap();
    assert_eq!(
        part(&seen[0], "memory")["plan"]["value"],
        "sell dear 7777777"
    );
    assert_eq!(memory.text("plan"), Some("sell dear 7777777"));
    let log = desk.lines().concat();
    assert!(!String::from_utf8_lossy(&log).contains("7777777"));
}

/// The buyer's counter to an offer.
fn counter(offered: &str) -> Value {
    json!({"decision": "emit_envelope", "to": "merchant:pricing", "in_reply_to": offered,
        "idempotency_key": "counter", "action": {"kind": "commerce.counter_offer", "payload": {
            "offer_id": "bid", "merchant_id": "m1", "sku_id": "sku", "qty": 1, "unit_price": 10_001,
            "fulfillment": {"method": "courier", "eta_days": 2}, "claims": [],
            "expires_at": "2026-05-15T13:00:00Z"}}})
}

/// VC-TURN-10, VC-WLD-3: the parts of a context in their order; of the world only what this side may see.
#[test]
fn a_context_has_its_parts_in_order() {
    let (mut one, ada) = (merchant("one", "m1"), buyer("ada", "c1"));
    one.instructions = "You price keyboards.".to_owned();
    let desk = Desk::new(&[&one, &ada]);
    let asked = desk.ask("s1");
    let (record, ..) = desk.play(&one, &[offer(&asked, &json!(12_345))]);
    let offered = record.outbound_msg_id.unwrap();
    // The buyer counters: the thread of its envelope is the offer and the question before it.
    let (record, _, seen) = desk.play(&ada, &[counter(&offered)]);
    assert_eq!(record.outcome, Outcome::Emitted);
    let world = part(&seen[0], "world");
    let budget = &world["mandate"]["budget"];
    assert_eq!(budget, &json!(crate::desk::BUDGET), "its own mandate");
    assert_eq!(world.get("goals"), None, "not the other side's floor");
    assert_eq!(world["inventory"], json!({}), "no stock for a buyer");

    let (_, _, seen) = desk.play(&one, &[no_reply()]);
    let parts = seen[0].as_array().unwrap().iter();
    let names: Vec<&str> = parts.map(|part| part["name"].as_str().unwrap()).collect();
    let order = [
        "instructions",
        "inbound",
        "thread",
        "world",
        "memory",
        "skills",
        "observations",
    ];
    assert_eq!(names, order);
    assert_eq!(part(&seen[0], "instructions"), "You price keyboards.");
    let thread = part(&seen[0], "thread").as_array().unwrap().iter();
    let ids: Vec<&str> = thread.map(|one| one["msg_id"].as_str().unwrap()).collect();
    assert_eq!(ids, [&asked, &offered]);
    let world = part(&seen[0], "world");
    assert_eq!(
        world["goals"]["sku"]["floor_price"],
        json!(crate::desk::FLOOR)
    );
    assert_eq!(world.get("mandate"), None, "not the other side's budget");
    assert_eq!(world["inventory"]["m1/sku"]["on_hand"], 500);
    assert_eq!(world["catalog"]["m1/sku"]["list_price"], 12_900);
}

/// VC-TURN-10: of the thread only what is visible. A question to one merchant in reply to another's offer does not show
/// that offer.
#[test]
fn a_thread_ends_where_it_is_not_visible() {
    let (one, other) = (merchant("one", "m1"), merchant("two", "m2"));
    let desk = Desk::new(&[&one, &other]);
    let asked = desk.ask("s1");
    let (record, ..) = desk.play(&one, &[offer(&asked, &json!(12_345))]);
    let offered = record.outbound_msg_id.unwrap();
    let elsewhere = json!({
        "from": "buyer:negotiation", "to": "merchant:pricing", "in_reply_to": offered,
        "action": {"kind": "commerce.request_offer", "payload": {"merchant_id": "m2", "sku_id": "sku"}},
    });
    desk.post(elsewhere).unwrap();
    let (_, _, seen) = desk.play(&other, &[no_reply()]);
    assert_eq!(part(&seen[0], "thread"), &json!([]));
    assert!(
        !seen[0].to_string().contains("12345"),
        "another merchant's price"
    );
}
