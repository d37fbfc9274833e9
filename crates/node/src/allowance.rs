//! What a node does to be kind, and therefore only so often.

use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

const SECOND: Duration = Duration::from_secs(1);

/// So many times in a second, for all callers together.
pub(crate) struct Allowance {
    per_s: u32,
    used: Mutex<Option<(Instant, u32)>>,
}

impl Allowance {
    pub(crate) const fn new(per_s: u32) -> Self {
        Self {
            per_s,
            used: Mutex::new(None),
        }
    }

    /// Takes one, if there is one left in the second that runs at `now`.
    pub(crate) fn take(&self, now: Instant) -> bool {
        let mut used = self.used.lock().unwrap_or_else(PoisonError::into_inner);
        let (since, count) = used
            .filter(|(since, _)| now.saturating_duration_since(*since) < SECOND)
            .unwrap_or((now, 0));
        *used = Some((since, count.saturating_add(1)));
        count < self.per_s
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // CH-LIM-1
    #[test]
    fn a_second_has_so_many_and_the_next_one_again() {
        let allowance = Allowance::new(3);
        let start = Instant::now();
        let taken = |at| (0..10).filter(|_| allowance.take(at)).count();
        assert_eq!(taken(start), 3);
        assert_eq!(taken(start + SECOND - Duration::from_nanos(1)), 0);
        assert_eq!(taken(start + SECOND), 3);
    }
}
