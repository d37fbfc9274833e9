//! `chancery schema`: the JSON Schema of a protocol's messages, the description of the HTTP paths, or the list of metrics.

use std::io::Write as _;

use chancery_doors::http::figures::{FIGURES, page};
use serde_json::{Value, json};

use crate::exit::{Exit, Outcome};
use crate::terminal::Terminal;

/// What `schema` is asked.
#[derive(Debug, clap::Args)]
pub(crate) struct SchemaArgs {
    /// Whose messages; openapi for the paths of a node, metrics for its figures as a page
    #[arg(value_parser = ["value-context", "openapi", "metrics"])]
    protocol: String,
}

/// Writes the schema.
pub(crate) fn run(args: &SchemaArgs, terminal: &mut Terminal) -> Outcome {
    if args.protocol == "metrics" {
        return metrics(terminal);
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

fn metrics(terminal: &mut Terminal) -> Outcome {
    if terminal.json {
        let listed: Vec<Value> = FIGURES
            .iter()
            .map(|figure| {
                json!({
                    "name": figure.name,
                    "type": figure.moves.as_str(),
                    "labels": figure.labels,
                    "meaning": figure.meaning,
                })
            })
            .collect();
        terminal.json_line(&Value::Array(listed))?;
    } else {
        write!(terminal.out, "{}", page())?;
    }
    Ok(Exit::Done)
}
