//! Other people's clients that tests run against a node: from PyPI and npm, in the versions of their lock files.
//!
//! Each is installed once into a folder of its own below the target directory, and anew when its lock file changes. One
//! that cannot be installed fails the run: a test that is left out shows nothing.

use crate::{project, run};
use anyhow::{Context, Result};
use std::fs;
use std::path::Path;
use std::process::Command;

/// Where the lock files and the scripts are.
const SCRIPTS: &str = "crates/doors/tests/clients";
/// The Python environments, each with its lock file `requirements-NAME.txt`.
const ENVIRONMENTS: [&str; 5] = ["a2a-1", "a2a-0.3", "mcp-1", "mcp-2", "schemathesis"];
/// Says, as the last thing that is written, what a folder holds.
const MARK: &str = "installed";

/// Installs whatever is missing; whether all of it is there now.
pub fn install() -> Result<bool> {
    let root = project::root();
    let scripts = root.join(SCRIPTS);
    let folder = project::build_folder()?.join("official-clients");
    fs::create_dir_all(&folder).with_context(|| folder.display().to_string())?;
    for name in ENVIRONMENTS {
        let lock = scripts.join(format!("requirements-{name}.txt"));
        let at = folder.join(name);
        if !once(&at, &[&lock], || python(&at, &lock))? {
            return Ok(false);
        }
    }
    let lock = scripts.join("package-lock.json");
    let at = folder.join("npm");
    if !once(&at, &[&lock], || npm(&at, &scripts))? {
        return Ok(false);
    }
    // The scripts stand beside the packages: that is where Node looks for them.
    for script in ["a2a_js.mjs", "mcp_js.mjs", "vacant_sign.mjs"] {
        fs::copy(scripts.join(script), at.join(script))?;
    }
    println!("setup: the official clients of A2A and MCP are here, and schemathesis");
    Ok(true)
}

/// Does the work unless the folder holds what these lock files say.
fn once(at: &Path, locks: &[&Path], work: impl FnOnce() -> Result<bool>) -> Result<bool> {
    let mut wanted = String::new();
    for lock in locks {
        wanted += &fs::read_to_string(lock).with_context(|| lock.display().to_string())?;
    }
    if fs::read_to_string(at.join(MARK)).is_ok_and(|found| found == wanted) {
        return Ok(true);
    }
    if at.exists() {
        fs::remove_dir_all(at)?;
    }
    if !work()? {
        return Ok(false);
    }
    fs::write(at.join(MARK), wanted)?;
    Ok(true)
}

fn python(at: &Path, lock: &Path) -> Result<bool> {
    if !run::passes(Command::new("python3").args(["-m", "venv"]).arg(at))? {
        return Ok(false);
    }
    let mut pip = Command::new(at.join("bin/python"));
    pip.args([
        "-m",
        "pip",
        "install",
        "--quiet",
        "--disable-pip-version-check",
    ]);
    run::passes(pip.args(["--no-deps", "--requirement"]).arg(lock))
}

fn npm(at: &Path, scripts: &Path) -> Result<bool> {
    fs::create_dir_all(at)?;
    for file in ["package.json", "package-lock.json"] {
        fs::copy(scripts.join(file), at.join(file))?;
    }
    let mut npm = Command::new("npm");
    npm.args(["ci", "--no-audit", "--no-fund"]).current_dir(at);
    run::passes(&mut npm)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn work_is_done_once_and_again_when_the_lock_changes() {
        let folder = tempfile::tempdir().unwrap();
        let (at, lock) = (folder.path().join("at"), folder.path().join("lock"));
        let done = std::cell::Cell::new(0);
        let work = || {
            done.set(done.get() + 1);
            fs::create_dir_all(&at)?;
            Ok(true)
        };
        for (text, times) in [("a", 1), ("a", 1), ("b", 2)] {
            fs::write(&lock, text).unwrap();
            assert!(once(&at, &[&lock], work).unwrap());
            assert_eq!(done.get(), times);
        }
        fs::write(&lock, "c").unwrap();
        assert!(!once(&at, &[&lock], || Ok(false)).unwrap());
        // What failed is tried again.
        assert!(once(&at, &[&lock], work).unwrap());
        assert_eq!(done.get(), 3);
    }
}
