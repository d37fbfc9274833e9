//! What is given away: a static program, its completions and manual, and a Debian package.
//!
//! The program is tried where nothing is: in an empty folder that is its whole file system. The package is taken apart
//! and installed below a folder of its own.

mod debian;

use crate::{project, run};
use anyhow::{Context, Result, ensure};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use std::time::{Duration, Instant};

/// Below the build folder.
const FOLDER: &str = "dist";
/// Shells that the program writes completions for, and the file of each.
const COMPLETIONS: [(&str, &str); 3] = [
    ("bash", "completions/chancery.bash"),
    ("zsh", "completions/_chancery"),
    ("fish", "completions/chancery.fish"),
];
/// A static program cannot ask its C library whether it knows getrandom, and would look for `/dev/urandom` instead.
const RANDOM_BYTES: &str = r#"--cfg getrandom_backend="linux_getrandom""#;
/// The longest that the demo of the release build may take, on whatever machine builds it.
const DEMO_WITHIN: Duration = Duration::from_secs(30);
const LICENSES: [&str; 2] = ["LICENSE-APACHE", "LICENSE-MIT"];

/// How the program is built.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Build {
    /// As it is given away.
    Release,
    /// Without optimisation, and not for this machine's processor: the same steps, to see that they work.
    Quick,
}

/// `cargo xtask dist`.
pub fn dist(how: Build) -> Result<ExitCode> {
    let root = project::root();
    let build = project::build_folder()?;
    let host = host()?;
    if how == Build::Release {
        let native = build_static(&root, &build, &host, how, "-C target-cpu=native")?;
        is_quick_enough(in_an_empty_root(&native)?)?;
    }
    let program = build_static(&root, &build, &host, how, "")?;
    let time = in_an_empty_root(&program)?;
    if how == Build::Release {
        is_quick_enough(time)?;
    }
    let folder = build.join(FOLDER);
    fill(&root, &program, &folder)?;
    let package = debian::package(&root, &folder, &build, &host)?;
    println!("dist: {} and {}", folder.display(), package.display());
    Ok(ExitCode::SUCCESS)
}

/// `cargo xtask package`: what each package holds is enough to build it.
pub fn package() -> Result<ExitCode> {
    let folder = project::build_folder()?.join("packages");
    forget_earlier(&folder)?;
    let arguments = ["package", "--workspace", "--allow-dirty", "--locked"];
    let mut package = run::cargo(&project::root(), &arguments);
    package.env("CARGO_TARGET_DIR", folder);
    // Nobody runs what is built here, or builds it again.
    package.env("CARGO_PROFILE_DEV_DEBUG", "false");
    package.env("CARGO_INCREMENTAL", "0");
    Ok(if run::passes(&mut package)? {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    })
}

/// `cargo xtask soak install`: the program as `cargo install` puts it into a folder plays its demo.
pub fn install() -> Result<ExitCode> {
    let place = tempfile::tempdir()?;
    let arguments = ["install", "--locked", "--path", "crates/chancery", "--root"];
    let mut install = run::cargo(&project::root(), &arguments);
    // Built once: the folder of the other release builds has nearly all of it.
    install.arg(place.path());
    install.env("CARGO_TARGET_DIR", project::build_folder()?);
    ensure!(run::passes(&mut install)?, "the program was not installed");
    let mut demo = Command::new(place.path().join("bin/chancery"));
    ensure!(
        run::passes(demo.arg("demo"))?,
        "the installed program does not play its demo"
    );
    Ok(ExitCode::SUCCESS)
}

/// Removes what an earlier run has unpacked and built: cargo takes a package of the same version for the same package.
fn forget_earlier(built: &Path) -> Result<()> {
    let home = project::cargo_home().context("neither CARGO_HOME nor HOME is set")?;
    // Registries that are folders of this machine have no name in front of their hash.
    for registry in matching(&home.join("registry/src"), "-")? {
        for unpacked in matching(&registry, "chancery-")? {
            fs::remove_dir_all(unpacked)?;
        }
    }
    for known in matching(&built.join("debug/.fingerprint"), "chancery-")? {
        fs::remove_dir_all(known)?;
    }
    Ok(())
}

/// The folders of a folder whose names begin so; none where there is no folder.
fn matching(folder: &Path, beginning: &str) -> Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    if folder.is_dir() {
        for entry in fs::read_dir(folder)? {
            let entry = entry?;
            if entry.file_name().to_string_lossy().starts_with(beginning) {
                found.push(entry.path());
            }
        }
    }
    Ok(found)
}

/// The target that this machine is, such as `x86_64-unknown-linux-gnu`.
fn host() -> Result<String> {
    let rustc = Command::new("rustc").arg("-vV").output()?;
    run::succeeded(&rustc)?;
    let text = String::from_utf8_lossy(&rustc.stdout).into_owned();
    let host = text.lines().find_map(|line| line.strip_prefix("host: "));
    Ok(host.context("rustc names no host")?.to_owned())
}

/// A build that needs no library of the machine it runs on. The target is named, so that what runs while building is not
/// static.
fn build_static(root: &Path, build: &Path, host: &str, how: Build, more: &str) -> Result<PathBuf> {
    let (profile, made) = match how {
        Build::Release => ("release", "release"),
        Build::Quick => ("dev", "debug"),
    };
    let target = build.join(if more.is_empty() {
        "static"
    } else {
        "static-native"
    });
    let arguments = ["build", "--locked", "--package", "chancery"];
    let mut cargo = run::cargo(root, &arguments);
    let flags = format!("-C target-feature=+crt-static {RANDOM_BYTES} {more}");
    cargo
        .args(["--profile", profile, "--target", host])
        .env("RUSTFLAGS", flags.trim())
        .env("CARGO_TARGET_DIR", &target);
    ensure!(run::passes(&mut cargo)?, "the static program was not built");
    Ok(target.join(host).join(made).join("chancery"))
}

/// The first thing that a stranger sees does not let them wait.
fn is_quick_enough(time: Duration) -> Result<()> {
    println!("dist: the demo took {:.1} s", time.as_secs_f64());
    ensure!(
        time <= DEMO_WITHIN,
        "the demo takes longer than {} s",
        DEMO_WITHIN.as_secs()
    );
    Ok(())
}

/// Runs the demo where there is no library, no certificate and no device. Gives the time it took.
fn in_an_empty_root(program: &Path) -> Result<Duration> {
    let root = tempfile::tempdir()?;
    fs::copy(program, root.path().join("chancery"))?;
    // Whoever is not root becomes it in a world of its own.
    let mut demo = if project::is_root() {
        Command::new("chroot")
    } else {
        let mut own = Command::new("unshare");
        own.args(["--map-root-user", "chroot"]);
        own
    };
    demo.arg(root.path())
        .args(["/chancery", "demo"])
        .env_clear()
        .env("PATH", "/usr/sbin:/usr/bin:/sbin:/bin")
        .env("TMPDIR", "/");
    let began = Instant::now();
    ensure!(
        run::passes(&mut demo)?,
        "the demo does not run in an empty root"
    );
    Ok(began.elapsed())
}

/// Puts everything into one folder.
fn fill(root: &Path, program: &Path, folder: &Path) -> Result<()> {
    if folder.exists() {
        fs::remove_dir_all(folder)?;
    }
    fs::create_dir_all(folder.join("completions"))?;
    fs::copy(program, folder.join("chancery"))?;
    for name in LICENSES {
        fs::copy(root.join(name), folder.join(name))?;
    }
    for (shell, path) in COMPLETIONS {
        let script = Command::new(program)
            .args(["completions", shell])
            .output()?;
        run::succeeded(&script)?;
        fs::write(folder.join(path), script.stdout)?;
    }
    let mut man = Command::new(program);
    man.args(["man", "--out"]).arg(folder.join("man"));
    ensure!(run::passes(&mut man)?, "no manual pages");
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_demo_that_takes_too_long_is_refused() {
        assert!(is_quick_enough(DEMO_WITHIN).is_ok());
        assert!(is_quick_enough(DEMO_WITHIN + Duration::from_millis(1)).is_err());
    }
}
