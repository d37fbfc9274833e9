//! The changes of one batch as bytes, for the nodes that did not make it.

use chancery_core::rows::{Row, RowChange, RowKey};
use chancery_core::window::{Remember, WindowName};

use super::last::LastChanges;
use crate::contract::Spent;
use crate::windows::{self, Packet};

/// A change of a row stands for itself, a packet of window records for many.
const PUT: u8 = 0;
const REMOVED: u8 = 1;
const PACKET: u8 = 2;
const SPENT: u8 = 3;

/// Packs the last changes of rows, the packets of what units remember, and what was used of allowances.
pub(super) fn pack(rows: &LastChanges, packets: &[Packet], spent: &[Spent]) -> Vec<u8> {
    let mut out = Vec::with_capacity(256);
    for (key, value) in rows.keys.iter().zip(&rows.values) {
        out.push(PUT);
        push(key.bytes(), &mut out);
        push(value.bytes(), &mut out);
    }
    for key in &rows.removed {
        out.push(REMOVED);
        push(key.bytes(), &mut out);
    }
    for packet in packets {
        out.push(PACKET);
        push(packet.window.as_bytes(), &mut out);
        push(&packet.bytes, &mut out);
    }
    for one in spent {
        out.push(SPENT);
        push(one.who.as_bytes(), &mut out);
        push(&one.times.to_be_bytes(), &mut out);
    }
    out
}

fn push(part: &[u8], out: &mut Vec<u8>) {
    let len = u32::try_from(part.len()).expect("a row is smaller than a batch, a batch than 4 GiB");
    out.extend_from_slice(&len.to_be_bytes());
    out.extend_from_slice(part);
}

/// What a batch brought, as others take it in.
#[derive(Debug, Default, PartialEq)]
pub(super) struct Unpacked {
    pub(super) rows: Vec<RowChange>,
    pub(super) remembered: Vec<Remember>,
    pub(super) spent: Vec<Spent>,
}

/// Unpacks it; none when it is damaged. Windows that this build does not know are left out.
pub(super) fn unpack(packed: &[u8], names: &[WindowName]) -> Option<Unpacked> {
    let mut rest = Rest(packed);
    let mut unpacked = Unpacked::default();
    while let Some(kind) = rest.kind() {
        match kind {
            PUT => {
                let key = RowKey::from_stored(rest.part()?);
                let row = Row::from(rest.part()?);
                unpacked.rows.push((key, Some(row)));
            }
            REMOVED => {
                let key = RowKey::from_stored(rest.part()?);
                unpacked.rows.push((key, None));
            }
            PACKET => {
                let (stored, records) = (rest.part()?, rest.part()?);
                if let Some(name) = names.iter().find(|name| name.as_bytes() == stored) {
                    unpacked.remembered.extend(windows::unpack(name, records)?);
                }
            }
            SPENT => {
                let (who, times) = (rest.part()?, rest.part()?);
                unpacked.spent.push(Spent {
                    who: String::from_utf8(who.to_vec()).ok()?,
                    times: u32::from_be_bytes(times.try_into().ok()?),
                });
            }
            _ => return None,
        }
    }
    Some(unpacked)
}

/// What is not read yet. Parts are copied out of it: a row that is kept must not keep its whole batch.
struct Rest<'p>(&'p [u8]);

impl<'p> Rest<'p> {
    fn kind(&mut self) -> Option<u8> {
        let (kind, rest) = self.0.split_first()?;
        self.0 = rest;
        Some(*kind)
    }

    fn part(&mut self) -> Option<&'p [u8]> {
        let (len, rest) = self.0.split_first_chunk::<4>()?;
        let len = usize::try_from(u32::from_be_bytes(*len)).ok()?;
        let (part, rest) = rest.split_at_checked(len)?;
        self.0 = rest;
        Some(part)
    }
}

#[cfg(test)]
mod tests {
    use chancery_core::time::Time;

    use super::*;

    #[test]
    fn the_last_of_each_row_comes_back_and_nothing_of_what_is_cut() {
        let key = |name: &str| RowKey::text("t", &[name]);
        let record = Remember {
            window: "w",
            id: [7; 16],
            value: 9,
            until: Time::from_unix_millis(5).unwrap(),
        };
        let changes = [
            (key("a"), Some(Row::from("1"))),
            (key("b"), None),
            (key("c"), None),
            (key("a"), Some(Row::from(""))),
            (key("c"), Some(Row::from("2"))),
        ];
        let last = vec![
            (key("a"), Some(Row::from(""))),
            (key("c"), Some(Row::from("2"))),
            (key("b"), None),
        ];
        let spent = ["a", "agent://b.example/c"].map(|who| Spent {
            who: who.to_owned(),
            times: 300,
        });
        let unpacked = |remembered: &[Remember]| Unpacked {
            rows: last.clone(),
            remembered: remembered.to_vec(),
            spent: spent.to_vec(),
        };
        let packets = windows::pack(&[record]);
        let packed = pack(&LastChanges::of(changes.iter()), &packets, &spent);
        assert_eq!(unpack(&packed, &["w"]), Some(unpacked(&[record])));
        assert_eq!(unpack(&packed, &["x"]), Some(unpacked(&[])));
        let whole = unpack(&packed, &["w"]);
        let cuts = (1..packed.len()).filter(|cut| unpack(&packed[..*cut], &["w"]) == whole);
        assert_eq!(cuts.count(), 0);
    }
}
