//! One process per data directory (CH-NET-5): a locked file that says which.
//!
//! Guarantees: the operating system holds the lock and drops it when the process ends, however it ends; a file left
//! over locks nobody out.

use std::fs::{File, TryLockError};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use crate::disk::private_file;

pub(crate) const LOCK_NAME: &str = "lock";
/// Who writes more than this into a lock file is not us.
const MOST_TEXT_BYTES: u64 = 1_024;

/// Why the directory could not be taken.
#[derive(Debug, thiserror::Error)]
pub enum LockError {
    /// Another process has it.
    #[error("the data directory {} is in use by {holder}", dir.display())]
    Held {
        /// The directory.
        dir: PathBuf,
        /// Process id and address of the other, as it wrote them.
        holder: String,
    },
    /// The lock file cannot be used.
    #[error("the lock file {} cannot be used: {error}", path.display())]
    Unusable {
        /// The file.
        path: PathBuf,
        /// Why.
        error: io::Error,
    },
}

/// The lock; given back when dropped.
#[derive(Debug)]
pub struct DirLock(Mutex<File>);

impl DirLock {
    /// Takes the directory for this process.
    ///
    /// # Errors
    /// Another process has it.
    pub fn take(dir: &Path, address: &str) -> Result<Self, LockError> {
        let path = dir.join(LOCK_NAME);
        let unusable = |error| LockError::Unusable {
            path: path.clone(),
            error,
        };
        let mut file = private_file()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .open(&path)
            .map_err(unusable)?;
        match file.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => {
                return Err(LockError::Held {
                    dir: dir.to_owned(),
                    holder: holder(&mut file),
                });
            }
            Err(TryLockError::Error(error)) => return Err(unusable(error)),
        }
        let lock = Self(Mutex::new(file));
        lock.tell(address).map_err(unusable)?;
        Ok(lock)
    }

    /// Says at which address this process serves.
    pub(crate) fn tell(&self, address: &str) -> io::Result<()> {
        let mut file = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        file.set_len(0)?;
        file.seek(SeekFrom::Start(0))?;
        let place = if address.is_empty() {
            String::new()
        } else {
            format!(" at {address}")
        };
        file.write_all(format!("process {}{place}\n", std::process::id()).as_bytes())
    }
}

/// A program that is just being started has a copy of the open file for a moment: the lock is given back, not left to the last
/// copy.
impl Drop for DirLock {
    fn drop(&mut self) {
        let file = self.0.get_mut().unwrap_or_else(PoisonError::into_inner);
        if let Err(error) = file.unlock() {
            tracing::debug!(%error, "the lock ends with the open file");
        }
    }
}

/// Who wrote itself down in the file.
pub(crate) fn holder(file: &mut File) -> String {
    let mut text = String::new();
    match file.take(MOST_TEXT_BYTES).read_to_string(&mut text) {
        Ok(_) if !text.trim().is_empty() => text.trim().to_owned(),
        _ => "another process".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_second_taker_is_told_who_has_it() {
        // CH-NET-5
        let dir = tempfile::tempdir().unwrap();
        let first = DirLock::take(dir.path(), "").unwrap();
        first.tell("127.0.0.1:8700").unwrap();
        let error = DirLock::take(dir.path(), "elsewhere")
            .unwrap_err()
            .to_string();
        assert!(
            error.contains(&format!("process {} at 127.0.0.1:8700", std::process::id())),
            "{error}"
        );
        // Such a copy does not keep it.
        let copy = first.0.lock().unwrap().try_clone().unwrap();
        drop(first);
        DirLock::take(dir.path(), "elsewhere").unwrap();
        drop(copy);
    }
}
