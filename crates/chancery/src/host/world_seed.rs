//! The world seed of vibe: the file that the configuration names, and the copy kept with the log (CH-JRN-12).
//!
//! A log with vibe lines cannot be decided again without its seed, so a copy lies beside it under its digest. A start
//! with another seed is refused.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use chancery_node::suite::Chancery;
use chancery_store::{Postgres, StoreError};
use chancery_vibe::world::seed::Seed;

use super::check::of_key;
use super::files::read_json;
use crate::config::{self, Config};
use crate::exit::Failure;
use crate::secret_file;

const PREFIX: &str = "seed-";
const SUFFIX: &str = ".json";

/// A seed and its text.
pub(crate) type SeedText = (Arc<Seed>, Vec<u8>);

/// The seed of a node, if it has one.
pub(super) struct WorldSeed(Option<SeedText>);

impl WorldSeed {
    /// The seed that the log began with, else the one that the configuration names.
    pub(super) fn of(config: &Config, database: Option<&Postgres>) -> Result<Self, Failure> {
        let named = named(config)?;
        let kept = match database {
            Some(database) => kept_by(database)?,
            None => kept(config)?,
        };
        let Some(Kept { seed, text, place }) = kept else {
            return Ok(Self(named));
        };
        if let (Some((other, _)), Some(file)) = (&named, &config.vibe.world)
            && other.digest != seed.digest
        {
            return Err(Failure::usage(format!(
                "{} is another world seed than the one that this log began with",
                file.display()
            ))
            .next(format!(
                "name the same file as before (it is kept {place}), change the world with chancery world apply, or use another data directory",
            )));
        }
        Ok(Self(Some((seed, text))))
    }

    /// The rules over this world.
    pub(super) fn suite(&self) -> Chancery {
        match &self.0 {
            Some((seed, _)) => Chancery::with_seed(Arc::clone(seed)),
            None => Chancery::default(),
        }
    }

    /// Keeps a copy beside the log, before the log names it.
    pub(super) fn keep(&self, config: &Config, database: Option<&Postgres>) -> Result<(), Failure> {
        let Some((seed, text)) = &self.0 else {
            return Ok(());
        };
        if let Some(database) = database {
            let kept = database.keep_seed(text);
            return kept.map_err(|error| Failure::damaged(error.to_string()));
        }
        if config.store == config::Store::Memory {
            return Ok(());
        }
        keep_in(&config.data, seed, text)
    }
}

/// The seed that the configuration names.
pub(super) fn named(config: &Config) -> Result<Option<SeedText>, Failure> {
    let read = config.vibe.world.as_deref().map(read);
    read.transpose().map_err(of_key("vibe.world"))
}

/// Keeps a seed in a directory, under its digest.
pub(crate) fn keep_in(dir: &Path, seed: &Seed, text: &[u8]) -> Result<(), Failure> {
    let place = place(dir, seed);
    if place.is_file() {
        return Ok(());
    }
    secret_file::write_new(&place, text, 0o600)
}

/// A seed that lies beside a log.
struct Kept {
    seed: Arc<Seed>,
    text: Vec<u8>,
    /// Where, in words.
    place: String,
}

/// Reads and checks a seed.
pub(crate) fn read(path: &Path) -> Result<SeedText, Failure> {
    let text = read_json(path)?;
    let seed = Seed::parse(&text)
        .map_err(|fault| Failure::usage(format!("{}: {fault}", path.display())))?;
    Ok((Arc::new(seed), text))
}

/// The seed that a database keeps beside a journal.
pub(crate) fn read_kept(database: &Postgres) -> Result<Option<SeedText>, Failure> {
    let damaged = |error: StoreError| Failure::damaged(error.to_string());
    let Some(text) = database.seed().map_err(damaged)? else {
        return Ok(None);
    };
    let seed = Seed::parse(&text)
        .map_err(|fault| Failure::damaged(format!("the world seed in the database: {fault}")))?;
    Ok(Some((Arc::new(seed), text)))
}

fn kept_by(database: &Postgres) -> Result<Option<Kept>, Failure> {
    let kept = read_kept(database)?;
    Ok(kept.map(|(seed, text)| Kept {
        seed,
        text,
        place: "in the database".to_owned(),
    }))
}

fn place(dir: &Path, seed: &Seed) -> PathBuf {
    let name = format!("{PREFIX}{}{SUFFIX}", seed.digest.hex());
    dir.join(name)
}

/// The seed beside the log.
fn kept(config: &Config) -> Result<Option<Kept>, Failure> {
    if config.store == config::Store::Memory {
        return Ok(None);
    }
    let Some(path) = kept_in(&config.data) else {
        return Ok(None);
    };
    let (seed, text) = read(&path)?;
    if path != place(&config.data, &seed) {
        return Err(Failure::damaged(format!(
            "{} is not the world seed that its name says",
            path.display()
        ))
        .next("put the seed back that the log began with"));
    }
    let place = format!("as {}", path.display());
    Ok(Some(Kept { seed, text, place }))
}

/// The seed that lies in a data directory.
pub(crate) fn kept_in(data: &Path) -> Option<PathBuf> {
    let entries = std::fs::read_dir(data).ok()?;
    let paths = entries.filter_map(|entry| Some(entry.ok()?.path()));
    paths
        .min_by_key(|path| !is_seed(path))
        .filter(|path| is_seed(path))
}

fn is_seed(path: &Path) -> bool {
    let name = path.file_name().and_then(|name| name.to_str());
    name.is_some_and(|name| name.starts_with(PREFIX) && name.ends_with(SUFFIX))
}
