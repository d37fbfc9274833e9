//! The two hashes of the world (VC-WLD-4).

use chancery_core::canonical::write_string;
use chancery_core::digest::{Sha256, Sha256Digest};
use chancery_core::rows::{RowKey, Rows, RowsDamaged};

use super::rows::{Table, world_hash_key};

/// The hash over all seven tables as they are.
///
/// # Errors
/// The rows cannot be read.
pub fn state_hash(rows: &dyn Rows) -> Result<Sha256Digest, RowsDamaged> {
    let mut hash = Sha256::new();
    let mut text = Vec::new();
    for (number, table) in Table::ALL.into_iter().enumerate() {
        hash.update(if number == 0 { b"{" } else { b"," });
        text.clear();
        write_string(table.as_str(), &mut text);
        hash.update(&text);
        hash.update(b":");
        hash_rows(rows, &table.prefix(), &mut hash)?;
    }
    hash.update(b"}");
    Ok(hash.finish())
}

fn hash_rows(rows: &dyn Rows, prefix: &RowKey, hash: &mut Sha256) -> Result<(), RowsDamaged> {
    let mut text = Vec::new();
    let mut is_first = true;
    hash.update(b"{");
    rows.visit(prefix, &mut |key, row| {
        text.clear();
        if !std::mem::take(&mut is_first) {
            text.push(b',');
        }
        write_string(&entry_of(key), &mut text);
        text.push(b':');
        hash.update(&text);
        hash.update(row);
    })?;
    hash.update(b"}");
    Ok(())
}

/// The entry that a table's row key names.
pub fn entry_of(key: &RowKey) -> String {
    let entry = key.parts().pop().unwrap_or_default();
    String::from_utf8_lossy(&entry).into_owned()
}

/// The running hash on record; none where there is no world.
pub fn parse_world_hash(row: &[u8]) -> Option<Sha256Digest> {
    let bytes: [u8; 32] = row.try_into().ok()?;
    Some(Sha256Digest(bytes))
}

/// The running hash that the rows hold.
///
/// # Errors
/// The rows cannot be read.
pub fn world_hash(rows: &dyn Rows) -> Result<Option<Sha256Digest>, RowsDamaged> {
    let found = rows.scan(&world_hash_key())?.into_iter().next();
    Ok(found.and_then(|(_, row)| parse_world_hash(&row)))
}

/// The running hash after a change: over the one before and the canonical `ops` on world tables.
pub fn advance(before: &Sha256Digest, ops: &[u8]) -> Sha256Digest {
    let mut hash = Sha256::new();
    hash.update(before.as_bytes());
    hash.update(ops);
    hash.finish()
}
