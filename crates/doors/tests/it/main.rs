//! The HTTP door from outside: a real listener, a real client, raw sockets where a client would not misbehave.
#![allow(clippy::unwrap_used, reason = "helpers of tests may fail like tests")]
#![allow(clippy::print_stdout, reason = "tests tell what they counted")]

mod a2a;
mod a2a_tasks;
mod administration;
mod agh_websockets;
mod agh_websockets_and_brokers;
mod bounds;
mod deliveries;
mod every_code;
mod inboxes;
mod kept;
mod mcp;
mod mcp_conformance;
mod nats_broker_lost;
mod nats_let_in;
mod nats_peers;
mod nats_stream;
mod nats_support;
mod node_tools;
mod official_clients;
mod openapi;
mod over_sockets;
mod paths_and_rules;
mod recorder;
mod refusals;
mod request_vectors;
mod secured;
mod sending;
mod serving;
mod signature_help;
mod stop_button;
mod support;
mod vacant_behaviours;
mod vacant_call;
mod vacant_races;
mod vacant_serving;
mod vacant_vectors;
mod vibe_cuts;
mod vibe_http;
mod vibe_races;
mod vibe_support;
mod vibe_vectors;
mod websockets;
mod websockets_between_nodes;
