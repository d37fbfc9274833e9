//! Keys, rows and lines as PostgreSQL takes them, not copied before they leave.

use std::error::Error;

use bytes::{Bytes, BytesMut};
use chancery_core::rows::{Row, RowKey};
use tokio_postgres::types::{IsNull, ToSql, Type, accepts, to_sql_checked};

/// Bytes that are shared with whoever made them.
#[derive(Debug)]
pub(super) enum Bytea {
    Key(RowKey),
    Row(Row),
    Line(Bytes),
}

impl Bytea {
    pub(super) fn bytes(&self) -> &[u8] {
        match self {
            Self::Key(key) => key.as_bytes(),
            Self::Row(row) => row,
            Self::Line(line) => line,
        }
    }
}

impl ToSql for Bytea {
    fn to_sql(&self, _: &Type, out: &mut BytesMut) -> Result<IsNull, Box<dyn Error + Sync + Send>> {
        out.extend_from_slice(self.bytes());
        Ok(IsNull::No)
    }

    accepts!(BYTEA);
    to_sql_checked!();
}
