//! Tests of the vacant protocol.

mod vectors;
