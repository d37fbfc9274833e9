//! Section 21: for every contradiction in the sources, the step of a transcript that shows how it is settled.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use crate::replay::{steps, tell};

/// The row of section 21 and the requirement that settles it | the transcript and its step | what is sent, or its kind |
/// what is answered: members, a status, or the code of a refusal.
const SHOWN: &str = r#"
1 VC-ENV-4 | envelope/ids 16 | {"msg_id": "a._:-b"} | 200
1 VC-ENV-4 | envelope/ids 18 | {"msg_id": "5b0f2c1e-6f0b-4c5e-9d55-2f7b1c0a9e01"} | 200
1 VC-ENV-4 | contradictions/strict-uuid 0 | {"msg_id": "msg_001"} | malformed_envelope
1 VC-ENV-4 | contradictions/strict-uuid 4 | {"msg_id": "5b0f2c1e-6f0b-4c5e-9d55-2f7b1c0a9e01"} | 200
2 VC-SM-1 | machines/one-journey 0 | commerce.search | 200
2 VC-SM-1 | machines/one-journey 1 | delegate.create_purchase_mandate | 200
2 VC-SM-1 | sessions/mandate 0 | delegate.create_purchase_mandate | 200
2 VC-SM-1 | sessions/no-mandate 5 | platform.create_match_certificate | mandate_required
3 VC-PART-2 | settlement/by-buyer 8 | {"from": "buyer:authorization", "to": "platform:psp"} | {"status": 200, "lines_added": 4}
3 VC-ACT-platform.settle_payment-2 | settlement/by-buyer 8 | platform.settle_payment | {"state_diff": {"actor": "platform:psp"}}
3 VC-ACT-platform.settle_payment-2 | contradictions/world-tables 6 | {"from": "platform:psp"} | {"state_diff": {"actor": "platform:psp"}}
4 VC-ACT-commerce.accept_offer-4 | auto/two-step-acceptance 4 | {"to": "merchant:pricing"} | {"emitted_kinds": []}
4 VC-ACT-commerce.accept_offer-4 | auto/two-step-acceptance 5 | {"to": "platform:aggregator"} | {"emitted_kinds": ["platform.verify_claims", "platform.create_match_certificate"]}
5 VC-PRIV-4 | rows/who-may-say 0 | {"action": {"payload": {"hard_constraints": {"budget": 40003}}}} | 200
5 VC-PRIV-4 | rows/who-may-say 1 | {"action": {"payload": {"constraints": {"max_price": 40003}}}} | private_utility_leak
6 VC-GEN-5 | rows/logged-first 6 | platform.settle_payment | {"status": 200, "lines_added": 4}
6 VC-AUD-3 | settlement/by-buyer 8 | {"msg_id": "msg-aa"} | {"state_diff": {"diff_id": "sd_msg-aa"}}
7 VC-ENV-11 | idempotency/searches 2 | {"idempotency_key": "one-key", "action": {"kind": "commerce.search"}} | {"status": 200, "replayed": false}
7 VC-IDEM-9 | idempotency/searches 3 | {"idempotency_key": "one-key", "action": {"kind": "commerce.search"}} | {"status": 200, "replayed": false}
7 VC-IDEM-9 | idempotency/searches 4 | {"idempotency_key": "one-key", "action": {"kind": "commerce.propose_offer"}} | {"status": 200, "replayed": false}
7 VC-IDEM-9 | idempotency/searches 5 | {"idempotency_key": "one-key", "action": {"kind": "commerce.propose_offer"}} | idempotency_conflict
8 VC-GATE-3 | gate/under 7 | {"action": {"payload": {"payment_mandate": {"payment_details_total": {"amount": 19999}}}}} | 200
8 VC-GATE-3 | gate/fee-counts 7 | {"action": {"payload": {"payment_mandate": {"payment_details_total": {"amount": 20000}}}}} | approval_required
9 VC-ACT-commerce.reject_offer-1 | rows/reject 2 | commerce.reject_offer | 200
9 VC-ACT-commerce.reject_offer-1 | rows/reject 3 | commerce.accept_offer | offer_closed
10 VC-ACT-world-2 | contradictions/world-tables 5 | platform.authorize_payment | {"emitted_kinds": [], "state_diff": {"ledger_deltas": [], "inventory_deltas": []}}
10 VC-ACT-world-2 | contradictions/world-tables 6 | platform.settle_payment | {"emitted_kinds": ["world.create_order", "world.reserve_inventory", "world.update_ledger"]}
10 VC-ACT-world-2 | contradictions/world-tables 7 | commerce.dispatch | {"emitted_kinds": ["world.update_inventory", "world.update_order"]}
10 VC-ACT-world-2 | contradictions/world-tables 9 | platform.rule_dispute | {"emitted_kinds": ["world.record_ruling", "world.update_ledger", "world.update_order", "world.update_reputation"]}
11 VC-SET-6 | rows/refund-of-all 6 | platform.settle_payment | {"world": {"ledger": {"a_c": {"balance": 85000}, "a_m": {"balance": 15000}}}}
12 VC-ENV-15 | envelope/absent-means-null 0 | {"signature": "(absent)"} | 200
12 VC-ENV-15 | envelope/absent-means-null 1 | {"signature": null} | 200
"#;

/// What is not there.
const ABSENT: &str = "(absent)";

/// A step that settles something.
struct Shown {
    row: usize,
    by: &'static str,
    transcript: &'static str,
    step: usize,
    send: Value,
    expect: Value,
}

impl Shown {
    fn of(line: &'static str) -> Self {
        let [settled, place, send, expect] = line.split(" | ").collect::<Vec<_>>()[..] else {
            panic!("four columns: {line}");
        };
        let (row, by) = settled.split_once(' ').unwrap();
        let (transcript, step) = place.split_once(' ').unwrap();
        let send = serde_json::from_str(send).unwrap_or(json!({"action": {"kind": send}}));
        let expect = match serde_json::from_str(expect) {
            Ok(Value::Number(status)) => json!({ "status": status }),
            Ok(expect) => expect,
            Err(_) => json!({"code": expect, "lines_added": 0}),
        };
        Self {
            row: row.parse().unwrap(),
            by,
            transcript,
            step: step.parse().unwrap(),
            send,
            expect,
        }
    }
}

/// Whether something says what is wanted: objects by the members named, everything else by value.
fn says(found: Option<&Value>, wanted: &Value) -> bool {
    match (found, wanted) {
        (None, wanted) => wanted == ABSENT,
        (Some(Value::Object(found)), Value::Object(wanted)) => wanted
            .iter()
            .all(|(name, wanted)| says(found.get(name), wanted)),
        (Some(found), wanted) => found == wanted,
    }
}

/// The last column of section 21, by row: the requirements that settle it.
fn settled() -> BTreeMap<usize, Vec<String>> {
    let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/spec");
    let spec = std::fs::read_to_string(root.join("vibe-commerce.md")).unwrap();
    let section = spec.split("\n## 21.").nth(1).unwrap();
    let section = section.split("\n## 22.").next().unwrap();
    let row = |line: &str| {
        let cells: Vec<&str> = line.split('|').map(str::trim).collect();
        let number: usize = cells.get(1)?.parse().ok()?;
        let words = cells[3].split([' ', ',', ':']);
        let ids = words.filter(|word| word.starts_with("VC-"));
        Some((number, ids.map(str::to_owned).collect()))
    };
    section.lines().filter_map(row).collect()
}

#[test]
fn every_settled_contradiction_is_shown_by_a_step() {
    // VC-ENV-4, VC-SM-1, VC-PART-2, VC-ACT-platform.settle_payment-2, VC-ACT-commerce.accept_offer-4, VC-PRIV-4
    // VC-GEN-5, VC-AUD-3, VC-ENV-11, VC-IDEM-9, VC-GATE-3, VC-ACT-commerce.reject_offer-1, VC-ACT-world-2, VC-SET-6
    // VC-ENV-15
    let steps = steps();
    let settled = settled();
    assert_eq!(settled.len(), 12);
    let lines = SHOWN.lines().filter(|line| !line.is_empty());
    let shown: Vec<Shown> = lines.map(Shown::of).collect();
    for one in &shown {
        let told = format!("row {}, {} {}", one.row, one.transcript, one.step);
        assert!(settled[&one.row].iter().any(|id| id == one.by), "{told}");
        let step: Value = serde_json::from_slice(&steps[one.transcript][one.step]).unwrap();
        assert!(
            says(step.get("send"), &one.send),
            "{told}: {}",
            step["send"]
        );
        assert!(
            says(step.get("expect"), &one.expect),
            "{told}: {}",
            step["expect"]
        );
    }
    for (row, ids) in &settled {
        for id in ids {
            let is_shown = shown.iter().any(|one| one.row == *row && one.by == id);
            assert!(is_shown, "no step shows row {row} by {id}");
        }
    }
    tell(&format!(
        "{} steps settle {} contradictions",
        shown.len(),
        settled.len()
    ));
}

#[test]
fn money_and_stock_are_first_committed_at_settlement() {
    // VC-ACT-world-2, VC-SET-2, VC-WLD-4. That these tables changed and no other follows from the hash after each step.
    let steps = &steps()["contradictions/world-tables"];
    let tables = [
        "",
        "",
        "",
        "",
        "",
        "",
        "inventory ledger orders",
        "inventory orders",
        "disputes",
        "disputes ledger orders reputation rulings",
    ];
    assert_eq!(steps.len(), tables.len());
    let mut hash = None;
    for (step, tables) in steps.iter().zip(tables) {
        let step: Value = serde_json::from_slice(step).unwrap();
        let (expect, kind) = (&step["expect"], &step["send"]["action"]["kind"]);
        let world = expect["world"].as_object();
        let changed: Vec<&str> = world
            .into_iter()
            .flatten()
            .map(|(table, _)| table.as_str())
            .collect();
        assert_eq!(changed.join(" "), tables, "{kind}");
        let diff = &expect["state_diff"];
        let before = hash.replace(diff["world_hash_after"].clone());
        assert_eq!(
            before.unwrap_or(diff["world_hash_before"].clone()),
            diff["world_hash_before"]
        );
        assert!(diff["world_hash_before"].is_string());
        let is_same = diff["world_hash_before"] == diff["world_hash_after"];
        assert_eq!(is_same, tables.is_empty(), "{kind}");
    }
}
