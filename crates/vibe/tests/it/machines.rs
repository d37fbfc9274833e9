//! The state machines of section 11: the transcripts walk every row of them, and take no step that is not there.

use std::collections::{BTreeMap, BTreeSet};

use chancery_core::json::Value as Json;
use chancery_core::rows::{MapRows, RowKey, Rows as _};
use chancery_journal::{Fold, Head, InMemory, Recorded, Units, prepare};
use chancery_vibe::world::rows::Table;
use chancery_vibe::world::seed::Seed;
use serde_json::Value;

use crate::replay::{lines, play_as, steps, tell, transcripts};
use crate::suite::VibeSuite;

/// The rows: what it is, from where, by what, to where. An order's events say what a ruling or an answer says.
const ROWS: [&str; 60] = [
    // VC-SM-1. The table has no phase for a dispute before its ruling: it is in the first one.
    "session – search browsing",
    "session – open_dispute browsing",
    "session – create_purchase_mandate mandated",
    "session – set_business_goal mandated",
    "session browsing create_purchase_mandate mandated",
    "session browsing propose_offer negotiating",
    "session mandated propose_offer negotiating",
    "session negotiating accept_offer agreed",
    "session agreed create_match_certificate certified",
    // The gate is satisfied already.
    "session agreed create_match_certificate approved",
    "session certified approve_purchase approved",
    "session approved authorize_payment authorized",
    "session authorized settle_payment settled",
    "session settled dispatch fulfilled",
    "session fulfilled refund_payment closed",
    "session browsing rule_dispute closed",
    // VC-SM-2
    "offer – propose_offer open",
    "offer – counter_offer open",
    "offer open counter_offer superseded",
    "offer open accept_offer accepted",
    "offer open reject_offer rejected",
    "offer accepted create_match_certificate certified",
    "offer certified settle_payment settled",
    "offer open settle_payment closed",
    "offer accepted settle_payment closed",
    "offer certified settle_payment closed",
    // VC-SM-3
    "order – settle_payment paid",
    "order paid dispatch shipped",
    "order shipped request_return return_requested",
    "order return_requested respond_return:deny shipped",
    "order return_requested respond_return:approve return_approved",
    "order return_approved refund_payment partially_refunded",
    "order return_approved refund_payment refunded",
    "order paid rule_dispute:refund_full refunded",
    "order shipped rule_dispute:refund_full refunded",
    "order return_requested rule_dispute:refund_full refunded",
    "order return_approved rule_dispute:refund_full refunded",
    "order paid rule_dispute:refund_partial partially_refunded",
    "order shipped rule_dispute:refund_partial partially_refunded",
    "order return_requested rule_dispute:refund_partial partially_refunded",
    "order return_approved rule_dispute:refund_partial partially_refunded",
    "order paid rule_dispute:deny paid",
    "order shipped rule_dispute:deny shipped",
    "order return_requested rule_dispute:deny return_requested",
    "order return_approved rule_dispute:deny return_approved",
    // VC-SM-4
    "dispute – open_dispute open",
    "dispute open request_evidence evidence_requested",
    "dispute evidence_requested submit_evidence open",
    "dispute open rule_dispute ruled",
    "dispute evidence_requested rule_dispute ruled",
    // VC-SM-5, VC-OBJ-MatchCertificate-4
    "certificate – create_match_certificate issued",
    "certificate issued approve_purchase approved",
    "certificate issued reject_purchase rejected",
    "certificate approved reject_purchase rejected",
    "certificate issued settle_payment consumed",
    "certificate approved settle_payment consumed",
    "authorization – authorize_payment live",
    "authorization live settle_payment captured",
    "authorization live reject_purchase voided",
    // Another takes its place: it had ended, or the other would have been refused.
    "authorization live authorize_payment expired",
];

/// Where `expired` is seen: no row of a node says it, an answer does (VC-CLR-3). The transcript, its step, the verb, the
/// code.
const EXPIRED: [(&str, usize, &str, &str); 10] = [
    // VC-SM-2: an open offer, whatever is asked of it.
    ("clock/half-open", 4, "accept_offer", "offer_expired"),
    ("machines/one-journey", 3, "reject_offer", "offer_expired"),
    ("machines/one-journey", 4, "counter_offer", "offer_expired"),
    ("machines/one-journey", 5, "accept_offer", "offer_expired"),
    // VC-OBJ-MatchCertificate-4: a certificate that is issued, then one that is approved.
    (
        "policy/authorization-ends-with-its-certificate",
        5,
        "approve_purchase",
        "cert_expired",
    ),
    (
        "policy/authorization-ends-with-its-certificate",
        8,
        "settle_payment",
        "cert_expired",
    ),
    (
        "policy/authorization-ends-with-its-certificate",
        9,
        "authorize_payment",
        "cert_expired",
    ),
    // VC-SM-5: an authorization, at its end and after it.
    (
        "policy/authorization-ends",
        9,
        "settle_payment",
        "payment_not_authorized",
    ),
    (
        "policy/authorization-ends",
        10,
        "settle_payment",
        "payment_not_authorized",
    ),
    (
        "policy/authorization-ends",
        11,
        "settle_payment",
        "payment_not_authorized",
    ),
];

/// Where things are in their lives: by kind and name, the state.
type States = BTreeMap<(&'static str, String), String>;

fn states(rows: &MapRows) -> States {
    let mut states = States::new();
    let spaces = [
        ("session", RowKey::text("vibe-session", &[]), "phase"),
        ("offer", RowKey::text("vibe-offer", &[]), "state"),
        ("certificate", RowKey::text("vibe-cert", &[]), "state"),
        ("order", Table::Orders.prefix(), "state"),
        ("dispute", Table::Disputes.prefix(), "state"),
    ];
    for (kind, prefix, member) in spaces {
        for (key, row) in rows.scan(&prefix).unwrap() {
            let row: Value = serde_json::from_slice(&row).unwrap();
            let name = String::from_utf8(key.parts().pop().unwrap()).unwrap();
            if let Some(auth_id) = row["auth"]["auth_id"].as_str() {
                let state = row["auth"]["state"].as_str().unwrap().to_owned();
                states.insert(("authorization", auth_id.to_owned()), state);
            }
            states.insert((kind, name), row[member].as_str().unwrap().to_owned());
        }
    }
    states
}

/// What an envelope does to an order: its verb, with what it says where that decides.
fn event_of(verb: &str, payload: &Value) -> String {
    let said = payload["ruling"].as_str().or(payload["decision"].as_str());
    said.map_or_else(|| verb.to_owned(), |said| format!("{verb}:{said}"))
}

/// The order that a ruling is about, where the envelope is one.
fn ruled_order(rows: &MapRows, envelope: &Value) -> Option<String> {
    let payload = &envelope["action"]["payload"];
    payload["ruling"].as_str()?;
    let dispute = Table::Disputes.key(payload["dispute_id"].as_str().unwrap());
    let disputes = rows.scan(&Table::Disputes.prefix()).unwrap();
    let (_, row) = disputes.iter().find(|(key, _)| *key == dispute).unwrap();
    let row: Value = serde_json::from_slice(row).unwrap();
    Some(row["order_id"].as_str().unwrap().to_owned())
}

/// The steps from one moment to the next; that of a ruled order is one also when it stays as it was.
fn steps_between(
    [before, after]: [&States; 2],
    envelope: &Value,
    ruled: Option<&str>,
    found: &mut BTreeSet<String>,
) {
    let kind = envelope["action"]["kind"].as_str().unwrap_or("node");
    let verb = kind.rsplit('.').next().unwrap();
    let payload = &envelope["action"]["payload"];
    for (thing, state) in after {
        let was = before.get(thing).map_or("–", String::as_str);
        let is_ruled = thing.0 == "order" && Some(thing.1.as_str()) == ruled;
        if was != state || is_ruled {
            let event = match thing.0 {
                "order" => event_of(verb, payload),
                _ => verb.to_owned(),
            };
            found.insert(format!("{} {was} {event} {state}", thing.0));
        }
    }
    for (thing, was) in before {
        if !after.contains_key(thing) {
            found.insert(format!("{} {was} {verb} expired", thing.0));
        }
    }
}

/// Every step that something took in a log.
fn steps_of(log: &[bytes::Bytes], seed: &Seed, found: &mut BTreeSet<String>) {
    let backing = InMemory {
        rows: seed.rows(),
        ..InMemory::default()
    };
    let mut fold = Fold::new(VibeSuite, backing, Head::EMPTY, true).unwrap();
    let mut units = Units::default();
    let mut before = States::new();
    for line in log {
        let prepared = prepare(&VibeSuite, line.clone(), fold.keyring());
        let reading = prepared.reading.unwrap();
        let more = reading.line.more;
        let recorded = Recorded {
            line: reading.line,
            canonical: reading.canonical,
            hash: prepared.hash,
        };
        let Some(unit) = units.push(recorded, more).unwrap() else {
            continue;
        };
        let envelope: Value = serde_json::from_slice(&unit[0].line.envelope).unwrap();
        fold.apply(&unit).unwrap();
        let after = states(&fold.backing().rows);
        let ruled = ruled_order(&fold.backing().rows, &envelope);
        steps_between([&before, &after], &envelope, ruled.as_deref(), found);
        before = after;
    }
}

#[test]
fn the_rows_of_the_state_machines_are_walked_and_no_others() {
    // VC-SM-1, VC-SM-2, VC-SM-3, VC-SM-4, VC-SM-5, VC-OBJ-MatchCertificate-4, VC-DSP-2
    let mut found = BTreeSet::new();
    transcripts(|transcript, seed| {
        // In auto mode one unit takes several steps; there is one a unit where the platform's roles post by hand.
        let platform = transcript.get("settings").unwrap().get("platform");
        if platform.and_then(Json::as_str) == Some("manual") {
            play_as(transcript, &|body| body.to_vec(), &mut |host| {
                steps_of(&lines(host.units()), seed, &mut found);
            });
        }
    });
    let rows: BTreeSet<String> = ROWS.iter().map(|row| (*row).to_owned()).collect();
    let missing: Vec<_> = rows.difference(&found).collect();
    assert!(missing.is_empty(), "not walked: {missing:#?}");
    let others: Vec<_> = found.difference(&rows).collect();
    assert!(others.is_empty(), "not in the tables: {others:#?}");
    tell(&format!(
        "{} different steps of state machines",
        found.len()
    ));
}

#[test]
fn what_has_expired_is_seen_when_it_is_asked_for() {
    // VC-SM-2, VC-SM-5, VC-OBJ-MatchCertificate-4, VC-PIPE-5, VC-CLR-3
    let steps = steps();
    for (transcript, index, verb, code) in EXPIRED {
        let step: Value = serde_json::from_slice(&steps[transcript][index]).unwrap();
        let kind = step["send"]["action"]["kind"].as_str().unwrap();
        let found = (kind.rsplit('.').next().unwrap(), &step["expect"]["code"]);
        assert_eq!(found, (verb, &Value::from(code)), "{transcript} {index}");
        assert_eq!(
            step["expect"]["lines_added"], 0,
            "what is seen is not written"
        );
    }
}
