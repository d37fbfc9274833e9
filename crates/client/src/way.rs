//! The two ways to a node behind one small interface.

use std::sync::Arc;
use std::time::Duration;

use chancery_core::inbox::InboxName;
use chancery_core::line::{ProtocolName, Seq};
use chancery_node::{InboxEntry, Office};
use serde_json::Value;

use crate::error::{Error, Refused};
use crate::remote::Remote;

/// Entries that are read at once.
pub(crate) const PAGE: usize = 64;

/// How an agent reaches its node.
#[derive(Clone)]
pub(crate) enum Way {
    Remote(Remote),
    Embedded(Arc<Office>),
}

impl Way {
    /// Hands a message over; gives its identifier. `once` makes a repeat safe.
    pub(crate) async fn send(&self, body: &Value, once: &str) -> Result<String, Error> {
        match self {
            Self::Remote(node) => node.send(body, once).await,
            Self::Embedded(office) => {
                let body = body.to_string();
                let sent = office.send_value_context(body.as_bytes(), Some(once.to_owned()));
                match sent.await {
                    Ok(sent) => Ok(sent.message_id),
                    Err(refusal) => Err(Refused::from(&refusal).into()),
                }
            }
        }
    }

    /// Entries of an inbox after a line, or after the acknowledged ones; waits so long for one.
    pub(crate) async fn inbox(
        &self,
        agent: &str,
        after: Option<Seq>,
        wait: Duration,
    ) -> Result<Vec<Value>, Error> {
        match self {
            Self::Remote(node) => node.inbox(agent, after, wait).await,
            Self::Embedded(office) => {
                let name = inbox_of(agent);
                let failed = |error: chancery_store::StoreError| Error::Node(error.to_string());
                let inboxes = office.inboxes();
                let after = match after {
                    Some(after) => after,
                    None => inboxes.cursor(&name).map_err(failed)?,
                };
                let arrived = inboxes.wait(&name, after);
                // Nothing in time is an empty page.
                let _ = tokio::time::timeout(wait, arrived).await;
                let entries = inboxes.read(&name, after, PAGE).map_err(failed)?;
                entries.iter().map(entry).collect()
            }
        }
    }

    /// Moves the durable cursor.
    pub(crate) async fn acknowledge(&self, agent: &str, through: Seq) -> Result<(), Error> {
        match self {
            Self::Remote(node) => node.acknowledge(agent, through).await,
            Self::Embedded(office) => office
                .inboxes()
                .acknowledge(&inbox_of(agent), through)
                .map(drop)
                .map_err(|error| Error::Node(error.to_string())),
        }
    }

    /// What the node holds about the agent.
    pub(crate) async fn state(&self, agent: &str) -> Result<Value, Error> {
        match self {
            Self::Remote(node) => node.state(agent).await,
            Self::Embedded(office) => office
                .value_context_state(agent)
                .map_err(|error| Error::Node(error.to_string()))?
                .ok_or(Error::NotLetIn(404)),
        }
    }
}

fn inbox_of(agent: &str) -> InboxName {
    InboxName {
        protocol: ProtocolName::ValueContext,
        agent: agent.to_owned(),
    }
}

/// An entry as the door shows it: the line with its number.
fn entry(entry: &InboxEntry) -> Result<Value, Error> {
    let mut line: Value =
        serde_json::from_slice(&entry.line).map_err(|error| Error::Node(error.to_string()))?;
    line["seq"] = entry.seq.into();
    Ok(line)
}
