//! The walk over a value. It is recursive; a reader lets nothing deeper than
//! [`MAX_DEPTH`](crate::json::MAX_DEPTH) through.

use std::ops::Range;

use bytes::Bytes;

use super::number::{write_number, write_number_comparing};
use super::{Dialect, order, write_string};
use crate::json::{Number, Object, Value};

/// Room for most envelopes, so that writing one does not move it again and again.
const ENVELOPE_BYTES: usize = 1_024;

/// Appends the canonical bytes of a value.
pub fn write(value: &Value<'_>, dialect: Dialect, out: &mut Vec<u8>) {
    Walk::new(dialect, out).value(value);
}

/// The canonical bytes of a value.
#[must_use]
pub fn to_bytes(value: &Value<'_>, dialect: Dialect) -> Vec<u8> {
    let mut out = Vec::with_capacity(ENVELOPE_BYTES);
    write(value, dialect, &mut out);
    out
}

/// Appends the canonical bytes of a value without one member of the outermost object (VX-CAN-1); members
/// of that name further in stay.
pub fn write_without_member(value: &Value<'_>, name: &str, dialect: Dialect, out: &mut Vec<u8>) {
    let cut = Walk::new(dialect, out).document(value, name);
    if let Some(cut) = cut {
        out.drain(cut);
    }
}

/// The canonical bytes of a value, from which those without one member of the outermost object can be cut.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Canonical {
    bytes: Bytes,
    agree: bool,
    verbatim: bool,
    cut: Option<Range<usize>>,
}

impl Canonical {
    /// The canonical bytes with all members.
    #[must_use]
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// The same, given away.
    #[must_use]
    pub fn into_bytes(self) -> Bytes {
        self.bytes
    }

    /// The same, to be kept: copies share them.
    #[must_use]
    pub const fn shared(&self) -> &Bytes {
        &self.bytes
    }

    /// The canonical bytes without the named member; all of them when there is none.
    #[must_use]
    pub fn signed_bytes(&self) -> Vec<u8> {
        let (before, after) = self.signed_parts();
        [before, after].concat()
    }

    /// The two pieces whose concatenation is [`Canonical::signed_bytes`], for hashing without a copy.
    #[must_use]
    pub fn signed_parts(&self) -> (&[u8], &[u8]) {
        match &self.cut {
            Some(cut) => (&self.bytes[..cut.start], &self.bytes[cut.end..]),
            None => (&self.bytes, &[]),
        }
    }

    /// Where the named member stands in the bytes, with the comma that goes with it.
    #[must_use]
    pub fn cut(&self) -> Option<Range<usize>> {
        self.cut.clone()
    }

    /// Whether every dialect gives these same bytes, with and without the named member.
    #[must_use]
    pub const fn agree(&self) -> bool {
        self.agree
    }

    /// Whether every number stands in the bytes as the token that was read, so that reading them back
    /// gives the received values again (CH-JRN-3, AG-ENV-19).
    #[must_use]
    pub const fn verbatim(&self) -> bool {
        self.verbatim
    }
}

/// Writes a value once, noting where the member `name` of the outermost object stands and whether the
/// dialects agree.
#[must_use]
pub fn canonical_cutting(value: &Value<'_>, name: &str, dialect: Dialect) -> Canonical {
    let mut bytes = Vec::with_capacity(ENVELOPE_BYTES);
    let mut walk = Walk::new(dialect, &mut bytes);
    walk.comparing = true;
    let cut = walk.document(value, name);
    let (agree, verbatim) = (walk.agree, walk.verbatim);
    Canonical {
        bytes: bytes.into(),
        agree,
        verbatim,
        cut,
    }
}

/// What [`canonical_cutting`] gives for a value that was read from plain text ([`read_noting`](crate::json::read_noting)):
/// the text is its canonical form already, in every dialect, so nothing is written.
#[must_use]
pub fn plain_cutting(value: &Value<'_>, name: &str, text: Bytes) -> Canonical {
    let cut = value.as_object().and_then(|object| plain_cut(object, name));
    Canonical {
        bytes: text,
        agree: true,
        verbatim: true,
        cut,
    }
}

/// Where a member stands in an object's plain text, with the comma that goes with it.
fn plain_cut(object: &Object<'_>, name: &str) -> Option<Range<usize>> {
    let place = object.iter().position(|(member, _)| member == name)?;
    let mut ends = object.iter().map(plain_member_len).scan(0, |end, len| {
        // One byte before each member: the brace or a comma.
        *end += 1 + len;
        Some(*end)
    });
    let start = place.checked_sub(1).and_then(|before| ends.nth(before));
    let end = ends.next()?;
    Some(match start {
        Some(start) => start..end,
        None => 1..end + usize::from(object.len() > 1),
    })
}

fn plain_member_len((name, value): Member<'_, '_>) -> usize {
    name.len() + 3 + plain_len(value)
}

/// How many bytes the plain text is that a value was read from ([`read_noting`](crate::json::read_noting)).
#[must_use]
pub fn plain_len(value: &Value<'_>) -> usize {
    let listed = |count: usize, sum: usize| sum + 2 + count.saturating_sub(1);
    match value {
        Value::Null | Value::Bool(true) => 4,
        Value::Bool(false) => 5,
        Value::Number(number) => number.token().len(),
        Value::String(text) => text.len() + 2,
        Value::Array(items) => listed(items.len(), items.iter().map(plain_len).sum()),
        Value::Object(object) => listed(object.len(), object.iter().map(plain_member_len).sum()),
    }
}

type Member<'v, 'a> = (&'v str, &'v Value<'a>);

struct Walk<'o> {
    dialect: Dialect,
    out: &'o mut Vec<u8>,
    /// Whether to find out about the next two.
    comparing: bool,
    agree: bool,
    verbatim: bool,
}

impl<'o> Walk<'o> {
    const fn new(dialect: Dialect, out: &'o mut Vec<u8>) -> Self {
        Self {
            dialect,
            out,
            comparing: false,
            agree: true,
            verbatim: true,
        }
    }

    fn value(&mut self, value: &Value<'_>) {
        match value {
            Value::Null => self.out.extend_from_slice(b"null"),
            Value::Bool(true) => self.out.extend_from_slice(b"true"),
            Value::Bool(false) => self.out.extend_from_slice(b"false"),
            Value::Number(number) => self.number(number),
            Value::String(text) => write_string(text, self.out),
            Value::Array(items) => self.array(items),
            Value::Object(object) => {
                self.object(object, None);
            }
        }
    }

    fn number(&mut self, number: &Number<'_>) {
        if self.comparing {
            let written = write_number_comparing(number, self.dialect, self.out);
            self.agree &= written.agree;
            self.verbatim &= written.verbatim;
        } else {
            write_number(number, self.dialect, self.out);
        }
    }

    fn array(&mut self, items: &[Value<'_>]) {
        self.out.push(b'[');
        for (index, item) in items.iter().enumerate() {
            if index > 0 {
                self.out.push(b',');
            }
            self.value(item);
        }
        self.out.push(b']');
    }

    /// Writes a value and says where the member `watched` of the outermost object came to stand.
    fn document(&mut self, value: &Value<'_>, watched: &str) -> Option<Range<usize>> {
        match value {
            Value::Object(object) => self.object(object, Some(watched)),
            other => {
                self.value(other);
                None
            }
        }
    }

    /// Sorts the members, unless they are in order as most signed ones are.
    fn object(&mut self, object: &Object<'_>, watched: Option<&str>) -> Option<Range<usize>> {
        let dialect = self.dialect;
        let sorted =
            |(a, _): &Member<'_, '_>, (b, _): &Member<'_, '_>| order::compare(a, b, dialect);
        if object.iter().is_sorted_by(|a, b| sorted(a, b).is_lt()) {
            return self.members(object.iter(), watched);
        }
        let mut members: Vec<Member<'_, '_>> = object.iter().collect();
        members.sort_unstable_by(sorted);
        self.members(members.into_iter(), watched)
    }

    fn members<'v, 'a: 'v>(
        &mut self,
        members: impl ExactSizeIterator<Item = Member<'v, 'a>>,
        watched: Option<&str>,
    ) -> Option<Range<usize>> {
        let count = members.len();
        let mut found = None;
        let mut previous = None;
        self.out.push(b'{');
        for (index, (name, value)) in members.enumerate() {
            let start = self.out.len();
            if index > 0 {
                self.out.push(b',');
            }
            write_string(name, self.out);
            self.out.push(b':');
            self.value(value);
            if watched == Some(name) {
                // The first member has no comma before it: the one after goes with it, if any.
                let comma_after = usize::from(index == 0 && count > 1);
                found = Some(start..self.out.len() + comma_after);
            }
            if self.comparing {
                // Names are distinct, so an order holds for the whole when it holds for neighbours.
                self.agree &= previous.is_none_or(|previous| order::agree(previous, name));
                previous = Some(name);
            }
        }
        self.out.push(b'}');
        found
    }
}
