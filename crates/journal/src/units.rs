//! Units: an input with all it caused, on the log whole or not at all (CH-JRN-4).

/// More lines than any unit has: a log that never ends its unit is damaged, and must not fill the memory.
pub const MAX_UNIT_LINES: usize = 65_536;

/// A unit that goes on beyond [`MAX_UNIT_LINES`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a unit of more than {MAX_UNIT_LINES} lines")]
pub struct UnitTooLong;

/// Groups lines to units, whatever stands for a line.
#[derive(Clone, Debug)]
pub struct Units<T> {
    open: Vec<T>,
}

impl<T> Default for Units<T> {
    fn default() -> Self {
        Self { open: Vec::new() }
    }
}

impl<T> Units<T> {
    /// Takes the next line; `more` is what its `meta.more` says. Gives the unit that it ends.
    ///
    /// # Errors
    /// The unit is too long; its lines so far are dropped.
    pub fn push(&mut self, line: T, more: bool) -> Result<Option<Vec<T>>, UnitTooLong> {
        self.open.push(line);
        if !more {
            return Ok(Some(std::mem::take(&mut self.open)));
        }
        if self.open.len() >= MAX_UNIT_LINES {
            self.open.clear();
            return Err(UnitTooLong);
        }
        Ok(None)
    }

    /// The lines of a unit that has not ended: at the end of a log it is not whole and counts as never written.
    pub fn unfinished(&self) -> &[T] {
        &self.open
    }

    /// Gives up the unit that has not ended.
    pub fn abandon(&mut self) -> Vec<T> {
        std::mem::take(&mut self.open)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_unit_ends_with_the_line_that_has_no_more() {
        // CH-JRN-4
        let mut units = Units::default();
        assert_eq!(units.push(1, false), Ok(Some(vec![1])));
        assert_eq!(units.push(2, true), Ok(None));
        assert_eq!(units.push(3, true), Ok(None));
        assert_eq!(units.unfinished(), [2, 3]);
        assert_eq!(units.push(4, false), Ok(Some(vec![2, 3, 4])));
        assert!(units.unfinished().is_empty());
    }

    #[test]
    fn a_unit_without_end_does_not_fill_the_memory() {
        let mut units = Units::default();
        let ends = (0..MAX_UNIT_LINES)
            .map(|line| units.push(line, true))
            .collect::<Vec<_>>();
        assert_eq!(ends.last(), Some(&Err(UnitTooLong)));
        assert!(units.unfinished().is_empty());
    }
}
