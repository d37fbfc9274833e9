//! What the Python package `chancery` calls: the functions of a node, with texts and bytes at the edge.
//!
//! Bad input is a `ValueError` that says what is wrong, never a panic. Nothing is kept between calls.

mod log;
mod messages;

use pyo3::prelude::pymodule;

/// The native half of the package.
#[pymodule]
mod _native {
    #[pymodule_export]
    use super::log::{LogFound, verify_log};
    #[pymodule_export]
    use super::messages::{canonicalize, sign, validate, verify};
}
