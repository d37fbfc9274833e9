//! What the journal promises, one file a behaviour.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod a_changed_rule_shows;
mod acts;
mod line_form;
mod lines_are_read_strictly;
mod recovery_is_the_same_fold;
mod replay_gives_the_same;
mod scenario;
mod time_by_position;
mod verify_finds_every_change;
mod what_a_log_may_be;
