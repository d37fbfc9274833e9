//! `chancery schema`: the JSON Schema of value-context messages, the description of the HTTP paths, or the list of metrics.

use std::io::Write as _;

use chancery_doors::http::{figures, openapi};
use serde_json::{Value, json};

use crate::exit::{Exit, Failure, Outcome};
use crate::terminal::Terminal;

/// What `schema` is asked.
#[derive(Debug, clap::Args)]
pub(crate) struct SchemaArgs {
    /// value-context for its messages; openapi for the paths of a node, metrics for its figures
    #[arg(value_parser = ["value-context", "openapi", "metrics"])]
    protocol: String,
    /// With openapi or metrics: the list as a page of Markdown
    #[arg(long)]
    markdown: bool,
}

/// Writes the schema.
pub(crate) fn run(args: &SchemaArgs, terminal: &mut Terminal) -> Outcome {
    if args.markdown {
        let page = match args.protocol.as_str() {
            "openapi" => openapi::page(),
            "metrics" => figures::page(),
            _ => {
                return Err(
                    Failure::usage("only openapi and metrics have a page of Markdown").into(),
                );
            }
        };
        terminal.out.write_all(page.as_bytes())?;
        return Ok(Exit::Done);
    }
    let schema = match args.protocol.as_str() {
        "openapi" => openapi::document(),
        "metrics" => metrics(),
        _ => chancery_value_context::schema::schema(),
    };
    if terminal.json {
        terminal.json_line(&schema)?;
    } else {
        writeln!(terminal.out, "{schema:#}")?;
    }
    Ok(Exit::Done)
}

fn metrics() -> Value {
    let listed = figures::FIGURES.iter().map(|figure| {
        json!({
            "name": figure.name,
            "type": figure.moves.as_str(),
            "labels": figure.labels,
            "meaning": figure.meaning,
        })
    });
    listed.collect()
}
