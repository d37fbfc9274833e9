//! What the transcripts leave out: no code.

use std::collections::BTreeMap;

use chancery_core::json::Value as Json;
use chancery_vibe::code::Code;

use crate::replay::{tell, transcripts};

/// Codes that no transcript can provoke, because they are not of one request to a node in order; and what shows them.
const ELSEWHERE: [(Code, &str); 9] = [
    (Code::NotFound, "a path: doors, vibe_http.rs"),
    (Code::MethodNotAllowed, "a method: doors, vibe_http.rs"),
    (
        Code::IdempotencyInFlight,
        "two at once: doors, vibe_bounds.rs",
    ),
    (Code::Internal, "a fault of the node itself: doors.rs"),
    (
        Code::AuditUnavailable,
        "a disk that fails: doors, vibe_bounds.rs",
    ),
    (Code::NotConfigured, "no world: doors.rs"),
    (
        Code::Overloaded,
        "a node that is full: doors, vibe_bounds.rs",
    ),
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
