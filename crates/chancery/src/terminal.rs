//! What a command writes to: standard output for its result, standard error for everything else.
//!
//! Colour and progress only where a person looks (a terminal, and `NO_COLOR` not set); `--json` for machines.

use std::io::{self, IsTerminal, Write};
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use serde::Serialize;

use crate::exit::{Failed, Failure};

/// The outputs of a command.
pub struct Terminal {
    /// Whether a machine reads.
    pub json: bool,
    /// The result.
    pub out: Box<dyn Write>,
    colour: bool,
}

/// Whether what is written there is read on a terminal, by somebody who has not asked for no colour.
pub(crate) fn wants_colour(output: &impl IsTerminal) -> bool {
    let refused = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
    !refused && output.is_terminal()
}

impl Terminal {
    /// The outputs of this process.
    pub fn of_process(json: bool) -> Self {
        let stdout = io::stdout();
        Self {
            json,
            colour: !json && wants_colour(&stdout),
            out: Box::new(io::BufWriter::with_capacity(1 << 16, stdout)),
        }
    }

    /// Writes a result as one line of JSON.
    ///
    /// # Errors
    /// The output cannot be written.
    pub fn json_line(&mut self, value: &impl Serialize) -> Result<(), Failed> {
        let text = serde_json::to_string(value)
            .map_err(|error| Failure::damaged(format!("cannot write JSON: {error}")))?;
        Ok(writeln!(self.out, "{text}")?)
    }

    /// Writes a table: a title a column, columns as wide as they have to be.
    ///
    /// # Errors
    /// The output cannot be written.
    pub fn table<const N: usize>(
        &mut self,
        titles: [&str; N],
        rows: impl Iterator<Item = [String; N]>,
    ) -> Result<(), Failed> {
        let rows: Vec<[String; N]> = rows.collect();
        let width = |column: usize| {
            let cells = rows.iter().map(|row| row[column].chars().count());
            cells.chain([titles[column].chars().count()]).max()
        };
        let widths: [usize; N] = std::array::from_fn(|column| width(column).unwrap_or_default());
        let line = |cells: [&str; N]| {
            let padded = cells.iter().zip(widths);
            let padded = padded.map(|(cell, width)| format!("{cell:<width$}"));
            padded.collect::<Vec<_>>().join("  ").trim_end().to_owned()
        };
        let head = self.bold(&line(titles));
        writeln!(self.out, "{head}")?;
        for row in &rows {
            let cells = std::array::from_fn(|column| row[column].as_str());
            writeln!(self.out, "{}", line(cells))?;
        }
        Ok(())
    }

    /// Text in bold.
    pub fn bold(&self, text: &str) -> String {
        self.paint("1", text)
    }

    /// Text that says yes.
    pub fn good(&self, text: &str) -> String {
        self.paint("32", text)
    }

    /// Text that says no.
    pub fn bad(&self, text: &str) -> String {
        self.paint("31", text)
    }

    /// Text that matters less.
    pub fn dim(&self, text: &str) -> String {
        self.paint("2", text)
    }

    fn paint(&self, code: &str, text: &str) -> String {
        if self.colour {
            format!("\u{1b}[{code}m{text}\u{1b}[0m")
        } else {
            text.to_owned()
        }
    }

    /// Tells a failure on standard error; nothing can be done when that cannot be written either.
    pub fn tell(&mut self, failure: &Failure) {
        let _ = self.out.flush();
        let mut err = io::stderr().lock();
        let _ = if self.json {
            let mut told = serde_json::json!({
                "error": failure.what,
                "next": failure.next,
                "exit": failure.exit.code(),
            });
            if let Some(requirement) = failure.requirement {
                told["requirement"] = requirement.into();
            }
            writeln!(err, "{told}")
        } else {
            writeln!(err, "chancery: {failure}")
        };
    }
}

/// How long something takes before its progress is shown.
const PATIENCE: Duration = Duration::from_secs(1);

/// A progress bar on standard error that shows itself after a second, and only on a terminal.
pub struct Progress {
    total_bytes: u64,
    done_bytes: u64,
    since: Instant,
    bar: Option<ProgressBar>,
    wanted: bool,
    style: &'static str,
}

const BYTES_STYLE: &str = "{bar:40} {percent}% {bytes_per_sec}, {eta} left";

impl Progress {
    /// Progress towards a number of bytes; none is shown when it is not known.
    pub fn of_bytes(total_bytes: Option<u64>, terminal: &Terminal) -> Self {
        Self {
            total_bytes: total_bytes.unwrap_or(0),
            done_bytes: 0,
            since: Instant::now(),
            bar: None,
            wanted: total_bytes.is_some() && !terminal.json && io::stderr().is_terminal(),
            style: BYTES_STYLE,
        }
    }

    /// Progress towards a number of steps of any kind.
    pub fn of_steps(total: u64, terminal: &Terminal) -> Self {
        Self {
            style: "{bar:40} {percent}% {per_sec}, {eta} left",
            ..Self::of_bytes(Some(total), terminal)
        }
    }

    /// Progress that nobody sees.
    pub fn hidden() -> Self {
        Self {
            total_bytes: 0,
            done_bytes: 0,
            since: Instant::now(),
            bar: None,
            wanted: false,
            style: BYTES_STYLE,
        }
    }

    /// So many bytes more are done.
    pub fn advance(&mut self, bytes: u64) {
        self.done_bytes += bytes;
        if !self.wanted {
            return;
        }
        if self.bar.is_none() && self.since.elapsed() > PATIENCE {
            let bar =
                ProgressBar::with_draw_target(Some(self.total_bytes), ProgressDrawTarget::stderr());
            bar.set_style(
                ProgressStyle::with_template(self.style)
                    .unwrap_or_else(|_| ProgressStyle::default_bar()),
            );
            self.bar = Some(bar);
        }
        if let Some(bar) = &self.bar {
            bar.set_position(self.done_bytes);
        }
    }

    /// Takes the bar away.
    pub fn finish(self) {
        if let Some(bar) = self.bar {
            bar.finish_and_clear();
        }
    }
}
