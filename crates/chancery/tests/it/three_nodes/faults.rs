//! What goes wrong, and when: drawn from a seed.

use std::sync::RwLock;
use std::time::Duration;

use chancery_testkit::nats_server::NatsServer;
use chancery_testkit::postgres_server::PostgresServer;

use super::clients::{Fleet, NODES};
use crate::kill::Random;
use crate::served::{Served, signal};
use crate::support::Place;

/// Longer than the lease of the duties (5 s), than a session may stand idle in a transaction (10 s), and than clients wait.
const PAUSE: Duration = Duration::from_secs(13);
/// What a start may take; the gaps between faults are drawn from what is left.
const START: Duration = Duration::from_secs(2);
/// Each node has one pause in so many seconds, and each server is restarted once.
const ROUND_S: u64 = 45;

/// What happens to a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// `kill -9`, and a start.
    Kill,
    /// Stopped in its tracks for longer than every timeout.
    Pause,
}

impl Fault {
    const fn takes(self) -> Duration {
        match self {
            Self::Kill => START,
            Self::Pause => PAUSE,
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
        let rounds = usize::try_from(seconds / ROUND_S).unwrap().max(1);
        let pauses = rounds.div_ceil(2);
        let nodes = std::array::from_fn(|_| {
            let mut faults = vec![Fault::Kill; rounds];
            for _ in 0..pauses {
                let at = random.between(0, faults.len() as u64 + 1) as usize;
                faults.insert(at, Fault::Pause);
            }
            let busy: Duration = faults.iter().map(|fault| fault.takes()).sum();
            let gaps = gaps(&mut random, faults.len(), seconds, busy);
            gaps.into_iter().zip(faults).collect()
        });
        let mut restarts = || gaps(&mut random, rounds, seconds, START * rounds as u32);
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

/// The servers; whoever starts a node keeps PostgreSQL from being killed meanwhile.
pub struct Servers {
    pub postgres: RwLock<PostgresServer>,
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
    let postgres = &*postgres;
    std::thread::scope(|scope| {
        let node = |(number, node): (usize, Served)| {
            let faults = &plan.nodes[number];
            scope.spawn(move || one_node(faults, number, place, postgres, fleet, node))
        };
        let lanes: Vec<_> = nodes.into_iter().enumerate().map(node).collect();
        let of_postgres = scope.spawn(|| {
            let killed = plan.postgres.iter().map(|peace| {
                std::thread::sleep(*peace);
                let mut server = postgres.write().unwrap();
                let killed = server.kill();
                server.restart();
                usize::from(killed)
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

/// What befalls one node. It must not end by itself: then the next signal to it fails.
fn one_node(
    faults: &[(Duration, Fault)],
    number: usize,
    place: &Place,
    postgres: &RwLock<PostgresServer>,
    fleet: &Fleet,
    mut node: Served,
) -> (Served, usize, usize) {
    let (mut kills, mut pauses) = (0, 0);
    for (peace, fault) in faults {
        std::thread::sleep(*peace);
        match fault {
            Fault::Kill => {
                node.kill();
                fleet.set(number, None);
                let _alive = postgres.read().unwrap();
                node = start(place, number);
                fleet.set(number, Some(node.address));
                kills += 1;
            }
            Fault::Pause => {
                signal("STOP", node.pid());
                std::thread::sleep(PAUSE);
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
    for seed in 0..100 {
        let plan = Plan::drawn(seed, 90);
        let count = |fault| {
            let all = plan.nodes.iter().flatten();
            all.filter(|(_, one)| *one == fault).count()
        };
        assert!(count(Fault::Kill) >= 5 && count(Fault::Pause) >= 3);
        assert!(!plan.postgres.is_empty() && !plan.nats.is_empty());
        for lane in &plan.nodes {
            let whole: Duration = lane
                .iter()
                .map(|(peace, fault)| *peace + fault.takes())
                .sum();
            assert!(whole <= Duration::from_secs(90));
        }
    }
}
