//! A PostgreSQL server of a test's own: a real one, on a free port of this machine, gone with the test.
//!
//! Where `CHANCERY_TEST_POSTGRES` names a server, that one is used as it is. Otherwise one is started from the newest
//! Debian package; as root it runs as the user `postgres`, because it refuses to run as root.

use std::io::{BufRead as _, BufReader, Read};
use std::net::TcpListener;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Sender, channel};

use tempfile::TempDir;

/// Names a server that is there already.
const GIVEN: &str = "CHANCERY_TEST_POSTGRES";
/// Who it runs as when the test is root.
const USER: &str = "postgres";

/// A running server.
pub struct PostgresServer {
    url: String,
    own: Option<Own>,
}

struct Own {
    port: u16,
    programs: PathBuf,
    dir: TempDir,
    child: Option<Running>,
}

/// The server's process, and the thread that started it: the system ends the process with that thread.
struct Running {
    process: Child,
    _starter: Sender<()>,
}

impl PostgresServer {
    /// Starts one; returns when it takes connections.
    pub fn start() -> Self {
        if let Ok(url) = std::env::var(GIVEN) {
            return Self { url, own: None };
        }
        Self::own(None)
    }

    /// Starts one that asks for this password; its address has none.
    pub fn with_password(password: &str) -> Self {
        Self::own(Some(password))
    }

    fn own(password: Option<&str>) -> Self {
        let free = TcpListener::bind("127.0.0.1:0").and_then(|listener| listener.local_addr());
        let port = free.expect("there is a free port").port();
        let mut own = Own {
            port,
            programs: programs(),
            dir: TempDir::new().expect("a test may make a directory"),
            child: None,
        };
        own.make(password);
        own.run();
        Self {
            url: format!("postgres://chancery@127.0.0.1:{port}/postgres"),
            own: Some(own),
        }
    }

    /// Where it is.
    pub fn url(&self) -> &str {
        &self.url
    }

    /// Runs statements as somebody else would.
    pub fn execute(&self, sql: &str) {
        let told = Command::new(programs().join("psql"))
            .args(["--no-psqlrc", "-v", "ON_ERROR_STOP=1", "-c", sql, &self.url])
            .output()
            .expect("psql can be started");
        let complaint = String::from_utf8_lossy(&told.stderr);
        assert!(told.status.success(), "{sql}: {complaint}");
    }

    /// Ends it at once, as a crash would. A server that was given is left alone, and the answer is false.
    pub fn kill(&mut self) -> bool {
        self.own.as_mut().map(Own::kill).is_some()
    }

    /// Starts it again on the same port; returns when it takes connections.
    pub fn restart(&mut self) {
        if let Some(own) = &mut self.own {
            own.kill();
            own.run();
        }
    }
}

impl Own {
    fn make(&self, password: Option<&str>) {
        let file = self.dir.path().join("password");
        std::fs::write(&file, password.unwrap_or("none")).expect("a test may write a file");
        if is_root() {
            let owner = Command::new("chown")
                .arg(USER)
                .arg(self.dir.path())
                .status();
            assert!(owner.is_ok_and(|status| status.success()), "chown {USER}");
        }
        let asks = if password.is_some() {
            "scram-sha-256"
        } else {
            "trust"
        };
        let made = self
            .program("initdb")
            .args(["-U", "chancery", "-A", asks, "-E", "UTF8", "--locale=C"])
            .arg("--pwfile")
            .arg(&file)
            .args(["--no-sync", "-D"])
            .arg(self.dir.path().join("data"))
            .output()
            .expect("initdb can be started");
        let complaint = String::from_utf8_lossy(&made.stderr);
        assert!(made.status.success(), "initdb: {complaint}");
    }

    fn run(&mut self) {
        let mut command = self.program("postgres");
        command
            .arg("-D")
            .arg(self.dir.path().join("data"))
            .args(["-h", "127.0.0.1", "-p", &self.port.to_string(), "-k", ""])
            // A process that ends loses nothing without it; a machine does not end here.
            .args(["-c", "fsync=off"]);
        command.stderr(Stdio::piped());
        let mut running = start(command);
        let told = running.process.stderr.take().expect("it was piped");
        let mut told = BufReader::new(told);
        let mut said = String::new();
        while !said.contains("ready to accept connections") {
            let more = told.read_line(&mut said).expect("it writes text");
            assert_ne!(more, 0, "postgres has ended: {said}");
        }
        // It must never wait for somebody to read what it has to say.
        std::thread::spawn(move || std::io::copy(&mut told as &mut dyn Read, &mut std::io::sink()));
        self.child = Some(running);
    }

    /// A program of the server, as somebody who may run it, that ends with this process however it ends.
    fn program(&self, name: &str) -> Command {
        let mut command = Command::new("setpriv");
        command.args(["--pdeathsig", "KILL"]);
        if is_root() {
            command.args(["--reuid", USER, "--regid", USER, "--clear-groups"]);
        }
        command
            .arg(self.programs.join(name))
            .current_dir(self.dir.path())
            .stdin(Stdio::null())
            .stdout(Stdio::null());
        command
    }

    fn kill(&mut self) {
        if let Some(mut running) = self.child.take() {
            // It may have ended by itself.
            let _ = running.process.kill();
            let _ = running.process.wait();
            self.wait_for_its_children();
        }
    }

    /// Its children notice that it is gone and end; a new one must not start before the last of them has.
    fn wait_for_its_children(&self) {
        let data = self.dir.path().join("data");
        let is_left = || {
            let processes = std::fs::read_dir("/proc").expect("there is a /proc");
            processes.flatten().any(|process| {
                std::fs::read_link(process.path().join("cwd")).is_ok_and(|cwd| cwd == data)
            })
        };
        while is_left() {
            std::thread::yield_now();
        }
    }
}

impl Drop for Own {
    fn drop(&mut self) {
        self.kill();
    }
}

/// Starts a process that is to outlive the test's thread, but not the test's process.
fn start(mut command: Command) -> Running {
    let (started, process) = channel();
    let (starter, until) = channel::<()>();
    std::thread::spawn(move || {
        let sent = started.send(command.spawn().expect("postgres can be started"));
        // Nothing is ever sent: it waits until the server is not wanted any more.
        if sent.is_ok() {
            let _ = until.recv();
        }
    });
    Running {
        process: process.recv().expect("the thread starts it"),
        _starter: starter,
    }
}

fn is_root() -> bool {
    std::fs::metadata("/proc/self").is_ok_and(|own| own.uid() == 0)
}

/// The folder of the newest server's programs; `cargo xtask setup` installs it.
fn programs() -> PathBuf {
    let versions = std::fs::read_dir("/usr/lib/postgresql").into_iter();
    let newest = versions
        .flatten()
        .flatten()
        .filter(|version| version.path().join("bin/postgres").is_file())
        .max_by_key(|version| {
            let name = version.file_name();
            name.to_str().and_then(|name| name.parse::<u32>().ok())
        });
    newest
        .map(|version| version.path().join("bin"))
        .filter(|folder: &PathBuf| Path::is_dir(folder))
        .expect("PostgreSQL is installed by cargo xtask setup")
}
