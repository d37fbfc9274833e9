//! When to connect again (VX-WS-7): after 1, 2, 4, 8, 16, 30, 30, … seconds, without end.

use std::time::Duration;

/// A connection that lasted so long starts the row anew.
const LASTED: Duration = Duration::from_secs(60);
const LONGEST: Duration = Duration::from_secs(30);

/// The row of pauses.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Pace {
    next: Duration,
}

impl Pace {
    pub(crate) const fn new() -> Self {
        Self {
            next: Duration::from_secs(1),
        }
    }

    /// The pause after a connection that lasted so long; one that was never made lasted no time.
    pub(crate) fn pause(&mut self, lasted: Duration) -> Duration {
        if lasted >= LASTED {
            *self = Self::new();
        }
        let pause = self.next;
        self.next = (pause * 2).min(LONGEST);
        pause
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // VX-WS-7
    #[test]
    fn the_pauses_are_those_of_the_vectors() {
        let path = concat!(
            env!("CARGO_MANIFEST_DIR"),
            "/../../vectors/value-context/reconnect.json"
        );
        let file: serde_json::Value =
            serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap();
        for case in file["vectors"].as_array().unwrap() {
            let mut pace = Pace::new();
            let failures = case["failures"].as_u64().unwrap();
            let pauses: Vec<_> = (0..failures)
                .map(|_| pace.pause(Duration::ZERO).as_millis() as u64)
                .collect();
            assert_eq!(serde_json::json!(pauses), case["delays_ms"], "{case}");
        }
    }

    // VX-WS-7
    #[test]
    fn a_connection_of_a_minute_starts_the_row_anew() {
        let mut pace = Pace::new();
        let seconds = |pace: &mut Pace, lasted| pace.pause(Duration::from_secs(lasted)).as_secs();
        let row: Vec<_> = (0..8).map(|_| seconds(&mut pace, 0)).collect();
        assert_eq!(row, [1, 2, 4, 8, 16, 30, 30, 30]);
        assert_eq!(seconds(&mut pace, 59), 30);
        assert_eq!(seconds(&mut pace, 60), 1);
        assert_eq!(seconds(&mut pace, 0), 2);
    }
}
