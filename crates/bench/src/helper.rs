//! The second process: this program started once more, so that memory and load are measured apart.

use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use anyhow::{Context, Result, bail, ensure};
use serde::Serialize;
use serde::de::DeserializeOwned;

/// A helper that answers questions, one line each way.
pub(crate) struct Helper {
    child: Child,
    questions: ChildStdin,
    answers: BufReader<ChildStdout>,
}

impl Helper {
    /// Starts this program again with the arguments that lead to [`crate::helper`], and those of the helper.
    pub(crate) fn start(lead: &[String], args: &[&str]) -> Result<Self> {
        let program = std::env::current_exe().context("this program cannot find itself")?;
        let mut child = Command::new(program)
            .args(lead)
            .args(args)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .context("the second process does not start")?;
        let questions = child
            .stdin
            .take()
            .context("the second process has no input")?;
        let answers = child
            .stdout
            .take()
            .context("the second process has no output")?;
        Ok(Self {
            child,
            questions,
            answers: BufReader::new(answers),
        })
    }

    /// Asks and waits for the answer.
    pub(crate) fn ask<Q: Serialize, A: DeserializeOwned>(&mut self, question: &Q) -> Result<A> {
        writeln!(self.questions, "{}", serde_json::to_string(question)?)?;
        self.answer()
    }

    /// The next answer.
    pub(crate) fn answer<A: DeserializeOwned>(&mut self) -> Result<A> {
        let mut line = String::new();
        self.answers.read_line(&mut line)?;
        if line.is_empty() {
            bail!("the second process ended without an answer");
        }
        Ok(serde_json::from_str(&line)?)
    }

    /// Lets it end.
    pub(crate) fn end(self) -> Result<()> {
        let Self {
            mut child,
            questions,
            ..
        } = self;
        drop(questions);
        let status = child.wait()?;
        ensure!(status.success(), "the second process failed: {status}");
        Ok(())
    }
}

/// Answers as a helper.
pub(crate) fn tell<A: Serialize>(answer: &A) -> Result<()> {
    let mut out = std::io::stdout().lock();
    writeln!(out, "{}", serde_json::to_string(answer)?)?;
    Ok(out.flush()?)
}
