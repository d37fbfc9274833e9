//! `examples/parent_child.rs` as two processes: an escalation, a resume.

use std::io::{BufRead as _, BufReader, Lines, Write as _};
use std::path::PathBuf;
use std::process::{Child, ChildStdout, Command, Stdio};

/// Cargo builds examples beside the tests, when it is not told to build this test alone.
fn example() -> PathBuf {
    let me = std::env::current_exe().unwrap();
    let path = me.ancestors().nth(2).unwrap().join("examples/parent_child");
    assert!(path.exists(), "cargo build -p chancery-client --examples");
    path
}

struct Side {
    process: Child,
    out: Lines<BufReader<ChildStdout>>,
}

impl Side {
    fn start(name: &str) -> Self {
        let mut process = Command::new(example())
            .arg(name)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let out = BufReader::new(process.stdout.take().unwrap()).lines();
        Self { process, out }
    }

    fn says(&mut self) -> String {
        self.out.next().unwrap().unwrap()
    }

    fn hears(&mut self, line: &str) {
        let mut input = self.process.stdin.as_ref().unwrap();
        writeln!(input, "{line}").unwrap();
    }

    fn ends(mut self) {
        drop(self.process.stdin.take());
        assert!(self.process.wait().unwrap().success());
    }
}

// VX-RUN-2, VX-RUN-6, VX-RUN-7, VX-ACK-1, VX-HTTP-1
#[test]
fn an_escalation_and_a_resume_between_two_processes() {
    let (mut parent, mut child) = (Side::start("parent"), Side::start("child"));
    let (of_parent, of_child) = (parent.says(), child.says());
    parent.hears(&of_child);
    child.hears(&of_parent);
    assert_eq!(
        parent.says(),
        "critical: the stove is on and nobody is in the kitchen"
    );
    let acknowledged = child.says();
    assert!(acknowledged.starts_with("Acknowledged("), "{acknowledged}");
    assert_eq!(child.says(), "it goes on");
    child.ends();
    parent.ends();
}

// Each side is at most 20 lines.
#[test]
fn each_side_is_short() {
    let text = include_str!("../../examples/parent_child.rs");
    for side in ["async fn parent()", "async fn child()"] {
        let start = text.find(side).unwrap();
        let length = text[start..].find("\n}\n").unwrap();
        assert!(text[start..start + length].lines().count() <= 20, "{side}");
    }
}
