//! `chancery log show`.

use chancery_core::line::{ProtocolName, Seq};
use chancery_journal::line::read;

use super::{SourcesOf, Which, render};
use crate::exit::{Exit, Outcome};
use crate::log::Lines;
use crate::terminal::Terminal;

/// What `log show` is asked.
#[derive(Debug, clap::Args)]
pub(crate) struct ShowArgs {
    #[command(flatten)]
    which: Which,
    /// The first line to show
    #[arg(long, value_name = "SEQ", default_value_t = 1)]
    from: Seq,
    /// How many lines to show
    #[arg(long, value_name = "N", default_value_t = 100)]
    limit: u64,
    /// Only lines of this protocol
    #[arg(long, value_parser = protocol)]
    protocol: Option<ProtocolName>,
}

fn protocol(name: &str) -> Result<ProtocolName, String> {
    ProtocolName::parse(name)
        .ok_or_else(|| "one of vibe, value-context, vacant, agh, node".to_owned())
}

/// Shows lines.
pub(super) fn run(args: &ShowArgs, sources: SourcesOf<'_>, terminal: &mut Terminal) -> Outcome {
    let mut lines = Lines::of(args.which.find(sources)?);
    let mut shown = 0;
    while let Some(block) = lines.next_block()? {
        for text in &block.lines {
            if shown == args.limit {
                return Ok(Exit::Done);
            }
            // What is no line has no number to leave it out by: it is shown.
            let wanted = read(text).map_or(true, |reading| {
                reading.line.seq >= args.from
                    && args
                        .protocol
                        .is_none_or(|name| name == reading.line.protocol)
            });
            if wanted {
                render::write(text, terminal)?;
                shown += 1;
            }
        }
    }
    Ok(Exit::Done)
}
