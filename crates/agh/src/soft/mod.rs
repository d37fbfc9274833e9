//! Soft state: what a node remembers without a log (CH-JRN-13). In memory, bounded, lost at a stop; it may refuse or
//! answer, and never changes a row. Time is an argument.

mod once;
mod presence;
mod quota;

pub use once::Once;
pub(crate) use presence::present_name;
pub use presence::{Known, Presence, PresenceLimits, Seen, Standing};
pub use quota::Quotas;

use chancery_core::decision::{Guard, Guards, Shut};
use chancery_core::time::Time;

use crate::settings::Settings;

/// Pairs of askers and peers, or senders, whose rate is remembered.
const QUOTAS: usize = 100_000;

/// All of a node's soft state of this protocol.
#[derive(Debug)]
pub struct Soft {
    /// Remote peers.
    pub presence: Presence,
    /// Envelopes that left no line.
    pub once: Once,
    /// Answers and receipts of the last second.
    pub quotas: Quotas,
    /// Whether the broker is known to be down: then nothing is sent that would have to leave (CH-JRN-11).
    pub broker_is_down: bool,
}

impl Soft {
    /// Nothing remembered yet.
    pub fn new(settings: &Settings) -> Self {
        Self {
            presence: Presence::new(PresenceLimits::of(settings)),
            once: Once::new(settings.max_dedupe_entries),
            quotas: Quotas::new(QUOTAS),
            broker_is_down: false,
        }
    }

    /// New limits; what is beyond them goes with the next that comes.
    pub fn follow(&mut self, settings: &Settings) {
        self.presence.limit(PresenceLimits::of(settings));
        self.once.limit(settings.max_dedupe_entries);
    }

    /// The guards of one decision. `tick` is a time that always runs, for rates: a fixed clock stands still.
    pub fn guards(&mut self, now: Time, tick: Time) -> SoftGuards<'_> {
        SoftGuards {
            soft: self,
            now,
            tick,
        }
    }
}

/// Soft state as a decision asks it.
#[derive(Debug)]
pub struct SoftGuards<'s> {
    soft: &'s mut Soft,
    now: Time,
    tick: Time,
}

impl Guards for SoftGuards<'_> {
    fn pass(&mut self, guard: Guard<'_>) -> Result<(), Shut> {
        let open = match guard {
            Guard::Once { id, until, .. } => match until {
                Some(until) => self.soft.once.note(id, self.now, until),
                None => !self.soft.once.has(id, self.now),
            },
            Guard::Quota {
                of,
                who,
                per_second,
            } => self.soft.quotas.take(of, who, per_second, self.tick),
            Guard::Network { .. } => !self.soft.broker_is_down,
            Guard::Present { name, .. } => self.soft.presence.has(name, self.now.unix_seconds()),
            _ => true,
        };
        if open {
            Ok(())
        } else {
            Err(Shut { retry_after_s: 1 })
        }
    }
}
