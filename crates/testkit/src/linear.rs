//! Whether what callers of a register were told can have happened in one order (linearizability).
//!
//! The search is that of Wing and Gong, with Lowe's memory of what was tried: next in the order may be any operation that
//! began before every operation that is left had ended, and no set of operations is tried twice in the same state.

use std::collections::HashSet;
use std::hash::Hash;

/// A thing that many use at once, as it would behave if they took turns.
pub trait Register {
    /// What it holds.
    type State: Clone + Eq + Hash;
    /// What is asked of it.
    type Op;
    /// What it answers.
    type Told;

    /// What it holds before anybody asks.
    fn begin(&self) -> Self::State;

    /// What it holds after an operation that was answered so; none if it would not have answered that. Without an answer
    /// any that it could have given is allowed.
    fn after(
        &self,
        state: &Self::State,
        op: &Self::Op,
        told: Option<&Self::Told>,
    ) -> Option<Self::State>;
}

/// One operation, as whoever asked saw it.
#[derive(Clone, Debug)]
pub struct Operation<O, T> {
    /// What was asked.
    pub op: O,
    /// What was told, if anything was: an operation without an answer took effect once at some later time, or never.
    pub told: Option<T>,
    /// When it was asked, on any clock that all share.
    pub begun: u64,
    /// When the answer was there; without an answer it says nothing.
    pub ended: u64,
}

impl<O, T> Operation<O, T> {
    fn last_moment(&self) -> u64 {
        self.told.as_ref().map_or(u64::MAX, |_| self.ended)
    }
}

/// Which operations have their place in the order.
#[derive(Clone, PartialEq, Eq, Hash)]
struct Placed {
    words: Vec<u64>,
    /// Those before this one all have.
    first_left: usize,
}

impl Placed {
    fn none_of(count: usize) -> Self {
        Self {
            words: vec![0; count.div_ceil(64)],
            first_left: 0,
        }
    }

    fn has(&self, n: usize) -> bool {
        self.words[n / 64] >> (n % 64) & 1 == 1
    }

    fn with(&self, n: usize, count: usize) -> Self {
        let mut more = self.clone();
        more.words[n / 64] |= 1 << (n % 64);
        while more.first_left < count && more.has(more.first_left) {
            more.first_left += 1;
        }
        more
    }
}

/// Whether there is an order in which the register would have told exactly this.
pub fn is_linearizable<R: Register>(
    register: &R,
    mut history: Vec<Operation<R::Op, R::Told>>,
) -> bool {
    history.sort_by_key(|one| one.begun);
    let count = history.len();
    let mut tried = HashSet::new();
    let mut open = vec![(Placed::none_of(count), register.begin())];
    while let Some((placed, state)) = open.pop() {
        let left = (placed.first_left..count).filter(|n| !placed.has(*n));
        // Nothing but what was never answered is left: that may have happened never.
        let mut is_order = true;
        let mut first_end = u64::MAX;
        for n in left {
            let one = &history[n];
            if one.begun > first_end {
                break;
            }
            is_order &= one.told.is_none();
            first_end = first_end.min(one.last_moment());
            let Some(next) = register.after(&state, &one.op, one.told.as_ref()) else {
                continue;
            };
            let more = (placed.with(n, count), next);
            if tried.insert(more.clone()) {
                open.push(more);
            }
        }
        if is_order {
            return true;
        }
    }
    false
}
