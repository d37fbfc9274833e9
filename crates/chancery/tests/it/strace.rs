//! The real binary under `strace`: an answer leaves only after the log's file was synced (CH-JRN-2).
//!
//! `strace` writes a line when a call is entered and, when another thread came between, a second one when it
//! returns. A call took effect somewhere in between; so a read counts from its return, a sync from its entry to its
//! return, an answer from its entry.

use std::collections::BTreeMap;

use crate::served::{HOSTED, Served, Share, share, signal};
use crate::support::Place;
use crate::wire::MESSAGES;

const CALLS: &str = "trace=openat,read,recvfrom,recvmsg,readv,write,pwrite64,writev,pwritev,sendto,sendmsg,fdatasync,fsync";

#[test]
fn between_a_request_and_its_answer_the_log_is_synced() {
    // CH-JRN-2
    let place = Place::for_dev_node();
    let node = traced(&place);
    let mut wire = node.wire();
    let shares: Vec<Share> = (0..5).map(|_| share(HOSTED[0])).collect();
    for share in &shares {
        let answer = wire.share(&share.bytes).unwrap().ok();
        assert_eq!(answer["status"], "accepted");
    }
    // strace ends with the node, and with its exit code.
    let lock = place.read("data/lock");
    let pid = lock.split_whitespace().find_map(|word| word.parse().ok());
    signal("TERM", pid.expect("the lock names the process"));
    assert!(node.ended().success());
    let trace = place.read("trace.txt");
    let calls = calls(&trace);
    let log = log_descriptor(&calls);
    for share in &shares {
        let found = synced_before_answer(&calls, log, &share.id);
        assert!(
            found,
            "{} was answered without a sync of descriptor {log}:\n{trace}",
            share.id
        );
    }
    println!(
        "strace: {} calls, the log is descriptor {log}, {} answers each after its fdatasync",
        calls.len(),
        shares.len()
    );
}

fn traced(place: &Place) -> Served {
    let serve = place.command(&["serve"]);
    let mut command = std::process::Command::new("strace");
    command
        .args(["-f", "-s", "8192", "-o", "trace.txt", "-e", CALLS])
        .arg(serve.get_program())
        .args(serve.get_args())
        .current_dir(serve.get_current_dir().unwrap());
    for (name, value) in serve.get_envs() {
        match value {
            Some(value) => command.env(name, value),
            None => command.env_remove(name),
        };
    }
    // Without strace, or where it may not trace, this fails: a test that saw nothing shows nothing.
    place.start(command)
}

/// One call: where in the trace it was entered and where it returned, its name, its arguments, its result.
#[derive(Debug)]
struct Call {
    entered: usize,
    returned: usize,
    name: String,
    text: String,
    result: i64,
}

impl Call {
    /// The descriptor that it is about: its first argument.
    fn descriptor(&self) -> Option<i64> {
        let end = self.text.find(|c: char| !c.is_ascii_digit())?;
        self.text[..end].parse().ok()
    }
}

/// The calls that returned, in the order of their returns.
fn calls(trace: &str) -> Vec<Call> {
    let mut open: BTreeMap<&str, (usize, String, String)> = BTreeMap::new();
    let mut calls = Vec::new();
    for (at, line) in trace.lines().enumerate() {
        let Some((thread, rest)) = line.split_once(' ') else {
            continue;
        };
        let rest = rest.trim_start();
        let (entered, name, text) = if let Some(resumed) = rest.strip_prefix("<... ") {
            let (_, tail) = resumed
                .split_once(" resumed>")
                .expect("a call that goes on");
            let Some((entered, name, head)) = open.remove(thread) else {
                continue;
            };
            (entered, name, head + tail)
        } else if let Some((name, text)) = rest.split_once('(') {
            if let Some(head) = text.strip_suffix("<unfinished ...>") {
                open.insert(thread, (at, name.to_owned(), head.to_owned()));
                continue;
            }
            (at, name.to_owned(), text.to_owned())
        } else {
            continue;
        };
        let Some((text, result)) = text.rsplit_once(" = ") else {
            continue;
        };
        let result = result
            .split_whitespace()
            .next()
            .and_then(|word| word.parse().ok());
        let Some(result) = result else { continue };
        calls.push(Call {
            entered,
            returned: at,
            name,
            text: text.to_owned(),
            result,
        });
    }
    calls
}

/// The descriptor that the log was opened under for writing.
fn log_descriptor(calls: &[Call]) -> i64 {
    let opened = |call: &&Call| {
        call.name == "openat"
            && call.text.contains("audit.jsonl\"")
            && !call.text.contains("O_RDONLY")
            && call.result >= 0
    };
    let call = calls
        .iter()
        .rev()
        .find(opened)
        .expect("the log is opened for writing");
    call.result
}

/// Whether the request with this identifier was read, then written to the log, then synced, then answered.
fn synced_before_answer(calls: &[Call], log: i64, id: &str) -> bool {
    let reads = |name: &str| name.starts_with("rec") || name.starts_with("read");
    let request = calls
        .iter()
        .find(|call| reads(&call.name) && call.text.contains(MESSAGES) && call.text.contains(id))
        .expect("the request is read");
    let connection = request.descriptor();
    let answers = |call: &&Call| {
        call.entered > request.returned
            && (call.name.starts_with("send") || call.name.starts_with("write"))
            && call.descriptor() == connection
            && call.text.contains("HTTP/1.1 200")
    };
    let answer = calls
        .iter()
        .filter(answers)
        .min_by_key(|call| call.entered)
        .expect("the request is answered");
    assert!(answer.text.contains(id), "{answer:?}");
    let written = calls.iter().find(|call| {
        call.entered > request.returned
            && (call.name.starts_with("write") || call.name.starts_with("pwrite"))
            && call.descriptor() == Some(log)
            && call.text.contains(id)
    });
    let Some(written) = written else { return false };
    calls.iter().any(|call| {
        call.name == "fdatasync"
            && call.descriptor() == Some(log)
            && call.result == 0
            && call.entered > written.returned
            && call.returned < answer.entered
    })
}
