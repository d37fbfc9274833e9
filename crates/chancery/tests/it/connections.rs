//! Ten thousand connections from a second process, most of them up to no good (CH-LIM-1, CH-LIM-2): the node stays
//! within its memory, and another client's envelopes are all accepted meanwhile.
//!
//! The second process is this test binary again, with [`swarm`] alone and `CHANCERY_SWARM` set. Each of its
//! misbehaving connections comes from a loopback address of its own, so that VX-ERR-4 does not refuse them unread.

use std::io::{BufRead as _, BufReader};
use std::net::{Ipv4Addr, SocketAddr};
use std::ops::Range;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpSocket, TcpStream};
use tokio::task::JoinSet;

use crate::served::{HOSTED, Served, share};
use crate::support::Place;
use crate::wire::MESSAGES;

const WANTED: usize = 10_000;
/// Files that a process has open beside its connections.
const OTHER_FILES: usize = 500;
const MOST_RSS_KB: u64 = 400 * 1024;
/// How often a swarm is tried: a busy machine may lose its first connections before its last are open.
const SWARMS: usize = 4;
/// How many connections a swarm opens at once.
const AT_ONCE: usize = 16;
/// Names the node's address and the number of connections to the second process.
const SWARM: &str = "CHANCERY_SWARM";

#[test]
fn ten_thousand_connections_do_not_keep_another_client_out() {
    // CH-LIM-1, CH-LIM-2, VX-ENV-7
    let limit = open_files_limit();
    let wanted = WANTED.min(limit.saturating_sub(OTHER_FILES) / 10 * 9);
    println!(
        "connections: {} are opened (open files limited to {limit})",
        wanted + wanted / 10
    );
    let is_most = |open: usize| open * 10 >= wanted * 9;
    assert!(
        (0..SWARMS).any(|_| is_most(withstood(wanted))),
        "nearly {wanted} were never open at once"
    );
}

/// A node under a swarm, and another client meanwhile; gives how many connections the node saw open at once. Each swarm has
/// a node of its own, for what one has cost is not given back to the last byte.
fn withstood(wanted: usize) -> usize {
    let place = Place::for_dev_node();
    let node = place.start(with_all_files(place.command(&["serve"])));
    let over = AtomicBool::new(false);
    let accepted = AtomicUsize::new(0);
    let open = std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut wire = node.wire();
            while !over.load(Ordering::SeqCst) {
                let answer = wire.share(&share(HOSTED[0]).bytes).unwrap().ok();
                assert_eq!(answer["status"], "accepted");
                accepted.fetch_add(1, Ordering::SeqCst);
            }
        });
        let _ends = SetAtEnd(&over);
        most_open(&place, &node, wanted)
    });
    let accepted = accepted.into_inner();
    let rss_kb = peak_rss_kb(node.pid());
    println!(
        "connections: {open} seen open at once by the node, peak resident memory {rss_kb} kB, \
         {accepted} envelopes of another client accepted meanwhile"
    );
    assert!(rss_kb < MOST_RSS_KB);
    assert!(accepted > 0);
    assert_eq!(node.inbox(HOSTED[0]).len(), accepted);
    node.stop_well();
    open
}

/// One swarm, from its first connection to its last; gives how many the node saw open at once.
fn most_open(place: &Place, node: &Served, wanted: usize) -> usize {
    let mut swarm = start_swarm(place, node.address, wanted);
    let lines = BufReader::new(swarm.stdout.take().unwrap()).lines();
    let (mut told, mut most) = (Vec::new(), 0);
    for line in lines {
        let line = line.unwrap();
        if line.contains("swarm:") {
            most = most.max(open_connections(node));
            println!("{line}");
        }
        told.push(line);
    }
    assert!(swarm.wait().unwrap().success(), "{}", told.join("\n"));
    most
}

/// Ends the other client also when this thread fails.
pub struct SetAtEnd<'f>(pub &'f AtomicBool);

impl Drop for SetAtEnd<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::SeqCst);
    }
}

/// How many files a process may have open once it asked for all it may have.
fn open_files_limit() -> usize {
    let asked = Command::new("sh")
        .args(["-c", "ulimit -Hn"])
        .output()
        .unwrap();
    let text = String::from_utf8(asked.stdout).unwrap();
    text.trim().parse().unwrap_or(usize::MAX)
}

/// The same command, with as many open files as it may have.
fn with_all_files(command: Command) -> Command {
    let mut raised = Command::new("sh");
    raised
        .args(["-c", "ulimit -n \"$(ulimit -Hn)\"; exec \"$0\" \"$@\""])
        .arg(command.get_program())
        .args(command.get_args());
    if let Some(dir) = command.get_current_dir() {
        raised.current_dir(dir);
    }
    for (name, value) in command.get_envs() {
        match value {
            Some(value) => raised.env(name, value),
            None => raised.env_remove(name),
        };
    }
    raised
}

fn start_swarm(place: &Place, address: SocketAddr, wanted: usize) -> Child {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command
        .args(["--exact", "connections::swarm", "--nocapture"])
        .env(SWARM, format!("{address} {wanted}"))
        .current_dir(place.path(""));
    let mut command = with_all_files(command);
    command.stdout(Stdio::piped()).spawn().unwrap()
}

/// What the node says about its open connections.
fn open_connections(node: &Served) -> usize {
    let metrics = node.wire().get("/metrics").unwrap().text();
    let used = "chancery_bound_used{bound=\"connections\"} ";
    let line = metrics.lines().find_map(|line| line.strip_prefix(used));
    line.unwrap_or_else(|| panic!("{metrics}")).parse().unwrap()
}

fn peak_rss_kb(pid: u32) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let line = status
        .lines()
        .find_map(|line| line.strip_prefix("VmHWM:"))
        .unwrap();
    line.trim().trim_end_matches(" kB").parse().unwrap()
}

/// The second process. Run by itself it has nothing to do.
#[test]
fn swarm() {
    let Ok(task) = std::env::var(SWARM) else {
        return;
    };
    let (address, wanted) = task.split_once(' ').unwrap();
    let (address, wanted) = (address.parse().unwrap(), wanted.parse().unwrap());
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build();
    runtime.unwrap().block_on(misbehave(address, wanted));
}

async fn misbehave(node: SocketAddr, wanted: usize) {
    let bodies = Arc::new(bad_requests());
    // First those that stay longest: what has had an answer may be idle for 75 s, a head may take 10 s.
    let bad = open_all(0..wanted * 4 / 10, move |number| {
        let bodies = Arc::clone(&bodies);
        async move {
            let mut stream = connect(node, number).await;
            let (name, request) = &bodies[number % bodies.len()];
            stream.write_all(request).await.unwrap();
            check_refused(&mut stream, name).await.then_some(stream)
        }
    })
    .await;
    let refused = bad.len();
    let mut idle: Vec<TcpStream> = bad.into_iter().flatten().collect();
    println!(
        "swarm: {refused} bad requests refused, {} of their connections kept",
        idle.len()
    );
    // Connections that were closed with their answer are made up for by others that ask something harmless.
    let rest = wanted * 6 / 10;
    let healthy = move |number| async move {
        let mut stream = connect(node, number).await;
        let healthy = b"GET /healthz HTTP/1.1\r\nhost: localhost\r\n\r\n";
        stream.write_all(healthy).await.unwrap();
        let mut answer = [0; 1024];
        let length = stream.read(&mut answer).await.unwrap();
        assert!(answer[..length].starts_with(b"HTTP/1.1 200 "));
        stream
    };
    idle.extend(open_all(idle.len()..wanted - rest, healthy).await);
    println!("swarm: {} idle", idle.len());
    let (mut silent, mut half_open, mut slow) = (Vec::new(), Vec::new(), Vec::new());
    let begun = move |number| async move {
        let mut stream = connect(node, number).await;
        if number % 3 == 1 {
            // Most of a body, and then nothing: together more than unfinished bodies may take.
            let _ = stream.write_all(&head(MESSAGES, 60_000)).await;
            let _ = stream.write_all(&[b' '; 40_000]).await;
        }
        (number % 3, stream)
    };
    for (kind, stream) in open_all(0..rest, begun).await {
        match kind {
            0 => silent.push(stream),
            1 => half_open.push(stream),
            _ => slow.push(stream),
        }
    }
    // The node refuses half-open ones once their bodies take too much; others take their places.
    silent.extend(open_all(0..wanted / 10, move |number| connect(node, number)).await);
    println!(
        "swarm: {} silent, {} half-open, {} slow, all open",
        silent.len(),
        half_open.len(),
        slow.len()
    );
    // The slow ones give a byte of their head at a time.
    for byte in &head(MESSAGES, 10)[..16] {
        for stream in &mut slow {
            // The node may have closed it by now: a head has its time.
            let _ = stream.write_all(&[*byte]).await;
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    println!("swarm: done");
}

/// Opens connections with these numbers, several at once; gives what became of each.
async fn open_all<F>(
    numbers: Range<usize>,
    open: impl Fn(usize) -> F + Clone + Send + 'static,
) -> Vec<F::Output>
where
    F: Future<Output: Send> + Send + 'static,
{
    let mut tasks = JoinSet::new();
    for first in 0..AT_ONCE {
        let (numbers, open) = (numbers.clone(), open.clone());
        tasks.spawn(async move {
            let mut opened = Vec::new();
            for number in numbers.skip(first).step_by(AT_ONCE) {
                opened.push(open(number).await);
            }
            opened
        });
    }
    tasks.join_all().await.into_iter().flatten().collect()
}

/// Connects from a loopback address that is this connection's own.
async fn connect(node: SocketAddr, number: usize) -> TcpStream {
    let [_, _, high, low] = (number as u32).to_be_bytes();
    let socket = TcpSocket::new_v4().unwrap();
    let from = Ipv4Addr::new(127, 9, high, low.max(1));
    socket.bind((from, 0).into()).unwrap();
    socket.connect(node).await.unwrap()
}

/// Reads the answer: a refusal, never a success and never a fault of the node. Whether the connection goes on.
async fn check_refused(stream: &mut TcpStream, name: &str) -> bool {
    let mut answer = vec![0; 4096];
    // Closing without an answer is one, too.
    let length = stream.read(&mut answer).await.unwrap_or(0);
    let answer = String::from_utf8_lossy(&answer[..length]).to_lowercase();
    let is_refusal = answer.starts_with("http/1.1 4") || answer.starts_with("http/1.1 503");
    assert!(answer.is_empty() || is_refusal, "{name}: {answer}");
    !answer.is_empty() && !answer.contains("connection: close")
}

fn head(path: &str, length: u64) -> Vec<u8> {
    format!(
        "POST {path} HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\ncontent-length: {length}\r\n\r\n"
    )
    .into_bytes()
}

/// Requests of every wrong size and shape.
fn bad_requests() -> Vec<(&'static str, Vec<u8>)> {
    let whole = |(name, body): (&'static str, Vec<u8>)| {
        let head = head(MESSAGES, body.len() as u64);
        (name, [head, body].concat())
    };
    let mut requests: Vec<_> = bad_bodies().into_iter().map(whole).collect();
    requests.extend(bad_heads());
    requests
}

fn bad_bodies() -> Vec<(&'static str, Vec<u8>)> {
    let good = share(HOSTED[1]).bytes;
    let mut forged = good.clone();
    let at = forged
        .windows(9)
        .position(|window| window == b"\"payload\"")
        .unwrap()
        + 30;
    forged[at] ^= 1;
    vec![
        ("nothing", Vec::new()),
        ("a word", b"x".to_vec()),
        ("null", b"null".to_vec()),
        ("an array", b"[]".to_vec()),
        ("an object", b"{}".to_vec()),
        ("half an object", b"{".to_vec()),
        ("half an envelope", good[..good.len() / 2].to_vec()),
        ("two envelopes", [&good[..], &good].concat()),
        ("a byte order mark", [b"\xef\xbb\xbf", &good[..]].concat()),
        ("UTF-16", good.iter().flat_map(|byte| [*byte, 0]).collect()),
        ("no UTF-8", vec![0xff; 300]),
        ("zeros", vec![0; 1000]),
        ("a lone surrogate", br#"{"vcp_message":"\ud800"}"#.to_vec()),
        ("a name twice", br#"{"type":"a","type":"b"}"#.to_vec()),
        (
            "a huge number",
            format!("{{\"a\":1{}}}", "0".repeat(30_000)).into_bytes(),
        ),
        ("deep nesting", "[".repeat(60_000).into_bytes()),
        (
            "many members",
            format!("{{{}\"z\":0}}", "\"a\":0,".repeat(10_000)).into_bytes(),
        ),
        ("exactly the largest", vec![b' '; 65_536]),
        ("one too large", vec![b' '; 65_537]),
        ("much too large", vec![b'['; 200_000]),
        ("a changed byte", forged),
    ]
}

fn bad_heads() -> Vec<(&'static str, Vec<u8>)> {
    let text = |path: &str, more: &str| {
        format!("POST {path} HTTP/1.1\r\nhost: localhost\r\n{more}\r\n\r\n").into_bytes()
    };
    vec![
        ("a size of a terabyte", head(MESSAGES, 1 << 40)),
        (
            "a negative size",
            text(
                MESSAGES,
                "content-type: application/json\r\ncontent-length: -1",
            ),
        ),
        ("no media type", text(MESSAGES, "content-length: 0")),
        (
            "two sizes",
            text(MESSAGES, "content-length: 1\r\ncontent-length: 2"),
        ),
        (
            "chunks that are none",
            [
                text(
                    MESSAGES,
                    "content-type: application/json\r\ntransfer-encoding: chunked",
                ),
                b"zz\r\n".to_vec(),
            ]
            .concat(),
        ),
        (
            "a head too large",
            text(MESSAGES, &format!("x: {}", "y".repeat(20_000))),
        ),
        ("another path", text("/no/such/path", "content-length: 0")),
        ("no HTTP", b"\x16\x03\x01\x02\x00\x01\x00\r\n\r\n".to_vec()),
    ]
}
