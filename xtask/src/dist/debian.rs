//! The Debian package, made by `dpkg-deb` from a folder: what is in it, and that it installs.

use super::{COMPLETIONS, LICENSES};
use crate::{project, run};
use anyhow::{Context, Result, ensure};
use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

const PROGRAM: &str = "usr/bin/chancery";
/// Where each shell looks, in the order of `COMPLETIONS`.
const COMPLETED: [&str; 3] = [
    "usr/share/bash-completion/completions/chancery",
    "usr/share/zsh/vendor-completions/_chancery",
    "usr/share/fish/vendor_completions.d/chancery.fish",
];
const UNIT: &str = "usr/lib/systemd/system/chancery.service";
const PAGE: &str = "usr/share/man/man1/chancery.1";

/// Packs the folder that `dist` filled, and tries the package.
pub fn package(root: &Path, folder: &Path, build: &Path, host: &str) -> Result<PathBuf> {
    let version = env!("CARGO_PKG_VERSION");
    let architecture = architecture(host)?;
    let place = tempfile::tempdir()?;
    let tree = place.path().join("tree");
    lay_out(root, folder, &tree)?;
    write(&tree.join("DEBIAN/control"), control(version, architecture))?;
    let package = build.join(format!("chancery_{version}_{architecture}.deb"));
    let mut pack = Command::new("dpkg-deb");
    pack.args(["--root-owner-group", "--build"])
        .arg(&tree)
        .arg(&package);
    ensure!(run::passes(&mut pack)?, "the Debian package was not built");
    holds_everything(&package)?;
    installs(&package)?;
    Ok(package)
}

/// Debian's name for the machine.
fn architecture(host: &str) -> Result<&'static str> {
    match host.split('-').next() {
        Some("x86_64") => Ok("amd64"),
        Some("aarch64") => Ok("arm64"),
        _ => anyhow::bail!("no Debian package is made for {host}"),
    }
}

fn lay_out(root: &Path, folder: &Path, tree: &Path) -> Result<()> {
    let copy = |from: PathBuf, to: &str| -> Result<()> {
        let bytes = fs::read(&from).with_context(|| from.display().to_string())?;
        write(&tree.join(to), bytes)
    };
    copy(folder.join("chancery"), PROGRAM)?;
    fs::set_permissions(tree.join(PROGRAM), fs::Permissions::from_mode(0o755))?;
    for ((_, from), to) in COMPLETIONS.iter().zip(COMPLETED) {
        copy(folder.join(from), to)?;
    }
    for page in fs::read_dir(folder.join("man"))? {
        let page = page?;
        let name = page.file_name().to_string_lossy().into_owned();
        copy(page.path(), &format!("usr/share/man/man1/{name}"))?;
    }
    copy(root.join("deploy/chancery.service"), UNIT)?;
    for name in LICENSES {
        copy(root.join(name), &format!("usr/share/doc/chancery/{name}"))?;
    }
    Ok(())
}

/// A file that everybody may read, in folders that everybody may enter.
fn write(path: &Path, bytes: impl AsRef<[u8]>) -> Result<()> {
    fs::create_dir_all(path.parent().context("a file stands in a folder")?)?;
    fs::write(path, bytes)?;
    fs::set_permissions(path, fs::Permissions::from_mode(0o644))?;
    Ok(())
}

fn control(version: &str, architecture: &str) -> String {
    format!(
        "Package: chancery\nVersion: {version}\nArchitecture: {architecture}\nSection: net\nPriority: optional\n\
         Maintainer: The Chancery project <chancery@localhost>\n\
         Description: seals, records and dispatches the messages of AI agents\n \
         One program for four agent protocols, with one log that can be verified and replayed.\n"
    )
}

/// Asks the package itself.
fn holds_everything(package: &Path) -> Result<()> {
    let mut info = Command::new("dpkg-deb");
    ensure!(
        run::passes(info.arg("--info").arg(package))?,
        "the package cannot be read"
    );
    let listed = Command::new("dpkg-deb")
        .arg("--contents")
        .arg(package)
        .output()?;
    run::succeeded(&listed)?;
    let missing = missing(&String::from_utf8_lossy(&listed.stdout));
    ensure!(missing.is_empty(), "not in the package: {missing:?}");
    Ok(())
}

/// What has to be in a listing of `dpkg-deb --contents` and is not.
fn missing(listing: &str) -> Vec<&'static str> {
    let paths: Vec<&str> = listing
        .lines()
        .filter_map(|line| line.rsplit(" ./").next())
        .collect();
    let wanted = COMPLETED.into_iter().chain([PROGRAM, UNIT, PAGE]);
    wanted.filter(|path| !paths.contains(path)).collect()
}

/// Root installs it below an empty folder; anybody else can only unpack it there. Then the program runs.
fn installs(package: &Path) -> Result<()> {
    let root = tempfile::tempdir()?;
    let mut install = if project::is_root() {
        let database = root.path().join("var/lib/dpkg");
        for folder in ["updates", "info"] {
            fs::create_dir_all(database.join(folder))?;
        }
        fs::write(database.join("status"), "")?;
        let mut dpkg = Command::new("dpkg");
        dpkg.arg("--root")
            .arg(root.path())
            .arg("--install")
            .arg(package);
        dpkg
    } else {
        let mut unpack = Command::new("dpkg-deb");
        unpack.arg("--extract").arg(package).arg(root.path());
        unpack
    };
    ensure!(run::passes(&mut install)?, "the package does not install");
    let mut program = Command::new(root.path().join(PROGRAM));
    ensure!(
        run::passes(program.arg("--version"))?,
        "the installed program does not run"
    );
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_control_file_says_what_debian_asks_for() {
        let text = control("1.2.3", "amd64");
        for field in [
            "Package: ",
            "Version: 1.2.3\n",
            "Architecture: amd64\n",
            "Maintainer: ",
            "Description: ",
        ] {
            assert!(text.contains(field), "{field}");
        }
        assert!(text.lines().skip(7).all(|line| line.starts_with(' ')));
    }

    #[test]
    fn what_is_not_listed_is_missing() {
        let line = |path: &str| format!("-rwxr-xr-x root/root 1 2026-11-16 00:00 ./{path}\n");
        let all: String = COMPLETED
            .into_iter()
            .chain([PROGRAM, UNIT, PAGE])
            .map(line)
            .collect();
        assert!(missing(&all).is_empty());
        assert_eq!(missing(&all.replace(UNIT, "elsewhere")), [UNIT]);
    }

    #[test]
    fn machines_have_debians_names() {
        assert_eq!(architecture("x86_64-unknown-linux-gnu").unwrap(), "amd64");
        assert!(architecture("riscv64gc-unknown-linux-gnu").is_err());
    }
}
