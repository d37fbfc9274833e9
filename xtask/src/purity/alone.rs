//! What the pure packages are built from when nobody else is there.
//!
//! `cargo metadata` joins the features that all packages of a workspace ask for, tests included. So the pure packages
//! are laid out as a workspace of their own, without code and without what only their tests need, and cargo resolves
//! that one with the project's lock file.

use crate::run;
use anyhow::{Context, Result};
use serde_json::Value;
use std::collections::BTreeMap;
use std::path::Path;

/// Packages by identifier, as cargo resolves them for some folders under `crates/` alone, on any platform.
pub(super) struct Packages(BTreeMap<String, Package>);

struct Package {
    name: String,
    /// What it is built from. Macros run in the compiler, not in the program, and are left out.
    normal: Vec<String>,
}

impl Packages {
    pub(super) fn of(root: &Path, folders: &[&str]) -> Result<Self> {
        let alone = tempfile::tempdir()?;
        lay_out(root, folders, alone.path())?;
        let output = run::cargo(alone.path(), &["metadata", "--format-version", "1"]).output()?;
        run::succeeded(&output).context("cargo metadata")?;
        read(&serde_json::from_slice(&output.stdout)?).context("cargo metadata has another form")
    }

    /// The packages of a list that `from` is built from, each with one way that leads to it.
    pub(super) fn ways(&self, from: &str, list: &[&str]) -> Result<Vec<String>> {
        let (id, _) = self
            .0
            .iter()
            .find(|(_, package)| package.name == from)
            .with_context(|| format!("cargo knows no package {from}"))?;
        let mut ways: BTreeMap<&str, String> = BTreeMap::from([(id.as_str(), from.to_owned())]);
        let mut open = vec![id.as_str()];
        while let Some(id) = open.pop() {
            for below in self.0.get(id).map_or(&[][..], |package| &package.normal) {
                let Some(package) = self
                    .0
                    .get(below)
                    .filter(|_| !ways.contains_key(below.as_str()))
                else {
                    continue;
                };
                ways.insert(below, format!("{} -> {}", ways[id], package.name));
                open.push(below);
            }
        }
        let is_listed = |id: &str| list.contains(&self.0[id].name.as_str());
        Ok(ways
            .into_iter()
            .filter(|(below, _)| *below != id && is_listed(below))
            .map(|(_, way)| way)
            .collect())
    }
}

/// Writes the manifests of the folders, the lock file and a root manifest that has no other member.
fn lay_out(root: &Path, folders: &[&str], alone: &Path) -> Result<()> {
    let mut top = manifest(&root.join("Cargo.toml"))?;
    let workspace = top
        .get_mut("workspace")
        .and_then(toml::Value::as_table_mut)
        .context("the root manifest has no workspace")?;
    let members: Vec<String> = folders
        .iter()
        .map(|name| format!("crates/{name}"))
        .collect();
    workspace.remove("exclude");
    workspace.insert("members".to_owned(), members.clone().into());
    std::fs::write(alone.join("Cargo.toml"), toml::to_string(&top)?)?;
    for member in members {
        let mut table = manifest(&root.join(&member).join("Cargo.toml"))?;
        table.remove("dev-dependencies");
        let code = alone.join(&member).join("src");
        std::fs::create_dir_all(&code)?;
        std::fs::write(code.join("lib.rs"), "")?;
        std::fs::write(
            alone.join(&member).join("Cargo.toml"),
            toml::to_string(&table)?,
        )?;
    }
    if root.join("Cargo.lock").exists() {
        std::fs::copy(root.join("Cargo.lock"), alone.join("Cargo.lock"))?;
    }
    Ok(())
}

fn manifest(path: &Path) -> Result<toml::Table> {
    let text =
        std::fs::read_to_string(path).with_context(|| format!("reading {}", path.display()))?;
    text.parse()
        .with_context(|| format!("parsing {}", path.display()))
}

fn read(metadata: &Value) -> Option<Packages> {
    let told = metadata["packages"].as_array()?;
    let is_macro = |package: &Value| {
        let targets = package["targets"].as_array();
        let proc_macro = Value::from("proc-macro");
        targets.is_some_and(|targets| {
            let kinds = targets
                .iter()
                .filter_map(|target| target["kind"].as_array());
            kinds.flatten().any(|kind| *kind == proc_macro)
        })
    };
    let names: BTreeMap<&str, &str> = told
        .iter()
        .filter(|package| !is_macro(package))
        .filter_map(|package| Some((package["id"].as_str()?, package["name"].as_str()?)))
        .collect();
    let mut packages = BTreeMap::new();
    for node in metadata["resolve"]["nodes"].as_array()? {
        let id = node["id"].as_str()?;
        let Some(name) = names.get(id) else { continue };
        let is_normal = |below: &&Value| {
            let kinds = below["dep_kinds"].as_array();
            kinds.is_some_and(|kinds| kinds.iter().any(|kind| kind["kind"].is_null()))
        };
        let below = node["deps"].as_array()?.iter().filter(is_normal);
        let normal = below.filter_map(|below| below["pkg"].as_str());
        let package = Package {
            name: (*name).to_owned(),
            normal: normal
                .filter(|id| names.contains_key(id))
                .map(str::to_owned)
                .collect(),
        };
        packages.insert(id.to_owned(), package);
    }
    Some(Packages(packages))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A project with the pure package `pure`, `between` below it, and what a test alone needs.
    fn project(pure: &str, between: &str) -> tempfile::TempDir {
        let folder = tempfile::tempdir().unwrap();
        let write = |path: &str, text: &str| {
            let path = folder.path().join(path);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        };
        let package = |name: &str, rest: &str| {
            let head = format!("[package]\nname = \"{name}\"\nversion = \"0.1.0\"\n");
            write(
                &format!("crates/{name}/Cargo.toml"),
                &format!("{head}edition = \"2024\"\n{rest}"),
            );
            write(&format!("crates/{name}/src/lib.rs"), "");
        };
        write(
            "Cargo.toml",
            "[workspace]\nresolver = \"3\"\nmembers = [\"crates/*\"]\nexclude = [\"fuzz\"]\n",
        );
        package("pure", pure);
        package("between", between);
        package("tokio", "");
        folder
    }

    const BETWEEN: &str = "[dependencies]\nbetween = { path = \"../between\" }\n";
    const TOKIO: &str = "tokio = { path = \"../tokio\" }\n";

    fn ways(folder: &tempfile::TempDir) -> Vec<String> {
        let packages = Packages::of(folder.path(), &["pure", "between", "tokio"]).unwrap();
        packages.ways("pure", &["tokio"]).unwrap()
    }

    #[test]
    fn a_package_further_below_is_found_with_the_way_to_it() {
        let folder = project(BETWEEN, &format!("[dependencies]\n{TOKIO}"));
        assert_eq!(ways(&folder), ["pure -> between -> tokio"]);
    }

    #[test]
    fn what_tests_and_build_scripts_need_is_not_what_the_package_is_built_from() {
        for kind in ["dev-dependencies", "build-dependencies"] {
            let folder = project(BETWEEN, &format!("[{kind}]\n{TOKIO}"));
            assert_eq!(ways(&folder), [""; 0], "{kind}");
        }
    }

    #[test]
    fn a_feature_that_nobody_pure_asks_for_brings_nothing() {
        let optional = "tokio = { path = \"../tokio\", optional = true }\n";
        let folder = project(
            BETWEEN,
            &format!("[features]\nall = [\"tokio\"]\n[dependencies]\n{optional}"),
        );
        assert_eq!(ways(&folder), [""; 0]);
        let asked = BETWEEN.replace(" }", ", features = [\"all\"] }");
        std::fs::write(
            folder.path().join("crates/pure/Cargo.toml"),
            format!("[package]\nname = \"pure\"\nversion = \"0.1.0\"\nedition = \"2024\"\n{asked}"),
        )
        .unwrap();
        assert_eq!(ways(&folder), ["pure -> between -> tokio"]);
    }
}
