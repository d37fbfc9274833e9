//! A NATS server of a test's own: a real one, on a free port of this machine, gone with the test.
//!
//! Where `CHANCERY_TEST_NATS` names a server, tests that want nothing special of theirs use that one, one after the other:
//! whoever is in a channel hears everybody there. Tests that end a server, or say how it is configured, start their own.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use tempfile::TempDir;

use crate::installed::python_tool;
use crate::process::{bound, spawn};
use crate::starting::{Port, free_port, start_at, until_ready};

/// Names a server that is there already, as `nats://HOST:PORT`.
const GIVEN: &str = "CHANCERY_TEST_NATS";
/// What a server is configured by, in its directory.
const CONFIGURATION: &str = "nats.conf";
/// Who holds it uses the server that was given.
const TURN: &str = "chancery-test-nats.turn";

/// Which server: what works with one must work with the other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Build {
    /// Debian's.
    Debian,
    /// The newest, from PyPI.
    Newest,
}

impl Build {
    /// Both.
    pub const ALL: [Self; 2] = [Self::Debian, Self::Newest];

    /// The program; `cargo xtask setup` installs it.
    fn program(self) -> PathBuf {
        match self {
            Self::Debian => {
                let path = std::env::var_os("PATH").unwrap_or_default();
                let folders = std::env::split_paths(&path).chain(["/usr/sbin".into()]);
                let here =
                    |folder: PathBuf| Some(folder.join("nats-server")).filter(|p| p.is_file());
                folders
                    .into_iter()
                    .find_map(here)
                    .expect("nats-server is installed by cargo xtask setup")
            }
            Self::Newest => python_tool("nats-server"),
        }
    }
}

/// A running server.
pub struct NatsServer {
    url: String,
    server: Server,
}

enum Server {
    Own(Own),
    /// Locked for as long as this test uses it.
    Given(#[expect(dead_code, reason = "it is held")] File),
}

struct Own {
    build: Build,
    port: u16,
    dir: TempDir,
    child: Option<Child>,
}

impl NatsServer {
    /// Starts one; returns when it takes connections. `configuration` is the text of its file.
    pub fn start(build: Build, configuration: &str) -> Self {
        match std::env::var(GIVEN) {
            Ok(url) if configuration.is_empty() => Self {
                url,
                server: Server::Given(turn()),
            },
            _ => Self::of_its_own(build, configuration),
        }
    }

    /// Starts one of the test's own, also where one is given: it is about to be ended.
    pub fn of_its_own(build: Build, configuration: &str) -> Self {
        let own = Own::start(build, configuration);
        Self {
            url: format!("nats://127.0.0.1:{}", own.port),
            server: Server::Own(own),
        }
    }

    /// Its address.
    pub fn url(&self) -> String {
        self.url.clone()
    }

    /// Its port.
    pub fn port(&self) -> u16 {
        self.own().port
    }

    /// The number of its process.
    pub fn pid(&self) -> u32 {
        self.own().pid()
    }

    /// A directory that it may keep streams in; it survives a restart.
    pub fn dir(&self) -> &Path {
        self.own().dir.path()
    }

    /// Ends it at once, as a crash would. For a server of the test's own.
    pub fn kill(&mut self) {
        self.own_mut().kill();
    }

    /// Starts it again on the same port; returns when it takes connections.
    pub fn restart(&mut self) {
        let own = self.own_mut();
        own.kill();
        own.run(Port::Same);
    }

    /// Stops it without ending it: connections stay and nothing is answered.
    pub fn pause(&self) {
        self.own().signal("STOP");
    }

    /// Lets it go on.
    pub fn resume(&self) {
        self.own().signal("CONT");
    }

    fn own(&self) -> &Own {
        match &self.server {
            Server::Own(own) => own,
            Server::Given(_) => panic!("{OTHERS}"),
        }
    }

    fn own_mut(&mut self) -> &mut Own {
        match &mut self.server {
            Server::Own(own) => own,
            Server::Given(_) => panic!("{OTHERS}"),
        }
    }
}

const OTHERS: &str =
    "a server that was given is others' too: a test that ends it starts one of its own";

/// Waits until no other test uses the server that was given.
fn turn() -> File {
    let path = std::env::temp_dir().join(TURN);
    let file = File::options().create(true).append(true).open(&path);
    let file = file.unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    file.lock().expect("a file of this machine can be locked");
    file
}

impl Own {
    fn start(build: Build, configuration: &str) -> Self {
        let dir = TempDir::new().expect("a test may make a directory");
        let file = dir.path().join(CONFIGURATION);
        std::fs::write(&file, configuration).expect("a test may write in its directory");
        let mut own = Self {
            build,
            port: free_port(),
            dir,
            child: None,
        };
        own.run(Port::Any);
        own
    }

    fn pid(&self) -> u32 {
        self.child.as_ref().expect("it runs").id()
    }

    fn kill(&mut self) {
        if let Some(mut child) = self.child.take() {
            // It may have ended by itself.
            let _ = child.kill();
            let _ = child.wait();
        }
    }

    fn run(&mut self, otherwise: Port) {
        let (port, child) = start_at(self.port, otherwise, |port| self.attempt(port));
        self.port = port;
        self.child = Some(child);
    }

    fn attempt(&self, port: u16) -> Result<Child, String> {
        let mut command = bound(&Command::new(self.build.program()));
        command
            .args(["-a", "127.0.0.1", "-p", &port.to_string(), "-c"])
            .arg(self.dir.path().join(CONFIGURATION))
            .current_dir(self.dir.path())
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::piped());
        let child = spawn(command).expect("nats-server can be started");
        until_ready(child, "Server is ready")
    }

    fn signal(&self, name: &str) {
        let mut kill = Command::new("kill");
        let sent = kill
            .args([format!("-{name}"), self.pid().to_string()])
            .status();
        assert!(sent.expect("kill can be started").success());
    }
}

impl Drop for Own {
    fn drop(&mut self) {
        self.kill();
    }
}
