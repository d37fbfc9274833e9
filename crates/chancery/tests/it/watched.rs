//! Something that lasts, on a terminal: whoever waits for it sees how far it is.

use std::path::Path;
use std::process::Command;
use std::time::Duration;

use chancery_testkit::process::bound;
use chancery_testkit::terminal::OnTerminal;

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
    // On a busy machine it gives way to who watches it, or it would have ended before it is seen.
    let mut command = Command::new("nice");
    command.args(["-n", "19"]).arg(program.get_program());
    command
        .args(program.get_args())
        .current_dir(place.path("."));
    for (name, _) in std::env::vars().filter(|(name, _)| name.starts_with("CHANCERY_")) {
        command.env_remove(name);
    }
    let terminal = OnTerminal::start(bound(&command)).unwrap();
    until("a part has arrived", || (arrived() > 0).then_some(()));
    // What comes before it in the line of command hands its process on.
    let pid = terminal.id().to_string();
    let tell = |name: &str| Command::new("kill").args([name, &pid]).status().unwrap();
    // It has not been waited for, so that no other process can have its number.
    if tell("-STOP").success() {
        std::thread::sleep(Duration::from_millis(1_200));
        tell("-CONT");
    }
    let (status, shown) = terminal.finish().unwrap();
    assert!(status.success(), "{shown}");
    shown
}
