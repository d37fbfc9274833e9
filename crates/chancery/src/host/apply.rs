//! The rule settings of a journal that nodes share, changed for all of them (CH-JRN-5).

use std::sync::Arc;

use chancery_doors::HttpCarrier;

use super::files::world_file;
use super::opened::Opened;
use super::world_seed::WorldSeed;
use super::{all_settings, database, files, not_in_line, start_node, unreadable};
use crate::config::Config;
use crate::exit::Failure;

/// Puts the configuration's rule settings on record. Gives the names of those that were others.
pub(crate) async fn apply_settings(config: &Config) -> Result<Vec<String>, Failure> {
    config.check_files()?;
    let Some(database) = database::of(config)? else {
        return Err(Failure::usage(
            "a node that has its store for itself goes by its configuration",
        )
        .next("restart the node, or send it SIGHUP"));
    };
    let mut world = world_file(config)?;
    let seed = WorldSeed::of(config, Some(&database))?;
    let opened = Opened::open(config, &seed.suite(), Some(Arc::clone(&database)))?;
    seed.keep(config, Some(&database))?;
    let tls = files::outgoing_tls(config.ca_file.as_deref())?;
    let carrier = Arc::new(HttpCarrier::with_tls(Default::default(), &tls));
    // It never asks for the duties, so it delivers nothing.
    let office = start_node(config, &opened, seed.suite(), world.as_mut(), carrier, None)?;
    let settings = all_settings(&office, config);
    let differ = office.settings_that_differ(&settings).map_err(unreadable)?;
    let applied = office.reconcile_settings(&settings).await;
    office.stop().await.map_err(unreadable)?;
    applied.map_err(not_in_line)?;
    Ok(differ)
}
