//! A line for people.

use std::io::Write as _;

use bytes::Bytes;
use chancery_core::line::Line;
use chancery_core::time::format_audit;
use chancery_journal::line::read;

use crate::exit::Failed;
use crate::log::Summary;
use crate::terminal::{Terminal, plain};

/// The time of a line.
pub(super) fn time(line: &Line) -> String {
    line.eval_ts.map_or_else(
        || "-".to_owned(),
        |time| format_audit(time).as_str().to_owned(),
    )
}

/// Writes a line: as it is for machines, in a few words for people.
pub(super) fn write(text: &Bytes, terminal: &mut Terminal) -> Result<(), Failed> {
    if terminal.json {
        terminal.out.write_all(text)?;
        return Ok(terminal.out.write_all(b"\n")?);
    }
    match read(text) {
        Ok(reading) => write_line(&reading.line, terminal),
        Err(fault) => {
            let told = terminal.bad(&format!("       ? not a line: {fault}"));
            Ok(writeln!(terminal.out, "{told}")?)
        }
    }
}

/// Writes a line in a few words.
pub(super) fn write_line(line: &Line, terminal: &mut Terminal) -> Result<(), Failed> {
    let time = terminal.dim(&format!("{:<27}", time(line)));
    let words = Summary::of(line).words();
    let words = plain(&words);
    let protocol = line.protocol.as_str();
    let origin = line.origin.as_str();
    let seq = line.seq;
    Ok(writeln!(
        terminal.out,
        "{seq:>8} {time} {protocol:<13} {origin:<8} {words}"
    )?)
}
