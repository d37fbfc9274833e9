//! What the program promises, one file a behaviour. Most tests run the real binary.
#![allow(clippy::unwrap_used, reason = "helpers of tests fail by panicking")]
#![allow(
    clippy::print_stdout,
    reason = "tests of the system print their figures"
)]

mod administration;
mod agents;
mod agh_behaviours;
mod agh_commands;
mod agh_house;
mod agh_nats;
mod agh_visits;
mod behaviours;
mod benchmarks;
mod canonical_bytes;
mod codes_explained;
mod configuration;
mod connections;
mod damage;
mod database_faults;
mod demo_story;
mod deployment;
mod described_paths;
mod doctored;
mod exit_codes;
mod first_steps;
mod help_texts;
mod key_files;
mod keys_in_use;
mod kill;
mod letters;
mod live_node;
mod logs_checked;
mod logs_explained;
mod logs_on_all_cores;
mod logs_shown;
mod market;
mod mcp_node;
mod on_postgres;
mod open_files;
mod parent_elsewhere;
mod postgres_tls;
mod proxy;
mod readme_session;
mod running_node;
mod sample;
mod secrets;
mod sending;
mod served;
mod shells;
mod signature_help;
mod stores_moved;
mod strace;
mod support;
mod test_kit;
mod three_nodes;
mod two_nodes;
mod two_nodes_duties;
mod vacant_abroad;
mod vacant_commands;
mod vacant_kill;
mod value_context_log;
mod vectors;
mod vibe_commands;
mod vibe_storm;
mod wire;
mod world_apply;
