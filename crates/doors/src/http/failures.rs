//! Failures before authentication, counted per source address (VX-ERR-4).
//!
//! The table is bounded: when it is full, addresses that are not in it share one count, so that filling it
//! buys nothing.

use std::net::{IpAddr, Ipv6Addr};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use hashbrown::HashMap;

/// The failures of the running second.
pub(crate) struct Failures {
    per_s: u32,
    addresses: usize,
    /// Addresses in the table: while there is none, nobody needs the lock.
    known: AtomicUsize,
    counts: Mutex<Counts>,
}

#[derive(Default)]
struct Counts {
    of: HashMap<IpAddr, Count>,
    of_others: Option<Count>,
}

#[derive(Clone, Copy)]
struct Count {
    since: Instant,
    failures: u32,
    /// Bodies that were read although the failures are used up.
    bodies: u32,
}

/// Bodies that an address whose failures are used up still has read in a second (CH-LIM-3).
const BODIES_PER_S: u32 = 5;
const SECOND: Duration = Duration::from_secs(1);

impl Failures {
    pub(crate) fn new(per_s: u32, addresses: usize) -> Self {
        Self {
            per_s,
            addresses,
            known: AtomicUsize::new(0),
            counts: Mutex::default(),
        }
    }

    /// Whether this address has used up its failures of the second.
    pub(crate) fn is_over(&self, address: IpAddr) -> bool {
        if self.known.load(Ordering::Relaxed) == 0 {
            return false;
        }
        let counts = self.counts.lock().unwrap_or_else(PoisonError::into_inner);
        let count = match counts.of.get(&network(address)) {
            Some(count) => Some(*count),
            None if counts.of.len() >= self.addresses => counts.of_others,
            None => None,
        };
        count.is_some_and(|count| count.since.elapsed() < SECOND && count.failures >= self.per_s)
    }

    /// Whether an address whose failures are used up may have one more body read as far as its type.
    pub(crate) fn takes_body(&self, address: IpAddr) -> bool {
        let mut counts = self.counts.lock().unwrap_or_else(PoisonError::into_inner);
        let counts = &mut *counts;
        let count = match counts.of.get_mut(&network(address)) {
            Some(count) => count,
            None => match &mut counts.of_others {
                Some(count) => count,
                None => return true,
            },
        };
        count.bodies = count.bodies.saturating_add(1);
        count.bodies <= BODIES_PER_S
    }

    /// Counts one failure.
    pub(crate) fn count(&self, address: IpAddr) {
        let now = Instant::now();
        let address = network(address);
        let mut counts = self.counts.lock().unwrap_or_else(PoisonError::into_inner);
        if counts.of.len() >= self.addresses && !counts.of.contains_key(&address) {
            counts
                .of
                .retain(|_, count| now.duration_since(count.since) < SECOND);
        }
        let fresh = Count {
            since: now,
            failures: 0,
            bodies: 0,
        };
        let is_full = counts.of.len() >= self.addresses && !counts.of.contains_key(&address);
        let count = if is_full {
            counts.of_others.get_or_insert(fresh)
        } else {
            counts.of.entry(address).or_insert(fresh)
        };
        if now.duration_since(count.since) >= SECOND {
            *count = fresh;
        }
        count.failures = count.failures.saturating_add(1);
        self.known.store(counts.of.len(), Ordering::Relaxed);
    }

    /// Addresses in the table.
    pub(crate) fn len(&self) -> usize {
        self.known.load(Ordering::Relaxed)
    }
}

/// Who holds one IPv6 address holds its /64.
fn network(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V6(address) => {
            let [a, b, c, d, ..] = address.segments();
            IpAddr::V6(Ipv6Addr::new(a, b, c, d, 0, 0, 0, 0))
        }
        address => address,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn address(last: u8) -> IpAddr {
        [192, 0, 2, last].into()
    }

    // VX-ERR-4
    #[test]
    fn an_address_is_over_after_its_failures_and_others_are_not() {
        let failures = Failures::new(3, 8);
        for _ in 0..2 {
            failures.count(address(1));
        }
        assert!(!failures.is_over(address(1)));
        failures.count(address(1));
        assert!(failures.is_over(address(1)));
        assert!(!failures.is_over(address(2)));
    }

    // CH-LIM-3
    #[test]
    fn an_address_that_is_over_has_five_bodies_read() {
        let failures = Failures::new(1, 8);
        failures.count(address(1));
        assert!(failures.is_over(address(1)));
        let read = (0..20).filter(|_| failures.takes_body(address(1))).count();
        assert_eq!(read, 5);
    }

    // CH-LIM-1
    #[test]
    fn a_full_table_stays_full_and_newcomers_share_one_count() {
        let failures = Failures::new(2, 4);
        for last in 0..200 {
            failures.count(address(last));
        }
        assert_eq!(failures.len(), 4);
        assert!(failures.is_over(address(250)));
        assert!(!failures.is_over(address(0)));
    }

    #[test]
    fn one_ipv6_network_counts_as_one_address() {
        let failures = Failures::new(2, 8);
        failures.count("2001:db8::1".parse().unwrap());
        failures.count("2001:db8::2".parse().unwrap());
        assert!(failures.is_over("2001:db8::3".parse().unwrap()));
        assert!(!failures.is_over("2001:db8:0:1::3".parse().unwrap()));
    }
}
