//! What a row holds.

use std::any::Any;
use std::fmt;
use std::ops::Deref;
use std::sync::{Arc, OnceLock};

use bytes::Bytes;
use serde::de::DeserializeOwned;

/// The bytes of a row, and the value that rules read from them: most rows are read again and again, and every copy of a
/// row knows its value once one of them was asked for it. Copies are cheap.
#[derive(Clone)]
pub struct Row(Arc<Content>);

struct Content {
    bytes: Bytes,
    value: OnceLock<Arc<dyn Any + Send + Sync>>,
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
        if let Some(known) = self.0.value.get()
            && let Ok(value) = Arc::clone(known).downcast()
        {
            return Ok(value);
        }
        let value: Arc<T> = Arc::new(serde_json::from_slice(&self.0.bytes)?);
        // Somebody else may have been first: theirs is as good.
        let _ = self.0.value.set(Arc::clone(&value) as _);
        Ok(value)
    }

    /// A row whose value is known already, because it was written from it.
    ///
    /// What rules find must not depend on whether a row was written a moment ago or read from a disk: the value must be
    /// the one that its bytes give, and is not taken from the writer otherwise.
    pub fn written<T>(bytes: Bytes, value: T) -> Self
    where
        T: DeserializeOwned + PartialEq + Send + Sync + 'static,
    {
        debug_assert!(
            serde_json::from_slice::<T>(&bytes).is_ok_and(|read| read == value),
            "a row does not read as it was written: {}",
            String::from_utf8_lossy(&bytes)
        );
        Self(Arc::new(Content {
            bytes,
            value: OnceLock::from(Arc::new(value) as Arc<dyn Any + Send + Sync>),
        }))
    }

    /// The bytes as a store keeps them.
    pub fn bytes(&self) -> &Bytes {
        &self.0.bytes
    }
}

impl Deref for Row {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.0.bytes
    }
}

impl From<Bytes> for Row {
    fn from(bytes: Bytes) -> Self {
        Self(Arc::new(Content {
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
        self.0.bytes == other.0.bytes
    }
}

impl Eq for Row {}

impl fmt::Debug for Row {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.bytes.fmt(f)
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
    #[cfg(debug_assertions)]
    #[should_panic(expected = "does not read as it was written")]
    fn a_value_that_its_bytes_do_not_give_is_found_out() {
        Row::written(Bytes::from_static(b"1"), 2_u8);
    }
}
