//! Fuzzing, on the stable compiler: cargo-fuzz without a sanitizer needs no nightly.

use crate::{project, run};
use anyhow::{Context, Result};
use std::num::NonZeroU32;
use std::process::{ExitCode, Stdio};

/// `cargo xtask fuzz TARGET --minutes N`.
pub fn fuzz(target: &str, minutes: &str) -> Result<ExitCode> {
    let root = project::root();
    // the engine takes a time of 0 for "without end"
    let minutes: NonZeroU32 = minutes
        .parse()
        .context("--minutes wants a whole number above 0")?;
    let targets = targets(&root)?;
    if !targets.iter().any(|name| name == target) {
        eprintln!(
            "fuzz: no such target; these are known: {}",
            targets.join(", ")
        );
        return Ok(ExitCode::from(2));
    }
    let asked = run::cargo(&root, &["fuzz", "--version"])
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status();
    let is_here = asked.is_ok_and(|status| status.success());
    if !is_here
        && !run::passes(&mut run::cargo(
            &root,
            &["install", "cargo-fuzz", "--locked"],
        ))?
    {
        return Ok(ExitCode::FAILURE);
    }
    let time = format!("-max_total_time={}", u64::from(minutes.get()) * 60);
    let arguments = [
        "fuzz",
        "run",
        "--sanitizer",
        "none",
        target,
        "--",
        &time,
        "-timeout=10",
    ];
    let passed = run::passes(&mut run::cargo(&root, &arguments))?;
    Ok(if passed {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    })
}

fn targets(root: &std::path::Path) -> Result<Vec<String>> {
    let folder = root.join("fuzz/fuzz_targets");
    let entries = std::fs::read_dir(&folder).context("reading fuzz/fuzz_targets")?;
    let names = entries.map(|entry| Ok(entry?.file_name().to_string_lossy().into_owned()));
    let names: Vec<String> = names.collect::<Result<_>>()?;
    let mut names: Vec<String> = names
        .iter()
        .filter_map(|name| name.strip_suffix(".rs"))
        .map(str::to_owned)
        .collect();
    names.sort();
    Ok(names)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_target_is_a_binary_of_the_fuzz_package() {
        let root = project::root();
        let manifest = std::fs::read_to_string(root.join("fuzz/Cargo.toml")).unwrap();
        let manifest: toml::Table = manifest.parse().unwrap();
        let binaries = manifest["bin"].as_array().unwrap().iter();
        let mut names: Vec<&str> = binaries.map(|bin| bin["name"].as_str().unwrap()).collect();
        names.sort_unstable();
        assert_eq!(targets(&root).unwrap(), names);
    }

    #[test]
    fn a_time_without_end_and_an_unknown_target_are_refused() {
        assert!(fuzz("json_reader", "0").is_err());
        assert_eq!(fuzz("no_such_target", "1").unwrap(), ExitCode::from(2));
    }
}
