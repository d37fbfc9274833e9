//! The TransactionStateDiff (section 7.5): what an accepted mutation changed, as it is answered and hashed.

use std::collections::BTreeMap;

use bytes::Bytes;
use chancery_core::canonical::write_string;
use chancery_core::decision::{Cx, Stop};
use chancery_core::digest::Sha256Digest;
use chancery_core::rows::{Row, RowsDamaged};
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::world::hash::{advance, parse_world_hash};
use crate::world::rows::{Table, world_hash_key};

/// Changed rows, sorted by table and key.
#[derive(Clone, Debug, Default)]
pub struct Ops(BTreeMap<(&'static str, String), Op>);

#[derive(Clone, Debug)]
struct Op {
    is_world: bool,
    before: Option<Row>,
    after: Row,
}

impl Ops {
    /// Writes a row of the world and notes the change.
    pub fn put(
        &mut self,
        table: Table,
        entry: &str,
        after: Bytes,
        cx: &mut Cx<'_>,
    ) -> Result<(), Stop> {
        let key = table.key(entry);
        let before = cx.bytes(&key)?;
        cx.put_bytes(key, after.clone());
        self.note_world(table, entry, before, after.into());
        Ok(())
    }

    /// Writes a row of the world that is likely to be read again soon, and notes the change.
    pub fn put_row<T>(
        &mut self,
        table: Table,
        entry: &str,
        row: T,
        cx: &mut Cx<'_>,
    ) -> Result<(), Stop>
    where
        T: Serialize + DeserializeOwned + PartialEq + Send + Sync + 'static,
    {
        let key = table.key(entry);
        let before = cx.bytes(&key)?;
        let after = cx.put_value(key, row);
        self.note_world(table, entry, before, after);
        Ok(())
    }

    fn note_world(&mut self, table: Table, entry: &str, before: Option<Row>, after: Row) {
        self.0
            .entry((table.as_str(), entry.to_owned()))
            .and_modify(|op| op.after = after.clone())
            .or_insert(Op {
                is_world: true,
                before,
                after,
            });
    }

    /// Notes a change that is in no table of the world; `before` and `after` are canonical JSON without private values.
    /// Nothing is noted where nobody is told (see [`Turn::tells`](super::turn::Turn::tells)).
    pub fn note(
        &mut self,
        table: &'static str,
        key: &str,
        before: Option<Bytes>,
        after: Option<Bytes>,
    ) {
        let Some(after) = after else { return };
        self.0.insert(
            (table, key.to_owned()),
            Op {
                is_world: false,
                before: before.map(Row::from),
                after: after.into(),
            },
        );
    }

    /// Whether a table of the world changed.
    pub fn changes_world(&self) -> bool {
        self.0.values().any(|op| op.is_world)
    }

    /// The canonical list; of the world's tables alone where asked.
    fn write(&self, world_only: bool, out: &mut Vec<u8>) {
        out.push(b'[');
        let mut first = true;
        for ((table, key), op) in self.0.iter().filter(|(_, op)| op.is_world || !world_only) {
            out.extend_from_slice(if std::mem::take(&mut first) {
                b"{"
            } else {
                b",{"
            });
            out.extend_from_slice(b"\"after\":");
            out.extend_from_slice(&op.after);
            out.extend_from_slice(b",\"before\":");
            out.extend_from_slice(op.before.as_deref().unwrap_or(b"null"));
            out.extend_from_slice(b",\"key\":");
            write_string(key, out);
            let word: &[u8] = if op.before.is_some() {
                b"update"
            } else {
                b"insert"
            };
            out.extend_from_slice(b",\"op\":\"");
            out.extend_from_slice(word);
            out.extend_from_slice(b"\",\"table\":");
            write_string(table, out);
            out.push(b'}');
        }
        out.push(b']');
    }

    /// Moves the running hash on by the changes of the world; gives it before and after (VC-WLD-4).
    pub fn advance_world_hash(
        &self,
        cx: &mut Cx<'_>,
    ) -> Result<(Sha256Digest, Sha256Digest), Stop> {
        let key = world_hash_key();
        let row = cx.bytes(&key)?;
        let before = row
            .and_then(|row| parse_world_hash(&row))
            .ok_or_else(|| RowsDamaged("there is no hash of the world".to_owned()))?;
        if !self.changes_world() {
            return Ok((before, before));
        }
        let mut ops = Vec::with_capacity(2_048);
        self.write(true, &mut ops);
        let after = advance(&before, &ops);
        cx.put_bytes(key, Bytes::copy_from_slice(after.as_bytes()));
        Ok((before, after))
    }
}

/// A change of one stock.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InventoryDelta {
    /// The merchant.
    pub merchant_id: String,
    /// The sku.
    pub sku_id: String,
    /// Change of what is there.
    pub on_hand_delta: i64,
    /// Change of what is reserved.
    pub reserved_delta: i64,
}

/// What one accepted mutation changes.
#[derive(Clone, Debug, Default)]
pub struct Diff {
    /// Changed rows.
    pub ops: Ops,
    /// The transaction of the order that it is about.
    pub tx_id: Option<String>,
    /// The address that executes, where it is not the sender.
    pub actor: Option<&'static str>,
    /// Changes of accounts.
    pub ledger: Vec<(String, i64)>,
    /// Changes of stocks.
    pub inventory: Vec<InventoryDelta>,
}

/// Whose change it is.
pub struct Cause<'a> {
    /// The envelope.
    pub msg_id: &'a str,
    /// Its session.
    pub session_id: &'a str,
    /// Its sender.
    pub from: &'a str,
    /// Its key.
    pub key: &'a str,
}

impl Diff {
    /// Moves the hash of the world on and writes the diff.
    pub fn finish(&self, cause: &Cause<'_>, cx: &mut Cx<'_>) -> Result<Bytes, Stop> {
        let (before, after) = self.ops.advance_world_hash(cx)?;
        let mut out = Vec::with_capacity(1_024);
        text_member(b"{\"actor\":", self.actor.unwrap_or(cause.from), &mut out);
        text_member(b",\"caused_by\":", cause.msg_id, &mut out);
        out.extend_from_slice(b",\"diff_id\":");
        write_string(&["sd_", cause.msg_id].concat(), &mut out);
        text_member(
            b",\"invariants\":{\"atomic\":true,\"idempotency\":{\"from\":",
            cause.from,
            &mut out,
        );
        text_member(b",\"key\":", cause.key, &mut out);
        out.extend_from_slice(b"},\"inventory_non_negative\":true,\"ledger_zero_sum\":true}");
        out.extend_from_slice(b",\"inventory_deltas\":");
        self.write_inventory(&mut out);
        out.extend_from_slice(b",\"ledger_deltas\":");
        self.write_ledger(&mut out);
        out.extend_from_slice(b",\"ops\":");
        self.ops.write(false, &mut out);
        text_member(b",\"session_id\":", cause.session_id, &mut out);
        match &self.tx_id {
            Some(tx_id) => text_member(b",\"tx_id\":", tx_id, &mut out),
            None => out.extend_from_slice(b",\"tx_id\":null"),
        }
        text_member(b",\"world_hash_after\":", &after.hex(), &mut out);
        text_member(b",\"world_hash_before\":", &before.hex(), &mut out);
        out.push(b'}');
        Ok(out.into())
    }

    fn write_inventory(&self, out: &mut Vec<u8>) {
        out.push(b'[');
        for (index, delta) in self.inventory.iter().enumerate() {
            let start: &[u8] = if index == 0 { b"{" } else { b",{" };
            out.extend_from_slice(start);
            text_member(b"\"merchant_id\":", &delta.merchant_id, out);
            out.extend_from_slice(format!(",\"on_hand_delta\":{}", delta.on_hand_delta).as_bytes());
            out.extend_from_slice(
                format!(",\"reserved_delta\":{}", delta.reserved_delta).as_bytes(),
            );
            text_member(b",\"sku_id\":", &delta.sku_id, out);
            out.push(b'}');
        }
        out.push(b']');
    }

    fn write_ledger(&self, out: &mut Vec<u8>) {
        out.push(b'[');
        for (index, (account, delta)) in self.ledger.iter().enumerate() {
            let start: &[u8] = if index == 0 { b"{" } else { b",{" };
            out.extend_from_slice(start);
            text_member(b"\"account_id\":", account, out);
            out.extend_from_slice(format!(",\"delta\":{delta}}}").as_bytes());
        }
        out.push(b']');
    }
}

fn text_member(name: &[u8], value: &str, out: &mut Vec<u8>) {
    out.extend_from_slice(name);
    write_string(value, out);
}
