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
    /// As `name=value`.
    settings: Vec<String>,
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
        Self::of_its_own()
    }

    /// Starts one of the test's own, also where one is given: it is about to be changed.
    pub fn of_its_own() -> Self {
        let own = Own::new();
        own.make(None);
        Self::of(own)
    }

    /// Starts one that asks for this password; its address has none.
    pub fn with_password(password: &str) -> Self {
        let own = Own::new();
        own.make(Some(password));
        Self::of(own)
    }

    /// Starts one that offers TLS with this certificate and its key, both as PEM text.
    pub fn with_certificate(certificate: &str, key: &str) -> Self {
        let mut own = Own::new();
        own.make(None);
        let [certificate, key] = [("server.crt", certificate), ("server.key", key)]
            .map(|(name, text)| own.keep(name, text).display().to_string());
        own.settings = vec![
            "ssl=on".to_owned(),
            format!("ssl_cert_file={certificate}"),
            format!("ssl_key_file={key}"),
        ];
        Self::of(own)
    }

    /// Starts one that follows this one. From then on this one answers a commit when the other has it too.
    pub fn standby(&self) -> Self {
        let own = Own::new();
        own.copy(&self.url);
        let standby = Self::of(own);
        self.execute("ALTER SYSTEM SET synchronous_standby_names = '*'");
        self.execute("SELECT pg_reload_conf()");
        let follows = "SELECT count(*) FROM pg_stat_replication WHERE sync_state = 'sync'";
        while self.answer(follows) != "1" {
            std::thread::yield_now();
        }
        standby
    }

    fn of(mut own: Own) -> Self {
        own.run();
        Self {
            url: format!("postgres://chancery@127.0.0.1:{}/postgres", own.port),
            own: Some(own),
        }
    }

    /// Where it is.
    pub fn url(&self) -> &str {
        &self.url
    }

    /// Runs statements as somebody else would.
    pub fn execute(&self, sql: &str) {
        self.answer(sql);
    }

    /// The same, and what was answered: a line a row.
    pub fn answer(&self, sql: &str) -> String {
        self.attempt(sql)
            .unwrap_or_else(|complaint| panic!("{sql}: {complaint}"))
    }

    /// The same, or the server's complaint.
    pub fn attempt(&self, sql: &str) -> Result<String, String> {
        let told = Command::new(programs().join("psql"))
            .args(["--no-psqlrc", "-At", "-v", "ON_ERROR_STOP=1", "-c", sql])
            .arg(&self.url)
            .output()
            .expect("psql can be started");
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).trim().to_owned();
        match told.status.success() {
            true => Ok(text(&told.stdout)),
            false => Err(text(&told.stderr)),
        }
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

/// Gives a file or directory to who the server runs as.
pub fn give(path: &Path) {
    if is_root() {
        let given = Command::new("chown").arg(USER).arg(path).status();
        assert!(given.is_ok_and(|status| status.success()), "chown {USER}");
    }
}

impl Own {
    fn new() -> Self {
        let free = TcpListener::bind("127.0.0.1:0").and_then(|listener| listener.local_addr());
        let own = Self {
            port: free.expect("there is a free port").port(),
            programs: programs(),
            dir: TempDir::new().expect("a test may make a directory"),
            settings: Vec::new(),
            child: None,
        };
        give(own.dir.path());
        own
    }

    /// A file that only the server may read.
    fn keep(&self, name: &str, text: &str) -> PathBuf {
        let path = self.dir.path().join(name);
        std::fs::write(&path, text).expect("a test may write a file");
        let secret = std::os::unix::fs::PermissionsExt::from_mode(0o600);
        std::fs::set_permissions(&path, secret).expect("it is the test's own");
        give(&path);
        path
    }

    /// Everything that another server holds, and the wish to follow it.
    fn copy(&self, url: &str) {
        let copied = self
            .program("pg_basebackup")
            .args([
                "--write-recovery-conf",
                "--checkpoint=fast",
                "-d",
                url,
                "-D",
            ])
            .arg(self.dir.path().join("data"))
            .output()
            .expect("pg_basebackup can be started");
        let complaint = String::from_utf8_lossy(&copied.stderr);
        assert!(copied.status.success(), "pg_basebackup: {complaint}");
    }

    fn make(&self, password: Option<&str>) {
        let file = self.keep("password", password.unwrap_or("none"));
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
        for setting in &self.settings {
            command.args(["-c", setting]);
        }
        command.stderr(Stdio::piped());
        let mut running = start(command);
        let told = running.process.stderr.take().expect("it was piped");
        let mut told = BufReader::new(told);
        let mut said = String::new();
        // One that follows another takes readers only.
        while !said.contains("ready to accept ") {
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
