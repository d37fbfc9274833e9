//! Who may read what, and how a session shows its phases.

use chancery_core::time::Time;
use chancery_vibe::settings::Settings;
use chancery_vibe::world::read::{Reader, approvals, session, table};
use chancery_vibe::world::rows::Table;
use serde_json::{Value, json};

use crate::support::{
    APPROVE_PURCHASE, CREATE_PURCHASE_MANDATE, DISPATCH, Desk, OPEN_DISPUTE, REQUEST_OFFER,
    RULE_DISPUTE_BY_ADJUDICATOR, SEARCH, SETTLE_PAYMENT, agreed,
};

/// Two deals: c1 buys of m1, c2 of m2; both are dispatched and disputed, the first dispute is ruled.
fn two_deals() -> Desk {
    let mut desk = Desk::new(Settings::default());
    for (session, consumer, account, merchant) in
        [("x1", "c1", "a_c1", "m1"), ("x2", "c2", "a_c2", "m2")]
    {
        let cert = agreed(&mut desk, session, consumer, account, merchant, 1, 20_000);
        let (_, reply) = desk.send(SETTLE_PAYMENT, session, None, json!({"cert_id": cert}));
        let body: Value = serde_json::from_slice(&reply.body).unwrap();
        let tx = body["state_diff"]["tx_id"].as_str().unwrap().to_owned();
        let cause = body["msg_id"].as_str().unwrap().to_owned();
        let dispute_session = format!("d-{session}");
        let (_, reply) = desk.send(
            OPEN_DISPUTE,
            &dispute_session,
            None,
            json!({"tx_id": tx, "reason": "late", "evidence": [cause]}),
        );
        let body: Value = serde_json::from_slice(&reply.body).unwrap();
        let dispute = body["emitted"][0]["action"]["payload"]["dispute_id"].clone();
        desk.yes(RULE_DISPUTE_BY_ADJUDICATOR, &dispute_session, None,
            json!({"dispute_id": dispute, "ruling": "deny", "evidence": [cause], "rationale": "the log says so"}));
    }
    desk
}

fn rows_seen(desk: &Desk, of: Table, reader: &Reader) -> Option<usize> {
    let text = table(desk.host.rows(), of, reader).unwrap()?;
    let value: Value = serde_json::from_slice(&text).unwrap();
    assert_eq!(value["table"], of.as_str());
    Some(value["rows"].as_object().unwrap().len())
}

#[test]
fn each_caller_sees_its_own() {
    // VC-WLD-2, VC-WLD-3, VC-HTTP-5
    let desk = two_deals();
    // Rows of the world; two of each kind, and one account for each of four.
    let (all, one, two, none) = (Some(2), Some(1), Some(2), Some(0));
    let [c1, m1, buyer, merchant, c1_and_m1, c1_and_m2] = [
        (Some("c1"), None, &["buyer"][..]),
        (None, Some("m1"), &["merchant"]),
        (None, None, &["buyer:discovery"]),
        (None, None, &["merchant:support"]),
        (Some("c1"), Some("m1"), &["buyer", "merchant"]),
        (Some("c1"), Some("m2"), &["consumer", "merchant:owner"]),
    ]
    .map(|(consumer, merchant, addresses)| reader(addresses, consumer, merchant));
    // The table of VC-WLD-3: who is on both sides sees what either may see.
    let expected = [
        (Table::Catalog, [all; 6], all, all),
        (
            Table::Inventory,
            [None, one, None, none, one, one],
            all,
            all,
        ),
        (
            Table::Ledger,
            [one, one, none, none, two, two],
            None,
            Some(4),
        ),
        (Table::Reputation, [all; 6], all, all),
        (Table::Orders, [one, one, none, none, one, two], all, all),
        (Table::Disputes, [one, one, none, none, one, two], all, all),
        (Table::Rulings, [one, one, none, none, one, two], all, all),
    ];
    let readers = [c1, m1, buyer, merchant, c1_and_m1, c1_and_m2];
    for (of, by_sides, by_platform, by_psp) in expected {
        let found = |reader: &Reader| rows_seen(&desk, of, reader);
        for (reader, seen) in readers.iter().zip(by_sides) {
            assert_eq!(found(reader), seen, "{} {reader:?}", of.as_str());
        }
        let platform = found(&Reader::Platform);
        assert_eq!(platform, by_platform, "{} platform", of.as_str());
        assert_eq!(found(&Reader::Psp), by_psp, "{} psp", of.as_str());
        assert_eq!(found(&Reader::Nobody), None, "{} nobody", of.as_str());
    }
}

fn reader(addresses: &[&str], consumer: Option<&str>, merchant: Option<&str>) -> Reader {
    let addresses: Vec<String> = addresses.iter().map(|one| (*one).to_owned()).collect();
    Reader::of_principal(&addresses, consumer, merchant)
}

#[test]
fn a_principal_reads_as_what_its_token_says() {
    // VC-WLD-3, VC-HTTP-5
    assert_eq!(
        reader(&["platform:psp", "platform:aggregator"], None, None),
        Reader::Psp
    );
    assert_eq!(
        reader(&["platform:aggregator"], None, None),
        Reader::Platform
    );
    assert_eq!(reader(&["buyer"], Some("c1"), None), Reader::consumer("c1"));
    // Its identity alone puts it on a side, and so does its address alone.
    assert_eq!(reader(&[], Some("c1"), None), Reader::consumer("c1"));
    assert_eq!(
        reader(&["merchant"], None, Some("m1")),
        Reader::merchant("m1")
    );
    assert_eq!(reader(&[], None, Some("m1")), Reader::merchant("m1"));
    for address in ["consumer:persona", "buyer", "merchant:owner", "merchant:3"] {
        assert_ne!(reader(&[address], None, None), Reader::Nobody, "{address}");
    }
    assert_eq!(reader(&[], None, None), Reader::Nobody);
}

fn seen(desk: &Desk, id: &str, reader: &Reader) -> Value {
    match session(desk.host.rows(), id, reader).unwrap() {
        Some(text) => serde_json::from_slice(&text).unwrap(),
        None => Value::Null,
    }
}

fn phase(desk: &Desk, id: &str) -> Value {
    seen(desk, id, &Reader::Psp)["phase"].clone()
}

#[test]
fn a_session_goes_through_its_phases() {
    // VC-SM-1, VC-HTTP-5, VC-GATE-5, VC-GATE-1
    let mut desk = Desk::new(Settings::default());
    desk.yes(SEARCH, "x1", None, json!({"query": "keyboard"}));
    assert_eq!(phase(&desk, "x1"), "browsing");
    let cert = agreed(&mut desk, "x1", "c1", "a_c1", "m1", 2, 20_000);
    // 20,000 is the ceiling itself: the gate is not satisfied.
    assert_eq!(phase(&desk, "x1"), "certified");
    let listed = |desk: &Desk, reader: &Reader| -> Value {
        serde_json::from_slice(
            &approvals(desk.host.rows(), reader, Some(Time::UNIX_EPOCH)).unwrap(),
        )
        .unwrap()
    };
    let both = reader(&["buyer", "merchant"], Some("c1"), Some("m2"));
    assert_eq!(listed(&desk, &both), listed(&desk, &Reader::consumer("c1")));
    let own = listed(&desk, &Reader::consumer("c1"));
    assert_eq!(own["approvals"][0]["cert"]["cert_id"], cert.as_str());
    assert_eq!(own["approvals"][0]["goal"], "a keyboard");
    // Only a clock that ends certificates ends them: where envelopes bring their own time, the session's.
    let listed_at = |now| approvals(desk.host.rows(), &Reader::Psp, now).unwrap();
    assert_eq!(listed_at(None), listed_at(Some(Time::UNIX_EPOCH)));
    assert_eq!(listed_at(Some(Time::MAX)), b"{\"approvals\":[]}");
    assert_eq!(
        listed(&desk, &Reader::consumer("c2")),
        json!({"approvals": []})
    );
    desk.yes(APPROVE_PURCHASE, "x1", None, json!({"cert_id": cert}));
    assert_eq!(phase(&desk, "x1"), "authorized");
    assert_eq!(listed(&desk, &Reader::Psp), json!({"approvals": []}));
    desk.yes(SETTLE_PAYMENT, "x1", None, json!({"cert_id": cert}));
    assert_eq!(phase(&desk, "x1"), "settled");
    let order = seen(&desk, "x1", &Reader::Psp)["orders"][0].clone();
    desk.yes(DISPATCH, "x1", None, json!({"order_id": order}));
    assert_eq!(phase(&desk, "x1"), "fulfilled");
    let seen_by = |reader: Reader| seen(&desk, "x1", &reader);
    assert_eq!(seen_by(Reader::consumer("c1"))["kind"], "buyer_journey");
    assert_eq!(seen_by(Reader::consumer("c2")), Value::Null);
    assert_eq!(seen_by(Reader::merchant("m1")), Value::Null);
    assert_eq!(seen_by(both)["kind"], "buyer_journey");
    assert_eq!(seen(&desk, "none", &Reader::Psp), Value::Null);
}

#[test]
fn a_ruled_dispute_and_a_full_refund_close_their_sessions() {
    // VC-SM-1, VC-SM-3, VC-SM-4, VC-DSP-2
    let desk = two_deals();
    assert_eq!(phase(&desk, "d-x1"), "closed");
    assert_eq!(seen(&desk, "d-x1", &Reader::Psp)["kind"], "dispute");
    assert_eq!(phase(&desk, "x1"), "settled");
}

#[test]
fn private_values_are_in_no_read_and_no_answer() {
    // VC-OBJ-TransactionStateDiff-2, VC-PRIV-2, VC-HTTP-8: 91,357 is the budget.
    let mut desk = two_deals();
    let holds = |text: &[u8]| String::from_utf8_lossy(text).contains("91357");
    for of in Table::ALL {
        let text = table(desk.host.rows(), of, &Reader::Psp).unwrap().unwrap();
        assert!(
            !text.windows(5).any(|part| part == b"91357"),
            "{}",
            of.as_str()
        );
    }
    let (_, reply) = desk.send(
        CREATE_PURCHASE_MANDATE,
        "x9",
        None,
        crate::support::mandate("man-x9", "c1", "a_c1", 0),
    );
    assert_eq!(reply.status, 200);
    assert!(!holds(&reply.body), "the diff shows the budget");
    let leak = json!({"sku_id": "s1", "merchant_id": "m1", "inquiry": "I pay at most 91,357"});
    let (_, reply) = desk.send(REQUEST_OFFER, "x9", None, leak);
    assert_eq!(reply.status, 403);
    assert!(!holds(&reply.body), "the refusal repeats the budget");
}
