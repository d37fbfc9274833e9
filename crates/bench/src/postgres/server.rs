//! A PostgreSQL server of the benchmark's own, with the settings it comes with: what it commits is synced.

use std::net::TcpListener;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};

use crate::measure::cpu_of;

/// Who it runs as when this process is root: it refuses to run as root.
const USER: &str = "postgres";
/// How long it may take to start.
const PATIENCE: Duration = Duration::from_secs(60);

/// A server, given or started.
pub(super) struct Server {
    pub(super) url: String,
    own: Option<Child>,
}

impl Server {
    /// One that is there already.
    pub(super) fn given(url: &str) -> Self {
        Self {
            url: url.to_owned(),
            own: None,
        }
    }

    /// Starts one whose files are below `dir`.
    pub(super) fn start(dir: &Path) -> Result<Self> {
        let home = dir.join("postgres");
        std::fs::create_dir(&home)?;
        if is_root()? {
            // Whoever it runs as has to get there.
            let open = std::os::unix::fs::PermissionsExt::from_mode(0o755);
            std::fs::set_permissions(dir, open)?;
            let given = Command::new("chown").arg(USER).arg(&home).status()?;
            ensure!(given.success(), "chown {USER}");
        }
        let data = home.join("data");
        let made = program("initdb", &home)?
            .args(["-U", "chancery", "-A", "trust", "-E", "UTF8", "--locale=C"])
            .arg("-D")
            .arg(&data)
            .output()?;
        let complaint = String::from_utf8_lossy(&made.stderr);
        ensure!(made.status.success(), "initdb: {complaint}");
        let port = TcpListener::bind("127.0.0.1:0")?.local_addr()?.port();
        let child = program("postgres", &home)?
            .arg("-D")
            .arg(&data)
            .args(["-h", "127.0.0.1", "-p", &port.to_string(), "-k", ""])
            .stderr(Stdio::null())
            .spawn()?;
        let server = Self {
            url: format!("postgres://chancery@127.0.0.1:{port}/postgres"),
            own: Some(child),
        };
        server.wait(&home)?;
        Ok(server)
    }

    fn wait(&self, home: &Path) -> Result<()> {
        let started = Instant::now();
        let asked = || -> Result<bool> {
            let told = program("pg_isready", home)?
                .args(["-d", &self.url])
                .status();
            Ok(told?.success())
        };
        while !asked()? {
            ensure!(started.elapsed() < PATIENCE, "PostgreSQL does not start");
            std::thread::sleep(Duration::from_millis(50));
        }
        Ok(())
    }

    /// Processor time of all its processes; none of a server that was given.
    pub(super) fn cpu(&self) -> Option<Duration> {
        let main = self.own.as_ref()?.id().to_string();
        let children = std::fs::read_to_string(format!("/proc/{main}/task/{main}/children"));
        let children = children.ok()?;
        let all = children.split_whitespace().chain([main.as_str()]);
        // One may have ended since.
        Some(all.filter_map(|process| cpu_of(process).ok()).sum())
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        if let Some(child) = &mut self.own {
            // Its children end with it; its files are about to go.
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

fn is_root() -> Result<bool> {
    Ok(std::fs::metadata("/proc/self")?.uid() == 0)
}

/// A program of the newest server that is installed, which ends with this process.
fn program(name: &str, home: &Path) -> Result<Command> {
    let versions = std::fs::read_dir("/usr/lib/postgresql").into_iter();
    let newest = versions.flatten().flatten().max_by_key(|version| {
        let name = version.file_name();
        name.to_str().and_then(|name| name.parse::<u32>().ok())
    });
    let programs: Option<PathBuf> = newest.map(|version| version.path().join("bin"));
    let programs = programs.context("no PostgreSQL is installed; give one with --database")?;
    let mut command = Command::new("setpriv");
    command.args(["--pdeathsig", "KILL"]);
    if is_root()? {
        command.args(["--reuid", USER, "--regid", USER, "--clear-groups"]);
    }
    command
        .arg(programs.join(name))
        .current_dir(home)
        .stdin(Stdio::null())
        .stdout(Stdio::null());
    Ok(command)
}
