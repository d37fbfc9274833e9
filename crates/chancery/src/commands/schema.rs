//! `chancery schema`: the JSON Schema of a protocol's messages, or the description of the HTTP paths.

use std::io::Write as _;

use crate::exit::{Exit, Failure, Outcome};
use crate::terminal::Terminal;

/// What `schema` is asked.
#[derive(Debug, clap::Args)]
pub(crate) struct SchemaArgs {
    /// Whose messages; openapi for the paths of a node
    #[arg(value_parser = ["value-context", "openapi"])]
    protocol: String,
    /// With openapi: the list of paths as a page of Markdown
    #[arg(long)]
    markdown: bool,
}

/// Writes the schema.
pub(crate) fn run(args: &SchemaArgs, terminal: &mut Terminal) -> Outcome {
    if args.markdown {
        if args.protocol != "openapi" {
            return Err(Failure::usage("only openapi has a page of Markdown").into());
        }
        terminal
            .out
            .write_all(chancery_doors::http::openapi::page().as_bytes())?;
        return Ok(Exit::Done);
    }
    let schema = match args.protocol.as_str() {
        "openapi" => chancery_doors::http::openapi::document(),
        _ => chancery_value_context::schema::schema(),
    };
    if terminal.json {
        terminal.json_line(&schema)?;
    } else {
        writeln!(terminal.out, "{schema:#}")?;
    }
    Ok(Exit::Done)
}
