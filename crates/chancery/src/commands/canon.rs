//! `chancery canon`: canonical bytes on standard output, nothing else.

use std::path::PathBuf;

use chancery_core::canonical::{Form, to_bytes};
use chancery_core::json;
use clap::ValueEnum;

use crate::exit::{Exit, Failure, Outcome};
use crate::input;
use crate::terminal::Terminal;

/// What `canon` is asked.
#[derive(Debug, clap::Args)]
pub(crate) struct CanonArgs {
    /// The canonical form
    #[arg(long, value_enum, default_value_t = Dialect::Rfc8785)]
    dialect: Dialect,
    /// The file; - for standard input
    #[arg(default_value = "-")]
    file: PathBuf,
}

/// A canonical form with what its protocol's reader refuses.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Dialect {
    /// RFC 8785, as value-context signs
    Rfc8785,
    /// What Python's json.dumps writes with sorted keys, as value-context's older form
    Python,
    /// Vibe, and the lines of the log
    Vibe,
    /// Vacant: the Python form, integers of any size
    Vacant,
}

impl Dialect {
    const fn form(self) -> Form {
        match self {
            Self::Rfc8785 => Form::Rfc8785,
            Self::Python => Form::Python,
            Self::Vibe => Form::Vibe,
            Self::Vacant => Form::Vacant,
        }
    }
}

/// Writes the canonical bytes of a file.
pub(crate) fn run(args: &CanonArgs, terminal: &mut Terminal) -> Outcome {
    let text = input::read(&args.file)?;
    let form = args.dialect.form();
    let value = json::read(&text, &form.rules())
        .map_err(|fault| Failure::no(format!("{}: {fault}", input::name(&args.file))))?;
    let bytes = to_bytes(&value, form.dialect());
    terminal.out.write_all(&bytes)?;
    Ok(Exit::Done)
}
