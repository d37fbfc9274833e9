//! A protocol that only tests speak, and a host in memory that runs it.
//!
//! It uses every verb that the four protocols need of the spine, and nothing else. No node serves it.
//! Beside it, real NATS and PostgreSQL servers for tests of what crosses them, a terminal for what people watch, and a judge
//! of what callers saw.

mod host;
pub mod inputs;
pub mod installed;
pub mod linear;
mod message;
pub mod nats_server;
pub mod postgres_server;
pub mod process;
mod rules;
mod seal;
mod settings;
mod starting;
mod suite;
pub mod terminal;

pub use host::{Decided, TestHost};
pub use message::{TestMessage, TestOutgoing};
pub use rules::{TestAct, TestAnswer, TestProtocol, TestTimer};
pub use settings::TestSettings;
pub use suite::{TestInput, TestSuite};
