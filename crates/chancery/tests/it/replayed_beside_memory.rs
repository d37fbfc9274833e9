//! A replay whose rows lie in a file for the most part comes to what one in memory comes to.

use std::sync::Arc;

use bytes::Bytes;
use chancery_bench::write_deals;
use chancery_core::digest::Sha256Digest;
use chancery_core::rows::Rows;
use chancery_journal::{Backing, InMemory, ReplayReport, Replayer, prepare_under};
use chancery_node::suite::Chancery;
use chancery_store::Scratch;
use chancery_vibe::world::hash::{state_hash, world_hash};
use chancery_vibe::world::seed::Seed;

use crate::support::Place;

const LINES: u64 = 3_000;

/// What replay found, and the hashes of the world that it left.
type Told = (ReplayReport, Option<Sha256Digest>, Sha256Digest);

fn replayed<B: Backing>(suite: &Chancery, lines: &[Bytes], backing: B) -> Told {
    let mut replayer = Replayer::on(suite.clone(), backing).unwrap();
    for line in lines {
        let terms = replayer.terms();
        replayer.take(prepare_under(suite, line.clone(), &terms));
    }
    let (report, rows) = replayer.end();
    let rows: &dyn Rows = &rows;
    let (world, state) = (world_hash(rows).unwrap(), state_hash(rows).unwrap());
    (report, world, state)
}

#[test]
fn a_log_replays_the_same_wherever_its_rows_lie() {
    // CH-JRN-7, VC-RPL-1, VC-WLD-4
    let place = Place::new();
    let deals = write_deals(&place.path("."), LINES).unwrap();
    let seed = Seed::parse(place.read("world.json").as_bytes()).unwrap();
    let suite = Chancery::with_seed(Arc::new(seed));
    let lines = place.read("audit.jsonl");
    let lines: Vec<Bytes> = lines
        .lines()
        .map(|line| Bytes::copy_from_slice(line.as_bytes()))
        .collect();
    let in_memory = replayed(&suite, &lines, InMemory::default());
    assert_eq!(
        (in_memory.0.replayed, &in_memory.0.divergence),
        (deals.lines, &None)
    );
    // A generation of every unit, of a few deals, and one that is never full.
    for generation_bytes in [1, 20_000, usize::MAX] {
        let beside = replayed(&suite, &lines, Scratch::of_generations(generation_bytes));
        assert_eq!(beside, in_memory, "generations of {generation_bytes} bytes");
    }
}
