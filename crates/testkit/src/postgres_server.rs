//! A PostgreSQL server of a test's own: a real one, on a free port of this machine, gone with the test.
//!
//! Where `CHANCERY_TEST_POSTGRES` names a server, a test gets a database of its own in it, which is dropped with the test.
//! Otherwise, and for tests that end a server or change its settings, one is started from the newest Debian package; as
//! root it runs as the user `postgres`, because it refuses to run as root.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};

use tempfile::TempDir;

use crate::process::{bound, spawn};
use crate::starting::{Port, free_port, start_at, until_ready};

/// Names a server that is there already, by a user who may make databases.
const GIVEN: &str = "CHANCERY_TEST_POSTGRES";
/// Who it runs as when the test is root.
const USER: &str = "postgres";

/// A running server.
pub struct PostgresServer {
    url: String,
    server: Server,
}

enum Server {
    Own(Own),
    Given(#[expect(dead_code, reason = "it is dropped with this")] GivenDatabase),
}

/// A database in a server that is there already. Who drops it waits for the end of its input: that comes with the end of
/// the test, or of the test's process, however that ends.
struct GivenDatabase {
    keeper: Child,
}

struct Own {
    port: u16,
    programs: PathBuf,
    dir: TempDir,
    /// As `name=value`.
    settings: Vec<String>,
    child: Option<Child>,
}

impl PostgresServer {
    /// Starts one; returns when it takes connections.
    pub fn start() -> Self {
        match std::env::var(GIVEN) {
            Ok(given) => Self::within(given),
            Err(_) => Self::of_its_own(),
        }
    }

    /// One for all tests of this process that want nothing but a journal of their own.
    pub fn shared() -> &'static Self {
        static SHARED: OnceLock<PostgresServer> = OnceLock::new();
        SHARED.get_or_init(|| {
            let server = Self::start();
            // What is static is never dropped: its folder goes when this process has ended, and the server with it.
            if let Server::Own(own) = &server.server {
                let mut remover = Command::new("sh");
                let data = own.dir.path();
                remover
                    .args(["-c", "cat; until rm -rf \"$0\"; do sleep 0.1; done"])
                    .arg(data)
                    .stdin(Stdio::piped())
                    .stdout(Stdio::null())
                    .stderr(Stdio::null());
                // Its input ends with this process.
                std::mem::forget(spawn(remover).expect("sh can be started"));
            }
            server
        })
    }

    /// A database of the test's own in a server that is there.
    fn within(server: String) -> Self {
        static MADE: AtomicU32 = AtomicU32::new(0);
        let number = MADE.fetch_add(1, Ordering::Relaxed);
        let name = format!("chancery_test_{}_{number}", std::process::id());
        // One that a killed run of the same number left behind is in the way.
        for sql in [drop_of(&name), format!("CREATE DATABASE {name}")] {
            ask(&server, &sql).unwrap_or_else(|complaint| panic!("{sql}: {complaint}"));
        }
        let mut keeper = Command::new("sh");
        keeper
            .args(["-c", "cat; exec \"$0\" \"$@\""])
            .arg(programs().join("psql"))
            .args(["--no-psqlrc", "--quiet", "-c", &drop_of(&name), &server])
            .stdin(Stdio::piped())
            .stdout(Stdio::null());
        Self {
            url: of_database(&server, &name),
            server: Server::Given(GivenDatabase {
                keeper: spawn(keeper).expect("sh can be started"),
            }),
        }
    }

    /// Starts one of the test's own, also where one is given: it is about to be ended or changed.
    pub fn of_its_own() -> Self {
        let own = Own::new();
        own.make(None);
        Self::of(own)
    }

    /// Starts one of the test's own that writes to the disk before it acknowledges, as one that matters has to.
    pub fn durable() -> Self {
        let mut own = Own::new();
        own.make(None);
        own.settings = vec!["fsync=on".to_owned()];
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
        own.run(Port::Any);
        Self {
            url: format!("postgres://chancery@127.0.0.1:{}/postgres", own.port),
            server: Server::Own(own),
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
        ask(&self.url, sql)
    }

    /// The number of its process.
    pub fn pid(&self) -> u32 {
        let child = self.own().child.as_ref();
        child.expect("it runs").id()
    }

    /// Ends it at once, as a crash would. For a server of the test's own.
    pub fn kill(&mut self) {
        self.own_mut().kill();
    }

    /// Stops it with all its sessions without ending it: connections stay and nothing is answered.
    pub fn pause(&self) {
        self.signal("STOP");
    }

    /// Lets it go on.
    pub fn resume(&self) {
        self.signal("CONT");
    }

    fn signal(&self, name: &str) {
        self.own().signal(name);
    }

    /// Starts it again on the same port; returns when it takes connections.
    pub fn restart(&mut self) {
        let own = self.own_mut();
        own.kill();
        own.run(Port::Same);
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

/// Runs statements with the server's own client; gives what was answered, a line a row, or the server's complaint.
fn ask(url: &str, sql: &str) -> Result<String, String> {
    let told = Command::new(programs().join("psql"))
        .args(["--no-psqlrc", "-At", "-v", "ON_ERROR_STOP=1", "-c", sql])
        .arg(url)
        .output()
        .expect("psql can be started");
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).trim().to_owned();
    match told.status.success() {
        true => Ok(text(&told.stdout)),
        false => Err(text(&told.stderr)),
    }
}

/// The same address with another database.
fn of_database(url: &str, name: &str) -> String {
    let (place, how) = match url.split_once('?') {
        Some((place, how)) => (place, format!("?{how}")),
        None => (url, String::new()),
    };
    let start = place.find("://").map_or(0, |at| at + 3);
    let host = place[start..]
        .find('/')
        .map_or(place, |at| &place[..start + at]);
    format!("{host}/{name}{how}")
}

/// Also while somebody is connected to it.
fn drop_of(name: &str) -> String {
    format!("DROP DATABASE IF EXISTS {name} WITH (FORCE)")
}

impl Drop for GivenDatabase {
    fn drop(&mut self) {
        drop(self.keeper.stdin.take());
        // A server that is gone has it no more; a test that fails must not fail twice.
        let _ = self.keeper.wait();
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
        let own = Self {
            port: free_port(),
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

    fn run(&mut self, otherwise: Port) {
        let (port, running) = start_at(self.port, otherwise, |port| self.attempt(port));
        self.port = port;
        self.child = Some(running);
    }

    fn attempt(&self, port: u16) -> Result<Child, String> {
        let mut command = self.program("postgres");
        command
            .arg("-D")
            .arg(self.dir.path().join("data"))
            .args(["-h", "127.0.0.1", "-p", &port.to_string(), "-k", ""])
            // A process that ends loses nothing without it; a machine does not end here.
            .args(["-c", "fsync=off"]);
        for setting in &self.settings {
            command.args(["-c", setting]);
        }
        command.stderr(Stdio::piped());
        let running = spawn(command).expect("postgres can be started");
        // One that follows another takes readers only.
        until_ready(running, "ready to accept ")
    }

    /// A program of the server, as somebody who may run it, that ends with this process however it ends.
    fn program(&self, name: &str) -> Command {
        let mut command = bound(&Command::new(self.programs.join(name)));
        if is_root() {
            let mut as_user = Command::new("setpriv");
            as_user
                .args(["--reuid", USER, "--regid", USER, "--clear-groups"])
                .arg(command.get_program())
                .args(command.get_args());
            command = as_user;
        }
        command
            .current_dir(self.dir.path())
            .stdin(Stdio::null())
            .stdout(Stdio::null());
        command
    }

    fn kill(&mut self) {
        if let Some(mut running) = self.child.take() {
            // It may have ended by itself.
            let _ = running.kill();
            let _ = running.wait();
            // They may have been stopped with it.
            self.signal("CONT");
            self.wait_for_its_children();
        }
    }

    /// Sends a signal to the server and to each of its children, until no new one is found.
    fn signal(&self, name: &str) {
        let mut reached = BTreeSet::new();
        loop {
            let new: Vec<_> = self
                .processes()
                .filter(|id| reached.insert(id.clone()))
                .collect();
            if new.is_empty() {
                return;
            }
            // One that has ended meanwhile is not missed.
            let sent = Command::new("kill")
                .arg(format!("-{name}"))
                .args(new)
                .output();
            sent.expect("kill can be started");
        }
    }

    /// The process of the server and those of its children.
    fn processes(&self) -> impl Iterator<Item = OsString> {
        let data = self.dir.path().join("data");
        let all = std::fs::read_dir("/proc").expect("there is a /proc");
        let is_own = move |process: &std::fs::DirEntry| {
            std::fs::read_link(process.path().join("cwd")).is_ok_and(|cwd| cwd == data)
        };
        all.flatten()
            .filter(is_own)
            .map(|process| process.file_name())
    }

    /// Its children notice that it is gone and end; a new one must not start before the last of them has.
    fn wait_for_its_children(&self) {
        while self.processes().next().is_some() {
            std::thread::yield_now();
        }
    }
}

impl Drop for Own {
    fn drop(&mut self) {
        self.kill();
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
