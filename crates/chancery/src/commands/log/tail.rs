//! `chancery log tail`.

use std::fs::{self, File};
use std::io::{self, Read as _, Seek as _, SeekFrom, Write as _};
use std::path::{Path, PathBuf};
use std::time::Duration;

use bytes::Bytes;
use chancery_journal::line::MAX_LINE_BYTES;

use super::{SourcesOf, Which, render};
use crate::exit::{Exit, Failed, Failure, Outcome};
use crate::log::{Lines, LogFile, StoreLog};
use crate::terminal::Terminal;

/// How often a followed file is looked at.
const LOOK_EVERY: Duration = Duration::from_millis(100);
/// Bytes read at a time from the end.
const STEP_BYTES: u64 = 1 << 16;

/// What `log tail` is asked.
#[derive(Debug, clap::Args)]
pub(crate) struct TailArgs {
    #[command(flatten)]
    which: Which,
    /// How many of the last lines
    #[arg(short = 'n', long, value_name = "N", default_value_t = 10)]
    lines: usize,
    /// Go on with lines to come
    #[arg(short, long)]
    follow: bool,
}

/// Shows the last lines.
pub(super) fn run(args: &TailArgs, sources: SourcesOf<'_>, terminal: &mut Terminal) -> Outcome {
    let files = args.which.find(sources)?;
    match files.last() {
        Some(LogFile::Path(path)) => tail_file(args, path, terminal),
        Some(LogFile::Store(log)) => tail_store(args, log, terminal),
        _ => tail_stream(args, files, terminal),
    }
}

fn tail_stream(args: &TailArgs, files: Vec<LogFile>, terminal: &mut Terminal) -> Outcome {
    let mut lines = Lines::of(files);
    let mut last = std::collections::VecDeque::new();
    while let Some(block) = lines.next_block()? {
        for line in block.lines {
            if args.follow {
                render::write(&line, terminal)?;
                terminal.out.flush()?;
            } else {
                last.push_back(line);
                if last.len() > args.lines {
                    last.pop_front();
                }
            }
        }
    }
    for line in last {
        render::write(&line, terminal)?;
    }
    Ok(Exit::Done)
}

/// The last lines of a journal, and those that nodes commit to it meanwhile.
fn tail_store(args: &TailArgs, log: &StoreLog, terminal: &mut Terminal) -> Outcome {
    let cannot = |error: io::Error| Failure::damaged(format!("cannot read the log: {error}"));
    let mut log = log.clone();
    let mut next = (log.last() + 1).saturating_sub(args.lines as u64).max(1);
    loop {
        let lines = log.portion(next).map_err(cannot)?;
        for line in &lines {
            render::write(line, terminal)?;
        }
        next += lines.len() as u64;
        if !lines.is_empty() {
            continue;
        }
        if !args.follow {
            return Ok(Exit::Done);
        }
        terminal.out.flush()?;
        std::thread::sleep(LOOK_EVERY);
        log = log.followed().map_err(cannot)?;
    }
}

fn tail_file(args: &TailArgs, path: &Path, terminal: &mut Terminal) -> Outcome {
    let cannot =
        |error: io::Error| Failure::usage(format!("cannot read {}: {error}", path.display()));
    let mut file = File::open(path).map_err(cannot)?;
    let start = start_of_last(&mut file, args.lines).map_err(cannot)?;
    file.seek(SeekFrom::Start(start)).map_err(cannot)?;
    let mut following = Following {
        path: path.to_owned(),
        file,
        rest: Vec::new(),
    };
    following.write_new(terminal)?;
    if args.follow {
        following.follow(terminal)?;
    }
    following.write_rest(terminal)?;
    Ok(Exit::Done)
}

/// Where the last `lines` lines begin.
fn start_of_last(file: &mut File, lines: usize) -> io::Result<u64> {
    let mut at = file.seek(SeekFrom::End(0))?;
    let end = at;
    let mut newlines = 0;
    while at > 0 {
        let step = STEP_BYTES.min(at);
        at -= step;
        file.seek(SeekFrom::Start(at))?;
        let mut block = Vec::new();
        (&*file).take(step).read_to_end(&mut block)?;
        for (index, byte) in block.iter().enumerate().rev() {
            let position = at + index as u64;
            // The newline that ends the last line does not begin one.
            if *byte == b'\n' && position + 1 < end {
                newlines += 1;
                if newlines == lines {
                    return Ok(position + 1);
                }
            }
        }
    }
    Ok(if lines == 0 { end } else { 0 })
}

/// A file that grows, and is renamed when its segment is full.
struct Following {
    path: PathBuf,
    file: File,
    rest: Vec<u8>,
}

impl Following {
    /// Goes on until the process is stopped, or nobody reads any more.
    fn follow(&mut self, terminal: &mut Terminal) -> Result<(), Failed> {
        loop {
            terminal.out.flush()?;
            std::thread::sleep(LOOK_EVERY);
            self.write_new(terminal)?;
            self.reopen_if_renamed(terminal)?;
        }
    }

    fn write_new(&mut self, terminal: &mut Terminal) -> Result<(), Failed> {
        loop {
            let read = (&mut self.file)
                .take(STEP_BYTES)
                .read_to_end(&mut self.rest)
                .map_err(|error| {
                    Failure::damaged(format!("cannot read {}: {error}", self.path.display()))
                })?;
            if read == 0 {
                return Ok(());
            }
            self.write_whole_lines(terminal)?;
            if self.rest.len() > MAX_LINE_BYTES {
                return Err(Failure::damaged(format!(
                    "{}: a line without end",
                    self.path.display()
                ))
                .into());
            }
        }
    }

    fn write_whole_lines(&mut self, terminal: &mut Terminal) -> Result<(), Failed> {
        let whole = self
            .rest
            .iter()
            .rposition(|byte| *byte == b'\n')
            .map_or(0, |at| at + 1);
        let tail = self.rest.split_off(whole);
        let text = Bytes::from(std::mem::replace(&mut self.rest, tail));
        for line in text
            .split(|byte| *byte == b'\n')
            .filter(|line| !line.is_empty())
        {
            render::write(&text.slice_ref(line), terminal)?;
        }
        Ok(())
    }

    /// A last line that was not written whole.
    fn write_rest(&mut self, terminal: &mut Terminal) -> Result<(), Failed> {
        let rest = std::mem::take(&mut self.rest);
        if rest.is_empty() {
            return Ok(());
        }
        render::write(&Bytes::from(rest), terminal)
    }

    /// A full segment gets another name, and the log goes on in a new file (CH-JRN-2).
    fn reopen_if_renamed(&mut self, terminal: &mut Terminal) -> Result<(), Failed> {
        let (Ok(open), Ok(named)) = (self.file.metadata(), fs::metadata(&self.path)) else {
            return Ok(());
        };
        if !same_file(&open, &named) {
            // Lines may have come between the last look and the renaming.
            self.write_new(terminal)?;
            if let Ok(file) = File::open(&self.path) {
                self.file = file;
                self.rest.clear();
                self.write_new(terminal)?;
            }
        }
        Ok(())
    }
}

#[cfg(unix)]
fn same_file(a: &fs::Metadata, b: &fs::Metadata) -> bool {
    use std::os::unix::fs::MetadataExt as _;
    (a.dev(), a.ino()) == (b.dev(), b.ino())
}

#[cfg(not(unix))]
fn same_file(a: &fs::Metadata, b: &fs::Metadata) -> bool {
    b.len() >= a.len()
}
