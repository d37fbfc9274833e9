//! One more envelope costs what it cost before: counted in instructions, so that a busy machine changes nothing.
//!
//! Two counts, of everything between the text of an envelope and its outcome: reading, rules, rows, windows and soft
//! state, in memory; filling up beforehand is not counted. Rows that are read and written, at 100,000 entries. And
//! instructions, which are callgrind's, at as many as `CHANCERY_COUNTED` says: 10,000 in an ordinary run, 100,000 in the
//! long ones.

use std::hint::black_box;
use std::process::Command;

use chancery_agh::body::card::PeerCard;
use chancery_agh::conformance::host::Host;
use chancery_agh::settings::Settings;
use chancery_agh::soft::Seen;
use chancery_core::time::Time;
use serde_json::{Value, json};

use crate::support::{CHANNEL, NOW, WORKER, envelope, error, greet};

/// How much is there before it is counted; set for the run under the counter.
const ENTRIES: &str = "CHANCERY_COUNTED_ENTRIES";
/// How much the larger count is of.
const MANY: &str = "CHANCERY_COUNTED";
/// Envelopes that are counted, of each kind.
const COUNTED: usize = 200;

fn entries() -> usize {
    std::env::var(ENTRIES).map_or(1_000, |entries| entries.parse().unwrap())
}

fn roomy() -> Settings {
    Settings {
        max_interactions: 1_000_000,
        max_remote_peers_per_channel: 1_000_000,
        max_remote_peers: 1_000_000,
        ..Settings::default()
    }
}

fn direct(number: usize) -> Value {
    let members = json!({
        "kind": "direct", "to": WORKER, "interaction_id": format!("i{number}"), "body": {"text": "do it"},
    });
    envelope(&format!("d{number}"), members)
}

/// A node that knows so many peers, has seen so many envelopes and has so many interactions on record.
fn filled(entries: usize) -> Host {
    let mut host = Host::new(roomy());
    host.host_named(None, CHANNEL, WORKER).unwrap();
    let now = Time::from_unix_seconds(NOW).unwrap();
    let until = Time::from_unix_seconds(NOW + 300).unwrap();
    for number in 0..entries {
        let card = PeerCard {
            peer_id: format!("peer-{number}"),
            display_name: None,
            profiles_supported: vec!["agh-network/v0".to_owned()],
            capabilities: Vec::new(),
            artifacts_supported: Vec::new(),
            trust_modes_supported: Vec::new(),
            ext: None,
        };
        let seen = Seen {
            workspace: None,
            channel: CHANNEL.to_owned(),
            card,
            catalog: None,
        };
        host.soft().presence.see(seen, NOW);
        let mut id = [0; 16];
        id[..8].copy_from_slice(&number.to_be_bytes());
        host.soft().once.note(&id, now, until);
        let asked = host.receive(direct(number).to_string(), NOW);
        assert_eq!(error(&asked), "");
    }
    host
}

/// New peers, known peers, questions, new work, known work, and all of it again.
fn some_more(entries: usize) -> Vec<String> {
    let mut more = Vec::new();
    for number in 0..COUNTED {
        let new = entries + number;
        let known = number * (entries / COUNTED);
        let ask = json!({"kind": "whois", "body": {"type": "request", "query": "nobody"}});
        let again = json!({
            "kind": "direct", "to": WORKER, "interaction_id": format!("i{known}"), "body": {"text": "more"},
        });
        more.push(greet(&format!("g{new}"), &format!("peer-{new}")).to_string());
        more.push(greet(&format!("h{new}"), &format!("peer-{known}")).to_string());
        more.push(envelope(&format!("q{new}"), ask).to_string());
        more.push(direct(new).to_string());
        more.push(envelope(&format!("e{new}"), again).to_string());
        more.push(direct(known).to_string());
    }
    more
}

/// The name that the counter looks for.
#[inline(never)]
fn agh_counted_envelopes(host: &mut Host, more: &[String]) -> usize {
    let decided = more
        .iter()
        .filter(|text| black_box(host.receive((*text).clone(), NOW)).id.is_empty());
    decided.count()
}

// AG-DUP-4, AG-LIF-12, AG-PRS-6
#[test]
fn under_the_counter() {
    let entries = entries();
    let mut host = filled(entries);
    let more = some_more(entries);
    assert_eq!(agh_counted_envelopes(&mut host, &more), 0);
    assert_eq!(host.soft().presence.len(), entries + COUNTED);
    assert!(
        host.interaction(None, CHANNEL, &format!("i{entries}"))
            .is_some()
    );
}

/// Instructions for one envelope when so much is there.
fn counted(entries: usize) -> u64 {
    let out = std::env::temp_dir().join(format!("callgrind-{}-{entries}", std::process::id()));
    let ran = Command::new("valgrind")
        .args(["--tool=callgrind", "--collect-atstart=no"])
        .arg("--toggle-collect=*agh_counted_envelopes*")
        .arg(format!("--callgrind-out-file={}", out.display()))
        .arg(std::env::current_exe().unwrap())
        .args([
            "--exact",
            "instructions::under_the_counter",
            "--test-threads=1",
        ])
        .env(ENTRIES, entries.to_string())
        .output()
        .expect("valgrind counts instructions: cargo xtask setup installs it");
    assert!(
        ran.status.success(),
        "{}",
        String::from_utf8_lossy(&ran.stderr)
    );
    let text = std::fs::read_to_string(&out).unwrap();
    let _ = std::fs::remove_file(out);
    let total = text
        .lines()
        .find_map(|line| line.strip_prefix("totals: "))
        .unwrap();
    total.trim().parse::<u64>().unwrap() / (6 * COUNTED as u64)
}

// AG-DUP-4, AG-LIF-12
#[test]
fn a_hundred_times_more_on_record_needs_no_more_rows() {
    let rows = |entries: usize| {
        let mut host = filled(entries);
        let more = some_more(entries);
        let before = host.row_operations();
        agh_counted_envelopes(&mut host, &more);
        host.row_operations() - before
    };
    let (few, many) = (rows(1_000), rows(100_000));
    println!(
        "rows for {} envelopes: {few} at 1,000 entries, {many} at 100,000",
        6 * COUNTED
    );
    assert!(few > 0 && many * 10 <= few * 15, "{few} {many}");
}

// AG-DUP-4: look-up and insertion do not scan all records; the same for presence and interactions.
#[test]
fn many_times_more_on_record_cost_less_than_half_more() {
    let entries = std::env::var(MANY).map_or(10_000, |entries| entries.parse().unwrap());
    let (few, many) = (counted(1_000), counted(entries));
    println!(
        "instructions for one envelope: {few} at 1,000 entries of each kind, {many} at {entries}: {:.3} times",
        many as f64 / few as f64
    );
    assert!(few > 1_000, "nothing was counted");
    assert!(many * 10 <= few * 15, "{few} {many}");
}
