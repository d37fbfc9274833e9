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
    /// Which of several nodes of the process.
    #[serde(skip_serializing_if = "Option::is_none")]
    tenant: Option<String>,
}

impl StartLine {
    pub(crate) fn of(listening: Listening) -> Self {
        Self {
            event: "listening",
            http: listening.address.to_string(),
            durable: listening.durable,
            tenant: None,
        }
    }

    /// The same, of one of several nodes.
    pub(crate) fn of_tenant(mut self, name: &str) -> Self {
        self.tenant = Some(name.to_owned());
        self
    }
}
