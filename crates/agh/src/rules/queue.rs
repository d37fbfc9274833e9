//! A queue kept in rows: members in the order in which they were last touched, each move a handful of single rows.

use bytes::Bytes;
use chancery_core::decision::{Cx, Stop};
use chancery_core::digest::hex;
use chancery_core::rows::{RowKey, RowsDamaged};
use serde::{Deserialize, Serialize};

/// A queue by name. Its members are keys of rows.
#[derive(Clone, Copy)]
pub(super) struct Queue(pub(super) &'static str);

#[derive(Clone, Default, Serialize, Deserialize)]
struct Ends {
    first: Option<String>,
    last: Option<String>,
    len: u64,
}

#[derive(Clone, Default, Serialize, Deserialize)]
struct Node {
    before: Option<String>,
    after: Option<String>,
}

impl Queue {
    fn ends_key(self) -> RowKey {
        RowKey::text("agh-queue", &[self.0])
    }

    fn node_key(self, member: &str) -> RowKey {
        RowKey::text("agh-queued", &[self.0, member])
    }

    fn ends(self, cx: &Cx<'_>) -> Result<Ends, Stop> {
        Ok(cx.row(&self.ends_key())?.unwrap_or_default())
    }

    fn node(self, member: &str, cx: &Cx<'_>) -> Result<Option<Node>, Stop> {
        cx.row(&self.node_key(member))
    }

    /// How many are in it.
    pub(super) fn len(self, cx: &Cx<'_>) -> Result<u64, Stop> {
        Ok(self.ends(cx)?.len)
    }

    /// The one that has not been touched for longest.
    pub(super) fn first(self, cx: &Cx<'_>) -> Result<Option<RowKey>, Stop> {
        self.ends(cx)?.first.as_deref().map(key_of).transpose()
    }

    /// Puts one at the end, wherever it was.
    pub(super) fn touch(self, key: &RowKey, cx: &mut Cx<'_>) -> Result<(), Stop> {
        let member = hex::encode(key.as_bytes());
        if self.ends(cx)?.last.as_ref() == Some(&member) {
            return Ok(());
        }
        self.remove(key, cx)?;
        let mut ends = self.ends(cx)?;
        if let Some(last) = &ends.last {
            let mut node = self.node(last, cx)?.unwrap_or_default();
            node.after = Some(member.clone());
            cx.put(self.node_key(last), &node);
        }
        let node = Node {
            before: ends.last.replace(member.clone()),
            after: None,
        };
        cx.put(self.node_key(&member), &node);
        ends.first.get_or_insert(member);
        ends.len += 1;
        cx.put(self.ends_key(), &ends);
        Ok(())
    }

    /// Takes one out, if it is in.
    pub(super) fn remove(self, key: &RowKey, cx: &mut Cx<'_>) -> Result<(), Stop> {
        let member = hex::encode(key.as_bytes());
        let Some(node) = self.node(&member, cx)? else {
            return Ok(());
        };
        let mut ends = self.ends(cx)?;
        match &node.before {
            Some(before) => {
                let mut neighbour = self.node(before, cx)?.unwrap_or_default();
                neighbour.after.clone_from(&node.after);
                cx.put(self.node_key(before), &neighbour);
            }
            None => ends.first.clone_from(&node.after),
        }
        match &node.after {
            Some(after) => {
                let mut neighbour = self.node(after, cx)?.unwrap_or_default();
                neighbour.before.clone_from(&node.before);
                cx.put(self.node_key(after), &neighbour);
            }
            None => ends.last.clone_from(&node.before),
        }
        ends.len = ends.len.saturating_sub(1);
        cx.remove(self.node_key(&member));
        cx.put(self.ends_key(), &ends);
        Ok(())
    }
}

fn key_of(member: &str) -> Result<RowKey, Stop> {
    let bytes = hex::decode(member)
        .map_err(|error| RowsDamaged(format!("a queue names {member}: {error}")))?;
    Ok(RowKey::from_stored(Bytes::from(bytes)))
}
