//! The client library against real nodes.

mod parent_child;
mod runtime;
mod support;
