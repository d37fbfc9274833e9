//! Starting a server on a port that was free a moment ago. Another process may have taken it since: then another one is
//! taken, or, where people know the port already, it is waited for.

use std::io::{BufRead as _, BufReader};
use std::net::TcpListener;
use std::process::Child;
use std::time::{Duration, Instant};

/// How long a port that others hold is waited for, or another one looked for.
const PATIENCE: Duration = Duration::from_secs(60);
/// Between two attempts on the same port: no event tells that it is free.
const PAUSE: Duration = Duration::from_millis(100);

/// Which port a server takes when its own is another's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Port {
    /// Any other: nobody has been told of it.
    Any,
    /// The same, as soon as it is free.
    Same,
}

/// A port that is free now.
pub(crate) fn free_port() -> u16 {
    let free = TcpListener::bind("127.0.0.1:0").and_then(|listener| listener.local_addr());
    free.expect("there is a free port").port()
}

/// Starts a server at a port; gives the port that it has.
pub(crate) fn start_at(
    mut port: u16,
    otherwise: Port,
    mut attempt: impl FnMut(u16) -> Result<Child, String>,
) -> (u16, Child) {
    let begun = Instant::now();
    loop {
        let said = match attempt(port) {
            Ok(child) => return (port, child),
            Err(said) => said,
        };
        let is_taken = said.to_ascii_lowercase().contains("address already in use");
        assert!(
            is_taken && begun.elapsed() < PATIENCE,
            "the server has ended: {said}"
        );
        match otherwise {
            Port::Any => port = free_port(),
            Port::Same => std::thread::sleep(PAUSE),
        }
    }
}

/// Waits until a server says that it is ready. One that ends instead has said why.
pub(crate) fn until_ready(mut child: Child, ready: &str) -> Result<Child, String> {
    let mut told = BufReader::new(child.stderr.take().expect("it was piped"));
    let mut said = String::new();
    while !said.contains(ready) {
        if told.read_line(&mut said).expect("it writes text") == 0 {
            child.wait().expect("it was started");
            return Err(said);
        }
    }
    // It must never wait for somebody to read what it has to say.
    std::thread::spawn(move || std::io::copy(&mut told, &mut std::io::sink()));
    Ok(child)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::Command;

    /// A server that wants its port and nothing else.
    fn takes(port: u16) -> Result<Child, String> {
        match TcpListener::bind(("127.0.0.1", port)) {
            Ok(_) => Ok(Command::new("true").spawn().expect("it can be started")),
            Err(error) => Err(format!("bind: {error}")),
        }
    }

    #[test]
    fn a_server_whose_port_was_taken_takes_another_or_waits_for_its_own() {
        let taken = TcpListener::bind("127.0.0.1:0").expect("there is a free port");
        let port = taken.local_addr().expect("it has one").port();
        let (other, mut child) = start_at(port, Port::Any, takes);
        child.wait().expect("it was started");
        assert_ne!(other, port);
        let (mut taken, mut refused) = (Some(taken), 0);
        let (same, mut child) = start_at(port, Port::Same, |port| {
            let started = takes(port);
            if started.is_err() {
                refused += 1;
                taken = None;
            }
            started
        });
        child.wait().expect("it was started");
        assert_eq!((same, refused), (port, 1));
    }

    #[test]
    #[should_panic(expected = "no such file")]
    fn a_server_that_ends_for_another_reason_is_not_started_again() {
        start_at(1, Port::Any, |_| Err("no such file".to_owned()));
    }
}
