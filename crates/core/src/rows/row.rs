//! What a row holds.

use std::any::Any;
use std::fmt;
use std::ops::Deref;
use std::sync::{Arc, OnceLock};

use bytes::Bytes;
use serde::Serialize;
use serde::de::DeserializeOwned;

/// The bytes of a row, and the value that rules read from them: most rows are read again and again, and every copy of a
/// row knows its value once one of them was asked for it. A row that a rule writes is a value first, and gets its bytes
/// when a store asks for them: many are written over before, and replay never asks. Copies are cheap.
#[derive(Clone)]
pub struct Row(Arc<Content>);

enum Content {
    /// Bytes from a store, and their value once it was asked for.
    Read {
        bytes: Bytes,
        value: OnceLock<Shared>,
    },
    /// A rule's value, and its bytes once they were asked for.
    Written {
        value: Shared,
        write: fn(&Shared) -> Bytes,
        bytes: OnceLock<Bytes>,
    },
}

type Shared = Arc<dyn Any + Send + Sync>;

/// Room for nearly every row.
const ROW_BYTES: usize = 512;

/// The bytes of a value of this type.
fn write<T>(shared: &Shared) -> Bytes
where
    T: Serialize + DeserializeOwned + PartialEq + Send + Sync + 'static,
{
    let value: &T = shared
        .downcast_ref()
        .expect("a value is written as what it is");
    let mut bytes = Vec::with_capacity(ROW_BYTES);
    serde_json::to_writer(&mut bytes, value)
        .expect("a row is plain data and always has a JSON form");
    debug_assert!(
        serde_json::from_slice::<T>(&bytes).is_ok_and(|read| read == *value),
        "a row does not read as it was written: {}",
        String::from_utf8_lossy(&bytes)
    );
    // A copy of the exact length: rows are kept, and room to spare would be kept with them.
    Bytes::copy_from_slice(&bytes)
}

impl Row {
    /// The row's value. Only the first type that a row is read as is kept; a row has one.
    ///
    /// # Errors
    /// The bytes are no such value.
    pub fn value<T>(&self) -> Result<Arc<T>, serde_json::Error>
    where
        T: DeserializeOwned + Send + Sync + 'static,
    {
        let known = match &*self.0 {
            Content::Read { value, .. } => value.get(),
            Content::Written { value, .. } => Some(value),
        };
        if let Some(known) = known
            && let Ok(value) = Arc::clone(known).downcast()
        {
            return Ok(value);
        }
        let read: Arc<T> = Arc::new(serde_json::from_slice(self.bytes())?);
        if let Content::Read { value, .. } = &*self.0 {
            // Somebody else may have been first: theirs is as good.
            let _ = value.set(Arc::clone(&read) as Shared);
        }
        Ok(read)
    }

    /// The row of a value.
    ///
    /// What rules find must not depend on whether a row was written a moment ago or read from a disk: the value must be
    /// the one that its bytes give.
    pub fn of<T>(value: Arc<T>) -> Self
    where
        T: Serialize + DeserializeOwned + PartialEq + Send + Sync + 'static,
    {
        Self(Arc::new(Content::Written {
            value,
            write: write::<T>,
            bytes: OnceLock::new(),
        }))
    }

    /// How many bytes it has; none while nobody has asked for them.
    pub fn known_len(&self) -> Option<usize> {
        match &*self.0 {
            Content::Read { bytes, .. } => Some(bytes.len()),
            Content::Written { bytes, .. } => bytes.get().map(Bytes::len),
        }
    }

    /// The bytes as a store keeps them.
    pub fn bytes(&self) -> &Bytes {
        match &*self.0 {
            Content::Read { bytes, .. } => bytes,
            Content::Written {
                value,
                write,
                bytes,
            } => bytes.get_or_init(|| write(value)),
        }
    }
}

impl Deref for Row {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        self.bytes()
    }
}

impl From<Bytes> for Row {
    fn from(bytes: Bytes) -> Self {
        Self(Arc::new(Content::Read {
            bytes,
            value: OnceLock::new(),
        }))
    }
}

impl From<Vec<u8>> for Row {
    fn from(bytes: Vec<u8>) -> Self {
        Bytes::from(bytes).into()
    }
}

impl From<&[u8]> for Row {
    fn from(bytes: &[u8]) -> Self {
        Bytes::copy_from_slice(bytes).into()
    }
}

impl From<&str> for Row {
    fn from(text: &str) -> Self {
        text.as_bytes().into()
    }
}

impl PartialEq for Row {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0) || self.bytes() == other.bytes()
    }
}

impl Eq for Row {}

impl fmt::Debug for Row {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.bytes().fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn copies_share_the_value_that_one_of_them_was_read_as() {
        let row = Row::from(Bytes::from_static(b"[1,2]"));
        let copy = row.clone();
        let read: Arc<Vec<u8>> = row.value().unwrap();
        assert_eq!(*read, [1, 2]);
        assert!(Arc::ptr_eq(&read, &copy.value().unwrap()));
    }

    #[test]
    fn a_row_can_be_read_as_another_type() {
        let row = Row::from(Bytes::from_static(b"[1,2]"));
        let _: Arc<Vec<u8>> = row.value().unwrap();
        assert_eq!(*row.value::<[u64; 2]>().unwrap(), [1, 2]);
        assert!(row.value::<String>().is_err());
    }

    #[test]
    fn a_row_of_a_value_has_its_bytes_when_they_are_asked_for() {
        let row = Row::of(Arc::new(vec![1_u8, 2]));
        let copy = row.clone();
        assert_eq!(row.known_len(), None);
        assert_eq!(*row.value::<Vec<u8>>().unwrap(), [1, 2]);
        assert_eq!(copy, Row::from("[1,2]"));
        assert!(std::ptr::eq(row.bytes(), copy.bytes()), "written once");
        assert_eq!(row.known_len(), Some(5));
        assert_eq!(*row.value::<[u64; 2]>().unwrap(), [1, 2]);
    }

    /// Half of it is not written.
    #[derive(PartialEq, serde::Serialize, serde::Deserialize)]
    struct Forgetful {
        #[serde(skip)]
        told: u8,
    }

    #[test]
    #[cfg(debug_assertions)]
    #[should_panic(expected = "does not read as it was written")]
    fn a_value_that_its_bytes_do_not_give_is_found_out() {
        Row::of(Arc::new(Forgetful { told: 2 })).bytes();
    }
}
