//! Pure crates stay pure: below them stands no package that could do what they must not do.
//!
//! This is one of two checks. The other is clippy's: `clippy.toml` lists calls and types of the standard library, and
//! each pure crate forbids them with [`FORBID`]. This module answers for dependencies only, as `cargo metadata` resolves
//! them for the pure packages alone: a feature that another crate of the workspace turns on is not held against them.

use crate::{project, run};
use alone::Packages;
use anyhow::{Context, Result};
use std::path::Path;
use std::process::ExitCode;

/// The folders under `crates/` whose package is pure.
pub const PURE: &[&str] = &["core", "vibe", "value-context", "vacant", "agh", "journal"];

/// The lines in a pure crate's `lib.rs` that turn on clippy's half of the check. Unit tests may read files.
pub const FORBID: &[&str] = &[
    "#![cfg_attr(not(test), forbid(clippy::disallowed_methods))]",
    "#![cfg_attr(not(test), forbid(clippy::disallowed_types))]",
];

/// Packages that do I/O, run tasks, or draw randomness. `rand_core` is not among them: it holds traits.
const FORBIDDEN: &[&str] = &[
    // tasks and threads
    "tokio",
    "async-std",
    "smol",
    "async-io",
    "async-executor",
    "futures-executor",
    "rayon",
    "crossbeam-channel",
    "mio",
    "polling",
    // sockets and what speaks over them
    "socket2",
    "hyper",
    "hyper-util",
    "reqwest",
    "ureq",
    "axum",
    "tower-http",
    "tungstenite",
    "rustls",
    "quinn",
    // databases, brokers, files
    "rusqlite",
    "libsqlite3-sys",
    "sqlx",
    "tokio-postgres",
    "deadpool-postgres",
    "async-nats",
    "redb",
    "tempfile",
    // randomness
    "getrandom",
    "rand",
    "rand_chacha",
    "rand_hc",
    "fastrand",
    "oorandom",
];

/// Packages that no part of the program is built from: one TLS and one set of primitives are enough. What an optional
/// feature alone would bring stands in the lock file all the same, so cargo is asked what it builds.
const UNWANTED: &[&str] = &["openssl", "openssl-sys", "native-tls", "ring"];

/// `cargo xtask purity`.
pub fn purity() -> Result<ExitCode> {
    let root = project::root();
    let mut faults = Vec::new();
    let packages = Packages::of(&root, PURE)?;
    for folder in PURE {
        faults.extend(packages.ways(&package_of(&root, folder)?, FORBIDDEN)?);
    }
    faults.extend(on_the_way(UNWANTED, &whole_tree(&root)?)?);
    for fault in &faults {
        eprintln!("purity: {fault}");
    }
    println!(
        "purity: {} crates, {} forbidden dependencies",
        PURE.len(),
        faults.len()
    );
    Ok(if faults.is_empty() {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    })
}

fn package_of(root: &Path, folder: &str) -> Result<String> {
    let manifest = std::fs::read_to_string(root.join("crates").join(folder).join("Cargo.toml"))
        .with_context(|| format!("the manifest of the pure crate {folder}"))?;
    project::package_name(&manifest)
}

/// Everything that any package of the workspace is built from or tested with, on any platform.
fn whole_tree(root: &Path) -> Result<String> {
    let arguments = [
        "tree",
        "--workspace",
        "--edges",
        "normal,build,dev",
        "--target",
        "all",
        "--prefix",
        "depth",
    ];
    let output = run::cargo(root, &arguments)
        .args(["--format", " {p}"])
        .output()?;
    run::succeeded(&output).context("cargo tree")?;
    Ok(String::from_utf8(output.stdout)?)
}

/// The packages of a list that stand in a tree, each with the way that leads to it.
fn on_the_way(list: &[&str], tree: &str) -> Result<Vec<String>> {
    let mut way: Vec<&str> = Vec::new();
    let mut faults = Vec::new();
    // A heading such as `[dev-dependencies]` stands between packages.
    let is_package = |line: &&str| !line.trim().is_empty() && !line.trim_start().starts_with('[');
    for line in tree.lines().filter(is_package) {
        let mut words = line.split_whitespace();
        let depth: usize = words
            .next()
            .and_then(|word| word.parse().ok())
            .context("a line without depth")?;
        let name = words.next().context("a line without package")?;
        way.truncate(depth);
        way.push(name);
        if depth > 0 && list.contains(&name) {
            faults.push(way.join(" -> "));
        }
    }
    Ok(faults)
}

mod alone;
#[cfg(test)]
mod bites;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_forbidden_package_is_named_with_the_way_to_it() {
        for name in FORBIDDEN.iter().chain(UNWANTED) {
            let tree = format!(
                "0 chancery-core v0.1.0\n1 helper v1.0.0\n2 {name} v1.0.0\n1 serde v1.0.0\n"
            );
            assert_eq!(
                on_the_way(&[name], &tree).unwrap(),
                [format!("chancery-core -> helper -> {name}")]
            );
        }
    }

    // VX-GEN-3, VX-CRD-7, VX-SCH-3: what has no way to a socket or a disk fetches nothing.
    #[test]
    fn the_pure_crates_do_no_io() {
        let root = project::root();
        let packages = Packages::of(&root, PURE).unwrap();
        for folder in PURE {
            let package = package_of(&root, folder).unwrap();
            assert_eq!(packages.ways(&package, FORBIDDEN).unwrap(), [""; 0]);
        }
        let to_core = packages.ways("chancery-value-context", &["chancery-core"]);
        assert_eq!(
            to_core.unwrap(),
            ["chancery-value-context -> chancery-core"]
        );
    }

    #[test]
    fn harmless_packages_pass() {
        let tree = "0 chancery-core v0.1.0 (/somewhere)\n1 rand_core v0.10.1\n1 serde v1.0.0\n2 serde_core v1 (*)\n";
        assert!(on_the_way(FORBIDDEN, tree).unwrap().is_empty());
    }
}
