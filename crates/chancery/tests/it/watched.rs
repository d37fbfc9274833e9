//! Something that lasts, on a terminal: whoever waits for it sees how far it is.

use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use chancery_testkit::process::bound;

use crate::agh_house::until;
use crate::support::Place;

/// How many lines have arrived in a file.
pub fn lines_at(log: &Path) -> usize {
    let text = std::fs::read(log).unwrap_or_default();
    text.iter().filter(|byte| **byte == b'\n').count()
}

/// Checks what a terminal shows of something that lasts longer than a second and says `done` at its end. On a busy machine
/// it may be over before it could be kept: then it is made once more, to another place.
pub fn shown_when_it_lasts(done: &str, mut made: impl FnMut(usize) -> String) {
    const ATTEMPTS: usize = 8;
    let parts = ["% ", "/s", " left", done];
    let mut shown = String::new();
    for attempt in 0..ATTEMPTS {
        shown = made(attempt);
        if parts.iter().all(|part| shown.contains(part)) {
            return;
        }
    }
    panic!("{done}: {shown}");
}

/// Types a command on a terminal, and keeps it for longer than a second when a part has arrived: that is when people are
/// shown how far it is. What the terminal shows.
pub fn watched(place: &Place, words: &[&str], arrived: impl Fn() -> usize) -> String {
    let program = place.command(words);
    let typed: Vec<String> = [program.get_program()]
        .into_iter()
        .chain(program.get_args())
        .map(|word| format!("'{}'", word.to_str().unwrap()))
        .collect();
    let pid = place.path("pid");
    // On a busy machine it gives way to who watches it, or it would have ended before it is seen.
    let script = format!(
        "stty rows 24 cols 100; echo $$ > {}; exec nice -n 19 {}",
        pid.display(),
        typed.join(" ")
    );
    let mut terminal = Command::new("script");
    terminal
        .args(["-qec", &script, "/dev/null"])
        // One that can move its cursor.
        .env("TERM", "xterm")
        .current_dir(place.path("."));
    for (name, _) in std::env::vars().filter(|(name, _)| name.starts_with("CHANCERY_")) {
        terminal.env_remove(name);
    }
    let mut terminal = bound(&terminal);
    terminal.stdin(Stdio::null()).stdout(Stdio::piped());
    let terminal = terminal.spawn().unwrap();
    until("a part has arrived", || (arrived() > 0).then_some(()));
    let pid = std::fs::read_to_string(pid).unwrap();
    let tell = |name: &str, pid: &str| {
        let told = Command::new("kill").args([name, pid]).output();
        told.unwrap().status.success()
    };
    if tell("-STOP", pid.trim()) {
        std::thread::sleep(Duration::from_millis(1_200));
        // The terminal stops with what runs on it.
        tell("-CONT", &terminal.id().to_string());
        tell("-CONT", pid.trim());
    }
    let out = terminal.wait_with_output().unwrap();
    let shown = String::from_utf8(out.stdout).unwrap();
    assert!(out.status.success(), "{shown}");
    shown
}
