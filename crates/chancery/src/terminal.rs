//! What a command writes to: standard output for its result, standard error for everything else.
//!
//! Colour and progress only where a person looks (a terminal, and `NO_COLOR` not set); `--json` for machines.

use std::borrow::Cow;
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

/// Text that somebody else wrote, as it may stand on a terminal: what would steer it, break a line or turn the
/// direction of writing is written out, everything else stays as it is.
pub(crate) fn plain(text: &str) -> Cow<'_, str> {
    let steers = |char: char| {
        char.is_control()
            || matches!(char, '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
    };
    if !text.contains(steers) {
        return Cow::Borrowed(text);
    }
    let mut told = String::with_capacity(text.len() + 8);
    for char in text.chars() {
        match steers(char) {
            true => told.extend(char.escape_debug()),
            false => told.push(char),
        }
    }
    Cow::Owned(told)
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

    /// Writes a table: a title a column, columns as wide as they have to be. A cell may hold what anybody wrote.
    ///
    /// # Errors
    /// The output cannot be written.
    pub fn table<const N: usize>(
        &mut self,
        titles: [&str; N],
        rows: impl Iterator<Item = [String; N]>,
    ) -> Result<(), Failed> {
        let rows: Vec<[String; N]> = rows
            .map(|row| row.map(|cell| plain(&cell).into_owned()))
            .collect();
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

#[cfg(test)]
mod tests {
    use super::plain;

    // CH-CLI-1: what a person reads is what is there.
    #[test]
    fn what_others_wrote_does_not_speak_to_the_terminal() {
        for text in [
            "",
            "two \\n words",
            "Füße für 5 €",
            "静かなキーボード",
            "👩‍💻 e\u{301}",
        ] {
            assert_eq!(plain(text), text);
        }
        for (text, told) in [
            ("\u{1b}[2Jgone", "\\u{1b}[2Jgone"),
            ("bell\u{7}", "bell\\u{7}"),
            ("one\ntwo\r\tthree", "one\\ntwo\\r\\tthree"),
            ("\u{9b}31m\u{7f}\0", "\\u{9b}31m\\u{7f}\\0"),
            (
                "a\u{2028}b\u{202e}c\u{2066}",
                "a\\u{2028}b\\u{202e}c\\u{2066}",
            ),
        ] {
            assert_eq!(plain(text), told);
        }
    }
}
