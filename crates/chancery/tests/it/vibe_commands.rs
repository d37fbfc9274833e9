//! Vibe on the command line: the gate, the world, replay with its seed, the timeline of a deal.

use serde_json::{Value, json};

use crate::market::{MarketNode, envelope, holds_private, mandate, world};
use crate::support::Place;

#[test]
fn a_person_answers_the_gate() {
    // VC-GATE-1, VC-GATE-5, CH-CLI-2
    let node = MarketNode::start();
    assert_eq!(node.run(&["approvals"]).exits(0).text(), "nothing waits\n");
    let cert = node.certified("s1", 0);
    let text = node.run(&["approvals"]).exits(0).text();
    for part in [
        cert.as_str(),
        "119.00 USD",
        "1 × sku_quiet",
        "m_keys",
        "a quiet keyboard",
    ] {
        assert!(text.contains(part), "{part}: {text}");
    }
    assert!(!holds_private(&text), "{text}");
    node.run(&["approve", "cert_none"]).exits(1);
    let told = node.run(&["approve", &cert]).exits(0).text();
    assert!(told.starts_with("accepted  "), "{told}");
    node.settle("s1", &cert);
    let other = node.certified("s2", 0);
    let told = node
        .run(&["reject", &other, "--reason", "too dear", "--json"])
        .exits(0)
        .json();
    assert_eq!(told["status"], "accepted");
    let late = envelope(
        "s2",
        "settle",
        "buyer:authorization",
        "platform:psp",
        "platform.settle_payment",
        json!({"cert_id": other}),
    );
    assert_eq!(
        node.sent(&late).exits(1).json()["code"],
        "purchase_rejected"
    );
}

#[test]
fn what_others_wrote_is_shown_and_does_not_steer_the_terminal() {
    // CH-CLI-1, VC-GATE-1, VC-ENV-16: a text is data of whoever wrote it, and a line is the node's.
    let node = MarketNode::start();
    let bad = "\u{1b}]0;mine\u{7}\u{1b}[2J\nforged  0.01 USD\u{202e}\u{9b}1m";
    let told = "\\u{1b}]0;mine\\u{7}\\u{1b}[2J\\nforged  0.01 USD\\u{202e}\\u{9b}1m";
    let goal = ["Füße 静か ", bad].concat();
    let mut opening = mandate("s1", 0);
    opening["action"]["payload"]["ap2_intent_mandate"]["goal"] = json!(goal);
    node.say(&opening);
    let query = json!({"query": goal});
    let [from, to] = ["buyer:discovery", "platform:aggregator"];
    node.say(&envelope(
        "s1",
        "search",
        from,
        to,
        "commerce.search",
        query,
    ));
    node.agreed("s1");
    let waits = node.run(&["approvals"]).exits(0).text();
    let explain = ["log", "explain", "s1", "chancery-data"];
    let explained = node.place.run(&explain).exits(0).text();
    for text in [&waits, &explained] {
        assert!(text.contains(&["Füße 静か ", told].concat()), "{text}");
        let steers =
            |line: &str| line.contains(|char: char| char.is_control() || char == '\u{202e}');
        assert!(!text.lines().any(steers), "{text:?}");
        assert!(
            !text.lines().any(|line| line.starts_with("forged")),
            "{text}"
        );
    }
    assert_eq!(waits.lines().count(), 2, "{waits}");
    // For machines it is what was written.
    let json = node.run(&["approvals", "--json"]).exits(0).json();
    assert_eq!(json["approvals"][0]["goal"], json!(goal));
    let json = node.place.run(&[&explain[..], &["--json"]].concat());
    let json = json.exits(0).json();
    let searched = json["deal"][1]["words"].as_str().unwrap();
    assert_eq!(searched, format!("looks for \"{goal}\""));
}

#[test]
fn a_log_replays_with_its_seed_and_with_no_other() {
    // CH-JRN-7, CH-JRN-12, VC-RPL-1, VC-RPL-2, VC-WLD-4
    let mut node = MarketNode::start();
    let cert = node.certified("s1", 0);
    node.run(&["approve", &cert]).exits(0);
    node.settle("s1", &cert);
    let more = json!({"catalog": [{"merchant_id": "m_keys", "sku_id": "sku_new", "title": "New", "attributes": [],
        "list_price": 1, "eta_days": 1, "refundable": true}],
        "inventory": [{"merchant_id": "m_keys", "sku_id": "sku_new", "on_hand": 3}]});
    node.place.write("more.json", more.to_string());
    let told = node
        .run(&["world", "apply", "more.json", "--json"])
        .exits(0)
        .json();
    assert_eq!((&told["entries"], &told["lines"]), (&json!(2), &json!(2)));
    node.restart();
    assert_eq!(node.run(&["approvals"]).exits(0).text(), "nothing waits\n");
    let place = &node.place;
    // The seed that the node kept beside the log is found there.
    let replayed = place
        .run(&["log", "replay", "chancery-data", "--json"])
        .exits(0)
        .json();
    assert_eq!(replayed["identical"], true);
    let hash = node.run(&["world", "hash"]).exits(0).text();
    assert_eq!(replayed["state_hash"], hash.trim());
    let seeds = place
        .run(&["world", "hash", "world.json", "--json"])
        .exits(0);
    assert_ne!(seeds.json()["state_hash"], replayed["state_hash"]);
    place.run(&["world", "hash", "more.json"]).exits(2);
    assert_ne!(replayed["state_hash"], replayed["world_hash"]);
    place.run(&["log", "verify", "chancery-data"]).exits(0);
    // Away from it the seed is named, and it is the right one.
    std::fs::create_dir(place.path("away")).unwrap();
    std::fs::copy(
        place.path("chancery-data/audit.jsonl"),
        place.path("away/log.jsonl"),
    )
    .unwrap();
    let without = place.run(&["log", "replay", "away/log.jsonl"]).exits(2);
    assert!(without.err.contains("--world"), "{}", without.err);
    let mut other = world();
    other["seed_id"] = json!("another");
    place.write("other.json", other.to_string());
    place
        .run(&["log", "replay", "away/log.jsonl", "--world", "other.json"])
        .exits(2);
    let same = place
        .run(&[
            "log",
            "replay",
            "away/log.jsonl",
            "--world",
            "world.json",
            "--json",
        ])
        .exits(0)
        .json();
    assert_eq!(same["state_hash"], replayed["state_hash"]);
}

#[test]
fn another_seed_than_the_record_names_does_not_start() {
    // CH-JRN-12, CH-CFG-4, VC-WLD-1
    let mut node = MarketNode::start();
    node.certified("s1", 0);
    let mut other = world();
    other["seed_id"] = json!("another");
    node.place.write("world.json", other.to_string());
    node.stop();
    let refused = node.place.run(&["serve"]).exits(2);
    assert!(
        refused.err.contains("another world seed"),
        "{}",
        refused.err
    );
    let place = Place::new();
    place.write(
        "chancery.toml",
        "dev = true\n[vibe]\nworld = \"world.json\"\n",
    );
    assert!(place.run(&["serve"]).exits(2).err.contains("vibe.world"));
    let mut broken = world();
    broken["catalog"][0]["list_price"] = json!(1.5);
    place.write("world.json", broken.to_string());
    assert!(
        place
            .run(&["serve"])
            .exits(2)
            .err
            .contains("$.catalog[0].list_price")
    );
    place.write(
        "chancery.toml",
        "dev = true\n[vibe]\nworld = \"world.json\"\nsigned = true\n",
    );
    assert!(place.run(&["serve"]).exits(2).err.contains("wall"));
}

#[test]
fn a_deal_is_told_without_what_is_private() {
    // VC-PRIV-1, VC-HTTP-8, CH-JRN-6, CH-CLI-3
    let node = MarketNode::start();
    node.goal();
    let cert = node.certified("s1", 0);
    let mut leak = envelope(
        "s1",
        "leak",
        "buyer:negotiation",
        "merchant:pricing",
        "commerce.request_offer",
        json!({"merchant_id": "m_keys", "sku_id": "sku_quiet", "inquiry": "would you take 471.13?"}),
    );
    leak["idempotency_key"] = Value::Null;
    let refused = node.sent(&leak).exits(1);
    assert_eq!(refused.json()["code"], "private_utility_leak");
    assert!(!holds_private(&refused.text()), "{}", refused.text());
    node.run(&["approve", &cert]).exits(0);
    node.settle("s1", &cert);
    for named in ["s1-settle", "s1"] {
        let ran = node.place.run(&["log", "explain", named, "chancery-data"]);
        let text = ran.exits(0).text();
        for part in [
            "the deal of session s1",
            "hands over purchase mandate man_s1 (its limits are private)",
            "offers 1 × sku_quiet of m_keys at 11900 each, as off_s1",
            "certifies off_s1",
            "119.00 USD in all",
            "claim grounding, constraint fit, inventory availability, reputation threshold",
            "approves cert_",
            "moved: money: acc_ada -11900, acc_keys +11900",
            "moved: 1 units of m_keys/sku_quiet reserved",
        ] {
            assert!(text.contains(part), "{part}: {text}");
        }
        assert!(!holds_private(&text), "{text}");
    }
    // Refusals are noted in groups, a little after they are answered; a minute is more than any machine needs.
    let patience = std::time::Instant::now() + std::time::Duration::from_secs(60);
    let refusal = loop {
        assert!(
            std::time::Instant::now() < patience,
            "the refusal was never noted"
        );
        let told = node
            .place
            .run(&["log", "explain", "s1-leak", "chancery-data"])
            .exits(1)
            .text();
        if !told.is_empty() {
            break told;
        }
    };
    assert!(
        refusal.contains("private_utility_leak") && !holds_private(&refusal),
        "{refusal}"
    );
    for file in ["rejections.jsonl", "events.jsonl"] {
        assert!(
            !holds_private(&node.place.read(&format!("chancery-data/{file}"))),
            "{file}"
        );
    }
    let explained = node
        .place
        .run(&["log", "explain", "s1", "chancery-data", "--json"])
        .exits(0)
        .text();
    assert!(!holds_private(&explained), "{explained}");
}

#[test]
fn the_envelopes_that_carry_what_is_private_are_told_without_it() {
    // VC-PRIV-1, VC-PRIV-4, VC-HTTP-8: by their own names too.
    let node = MarketNode::start();
    node.goal();
    node.certified("s1", 0);
    for (named, part) in [
        ("s1-mandate", "hands over purchase mandate man_s1"),
        ("shop-goal", "om_1"),
    ] {
        for more in [&[][..], &["--json"]] {
            let ran = ["log", "explain", named, "chancery-data"];
            let text = node.place.run(&[&ran[..], more].concat()).exits(0).text();
            assert!(!holds_private(&text), "{text}");
            assert!(!more.is_empty() || text.contains(part), "{part}: {text}");
        }
    }
}

#[test]
fn a_mandate_goes_to_ap2_and_back() {
    // VC-AP2-1
    let place = Place::new();
    let mandate = json!({"mandate_id": "m", "ap2_intent_mandate": {"goal": "g", "intent_expiry": "2026-06-01T00:00:00Z"},
        "authority": {"can_buy_without_confirmation": true}, "hard_constraints": {"budget": 5}});
    place.write("mandate.json", mandate.to_string());
    let exported = place
        .run(&["vibe", "ap2", "export", "mandate.json"])
        .exits(0);
    assert_eq!(
        exported.json()["intent_mandate"]["user_cart_confirmation_required"],
        false
    );
    place.write("ap2.json", &exported.out);
    let imported = place.run(&["vibe", "ap2", "import", "ap2.json"]).exits(0);
    assert_eq!(imported.json(), mandate);
    place.write("again.json", &imported.out);
    assert_eq!(
        place
            .run(&["vibe", "ap2", "export", "again.json"])
            .exits(0)
            .out,
        exported.out
    );
    place.write(
        "bare.json",
        "{\"intent_mandate\":{\"natural_language_description\":\"x\"}}",
    );
    assert!(
        place
            .run(&["vibe", "ap2", "import", "bare.json"])
            .exits(1)
            .err
            .contains("vcp")
    );
}
