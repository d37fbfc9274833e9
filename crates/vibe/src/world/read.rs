//! Who may read what (VC-WLD-2, VC-WLD-3, VC-HTTP-5): pure functions from committed rows and a caller to canonical JSON.
//!
//! What a caller may not see is as if it were not there: none.

use bytes::Bytes;
use chancery_core::canonical::write_string;
use chancery_core::rows::{Lookup, Row, RowKey, Rows, RowsDamaged};
use chancery_core::time::Time;
use serde::de::DeserializeOwned;

use super::hash::entry_of;
use super::rows::{
    DisputeRow, InventoryRow, LedgerRow, Merchant, OrderRow, RulingRow, Table, merchant_key,
};
use crate::address::{Address, Role, Side};
use crate::state::{CaseFile, CertRow, CertState, MandateRow, OrderFile, Session, key};

/// Who reads.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reader {
    /// The payment role: all there is. Also a caller without a token on a development node.
    Psp,
    /// Another role of the platform: all but the ledger.
    Platform,
    /// Consumers, merchants and their agents: what is for everybody on their side, and what is their own.
    Party(Party),
    /// A principal that is on no side and stands for nobody.
    Nobody,
}

/// The sides that a reader is on, and for whom it stands there, where it stands for somebody.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Party {
    is_merchants: bool,
    consumer_id: Option<String>,
    merchant_id: Option<String>,
}

impl Party {
    fn is_consumer(&self, id: &str) -> bool {
        self.consumer_id.as_deref() == Some(id)
    }

    fn is_merchant(&self, id: &str) -> bool {
        self.merchant_id.as_deref() == Some(id)
    }
}

impl Reader {
    /// A consumer and its agent.
    pub fn consumer(id: &str) -> Self {
        Self::Party(Party {
            consumer_id: Some(id.to_owned()),
            ..Party::default()
        })
    }

    /// A merchant and its agent.
    pub fn merchant(id: &str) -> Self {
        Self::Party(Party {
            is_merchants: true,
            merchant_id: Some(id.to_owned()),
            ..Party::default()
        })
    }

    /// The reader that a token's principal is: its addresses and for whom it acts each put it on a side.
    pub fn of_principal(
        addresses: &[String],
        consumer_id: Option<&str>,
        merchant_id: Option<&str>,
    ) -> Self {
        let roles: Vec<Address> = addresses
            .iter()
            .filter_map(|address| Address::sender(address).ok())
            .collect();
        let on = |side: Side| roles.iter().any(|address| address.side == side);
        if roles.iter().any(|address| address.role == Some(Role::Psp)) {
            return Self::Psp;
        }
        if on(Side::Platform) {
            return Self::Platform;
        }
        let is_merchants = on(Side::Merchant) || merchant_id.is_some();
        if !is_merchants && !on(Side::Consumer) && !on(Side::Buyer) && consumer_id.is_none() {
            return Self::Nobody;
        }
        Self::Party(Party {
            is_merchants,
            consumer_id: consumer_id.map(str::to_owned),
            merchant_id: merchant_id.map(str::to_owned),
        })
    }

    const fn sees_all(&self) -> bool {
        matches!(self, Self::Psp | Self::Platform)
    }
}

/// A table as the caller may see it: `{"rows": {key: row}, "table": name}`.
///
/// # Errors
/// The rows cannot be read.
pub fn table(
    rows: &dyn Rows,
    table: Table,
    reader: &Reader,
) -> Result<Option<Vec<u8>>, RowsDamaged> {
    if is_hidden(table, reader) {
        return Ok(None);
    }
    let mut text = Vec::from(&b"{\"rows\":{"[..]);
    let mut first = true;
    for (row_key, row) in rows.scan(&table.prefix())? {
        let entry = entry_of(&row_key);
        if !may_see(rows, table, &entry, &row, reader)? {
            continue;
        }
        if !std::mem::take(&mut first) {
            text.push(b',');
        }
        write_string(&entry, &mut text);
        text.push(b':');
        text.extend_from_slice(&row);
    }
    text.extend_from_slice(b"},\"table\":");
    write_string(table.as_str(), &mut text);
    text.push(b'}');
    Ok(Some(text))
}

/// One row of a table, if it is there and the caller may see it.
///
/// # Errors
/// The rows cannot be read.
pub fn row(
    rows: &dyn Rows,
    table: Table,
    entry: &str,
    reader: &Reader,
) -> Result<Option<Bytes>, RowsDamaged> {
    if is_hidden(table, reader) {
        return Ok(None);
    }
    let Some(row) = bytes_of(rows, &table.key(entry))? else {
        return Ok(None);
    };
    let seen = may_see(rows, table, entry, &row, reader)?;
    Ok(seen.then_some(row.bytes().clone()))
}

/// Whether a caller may see nothing of a table.
fn is_hidden(table: Table, reader: &Reader) -> bool {
    let hidden = match table {
        Table::Inventory => matches!(reader, Reader::Party(party) if !party.is_merchants),
        Table::Ledger => *reader == Reader::Platform,
        _ => false,
    };
    hidden || *reader == Reader::Nobody
}

/// Rows that one page looks at, so that what a caller may not see costs no more than what it may.
const MOST_LOOKED_AT: usize = 20_000;
/// Rows that are fetched at once.
const AT_ONCE: usize = 1_000;

/// Fetches rows of a table in order: those after a key, at most so many.
pub type Fetch<'f> =
    &'f dyn Fn(&RowKey, Option<&RowKey>, usize) -> Result<Vec<(RowKey, Row)>, RowsDamaged>;

/// A part of a table as the caller may see it: at most `limit` rows after an entry, in the order of their keys.
/// `{"next": key|null, "rows": {key: row}, "table": name}`; where there may be more, `next` is the entry to go on after.
///
/// # Errors
/// The rows cannot be read.
pub fn page(
    rows: &dyn Rows,
    fetch: Fetch<'_>,
    table: Table,
    reader: &Reader,
    after: Option<&str>,
    limit: usize,
) -> Result<Option<Vec<u8>>, RowsDamaged> {
    if is_hidden(table, reader) {
        return Ok(None);
    }
    let (mut seen, mut looked_at) = (Vec::new(), 0);
    let mut last = after.map(|entry| table.key(entry));
    let next = 'looking: loop {
        let found = fetch(&table.prefix(), last.as_ref(), AT_ONCE)?;
        if found.is_empty() {
            break None;
        }
        for (row_key, row) in found {
            let entry = entry_of(&row_key);
            looked_at += 1;
            if may_see(rows, table, &entry, &row, reader)? {
                seen.push((entry.clone(), row));
            }
            last = Some(row_key);
            if seen.len() == limit || looked_at == MOST_LOOKED_AT {
                break 'looking Some(entry);
            }
        }
    };
    let mut text = Vec::from(&b"{\"next\":"[..]);
    match next {
        Some(entry) => write_string(&entry, &mut text),
        None => text.extend_from_slice(b"null"),
    }
    text.extend_from_slice(b",\"rows\":{");
    for (index, (entry, row)) in seen.iter().enumerate() {
        if index > 0 {
            text.push(b',');
        }
        write_string(entry, &mut text);
        text.push(b':');
        text.extend_from_slice(row);
    }
    text.extend_from_slice(b"},\"table\":");
    write_string(table.as_str(), &mut text);
    text.push(b'}');
    Ok(Some(text))
}

fn may_see(
    rows: &dyn Rows,
    table: Table,
    entry: &str,
    row: &[u8],
    reader: &Reader,
) -> Result<bool, RowsDamaged> {
    match table {
        Table::Catalog | Table::Reputation => Ok(true),
        Table::Inventory => Ok(match reader {
            Reader::Party(party) => {
                party.is_merchant(&read::<InventoryRow>(entry, row)?.merchant_id)
            }
            _ => reader.sees_all(),
        }),
        Table::Ledger => {
            let account: LedgerRow = read(entry, row)?;
            match reader {
                Reader::Psp => Ok(true),
                Reader::Party(party) => owns(rows, party, &account),
                Reader::Platform | Reader::Nobody => Ok(false),
            }
        }
        Table::Orders => may_see_order(rows, entry, reader),
        Table::Disputes => may_see_order(rows, &read::<DisputeRow>(entry, row)?.order_id, reader),
        Table::Rulings => {
            let ruling: RulingRow = read(entry, row)?;
            let dispute: Option<DisputeRow> = get(rows, &Table::Disputes.key(&ruling.dispute_id))?;
            match dispute {
                Some(dispute) => may_see_order(rows, &dispute.order_id, reader),
                None => Ok(false),
            }
        }
    }
}

/// Whether it is an account of the consumer, or that of the merchant.
fn owns(rows: &dyn Rows, party: &Party, account: &LedgerRow) -> Result<bool, RowsDamaged> {
    let merchant: Option<Merchant> = match &party.merchant_id {
        Some(own) => get(rows, &merchant_key(own))?,
        None => None,
    };
    Ok(party.is_consumer(&account.owner)
        || merchant.is_some_and(|merchant| merchant.account_id == account.account_id))
}

fn may_see_order(rows: &dyn Rows, order_id: &str, reader: &Reader) -> Result<bool, RowsDamaged> {
    match reader {
        Reader::Psp | Reader::Platform => Ok(true),
        Reader::Party(party) => {
            let file: Option<OrderFile> = match party.consumer_id {
                Some(_) => get(rows, &key::order_file(order_id))?,
                None => None,
            };
            let order: Option<OrderRow> = match party.merchant_id {
                Some(_) => get(rows, &Table::Orders.key(order_id))?,
                None => None,
            };
            Ok(
                file.is_some_and(|file| party.is_consumer(&file.consumer_id))
                    || order.is_some_and(|order| party.is_merchant(&order.merchant_id)),
            )
        }
        Reader::Nobody => Ok(false),
    }
}

/// A session as the caller may see it.
///
/// # Errors
/// The rows cannot be read.
pub fn session(
    rows: &dyn Rows,
    session_id: &str,
    reader: &Reader,
) -> Result<Option<Vec<u8>>, RowsDamaged> {
    let Some(session) = get::<Session>(rows, &key::session(session_id))? else {
        return Ok(None);
    };
    let own = match reader {
        Reader::Psp | Reader::Platform => true,
        Reader::Party(party) => {
            let is = |id: &Option<String>, own: fn(&Party, &str) -> bool| {
                id.as_deref().is_some_and(|id| own(party, id))
            };
            is(&session.consumer_id, Party::is_consumer)
                || is(&session.merchant_id, Party::is_merchant)
        }
        Reader::Nobody => false,
    };
    if !own {
        return Ok(None);
    }
    let view = serde_json::json!({
        "session_id": session_id,
        "kind": session.kind,
        "phase": session.phase,
        "mandate_id": session.mandate_id,
        "offers": session.offers,
        "certs": session.certs,
        "orders": session.orders,
    });
    Ok(Some(chancery_core::admin::canonical_json(&view).to_vec()))
}

/// Certificates that wait for the caller's word (VC-GATE-5) at `now`; none where envelopes bring their own time: there nobody
/// else's clock ends a certificate.
///
/// # Errors
/// The rows cannot be read.
pub fn approvals(
    rows: &dyn Rows,
    reader: &Reader,
    now: Option<Time>,
) -> Result<Vec<u8>, RowsDamaged> {
    let mut waiting = Vec::new();
    for (row_key, _) in rows.scan(&key::all_waiting())? {
        let cert_id = entry_of(&row_key);
        let Some(cert) = get::<CertRow>(rows, &key::cert(&cert_id))? else {
            continue;
        };
        let Some(mandate) = get::<MandateRow>(rows, &key::mandate(&cert.mandate_id))? else {
            continue;
        };
        let session: Option<Session> = get(rows, &key::session(&cert.session_id))?;
        // The session's clock may be ahead of ours.
        let at = session.map(|session| session.clock).max(now);
        let own = match reader {
            Reader::Party(party) => party.is_consumer(&mandate.consumer_id),
            _ => reader.sees_all(),
        };
        let is_over = at.is_some_and(|at| at >= cert.expires_at);
        if own && cert.state == CertState::Issued && !is_over {
            waiting.push(serde_json::json!({
                "cert": cert.to_json(&cert_id),
                "session_id": cert.session_id,
                "goal": mandate.goal,
            }));
        }
    }
    let view = serde_json::json!({ "approvals": waiting });
    Ok(chancery_core::admin::canonical_json(&view).to_vec())
}

/// The merchant of a dispute, for whoever delivers to it.
///
/// # Errors
/// The rows cannot be read.
pub fn merchant_of_dispute(
    rows: &dyn Rows,
    dispute_id: &str,
) -> Result<Option<String>, RowsDamaged> {
    let case: Option<CaseFile> = get(rows, &key::case_file(dispute_id))?;
    Ok(case.map(|case| case.merchant_id))
}

fn get<T: DeserializeOwned>(rows: &dyn Rows, row_key: &RowKey) -> Result<Option<T>, RowsDamaged> {
    let bytes = bytes_of(rows, row_key)?;
    bytes
        .map(|bytes| read(&entry_of(row_key), &bytes))
        .transpose()
}

fn bytes_of(rows: &dyn Rows, row_key: &RowKey) -> Result<Option<Row>, RowsDamaged> {
    Ok(match rows.get(row_key) {
        Lookup::Found(row) => Some(row),
        Lookup::Absent => None,
        // Readers see committed rows; a scan reaches what is not in memory.
        Lookup::NotLoaded => rows.scan(row_key)?.into_iter().next().map(|(_, row)| row),
    })
}

fn read<T: DeserializeOwned>(entry: &str, row: &[u8]) -> Result<T, RowsDamaged> {
    serde_json::from_slice(row).map_err(|error| RowsDamaged(format!("{entry}: {error}")))
}
