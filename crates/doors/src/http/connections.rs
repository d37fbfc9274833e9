//! All open connections: how many there are, and which one goes when there are too many.
//!
//! At the bound the connection that has been idle longest is closed for a new one. When none is idle the new one is
//! closed at once: a client that works is never thrown out by one that only knocks.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use hashbrown::HashMap;

use super::connection::Watch;

/// How many connections may be on their way out while new ones come in.
const LEAVING: usize = 64;

/// The open connections.
pub(crate) struct Connections {
    at_most: usize,
    open: Mutex<HashMap<u64, Arc<Watch>>>,
    count: AtomicUsize,
    next: AtomicU64,
}

/// A connection's place among them; leaves when it is dropped.
pub(crate) struct Place<'c> {
    all: &'c Connections,
    number: u64,
}

impl Connections {
    pub(crate) fn new(at_most: usize) -> Self {
        Self {
            at_most,
            open: Mutex::default(),
            count: AtomicUsize::new(0),
            next: AtomicU64::new(0),
        }
    }

    /// A place for a new connection, if there is one or can be made.
    pub(crate) fn enter(&self, watch: &Arc<Watch>) -> Option<Place<'_>> {
        let mut open = self.lock();
        if open.len() >= self.at_most + LEAVING {
            return None;
        }
        if open.len() >= self.at_most && !close_idlest(&open) {
            return None;
        }
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        open.insert(number, Arc::clone(watch));
        self.count.store(open.len(), Ordering::Relaxed);
        Some(Place { all: self, number })
    }

    /// Makes room: closes the connection that has been idle longest. False when none is idle.
    pub(crate) fn make_room(&self) -> bool {
        close_idlest(&self.lock())
    }

    /// How many are open.
    pub(crate) fn len(&self) -> usize {
        self.count.load(Ordering::Relaxed)
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<u64, Arc<Watch>>> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn close_idlest(open: &HashMap<u64, Arc<Watch>>) -> bool {
    let idle = open
        .values()
        .filter_map(|watch| Some((watch.idle_since()?, watch)));
    match idle.min_by_key(|(since, _)| *since) {
        Some((_, watch)) => {
            watch.close();
            true
        }
        None => false,
    }
}

impl Drop for Place<'_> {
    fn drop(&mut self) {
        let mut open = self.all.lock();
        open.remove(&self.number);
        self.all.count.store(open.len(), Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // CH-LIM-1
    #[test]
    fn at_the_bound_the_idlest_goes_and_when_all_work_the_newcomer_does() {
        let all = Connections::new(2);
        let watches: Vec<_> = (0..4).map(|_| Watch::new()).collect();
        let work = watches[0].begin();
        let _first = all.enter(&watches[0]).unwrap();
        let second = all.enter(&watches[1]).unwrap();
        let _third = all.enter(&watches[2]).unwrap();
        assert!(watches[1].is_closing() && !watches[0].is_closing());
        drop(second);
        let _working = watches[2].begin();
        assert!(all.enter(&watches[3]).is_none());
        drop(work);
        assert!(all.enter(&watches[3]).is_some());
        assert!(watches[0].is_closing());
    }
}
