//! `chancery serve` may have as many connections as the machine allows, not as few as a shell starts it with.
#![cfg(target_os = "linux")]

use std::io::{BufRead as _, BufReader};
use std::process::{Command, Stdio};

use chancery_testkit::process::bound;

use crate::support::Place;

#[test]
fn serve_raises_the_limit_of_open_files() {
    // CH-LIM-1
    let place = Place::new();
    let script = r#"ulimit -Sn 64 && exec "$0" serve --dev --store memory --listen 127.0.0.1:0"#;
    let mut shell = Command::new("sh");
    shell.args(["-c", script, env!("CARGO_BIN_EXE_chancery")]);
    let mut child = bound(&shell)
        .current_dir(place.path(""))
        // A variable that is no key of the configuration, and still ours.
        .env("CHANCERY_LOG", "error")
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut started = String::new();
    BufReader::new(child.stdout.take().unwrap())
        .read_line(&mut started)
        .unwrap();
    let limits = std::fs::read_to_string(format!("/proc/{}/limits", child.id())).unwrap();
    child.kill().unwrap();
    child.wait().unwrap();
    assert!(started.contains("listening"), "{started}");
    let line = limits
        .lines()
        .find(|line| line.starts_with("Max open files"))
        .unwrap();
    let figures: Vec<&str> = line.split_whitespace().skip(3).take(2).collect();
    assert_eq!(figures[0], figures[1], "{line}");
    assert_ne!(figures[0], "64");
}
