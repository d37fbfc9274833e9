//! Message identifiers (VX-ID-1): UUID version 7, lower case, hyphens, nothing else. What is on record may hold one of
//! another version, from a peer that was let in with it (VX-V2-1).

use chancery_core::ids::{Uuid, is_uuid7};
use serde::de::{Error, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::fmt;

/// The identifier of one message. Its order is that of the text (VX-ORD-2).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct MessageId(Uuid);

impl MessageId {
    /// Reads an identifier; none for any other spelling or version.
    pub fn parse(text: &str) -> Option<Self> {
        if !is_uuid7(text) {
            return None;
        }
        Uuid::try_parse(text).ok().map(Self)
    }

    /// Reads an identifier of any UUID version, in the same spelling (VX-V2-1).
    pub fn parse_any(text: &str) -> Option<Self> {
        let id = Uuid::try_parse(text).ok().map(Self)?;
        (id.to_string() == text).then_some(id)
    }

    /// The identifier that a sequence made.
    pub const fn made(uuid: Uuid) -> Self {
        Self(uuid)
    }

    /// The time it was made at, in Unix milliseconds; none for another version than 7.
    pub fn unix_millis(self) -> Option<i64> {
        if self.0.get_version_num() != 7 {
            return None;
        }
        let [a, b, c, d, e, f, ..] = *self.0.as_bytes();
        Some(i64::from_be_bytes([0, 0, a, b, c, d, e, f]))
    }

    /// The identifier as 16 bytes.
    pub const fn uuid(self) -> Uuid {
        self.0
    }
}

impl fmt::Display for MessageId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.0.hyphenated(), f)
    }
}

impl fmt::Debug for MessageId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl Serialize for MessageId {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for MessageId {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Text;
        impl Visitor<'_> for Text {
            type Value = MessageId;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a message identifier")
            }

            fn visit_str<E: Error>(self, text: &str) -> Result<MessageId, E> {
                MessageId::parse_any(text).ok_or_else(|| E::custom("not a message identifier"))
            }
        }
        deserializer.deserialize_str(Text)
    }
}
