//! Floods at a tenth of the limits: memory stays bounded, and one more costs what the first ones cost.
//!
//! `CHANCERY_FLOOD` asks for another number than 100,000; a million floods the limits that a node has by default.

use chancery_agh::conformance::host::Host;
use chancery_agh::settings::Settings;
use serde_json::json;

use crate::support::{CHANNEL, NOW, WORKER, envelope, error, greet};

const FLOOD: usize = 100_000;

fn flood() -> usize {
    std::env::var("CHANCERY_FLOOD").map_or(FLOOD, |flood| {
        flood.parse().expect("CHANCERY_FLOOD is a number")
    })
}

/// How many times the flood and the limits are those of an ordinary run.
fn times() -> usize {
    (flood() / FLOOD).max(1)
}

fn a_tenth() -> Settings {
    let times = times();
    Settings {
        max_dedupe_entries: 100_000 * times,
        max_interactions: 10_000 * times as u64,
        max_conversations: 1_000 * times as u64,
        max_remote_peers_per_channel: 1_000 * times,
        max_remote_peers: 10_000 * times,
        ..Settings::default()
    }
}

fn flooded() -> Host {
    let mut host = Host::new(a_tenth());
    host.host_named(None, CHANNEL, WORKER).unwrap();
    host
}

// AG-PRS-6, AG-SEC-3
#[test]
fn greetings_of_distinct_senders_fill_presence_to_its_limit_and_no_further() {
    let mut host = flooded();
    for number in 0..flood() {
        let peer = format!("peer-{number}");
        let mut hello = greet(&format!("g{number}"), &peer);
        hello["channel"] = format!("channel-{}", number % 20).into();
        host.receive(hello.to_string(), NOW);
    }
    let presence = &host.soft().presence;
    assert_eq!(presence.len(), 10_000 * times());
    let bound = times() * (16 << 20);
    assert!(presence.bytes() < bound, "{} bytes", presence.bytes());
    println!(
        "{} greetings: {} peers in {} bytes; peak memory of this process {} KiB, beside {} bytes of the limits",
        flood(),
        presence.len(),
        presence.bytes(),
        peak_kib(),
        bound,
    );
    // Of one channel no more than its own limit, the latest of them.
    let mut host = flooded();
    for number in 0..2_000 * times() {
        let peer = format!("peer-{number}");
        host.receive(greet(&format!("g{number}"), &peer).to_string(), NOW);
    }
    let there = host.soft().presence.list(None, CHANNEL, NOW);
    assert_eq!(there.len(), 1_000 * times());
    assert!(
        there
            .iter()
            .all(|(_, known)| known.card.peer_id.as_str() != "peer-0")
    );
    assert!(
        there
            .iter()
            .any(|(_, known)| known.card.peer_id == format!("peer-{}", 2_000 * times() - 1))
    );
}

// AG-DUP-4, AG-SEC-3
#[test]
fn distinct_identifiers_are_remembered_to_the_limit_and_the_nearest_to_its_end_goes_first() {
    let mut settings = a_tenth();
    settings.max_dedupe_entries = 10_000 * times();
    let mut host = Host::new(settings);
    host.host_named(None, CHANNEL, WORKER).unwrap();
    let ask = |number: usize, expires: i64| {
        let members = json!({
            "kind": "whois", "expires_at": NOW + expires, "body": {"type": "request", "query": "none"},
        });
        envelope(&format!("q{number}"), members).to_string()
    };
    host.receive(ask(flood(), 10), NOW);
    host.receive(ask(flood() + 1, 5_000), NOW);
    for number in 0..flood() {
        host.receive(ask(number, 1_000), NOW);
    }
    assert_eq!(host.soft().once.len(), 10_000 * times());
    // The one that ends first is forgotten, the one that ends last is not.
    assert_eq!(error(&host.receive(ask(flood(), 10), NOW)), "");
    assert_eq!(
        error(&host.receive(ask(flood() + 1, 5_000), NOW)),
        "duplicate"
    );
}

// AG-WHO-12
#[test]
fn questions_are_answered_twenty_times_a_second_and_no_more() {
    let mut host = flooded();
    let mut answers = 0;
    for number in 0..flood() {
        let members = json!({"kind": "whois", "body": {"type": "request"}});
        let ask = envelope(&format!("q{number}"), members);
        answers += host.receive(ask.to_string(), NOW).emitted.len();
    }
    assert_eq!(answers, 20);
    let members = json!({"kind": "whois", "body": {"type": "request"}});
    let later = host.receive(envelope("later", members).to_string(), NOW + 1);
    assert_eq!(later.emitted.len(), 1);
}

// AG-RCT-6
#[test]
fn receipts_are_not_reflected_without_bound() {
    let mut host = flooded();
    let mut receipts = 0;
    for number in 0..flood() {
        let members = json!({
            "kind": "direct", "to": WORKER, "interaction_id": "i", "expires_at": 1, "body": {"text": "x"},
        });
        let stale = envelope(&format!("m{number}"), members);
        receipts += host.receive(stale.to_string(), NOW).emitted.len();
    }
    assert_eq!(receipts, 50);
    assert!(host.soft().quotas.len() <= 2);
}

// AG-LIF-12, AG-DUP-4
#[test]
fn interactions_stay_within_their_limit_and_one_more_costs_no_more() {
    let mut host = flooded();
    let mut costs = Vec::new();
    for number in 0..30_000 * times() {
        let members = json!({
            "kind": "direct", "to": WORKER, "interaction_id": format!("i{number}"), "body": {"text": "x"},
        });
        let before = host.row_operations();
        let outcome = host.receive(envelope(&format!("m{number}"), members).to_string(), NOW);
        assert_eq!(outcome.deliver_to.len(), 1);
        costs.push(host.row_operations() - before);
    }
    assert!(
        host.interaction(None, CHANNEL, "i0").is_none(),
        "the oldest is gone"
    );
    let first_kept = 20_000 * times();
    let kept = |number: usize| {
        host.interaction(None, CHANNEL, &format!("i{number}"))
            .is_some()
    };
    assert!(kept(first_kept) && !kept(first_kept - 1));
    let cost = |from: usize| costs[from..from + 500].iter().sum::<u64>();
    // Between a thousand and the limit nothing grows; beyond it eviction adds its own few rows.
    assert!(
        cost(9_000 * times()) * 10 <= cost(1_000) * 15,
        "{} {}",
        cost(9_000 * times()),
        cost(1_000)
    );
    assert!(
        cost(29_000 * times()) * 10 <= cost(12_000 * times()) * 15,
        "{} {}",
        cost(29_000 * times()),
        cost(12_000 * times())
    );
}

/// What everything that strangers can fill may take: entries by their limits, bytes for each as it lies in memory with
/// its keys, its order and the tables' free places.
fn sum_of_limits(settings: &Settings) -> u64 {
    let quotas = 100_000;
    let entries = [
        (settings.max_remote_peers as u64, 2_048),
        (settings.max_dedupe_entries as u64, 192),
        // The record, its place in a queue and in the memory of duplicates.
        (settings.max_interactions, 2_048),
        (settings.max_conversations, 4_096),
        (quotas, 192),
    ];
    entries.iter().map(|(limit, bytes)| limit * bytes).sum()
}

/// The name of the variable that asks for the flood of everything.
const ALL: &str = "CHANCERY_FLOOD_OF_ALL";

// AG-SEC-3, CH-LIM-1
#[test]
fn a_flood_of_everything_at_once() {
    if std::env::var_os(ALL).is_none() {
        return;
    }
    let base = peak_kib();
    let mut host = flooded();
    for number in 0..flood() {
        let peer = format!("peer-{number}");
        let mut hello = greet(&format!("g{number}"), &peer);
        hello["channel"] = format!("channel-{}", number % 20).into();
        host.receive(hello.to_string(), NOW);
        let ask =
            json!({"kind": "whois", "from": peer, "body": {"type": "request", "query": "none"}});
        host.receive(envelope(&format!("q{number}"), ask).to_string(), NOW);
        let work = json!({
            "kind": "direct", "from": peer, "to": WORKER, "interaction_id": format!("i{number}"),
            "body": {"text": "x"},
        });
        host.receive(envelope(&format!("d{number}"), work).to_string(), NOW);
        let stale = json!({
            "kind": "direct", "from": peer, "to": WORKER, "interaction_id": "late", "expires_at": 1,
            "body": {"text": "x"},
        });
        host.receive(envelope(&format!("s{number}"), stale).to_string(), NOW);
        host.take_whispers();
    }
    println!("base {base} peak {}", peak_kib());
}

// AG-SEC-3, AG-PRS-6, AG-DUP-4, AG-LIF-12, CH-LIM-1
#[test]
fn memory_stays_within_the_sum_of_the_limits() {
    // In a process of its own: other tests have their own memory.
    let ran = std::process::Command::new(std::env::current_exe().unwrap())
        .args([
            "--exact",
            "floods::a_flood_of_everything_at_once",
            "--nocapture",
        ])
        .env(ALL, "1")
        .output()
        .unwrap();
    let out = String::from_utf8_lossy(&ran.stdout).into_owned();
    assert!(ran.status.success(), "{out}");
    let words: Vec<&str> = out.split_whitespace().collect();
    let number = |name: &str| {
        let at = words.iter().position(|word| *word == name).unwrap();
        words[at + 1].parse::<u64>().unwrap()
    };
    let (base, peak) = (number("base"), number("peak"));
    // Envelopes on record are remembered in windows, of which a node has one for all protocols; here the flood itself
    // is their bound.
    let windows = 128 * flood() as u64;
    let sum = sum_of_limits(&a_tenth()) + windows;
    println!(
        "{} of each: peak memory {peak} KiB of which {base} KiB before; the limits sum up to {} KiB",
        flood(),
        sum / 1_024
    );
    assert!(
        (peak - base) * 1_024 <= sum,
        "{peak} KiB beyond {base} KiB, {sum} bytes"
    );
}

/// The most memory that this process has held.
fn peak_kib() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    let digits = peak.and_then(|peak| peak.split_whitespace().next());
    digits
        .and_then(|digits| digits.parse().ok())
        .unwrap_or_default()
}
