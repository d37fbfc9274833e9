//! Window records as bytes: packed by name and by the hour in which they end.

use std::collections::BTreeMap;

use chancery_core::time::Time;
use chancery_core::window::{Remember, WindowId, WindowName};

const RECORD_BYTES: usize = 32;
const HOUR_MS: i64 = 3_600_000;

/// Records of one window that end within the same hour.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Packet {
    pub window: WindowName,
    /// When the last of them ends.
    pub ends_ms: i64,
    pub bytes: Vec<u8>,
}

/// Packs records, in order.
pub(crate) fn pack(records: &[Remember]) -> Vec<Packet> {
    let mut packets: BTreeMap<(WindowName, i64), Packet> = BTreeMap::new();
    for record in records {
        let ends_ms = end_ms(record);
        let packet = packets
            .entry((record.window, ends_ms.div_euclid(HOUR_MS)))
            .or_insert_with(|| Packet {
                window: record.window,
                ends_ms,
                bytes: Vec::new(),
            });
        packet.ends_ms = packet.ends_ms.max(ends_ms);
        packet.bytes.extend_from_slice(&record.id);
        packet.bytes.extend_from_slice(&record.value.to_be_bytes());
        packet.bytes.extend_from_slice(&ends_ms.to_be_bytes());
    }
    packets.into_values().collect()
}

/// The end, rounded up to the millisecond as windows do.
fn end_ms(record: &Remember) -> i64 {
    record
        .until
        .saturating_add(std::time::Duration::from_nanos(999_999))
        .unix_millis()
}

/// The records of a packet; none when it is damaged.
pub(crate) fn unpack(window: WindowName, bytes: &[u8]) -> Option<Vec<Remember>> {
    if !bytes.len().is_multiple_of(RECORD_BYTES) {
        return None;
    }
    bytes
        .chunks_exact(RECORD_BYTES)
        .map(|record| unpack_record(window, record))
        .collect()
}

fn unpack_record(window: WindowName, record: &[u8]) -> Option<Remember> {
    let (id, rest) = record.split_first_chunk::<16>()?;
    let (value, rest) = rest.split_first_chunk::<8>()?;
    let ends_ms = i64::from_be_bytes(*rest.first_chunk::<8>()?);
    let until = Time::from_unix_millis(ends_ms)?;
    let id: WindowId = *id;
    Some(Remember {
        window,
        id,
        value: u64::from_be_bytes(*value),
        until,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_come_back_packed_by_name_and_hour() {
        let at = |ms| Time::from_unix_millis(ms).unwrap();
        let record = |window, n: u8, ms| Remember {
            window,
            id: [n; 16],
            value: u64::from(n),
            until: at(ms),
        };
        let records = [
            record("a", 1, 5),
            record("b", 2, 6),
            record("a", 3, 9),
            record("a", 4, HOUR_MS),
        ];
        let packets = pack(&records);
        let ends: Vec<_> = packets
            .iter()
            .map(|packet| (packet.window, packet.ends_ms))
            .collect();
        assert_eq!(ends, [("a", 9), ("a", HOUR_MS), ("b", 6)]);
        assert_eq!(
            unpack("a", &packets[0].bytes),
            Some(vec![records[0], records[2]])
        );
        assert_eq!(unpack("a", &packets[0].bytes[1..]), None);
    }
}
