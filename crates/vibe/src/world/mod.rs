//! The world: seven tables, the seed they start from, who may read what, their hashes, and their changes after the
//! start (section 13).

pub mod change;
pub mod hash;
pub mod index;
pub mod read;
pub mod rows;
pub mod seed;
