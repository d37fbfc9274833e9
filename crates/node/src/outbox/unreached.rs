//! Who was not reached, in the process's log (VX-RTY-6): a line for each recipient, and for a while no further one about
//! it. Every failed delivery is an event beside the log all the same.

use std::sync::Mutex;
use std::time::Duration;

use chancery_core::delivery::Delivery;
use chancery_core::line::Seq;
use hashbrown::HashMap;
use tokio::time::Instant;

use super::Carried;
use crate::sidelogs::SideLogs;

/// How long a recipient is not told of again.
const AGAIN_AFTER: Duration = Duration::from_secs(60);
/// Recipients that are told of within that time; further ones are only in the events.
const RECIPIENTS: usize = 1_000;

/// The recipients that were told of.
#[derive(Default)]
pub(super) struct Unreached(Mutex<HashMap<String, Told>>);

struct Told {
    at: Instant,
    /// Deliveries that failed since, and were not told.
    untold: u64,
}

impl Unreached {
    /// A delivery is given up.
    pub(super) fn given_up(
        &self,
        side_logs: &SideLogs,
        seq: Seq,
        delivery: &Delivery,
        carried: Carried,
    ) {
        let Some(untold) = self.is_due(&delivery.to, Instant::now()) else {
            return;
        };
        tracing::warn!(
            protocol = delivery.protocol.as_str(),
            seq,
            recipient = &*side_logs.in_process_log(delivery.protocol, &delivery.to),
            outcome = carried.as_str(),
            untold,
            "a recipient was not reached, and the delivery is given up"
        );
    }

    /// Whether a recipient is told of now; and then, how often it was not since the last time.
    fn is_due(&self, recipient: &str, now: Instant) -> Option<u64> {
        let mut all = super::lock(&self.0);
        let is_recent = |told: &Told| now.duration_since(told.at) < AGAIN_AFTER;
        if let Some(told) = all.get_mut(recipient) {
            if is_recent(told) {
                told.untold += 1;
                return None;
            }
            let before = std::mem::replace(told, Told { at: now, untold: 0 });
            return Some(before.untold);
        }
        if all.len() >= RECIPIENTS {
            all.retain(|_, told| is_recent(told));
        }
        if all.len() >= RECIPIENTS {
            return None;
        }
        all.insert(recipient.to_owned(), Told { at: now, untold: 0 });
        Some(0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // VX-RTY-6
    #[test]
    fn a_recipient_is_told_of_once_in_a_while_and_with_how_often_it_was_not() {
        let (unreached, start) = (Unreached::default(), Instant::now());
        assert_eq!(unreached.is_due("far", start), Some(0));
        for _ in 0..3 {
            assert_eq!(unreached.is_due("far", start), None);
        }
        assert_eq!(unreached.is_due("farther", start), Some(0));
        let later = start + AGAIN_AFTER;
        assert_eq!(unreached.is_due("far", later), Some(3));
        assert_eq!(unreached.is_due("far", later), None);
    }

    #[test]
    fn many_recipients_are_not_all_told_of_and_leave_room_again() {
        let (unreached, start) = (Unreached::default(), Instant::now());
        for number in 0..RECIPIENTS {
            assert_eq!(unreached.is_due(&number.to_string(), start), Some(0));
        }
        assert_eq!(unreached.is_due("one more", start), None);
        assert_eq!(unreached.is_due("one more", start + AGAIN_AFTER), Some(0));
    }
}
