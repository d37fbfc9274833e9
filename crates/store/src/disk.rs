//! The thin file layer below the log: what it needs of a disk, and nothing more.
//!
//! Guarantees of [`RealDisk`]: files are created mode 0600 in a directory of mode 0700 (CH-JRN-9); a call that
//! returns `Ok` did what it says. Refuses names that leave its directory. Everything the log does to a disk goes
//! through here, so that a simulated disk can stand below the very same code.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// One directory of files.
pub trait Disk: Send + Sync + 'static {
    /// Opens a file for appending and reading, created if it is not there.
    fn open_append(&self, name: &str) -> io::Result<Arc<dyn DiskFile>>;

    /// Opens a file for reading.
    fn open_read(&self, name: &str) -> io::Result<Arc<dyn DiskFile>>;

    /// Renames a file; durable after [`Disk::sync_dir`].
    fn rename(&self, from: &str, to: &str) -> io::Result<()>;

    /// Removes a file; durable after [`Disk::sync_dir`].
    fn remove(&self, name: &str) -> io::Result<()>;

    /// The names of all files, in any order.
    fn list(&self) -> io::Result<Vec<String>>;

    /// Makes creations, renames and removals durable.
    fn sync_dir(&self) -> io::Result<()>;
}

/// One file. The handle follows the file when it is renamed.
pub trait DiskFile: Send + Sync + 'static {
    /// Writes all bytes at the end.
    fn append(&self, bytes: &[u8]) -> io::Result<()>;

    /// Makes what was appended and truncated durable.
    fn sync_data(&self) -> io::Result<()>;

    /// Cuts the file.
    fn truncate(&self, len: u64) -> io::Result<()>;

    /// Fills `buffer` from `offset` on; gives how many bytes there were.
    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<usize>;

    /// The file's length.
    fn len(&self) -> io::Result<u64>;

    /// Whether the file is empty.
    fn is_empty(&self) -> io::Result<bool> {
        Ok(self.len()? == 0)
    }
}

/// A directory of the operating system.
#[derive(Clone, Debug)]
pub struct RealDisk {
    dir: PathBuf,
}

impl RealDisk {
    /// The directory, created with mode 0700 if it is not there.
    pub fn open(dir: &Path) -> io::Result<Self> {
        create_private_dir(dir)?;
        Ok(Self {
            dir: dir.to_owned(),
        })
    }

    fn path(&self, name: &str) -> io::Result<PathBuf> {
        if name.is_empty() || name.contains(['/', '\0']) || name == ".." {
            return Err(io::Error::new(
                io::ErrorKind::InvalidInput,
                "a file name without a path is wanted",
            ));
        }
        Ok(self.dir.join(name))
    }
}

/// Creates a directory for its owner alone, and makes its name durable.
pub(crate) fn create_private_dir(dir: &Path) -> io::Result<()> {
    if dir.is_dir() {
        return Ok(());
    }
    fs::DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(dir)?;
    match dir.parent().filter(|parent| !parent.as_os_str().is_empty()) {
        Some(parent) => File::open(parent)?.sync_all(),
        None => Ok(()),
    }
}

/// Options that create a file for its owner alone.
pub(crate) fn private_file() -> OpenOptions {
    let mut options = OpenOptions::new();
    options.mode(0o600);
    options
}

impl Disk for RealDisk {
    fn open_append(&self, name: &str) -> io::Result<Arc<dyn DiskFile>> {
        let file = private_file()
            .read(true)
            .append(true)
            .create(true)
            .open(self.path(name)?)?;
        Ok(Arc::new(RealFile(file)))
    }

    fn open_read(&self, name: &str) -> io::Result<Arc<dyn DiskFile>> {
        Ok(Arc::new(RealFile(File::open(self.path(name)?)?)))
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        fs::rename(self.path(from)?, self.path(to)?)
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        fs::remove_file(self.path(name)?)
    }

    fn list(&self) -> io::Result<Vec<String>> {
        let mut names = Vec::new();
        for entry in fs::read_dir(&self.dir)? {
            // A name that is not UTF-8 is none of ours.
            if let Ok(name) = entry?.file_name().into_string() {
                names.push(name);
            }
        }
        Ok(names)
    }

    fn sync_dir(&self) -> io::Result<()> {
        File::open(&self.dir)?.sync_all()
    }
}

struct RealFile(File);

impl DiskFile for RealFile {
    fn append(&self, bytes: &[u8]) -> io::Result<()> {
        (&self.0).write_all(bytes)
    }

    fn sync_data(&self) -> io::Result<()> {
        self.0.sync_data()
    }

    fn truncate(&self, len: u64) -> io::Result<()> {
        self.0.set_len(len)
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<usize> {
        let mut filled = 0;
        while filled < buffer.len() {
            match self
                .0
                .read_at(&mut buffer[filled..], offset + filled as u64)
            {
                Ok(0) => break,
                Ok(read) => filled += read,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(filled)
    }

    fn len(&self) -> io::Result<u64> {
        Ok(self.0.metadata()?.len())
    }
}
