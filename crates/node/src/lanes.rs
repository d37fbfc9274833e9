//! The queue in front of the sequencer: two lanes, urgent inputs first.
//!
//! How many inputs may wait is decided before they get here, by the permits of the gate; the queue itself only keeps order.

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
    /// Inputs that were taken and will come back.
    parked: usize,
    closed: bool,
}

impl<T> Lanes<T> {
    pub(crate) fn new() -> Self {
        let state = State {
            urgent: VecDeque::new(),
            normal: VecDeque::new(),
            parked: 0,
            closed: false,
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
        drop(state);
        self.arrived.notify_one();
        Ok(())
    }

    /// An input that was taken is set aside; closed lanes stay open for it until [`Lanes::unpark`].
    pub(crate) fn park(&self) {
        self.lock().parked += 1;
    }

    /// Puts an input that was set aside back in front of everything, also while closing.
    pub(crate) fn push_front(&self, input: T) {
        self.lock().urgent.push_front(input);
        self.arrived.notify_one();
    }

    /// An input that was set aside is back, or never comes.
    pub(crate) fn unpark(&self) {
        self.lock().parked -= 1;
        self.arrived.notify_one();
    }

    /// Waits for inputs and moves up to `most` of them to `into`, urgent ones first. False when closed and empty,
    /// with nothing set aside.
    pub(crate) fn take(&self, into: &mut Vec<T>, most: usize) -> bool {
        let mut state = self.lock();
        while state.urgent.is_empty() && state.normal.is_empty() {
            if state.closed && state.parked == 0 {
                return false;
            }
            state = self
                .arrived
                .wait(state)
                .unwrap_or_else(PoisonError::into_inner);
        }
        let urgent = state.urgent.len().min(most);
        into.extend(state.urgent.drain(..urgent));
        let normal = state.normal.len().min(most - urgent);
        into.extend(state.normal.drain(..normal));
        true
    }

    /// Takes no further inputs; what waits is still decided.
    pub(crate) fn close(&self) {
        self.lock().closed = true;
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
        lanes.push_front("e");
        assert!(lanes.take(&mut taken, 3));
        assert_eq!(taken, ["b", "d", "a", "e", "c"]);
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
                lanes.push_front(7);
                lanes.unpark();
            });
            let mut taken = Vec::new();
            assert!(lanes.take(&mut taken, 8));
            assert!(!lanes.take(&mut taken, 8));
            assert_eq!(taken, [7]);
        });
    }
}
