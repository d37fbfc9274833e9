//! What the transcripts leave out: nothing that has a code, a row of a state machine or a settled contradiction.

use std::collections::{BTreeMap, BTreeSet};

use chancery_core::json::Value as Json;
use chancery_core::rows::{MapRows, RowKey, Rows as _};
use chancery_journal::{Fold, Head, InMemory, Recorded, Units, prepare};
use chancery_vibe::code::Code;
use chancery_vibe::world::rows::Table;
use chancery_vibe::world::seed::Seed;
use serde_json::Value;

use crate::replay::{lines, play_as, tell, transcripts};
use crate::suite::VibeSuite;

/// Codes that no transcript can provoke, because they are not of one request to a node in order; and what shows them.
const ELSEWHERE: [(Code, &str); 9] = [
    (Code::NotFound, "a path: doors, vibe_http.rs"),
    (Code::MethodNotAllowed, "a method: doors, vibe_http.rs"),
    (Code::IdempotencyInFlight, "two at once: doors.rs"),
    (Code::Internal, "a fault of the node itself: doors.rs"),
    (
        Code::AuditUnavailable,
        "a disk that fails: doors, every_code.rs",
    ),
    (Code::NotConfigured, "no world: doors.rs"),
    (Code::Overloaded, "a node that is full: doors, bounds.rs"),
    (
        Code::AlreadyAnswered,
        "an agent in the node: agents, hosted.rs",
    ),
    (
        Code::Suspended,
        "an agent or token of a suspended participant: agents, hosted.rs",
    ),
];

#[test]
fn every_code_has_a_case() {
    // VC-ERR-1
    let mut seen: BTreeMap<String, u64> = BTreeMap::new();
    transcripts(|transcript, _| {
        for step in transcript.get("steps").unwrap().as_array().unwrap() {
            let code = step.get("expect").and_then(|expect| expect.get("code"));
            if let Some(code) = code.and_then(Json::as_str) {
                *seen.entry(code.to_owned()).or_default() += 1;
            }
        }
    });
    for code in Code::ALL {
        let elsewhere = ELSEWHERE.iter().find(|(known, _)| known == code);
        assert_ne!(
            seen.contains_key(code.as_str()),
            elsewhere.is_some(),
            "{} has a transcript or a place where it is shown, and not both",
            code.as_str()
        );
    }
    let times: u64 = seen.values().sum();
    tell(&format!("{} codes in {times} refusals", seen.len()));
}

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
            if let Some(state) = row["auth"]["state"].as_str() {
                states.insert(("authorization", name.clone()), state.to_owned());
            }
            states.insert((kind, name), row[member].as_str().unwrap().to_owned());
        }
    }
    states
}

/// Every step that something took in a log: its kind, from where, by what, to where.
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
        let verb = envelope["action"]["kind"].as_str().unwrap_or("node");
        let verb = verb.rsplit('.').next().unwrap().to_owned();
        fold.apply(&unit).unwrap();
        let after = states(&fold.backing().rows);
        for (thing, state) in &after {
            let was = before.get(thing).map_or("–", String::as_str);
            if was != state {
                found.insert(format!("{} {was} {verb} {state}", thing.0));
            }
        }
        before = after;
    }
}

#[test]
fn every_row_of_the_state_machines_is_walked() {
    // VC-SM-1, VC-SM-2, VC-SM-3, VC-SM-4, VC-SM-5, VC-OBJ-MatchCertificate-4
    let mut found = BTreeSet::new();
    transcripts(|transcript, seed| {
        play_as(transcript, &|body| body.to_vec(), &mut |host| {
            steps_of(&lines(host.units()), seed, &mut found);
        });
    });
    let phases: BTreeSet<&str> = found
        .iter()
        .filter_map(|step| step.strip_prefix("session ")?.split(' ').nth(2))
        .collect();
    let all = "browsing mandated negotiating agreed certified approved authorized settled fulfilled closed";
    for phase in all.split(' ') {
        // A gate that is open already is passed with the certificate or the authorization.
        assert!(phases.contains(phase), "{phase}: {phases:?}");
    }
    for step in [
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
        "order – settle_payment paid",
        "order paid dispatch shipped",
        "order shipped request_return return_requested",
        "order return_requested respond_return shipped",
        "order return_requested respond_return return_approved",
        "order return_approved refund_payment partially_refunded",
        "order return_approved refund_payment refunded",
        "order paid rule_dispute refunded",
        "order shipped rule_dispute refunded",
        "order return_requested rule_dispute refunded",
        "order return_approved rule_dispute refunded",
        "order paid rule_dispute partially_refunded",
        "order shipped rule_dispute partially_refunded",
        "dispute – open_dispute open",
        "dispute open request_evidence evidence_requested",
        "dispute evidence_requested submit_evidence open",
        "dispute open rule_dispute ruled",
        "dispute evidence_requested rule_dispute ruled",
        "certificate – create_match_certificate issued",
        "certificate issued approve_purchase approved",
        "certificate issued reject_purchase rejected",
        "certificate approved reject_purchase rejected",
        "certificate issued settle_payment consumed",
        "certificate approved settle_payment consumed",
        "authorization – authorize_payment live",
        "authorization live settle_payment captured",
        "authorization live reject_purchase voided",
    ] {
        assert!(found.contains(step), "{step}; found: {found:#?}");
    }
    tell(&format!(
        "{} different steps of state machines",
        found.len()
    ));
}

#[test]
fn every_settled_contradiction_has_a_transcript() {
    // Section 21: the identifiers of its last column.
    let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/spec");
    let spec = std::fs::read_to_string(root.join("vibe-commerce.md")).unwrap();
    let table = spec
        .split("## 21.")
        .nth(1)
        .unwrap()
        .split("## 22.")
        .next()
        .unwrap();
    let mut cited = BTreeSet::new();
    transcripts(|transcript, _| {
        let requirements = transcript.get("requirements").unwrap().as_array().unwrap();
        let ids = requirements.iter().filter_map(Json::as_str);
        cited.extend(ids.map(str::to_owned));
    });
    let rows = table.lines().filter(|line| {
        line.strip_prefix("| ")
            .is_some_and(|line| line.starts_with(|first: char| first.is_ascii_digit()))
    });
    let mut count = 0;
    for row in rows {
        let settled = row.rsplit('|').nth(1).unwrap();
        let is_shown = settled
            .split([' ', ',', ':', '|'])
            .filter(|word| word.starts_with("VC-"))
            .any(|id| cited.contains(id));
        assert!(is_shown, "no transcript names {settled}");
        count += 1;
    }
    assert_eq!(count, 12);
}
