//! Durable inboxes as rows: an entry is the number of a line, packed into pages.
//!
//! Appending changes one row, the open page; a full page is set aside under its last number, so that the pages
//! after any number are one short scan.

use serde::{Deserialize, Serialize};

use crate::decision::Stop;
use crate::line::{ProtocolName, Seq};
use crate::rows::{Lookup, RowKey, RowsDamaged, View};

/// How many entries a page holds. The open one is written whole with every entry.
pub const PAGE_ENTRIES: usize = 32;

const OPEN: &str = "inbox";
const FULL: &str = "inbox-page";

/// Whose inbox.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct InboxName {
    /// Which protocol's.
    pub protocol: ProtocolName,
    /// The agent, as that protocol names inboxes.
    pub agent: String,
}

/// The row of the page that is being filled.
pub fn open_page_key(name: &InboxName) -> RowKey {
    RowKey::text(OPEN, &[name.protocol.as_str(), &name.agent])
}

/// Whether a row is the open page of an inbox.
pub fn is_open_page(key: &RowKey) -> bool {
    key.is_in(OPEN)
}

/// The inbox whose open page a row is.
pub fn of_open_page(key: &RowKey) -> Option<InboxName> {
    if !is_open_page(key) {
        return None;
    }
    let parts = key.parts();
    let [_, protocol, agent] = parts.as_slice() else {
        return None;
    };
    Some(InboxName {
        protocol: ProtocolName::parse(std::str::from_utf8(protocol).ok()?)?,
        agent: String::from_utf8(agent.clone()).ok()?,
    })
}

/// The prefix of all full pages of an inbox.
pub fn full_pages_prefix(name: &InboxName) -> RowKey {
    RowKey::text(FULL, &[name.protocol.as_str(), &name.agent])
}

/// The row of a full page: its last entry.
pub fn full_page_key(name: &InboxName, last: Seq) -> RowKey {
    full_pages_prefix(name).child(&last.to_be_bytes())
}

/// A page: how many entries came before it, and its entries in order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Page {
    /// Entries of this inbox before the page.
    pub before: u64,
    /// Numbers of lines, ascending.
    pub entries: Vec<Seq>,
}

impl Page {
    /// A page from its row.
    pub fn parse(bytes: &[u8]) -> Result<Self, RowsDamaged> {
        if bytes.len() < 8 || !bytes.len().is_multiple_of(8) {
            return Err(RowsDamaged(format!(
                "an inbox page has {} bytes",
                bytes.len()
            )));
        }
        let mut numbers = bytes.chunks_exact(8).map(|chunk| {
            let mut number = [0; 8];
            number.copy_from_slice(chunk);
            u64::from_be_bytes(number)
        });
        let before = numbers.next().unwrap_or_default();
        Ok(Self {
            before,
            entries: numbers.collect(),
        })
    }
}

/// Appends an entry.
pub(crate) fn append(view: &mut View<'_>, name: &InboxName, seq: Seq) -> Result<(), Stop> {
    let key = open_page_key(name);
    let open = match view.get(&key) {
        Lookup::Found(row) => row,
        Lookup::Absent => vec![0; 8].into(),
        Lookup::NotLoaded => return Err(Stop::Missing(vec![key])),
    };
    let entries = (open.len() / 8).saturating_sub(1);
    let mut page = Vec::with_capacity(open.len() + 8);
    if entries >= PAGE_ENTRIES {
        let full = Page::parse(&open)?;
        view.put(full_page_key(name, full.entries[entries - 1]), open);
        page.extend_from_slice(&(full.before + entries as u64).to_be_bytes());
    } else {
        page.extend_from_slice(&open);
    }
    page.extend_from_slice(&seq.to_be_bytes());
    view.put(key, page.into());
    Ok(())
}
