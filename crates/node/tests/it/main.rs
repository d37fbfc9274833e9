//! What the node promises, one file a behaviour.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod agh;
mod answers_leave_after_the_sync;
mod crashes;
mod deliveries;
mod delivery_order;
mod escalations;
mod every_verb;
mod inboxes;
mod keys;
mod loss;
mod restarts;
mod secrets;
mod side_logs;
mod support;
mod timers;
mod value_context;
mod value_context_rules;
