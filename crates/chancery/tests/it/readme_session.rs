//! The sessions of the README, typed word by word: what is printed there is what the program prints.

use std::process::{Command, Stdio};

use crate::support::{Place, workspace};

/// A command and the lines that follow it; `…` stands for what differs from run to run.
struct Typed {
    command: String,
    expected: Vec<String>,
}

/// The commands of each `console` block; a command goes on where a line begins with `> `.
fn sessions() -> Vec<Vec<Typed>> {
    let readme = std::fs::read_to_string(workspace().join("README.md")).unwrap();
    let blocks = readme.split("```console\n").skip(1);
    let blocks = blocks.map(|block| block.split("```").next().unwrap());
    blocks.map(session).collect()
}

fn session(block: &str) -> Vec<Typed> {
    let mut session: Vec<Typed> = Vec::new();
    for line in block.lines() {
        if let Some(command) = line.strip_prefix("$ ") {
            session.push(Typed {
                command: command.to_owned(),
                expected: Vec::new(),
            });
            continue;
        }
        let last = session.last_mut().unwrap();
        match line.strip_prefix("> ") {
            Some(more) => last.command.extend(["\n", more]),
            None => last.expected.push(line.to_owned()),
        }
    }
    session
}

/// Whether a line is what the README shows.
fn fits(pattern: &str, line: &str) -> bool {
    let mut parts = pattern.split('…');
    let Some(mut rest) = line.strip_prefix(parts.next().unwrap_or_default()) else {
        return false;
    };
    let mut last = "";
    for part in parts {
        let Some(at) = rest.find(part) else {
            return false;
        };
        rest = &rest[at + part.len()..];
        last = part;
    }
    rest.is_empty() || (pattern.contains('…') && last.is_empty())
}

#[test]
fn every_command_prints_what_the_readme_says() {
    // CH-CLI-1, CH-CLI-2, VX-RUN-2, VX-RUN-4, VX-RUN-6, VC-PRIV-1, VC-GATE-1, VC-GEN-6, VA-CLI-2, VA-REP-3
    let sessions = sessions();
    assert_eq!(sessions.len(), 4);
    for session in sessions {
        type_all(&session);
    }
}

fn type_all(session: &[Typed]) {
    let place = Place::new();
    let program = std::path::Path::new(env!("CARGO_BIN_EXE_chancery"));
    assert!(session.len() >= 8);
    // One shell for all of it, as a reader has; a line of its own ends what each command wrote.
    let mut script = String::from("exec 2>&1\n");
    for typed in session {
        script.push_str(&format!("{}\necho '--- end'\n", typed.command));
    }
    let path = std::env::var("PATH").unwrap();
    let folder = program.parent().unwrap().display();
    // Two minutes are plenty; a node that does not come up must not keep a reader waiting, nor this test.
    let mut command = Command::new("timeout");
    command
        .args(["120", "bash", "-c", &script])
        .current_dir(place.path("."))
        .env("PATH", format!("{folder}:{path}"))
        .stdin(Stdio::null());
    // A reader has none of the variables that tests are told things with.
    for (name, _) in std::env::vars().filter(|(name, _)| name.starts_with("CHANCERY_")) {
        command.env_remove(name);
    }
    let out = command.output().unwrap();
    let text = String::from_utf8(out.stdout).unwrap();
    let mut written = text.split("--- end\n");
    for typed in session {
        let lines: Vec<&str> = written.next().unwrap_or_default().lines().collect();
        let command = &typed.command;
        assert_eq!(lines.len(), typed.expected.len(), "{command}\n{text}");
        for (pattern, line) in typed.expected.iter().zip(&lines) {
            assert!(fits(pattern, line), "{command}\n{pattern}\n{line}\n{text}");
        }
    }
}
