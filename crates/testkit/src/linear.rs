//! Whether what callers of a register were told can have happened in one order (linearizability).
//!
//! The search is that of Wing and Gong, with Lowe's memory of what was tried: next in the order may be any operation that
//! began before every operation that is left had ended, and no set of operations is tried twice in the same state.
//!
//! What was never answered may take its place at any later time: such operations are few, and kept apart, so that a long
//! history costs what overlaps in it and not its square.

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

/// Which operations have their place in the order.
#[derive(Clone, Default, PartialEq, Eq, Hash)]
struct Placed {
    /// Those answered before this one all have.
    first_left: usize,
    /// A bit for each of the answered ones, from the word of the first that is left to the last that has one.
    words: Vec<u64>,
    /// Those without an answer that have, ascending.
    unanswered: Vec<usize>,
}

impl Placed {
    fn has(&self, n: usize) -> bool {
        let word = self.words.get(n / 64 - self.first_left / 64);
        word.is_some_and(|word| word >> (n % 64) & 1 == 1)
    }

    fn with(&self, n: usize) -> Self {
        let mut more = self.clone();
        let before = self.first_left / 64;
        let word = n / 64 - before;
        if more.words.len() <= word {
            more.words.resize(word + 1, 0);
        }
        more.words[word] |= 1 << (n % 64);
        let mut first_left = self.first_left;
        while more.has(first_left) {
            first_left += 1;
        }
        let passed = (first_left / 64 - before).min(more.words.len());
        more.words.drain(..passed);
        more.first_left = first_left;
        more
    }

    fn with_unanswered(&self, n: usize) -> Option<Self> {
        let at = self.unanswered.binary_search(&n).err()?;
        let mut more = self.clone();
        more.unanswered.insert(at, n);
        Some(more)
    }
}

/// Whether there is an order in which the register would have told exactly this.
pub fn is_linearizable<R: Register>(
    register: &R,
    mut history: Vec<Operation<R::Op, R::Told>>,
) -> bool {
    history.sort_by_key(|one| one.begun);
    let (answered, unanswered): (Vec<_>, Vec<_>) =
        history.into_iter().partition(|one| one.told.is_some());
    let mut tried = HashSet::new();
    let mut open = vec![(Placed::default(), register.begin())];
    while let Some((placed, state)) = open.pop() {
        // What was never answered may have happened never.
        if placed.first_left == answered.len() {
            return true;
        }
        let mut first_end = u64::MAX;
        let mut next = Vec::new();
        for n in (placed.first_left..answered.len()).filter(|n| !placed.has(*n)) {
            let one = &answered[n];
            if one.begun > first_end {
                break;
            }
            first_end = first_end.min(one.ended);
            if let Some(state) = register.after(&state, &one.op, one.told.as_ref()) {
                next.push((placed.with(n), state));
            }
        }
        for (n, one) in unanswered.iter().enumerate() {
            if one.begun > first_end {
                break;
            }
            // One that changes nothing may as well have happened never.
            let after = register.after(&state, &one.op, None);
            if let Some(state) = after.filter(|after| *after != state) {
                next.extend(placed.with_unanswered(n).map(|placed| (placed, state)));
            }
        }
        // The first of these is tried first.
        for more in next.into_iter().rev() {
            if tried.insert(more.clone()) {
                open.push(more);
            }
        }
    }
    false
}
