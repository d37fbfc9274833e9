//! How late the words of other processes come, without comparing what their clocks show.
//!
//! A word says when it was told by a clock that counts from any moment. The quickest word of a process shows how its clock
//! and ours stand to each other; whatever comes later than that was held up on the way, or we were.

use std::time::{Duration, Instant};

use hashbrown::HashMap;

/// Processes that are remembered; beyond it all are learned anew.
const PROCESSES: usize = 256;
/// Clocks drift by far less than one part in so many.
const DRIFT: i64 = 1_000;

/// What is known of the others' clocks.
pub(crate) struct Lateness {
    started: Instant,
    quickest: HashMap<String, Quickest>,
}

/// The word of a process that took least, as both clocks showed.
struct Quickest {
    heard_ms: i64,
    ahead_ms: i64,
}

impl Lateness {
    pub(crate) fn new(started: Instant) -> Self {
        Self {
            started,
            quickest: HashMap::new(),
        }
    }

    /// How much longer than the quickest a word took that is heard now.
    pub(crate) fn of(&mut self, process: &str, told_ms: u64, now: Instant) -> Duration {
        let heard_ms = millis(now.duration_since(self.started));
        let ahead_ms = heard_ms.saturating_sub(i64::try_from(told_ms).unwrap_or(i64::MAX));
        if self.quickest.len() >= PROCESSES && !self.quickest.contains_key(process) {
            self.quickest.clear();
        }
        let this = Quickest { heard_ms, ahead_ms };
        let Some(quickest) = self.quickest.get_mut(process) else {
            self.quickest.insert(process.to_owned(), this);
            return Duration::ZERO;
        };
        let drift = (heard_ms - quickest.heard_ms) / DRIFT;
        let late = ahead_ms.saturating_sub(quickest.ahead_ms.saturating_add(drift));
        if late <= 0 {
            *quickest = this;
        }
        Duration::from_millis(late.max(0).unsigned_abs())
    }
}

fn millis(duration: Duration) -> i64 {
    i64::try_from(duration.as_millis()).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_held_up_is_late_whatever_the_clocks_show() {
        // CH-JRN-13
        let start = Instant::now();
        let at = |ms| start + Duration::from_millis(ms);
        let mut lateness = Lateness::new(start);
        let mut late = |process, told, heard| lateness.of(process, told, at(heard)).as_millis();
        // One clock is far ahead of ours, the other far behind.
        assert_eq!(late("ahead", 900_000, 10), 0);
        assert_eq!(late("behind", 3, 20_000), 0);
        // A quicker word than the first is the measure from then on.
        assert_eq!(late("ahead", 900_100, 105), 0);
        assert_eq!(late("ahead", 900_200, 210), 5);
        // Words of twelve seconds that are heard at once.
        assert_eq!(late("ahead", 900_300, 12_305), 11_988);
        assert_eq!(late("ahead", 912_200, 12_305), 88);
        assert_eq!(late("behind", 103, 20_100), 0);
    }

    #[test]
    fn clocks_that_drift_are_followed() {
        let start = Instant::now();
        let mut lateness = Lateness::new(start);
        // A clock that loses a tenth of a millisecond each second, for a day: nothing is ever late.
        for second in 0..86_400_u64 {
            let told = second * 1_000 - second / 10;
            let late = lateness.of("slow", told, start + Duration::from_secs(second));
            assert!(
                late < Duration::from_millis(2),
                "after {second} s: {late:?}"
            );
        }
    }
}
