//! Pure crates stay pure: below them stands no package that could do what they must not do.
//!
//! This is one of two checks. The other is clippy's: `clippy.toml` lists calls and types of the standard library, and
//! each pure crate forbids them with [`FORBID`]. This module answers for dependencies only, as cargo resolves them for
//! the pure package alone: a feature that another crate of the workspace turns on is not held against it.

use crate::{project, run};
use anyhow::{Context, Result, bail};
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
    for folder in PURE {
        let manifest = std::fs::read_to_string(root.join("crates").join(folder).join("Cargo.toml"))
            .with_context(|| format!("the manifest of the pure crate {folder}"))?;
        let package = project::package_name(&manifest)?;
        faults.extend(on_the_way(FORBIDDEN, &dependency_tree(&root, &package)?)?);
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

/// Everything the package is built from, one line each, with its depth in front. Macros run in the compiler, not in
/// the program, and are left out.
fn dependency_tree(root: &Path, package: &str) -> Result<String> {
    let arguments = [
        "tree",
        "--package",
        package,
        "--edges",
        "normal,no-proc-macro",
        "--prefix",
        "depth",
    ];
    tree(root, &arguments)
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
    tree(root, &arguments)
}

fn tree(root: &Path, arguments: &[&str]) -> Result<String> {
    let output = run::cargo(root, arguments)
        .args(["--format", " {p}"])
        .output()?;
    if !output.status.success() {
        bail!(
            "cargo {}: {}",
            arguments.join(" "),
            String::from_utf8_lossy(&output.stderr).trim()
        );
    }
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
    fn the_core_of_value_context_does_no_io() {
        let tree = dependency_tree(&project::root(), "chancery-value-context").unwrap();
        assert!(tree.contains("chancery-core"), "{tree}");
        assert_eq!(on_the_way(FORBIDDEN, &tree).unwrap(), [""; 0]);
    }

    #[test]
    fn harmless_packages_pass() {
        let tree = "0 chancery-core v0.1.0 (/somewhere)\n1 rand_core v0.10.1\n1 serde v1.0.0\n2 serde_core v1 (*)\n";
        assert!(on_the_way(FORBIDDEN, tree).unwrap().is_empty());
    }

    #[test]
    fn what_cargo_prints_for_a_real_package_is_understood() {
        let folder = tempfile::tempdir().unwrap();
        let write = |path: &str, text: &str| {
            let path = folder.path().join(path);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        };
        let package = |name: &str, rest: &str| {
            format!("[package]\nname = \"{name}\"\nversion = \"0.1.0\"\nedition = \"2024\"\n{rest}")
        };
        write(
            "Cargo.toml",
            &package(
                "pure",
                "[dependencies]\nbetween = { path = \"between\" }\n[workspace]\n",
            ),
        );
        write("src/lib.rs", "");
        write(
            "between/Cargo.toml",
            &package(
                "between",
                "[dependencies]\ntokio = { path = \"../tokio\" }\n",
            ),
        );
        write("between/src/lib.rs", "");
        write("tokio/Cargo.toml", &package("tokio", ""));
        write("tokio/src/lib.rs", "");
        let tree = dependency_tree(folder.path(), "pure").unwrap();
        assert_eq!(
            on_the_way(FORBIDDEN, &tree).unwrap(),
            ["pure -> between -> tokio"]
        );
    }
}
