//! How long this process has been awake: what a server that is silent is given.
//!
//! A process that was stopped in its tracks finds every deadline passed when it wakes, and the answers it waits for unread.
//! So the time in which nobody here looked does not count: whoever waits looks often.

use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// How often somebody who waits looks.
const LOOK_EVERY: Duration = Duration::from_millis(250);
/// Between two looks at most this counts: more than a machine is late that has much to do.
const COUNTS_AT_MOST: Duration = Duration::from_secs(2);

/// A clock that goes while somebody looks at it.
pub(super) struct Awake(Mutex<Looked>);

struct Looked {
    last: Instant,
    awake: Duration,
}

impl Awake {
    pub(super) fn new() -> Self {
        Self(Mutex::new(Looked {
            last: Instant::now(),
            awake: Duration::ZERO,
        }))
    }

    /// What it shows.
    pub(super) fn now(&self) -> Duration {
        self.look(Instant::now())
    }

    fn look(&self, now: Instant) -> Duration {
        let mut looked = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        // Another thread may have looked later, and come first.
        let since = now.saturating_duration_since(looked.last);
        looked.awake += since.min(COUNTS_AT_MOST);
        looked.last = looked.last.max(now);
        looked.awake
    }

    /// Returns when so much more has passed.
    pub(super) async fn passes(&self, time: Duration) {
        let end = self.now() + time;
        while let Some(left) = end.checked_sub(self.now()).filter(|left| !left.is_zero()) {
            tokio::time::sleep(left.min(LOOK_EVERY)).await;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pause_does_not_count() {
        let awake = Awake::new();
        let begun = Instant::now();
        let first = awake.look(begun);
        let mut now = begun;
        for _ in 0..40 {
            now += LOOK_EVERY;
            awake.look(now);
        }
        let looked = awake.look(now) - first;
        assert_eq!(looked, LOOK_EVERY * 40);
        // Stopped for an hour.
        now += Duration::from_secs(3_600);
        assert_eq!(awake.look(now) - first, looked + COUNTS_AT_MOST);
        assert_eq!(awake.look(begun) - first, looked + COUNTS_AT_MOST);
    }
}
