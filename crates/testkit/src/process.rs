//! Processes of a test: none outlives the test's own process, however that ends.
//!
//! The system ends a process with the thread that started it, so all are started by one thread that ends last.

use std::io;
use std::process::{Child, Command};
use std::sync::OnceLock;
use std::sync::mpsc::{Receiver, Sender, channel};

/// Somebody waits for what came of starting it.
type Order = (Command, Sender<io::Result<Child>>);

/// The same command for a process that is killed with the thread that starts it. What it reads and writes is still to be
/// said.
pub fn bound(command: &Command) -> Command {
    bound_by("KILL", command)
}

/// The same with another signal, for a program that ends others when it is told to end.
pub fn bound_by(signal: &str, command: &Command) -> Command {
    let mut bound = Command::new("setpriv");
    bound
        .args(["--pdeathsig", signal])
        .arg(command.get_program())
        .args(command.get_args());
    if let Some(dir) = command.get_current_dir() {
        bound.current_dir(dir);
    }
    for (name, value) in command.get_envs() {
        match value {
            Some(value) => bound.env(name, value),
            None => bound.env_remove(name),
        };
    }
    bound
}

/// Starts a process that may outlive the thread that asks. One that is `bound` ends with this process.
///
/// # Errors
/// It cannot be started.
pub fn spawn(command: Command) -> io::Result<Child> {
    static STARTER: OnceLock<Sender<Order>> = OnceLock::new();
    let starter = STARTER.get_or_init(|| {
        let (orders, taken) = channel();
        std::thread::spawn(move || start_all(&taken));
        orders
    });
    let (done, started) = channel();
    starter
        .send((command, done))
        .expect("the thread that starts processes ends with this one");
    started.recv().expect("it answers each order")
}

fn start_all(orders: &Receiver<Order>) {
    for (mut command, done) in orders {
        // Whoever asked waits for it.
        let _ = done.send(command.spawn());
    }
}

/// Whether a process is still there. One that ended and that nobody asked about is not.
pub fn is_running(pid: u32) -> bool {
    let told = std::fs::read_to_string(format!("/proc/{pid}/stat"));
    // The name of the program comes before its state, in brackets.
    told.is_ok_and(|told| {
        let state = told.rsplit_once(") ").map(|(_, rest)| rest.chars().next());
        !matches!(state, Some(Some('Z' | 'X')))
    })
}
