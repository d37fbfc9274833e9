//! Other people's programs that tests run against a node, as `cargo xtask setup` installed them.

use std::path::{Path, PathBuf};

/// The folder of one of them. One that is missing fails the test: a test that is left out shows nothing.
pub fn installed(name: &str) -> PathBuf {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let target = std::env::var_os("CARGO_TARGET_DIR");
    let target = target.map_or_else(|| root.join("target"), PathBuf::from);
    let folder = root.join(target).join("official-clients").join(name);
    assert!(
        folder.join("installed").is_file(),
        "{} is not installed: run `cargo xtask setup`",
        folder.display()
    );
    folder
}
