//! The first hour of a stranger: a fresh clone with nothing beside it, an empty home, an ordinary user, and the README
//! typed word by word.
//!
//! Root hands over to `nobody`. What the stranger has is what the README asks for, a Rust toolchain and the tools of the
//! system, and how this machine reaches its package registries.

use crate::pages::{self, Block, Printed, Typed};
use crate::{project, run};
use anyhow::{Context, Result, bail, ensure};
use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use std::time::{SystemTime, UNIX_EPOCH};

/// Whom root hands over to.
const NOBODY: [&str; 2] = ["nobody", "nogroup"];
/// Variables that say how a machine reaches its registries, by a part of their names.
const NETWORK: [&str; 7] = [
    "_proxy",
    "_PROXY",
    "SSL_CERT",
    "CA_BUNDLE",
    "CA_CERTS",
    "PIP_CERT",
    "CARGO_HTTP_",
];
/// Whatever a stranger's machine has.
const SYSTEM_PATH: &str = "/usr/local/bin:/usr/bin:/bin";
/// The second of the two commands; it takes longer than the rest of the hour.
const CI: &str = "cargo xtask ci";

/// Each protocol, the section of the README that is its session, and what the first envelope of one's own is answered with.
const FIRST: [(&str, &str, &str); 4] = [
    ("value-context", "A first session", "accepted"),
    ("vibe", "An agent buys something", "accepted"),
    ("agh", "Agents hand over work", "sent"),
    ("vacant", "Vacants call each other", "echo: "),
];

/// What is asked.
#[derive(Debug, Default, PartialEq)]
pub struct Wanted {
    /// Types `cargo xtask ci` as well.
    pub ci: bool,
    /// A folder to build in, which may be warm; made and handed over where it is not there.
    pub target: Option<PathBuf>,
}

impl Wanted {
    /// Reads the words behind the command.
    pub fn of(words: &[&str]) -> Option<Self> {
        let mut wanted = Self::default();
        let mut words = words.iter();
        while let Some(word) = words.next() {
            match *word {
                "--ci" => wanted.ci = true,
                "--target" => wanted.target = Some(PathBuf::from(words.next()?)),
                _ => return None,
            }
        }
        Some(wanted)
    }
}

/// The stranger: where it is, and how it starts a program.
struct Stranger {
    home: PathBuf,
    temporary: PathBuf,
    clone: PathBuf,
    path: String,
    is_other: bool,
}

/// `cargo xtask first-hour`.
pub fn first_hour(wanted: &Wanted) -> Result<ExitCode> {
    let mut clock = Clock::start()?;
    let place = tempfile::tempdir()?;
    fs::set_permissions(place.path(), fs::Permissions::from_mode(0o755))?;
    let stranger = Stranger::arrive(place.path(), wanted)?;
    clock.tell("clone", now()?);
    let readme = fs::read_to_string(stranger.clone.join("README.md"))?;
    let blocks = pages::blocks(&readme).map_err(anyhow::Error::msg)?;
    for command in to_build(&blocks, wanted.ci) {
        let done = stranger.shell(&stranger.clone, &command).status()?;
        ensure!(done.success(), "failed: {command}");
        clock.tell(&command, now()?);
    }
    let mut first = Vec::new();
    for (section, session) in pages::sessions(&blocks) {
        println!("\n== {section}");
        let (folder, began) = (stranger.empty_folder()?, now()?);
        let printed = stranger.types(&mut clock, &folder, &session)?;
        if let Some((protocol, at)) = first_envelope(section, &printed) {
            let (of_hour, of_section) = (at - clock.begun, at - began);
            first.push(format!(
                "{protocol:<14} {of_hour:>8.1} s {of_section:>8.1} s"
            ));
        }
    }
    println!("\nthe first envelope of one's own, since the start and since its section began:");
    first.iter().for_each(|line| println!("{line}"));
    ensure!(first.len() == FIRST.len(), "a protocol has none");
    println!("\nfirst-hour: {:.0} s", now()? - clock.begun);
    Ok(ExitCode::SUCCESS)
}

/// When it began and when the last step ended, in Unix seconds.
struct Clock {
    begun: f64,
    last: f64,
}

impl Clock {
    fn start() -> Result<Self> {
        let now = now()?;
        Ok(Self {
            begun: now,
            last: now,
        })
    }

    /// One line for a step that ended: since the beginning, for this step, and what it was.
    fn tell(&mut self, what: &str, ended: f64) {
        let first = what.lines().next().unwrap_or_default();
        let (at, took) = (ended - self.begun, ended - self.last);
        println!("{at:>8.1} s {took:>8.1} s  {first}");
        self.last = ended;
    }
}

/// The protocol of a section, and when its first envelope was answered.
fn first_envelope(section: &str, printed: &[Printed]) -> Option<(&'static str, f64)> {
    let (protocol, _, answer) = FIRST.iter().find(|(_, of, _)| *of == section)?;
    let is_answer = |line: &String| line.starts_with(answer);
    let found = printed.iter().find(|it| it.lines.iter().any(is_answer))?;
    Some((protocol, found.ended))
}

/// The commands that the README marks as not run by its test: they get the program, which the test has.
fn to_build(blocks: &[Block], with_ci: bool) -> Vec<String> {
    let marked = blocks
        .iter()
        .filter(|block| block.language == "console" && block.not_run.is_some());
    let commands = marked.flat_map(|block| pages::commands(&block.text));
    commands
        .map(|typed| typed.command)
        .filter(|command| with_ci || !command.starts_with(CI))
        .collect()
}

impl Stranger {
    fn arrive(place: &Path, wanted: &Wanted) -> Result<Self> {
        let [home, temporary, alone] = ["home", "tmp", "alone"].map(|name| place.join(name));
        for folder in [&home, &temporary, &alone] {
            fs::create_dir(folder)?;
        }
        let clone = alone.join("chancery");
        let mut git = Command::new("git");
        git.args(["clone", "--quiet", "--no-hardlinks"])
            .arg(project::root())
            .arg(&clone);
        ensure!(run::passes(&mut git)?, "no clone");
        let rust = toolchain(place)?;
        let stranger = Self {
            path: format!(
                "{}:{}:{SYSTEM_PATH}",
                rust.display(),
                clone.join("target/release").display()
            ),
            home,
            temporary,
            clone,
            is_other: project::is_root(),
        };
        registries(&stranger.home)?;
        if let Some(target) = &wanted.target {
            stranger.builds_in(target)?;
        }
        stranger.own(place)?;
        let told = stranger
            .shell(&stranger.home, "cargo --version && rustc --version")
            .output()?;
        run::succeeded(&told).context("an ordinary user cannot run the toolchain")?;
        print!("{}", String::from_utf8_lossy(&told.stdout));
        Ok(stranger)
    }

    /// Hands a folder over.
    fn own(&self, folder: &Path) -> Result<()> {
        if !self.is_other {
            return Ok(());
        }
        let mut chown = Command::new("chown");
        chown.args(["--recursive", &NOBODY.join(":")]).arg(folder);
        run::succeeded(&chown.output()?)
    }

    /// Lets the clone build in another folder, through a link where cargo looks.
    fn builds_in(&self, target: &Path) -> Result<()> {
        let target = std::path::absolute(target)?;
        if !target.exists() {
            fs::create_dir_all(&target)?;
            self.own(&target)?;
        }
        std::os::unix::fs::symlink(&target, self.clone.join("target"))
            .context("the clone has a folder target")
    }

    fn empty_folder(&self) -> Result<PathBuf> {
        let folder = self.temporary.join("session");
        if folder.exists() {
            fs::remove_dir_all(&folder)?;
        }
        fs::create_dir(&folder)?;
        self.own(&folder)?;
        Ok(folder)
    }

    /// A program as the stranger starts it.
    fn command(&self, program: &str, folder: &Path) -> Command {
        let mut command = Command::new("setpriv");
        if self.is_other {
            command.args(["--reuid", NOBODY[0], "--regid", NOBODY[1], "--clear-groups"]);
        }
        command.arg(program).current_dir(folder).env_clear();
        command.env("HOME", &self.home).env("PATH", &self.path);
        command
            .env("TMPDIR", &self.temporary)
            .env("LANG", "C.UTF-8");
        let network =
            std::env::vars().filter(|(name, _)| NETWORK.iter().any(|part| name.contains(part)));
        command.envs(network);
        command
    }

    fn shell(&self, folder: &Path, command: &str) -> Command {
        let mut shell = self.command("bash", folder);
        shell.args(["-c", command]);
        shell
    }

    /// Types a session and tells the time of each command; what is printed must be what the page says.
    fn types(&self, clock: &mut Clock, folder: &Path, session: &[Typed]) -> Result<Vec<Printed>> {
        let out = self.shell(folder, &pages::script(session)).output()?;
        let text = String::from_utf8_lossy(&out.stdout).into_owned();
        let printed = pages::printed(&text);
        for (Printed { lines, ended }, typed) in printed.iter().zip(session) {
            clock.tell(&format!("$ {}", typed.command), *ended);
            lines.iter().for_each(|line| println!("{:22}{line}", ""));
        }
        match pages::difference(session, &printed) {
            Some(difference) => bail!("{difference}"),
            None => Ok(printed),
        }
    }
}

fn now() -> Result<f64> {
    Ok(SystemTime::now().duration_since(UNIX_EPOCH)?.as_secs_f64())
}

/// The folder of the programs of the toolchain that runs this. Root's own home is closed to a stranger, who gets a copy.
fn toolchain(place: &Path) -> Result<PathBuf> {
    let sysroot = Command::new("rustc")
        .args(["--print", "sysroot"])
        .output()?;
    run::succeeded(&sysroot)?;
    let sysroot = PathBuf::from(String::from_utf8(sysroot.stdout)?.trim());
    if !project::is_root() {
        return Ok(sysroot.join("bin"));
    }
    let copied = place.join("rust");
    fs::create_dir(&copied)?;
    for part in ["bin", "lib", "libexec"] {
        let mut copy = Command::new("cp");
        copy.args(["--archive", "--reflink=auto"])
            .args([sysroot.join(part), copied.join(part)]);
        run::succeeded(&copy.output()?)?;
    }
    Ok(copied.join("bin"))
}

/// A machine may have its own way to the registry: that is part of the machine, not of anybody's home.
fn registries(home: &Path) -> Result<()> {
    let config = project::cargo_home().map(|folder| folder.join("config.toml"));
    if let Some(config) = config.filter(|path| path.is_file()) {
        fs::create_dir(home.join(".cargo"))?;
        fs::copy(config, home.join(".cargo/config.toml"))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_words_behind_the_command() {
        assert_eq!(Wanted::of(&[]), Some(Wanted::default()));
        let both = Wanted::of(&["--ci", "--target", "/warm"]).unwrap();
        assert!(both.ci && both.target.as_deref() == Some(Path::new("/warm")));
        assert_eq!(Wanted::of(&["--target"]), None);
        assert_eq!(Wanted::of(&["ci"]), None);
    }

    #[test]
    fn the_readme_has_two_commands_a_build_and_a_session_for_each_protocol() {
        let readme = fs::read_to_string(project::root().join("README.md")).unwrap();
        let blocks = pages::blocks(&readme).unwrap();
        let commands = to_build(&blocks, true);
        assert_eq!(commands.len(), 4, "{commands:?}");
        assert!(commands[0].starts_with("cargo run --release -p chancery -- demo"));
        assert!(commands[1].starts_with(CI));
        assert_eq!(to_build(&blocks, false).len(), 3);
        assert_eq!(pages::sessions(&blocks).len(), 4);
    }

    /// What the README says is printed, a second for each command.
    fn as_the_page_says(session: &[Typed]) -> Vec<Printed> {
        let printed = |(at, typed): (usize, &Typed)| Printed {
            lines: typed.expected.clone(),
            ended: f64::from(u32::try_from(at).unwrap()),
        };
        session.iter().enumerate().map(printed).collect()
    }

    #[test]
    fn each_protocol_has_a_first_envelope_in_its_section() {
        let readme = fs::read_to_string(project::root().join("README.md")).unwrap();
        let blocks = pages::blocks(&readme).unwrap();
        let mut protocols = Vec::new();
        for (section, session) in pages::sessions(&blocks) {
            let printed = as_the_page_says(&session);
            let (protocol, at) = first_envelope(section, &printed).expect(section);
            assert!(at > 0.0, "{section}: nothing is sent by the first command");
            protocols.push(protocol);
            assert!(first_envelope(section, &[]).is_none());
        }
        protocols.sort_unstable();
        assert_eq!(protocols, ["agh", "vacant", "value-context", "vibe"]);
        assert!(first_envelope("Figures", &[]).is_none());
    }
}
