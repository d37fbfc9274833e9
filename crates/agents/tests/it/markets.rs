//! The roles against each other: deals inside everybody's limits, disputes by evidence, the same log again.

use chancery_agents::market::{Report, Size, hold};

use crate::desk::assert_replays;

fn held(size: Size, threads: usize, dir: &std::path::Path) -> Report {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .unwrap();
    runtime
        .block_on(hold(size, threads, Some(dir), |_| {}))
        .unwrap()
}

/// 50 buyers and 20 merchants over 1,000 deals: at least 60 % settle, nobody leaves its limits, disputes are ruled both
/// ways, replay gives every line again, and the same seed gives the same log with another number of threads.
#[test]
fn a_thousand_deals_stay_inside_their_limits() {
    let size = Size {
        buyers: 50,
        merchants: 20,
        deals: 1_000,
        seed: 7,
    };
    let (one, two) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let report = held(size, 1, one.path());
    assert_eq!(report.deals, 1_000);
    assert!(report.settled >= 600, "{report:?}");
    assert_eq!((report.below_floor, report.above_budget), (0, 0));
    assert!(report.rulings_for_buyers > 0, "{report:?}");
    assert!(report.rulings_for_merchants > 0, "{report:?}");
    assert!(report.refunded > 0, "{report:?}");
    let again = held(size, 3, two.path());
    assert_eq!(again.settled, report.settled);
    let log = |dir: &std::path::Path| std::fs::read(dir.join("audit.jsonl")).unwrap();
    let (first, second) = (log(one.path()), log(two.path()));
    assert!(first == second, "the same seed gives the same log");
    assert_eq!(
        first.split(|byte| *byte == b'\n').count() as u64,
        report.lines + 1
    );

    let seed = std::fs::read_dir(one.path()).unwrap().find_map(|entry| {
        let path = entry.unwrap().path();
        let name = path.file_name()?.to_str()?;
        name.starts_with("seed-")
            .then(|| std::fs::read(&path).unwrap())
    });
    let seed = chancery_vibe::world::seed::Seed::parse(&seed.unwrap()).unwrap();
    let lines: Vec<bytes::Bytes> = first
        .split(|byte| *byte == b'\n')
        .filter(|line| !line.is_empty())
        .map(bytes::Bytes::copy_from_slice)
        .collect();
    assert_replays(&lines, &std::sync::Arc::new(seed));
    // Nothing that a side keeps to itself is in what the other side was told.
    let text = String::from_utf8_lossy(&first);
    assert!(!text.contains("PRIVATE_UTILITY"));
}

/// Another seed gives another market.
#[test]
fn another_seed_gives_another_market() {
    let size = |seed| Size {
        buyers: 3,
        merchants: 2,
        deals: 6,
        seed,
    };
    let (one, two) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    held(size(1), 2, one.path());
    held(size(2), 2, two.path());
    let log = |dir: &std::path::Path| std::fs::read(dir.join("audit.jsonl")).unwrap();
    assert!(log(one.path()) != log(two.path()));
}
