//! The one line on standard output that says that the node serves (CH-NET-1).

use chancery_doors::http::Listening;
use serde::Serialize;

/// The start line.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct StartLine {
    event: &'static str,
    /// The address, with the port that was picked.
    pub(crate) http: String,
    durable: bool,
}

impl StartLine {
    pub(crate) fn of(listening: Listening) -> Self {
        Self {
            event: "listening",
            http: listening.address.to_string(),
            durable: listening.durable,
        }
    }
}
