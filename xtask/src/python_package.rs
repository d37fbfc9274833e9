//! The Python package: its wheel, built and installed into an environment of its own, its types and its tests.

use crate::{project, python, run};
use anyhow::{Context, Result};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

/// What builds the wheel and checks the types.
const TOOLS: &[&str] = &["maturin==1.16.0", "mypy==2.4.1"];
/// Below the build folder.
const FOLDER: &str = "tools/python-package";

/// `cargo xtask python`: the package is built, installed and tested.
pub fn python() -> Result<ExitCode> {
    let root = project::root();
    let build = project::build_folder()?;
    let tools = build.join(FOLDER);
    if !python::install_into(&tools, TOOLS)? {
        return Ok(ExitCode::FAILURE);
    }
    let wheels = build.join("wheels");
    let passed = wheel(&root, &tools, &wheels, "dev")? && checks(&root, &build, &tools, &wheels)?;
    Ok(if passed {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    })
}

/// Builds the wheel into a folder that holds nothing else.
pub fn wheel(root: &Path, tools: &Path, wheels: &Path, profile: &str) -> Result<bool> {
    if wheels.exists() {
        std::fs::remove_dir_all(wheels)?;
    }
    let mut maturin = Command::new(tools.join("bin/maturin"));
    maturin
        .args(["build", "--locked", "--profile", profile, "--out"])
        .arg(wheels)
        .current_dir(root.join("python"));
    run::passes(&mut maturin)
}

/// Types first: they are cheaper. The program that the package is compared with is built for it.
fn checks(root: &Path, build: &Path, tools: &Path, wheels: &Path) -> Result<bool> {
    let bin = |name: &str| tools.join("bin").join(name);
    let wheel = only_wheel(wheels)?;
    let mut pip = Command::new(bin("python"));
    pip.args([
        "-m",
        "pip",
        "install",
        "--quiet",
        "--disable-pip-version-check",
    ])
    .args(["--force-reinstall", "--no-deps"])
    .arg(wheel);
    let mut mypy = Command::new(bin("mypy"));
    mypy.args(["--strict", "chancery", "tests"])
        .arg("--cache-dir")
        .arg(build.join("mypy"))
        .current_dir(root.join("python"));
    // As `ci` builds it, with all tests: alone it would be built once more, with other features.
    let mut program = run::cargo(root, &["test", "--workspace", "--no-run"]);
    let mut tests = Command::new(bin("python"));
    tests
        .args([
            "-P",
            "-B",
            "-m",
            "unittest",
            "discover",
            "--start-directory",
        ])
        .arg(root.join("python/tests"))
        .env("TEST_PROGRAM", build.join("debug/chancery"))
        .env("TEST_VECTORS", root.join("vectors"));
    for command in [&mut pip, &mut mypy, &mut program, &mut tests] {
        if !run::passes(command)? {
            return Ok(false);
        }
    }
    Ok(true)
}

/// One wheel for every Python (abi3), or it is not what was promised.
fn only_wheel(folder: &Path) -> Result<PathBuf> {
    let mut found: Vec<PathBuf> = std::fs::read_dir(folder)?
        .filter_map(|entry| Some(entry.ok()?.path()))
        .filter(|path| path.to_string_lossy().contains("-abi3-"))
        .collect();
    let wheel = found.pop().context("maturin built no abi3 wheel")?;
    anyhow::ensure!(found.is_empty(), "maturin built more than one wheel");
    Ok(wheel)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wheel_for_one_python_alone_is_none() {
        let folder = tempfile::tempdir().unwrap();
        let write = |name: &str| std::fs::write(folder.path().join(name), "").unwrap();
        write("chancery-0.1.0-cp311-cp311-linux_x86_64.whl");
        assert!(only_wheel(folder.path()).is_err());
        write("chancery-0.1.0-cp310-abi3-linux_x86_64.whl");
        assert!(only_wheel(folder.path()).is_ok());
    }

    #[test]
    fn the_tool_that_builds_is_the_one_that_the_package_asks_for() {
        let manifest = std::fs::read_to_string(project::root().join("python/pyproject.toml"));
        assert!(manifest.unwrap().contains(TOOLS[0]));
    }
}
