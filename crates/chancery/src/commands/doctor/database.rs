//! The journal in PostgreSQL: the server, its promises, the tables, the log in them.

use super::data::{look_at_what_it_says, verify};
use super::{DoctorArgs, Round};
use crate::commands::log::log_in;
use crate::config::{Config, Database};
use crate::host::look_at_database;
use crate::terminal::Terminal;

const CHECK: &str = "store";

/// Looks at the database. Only tables that are this build's are read further: opening others would bring them forward.
pub(super) fn look(
    config: &Config,
    database: &Database,
    args: &DoctorArgs,
    round: &mut Round,
    terminal: &Terminal,
) {
    let place = database.shown();
    let seen = match look_at_database(database) {
        Ok(seen) => seen,
        Err(failure) => return round.find_failure(CHECK, place, failure),
    };
    for setting in &seen.forgetful {
        let next =
            "set it on: a server with it off forgets acknowledged lines when its machine stops";
        round.find(CHECK, &place, format!("the server has {setting}"), next);
    }
    let known = i32::try_from(seen.known).unwrap_or(i32::MAX);
    match seen.version {
        Some(found) if found > known => {
            let what =
                format!("the tables are of a newer version ({found}, this program knows {known})");
            let next = "use the version of chancery that changed them, or a later one";
            round.find(CHECK, &place, what, next);
        }
        Some(found) if found < known => {
            let what = format!("the tables are of version {found}, this program writes {known}");
            let next = "start this version of the program: it brings them forward by itself";
            round.find(CHECK, &place, what, next);
        }
        Some(_) if seen.has_journal => look_at_log(config, database, args, round, terminal),
        // A node that was made and never ran has none.
        _ => {}
    }
    round.done(CHECK, format!("{place} is reached and durable"));
}

fn look_at_log(
    config: &Config,
    database: &Database,
    args: &DoctorArgs,
    round: &mut Round,
    terminal: &Terminal,
) {
    let place = database.shown();
    let log = match log_in(database, config.data.clone()) {
        Ok(log) => log,
        Err(failure) => return round.find_failure(CHECK, place, failure),
    };
    if let Some(read) = verify(vec![log], &place, (false, 0), round, terminal) {
        look_at_what_it_says(config, &read, args.expiry_days, round);
    }
}
