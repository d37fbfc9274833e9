//! What the stores promise, shown on real files, on a disk that forgets, and under damage.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod cache_races;
mod contract;
mod damage;
mod failing_disk;
mod files;
mod index;
mod postgres;
mod postgres_plans;
mod power_cut;
mod recovery;
mod scrubbing;
mod side_logs;
mod support;
mod trips;
