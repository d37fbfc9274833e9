//! For tests of this and other crates: a disk that forgets, and a small source of chance.

mod chance;
mod sim_disk;

pub use chance::Chance;
pub use sim_disk::{Fault, SimDisk};
