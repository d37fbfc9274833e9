//! Money at its limits, and rows as they are written.

use chancery_core::canonical::{Dialect, to_bytes};
use chancery_core::json::{self, ReadRules};
use chancery_core::rows::Rows as _;
use chancery_vibe::money::{MAX, exponent, total};
use chancery_vibe::settings::{Clock, Settings, SettingsFault};
use chancery_vibe::world::rows::Table;
use serde_json::{Value, json};

use crate::support::{
    Desk, OPEN_DISPUTE, PROPOSE_OFFER, RULE_DISPUTE, SEARCH, SETTLE_PAYMENT, agreed, offer,
};

#[test]
fn totals_stop_at_what_every_reader_keeps_exact() {
    // VC-OBJ-GroundedOffer-1, VC-MON-4
    assert_eq!(total(1, MAX, 0), Some(MAX));
    assert_eq!(total(1, MAX, 1), None);
    assert_eq!(total(1, MAX - 1, 1), Some(MAX));
    assert_eq!(total(2, MAX, 0), None);
    assert_eq!(
        total(1_000_000, 9_007_199_254, 0),
        Some(9_007_199_254_000_000)
    );
    assert_eq!(total(u64::MAX, u64::MAX, u64::MAX), None);
    assert_eq!(total(0, MAX, 0), Some(0));
}

#[test]
fn an_offer_at_the_limit_is_taken_and_one_more_is_refused() {
    // VC-OBJ-GroundedOffer-1, VC-MON-4, VC-SM-2
    let mut desk = Desk::new(Settings::default());
    desk.yes(SEARCH, "x", None, json!({"query": "q"}));
    let propose = |desk: &mut Desk, body: Value| {
        let (_, reply) = desk.send(PROPOSE_OFFER, "x", None, body);
        let body: Value = serde_json::from_slice(&reply.body).unwrap();
        (reply.status, body["code"].as_str().map(str::to_owned))
    };
    let at = offer("o1", "m1", MAX, 1);
    assert_eq!(propose(&mut desk, at), (200, None));
    let mut above = offer("o2", "m1", MAX, 1);
    above["fulfillment"]["fee"] = json!(1);
    assert_eq!(
        propose(&mut desk, above),
        (400, Some("money_overflow".to_owned()))
    );
    let twice = offer("o3", "m1", MAX, 2);
    assert_eq!(
        propose(&mut desk, twice),
        (400, Some("money_overflow".to_owned()))
    );
    let many = offer("o4", "m1", 1, 1_000_001);
    assert_eq!(
        propose(&mut desk, many),
        (400, Some("malformed_payload".to_owned()))
    );
}

#[test]
fn an_object_that_stands_for_money_holds_money() {
    // VC-MON-1, VC-MON-2, VC-MON-3, VC-MON-4: as in AP2 shapes, `amount` or `value`
    let mut desk = Desk::new(Settings::default());
    let mut answered = |stranger: Value| {
        let mut payload = json!({"query": "q"});
        payload["x"] = stranger;
        let (_, reply) = desk.send(SEARCH, "x", None, payload);
        let body: Value = serde_json::from_slice(&reply.body).unwrap();
        body["code"].as_str().unwrap_or("accepted").to_owned()
    };
    for member in ["amount", "value"] {
        for (number, code) in [
            (json!(3.5), "money_not_integer"),
            (json!("3"), "money_not_integer"),
            (json!(MAX + 1), "money_overflow"),
            (json!(-1), "money_overflow"),
            (json!(3), "accepted"),
        ] {
            let money = json!({"currency": "USD", member: number});
            for name in ["shipping_fee", "unit_price", "total", "amount"] {
                assert_eq!(answered(json!({name: money})), code, "{name} {money}");
                assert_eq!(answered(json!({name: [money]})), code, "{name} {money}");
            }
        }
    }
    // Elsewhere a value is anything, also below an object that is none itself.
    assert_eq!(answered(json!({"value": 3.5})), "accepted");
    assert_eq!(
        answered(json!({"total": {"note": {"value": 3.5}}})),
        "accepted"
    );
}

#[test]
fn currencies_have_their_exponents() {
    // VC-MON-5
    for code in ["JPY", "KRW", "VND", "CLP"] {
        assert_eq!(exponent(code), 0);
    }
    for code in ["KWD", "BHD", "OMR", "TND", "JOD"] {
        assert_eq!(exponent(code), 3);
    }
    assert_eq!(exponent("USD"), 2);
    assert_eq!(exponent("XXX"), 2);
}

#[test]
fn every_row_of_the_world_is_canonical() {
    // VC-WLD-4, VC-CLR-1, VC-CAN-2
    let mut desk = Desk::new(Settings::default());
    let cert = agreed(&mut desk, "x", "c1", "a_c1", "m1", 1, 20_000);
    let (_, reply) = desk.send(SETTLE_PAYMENT, "x", None, json!({"cert_id": cert}));
    let body: Value = serde_json::from_slice(&reply.body).unwrap();
    let tx = &body["state_diff"]["tx_id"];
    let (_, reply) = desk.send(
        OPEN_DISPUTE,
        "d",
        None,
        json!({"tx_id": tx, "reason": "\u{1}\u{7f}\"\\/é😀 late"}),
    );
    let body: Value = serde_json::from_slice(&reply.body).unwrap();
    let dispute = &body["emitted"][0]["action"]["payload"]["dispute_id"];
    desk.yes(RULE_DISPUTE, "d", None,
        json!({"dispute_id": dispute, "ruling": "refund_full", "evidence": ["e-1"], "rationale": "r"}));
    let mut rows = 0;
    for table in Table::ALL {
        for (key, row) in desk.host.rows().scan(&table.prefix()).unwrap() {
            let value = json::read(&row, &ReadRules::OWN).unwrap();
            assert_eq!(to_bytes(&value, Dialect::Vibe), *row, "{key:?}");
            rows += 1;
        }
    }
    assert_eq!(rows, 2 + 2 + 4 + 2 + 1 + 1 + 1);
    for unit in desk.host.units() {
        for draft in unit {
            let bytes = draft.envelope.bytes();
            let value = json::read(bytes, &ReadRules::OWN).unwrap();
            assert_eq!(to_bytes(&value, Dialect::Vibe), *bytes);
        }
    }
    let answer = json::read(&reply.body, &ReadRules::OWN).unwrap();
    assert_eq!(
        to_bytes(&answer, Dialect::Vibe),
        reply.body,
        "an answer is canonical"
    );
}

#[test]
fn settings_that_prove_nothing_are_refused() {
    // VC-SIG-5, VC-IDEM-7
    let signed = Settings {
        signed: true,
        ..Settings::default()
    };
    assert_eq!(signed.check(), Err(SettingsFault::SignedEnvelopeClock));
    let wall = Settings {
        clock: Clock::Wall,
        ..signed
    };
    assert_eq!(wall.check(), Ok(()));
    let short = Settings {
        idempotency_retention_s: 86_399,
        ..Settings::default()
    };
    assert_eq!(short.check(), Err(SettingsFault::RetentionTooShort));
}
