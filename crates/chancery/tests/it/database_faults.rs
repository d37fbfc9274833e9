//! What can go wrong between nodes and PostgreSQL, one by one: no effect is lost, and none is doubled (CH-JRN-5).

use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::path::Path;
use std::process::Command;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use chancery_testkit::postgres_server::{PostgresServer, give};

use crate::agh_house::until;
use crate::on_postgres::{is_whole, recorded};
use crate::proxy::{Cut, Proxy};
use crate::served::{ENDS_ITSELF, HOSTED, Served, share, signal};
use crate::support::Place;
use crate::two_nodes::two;
use crate::wire::Wire;

/// Senders at some nodes, each an envelope after the other, and what they were told.
struct Senders {
    acknowledged: Mutex<Vec<String>>,
    count: AtomicUsize,
    over: AtomicBool,
}

impl Senders {
    /// Sends while `trouble` is made. Every envelope must be accepted, the first time it is sent.
    fn through(nodes: &[&Served], trouble: impl FnOnce(&Self)) -> Vec<String> {
        let senders = Self {
            acknowledged: Mutex::default(),
            count: AtomicUsize::new(0),
            over: AtomicBool::new(false),
        };
        std::thread::scope(|scope| {
            for (n, agent) in HOSTED.into_iter().enumerate() {
                let (address, senders) = (nodes[n % nodes.len()].address, &senders);
                scope.spawn(move || senders.send(address, agent));
            }
            let made = std::panic::AssertUnwindSafe(|| {
                senders.more();
                trouble(&senders);
                senders.more();
            });
            let made = std::panic::catch_unwind(made);
            senders.over.store(true, Ordering::SeqCst);
            made.unwrap_or_else(|panic| std::panic::resume_unwind(panic));
        });
        senders.acknowledged.into_inner().unwrap()
    }

    fn send(&self, address: SocketAddr, agent: &str) {
        let mut wire = Wire::connect(address).unwrap();
        while !self.over.load(Ordering::SeqCst) {
            let share = share(agent);
            let told = wire.share(&share.bytes).unwrap().ok();
            assert_eq!(told["status"], "accepted", "it was sent once");
            self.acknowledged.lock().unwrap().push(share.id);
            self.count.fetch_add(1, Ordering::SeqCst);
        }
    }

    /// Waits until more were acknowledged: whatever was wrong is over.
    fn more(&self) {
        let before = self.count.load(Ordering::SeqCst);
        until("more is acknowledged", || {
            (self.count.load(Ordering::SeqCst) > before + 20).then_some(())
        });
    }
}

/// Everything that was acknowledged is on the log once, and nothing else is.
fn is_on_record(place: &Place, acknowledged: Vec<String>) {
    let recorded = recorded(&is_whole(place));
    println!("{} acknowledged", acknowledged.len());
    let once: BTreeSet<&String> = recorded.iter().collect();
    assert_eq!(once.len(), recorded.len(), "nothing twice");
    assert_eq!(once, acknowledged.iter().collect());
}

fn address(server: &PostgresServer) -> SocketAddr {
    let (_, place) = server.url().split_once('@').unwrap();
    place.split('/').next().unwrap().parse().unwrap()
}

#[test]
fn connections_that_end_in_the_middle_of_a_commit_leave_no_doubt() {
    let server = PostgresServer::start();
    let proxy = Proxy::to(address(&server));
    let way = server
        .url()
        .replace(&address(&server).to_string(), &proxy.address.to_string());
    let place = Place::for_dev_node()
        .on(&server, "cut")
        .with("CHANCERY_STORE", &way);
    let node = place.serve();
    let acknowledged = Senders::through(&[&node], |senders| {
        for round in 1..=10 {
            for cut in [Cut::BeforeCommit, Cut::AfterCommit] {
                let cuts = proxy.cut(cut);
                println!("round {round}, {cut:?}: {cuts} cuts");
                senders.more();
            }
        }
    });
    node.stop_well();
    is_on_record(&place, acknowledged);
}

#[test]
fn a_deadlock_with_another_session_costs_a_moment_and_nothing_else() {
    let server = PostgresServer::start();
    let place = Place::for_dev_node().on(&server, "deadlocks");
    let nodes = two(&place);
    let deadlocks = || nodes[0].stderr().matches("40P01").count();
    let acknowledged = Senders::through(&[&nodes[0], &nodes[1]], |senders| {
        for _ in 0..20 {
            // First what a commit takes last, then what it takes first. Whoever has waited for a second by then finds the
            // deadlock and gives way: mostly the node. One that looked too early is found by this side, later.
            let ended = server.attempt(
                "BEGIN; SET LOCAL deadlock_timeout = '10s';
                 SELECT count(*) FROM (SELECT 1 FROM chancery.state FOR UPDATE) AS every;
                 SELECT pg_sleep(0.1);
                 SELECT seq FROM chancery.journal FOR UPDATE; COMMIT",
            );
            if let Err(complaint) = ended {
                assert!(complaint.contains("deadlock detected"), "{complaint}");
            }
            senders.more();
            if deadlocks() > 0 {
                break;
            }
        }
    });
    println!("{} deadlocks", deadlocks());
    assert!(deadlocks() > 0, "{}", nodes[0].stderr());
    nodes.into_iter().for_each(Served::stop_well);
    is_on_record(&place, acknowledged);
}

/// The ports of a process's own ends of its connections.
fn ports_of(pid: u32) -> BTreeSet<u16> {
    let files = std::fs::read_dir(format!("/proc/{pid}/fd")).unwrap();
    let socket = |file: std::fs::DirEntry| {
        let to = std::fs::read_link(file.path()).ok()?;
        let number = to.to_str()?.strip_prefix("socket:[")?.strip_suffix(']');
        number.map(str::to_owned)
    };
    let sockets: BTreeSet<String> = files.flatten().filter_map(socket).collect();
    let table = std::fs::read_to_string(format!("/proc/{pid}/net/tcp")).unwrap();
    // Its own address is the second word of a line, the number of the socket the tenth.
    let port = |line: &str| {
        let words: Vec<&str> = line.split_whitespace().collect();
        let (_, port) = words.get(1)?.split_once(':')?;
        let port = u16::from_str_radix(port, 16).ok()?;
        sockets.contains(*words.get(9)?).then_some(port)
    };
    table.lines().skip(1).filter_map(port).collect()
}

#[test]
fn a_node_that_is_paused_while_it_holds_the_head_loses_it_and_commits_nothing_of_it() {
    let server = PostgresServer::start();
    let place = Place::for_dev_node().on(&server, "held");
    let [a, b] = two(&place);
    // The server waits for a word of these, and somebody for what they hold: the other node's transactions stand idle as
    // well, for moments, and some hold nothing.
    let waits_for = "SELECT client_port FROM pg_stat_activity AS holds WHERE datname = current_database()
        AND state = 'idle in transaction' AND state_change < clock_timestamp() - interval '100 ms'
        AND EXISTS (SELECT FROM pg_stat_activity AS waits WHERE holds.pid = ANY (pg_blocking_pids(waits.pid)))";
    let acknowledged = Senders::through(&[&a, &b], |senders| {
        // Paused at any moment, until one is in the middle of a transaction.
        until("a node is paused with the head in its hands", || {
            signal("STOP", a.pid());
            std::thread::sleep(std::time::Duration::from_millis(150));
            let own = ports_of(a.pid());
            let waited_for = server.answer(waits_for);
            let holds = waited_for
                .lines()
                .any(|port| own.contains(&port.parse().unwrap()));
            if !holds {
                signal("CONT", a.pid());
            }
            holds.then_some(())
        });
        // The server takes the head from it: the other node goes on while it is still paused.
        senders.more();
        signal("CONT", a.pid());
    });
    let told = a.stderr();
    assert!(
        told.contains("a connection to PostgreSQL ended"),
        "it was not taken from it: {told}"
    );
    [a, b].into_iter().for_each(Served::stop_well);
    is_on_record(&place, acknowledged);
}

#[test]
fn a_server_that_is_silent_is_waited_for_and_then_given_up() {
    let server = PostgresServer::of_its_own();
    let place = Place::for_dev_node().on(&server, "silent");
    let nodes = two(&place);
    let mut acknowledged = Senders::through(&[&nodes[0], &nodes[1]], |_| {
        server.pause();
        // The silence itself: nothing else happens in it. It is longer than any time but the nodes' patience.
        std::thread::sleep(std::time::Duration::from_secs(20));
        server.resume();
    });
    server.pause();
    // What is sent now is not answered well: the node ends, because it cannot know what became of it.
    let shares = [share(HOSTED[0]), share(HOSTED[1])];
    std::thread::scope(|scope| {
        for (node, share) in nodes.iter().zip(&shares) {
            let mut wire = node.wire();
            scope.spawn(move || {
                let told = wire.share(&share.bytes);
                assert!(!told.is_ok_and(|answer| answer.status == 200));
            });
        }
    });
    for node in nodes {
        let (status, told) = node.ended_by_itself();
        assert_eq!(status.code(), Some(3), "{told}");
        assert!(told.contains(ENDS_ITSELF), "{told}");
    }
    server.resume();
    let nodes = two(&place);
    for (node, share) in nodes.iter().zip(&shares) {
        let told = node.wire().share(&share.bytes).unwrap().ok();
        assert!(["accepted", "duplicate"].contains(&told["status"].as_str().unwrap()));
        acknowledged.push(share.id.clone());
    }
    nodes.into_iter().for_each(Served::stop_well);
    is_on_record(&place, acknowledged);
}

#[test]
fn a_node_that_starts_before_its_database_waits_for_it_and_not_for_ever() {
    let mut server = PostgresServer::of_its_own();
    let place = Place::for_dev_node().on(&server, "early");
    server.kill();
    let says = |file: &str| {
        let told = std::fs::read_to_string(place.path(file)).unwrap_or_default();
        told.contains("cannot be reached").then_some(())
    };
    std::thread::scope(|scope| {
        let node = scope.spawn(|| place.serve());
        until("the node has looked for it", || says("stderr.log"));
        server.restart();
        let node = node.join().unwrap();
        node.wire().share(&share(HOSTED[0]).bytes).unwrap().ok();
        node.stop_well();
    });
    server.kill();
    // Meanwhile it can be stopped (CH-NET-3).
    let log = std::fs::File::create(place.path("waits.log")).unwrap();
    let mut waiting = place.command(&["serve"]).stderr(log).spawn().unwrap();
    until("the node waits", || says("waits.log"));
    signal("TERM", waiting.id());
    assert!(waiting.wait().unwrap().success());
    // Who reads only is told at once.
    place.run(&["log", "verify"]).exits(2);
    let told = place.refuses_to_serve(&[]).exits(3);
    assert!(
        told.err.matches("cannot be reached").count() > 10,
        "{}",
        told.err
    );
}

#[test]
fn a_replica_that_is_promoted_has_everything_that_was_acknowledged() {
    let mut primary = PostgresServer::of_its_own();
    let standby = primary.standby();
    // As failover.md says: both servers, and the one that takes writes is meant.
    let both = format!(
        "postgres://chancery@{},{}/postgres?target_session_attrs=read-write",
        address(&primary),
        address(&standby)
    );
    let place = Place::for_dev_node()
        .on(&primary, "promoted")
        .with("CHANCERY_STORE", &both);
    let nodes = two(&place);
    let acknowledged = Senders::through(&[&nodes[0], &nodes[1]], |_| {
        primary.kill();
        standby.execute("SELECT pg_promote()");
    });
    nodes.into_iter().for_each(Served::stop_well);
    is_on_record(&place, acknowledged);
}

/// A small file system, gone with the test.
pub struct Small {
    dir: tempfile::TempDir,
}

impl Small {
    /// None where nobody lets this test mount one; says why.
    pub fn mount(size: &str) -> Option<Self> {
        let small = Self {
            dir: tempfile::tempdir().unwrap(),
        };
        let mounted = Command::new("mount")
            .args(["-t", "tmpfs", "-o", &format!("size={size}"), "none"])
            .arg(small.dir.path())
            .output();
        let why = match mounted {
            Ok(told) if told.status.success() => return Some(small),
            Ok(told) => String::from_utf8_lossy(&told.stderr).into_owned(),
            Err(error) => error.to_string(),
        };
        println!("left out: no small file system can be mounted here: {why}");
        None
    }

    pub fn path(&self) -> &Path {
        self.dir.path()
    }

    fn grow(&self, size: &str) {
        let option = format!("remount,size={size}");
        let grown = Command::new("mount")
            .args(["-o", &option])
            .arg(self.path())
            .status();
        assert!(grown.unwrap().success());
    }
}

impl Drop for Small {
    fn drop(&mut self) {
        // Nothing can be done about one that stays.
        let _ = Command::new("umount")
            .arg("--lazy")
            .arg(self.path())
            .status();
    }
}

#[test]
fn a_full_disk_is_waited_for() {
    let Some(small) = Small::mount("1m") else {
        return;
    };
    give(small.path());
    let server = PostgresServer::of_its_own();
    let place = Place::for_dev_node().on(&server, "full");
    place.serve().stop_well();
    server.execute(&format!(
        "CREATE TABLESPACE small LOCATION '{}'",
        small.path().display()
    ));
    server.execute("ALTER TABLE chancery.line SET TABLESPACE small");
    let node = place.serve();
    let acknowledged = Senders::through(&[&node], |_| {
        // 53100: no space left on the device.
        until("the disk is full", || {
            node.stderr().contains("53100").then_some(())
        });
        small.grow("256m");
    });
    node.stop_well();
    is_on_record(&place, acknowledged);
}
