//! A disk in memory that forgets what was not synced.
//!
//! At a [`SimDisk::cut`] every file keeps what was synced; of what was appended since, any prefix or any subset of
//! sectors or bytes survives, lost parts before surviving ones reading as zeros; an unsynced truncation happened
//! or not; of the directory's unsynced changes any subset happened. All of it follows from the seed.
//!
//! [`SimDisk::inject`] makes a later append or sync fail, as a failing or full disk does.

use std::collections::BTreeMap;
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::Chance;
use crate::disk::{Disk, DiskFile};

/// What is going to fail, counted from the next call on (0 is the next one).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// The n-th append writes nothing.
    Append(u64),
    /// The n-th append writes part of its bytes, then the disk is full.
    Full(u64),
    /// The n-th sync fails; whether the bytes are durable is left to chance.
    Sync(u64),
    /// The n-th sync of the directory fails.
    SyncDir(u64),
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Call {
    Append,
    Sync,
    SyncDir,
}

impl Fault {
    fn call(&self) -> Call {
        match self {
            Self::Append(_) | Self::Full(_) => Call::Append,
            Self::Sync(_) => Call::Sync,
            Self::SyncDir(_) => Call::SyncDir,
        }
    }

    fn left(&mut self) -> &mut u64 {
        match self {
            Self::Append(left) | Self::Full(left) | Self::Sync(left) | Self::SyncDir(left) => left,
        }
    }
}

/// The disk. Clones are the same disk.
#[derive(Clone)]
pub struct SimDisk(Arc<Mutex<State>>);

struct State {
    chance: Chance,
    /// Grows at each cut: handles from before it are dead.
    life: u64,
    files: Vec<Inode>,
    /// What a running program sees.
    names: BTreeMap<String, usize>,
    /// What is durable, and the changes since, in order.
    durable_names: BTreeMap<String, usize>,
    name_changes: Vec<NameChange>,
    faults: Vec<Fault>,
    syncs: u64,
}

#[derive(Clone)]
enum NameChange {
    Put(String, usize),
    Move(String, String),
    Remove(String),
}

#[derive(Clone, Default)]
struct Inode {
    durable: Vec<u8>,
    now: Vec<u8>,
    /// How many bytes at the beginning both have in common.
    kept: usize,
}

struct SimFile {
    disk: SimDisk,
    inode: usize,
    life: u64,
}

impl SimDisk {
    /// An empty disk whose cuts follow from `seed`.
    pub fn new(seed: u64) -> Self {
        Self(Arc::new(Mutex::new(State {
            chance: Chance::new(seed),
            life: 0,
            files: Vec::new(),
            names: BTreeMap::new(),
            durable_names: BTreeMap::new(),
            name_changes: Vec::new(),
            faults: Vec::new(),
            syncs: 0,
        })))
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The power fails: what was not synced may be lost, and every open file is dead.
    pub fn cut(&self) {
        let mut state = self.lock();
        let State { chance, files, .. } = &mut *state;
        for file in files {
            file.cut(chance);
        }
        for change in std::mem::take(&mut state.name_changes) {
            if state.chance.one_in(2) {
                change.apply(&mut state.durable_names);
            }
        }
        state.names = state.durable_names.clone();
        state.faults.clear();
        state.life += 1;
    }

    /// Takes all faults back: the process ends, the power does not.
    pub fn heal(&self) {
        self.lock().faults.clear();
    }

    /// Makes a later call fail.
    pub fn inject(&self, fault: Fault) {
        self.lock().faults.push(fault);
    }

    /// How many file syncs there were.
    pub fn syncs(&self) -> u64 {
        self.lock().syncs
    }

    /// A file's bytes as a running program sees them.
    pub fn contents(&self, name: &str) -> Option<Vec<u8>> {
        let state = self.lock();
        state
            .names
            .get(name)
            .map(|inode| state.files[*inode].now.clone())
    }

    /// Puts a file there, durable: for damage that a test wants.
    pub fn overwrite(&self, name: &str, bytes: Vec<u8>) {
        let mut state = self.lock();
        let inode = state.files.len();
        state.files.push(Inode {
            kept: bytes.len(),
            durable: bytes.clone(),
            now: bytes,
        });
        state.names.insert(name.to_owned(), inode);
        state.durable_names.insert(name.to_owned(), inode);
    }

    fn open(&self, inode: usize, life: u64) -> Arc<dyn DiskFile> {
        Arc::new(SimFile {
            disk: self.clone(),
            inode,
            life,
        })
    }
}

impl State {
    /// Whether this call is the one that fails; counts the faults of its kind down.
    fn fails(&mut self, call: Call) -> Option<Fault> {
        let mut hit = None;
        for (n, fault) in self
            .faults
            .iter_mut()
            .enumerate()
            .filter(|(_, fault)| fault.call() == call)
        {
            match fault.left() {
                0 => hit = Some(n),
                left => *left -= 1,
            }
        }
        hit.map(|n| self.faults.remove(n))
    }

    fn change_names(&mut self, change: NameChange) {
        change.apply(&mut self.names);
        self.name_changes.push(change);
    }
}

impl NameChange {
    fn apply(&self, names: &mut BTreeMap<String, usize>) {
        match self {
            Self::Put(name, inode) => {
                names.insert(name.clone(), *inode);
            }
            Self::Move(from, to) => {
                if let Some(inode) = names.remove(from) {
                    names.insert(to.clone(), inode);
                }
            }
            Self::Remove(name) => {
                names.remove(name);
            }
        }
    }
}

impl Inode {
    fn cut(&mut self, chance: &mut Chance) {
        let durable = std::mem::take(&mut self.durable);
        let now = std::mem::take(&mut self.now);
        let was_truncated = self.kept < durable.len();
        let survived = match was_truncated && chance.one_in(2) {
            true => durable,
            false => survive(&now[..self.kept], &now, chance),
        };
        *self = Self {
            kept: survived.len(),
            durable: survived.clone(),
            now: survived,
        };
    }
}

/// What is left of bytes appended after `durable`.
fn survive(durable: &[u8], now: &[u8], chance: &mut Chance) -> Vec<u8> {
    let appended = &now[durable.len()..];
    let mut left = durable.to_vec();
    match chance.below(4) {
        0 => {}
        1 => left.extend_from_slice(&appended[..chance.below(appended.len() as u64 + 1) as usize]),
        kind => {
            let grain = if kind == 2 {
                512
            } else {
                1 + chance.below(16) as usize
            };
            let odds = 1 + chance.below(8);
            let mut end = left.len();
            for piece in appended.chunks(grain) {
                let start = left.len();
                if chance.one_in(odds + 1) {
                    left.resize(start + piece.len(), 0);
                } else {
                    left.extend_from_slice(piece);
                    end = left.len();
                }
            }
            // A file grows to its last written byte, and sometimes beyond.
            if chance.one_in(2) {
                left.truncate(end);
            }
        }
    }
    left
}

fn failure(what: &str) -> io::Error {
    io::Error::other(format!("injected: {what}"))
}

impl Disk for SimDisk {
    fn open_append(&self, name: &str) -> io::Result<Arc<dyn DiskFile>> {
        let mut state = self.lock();
        let inode = match state.names.get(name) {
            Some(inode) => *inode,
            None => {
                state.files.push(Inode::default());
                let inode = state.files.len() - 1;
                state.change_names(NameChange::Put(name.to_owned(), inode));
                inode
            }
        };
        Ok(self.open(inode, state.life))
    }

    fn open_read(&self, name: &str) -> io::Result<Arc<dyn DiskFile>> {
        let state = self.lock();
        match state.names.get(name) {
            Some(inode) => Ok(self.open(*inode, state.life)),
            None => Err(io::Error::new(io::ErrorKind::NotFound, name.to_owned())),
        }
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        let mut state = self.lock();
        if !state.names.contains_key(from) {
            return Err(io::Error::new(io::ErrorKind::NotFound, from.to_owned()));
        }
        state.change_names(NameChange::Move(from.to_owned(), to.to_owned()));
        Ok(())
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        self.lock()
            .change_names(NameChange::Remove(name.to_owned()));
        Ok(())
    }

    fn list(&self) -> io::Result<Vec<String>> {
        Ok(self.lock().names.keys().cloned().collect())
    }

    fn sync_dir(&self) -> io::Result<()> {
        let mut state = self.lock();
        if state.fails(Call::SyncDir).is_some() {
            return Err(failure("the directory is not synced"));
        }
        state.durable_names = state.names.clone();
        state.name_changes.clear();
        Ok(())
    }
}

impl SimFile {
    fn with<T>(&self, work: impl FnOnce(&mut State, usize) -> io::Result<T>) -> io::Result<T> {
        let mut state = self.disk.lock();
        if state.life != self.life {
            return Err(failure("this file was open before the power was cut"));
        }
        work(&mut state, self.inode)
    }
}

impl DiskFile for SimFile {
    fn append(&self, bytes: &[u8]) -> io::Result<()> {
        self.with(|state, inode| match state.fails(Call::Append) {
            None => {
                state.files[inode].now.extend_from_slice(bytes);
                Ok(())
            }
            Some(Fault::Full(_)) => {
                let part = state.chance.below(bytes.len() as u64 + 1) as usize;
                state.files[inode].now.extend_from_slice(&bytes[..part]);
                Err(io::Error::new(
                    io::ErrorKind::StorageFull,
                    "injected: the disk is full",
                ))
            }
            Some(_) => Err(failure("nothing is appended")),
        })
    }

    fn sync_data(&self) -> io::Result<()> {
        self.with(|state, inode| {
            state.syncs += 1;
            if state.fails(Call::Sync).is_some() {
                return Err(failure("nothing is synced"));
            }
            let file = &mut state.files[inode];
            // Appends are the rule: copying the whole file for each would be quadratic.
            file.durable.truncate(file.kept);
            file.durable.extend_from_slice(&file.now[file.kept..]);
            file.kept = file.now.len();
            Ok(())
        })
    }

    fn truncate(&self, len: u64) -> io::Result<()> {
        self.with(|state, inode| {
            let len = usize::try_from(len).map_err(io::Error::other)?;
            let file = &mut state.files[inode];
            file.now.resize(len, 0);
            file.kept = file.kept.min(len);
            Ok(())
        })
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<usize> {
        self.with(|state, inode| {
            let bytes = &state.files[inode].now;
            let start =
                usize::try_from(offset).map_or(bytes.len(), |offset| offset.min(bytes.len()));
            let len = buffer.len().min(bytes.len() - start);
            buffer[..len].copy_from_slice(&bytes[start..start + len]);
            Ok(len)
        })
    }

    fn len(&self) -> io::Result<u64> {
        self.with(|state, inode| Ok(state.files[inode].now.len() as u64))
    }
}
