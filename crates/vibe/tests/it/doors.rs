//! What a door leans on: not configured, requests under way, headers, error bodies.

use bytes::Bytes;
use chancery_core::keys::Keyring;
use chancery_core::protocol::{Authentic, Caller, Door, Protocol as _};
use chancery_core::time::Time;
use chancery_vibe::Vibe;
use chancery_vibe::answer::{key_header, refusal_body};
use chancery_vibe::code::Code;
use chancery_vibe::conformance::Reply;
use chancery_vibe::flight::Flights;
use chancery_vibe::message::Message;
use chancery_vibe::settings::Settings;
use serde_json::{Value, json};

use crate::crashes::restarted;
use crate::support::{Desk, mandate};

fn envelope(key: &str, qty: u64) -> Value {
    json!({
        "protocol": "vcp", "version": "1.0", "msg_id": format!("m-{qty}"), "ts": "2026-05-15T12:00:00Z",
        "from": "buyer:negotiation", "to": "merchant:pricing", "session_id": "s", "in_reply_to": null,
        "idempotency_key": key, "action": {"kind": "commerce.propose_offer", "payload": {
            "offer_id": "o", "merchant_id": "m", "sku_id": "s", "qty": qty, "unit_price": 1,
            "fulfillment": {"method": "courier", "eta_days": 2}, "claims": [], "expires_at": "2026-05-15T18:00:00Z"}}
    })
}

fn authentic(envelope: &Value, principal: Option<&str>) -> Authentic<Message> {
    let settings = Settings {
        world: Some("0".repeat(64)),
        ..Settings::default()
    };
    let raw = Bytes::from(serde_json::to_vec(envelope).unwrap());
    let message = Vibe.decode(raw, Door::Http, &settings).unwrap();
    let caller = Caller {
        principal: principal.map(str::to_owned),
        speaks_as: principal.map(|_| vec!["buyer".to_owned()]),
    };
    let keys = Keyring::new();
    Vibe.authenticate(
        message,
        Door::Http,
        &caller,
        &keys,
        &settings,
        Time::UNIX_EPOCH,
    )
    .unwrap()
}

#[test]
fn without_a_world_nothing_is_served() {
    // CH-CFG-4
    let refusal = Vibe
        .decode(Bytes::from_static(b"{}"), Door::Http, &Settings::default())
        .unwrap_err();
    assert_eq!((refusal.code, refusal.status), ("not_configured", 503));
}

#[test]
fn a_request_under_way_is_told_from_another_under_its_key() {
    // VC-IDEM-6, VC-IDEM-2, VC-IDEM-9
    let mut flights = Flights::default();
    let first = authentic(&envelope("k", 1), None);
    let key = flights.take_off(&first).unwrap().unwrap();
    let again = flights.take_off(&first).unwrap_err();
    assert_eq!(
        (again.code, again.status, again.retry_after_s),
        ("idempotency_in_flight", 409, Some(1))
    );
    // Which of two requests has the key is for the rules to say: the one that came later may have had it for long.
    let other = flights.take_off(&authentic(&envelope("k", 2), None));
    assert_eq!(other, Ok(None));
    // Another principal's key is another key.
    let foreign = flights
        .take_off(&authentic(&envelope("k", 2), Some("ann")))
        .unwrap();
    assert_eq!(flights.len(), 2);
    flights.land(&foreign.unwrap());
    flights.land(&key);
    assert!(flights.is_empty());
    assert!(flights.take_off(&first).unwrap().is_some());
    let search = json!({
        "protocol": "vcp", "version": "1.0", "msg_id": "q", "ts": "2026-05-15T12:00:00Z", "from": "buyer:discovery",
        "to": "platform:aggregator", "session_id": "s", "idempotency_key": "k",
        "action": {"kind": "commerce.search", "payload": {"query": "x"}}
    });
    assert_eq!(flights.take_off(&authentic(&search, None)).unwrap(), None);
}

#[test]
fn a_key_is_echoed_where_a_header_can_carry_it() {
    // VC-HTTP-3
    assert_eq!(key_header(Some("idem-1~")), Some("idem-1~"));
    assert_eq!(key_header(Some("with blank")), None);
    assert_eq!(key_header(Some("é")), None);
    assert_eq!(key_header(None), None);
}

#[test]
fn an_error_body_is_flat() {
    // VC-HTTP-4, VC-ERR-1, VC-ERR-2
    let body: Value = serde_json::from_slice(&refusal_body(&Code::Internal.refuse())).unwrap();
    assert_eq!(body["type"], "processing_error");
    let body: Value = serde_json::from_slice(&refusal_body(&Code::NotConfigured.refuse())).unwrap();
    assert_eq!(body["type"], "service_unavailable");
    let mut refusal = Code::PartitionDenied
        .refuse()
        .of_message("m-1")
        .at("$.from");
    refusal.details = Some("{\"failed\":\"sender\"}".to_owned());
    let body: Value = serde_json::from_slice(&refusal_body(&refusal)).unwrap();
    let expected = json!({
        "type": "invalid_request", "code": "partition_denied", "message": Code::PartitionDenied.message(),
        "msg_id": "m-1", "param": "$.from", "details": {"failed": "sender"}
    });
    assert_eq!(body, expected);
    let conflicts: Vec<_> = Code::ALL
        .iter()
        .filter(|code| code.status() == 422)
        .collect();
    assert_eq!(conflicts, [&Code::IdempotencyConflict]);
    for code in Code::ALL {
        assert_eq!(Code::parse(code.as_str()), Some(*code));
    }
}

#[test]
fn a_repeat_is_answered_byte_for_byte_also_after_a_restart() {
    // VC-IDEM-1, VC-IDEM-3, VC-IDEM-4, VC-IDEM-7, VC-IDEM-8
    let mut desk = Desk::new(Settings::default());
    let envelope = |id: &str, ts: &str, ceiling: u64| {
        json!({
            "protocol": "vcp", "version": "1.0", "msg_id": id, "ts": ts, "from": "consumer:persona",
            "to": "buyer:intent", "session_id": "s", "in_reply_to": null, "idempotency_key": "k",
            "action": {"kind": "delegate.create_purchase_mandate", "payload": mandate("man", "c1", "a_c1", ceiling)}
        })
    };
    let first = desk.post(&envelope("m1", "2026-05-15T12:00:00Z", 0));
    assert_eq!((first.status, first.replayed), (200, false));
    let code = |answer: &Reply| {
        let body: Value = serde_json::from_slice(&answer.body).unwrap();
        (answer.status, body["code"].as_str().unwrap().to_owned())
    };
    for has_restarted in [false, true] {
        if has_restarted {
            desk.host = restarted(&desk.host);
        }
        for stamp in ["2026-05-15T12:00:00Z", "2026-05-16T12:00:00Z"] {
            let again = desk.post(&envelope("m2", stamp, 0));
            assert_eq!((again.status, again.replayed), (200, true), "{stamp}");
            assert_eq!((again.lines_added, &again.body), (0, &first.body));
            let other = desk.post(&envelope("m3", stamp, 1));
            assert_eq!(code(&other), (422, "idempotency_conflict".to_owned()));
            assert_eq!(other.lines_added, 0);
        }
        // One second past the retention both are requests like any other: the session has its mandate.
        for ceiling in [0, 1] {
            let late = desk.post(&envelope("m4", "2026-05-16T12:00:01Z", ceiling));
            assert_eq!(code(&late), (409, "mandate_exists".to_owned()));
        }
    }
}
