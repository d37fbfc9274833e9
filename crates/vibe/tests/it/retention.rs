//! What is dropped when it cannot matter any more: keys past their retention, holds that have lapsed.

use bytes::Bytes;
use chancery_core::rows::{RowKey, Rows as _};
use chancery_core::time::{Time, parse_vibe};
use chancery_vibe::conformance::{Host, Reply, Request};
use chancery_vibe::settings::{Clock, Settings};
use serde_json::{Value, json};

use crate::crashes::envelope;
use crate::replay::{lines, replay};
use crate::support::{
    ACCEPT_OFFER_BY_NEGOTIATION, CREATE_PURCHASE_MANDATE, PROPOSE_OFFER, Way, mandate, offer, seed,
    world,
};

fn hours(hours: u64) -> Time {
    let noon = parse_vibe("2026-05-15T12:00:00Z").unwrap();
    noon.saturating_add(std::time::Duration::from_secs(hours * 3_600))
}

fn host(clock: Clock) -> Host {
    let settings = Settings {
        clock,
        ..Settings::default()
    };
    Host::new(&seed(&world()), settings, None).unwrap()
}

fn say(
    host: &mut Host,
    at: Time,
    id: &str,
    way: Way,
    session: &str,
    reply: Value,
    payload: &Value,
) -> Reply {
    let request = Request {
        body: envelope(id, way, session, reply, payload),
        ..Request::default()
    };
    host.receive(&request, at)
}

fn bound(host: &Host) -> usize {
    host.rows()
        .scan(&RowKey::text("vibe-idem", &[]))
        .unwrap()
        .len()
}

#[test]
fn keys_past_their_retention_are_dropped_under_the_wall_clock() {
    // VC-IDEM-7, VC-IDEM-8
    for (clock, left) in [(Clock::Wall, 20), (Clock::Envelope, 60)] {
        let mut host = host(clock);
        let mandates = |host: &mut Host, from: u64, at: Time| {
            for number in from..from + 20 {
                let id = format!("m{number}");
                let payload = mandate(&format!("man{number}"), "c1", "a_c1", 0);
                let session = format!("s{number}");
                let reply = say(
                    host,
                    at,
                    &id,
                    CREATE_PURCHASE_MANDATE,
                    &session,
                    Value::Null,
                    &payload,
                );
                assert_eq!(reply.status, 200);
            }
        };
        mandates(&mut host, 0, hours(0));
        mandates(&mut host, 20, hours(24));
        assert_eq!(bound(&host), 40, "a day is not over yet");
        // Twenty more drop the forty that are older than a day.
        mandates(&mut host, 40, hours(49));
        assert_eq!(bound(&host), left);
        let pages = RowKey::text("vibe-bound-keys", &[]);
        let pages = host.rows().scan(&pages).unwrap().len();
        assert!(pages <= 3, "{pages} pages of those that are left");
        let again = mandate("man59", "c1", "a_c1", 0);
        let reply = say(
            &mut host,
            hours(49),
            "m59",
            CREATE_PURCHASE_MANDATE,
            "s59",
            Value::Null,
            &again,
        );
        assert_eq!((reply.status, reply.replayed), (200, true));
        let log: Vec<Bytes> = lines(host.units());
        let (report, _) = replay(&log, &seed(&world()));
        assert_eq!(report.divergence, None);
    }
}

#[test]
fn a_key_that_was_bound_anew_stays() {
    // VC-IDEM-7
    let mut host = host(Clock::Wall);
    let payload = mandate("man", "c1", "a_c1", 0);
    let first = say(
        &mut host,
        hours(0),
        "k",
        CREATE_PURCHASE_MANDATE,
        "s",
        Value::Null,
        &payload,
    );
    assert_eq!(first.status, 200);
    // Past its retention the same key is a fresh one: of another request, with another `msg_id`.
    let mut other = mandate("other", "c1", "a_c1", 0);
    other["consumer_id"] = json!("c2");
    let mut body: Value = serde_json::from_slice(&envelope(
        "k",
        CREATE_PURCHASE_MANDATE,
        "t",
        Value::Null,
        &other,
    ))
    .unwrap();
    body["msg_id"] = json!("another");
    let post = |host: &mut Host, body: &Value, at| {
        let body = Bytes::from(body.to_string());
        host.receive(
            &Request {
                body,
                ..Request::default()
            },
            at,
        )
    };
    assert_eq!(post(&mut host, &body, hours(1)).status, 422);
    let second = post(&mut host, &body, hours(25));
    assert_eq!((second.status, second.replayed), (200, false));
    assert_eq!(bound(&host), 1);
    let third = post(&mut host, &body, hours(26));
    assert_eq!((third.status, third.replayed), (200, true));
    assert_eq!(third.body, second.body);
}

#[test]
fn lapsed_holds_are_dropped_under_the_wall_clock() {
    // VC-CLR-17, VC-ACT-platform.authorize_payment-3
    for (clock, left) in [(Clock::Wall, 1), (Clock::Envelope, 2)] {
        let mut host = host(clock);
        for (number, at) in [(0, hours(0)), (1, hours(1))] {
            let session = format!("s{number}");
            let payload = mandate(&format!("man{number}"), "c1", "a_c1", 50_000);
            let id = |step: &str| format!("{step}{number}");
            say(
                &mut host,
                at,
                &id("m"),
                CREATE_PURCHASE_MANDATE,
                &session,
                Value::Null,
                &payload,
            );
            let proposed = offer(&id("off"), "m1", 10_000, 1);
            say(
                &mut host,
                at,
                &id("o"),
                PROPOSE_OFFER,
                &session,
                Value::Null,
                &proposed,
            );
            let accepted = json!({"offer_id": id("off")});
            let reply = say(
                &mut host,
                at,
                &id("a"),
                ACCEPT_OFFER_BY_NEGOTIATION,
                &session,
                json!(id("o")),
                &accepted,
            );
            let body: Value = serde_json::from_slice(&reply.body).unwrap();
            assert_eq!(body["emitted"].as_array().unwrap().len(), 3, "{body}");
        }
        let holds = host
            .rows()
            .find(&RowKey::text("vibe-holds", &["a_c1"]))
            .unwrap();
        let holds: Value = serde_json::from_slice(holds).unwrap();
        assert_eq!(holds.as_array().unwrap().len(), left);
    }
}
