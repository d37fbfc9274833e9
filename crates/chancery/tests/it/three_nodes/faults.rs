//! What goes wrong, and when: drawn from a seed.

use std::time::Duration;

use chancery_testkit::nats_server::NatsServer;
use chancery_testkit::postgres_server::PostgresServer;

use super::clients::{Fleet, NODES};
use crate::kill::Random;
use crate::served::{Served, signal};
use crate::support::Place;

/// Longer than every time that a node gives others: the longest are 30 s, for PostgreSQL to come back and for a delivery to
/// have its turn.
const PAUSE_MS: u64 = 31_000;
/// Runs of so many seconds are long ones.
pub const LONG_S: u64 = 600;
/// In those pauses are also longer than what rules and clients wait for: the longest is a minute.
const LONG_PAUSES_MS: (u64, u64) = (61_000, 76_000);
/// What a start may take; the gaps between faults are drawn from what is left.
const START: Duration = Duration::from_secs(2);
/// In so many seconds, of an ordinary run and of a long one, each node is paused once and killed twice, and each server is
/// restarted twice.
const ROUNDS_S: (u64, u64) = (90, 180);
/// One of so many faults of a node is a pause. Each node begins at another place, so that seldom all are paused at once.
const PAUSED_EVERY: usize = 3;
const RESTARTS: usize = 2;

/// What happens to a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// `kill -9`, and a start.
    Kill,
    /// Stopped in its tracks for so long.
    Pause(Duration),
}

impl Fault {
    const fn takes(self) -> Duration {
        match self {
            Self::Kill => START,
            Self::Pause(time) => time,
        }
    }
}

/// All faults of a run.
#[derive(Debug, PartialEq, Eq)]
pub struct Plan {
    /// For each node what happens, each after a time of peace.
    nodes: [Vec<(Duration, Fault)>; NODES],
    /// Times of peace before each restart.
    postgres: Vec<Duration>,
    nats: Vec<Duration>,
}

/// How often each happened.
#[derive(Clone, Copy, Debug, Default)]
pub struct Counted {
    pub kills: usize,
    pub pauses: usize,
    pub postgres: usize,
    pub nats: usize,
}

impl Plan {
    pub fn drawn(seed: u64, seconds: u64) -> Self {
        let mut random = Random::from_seed(seed);
        let is_long = seconds >= LONG_S;
        let round_s = if is_long { ROUNDS_S.1 } else { ROUNDS_S.0 };
        let rounds = usize::try_from(seconds / round_s).unwrap().max(1);
        let first = random.between(0, NODES as u64) as usize;
        let nodes = std::array::from_fn(|node| {
            let fault = |n| match (n + node + first) % PAUSED_EVERY {
                0 if is_long => {
                    let (least, most) = LONG_PAUSES_MS;
                    Fault::Pause(Duration::from_millis(random.between(least, most)))
                }
                0 => Fault::Pause(Duration::from_millis(PAUSE_MS)),
                _ => Fault::Kill,
            };
            let faults: Vec<Fault> = (0..rounds * PAUSED_EVERY).map(fault).collect();
            let busy: Duration = faults.iter().map(|fault| fault.takes()).sum();
            let gaps = gaps(&mut random, faults.len(), seconds, busy);
            gaps.into_iter().zip(faults).collect()
        });
        let count = rounds * RESTARTS;
        let mut restarts = || gaps(&mut random, count, seconds, START * count as u32);
        Self {
            nodes,
            postgres: restarts(),
            nats: restarts(),
        }
    }
}

/// Times of peace between so many faults and after the last.
fn gaps(random: &mut Random, faults: usize, seconds: u64, busy: Duration) -> Vec<Duration> {
    let peace = Duration::from_secs(seconds).saturating_sub(busy);
    let weights: Vec<u64> = (0..=faults).map(|_| random.between(100, 1_000)).collect();
    let sum = weights.iter().sum::<u64>() as f64;
    let gap = |weight: &u64| peace.mul_f64(*weight as f64 / sum);
    weights[..faults].iter().map(gap).collect()
}

/// What the nodes need beside each other. Either may be away when a node starts.
pub struct Servers {
    pub postgres: PostgresServer,
    pub nats: NatsServer,
}

/// Starts one of the nodes.
pub fn start(place: &Place, number: usize) -> Served {
    place.serve_with(&["--data", &format!("data-{number}")])
}

/// Lets everything go wrong as planned. The nodes that are there in the end, and what happened.
pub fn befall(
    plan: &Plan,
    place: &Place,
    servers: &mut Servers,
    fleet: &Fleet,
    nodes: [Served; NODES],
) -> (Vec<Served>, Counted) {
    let Servers { postgres, nats } = servers;
    std::thread::scope(|scope| {
        let node = |(number, node): (usize, Served)| {
            let faults = &plan.nodes[number];
            scope.spawn(move || one_node(faults, number, place, fleet, node))
        };
        let lanes: Vec<_> = nodes.into_iter().enumerate().map(node).collect();
        let of_postgres = scope.spawn(|| {
            let killed = plan.postgres.iter().map(|peace| {
                std::thread::sleep(*peace);
                postgres.kill();
                postgres.restart();
                1
            });
            killed.sum::<usize>()
        });
        for peace in &plan.nats {
            std::thread::sleep(*peace);
            nats.kill();
            nats.restart();
        }
        let mut counted = Counted {
            nats: plan.nats.len(),
            postgres: of_postgres.join().unwrap(),
            ..Counted::default()
        };
        let ended = lanes.into_iter().map(|lane| lane.join().unwrap());
        let nodes = ended.map(|(node, kills, pauses)| {
            counted.kills += kills;
            counted.pauses += pauses;
            node
        });
        (nodes.collect(), counted)
    })
}

/// What befalls one node. It must not end by itself.
fn one_node(
    faults: &[(Duration, Fault)],
    number: usize,
    place: &Place,
    fleet: &Fleet,
    mut node: Served,
) -> (Served, usize, usize) {
    let (mut kills, mut pauses) = (0, 0);
    for (peace, fault) in faults {
        std::thread::sleep(*peace);
        // A signal tells nothing: it also reaches a process that has ended and was not waited for.
        assert!(node.still_runs(), "node {number}: {}", node.stderr());
        match fault {
            Fault::Kill => {
                node.kill();
                fleet.set(number, None);
                node = start(place, number);
                fleet.set(number, Some(node.address));
                kills += 1;
            }
            Fault::Pause(time) => {
                signal("STOP", node.pid());
                std::thread::sleep(*time);
                signal("CONT", node.pid());
                pauses += 1;
            }
        }
    }
    (node, kills, pauses)
}

#[test]
fn a_seed_gives_the_same_faults_and_enough_of_them() {
    let plan = Plan::drawn(7, 90);
    assert_eq!(plan, Plan::drawn(7, 90));
    assert_ne!(plan, Plan::drawn(8, 90));
    for (seed, seconds) in (0..100).flat_map(|seed| [(seed, 90), (seed, LONG_S), (seed, 1_800)]) {
        let plan = Plan::drawn(seed, seconds);
        let all: Vec<Fault> = plan.nodes.iter().flatten().map(|(_, one)| *one).collect();
        let pauses = all.iter().filter(|fault| **fault != Fault::Kill);
        let (least, most) = if seconds == 90 { (31, 31) } else { (61, 76) };
        let holds = |pause: &Fault| (least..=most).contains(&pause.takes().as_secs());
        assert!(pauses.clone().all(holds), "{plan:?}");
        assert!(pauses.clone().count() >= 3 && all.len() >= pauses.count() + 5);
        assert!(plan.postgres.len() >= RESTARTS && plan.nats.len() >= RESTARTS);
        for lane in &plan.nodes {
            let whole: Duration = lane
                .iter()
                .map(|(peace, fault)| *peace + fault.takes())
                .sum();
            assert!(whole <= Duration::from_secs(seconds));
        }
    }
}
