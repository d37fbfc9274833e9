//! `chancery schema`: the JSON Schema of a protocol's messages.

use std::io::Write as _;

use crate::exit::{Exit, Outcome};
use crate::terminal::Terminal;

/// What `schema` is asked.
#[derive(Debug, clap::Args)]
pub(crate) struct SchemaArgs {
    /// Whose messages
    #[arg(value_parser = ["value-context"])]
    protocol: String,
}

/// Writes the schema.
pub(crate) fn run(args: &SchemaArgs, terminal: &mut Terminal) -> Outcome {
    debug_assert_eq!(args.protocol, "value-context");
    let schema = chancery_value_context::schema::schema();
    if terminal.json {
        terminal.json_line(&schema)?;
    } else {
        writeln!(terminal.out, "{schema:#}")?;
    }
    Ok(Exit::Done)
}
