//! Notes between the processes of a journal: what is worth telling and may be lost, over NOTIFY.
//!
//! A server takes 8,000 bytes at most in one notice, so a longer note travels in parts. The parts of one process come in
//! order or not at all: whoever misses one drops the note.

use std::sync::{Arc, Mutex, PoisonError, Weak};

use hashbrown::HashMap;
use tokio::sync::mpsc::{Receiver, Sender, channel};
use tokio_postgres::Client;
use tokio_postgres::types::Type;

use super::link::Caller;
use super::{PAUSE, PostgresError, Shared};
use crate::contract::Note;

/// The channel of notes; commits have one of their own.
pub(super) const CHANNEL: &str = "chancery_notes";
/// Notes that wait to be told; beyond them they are lost.
const WAITING: usize = 4_096;
/// Notes that are told together.
const TOGETHER: usize = 64;
/// Bytes of a part, without what says where it belongs.
const PART_BYTES: usize = 7_800;
/// Bytes of a note; a longer one is not told.
const NOTE_BYTES: usize = 4 << 20;
/// Processes whose notes are put together at once.
const PROCESSES: usize = 256;

/// What this process has to tell.
pub(super) struct Notes {
    queue: Sender<String>,
    queued: Mutex<Option<Receiver<String>>>,
}

impl Notes {
    pub(super) fn new() -> Self {
        let (queue, queued) = channel(WAITING);
        Self {
            queue,
            queued: Mutex::new(Some(queued)),
        }
    }

    /// Tells a note, if there is room.
    pub(super) fn tell(&self, note: String) {
        if note.len() > NOTE_BYTES || self.queue.try_send(note).is_err() {
            tracing::debug!("a note to the other nodes is lost");
        }
    }

    fn take_queue(&self) -> Option<Receiver<String>> {
        let mut queued = self.queued.lock().unwrap_or_else(PoisonError::into_inner);
        queued.take()
    }
}

impl Shared {
    /// Tells what is queued from now on.
    pub(super) fn begin_telling(self: &Arc<Self>) -> Result<(), PostgresError> {
        match self.notes.take_queue() {
            Some(queued) => {
                let (caller, of) = (self.link.caller(), Arc::downgrade(self));
                self.link.spawn(tell_all(caller, of, queued))
            }
            None => Ok(()),
        }
    }
}

async fn tell_all(caller: Caller, of: Weak<Shared>, mut queued: Receiver<String>) {
    let mut client: Option<Client> = None;
    let (mut number, mut notes) = (0, Vec::with_capacity(TOGETHER));
    while queued.recv_many(&mut notes, TOGETHER).await > 0 {
        let Some(shared) = of.upgrade() else { return };
        let parts: Vec<String> = notes
            .drain(..)
            .flat_map(|note| {
                number += 1;
                in_parts(shared.journal, shared.duty.name(), number, &note)
            })
            .collect();
        drop(shared);
        if let Err(error) = tell(&caller, &mut client, parts).await {
            tracing::debug!(%error, "notes to the other nodes are lost");
            client = None;
            tokio::time::sleep(PAUSE).await;
        }
    }
}

async fn tell(
    caller: &Caller,
    client: &mut Option<Client>,
    parts: Vec<String>,
) -> Result<(), PostgresError> {
    let client = match client {
        Some(client) => client,
        None => client.insert(caller.teller().await?),
    };
    let sql = "SELECT pg_notify('chancery_notes', part) FROM unnest($1) AS told (part)";
    client
        .query_typed(sql, &[(&parts, Type::TEXT_ARRAY)])
        .await?;
    Ok(())
}

/// A note as notices: journal, process, number, part, parts, and a part of the text.
fn in_parts(journal: i64, process: &str, number: u64, note: &str) -> Vec<String> {
    let mut texts = Vec::new();
    let mut rest = note;
    while rest.len() > PART_BYTES {
        let (text, more) = rest.split_at(rest.floor_char_boundary(PART_BYTES));
        texts.push(text);
        rest = more;
    }
    texts.push(rest);
    let parts = texts.len();
    let notice = |(part, text)| format!("{journal} {process} {number} {part} {parts} {text}");
    texts.into_iter().enumerate().map(notice).collect()
}

/// Parts that wait for the rest of their note, by process.
#[derive(Default)]
pub(super) struct Parts(HashMap<String, Begun>);

struct Begun {
    number: u64,
    next: usize,
    text: String,
}

impl Parts {
    /// Takes a notice in; gives the note that it completes, of another process and this journal.
    pub(super) fn take(&mut self, notice: &str, journal: i64, own: &str) -> Option<Note> {
        let mut words = notice.splitn(6, ' ');
        let of_journal: i64 = words.next()?.parse().ok()?;
        let process = words.next()?;
        if of_journal != journal || process == own {
            return None;
        }
        let number = words.next()?.parse().ok()?;
        let (part, parts): (usize, usize) =
            (words.next()?.parse().ok()?, words.next()?.parse().ok()?);
        let text = words.next()?;
        if part == 0 {
            if self.0.len() >= PROCESSES {
                self.0.clear();
            }
            let begun = Begun {
                number,
                next: 0,
                text: String::new(),
            };
            self.0.insert(process.to_owned(), begun);
        }
        let begun = self.0.get_mut(process)?;
        let fits = begun.number == number
            && begun.next == part
            && begun.text.len() + text.len() <= NOTE_BYTES;
        if fits {
            begun.text.push_str(text);
            begun.next += 1;
        }
        if fits && begun.next < parts {
            return None;
        }
        let text = self.0.remove(process)?.text;
        fits.then(|| Note {
            from: process.to_owned(),
            text,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_note_comes_whole_or_not_at_all() {
        let note = "né".repeat(NOTE_BYTES / 8);
        let parts = in_parts(7, "a", 1, &note);
        assert!(parts.len() > 1);
        assert!(parts.iter().all(|part| part.len() < 8_000));
        let mut heard = Parts::default();
        let whole: Vec<Note> = parts
            .iter()
            .filter_map(|part| heard.take(part, 7, "b"))
            .collect();
        assert_eq!(whole.len(), 1);
        assert_eq!(whole[0].text, note);
        assert_eq!(whole[0].from, "a");
        // Without its second part nothing comes of it; the next note does.
        let missed = parts.iter().take(1).chain(parts.iter().skip(2));
        assert!(missed.filter_map(|part| heard.take(part, 7, "b")).count() == 0);
        let [next] = &in_parts(7, "a", 2, "x y")[..] else {
            panic!("one part")
        };
        assert_eq!(
            heard.take(next, 7, "b").map(|note| note.text),
            Some("x y".to_owned())
        );
    }

    #[test]
    fn notes_of_this_process_and_of_other_journals_are_not_heard() {
        let mut heard = Parts::default();
        for (journal, own) in [(7, "a"), (8, "b")] {
            let part = &in_parts(7, "a", 1, "x")[0];
            assert!(heard.take(part, journal, own).is_none());
        }
        for nonsense in ["", "7", "7 a", "7 a 1 0", "7 a 1 1 2 late", "7 a x 0 1 t"] {
            assert!(heard.take(nonsense, 7, "b").is_none(), "{nonsense}");
        }
    }
}
