//! `chancery canon`: canonical bytes on standard output, nothing else.

use std::path::PathBuf;

use chancery_core::canonical::{self, Dialect};
use chancery_core::json::{self, ReadRules};
use clap::ValueEnum;

use crate::exit::{Exit, Failure, Outcome};
use crate::input;
use crate::terminal::Terminal;

/// What `canon` is asked.
#[derive(Debug, clap::Args)]
pub(crate) struct CanonArgs {
    /// The canonical form
    #[arg(long, value_enum, default_value_t = Form::Rfc8785)]
    dialect: Form,
    /// The file; - for standard input
    #[arg(default_value = "-")]
    file: PathBuf,
}

/// A canonical form with what its protocol's reader refuses.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Form {
    /// RFC 8785, as value-context signs
    Rfc8785,
    /// What Python's json.dumps writes with sorted keys, as value-context's older form
    Python,
    /// Vibe, and the lines of the log
    Vibe,
    /// Vacant: the Python form, integers of any size
    Vacant,
}

impl Form {
    const fn dialect(self) -> Dialect {
        match self {
            Self::Rfc8785 => Dialect::Rfc8785,
            Self::Python | Self::Vacant => Dialect::Python,
            Self::Vibe => Dialect::Vibe,
        }
    }

    /// The rules of the protocol that uses the form; only the size is not bounded, as nobody remote fills it.
    const fn rules(self) -> ReadRules {
        let rules = match self {
            Self::Rfc8785 | Self::Python => ReadRules::VALUE_CONTEXT,
            Self::Vibe => ReadRules {
                // An integer out of range is refused outside money fields (VC-MON-4), and in those too.
                integers: json::Integers::Safe,
                ..ReadRules::VIBE
            },
            Self::Vacant => ReadRules::VACANT,
        };
        ReadRules {
            max_bytes: usize::MAX,
            ..rules
        }
    }
}

/// Writes the canonical bytes of a file.
pub(crate) fn run(args: &CanonArgs, terminal: &mut Terminal) -> Outcome {
    let text = input::read(&args.file)?;
    let value = json::read(&text, &args.dialect.rules())
        .map_err(|fault| Failure::no(format!("{}: {fault}", input::name(&args.file))))?;
    let bytes = canonical::to_bytes(&value, args.dialect.dialect());
    terminal.out.write_all(&bytes)?;
    Ok(Exit::Done)
}
