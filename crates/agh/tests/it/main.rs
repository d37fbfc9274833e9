//! Tests of AGH Network.
#![allow(clippy::unwrap_used)]

mod vectors;
