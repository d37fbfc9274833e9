//! `kill -9` at random moments under load (CH-NET-3): what was acknowledged is on record once, and nothing else is.
//!
//! A round counts as *killed while a batch was being written* when the log, as the killed process left it, ends in
//! bytes that nobody was told about: a torn line, or whole lines of envelopes whose sender had no answer yet. So the
//! kill fell between the first byte of a batch and its answers; a kill between two batches does not count, nor one
//! that came while envelopes were only read or decided.

use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use bytes::Bytes;
use chancery_core::protocol::Suite as _;
use chancery_core::rows::{Row, RowKey};
use chancery_node::suite::Chancery;
use chancery_store::{Embedded, Options, Store as _, recover};
use serde_json::Value;

use crate::served::{HOSTED, Served, Share, share};
use crate::support::Place;
use crate::wire::Wire;

/// Rounds of an ordinary run; `CHANCERY_KILL_ROUNDS` asks for another number.
const ROUNDS: usize = 50;
/// Of so many rounds at least one has to fall into a batch.
const ROUNDS_PER_BATCH_HIT: usize = 5;

#[test]
fn kill_at_any_moment_loses_nothing_acknowledged_and_repeats_nothing() {
    // CH-NET-3, CH-JRN-2, CH-JRN-4, VX-DUP-1
    let rounds = std::env::var("CHANCERY_KILL_ROUNDS").map_or(ROUNDS, |rounds| {
        rounds.parse().expect("CHANCERY_KILL_ROUNDS is a number")
    });
    // Small segments: kills fall into rotations too, and a start does not read the whole log.
    let place = Place::for_dev_node()
        .with("CHANCERY_SEGMENT_BYTES", "262144")
        .with("CHANCERY_INBOX_DEPTH", "100000000");
    let mut story = Story::default();
    let mut random = Random::new();
    let mut last = Vec::new();
    for round in 0..rounds {
        let node = place.serve();
        story.send_again(&node, &last);
        let moment = Duration::from_micros(random.between(50_000, 300_000));
        last = loaded_and_killed(node, moment);
        story.take_in(&last);
        story.read_log(&place, round, &last);
    }
    story.tell(rounds);
    assert!(
        story.hits * ROUNDS_PER_BATCH_HIT >= rounds,
        "too few kills fell into a batch"
    );
    let node = place.serve();
    story.send_again(&node, &last);
    node.stop_well();
    story.check_whole_log(&place);
    index_from_nothing_gives_the_same(&place, &story, &last);
    place.run(&["log", "verify", "data"]).exits(0);
    place.run(&["log", "replay", "data"]).exits(0);
}

/// An envelope and whether its sender was told that it is accepted.
struct Sent {
    share: Share,
    is_acknowledged: bool,
}

/// Loads a node over four connections until the moment of its end; gives what was sent.
fn loaded_and_killed(node: Served, moment: Duration) -> Vec<Sent> {
    let over = AtomicBool::new(false);
    let address = node.address;
    std::thread::scope(|scope| {
        let clients: Vec<_> = HOSTED
            .iter()
            .map(|agent| scope.spawn(|| send_until_it_dies(address, agent, &over)))
            .collect();
        // The moment itself is what is random here: nothing is awaited.
        std::thread::sleep(moment);
        // Before the kill: from here on a client may lose its node. An error before it is a fault.
        over.store(true, Ordering::SeqCst);
        node.kill();
        let join = |client: std::thread::ScopedJoinHandle<'_, _>| client.join().unwrap();
        clients.into_iter().flat_map(join).collect()
    })
}

fn send_until_it_dies(address: SocketAddr, agent: &str, over: &AtomicBool) -> Vec<Sent> {
    let mut sent: Vec<Sent> = Vec::new();
    let mut wire = match Wire::connect(address) {
        Ok(wire) => wire,
        Err(error) => {
            assert!(over.load(Ordering::SeqCst), "{error}");
            return sent;
        }
    };
    loop {
        let share = share(agent);
        let answer = wire.share(&share.bytes);
        let is_acknowledged = answer.is_ok();
        match answer {
            Ok(answer) => {
                let answer = answer.ok();
                assert_eq!(
                    (&answer["status"], &answer["message_id"]),
                    (&"accepted".into(), &share.id.as_str().into())
                );
            }
            Err(error) => assert!(over.load(Ordering::SeqCst), "before the kill: {error}"),
        }
        sent.push(Sent {
            share,
            is_acknowledged,
        });
        if !is_acknowledged {
            return sent;
        }
    }
}

/// What was sent, acknowledged and found on the log over all rounds.
#[derive(Default)]
struct Story {
    sent: BTreeSet<String>,
    acknowledged: BTreeSet<String>,
    /// Identifiers on the log.
    recorded: BTreeSet<String>,
    /// The last line that was read.
    seq: u64,
    hits: usize,
    torn: usize,
    duplicates: usize,
}

impl Story {
    fn take_in(&mut self, sent: &[Sent]) {
        for one in sent {
            self.sent.insert(one.share.id.clone());
            if one.is_acknowledged {
                self.acknowledged.insert(one.share.id.clone());
            }
        }
    }

    /// What had no answer is sent again, as a sender does: a duplicate exactly when it is on record.
    fn send_again(&mut self, node: &Served, last: &[Sent]) {
        let mut wire = node.wire();
        for one in last.iter().filter(|one| !one.is_acknowledged) {
            let answer = wire.share(&one.share.bytes).unwrap().ok();
            let known = self.recorded.contains(&one.share.id);
            let expected = if known { "duplicate" } else { "accepted" };
            assert_eq!(answer["status"], expected, "{}", one.share.id);
            self.duplicates += usize::from(known);
            self.acknowledged.insert(one.share.id.clone());
        }
    }

    /// Reads what is new on the log that a killed process left, before anybody repairs it.
    fn read_log(&mut self, place: &Place, round: usize, sent: &[Sent]) {
        let mut untold = 0;
        let text = new_text(place, self.seq);
        let whole = text
            .iter()
            .rposition(|byte| *byte == b'\n')
            .map_or(0, |at| at + 1);
        for line in text[..whole].split(|byte| *byte == b'\n') {
            let Some((seq, id)) = read_line(line).filter(|(seq, _)| *seq > self.seq) else {
                continue;
            };
            assert_eq!(seq, self.seq + 1, "round {round}: a gap");
            self.seq = seq;
            let Some(id) = id else { continue };
            assert!(self.sent.contains(&id), "round {round}: nobody sent {id}");
            untold += usize::from(!self.acknowledged.contains(&id));
            assert!(
                self.recorded.insert(id.clone()),
                "round {round}: twice: {id}"
            );
        }
        let is_torn = whole < text.len();
        self.torn += usize::from(is_torn);
        self.hits += usize::from(is_torn || untold > 0);
        let acknowledged = sent.iter().filter(|one| one.is_acknowledged);
        for one in acknowledged {
            let id = &one.share.id;
            assert!(
                self.recorded.contains(id),
                "round {round}: acknowledged and lost: {id}"
            );
        }
    }

    fn tell(&self, rounds: usize) {
        println!(
            "kill -9: {rounds} rounds, {} killed while a batch was being written ({} of them tore a line), \
             {} envelopes sent, {} acknowledged, {} on record, {} sent again and known",
            self.hits,
            self.torn,
            self.sent.len(),
            self.acknowledged.len(),
            self.recorded.len(),
            self.duplicates,
        );
    }

    /// Once more over the log as a clean stop left it, from its first line.
    fn check_whole_log(&mut self, place: &Place) {
        let text = new_text(place, 0);
        let lines = text
            .split(|byte| *byte == b'\n')
            .filter(|line| !line.is_empty());
        let mut found: BTreeMap<String, usize> = BTreeMap::new();
        for (number, line) in (1..).zip(lines) {
            let (seq, id) = read_line(line).expect("every line is whole");
            assert_eq!(seq, number);
            if let Some(id) = id {
                *found.entry(id).or_default() += 1;
            }
        }
        assert!(found.values().all(|times| *times == 1));
        let found: BTreeSet<String> = found.into_keys().collect();
        assert!(self.acknowledged.is_subset(&found) && found.is_subset(&self.sent));
        assert!(
            self.recorded.is_subset(&found),
            "a whole line is never taken back"
        );
        self.recorded = found;
    }
}

/// The text of the log from the file on that line `after` is in.
fn new_text(place: &Place, after: u64) -> Vec<u8> {
    let mut closed: Vec<(u64, String)> = std::fs::read_dir(place.path("data"))
        .unwrap()
        .filter_map(|entry| {
            let name = entry.unwrap().file_name().into_string().unwrap();
            let first = name.strip_prefix("audit-")?.strip_suffix(".jsonl")?;
            Some((first.parse().unwrap(), name))
        })
        .collect();
    closed.sort();
    let from = closed
        .partition_point(|(first, _)| *first <= after)
        .saturating_sub(1);
    let mut text = Vec::new();
    for (_, name) in &closed[from..] {
        text.extend(std::fs::read(place.path(&format!("data/{name}"))).unwrap());
    }
    // Killed between the two steps of a rotation there is no open file.
    text.extend(std::fs::read(place.path("data/audit.jsonl")).unwrap_or_default());
    text
}

/// A line's number, and the identifier of the envelope when it is one.
fn read_line(line: &[u8]) -> Option<(u64, Option<String>)> {
    let line: Value = serde_json::from_slice(line).ok()?;
    assert!(
        line["meta"].get("more").is_none(),
        "a share is one line: {line}"
    );
    let id = line["envelope"]["message_id"].as_str().map(str::to_owned);
    Some((line["meta"]["seq"].as_u64()?, id))
}

/// What the node shows: of each agent its state and the identifiers in its inbox.
fn shown(node: &Served) -> Vec<(Value, Vec<Value>)> {
    let of = |agent: &&str| {
        let entries = node.inbox(agent);
        let ids = entries
            .iter()
            .map(|entry| entry["envelope"]["message_id"].clone());
        (node.state(agent), ids.collect())
    };
    HOSTED.iter().map(of).collect()
}

fn index_from_nothing_gives_the_same(place: &Place, story: &Story, last: &[Sent]) {
    // CH-JRN-2: deleting the index costs start-up time and nothing else.
    let node = place.serve();
    let before = shown(&node);
    node.stop_well();
    let rows = rows(place);
    for name in ["index.db", "index.db-wal", "index.db-shm"] {
        let gone = std::fs::remove_file(place.path(&format!("data/{name}")));
        assert!(gone.is_ok() || name != "index.db");
    }
    let started = Instant::now();
    let node = place.serve();
    println!(
        "the index rebuilt from {} lines: {:?}",
        story.seq,
        started.elapsed()
    );
    assert_eq!(shown(&node), before);
    let in_inboxes: Vec<&Value> = before.iter().flat_map(|(_, ids)| ids).collect();
    let as_set: BTreeSet<String> = in_inboxes
        .iter()
        .map(|id| id.as_str().unwrap().to_owned())
        .collect();
    assert_eq!(as_set.len(), in_inboxes.len(), "nothing twice in an inbox");
    assert_eq!(
        as_set, story.recorded,
        "inboxes hold what is on record, and nothing else"
    );
    // The identifiers are remembered again too.
    for one in last {
        let answer = node.wire().share(&one.share.bytes).unwrap().ok();
        assert_eq!(answer["status"], "duplicate");
    }
    node.stop_well();
    assert_eq!(self::rows(place), rows);
}

/// Every row of the index, read by the store itself.
fn rows(place: &Place) -> Vec<(RowKey, Row)> {
    let suite = Chancery::default();
    let options = Options {
        windows: suite.windows(),
        segment_bytes: 262_144,
        ..Options::new(place.path("data"))
    };
    let (store, tail) = Embedded::open(&options).unwrap();
    assert!(
        tail.is_empty(),
        "a clean stop wrote the index to the end: {tail:?}"
    );
    recover(&suite, &store, &tail).unwrap();
    let everything = RowKey::from_stored(Bytes::new());
    let mut rows: Vec<(RowKey, Row)> = Vec::new();
    loop {
        let after = rows.last().map(|(key, _)| key.clone());
        let page = store.scan(&everything, after.as_ref(), 10_000).unwrap();
        if page.is_empty() {
            break;
        }
        rows.extend(page);
    }
    store.close().unwrap();
    assert!(!rows.is_empty());
    rows
}

/// Random moments. They decide when a process is killed, which no seed could make happen again to the microsecond.
pub struct Random(u64);

impl Random {
    pub fn new() -> Self {
        Self::from_seed(Self::seed())
    }

    /// A seed that nobody has drawn before.
    pub fn seed() -> u64 {
        let mut seed = [0; 8];
        getrandom::fill(&mut seed).unwrap();
        u64::from_le_bytes(seed)
    }

    /// The same seed gives the same numbers.
    pub fn from_seed(seed: u64) -> Self {
        Self(seed | 1)
    }

    pub fn between(&mut self, low: u64, high: u64) -> u64 {
        // xorshift64
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        low + self.0 % (high - low)
    }
}
