//! The configuration: one TOML file, environment variables and flags (CH-CFG-1).
//!
//! Guarantees: a flag beats the environment, the environment beats the file, the file beats the default; a key that does
//! not exist is refused with the nearest one that does; what [`Config::load`] gives is consistent.
//!
//! Refuses to: guess, or start what the configuration only half describes.

mod agents;
mod agh;
mod checks;
mod database;
mod environment;
mod file;
mod keys;
mod lists;
mod reference;
mod settings;
pub mod table;
mod typed;
mod vacant;

use std::path::{Path, PathBuf};

use crate::exit::Failure;

pub use agents::{AgentBehaviour, ModelEntry, VibeAgent};
pub use agh::{Agh, AnsweringPeer, Nats, PeerEntry};
pub use database::Database;
pub use environment::variables_of_process;
pub use reference::{commented_file, reference_page};
pub use settings::{Setting, Settings, Source};
pub use typed::{Clock, Config, Entropy, Limits, Store, Tls, ValueContext};
pub use vacant::{Vacant, VacantAgent};

/// The file that is read when none is named.
pub const DEFAULT_FILE: &str = "chancery.toml";

/// Flags that set a key, as they came.
#[derive(Clone, Debug, Default, PartialEq, Eq, clap::Args)]
pub struct Flags {
    /// Address of the HTTP listener
    #[arg(long, value_name = "HOST:PORT")]
    pub listen: Option<String>,
    /// Directory of the log, its index and keys
    #[arg(long, value_name = "DIR")]
    pub data: Option<PathBuf>,
    /// "embedded", "memory" or "postgres://USER@HOST/DATABASE"
    #[arg(long)]
    pub store: Option<String>,
    /// "system", or in dev "fixed:TS" or "offset:+20s"
    #[arg(long)]
    pub clock: Option<String>,
    /// Loopback only: no tokens needed, fixed clock allowed
    #[arg(long)]
    pub dev: bool,
}

/// Where the configuration comes from.
#[derive(Clone, Debug, Default)]
pub struct Sources {
    /// The file that was named; without one `./chancery.toml` counts if it is there.
    pub file: Option<PathBuf>,
    /// The environment, names and values.
    pub environment: Vec<(String, String)>,
    /// The flags.
    pub flags: Flags,
}

impl Sources {
    /// Reads everything there is, each key with the place it was set.
    ///
    /// # Errors
    /// What is wrong, where, and what to do next.
    pub fn settings(&self) -> Result<Settings, Failure> {
        let mut settings = Settings::defaults();
        if let Some(path) = self.file_to_read()? {
            let text = std::fs::read_to_string(&path).map_err(|error| {
                Failure::usage(format!("cannot read {}: {error}", path.display()))
            })?;
            file::read(&text, &path, &mut settings)?;
        }
        environment::read(&self.environment, &mut settings)?;
        self.flags.read(&mut settings)?;
        Ok(settings)
    }

    fn file_to_read(&self) -> Result<Option<PathBuf>, Failure> {
        match &self.file {
            Some(path) if path.is_file() => Ok(Some(path.clone())),
            Some(path) => Err(Failure::usage(format!(
                "there is no configuration file {}",
                path.display()
            ))
            .next("write one with: chancery init")),
            None => {
                let path = Path::new(DEFAULT_FILE);
                Ok(path.is_file().then(|| path.to_owned()))
            }
        }
    }
}

impl Flags {
    fn read(&self, settings: &mut Settings) -> Result<(), Failure> {
        let data = self.data.as_ref().map(|data| data.display().to_string());
        let texts = [
            ("listen", self.listen.as_deref()),
            ("data", data.as_deref()),
            ("store", self.store.as_deref()),
            ("clock", self.clock.as_deref()),
            ("dev", self.dev.then_some("true")),
        ];
        for (name, text) in texts {
            if let (Some(key), Some(text)) = (table::find(name), text) {
                settings.set_text(key, text, Source::Flag)?;
            }
        }
        Ok(())
    }
}

impl Config {
    /// Reads the configuration and checks that it is consistent. Whether the files it names are there is
    /// [`Config::check_files`].
    ///
    /// # Errors
    /// What is wrong, where, and what to do next.
    pub fn load(sources: &Sources) -> Result<Self, Failure> {
        Self::of(&sources.settings()?)
    }

    /// The same of settings that were read.
    ///
    /// # Errors
    /// What is wrong, where, and what to do next.
    pub fn of(settings: &Settings) -> Result<Self, Failure> {
        let config = Self::of_settings(settings)?;
        checks::consistent(&config, settings)?;
        Ok(config)
    }
}
