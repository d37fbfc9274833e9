//! Programs that tests start and that do not come with Rust.
//!
//! As root, or with a `sudo` that asks nothing, they are installed. Otherwise the one line to type is printed, and the
//! exit code is 2: guessing what a machine allows is worse than asking.

use crate::{clients, project, python, run};
use anyhow::Result;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};

/// A program some test starts, and the Debian package that brings it.
struct Need {
    program: &'static str,
    package: &'static str,
}

/// The one list of what tests need.
const NEEDS: &[Need] = &[
    // shows that the log is synced before an answer is written
    Need {
        program: "strace",
        package: "strace",
    },
    // counts what an envelope costs
    Need {
        program: "valgrind",
        package: "valgrind",
    },
    // carries AGH between nodes
    Need {
        program: "nats-server",
        package: "nats-server",
    },
    // keeps journals that several nodes share; its own programs are in a folder of their version
    Need {
        program: "pg_ctlcluster",
        package: "postgresql",
    },
    // judges the unit in deploy/
    Need {
        program: "systemd-analyze",
        package: "systemd",
    },
    // brings the official clients of A2A and MCP, and the Node.js that they run on
    Need {
        program: "npm",
        package: "npm",
    },
    // asks a node the way the pages of docs/ do
    Need {
        program: "curl",
        package: "curl",
    },
    // a client of the broker that is none of ours
    Need {
        program: "python3",
        package: "python3-venv",
    },
];

const QUIET: &str = "DEBIAN_FRONTEND=noninteractive";
const UPDATE: &[&str] = &["apt-get", "update"];
const INSTALL: &[&str] = &["apt-get", "install", "-y", "--no-install-recommends"];

/// Who may install packages here.
#[derive(Debug, PartialEq)]
enum Right {
    Root,
    Sudo,
    Nobody,
}

/// What to do about missing packages.
#[derive(Debug, PartialEq)]
enum Plan<'a> {
    /// These commands, in order.
    Run(Vec<Vec<&'a str>>),
    /// One line, for the person.
    Type(String),
}

/// `cargo xtask setup`.
pub fn setup() -> Result<ExitCode> {
    let programs = programs()?;
    if programs != ExitCode::SUCCESS || clients::install()? {
        return Ok(programs);
    }
    Ok(ExitCode::FAILURE)
}

fn programs() -> Result<ExitCode> {
    let missing = missing(NEEDS, &search_path());
    if missing.is_empty() {
        return python_packages();
    }
    match plan(&missing, &right()) {
        Plan::Type(line) => {
            eprintln!(
                "setup: tests need {}; type this once:\n  {line}",
                missing.join(", ")
            );
            Ok(ExitCode::from(2))
        }
        Plan::Run(commands) => {
            for words in commands {
                let mut command = Command::new(words[0]);
                command
                    .args(&words[1..])
                    .env("DEBIAN_FRONTEND", "noninteractive");
                if !run::passes(&mut command)? {
                    return Ok(ExitCode::FAILURE);
                }
            }
            python_packages()
        }
    }
}

fn python_packages() -> Result<ExitCode> {
    if !python::install()? {
        return Ok(ExitCode::FAILURE);
    }
    println!("setup: every program that tests need is here");
    Ok(ExitCode::SUCCESS)
}

/// Packages whose program is in none of `folders`.
fn missing(needs: &[Need], folders: &[PathBuf]) -> Vec<&'static str> {
    let is_here = |program: &str| folders.iter().any(|folder| folder.join(program).is_file());
    needs
        .iter()
        .filter(|need| !is_here(need.program))
        .map(|need| need.package)
        .collect()
}

/// `PATH`, and the folders an ordinary user's `PATH` often lacks.
fn search_path() -> Vec<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path)
        .chain(["/usr/sbin", "/sbin", "/usr/local/sbin"].map(PathBuf::from))
        .collect()
}

fn plan<'a>(packages: &[&'a str], right: &Right) -> Plan<'a> {
    let install = [INSTALL, packages].concat();
    // sudo drops the environment, so what must not ask is told again behind it
    let with_sudo = |words: &[&'a str]| [&["sudo", "-n", "env", QUIET], words].concat();
    match right {
        Right::Root => Plan::Run(vec![UPDATE.to_vec(), install]),
        Right::Sudo => Plan::Run(vec![with_sudo(UPDATE), with_sudo(&install)]),
        Right::Nobody => Plan::Type(format!(
            "sudo {} && sudo {}",
            UPDATE.join(" "),
            install.join(" ")
        )),
    }
}

fn right() -> Right {
    if project::is_root() {
        return Right::Root;
    }
    let sudo = Command::new("sudo")
        .args(["-n", "true"])
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status();
    if sudo.is_ok_and(|status| status.success()) && Path::new("/usr/bin/apt-get").is_file() {
        Right::Sudo
    } else {
        Right::Nobody
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TWO: &[Need] = &[
        Need {
            program: "here",
            package: "pkg-here",
        },
        Need {
            program: "gone",
            package: "pkg-gone",
        },
    ];

    #[test]
    fn only_what_is_missing_is_asked_for() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("here"), "").unwrap();
        let folders = [folder.path().to_path_buf()];
        assert_eq!(missing(TWO, &folders), ["pkg-gone"]);
        std::fs::write(folder.path().join("gone"), "").unwrap();
        assert!(missing(TWO, &folders).is_empty());
    }

    #[test]
    fn root_installs_at_once_and_a_user_through_sudo() {
        let install = [
            "apt-get",
            "install",
            "-y",
            "--no-install-recommends",
            "a",
            "b",
        ];
        let root = Plan::Run(vec![vec!["apt-get", "update"], install.to_vec()]);
        assert_eq!(plan(&["a", "b"], &Right::Root), root);
        let sudo = [&["sudo", "-n", "env", QUIET], &install[..]].concat();
        let user = Plan::Run(vec![
            vec!["sudo", "-n", "env", QUIET, "apt-get", "update"],
            sudo,
        ]);
        assert_eq!(plan(&["a", "b"], &Right::Sudo), user);
    }

    #[test]
    fn without_any_right_there_is_one_line_to_type() {
        let line = "sudo apt-get update && sudo apt-get install -y --no-install-recommends a";
        assert_eq!(plan(&["a"], &Right::Nobody), Plan::Type(line.to_owned()));
    }
}
