//! Orders that wait for their turn in this node's hands: of each lane a few, its first ones, so that no lane fills the
//! hands of a node.
//!
//! The others go back to the bus and come again: the later, the more of their lane are before them.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use hashbrown::HashMap;
use tokio::sync::Notify;

use super::lock;
use super::progress::Place;
use super::turns::Lane;

/// Orders of a lane that wait here at once.
const WAIT_AT_ONCE: usize = 64;
/// How long an order stays away that is the first of those that went back, and how much longer for each before it.
pub(super) const REST: Duration = Duration::from_secs(1);
const REST_MORE: Duration = Duration::from_millis(30);
/// Orders of a lane of which it is known that they went back; others stay away as if they were behind these.
const KNOWN_AWAY: usize = 10_000;
/// Lanes that are known; beyond them those are forgotten of which nothing is here.
const LANES: usize = 10_000;

/// The waiting rooms, one a lane.
#[derive(Default)]
pub(super) struct Rooms(Mutex<HashMap<Lane, Room>>);

#[derive(Default)]
struct Room {
    /// Orders of the lane in this node's hands.
    visits: usize,
    waiting: BTreeSet<Place>,
    /// Those that went back.
    away: BTreeSet<Place>,
    /// Somebody of the lane has had its turn, or waits here no longer.
    stepped: Arc<Notify>,
}

impl Rooms {
    /// An order of a lane is in this node's hands until the visit is dropped.
    pub(super) fn visit(&self, lane: Lane, place: Place) -> Visit<'_> {
        let mut rooms = lock(&self.0);
        if rooms.len() >= LANES {
            rooms.retain(|_, room| room.visits > 0);
        }
        let room = rooms.entry(lane.clone()).or_default();
        room.visits += 1;
        Visit {
            stepped: Arc::clone(&room.stepped),
            rooms: self,
            lane,
            place,
            goes_on: AtomicBool::new(false),
        }
    }
}

/// An order in this node's hands.
pub(super) struct Visit<'r> {
    /// Told when somebody of the lane goes on.
    pub(super) stepped: Arc<Notify>,
    rooms: &'r Rooms,
    lane: Lane,
    place: Place,
    goes_on: AtomicBool,
}

impl Visit<'_> {
    /// Whether it may wait here. Whoever comes earlier in the lane takes the place of whoever comes last.
    pub(super) fn may_wait(&self) -> bool {
        self.with(|room| {
            if room.waiting.contains(&self.place) {
                return true;
            }
            if room.waiting.len() >= WAIT_AT_ONCE {
                if room.waiting.last() < Some(&self.place) {
                    return false;
                }
                room.waiting.pop_last();
                room.stepped.notify_waiters();
            }
            room.away.remove(&self.place);
            room.waiting.insert(self.place)
        })
    }

    /// Whether an order waits here: then its first attempt has not ended, and nobody need ask.
    pub(super) fn is_behind(&self, place: Place) -> bool {
        self.with(|room| room.waiting.contains(&place))
    }

    /// It goes back to the bus, for so long.
    pub(super) fn goes_back(&self) -> Duration {
        self.with(|room| {
            room.waiting.remove(&self.place);
            if room.away.len() < KNOWN_AWAY {
                room.away.insert(self.place);
            }
            let before = room.away.range(..self.place).count();
            let before = u32::try_from(before).unwrap_or(u32::MAX);
            REST + REST_MORE.saturating_mul(before)
        })
    }

    /// Its turn has come: all before it have had theirs, wherever they were.
    pub(super) fn goes_on(&self) {
        self.goes_on.store(true, Ordering::Release);
        self.with(|room| {
            room.waiting.remove(&self.place);
            room.away = room.away.split_off(&self.place);
            room.away.remove(&self.place);
        });
    }

    fn with<T>(&self, work: impl FnOnce(&mut Room) -> T) -> T {
        let mut rooms = lock(&self.rooms.0);
        work(rooms.entry(self.lane.clone()).or_default())
    }
}

impl Drop for Visit<'_> {
    fn drop(&mut self) {
        let mut rooms = lock(&self.rooms.0);
        if let Some(room) = rooms.get_mut(&self.lane) {
            room.visits -= 1;
            let has_waited = room.waiting.remove(&self.place);
            // Whoever went back at once has changed nothing for the others.
            if has_waited || *self.goes_on.get_mut() {
                room.stepped.notify_waiters();
            }
            if room.visits == 0 && room.away.is_empty() {
                rooms.remove(&self.lane);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lane() -> Lane {
        ("ann".to_owned(), "far".to_owned(), false)
    }

    #[test]
    fn the_first_of_a_lane_wait_and_the_others_come_again_in_their_order() {
        let rooms = Rooms::default();
        let visits: Vec<Visit<'_>> = (1..=200).map(|seq| rooms.visit(lane(), (seq, 0))).collect();
        let waiting = |visits: &[Visit<'_>]| visits.iter().filter(|one| one.may_wait()).count();
        assert_eq!(waiting(&visits[10..]), WAIT_AT_ONCE);
        let pauses: Vec<Duration> = visits[100..].iter().map(Visit::goes_back).collect();
        assert_eq!(pauses[0], REST);
        assert!(pauses.is_sorted() && pauses[99] > REST);
        // Once more, and the first is still the first.
        assert_eq!(visits[100].goes_back(), REST);
        // Whoever is earlier takes the place of the last.
        assert_eq!(waiting(&visits[..10]), 10);
        let made_to_go: Vec<bool> = (60..74)
            .map(|n| !visits[n].is_behind((n as u64 + 1, 0)))
            .collect();
        assert_eq!(made_to_go.iter().filter(|gone| **gone).count(), 10);
        assert!(!visits[73].may_wait());
        // When the turn of one has come, those before it are not away any more.
        visits[150].goes_on();
        assert_eq!(visits[151].goes_back(), REST);
        drop(visits);
        assert!(
            lock(&rooms.0)
                .values()
                .all(|room| room.visits == 0 && room.waiting.is_empty())
        );
    }

    #[test]
    fn lanes_do_not_share_a_room() {
        let rooms = Rooms::default();
        let others: Vec<Visit<'_>> = (1..=200).map(|seq| rooms.visit(lane(), (seq, 0))).collect();
        others.iter().for_each(|one| {
            one.may_wait();
        });
        let other = ("cyd".to_owned(), "far".to_owned(), false);
        assert!(rooms.visit(other, (500, 0)).may_wait());
    }
}
