//! The Python package: its wheel, built and installed into an environment of its own, its types and its tests.

use crate::{project, python, run};
use anyhow::{Context, Result};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

/// What builds the wheel and checks the types.
const TOOLS: &[&str] = &["maturin==1.16.0", "mypy==2.4.1"];
/// Below the build folder.
const FOLDER: &str = "tools/python-package";
const IN_PLACE: &str = "tools/python-in-place";
/// The native module, as the workspace builds it and as Python looks for it.
const BUILT: &str = "debug/libchancery_native.so";
const MODULE: &str = "_native.abi3.so";

/// `cargo xtask python`: the package is built, installed and tested.
pub fn python() -> Result<ExitCode> {
    let root = project::root();
    let build = project::build_folder()?;
    let tools = build.join(FOLDER);
    if !python::install_into(&tools, TOOLS)? {
        return Ok(ExitCode::FAILURE);
    }
    let wheels = build.join("wheels");
    let passed = wheel(&root, &tools, &wheels, "dev")?
        && installed(&tools, &wheels)?
        && checks(&root, &build, &tools, None)?;
    Ok(exit(passed))
}

/// The step of `ci`: the same types and tests with the native module of the workspace's own build. A wheel would be built
/// from nothing once more, with other features.
pub fn in_place() -> Result<ExitCode> {
    let root = project::root();
    let build = project::build_folder()?;
    let tools = build.join(FOLDER);
    if !python::install_into(&tools, TOOLS)?
        || !run::passes(&mut run::cargo(&root, project::BUILD_ALL))?
    {
        return Ok(ExitCode::FAILURE);
    }
    let place = build.join(IN_PLACE);
    let package = place.join("chancery");
    if place.exists() {
        std::fs::remove_dir_all(&place)?;
    }
    std::fs::create_dir_all(&package)?;
    for entry in std::fs::read_dir(root.join("python/chancery"))? {
        let from = entry?.path();
        if let (true, Some(name)) = (from.is_file(), from.file_name()) {
            std::fs::copy(&from, package.join(name))?;
        }
    }
    let built = build.join(BUILT);
    std::fs::copy(&built, package.join(MODULE))
        .with_context(|| format!("the native module {}", built.display()))?;
    Ok(exit(checks(&root, &build, &tools, Some(&place))?))
}

fn exit(passed: bool) -> ExitCode {
    if passed {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    }
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

/// Installs the wheel over the one that is there.
fn installed(tools: &Path, wheels: &Path) -> Result<bool> {
    let mut pip = Command::new(tools.join("bin/python"));
    pip.args([
        "-m",
        "pip",
        "install",
        "--quiet",
        "--disable-pip-version-check",
    ])
    .args(["--force-reinstall", "--no-deps"])
    .arg(only_wheel(wheels)?);
    run::passes(&mut pip)
}

/// Types first: they are cheaper. The package is the installed one, or the one below `place`; the program that it is compared
/// with is built for it.
fn checks(root: &Path, build: &Path, tools: &Path, place: Option<&Path>) -> Result<bool> {
    let bin = |name: &str| tools.join("bin").join(name);
    let mut mypy = Command::new(bin("mypy"));
    mypy.args(["--strict", "chancery", "tests"])
        .arg("--cache-dir")
        .arg(build.join("mypy"))
        .current_dir(root.join("python"));
    // As `ci` builds it, with all tests: alone it would be built once more, with other features.
    let mut program = run::cargo(root, project::BUILD_ALL);
    let mut tests = Command::new(bin("python"));
    // Without the folder it is started in, which has sources and no native module.
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
    if let Some(place) = place {
        tests.env("PYTHONPATH", place);
    }
    for command in [&mut mypy, &mut program, &mut tests] {
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
