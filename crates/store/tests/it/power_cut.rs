//! The power fails anywhere, again and again: nothing acknowledged is missing, no unit is torn, the chain holds, and
//! after recovery it goes on (CH-JRN-2, CH-JRN-4, CH-NET-3).
//!
//! `CHANCERY_POWER_CUT_SEEDS` sets how many seeds are tried, `CHANCERY_POWER_CUT_FIRST` the first of them.

use std::collections::BTreeMap;
use std::fs;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use bytes::Bytes;
use chancery_core::rows::{Row, RowKey};
use chancery_journal::Head;
use chancery_store::log::LogError;
use chancery_store::testing::{Chance, Fault, SimDisk};
use chancery_store::{CommitError, Embedded, OpenError, Options, Store};

use crate::support::*;

const LIVES: usize = 4;
const INDEX_FILES: [&str; 3] = ["index.db", "index.db-wal", "index.db-shm"];

/// What the log may hold, unit by unit; the first `acknowledged` of them must be there.
#[derive(Default)]
struct Model {
    units: Vec<(Unit, Head)>,
    acknowledged: usize,
}

impl Model {
    fn head(&self) -> Head {
        self.units.last().map_or(Head::EMPTY, |(_, head)| *head)
    }

    fn lines(&self) -> Vec<Bytes> {
        self.units
            .iter()
            .flat_map(|(unit, _)| unit.lines.clone())
            .collect()
    }

    fn rows(&self) -> BTreeMap<RowKey, Row> {
        let mut rows = BTreeMap::new();
        for (key, value) in self.units.iter().flat_map(|(unit, _)| &unit.changes.rows) {
            match value {
                Some(value) => rows.insert(key.clone(), value.clone()),
                None => rows.remove(key),
            };
        }
        rows
    }
}

fn random_unit(chain: &mut chancery_journal::Chain, chance: &mut Chance) -> Unit {
    let lines = 1 + chance.below(4) as usize;
    let drafts: Vec<_> = (0..lines)
        .map(|_| draft(at(1_000), chance.below(700) as usize))
        .collect();
    let rows = (0..chance.below(4)).map(|_| {
        let name = format!("{:02}", chance.below(20));
        if chance.one_in(4) {
            gone(&name)
        } else {
            put(&name, &chance.next_u64().to_string())
        }
    });
    let rows = rows.collect::<BTreeMap<_, _>>().into_iter().collect();
    unit_of(chain, &drafts, rows, Vec::new())
}

/// Commits batches until the disk fails or it is enough.
fn live(store: &Embedded, model: &mut Model, chance: &mut Chance) {
    for _ in 0..1 + chance.below(12) {
        let mut units = Vec::new();
        let batch = batch(model.head(), |chain| {
            for _ in 0..1 + chance.below(5) {
                let unit = random_unit(chain, chance);
                units.push((unit.clone(), chain.head()));
            }
            units.iter().map(|(unit, _)| unit.clone()).collect()
        });
        model.units.extend(units);
        match store.commit(batch) {
            Ok(_) => model.acknowledged = model.units.len(),
            Err(CommitError::Failed(_)) => {
                let next =
                    crate::support::batch(store.head(), |chain| vec![random_unit(chain, chance)]);
                assert!(
                    matches!(store.commit(next), Err(CommitError::Failed(_))),
                    "a failure is final"
                );
                return;
            }
            Err(behind) => panic!("{behind}"),
        }
        if chance.one_in(6) {
            store.flush_index().unwrap();
        }
    }
}

/// Opens after a cut: finds out which units survived, and decides the tail again as the model says.
fn wake(disk: &SimDisk, options: &Options, model: &mut Model) -> Embedded {
    let (store, tail) = Embedded::open_on(Arc::new(disk.clone()), options)
        .unwrap_or_else(|error| panic!("{error}"));
    let survived = model
        .units
        .iter()
        .take_while(|(_, head)| head.seq <= tail.to)
        .count();
    assert!(
        survived >= model.acknowledged,
        "acknowledged units are missing"
    );
    model.units.truncate(survived);
    model.acknowledged = survived;
    assert_eq!(model.head().seq, tail.to, "a unit is torn");
    assert_eq!(store.lines(1, usize::MAX).unwrap(), model.lines());
    for (unit, head) in model.units.iter().filter(|(_, head)| head.seq >= tail.from) {
        store.take_in(vec![unit.changes.clone()], *head).unwrap();
    }
    assert_eq!(store.head(), model.head());
    let rows: BTreeMap<_, _> = store
        .scan(&RowKey::text("t", &[]), None, usize::MAX)
        .unwrap()
        .into_iter()
        .collect();
    assert_eq!(rows, model.rows());
    store.scrub(&AtomicBool::new(false)).unwrap();
    store
}

/// The index is what it was last, what it was at an earlier flush, or lost.
fn lose_index(dir: &Path, earlier: &Path, chance: &mut Chance) {
    match chance.below(4) {
        0 => INDEX_FILES
            .iter()
            .for_each(|name| drop(fs::remove_file(dir.join(name)))),
        1 => copy_index(earlier, dir),
        2 => copy_index(dir, earlier),
        _ => {}
    }
}

fn copy_index(from: &Path, to: &Path) {
    for name in INDEX_FILES {
        let _ = fs::remove_file(to.join(name));
        if from.join(name).exists() {
            fs::copy(from.join(name), to.join(name)).unwrap();
        }
    }
}

fn random_fault(chance: &mut Chance) -> Option<Fault> {
    Some(match chance.below(8) {
        0 => Fault::Append(chance.below(8)),
        1 => Fault::Full(chance.below(8)),
        2..=5 => Fault::Sync(chance.below(8)),
        6 => Fault::SyncDir(chance.below(3)),
        _ => return None,
    })
}

/// A directory in memory where there is one: how durable the index is, is not what is tried here.
fn scratch() -> tempfile::TempDir {
    tempfile::tempdir_in("/dev/shm")
        .or_else(|_| tempfile::tempdir())
        .unwrap()
}

/// A start that the power interrupts, perhaps while it cuts something off.
fn interrupted_start(disk: &SimDisk, options: &Options) {
    disk.inject(Fault::Sync(0));
    match Embedded::open_on(Arc::new(disk.clone()), options) {
        Ok((store, tail)) => assert_eq!(store.lines(tail.to + 1, 1).unwrap(), Vec::<Bytes>::new()),
        Err(error) => assert!(matches!(error, OpenError::Log(LogError::Io(_))), "{error}"),
    }
    disk.cut();
}

fn try_seed(seed: u64) {
    let mut chance = Chance::new(seed);
    let disk = SimDisk::new(chance.next_u64());
    let (dir, earlier) = (scratch(), scratch());
    let segment_bytes = 500 + chance.below(8_000);
    let options = Options {
        segment_bytes,
        ..options(dir.path())
    };
    let mut model = Model::default();
    for _ in 0..LIVES {
        if chance.one_in(8) {
            interrupted_start(&disk, &options);
        }
        let store = wake(&disk, &options, &mut model);
        if let Some(fault) = random_fault(&mut chance) {
            disk.inject(fault);
        }
        live(&store, &mut model, &mut chance);
        // Now and then only the process dies: what it wrote is still there, but not yet durable.
        if chance.one_in(3) {
            disk.heal();
        } else {
            disk.cut();
        }
        drop(store);
        lose_index(dir.path(), earlier.path(), &mut chance);
    }
    let store = wake(&disk, &options, &mut model);
    commit_lines(&store, 1);
}

fn number(variable: &str, default: u64) -> u64 {
    std::env::var(variable)
        .ok()
        .map_or(default, |text| text.parse().expect("a number"))
}

fn commit() -> String {
    let output = std::process::Command::new("git")
        .args(["rev-parse", "--short", "HEAD"])
        .output();
    output.map_or_else(
        |_| "unknown".into(),
        |output| String::from_utf8_lossy(&output.stdout).trim().to_owned(),
    )
}

#[test]
fn nothing_acknowledged_is_lost_when_the_power_fails() {
    let first = number("CHANCERY_POWER_CUT_FIRST", 0);
    let end = first + number("CHANCERY_POWER_CUT_SEEDS", 1_000);
    let next = AtomicU64::new(first);
    let workers = std::thread::available_parallelism().map_or(1, usize::from);
    std::thread::scope(|scope| {
        for _ in 0..workers {
            scope.spawn(|| {
                loop {
                    let seed = next.fetch_add(1, Ordering::Relaxed);
                    if seed >= end {
                        return;
                    }
                    if catch_unwind(AssertUnwindSafe(|| try_seed(seed))).is_err() {
                        panic!("(seed, commit) = ({seed}, {})", commit());
                    }
                }
            });
        }
    });
}
