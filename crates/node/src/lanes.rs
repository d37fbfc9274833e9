//! The queue in front of the sequencer: two lanes, urgent inputs first.
//!
//! Whoever takes inputs has the lanes to itself until it lets go of them: so inputs are decided in one order, whichever
//! thread decides them. How many inputs may wait is decided before they get here, by the permits of the gate; the queue itself only keeps order.

use std::collections::VecDeque;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

/// Two lanes of waiting inputs.
pub(crate) struct Lanes<T> {
    state: Mutex<State<T>>,
    arrived: Condvar,
}

struct State<T> {
    urgent: VecDeque<T>,
    normal: VecDeque<T>,
    /// Whether somebody has taken inputs and not let go yet.
    is_taken: bool,
    /// Inputs that were taken and will come back.
    parked: usize,
    /// Whether somebody is to look at the journal although no input waits.
    nudged: bool,
    closed: bool,
    /// Closed, and what waits is not decided any more.
    abandoned: bool,
}

impl<T> State<T> {
    fn give(&mut self, into: &mut Vec<T>, most: usize) {
        self.is_taken = true;
        self.nudged = false;
        let urgent = self.urgent.len().min(most);
        into.extend(self.urgent.drain(..urgent));
        let normal = self.normal.len().min(most - urgent);
        into.extend(self.normal.drain(..normal));
    }

    fn is_empty(&self) -> bool {
        self.urgent.is_empty() && self.normal.is_empty()
    }
}

impl<T> Lanes<T> {
    pub(crate) fn new() -> Self {
        let state = State {
            urgent: VecDeque::new(),
            normal: VecDeque::new(),
            is_taken: false,
            parked: 0,
            nudged: false,
            closed: false,
            abandoned: false,
        };
        Self {
            state: Mutex::new(state),
            arrived: Condvar::new(),
        }
    }

    /// Adds an input at the end of its lane; gives it back when the lanes are closed.
    pub(crate) fn push(&self, input: T, urgent: bool) -> Result<(), T> {
        let mut state = self.lock();
        if state.closed {
            return Err(input);
        }
        let lane = if urgent {
            &mut state.urgent
        } else {
            &mut state.normal
        };
        lane.push_back(input);
        self.tell(state);
        Ok(())
    }

    /// An input that was taken is set aside; closed lanes stay open for it until [`Lanes::unpark`].
    pub(crate) fn park(&self) {
        self.lock().parked += 1;
    }

    /// Puts inputs that were set aside back in front of everything, in their order, also while closing.
    pub(crate) fn push_front(&self, inputs: Vec<T>) {
        let mut state = self.lock();
        for input in inputs.into_iter().rev() {
            state.urgent.push_front(input);
        }
        self.tell(state);
    }

    /// An input that was set aside is back, or never comes.
    pub(crate) fn unpark(&self) {
        self.lock().parked -= 1;
        self.arrived.notify_all();
    }

    /// Lets whoever takes inputs come by, also when there is none: others may have committed.
    pub(crate) fn nudge(&self) {
        let mut state = self.lock();
        state.nudged = true;
        self.tell(state);
    }

    /// Waits for inputs and moves up to `most` of them to `into`, urgent ones first; after a nudge there may be none.
    /// Nobody else gets any until [`Lanes::let_go`]. False when closed and empty, with nothing set aside, or when abandoned.
    pub(crate) fn take(&self, into: &mut Vec<T>, most: usize) -> bool {
        let mut state = self.lock();
        while state.is_taken || state.is_empty() && !state.nudged {
            if state.abandoned || state.closed && state.parked == 0 && state.is_empty() {
                return false;
            }
            state = self
                .arrived
                .wait(state)
                .unwrap_or_else(PoisonError::into_inner);
        }
        if state.abandoned {
            return false;
        }
        state.give(into, most);
        true
    }

    /// The same without waiting: false when there is nothing to take right now.
    pub(crate) fn take_waiting(&self, into: &mut Vec<T>, most: usize) -> bool {
        let mut state = self.lock();
        if state.abandoned || state.is_taken || state.is_empty() {
            return false;
        }
        state.give(into, most);
        true
    }

    /// Lets another take inputs.
    pub(crate) fn let_go(&self) {
        let mut state = self.lock();
        state.is_taken = false;
        self.tell(state);
    }

    /// Wakes one that waits, if there is something it could take.
    fn tell(&self, state: MutexGuard<'_, State<T>>) {
        let could_take = !state.is_taken && (!state.is_empty() || state.nudged);
        drop(state);
        if could_take {
            self.arrived.notify_one();
        }
    }

    /// Takes no further inputs; what waits is still decided.
    pub(crate) fn close(&self) {
        self.lock().closed = true;
        self.arrived.notify_all();
    }

    /// Takes no further inputs and gives none away any more.
    pub(crate) fn abandon(&self) {
        let mut state = self.lock();
        (state.closed, state.abandoned) = (true, true);
        self.arrived.notify_all();
    }

    fn lock(&self) -> MutexGuard<'_, State<T>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urgent_inputs_go_first_and_order_holds_within_a_lane() {
        let lanes = Lanes::new();
        for (name, urgent) in [("a", false), ("b", true), ("c", false), ("d", true)] {
            lanes.push(name, urgent).unwrap();
        }
        let mut taken = Vec::new();
        assert!(lanes.take(&mut taken, 3));
        assert_eq!(taken, ["b", "d", "a"]);
        lanes.let_go();
        lanes.push_front(vec!["e", "f"]);
        assert!(lanes.take(&mut taken, 3));
        assert_eq!(taken, ["b", "d", "a", "e", "f", "c"]);
    }

    #[test]
    fn closing_refuses_new_inputs_and_ends_after_the_waiting_ones() {
        let lanes = Lanes::new();
        lanes.push(1, false).unwrap();
        lanes.close();
        assert_eq!(lanes.push(2, false), Err(2));
        let mut taken = Vec::new();
        assert!(lanes.take(&mut taken, 8));
        assert!(!lanes.take(&mut taken, 8));
        assert_eq!(taken, [1]);
    }

    #[test]
    fn closed_lanes_wait_for_an_input_that_is_set_aside() {
        let lanes = Lanes::new();
        lanes.park();
        lanes.close();
        std::thread::scope(|scope| {
            scope.spawn(|| {
                lanes.push_front(vec![7]);
                lanes.unpark();
            });
            let mut taken = Vec::new();
            assert!(lanes.take(&mut taken, 8));
            lanes.let_go();
            assert!(!lanes.take(&mut taken, 8));
            assert_eq!(taken, [7]);
        });
    }

    #[test]
    fn nobody_gets_an_input_while_another_decides() {
        let lanes = Lanes::new();
        lanes.push(1, false).unwrap();
        let mut taken = Vec::new();
        assert!(lanes.take(&mut taken, 8));
        lanes.push(2, false).unwrap();
        let decided = std::sync::Mutex::new(vec![1]);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                let mut taken = Vec::new();
                assert!(lanes.take(&mut taken, 8));
                decided.lock().unwrap().extend(taken);
            });
            decided.lock().unwrap().push(0);
            lanes.let_go();
        });
        assert_eq!(*decided.lock().unwrap(), [1, 0, 2]);
    }

    #[test]
    fn a_nudge_lets_somebody_come_by_once() {
        let lanes: Lanes<i32> = Lanes::new();
        lanes.nudge();
        let mut taken = Vec::new();
        assert!(lanes.take(&mut taken, 8));
        assert!(taken.is_empty());
        lanes.let_go();
        lanes.close();
        assert!(!lanes.take(&mut taken, 8));
    }

    #[test]
    fn abandoned_lanes_give_nothing_away() {
        let lanes = Lanes::new();
        lanes.push(1, false).unwrap();
        lanes.abandon();
        let mut taken = Vec::new();
        assert!(!lanes.take(&mut taken, 8));
        assert_eq!(lanes.push(2, false), Err(2));
        assert!(taken.is_empty());
    }
}
