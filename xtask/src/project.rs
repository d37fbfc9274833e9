//! Where the project is and which files and packages it holds.
//!
//! The tree is walked, not asked of git: an ordinary user may check a clone that belongs to somebody else.

use anyhow::{Context, Result};
use std::fs;
use std::path::{Path, PathBuf};

/// Builds all there is: whatever a step needs is built once, with the same features.
pub const BUILD_ALL: &[&str] = &["build", "--workspace", "--all-targets"];

/// The folder that holds the workspace.
pub fn root() -> PathBuf {
    let manifest = std::env::var_os("CARGO_MANIFEST_DIR")
        .map_or_else(|| PathBuf::from(env!("CARGO_MANIFEST_DIR")), PathBuf::from);
    manifest
        .parent()
        .map_or(manifest.clone(), Path::to_path_buf)
}

/// The folder that cargo builds in: above the one that it locks while it builds. Tests look for it in the same way.
pub fn build_folder() -> Result<PathBuf> {
    let program = std::env::current_exe()?;
    let locked = |folder: &&Path| folder.join(".cargo-lock").is_file();
    let profile = program.ancestors().find(locked);
    profile
        .and_then(Path::parent)
        .map(Path::to_path_buf)
        .context("this program is in no build folder")
}

/// Whether whoever runs this may do everything; `/proc/self` belongs to the effective user.
pub fn is_root() -> bool {
    fs::metadata("/proc/self")
        .is_ok_and(|metadata| std::os::unix::fs::MetadataExt::uid(&metadata) == 0)
}

/// A file of the tree: its path from the top, with `/`, and its bytes.
#[derive(Clone, Debug)]
pub struct TreeFile {
    /// Path from the top of the project.
    pub path: String,
    /// What it holds.
    pub bytes: Vec<u8>,
}

impl TreeFile {
    /// The text, if it is text.
    pub fn text(&self) -> Option<&str> {
        std::str::from_utf8(&self.bytes).ok()
    }

    /// Whether it is Rust source.
    pub fn is_rust(&self) -> bool {
        self.path.ends_with(".rs")
    }
}

/// Every file below `root` that is not ignored, sorted by path.
pub fn tree(root: &Path) -> Result<Vec<TreeFile>> {
    let ignored = ignored_paths(root);
    let mut files = Vec::new();
    walk(root, "", &ignored, &mut files)?;
    files.sort_by(|a, b| a.path.cmp(&b.path));
    Ok(files)
}

/// The lines of `.gitignore` that name one path from the top, which is the only kind the project uses.
fn ignored_paths(root: &Path) -> Vec<String> {
    fs::read_to_string(root.join(".gitignore"))
        .unwrap_or_default()
        .lines()
        .filter_map(|line| line.trim().strip_prefix('/'))
        .map(|path| path.trim_end_matches('/').to_owned())
        .collect()
}

fn walk(folder: &Path, prefix: &str, ignored: &[String], files: &mut Vec<TreeFile>) -> Result<()> {
    if folder.join("CACHEDIR.TAG").exists() {
        return Ok(()); // a build folder, whatever its name
    }
    for entry in fs::read_dir(folder).with_context(|| format!("reading {}", folder.display()))? {
        let entry = entry?;
        let name = entry.file_name().to_string_lossy().into_owned();
        let path = format!("{prefix}{name}");
        if name == ".git" || ignored.contains(&path) {
            continue;
        }
        let kind = entry.file_type()?;
        if kind.is_dir() {
            walk(&entry.path(), &format!("{path}/"), ignored, files)?;
        } else if kind.is_file() {
            let bytes = fs::read(entry.path()).with_context(|| format!("reading {path}"))?;
            files.push(TreeFile { path, bytes });
        }
    }
    Ok(())
}

/// The package name a manifest gives.
pub fn package_name(manifest: &str) -> Result<String> {
    let table: toml::Table = manifest.parse()?;
    let name = table.get("package").and_then(|package| package.get("name"));
    let name = name
        .and_then(toml::Value::as_str)
        .context("a manifest without a package name")?;
    Ok(name.to_owned())
}

/// Where cargo keeps what it has fetched.
pub fn cargo_home() -> Option<PathBuf> {
    let given = std::env::var_os("CARGO_HOME").map(PathBuf::from);
    given.or_else(|| Some(PathBuf::from(std::env::var_os("HOME")?).join(".cargo")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_walk_leaves_out_what_is_ignored_or_built() {
        let folder = tempfile::tempdir().unwrap();
        let at = |path: &str| {
            let path = folder.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, "x").unwrap();
        };
        for path in [
            ".git/config",
            "target/a",
            "out/CACHEDIR.TAG",
            "out/b",
            "fuzz/corpus/c",
            "fuzz/d",
            "src/e.rs",
        ] {
            at(path);
        }
        fs::write(folder.path().join(".gitignore"), "/target\n/fuzz/corpus/\n").unwrap();
        let paths: Vec<String> = tree(folder.path())
            .unwrap()
            .into_iter()
            .map(|file| file.path)
            .collect();
        assert_eq!(paths, [".gitignore", "fuzz/d", "src/e.rs"]);
    }
}
