//! The logs beside the log (CH-JRN-6): `rejections.jsonl`, `events.jsonl`.
//!
//! Guarantees: writing never blocks on a disk and never fails the caller; under pressure, or when the disk fails,
//! lines are lost and counted. Flushed in groups without sync, rotated at 64 MiB, two old files kept.

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use crate::disk::{create_private_dir, private_file};

/// How a side log is bounded.
#[derive(Clone, Copy, Debug)]
pub struct SideLogLimits {
    /// A file that reaches this is set aside.
    pub rotate_bytes: u64,
    /// Old files kept.
    pub kept: usize,
    /// The most that waits in memory; lines beyond it are lost.
    pub waiting_bytes: usize,
    /// How long a line waits for others.
    pub group_ms: u64,
}

impl Default for SideLogLimits {
    fn default() -> Self {
        Self {
            rotate_bytes: 64 << 20,
            kept: 2,
            waiting_bytes: 4 << 20,
            group_ms: 100,
        }
    }
}

/// A bounded, lossy, counted log of lines.
pub struct SideLog {
    shared: Arc<Shared>,
    thread: Mutex<Option<JoinHandle<()>>>,
}

struct Shared {
    state: Mutex<State>,
    moved: Condvar,
    written: AtomicU64,
    lost: AtomicU64,
    limits: SideLogLimits,
}

#[derive(Default)]
struct State {
    waiting: Vec<u8>,
    lines: u64,
    is_writing: bool,
    is_closed: bool,
    is_flush_wanted: bool,
}

impl SideLog {
    /// Opens `dir/name` for appending; its thread writes until the log is closed or dropped.
    pub fn open(dir: &Path, name: &str, limits: SideLogLimits) -> io::Result<Self> {
        create_private_dir(dir)?;
        let mut file = Rotating::open(dir.join(name), limits)?;
        let shared = Arc::new(Shared {
            state: Mutex::default(),
            moved: Condvar::new(),
            written: AtomicU64::new(0),
            lost: AtomicU64::new(0),
            limits,
        });
        let of_thread = shared.clone();
        let thread = std::thread::Builder::new()
            .name(format!("sidelog {name}"))
            .spawn(move || of_thread.run(&mut file))?;
        Ok(Self {
            shared,
            thread: Mutex::new(Some(thread)),
        })
    }

    /// Adds a line, given without its newline. Whether it was taken.
    pub fn write(&self, line: &[u8]) -> bool {
        let mut state = self.shared.lock();
        let is_taken =
            !state.is_closed && state.waiting.len() + line.len() < self.shared.limits.waiting_bytes;
        if is_taken {
            let was_idle = state.waiting.is_empty();
            state.waiting.extend_from_slice(line);
            state.waiting.push(b'\n');
            state.lines += 1;
            if was_idle || state.waiting.len() >= self.shared.limits.waiting_bytes / 2 {
                self.shared.moved.notify_all();
            }
        } else {
            self.shared.lost.fetch_add(1, Ordering::Relaxed);
        }
        is_taken
    }

    /// Lines handed to the operating system.
    pub fn written(&self) -> u64 {
        self.shared.written.load(Ordering::Relaxed)
    }

    /// Lines lost.
    pub fn lost(&self) -> u64 {
        self.shared.lost.load(Ordering::Relaxed)
    }

    /// Waits until what was added so far is written or lost.
    pub fn flush(&self) {
        let mut state = self.shared.lock();
        state.is_flush_wanted = true;
        self.shared.moved.notify_all();
        while !state.is_closed && (state.is_writing || !state.waiting.is_empty()) {
            state = self
                .shared
                .moved
                .wait(state)
                .unwrap_or_else(PoisonError::into_inner);
        }
        state.is_flush_wanted = false;
    }

    /// Writes what waits and ends; later lines are lost.
    pub fn close(&self) {
        self.shared.lock().is_closed = true;
        self.shared.moved.notify_all();
        let thread = self
            .thread
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .take();
        if let Some(thread) = thread {
            // The thread only writes lines; if it panicked, those are lost and nothing else is.
            let _ = thread.join();
        }
    }
}

impl Drop for SideLog {
    fn drop(&mut self) {
        self.close();
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn run(&self, file: &mut Rotating) {
        while let Some((group, lines)) = self.next_group() {
            match file.write(&group) {
                Ok(()) => self.written.fetch_add(lines, Ordering::Relaxed),
                Err(error) => {
                    tracing::warn!(%error, lines, "side log cannot be written");
                    self.lost.fetch_add(lines, Ordering::Relaxed)
                }
            };
            self.lock().is_writing = false;
            self.moved.notify_all();
        }
    }

    /// Waits for lines, then a little longer for more of them; none when the log is closed and empty.
    fn next_group(&self) -> Option<(Vec<u8>, u64)> {
        let mut state = self.lock();
        while state.waiting.is_empty() {
            if state.is_closed {
                return None;
            }
            state = self
                .moved
                .wait(state)
                .unwrap_or_else(PoisonError::into_inner);
        }
        let group = Duration::from_millis(self.limits.group_ms);
        let half_full = self.limits.waiting_bytes / 2;
        let waits = |state: &mut State| {
            !state.is_closed && !state.is_flush_wanted && state.waiting.len() < half_full
        };
        state = self
            .moved
            .wait_timeout_while(state, group, waits)
            .unwrap_or_else(PoisonError::into_inner)
            .0;
        state.is_writing = true;
        let lines = std::mem::take(&mut state.lines);
        Some((std::mem::take(&mut state.waiting), lines))
    }
}

/// A file that is set aside when it is full.
struct Rotating {
    path: PathBuf,
    file: File,
    len: u64,
    limits: SideLogLimits,
}

impl Rotating {
    fn open(path: PathBuf, limits: SideLogLimits) -> io::Result<Self> {
        let file = private_file().append(true).create(true).open(&path)?;
        let len = file.metadata()?.len();
        Ok(Self {
            path,
            file,
            len,
            limits,
        })
    }

    fn write(&mut self, group: &[u8]) -> io::Result<()> {
        if self.len >= self.limits.rotate_bytes {
            self.rotate()?;
        }
        self.file.write_all(group)?;
        self.len += group.len() as u64;
        Ok(())
    }

    fn rotate(&mut self) -> io::Result<()> {
        for age in (0..self.limits.kept).rev() {
            match fs::rename(self.aged(age), self.aged(age + 1)) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
                _ => {}
            }
        }
        *self = Self::open(self.path.clone(), self.limits)?;
        Ok(())
    }

    /// `events.jsonl`, then `events.jsonl.1`, `events.jsonl.2`.
    fn aged(&self, age: usize) -> PathBuf {
        if age == 0 {
            return self.path.clone();
        }
        let mut name = self.path.clone().into_os_string();
        name.push(format!(".{age}"));
        name.into()
    }
}
