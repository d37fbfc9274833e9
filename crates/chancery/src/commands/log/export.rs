//! `chancery log export`: lines byte for byte (CH-JRN-8).

use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::PathBuf;

use bytes::Bytes;
use chancery_core::line::Seq;
use chancery_journal::line::read;

use super::{SourcesOf, Which};
use crate::exit::{Exit, Failed, Failure, Outcome};
use crate::log::Lines;
use crate::terminal::{Progress, Terminal};

/// What `log export` is asked.
#[derive(Debug, clap::Args)]
pub(crate) struct ExportArgs {
    #[command(flatten)]
    which: Which,
    /// The first line; a part that does not begin with the first line cannot be verified alone
    #[arg(long, value_name = "SEQ", default_value_t = 1)]
    from: Seq,
    /// The last line
    #[arg(long, value_name = "SEQ")]
    to: Option<Seq>,
    /// Write to this new file, instead of standard output
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
}

/// Exports lines.
pub(super) fn run(args: &ExportArgs, sources: SourcesOf<'_>, terminal: &mut Terminal) -> Outcome {
    let mut lines = Lines::of(args.which.find(sources)?);
    let mut progress = Progress::of_bytes(lines.total_bytes(), terminal);
    match &args.out {
        None => copy(args, &mut lines, &mut terminal.out, &mut progress)?,
        Some(path) => {
            let cannot = |error: std::io::Error| {
                Failure::usage(format!("cannot write {}: {error}", path.display()))
            };
            let mut options = File::options();
            options.write(true).create_new(true);
            #[cfg(unix)]
            std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
            let mut out = BufWriter::new(options.open(path).map_err(cannot)?);
            copy(args, &mut lines, &mut out, &mut progress)?;
            out.flush().map_err(cannot)?;
            out.get_ref().sync_all().map_err(cannot)?;
        }
    }
    progress.finish();
    Ok(Exit::Done)
}

fn copy(
    args: &ExportArgs,
    lines: &mut Lines,
    out: &mut dyn Write,
    progress: &mut Progress,
) -> Result<(), Failed> {
    let whole = args.from == 1 && args.to.is_none();
    while let Some(block) = lines.next_block()? {
        let last = block.lines.len() - 1;
        for (index, line) in block.lines.iter().enumerate() {
            if whole || wanted(args, line, lines, block.first.line + index as u64)? {
                out.write_all(line)?;
                if !(block.unended && index == last) {
                    out.write_all(b"\n")?;
                }
            }
        }
        progress.advance(block.bytes);
    }
    Ok(())
}

fn wanted(args: &ExportArgs, line: &Bytes, lines: &Lines, number: u64) -> Result<bool, Failure> {
    let seq = match read(line) {
        Ok(reading) => reading.line.seq,
        Err(fault) => {
            let names: Vec<String> = lines.files().iter().map(|file| file.name()).collect();
            return Err(Failure::damaged(format!(
                "{}: line {number} is none: {fault}",
                names.join(", ")
            ))
            .next("export the whole log (without --from and --to), or see: chancery log verify"));
        }
    };
    Ok(seq >= args.from && args.to.is_none_or(|to| seq <= to))
}
