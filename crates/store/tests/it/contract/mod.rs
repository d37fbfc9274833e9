//! One suite for every store.

mod lines;
mod ops;
mod races;
mod rows;
mod windows;

use std::sync::atomic::{AtomicU64, Ordering};

use chancery_store::{Embedded, Memory, Postgres, Store};
use chancery_testkit::postgres_server::PostgresServer;

use crate::support;

/// Makes stores of one kind.
pub trait Factory {
    type Store: Store + Clone;

    /// A store with nothing in it.
    fn fresh() -> (Self, Self::Store)
    where
        Self: Sized;

    /// The same store after a clean stop; none when it does not outlive the process.
    fn reopened(&self, store: Self::Store) -> Option<Self::Store>;

    /// Moves what waits in memory to where it is kept.
    fn settle(&self, store: &Self::Store);
}

pub struct OfFiles(tempfile::TempDir);

impl OfFiles {
    fn options(&self) -> chancery_store::Options {
        // Small segments and the smallest cache: the suite crosses both borders.
        chancery_store::Options {
            segment_bytes: 4_096,
            row_cache_bytes: 1,
            ..support::options(self.0.path())
        }
    }
}

impl Factory for OfFiles {
    type Store = Embedded;

    fn fresh() -> (Self, Embedded) {
        let factory = Self(tempfile::tempdir().unwrap());
        let store = support::open(&factory.options());
        (factory, store)
    }

    fn reopened(&self, store: Embedded) -> Option<Embedded> {
        store.close().unwrap();
        drop(store);
        Some(support::open(&self.options()))
    }

    fn settle(&self, store: &Embedded) {
        store.flush_index().unwrap();
    }
}

pub struct OfMemory;

impl Factory for OfMemory {
    type Store = Memory;

    fn fresh() -> (Self, Memory) {
        (Self, Memory::new())
    }

    fn reopened(&self, _: Memory) -> Option<Memory> {
        None
    }

    fn settle(&self, _: &Memory) {}
}

/// Journals of one server, which is there for as long as the tests run.
pub struct OfPostgres(String);

fn server() -> &'static str {
    PostgresServer::shared().url()
}

impl OfPostgres {
    fn open(&self) -> Postgres {
        Postgres::open(&support::journal(server(), &self.0)).unwrap()
    }
}

impl Factory for OfPostgres {
    type Store = Postgres;

    fn fresh() -> (Self, Postgres) {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let factory = Self(format!("contract-{}-{number}", std::process::id()));
        let store = factory.open();
        (factory, store)
    }

    fn reopened(&self, store: Postgres) -> Option<Postgres> {
        store.close().unwrap();
        drop(store);
        Some(self.open())
    }

    fn settle(&self, _: &Postgres) {}
}

macro_rules! contract {
    ($($module:ident :: $test:ident),* $(,)?) => {
        mod embedded {
            $(#[test] fn $test() { super::$module::$test::<super::OfFiles>(); })*
        }
        mod postgres {
            $(#[test] fn $test() { super::$module::$test::<super::OfPostgres>(); })*
        }
        mod memory {
            $(#[test] fn $test() { super::$module::$test::<super::OfMemory>(); })*
        }
    };
}

contract! {
    lines::lines_come_back_by_number_across_segments,
    lines::a_commit_moves_the_head,
    lines::a_head_that_is_not_of_the_lines_is_refused,
    lines::a_closed_store_takes_nothing,
    lines::a_clean_stop_loses_nothing,
    rows::what_was_loaded_is_known_without_a_disk,
    rows::many_rows_load_in_one_call,
    rows::scans_merge_what_is_written_and_what_is_not,
    rows::scans_go_on_after_a_key_and_keep_their_limit,
    rows::forgotten_rows_are_gone,
    rows::rows_are_right_under_pressure,
    windows::windows_remember_until_their_end,
    windows::windows_outlive_a_stop,
    ops::progress_is_put_and_scanned,
    ops::a_raised_row_of_progress_never_goes_back,
    races::a_handle_that_lost_a_race_decides_again,
    races::two_handles_commit_in_turn,
    races::a_foreign_head_is_refused,
}
