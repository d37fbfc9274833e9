//! What `cargo xtask setup` installs below the build folder, for tests that start it.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// A program of the Python packages.
pub fn python_tool(name: &str) -> PathBuf {
    let tool = build_folder().join("tools/python/bin").join(name);
    assert!(
        tool.is_file(),
        "{} is not installed: run `cargo xtask setup`",
        tool.display()
    );
    tool
}

/// The folder of one of the official clients: a Python environment, or `npm`.
pub fn official_client(name: &str) -> PathBuf {
    let folder = build_folder().join("official-clients").join(name);
    assert!(
        folder.join("installed").is_file(),
        "{} is not installed: run `cargo xtask setup`",
        folder.display()
    );
    folder
}

/// A script of the official clients, about to be run by the Python of one of them.
pub fn client_script(environment: &str, script: &str) -> Command {
    let scripts = Path::new(env!("CARGO_MANIFEST_DIR")).join("../doors/tests/clients");
    let mut command = Command::new(official_client(environment).join("bin/python"));
    command
        .arg("-B")
        .arg(scripts.join(script))
        .env_remove("http_proxy")
        .env("NO_PROXY", "127.0.0.1")
        .stdin(Stdio::null());
    command
}

/// The folder that cargo builds in: above the one that it locks while it builds.
fn build_folder() -> PathBuf {
    let test = std::env::current_exe().expect("a test knows where it is");
    let locked = |folder: &&Path| folder.join(".cargo-lock").is_file();
    let profile = test.ancestors().find(locked);
    profile
        .and_then(Path::parent)
        .expect("a test is in the build folder")
        .to_path_buf()
}
