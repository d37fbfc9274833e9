//! A NATS server of a test's own: a real one, on a free port of this machine, gone with the test.

use std::io::{BufRead as _, BufReader};
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use tempfile::TempDir;

use crate::installed::python_tool;

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
    build: Build,
    port: u16,
    arguments: Vec<String>,
    dir: TempDir,
    child: Option<Child>,
}

impl NatsServer {
    /// Starts one; returns when it takes connections. `configuration` is the text of its file.
    pub fn start(build: Build, configuration: &str) -> Self {
        let dir = TempDir::new().expect("a test may make a directory");
        let file = dir.path().join("nats.conf");
        std::fs::write(&file, configuration).expect("a test may write in its directory");
        let free = TcpListener::bind("127.0.0.1:0").and_then(|listener| listener.local_addr());
        let port = free.expect("there is a free port").port();
        let arguments = vec![
            "-a".to_owned(),
            "127.0.0.1".to_owned(),
            "-p".to_owned(),
            port.to_string(),
            "-c".to_owned(),
            file.display().to_string(),
        ];
        let mut server = Self {
            build,
            port,
            arguments,
            dir,
            child: None,
        };
        server.restart();
        server
    }

    /// Its address.
    pub fn url(&self) -> String {
        format!("nats://127.0.0.1:{}", self.port)
    }

    /// Its port.
    pub const fn port(&self) -> u16 {
        self.port
    }

    /// A directory that it may keep streams in; it survives a restart.
    pub fn dir(&self) -> &Path {
        self.dir.path()
    }

    /// Ends it at once, as a crash would.
    pub fn kill(&mut self) {
        if let Some(mut child) = self.child.take() {
            // It may have ended by itself.
            let _ = child.kill();
            let _ = child.wait();
        }
    }

    /// Starts it again on the same port; returns when it takes connections.
    pub fn restart(&mut self) {
        self.kill();
        let mut child = Command::new(self.build.program())
            .args(&self.arguments)
            .current_dir(self.dir.path())
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .expect("nats-server can be started");
        let mut told = BufReader::new(child.stderr.take().expect("it was piped"));
        let mut said = String::new();
        while !said.contains("Server is ready") {
            let more = told.read_line(&mut said).expect("it writes text");
            assert_ne!(more, 0, "nats-server has ended: {said}");
        }
        // It must never wait for somebody to read what it has to say.
        std::thread::spawn(move || std::io::copy(&mut told, &mut std::io::sink()));
        self.child = Some(child);
    }

    /// Stops it without ending it: connections stay and nothing is answered.
    pub fn pause(&self) {
        self.signal("STOP");
    }

    /// Lets it go on.
    pub fn resume(&self) {
        self.signal("CONT");
    }

    fn signal(&self, name: &str) {
        let child = self.child.as_ref().expect("it runs");
        let mut kill = Command::new("kill");
        let sent = kill
            .args([format!("-{name}"), child.id().to_string()])
            .status();
        assert!(sent.expect("kill can be started").success());
    }
}

impl Drop for NatsServer {
    fn drop(&mut self) {
        self.kill();
    }
}
