//! The data directory, or the database in its place: disk, tables, log, and what the log says of keys and of time.

use std::path::Path;
use std::time::Duration;

use chancery_core::keys::{KeyRecord, KeySource, Keyring};
use chancery_core::line::Seq;
use chancery_core::time::{Time, format_millis};
use chancery_journal::Head;
use chancery_node::suite::Chancery;
use chancery_store::{IndexLook, Options, inspect};

use super::{DoctorArgs, Round, clock, database};
use crate::commands::log::{CUT_OFF, findings, rules};
use crate::config::{Clock, Config, Store};
use crate::log::{Lines, LogFile, find, verify_with_keys};
use crate::terminal::{Progress, Terminal};

/// A clock that is this far behind the journal is wrong; a node starts up to a minute behind (CH-JRN-14).
pub(super) const CLOCK_TOLERANCE: Duration = Duration::from_secs(5);

/// What the data is asked.
const ALL: [&str; 5] = ["disk", "log", "store", "clock", "keys"];

/// What a log is asked.
const OF_LOG: [&str; 4] = ["log", "store", "clock", "keys"];

/// Looks at the data. Gives who has it open, as that process wrote itself down.
pub(super) fn look(
    config: &Config,
    args: &DoctorArgs,
    round: &mut Round,
    terminal: &Terminal,
) -> Option<String> {
    if let Store::Postgres(database) = &config.store {
        if config.data.is_dir() {
            look_at_disk(&config.data, args.free_bytes, round);
        }
        database::look(config, database, args, round, terminal);
        return None;
    }
    if config.store != Store::Embedded {
        round.leave_out(&ALL, "nothing is kept: store = \"memory\"");
        return None;
    }
    if !config.data.is_dir() {
        let why = format!(
            "there is no {}: no node has run here",
            config.data.display()
        );
        round.leave_out(&ALL, &why);
        return None;
    }
    look_at_disk(&config.data, args.free_bytes, round);
    let seen = inspect(&config.data, Options::new(&config.data).rows_version);
    if let Some(reason) = &seen.ops_damage {
        let next = "stop the node and move ops.db away: deliveries may repeat, tokens have to be issued anew; nothing on the log is lost";
        round.find("store", config.data.join("ops.db").display(), reason, next);
    }
    let is_running = seen.holder.is_some();
    let known = match seen.index {
        IndexLook::UpTo(seq) => seq,
        _ => 0,
    };
    let read = look_at_log(&config.data, (is_running, known), round, terminal);
    if let Some(read) = read {
        look_at_index(&config.data, &seen.index, read.0, is_running, round);
        look_at_what_it_says(config, &read, args.expiry_days, round);
    }
    seen.holder
}

/// The clock and the keys, as a log has them.
pub(super) fn look_at_what_it_says(
    config: &Config,
    (head, keyring): &(Head, Keyring),
    expiry_days: u32,
    round: &mut Round,
) {
    look_at_clock(config, *head, round);
    look_at_keys(config, keyring, expiry_days, round);
}

fn look_at_disk(data: &Path, wanted: u64, round: &mut Round) {
    let Ok(stat) = rustix::fs::statvfs(data) else {
        let next = "look at the mount";
        return round.find(
            "disk",
            data.display(),
            "its file system cannot be asked",
            next,
        );
    };
    let free = stat.f_bavail.saturating_mul(stat.f_frsize);
    if free < wanted {
        let what = format!("{free} bytes are free, fewer than {wanted}");
        let next = "make room, or move the data directory: a write that fails ends the node";
        round.find("disk", data.display(), what, next);
    }
    round.done("disk", format!("{} MiB are free", free >> 20));
}

/// Verifies the log of a data directory.
fn look_at_log(
    data: &Path,
    of: (bool, Seq),
    round: &mut Round,
    terminal: &Terminal,
) -> Option<(Head, Keyring)> {
    let Ok(files) = find(&[data.to_owned()]) else {
        round.leave_out(&OF_LOG, "there is no log yet: no node has run here");
        return None;
    };
    let place = data.display().to_string();
    let read = verify(files, &place, of, round, terminal);
    if read.is_none() {
        round.leave_out(&OF_LOG[1..], "the log tells it");
    }
    read
}

/// Verifies a log in full; what it leaves is its end and its keys. `known` is the line that its index reflects.
pub(super) fn verify(
    files: Vec<LogFile>,
    place: &str,
    (is_running, known): (bool, Seq),
    round: &mut Round,
    terminal: &Terminal,
) -> Option<(Head, Keyring)> {
    let lines = Lines::of(files.clone());
    let mut progress = Progress::of_bytes(lines.total_bytes(), terminal);
    let suite = Chancery::default();
    let (mut verified, keyring) = match verify_with_keys(rules(&suite), lines, None, &mut progress)
    {
        Ok(read) => read,
        Err(mut failure) => {
            let next = "see that it is there and may be read; else restore the log from a copy";
            failure.next.get_or_insert_with(|| next.to_owned());
            round.find_failure("log", place, failure);
            return None;
        }
    };
    progress.finish();
    if verified.is_no_log() {
        let next = "restore the log from a copy: this file is none";
        round.find("log", place, "no line of it is a line of a log", next);
        return None;
    }
    if is_running {
        verified.leave_out_end();
    }
    let mut head = verified.report.head;
    let torn_after = verified.torn_after().filter(|end| known <= *end);
    let found = findings(&verified, &files);
    if let (Some(end), Some((at, check))) = (torn_after, found.first()) {
        round.find("log", at, check, CUT_OFF);
        head.seq = end;
    } else {
        for (at, check) in found {
            let next =
                "keep it as it is, and restore the log from a copy; chancery log verify tells all";
            round.find("log", at, check, next);
        }
    }
    let lines = in_words(verified.lines);
    round.done("log", format!("{lines}, every check passed"));
    Some((head, keyring))
}

fn in_words(lines: u64) -> String {
    match lines {
        1 => "1 line".to_owned(),
        lines => format!("{lines} lines"),
    }
}

/// How far the index is behind the log. A running node writes it behind, so there only an impossible one is told.
fn look_at_index(data: &Path, index: &IndexLook, head: Head, is_running: bool, round: &mut Round) {
    let path = data.join("index.db");
    let anew =
        "nothing has to be done: the next start builds it anew from the log, and takes longer";
    match index {
        IndexLook::Missing if head.seq > 0 => {
            round.find("store", path.display(), "there is no index", anew);
        }
        IndexLook::OtherVersion => {
            let what = "the index was written by another version of the program";
            round.find("store", path.display(), what, anew);
        }
        IndexLook::Damaged(reason) => {
            let what = format!("the index is damaged: {reason}");
            round.find("store", path.display(), what, anew);
        }
        IndexLook::UpTo(seq) if *seq > head.seq && !is_running => {
            let what = format!(
                "the index reflects line {seq} and the log ends with line {}: acknowledged lines are missing",
                head.seq
            );
            let next = "restore the log from a copy; or delete index.db, knowing that those lines are lost";
            round.find("store", path.display(), what, next);
        }
        IndexLook::UpTo(seq) if *seq < head.seq && !is_running => {
            let behind = head.seq - seq;
            let what = format!(
                "the index is {} behind: the node did not stop by itself",
                in_words(behind)
            );
            let next = "start the node: it decides them again by itself";
            round.find("store", path.display(), what, next);
        }
        IndexLook::Missing | IndexLook::UpTo(_) => {}
    }
    round.done("store", "the index and the rows of progress can be read");
}

fn look_at_clock(config: &Config, head: Head, round: &mut Round) {
    if let Clock::Fixed(_) = config.clock {
        return round.leave_out(&["clock"], "a fixed clock has no floor");
    }
    let Some(last) = head.time else {
        return round.leave_out(&["clock"], "nothing on the log has a time yet");
    };
    let now = clock(config).now();
    if let Some(behind) = last.since(now).filter(|behind| *behind > CLOCK_TOLERANCE) {
        let what = format!(
            "this machine's clock is {} s behind the last decision on the log ({})",
            behind.as_secs(),
            format_millis(last)
        );
        let next = "set the clock; a node that is more than 60 s behind does not start (CH-JRN-14)";
        round.find("clock", config.data.display(), what, next);
    }
    round.done("clock", "not behind the log");
}

fn look_at_keys(config: &Config, keyring: &Keyring, expiry_days: u32, round: &mut Round) {
    let now = clock(config).now();
    let soon = now.saturating_add(Duration::from_secs(u64::from(expiry_days) * 86_400));
    let mut count = 0;
    for owner in keyring.owners() {
        let keys: Vec<&KeyRecord> = keyring.records(owner).collect();
        count += keys.len();
        let Some((key, ends)) = last_to_end(&keys, now) else {
            continue;
        };
        if ends < soon {
            let ended = if ends < now { "ended" } else { "ends" };
            let what = format!("its last key {} {ended} at {}", key.id, format_millis(ends));
            let next = format!(
                "make another and put it on record: chancery key new FILE; chancery key rotate {owner}"
            );
            round.find("keys", owner, what, next);
        }
    }
    round.done(
        "keys",
        format!("{count} on record, none ends within {expiry_days} days"),
    );
}

/// The key of an owner that counts longest, when even that one ends. Keys for a while are meant to.
fn last_to_end<'k>(keys: &[&'k KeyRecord], now: Time) -> Option<(&'k KeyRecord, Time)> {
    let counting = keys.iter().filter(|key| {
        key.state.usable()
            && key.source != KeySource::Spawn
            && key.valid_from.is_none_or(|from| from <= now)
    });
    let ends = counting.map(|key| key.valid_until.map(|until| (*key, until)));
    let ends: Option<Vec<_>> = ends.collect();
    ends?.into_iter().max_by_key(|(_, until)| *until)
}
