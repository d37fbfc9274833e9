//! Runs the real binary in a directory of its own, without this process's environment. It ends with the test.

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use chancery_testkit::process::bound;
use tempfile::TempDir;

/// The root of the workspace.
pub fn workspace() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// A directory to run the program in.
pub struct Place {
    dir: TempDir,
    environment: Vec<(String, String)>,
}

/// What a run gave.
pub struct Ran {
    pub code: i32,
    pub out: Vec<u8>,
    pub err: String,
}

impl Ran {
    pub fn text(&self) -> String {
        String::from_utf8(self.out.clone()).unwrap()
    }

    pub fn json(&self) -> serde_json::Value {
        serde_json::from_slice(&self.out).unwrap_or_else(|error| {
            panic!("{error}: {} {}", self.text(), self.err);
        })
    }

    /// Checks the exit code; says what was written when it is another.
    pub fn exits(self, code: i32) -> Self {
        assert_eq!(self.code, code, "out: {}\nerr: {}", self.text(), self.err);
        self
    }
}

impl From<Output> for Ran {
    fn from(output: Output) -> Self {
        Self {
            code: output.status.code().expect("it ended by itself"),
            out: output.stdout,
            err: String::from_utf8(output.stderr).unwrap(),
        }
    }
}

impl Place {
    pub fn new() -> Self {
        Self {
            dir: TempDir::new().unwrap(),
            environment: Vec::new(),
        }
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    pub fn write(&self, name: &str, text: impl AsRef<[u8]>) -> PathBuf {
        let path = self.path(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(&path, text).unwrap();
        path
    }

    pub fn read(&self, name: &str) -> String {
        std::fs::read_to_string(self.path(name)).unwrap()
    }

    /// The same place with a variable set.
    pub fn with(mut self, name: &str, value: &str) -> Self {
        self.environment.push((name.to_owned(), value.to_owned()));
        self
    }

    /// What a variable is set to here.
    pub fn variable(&self, name: &str) -> Option<&str> {
        let found = self.environment.iter().rev().find(|(set, _)| set == name);
        found.map(|(_, value)| value.as_str())
    }

    pub fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_chancery"));
        command.args(arguments).current_dir(self.dir.path());
        for (name, _) in std::env::vars_os() {
            if name.to_string_lossy().starts_with("CHANCERY_") {
                command.env_remove(name);
            }
        }
        command.envs(self.environment.iter().cloned());
        bound(&command)
    }

    pub fn run(&self, arguments: &[&str]) -> Ran {
        self.command(arguments)
            .stdin(Stdio::null())
            .output()
            .unwrap()
            .into()
    }

    pub fn run_with_input(&self, arguments: &[&str], input: &[u8]) -> Ran {
        let mut child = self
            .command(arguments)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        child.stdin.take().unwrap().write_all(input).unwrap();
        child.wait_with_output().unwrap().into()
    }
}
