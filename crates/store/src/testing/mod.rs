//! For tests of this and other crates: a disk that forgets, a store that waits, and a small source of chance.

mod chance;
mod held;
mod sim_disk;

pub use chance::Chance;
pub use held::HeldStore;
pub use sim_disk::{Fault, SimDisk};
