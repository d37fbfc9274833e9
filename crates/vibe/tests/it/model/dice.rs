//! Where chance comes from.

use std::collections::BTreeMap;

/// Numbers that decide; a step of the test is nothing else.
pub struct Dice<'d> {
    words: &'d [u16],
    next: usize,
}

impl<'d> Dice<'d> {
    pub fn new(words: &'d [u16]) -> Self {
        Self { words, next: 0 }
    }

    pub fn below(&mut self, bound: usize) -> usize {
        let word = usize::from(self.words[self.next % self.words.len()]);
        self.next += 1;
        word % bound.max(1)
    }

    pub fn chance(&mut self, percent: usize) -> bool {
        self.below(100) < percent
    }

    pub fn of<T: Clone>(&mut self, items: &[T]) -> T {
        items[self.below(items.len())].clone()
    }

    /// A key of a map, or a name that nothing has.
    pub fn key<T>(&mut self, map: &BTreeMap<String, T>) -> String {
        let at = self.below(map.len() + 1);
        map.keys()
            .nth(at)
            .cloned()
            .unwrap_or_else(|| "nothing".to_owned())
    }

    /// One of the latest keys of a map.
    pub fn recent<'m, T>(
        &mut self,
        map: impl DoubleEndedIterator<Item = (&'m String, &'m T)>,
    ) -> Option<(&'m String, &'m T)> {
        let latest: Vec<_> = map.rev().take(5).collect();
        (!latest.is_empty()).then(|| latest[self.below(latest.len())])
    }
}
