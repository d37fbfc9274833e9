//! Starting other programs: their output goes through as they write it.

use anyhow::{Context, Result, ensure};
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Command, Output, Stdio};

/// A `cargo` command that runs at the top of the project.
pub fn cargo(root: &Path, arguments: &[&str]) -> Command {
    let mut command = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command.current_dir(root).args(arguments);
    command
}

/// Fails with what a program wrote to its standard error, unless it was successful.
pub fn succeeded(output: &Output) -> Result<()> {
    let complaint = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "{}", complaint.trim());
    Ok(())
}

/// Runs it to its end. Was it successful?
pub fn passes(command: &mut Command) -> Result<bool> {
    println!("$ {}", shown(command));
    let status = command
        .status()
        .with_context(|| format!("starting {}", shown(command)))?;
    Ok(status.success())
}

/// Runs it to its end with standard output passed through, and gives the lines of it that `keep` wants.
pub fn passes_keeping(
    command: &mut Command,
    keep: impl Fn(&str) -> bool,
) -> Result<(bool, Vec<String>)> {
    println!("$ {}", shown(command));
    let mut child = command
        .stdout(Stdio::piped())
        .spawn()
        .with_context(|| format!("starting {}", shown(command)))?;
    let mut kept = Vec::new();
    if let Some(output) = child.stdout.take() {
        let mut reader = BufReader::new(output);
        let mut line = Vec::new();
        let mut stdout = std::io::stdout().lock();
        while reader.read_until(b'\n', &mut line)? > 0 {
            stdout.write_all(&line)?;
            let text = String::from_utf8_lossy(&line);
            if keep(text.trim_end()) {
                kept.push(text.trim_end().to_owned());
            }
            line.clear();
        }
    }
    Ok((child.wait()?.success(), kept))
}

/// The command as a person would type it, without the folder its program lives in.
pub fn shown(command: &Command) -> String {
    let program = Path::new(command.get_program())
        .file_name()
        .unwrap_or(command.get_program());
    let set = command.get_envs().filter_map(|(name, value)| {
        Some(format!(
            "{}={}",
            name.to_string_lossy(),
            value?.to_string_lossy()
        ))
    });
    let words = std::iter::once(program).chain(command.get_args());
    set.chain(words.map(|word| word.to_string_lossy().into_owned()))
        .collect::<Vec<_>>()
        .join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kept_lines_and_the_verdict_come_back() {
        let mut command = Command::new("sh");
        command.args(["-c", "echo one; echo kept: two; exit 3"]);
        let (passed, kept) = passes_keeping(&mut command, |line| line.starts_with("kept")).unwrap();
        assert!(!passed);
        assert_eq!(kept, ["kept: two"]);
    }
}
