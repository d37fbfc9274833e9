//! Who is connected to another node of the journal, and the way there.
//!
//! Nodes tell each other of connections as they come and go, and from time to time a sum of all: whoever has another sum
//! asks. A node that is not heard of for a while has none. All of it may be lost: a message that goes astray is an attempt
//! that failed, and the next one goes where the recipient is by then.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use chancery_core::delivery::Delivery;
use chancery_core::digest::Sha256Digest;
use chancery_node::{Carried, Errand, Others, Word};
use hashbrown::HashMap;
use tokio::sync::oneshot;
use tokio::time::Instant;

use crate::agh_ws::is_claim;

/// How often a node says that it is there.
pub(super) const SAY_EVERY: Duration = Duration::from_secs(2);
/// After how long without a word a node has no connections any more.
pub(crate) const SILENCE: Duration = Duration::from_secs(10);
/// Connected agents that a node tells of; others are reached from that node alone.
const TOLD: usize = 10_000;
/// Connected agents of all other nodes that are known.
const KNOWN: usize = 100_000;

/// The connections of the other nodes, and what they are told of this one's.
#[derive(Default)]
pub(crate) struct Elsewhere {
    others: OnceLock<Arc<Others>>,
    own: Mutex<Claims>,
    nodes: Mutex<HashMap<String, Node>>,
    asked: Mutex<HashMap<u64, oneshot::Sender<Carried>>>,
    next: AtomicU64,
}

/// Who is behind which connection of one node.
#[derive(Default)]
struct Claims {
    of: HashMap<String, u64>,
    sum: u64,
}

struct Node {
    claims: Claims,
    heard: Instant,
}

/// A connection of another node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct There {
    pub(crate) node: String,
    pub(crate) number: u64,
}

impl Claims {
    fn add(&mut self, name: &str, number: u64, at_most: usize) -> bool {
        // Peers are as many as connections at most, and one that is not told of would be taken for gone.
        let has_room = self.of.len() < at_most || is_claim(name) || self.of.contains_key(name);
        if !has_room {
            return false;
        }
        if let Some(before) = self.of.insert(name.to_owned(), number) {
            self.sum = self.sum.wrapping_sub(weight(name, before));
        }
        self.sum = self.sum.wrapping_add(weight(name, number));
        true
    }

    /// Drops a name, unless another connection has it meanwhile.
    fn remove(&mut self, name: &str, number: u64) -> bool {
        if self.of.get(name) != Some(&number) {
            return false;
        }
        self.of.remove(name);
        self.sum = self.sum.wrapping_sub(weight(name, number));
        true
    }
}

/// The same on every node.
fn weight(name: &str, number: u64) -> u64 {
    let digest = Sha256Digest::of(format!("{number} {name}").as_bytes());
    let first = digest.0.first_chunk::<8>();
    first.map_or(0, |first| u64::from_be_bytes(*first))
}

impl Elsewhere {
    /// There may be others from here on.
    pub(super) fn join(&self, others: Arc<Others>) {
        let _ = self.others.set(others);
        self.tell(&Word::WhoIsConnected);
    }

    /// Somebody is connected here.
    pub(crate) fn came(&self, name: &str, number: u64) {
        self.forget(name);
        if self.others.get().is_some() && lock(&self.own).add(name, number, TOLD) {
            let claims = vec![(name.to_owned(), number)];
            self.tell(&Word::Connected { claims, all: false });
        }
    }

    /// Somebody is not any more.
    pub(crate) fn went(&self, name: &str, number: u64) {
        if lock(&self.own).remove(name, number) {
            let claims = vec![(name.to_owned(), number)];
            self.tell(&Word::Gone { claims });
        }
    }

    /// Says that this node is there.
    pub(super) fn say_here(&self) {
        let sum = lock(&self.own).sum;
        self.tell(&Word::Here { sum });
    }

    /// Where somebody is connected.
    pub(crate) fn find(&self, name: &str) -> Option<There> {
        let nodes = lock(&self.nodes);
        let lately = nodes
            .iter()
            .filter(|(_, node)| node.heard.elapsed() < SILENCE);
        let claims = |(of, node): (&String, &Node)| {
            let number = *node.claims.of.get(name)?;
            let node = of.clone();
            Some((node, number))
        };
        let (node, number) = lately.filter_map(claims).next()?;
        Some(There { node, number })
    }

    /// Lets another node bring a message over its connection. The outbox limits how long that may take.
    pub(crate) async fn carry(
        &self,
        there: There,
        delivery: Delivery,
        envelope: Bytes,
        id: String,
    ) -> Carried {
        let failed = Carried::Failed { at_least: None };
        let Ok(envelope) = String::from_utf8(envelope.to_vec()) else {
            return failed;
        };
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        let (done, told) = oneshot::channel();
        lock(&self.asked).insert(number, done);
        let _asked = Asked(self, number);
        self.tell(&Word::Carry(Box::new(Errand {
            node: there.node,
            number,
            from: delivery.from,
            to: delivery.to,
            exempt: delivery.exempt,
            within_ms: delivery.attempt_ms,
            id,
            envelope,
        })));
        told.await.unwrap_or(failed)
    }

    /// Tells what came of a message that another node asked for.
    pub(super) fn answer(&self, node: String, number: u64, carried: Carried) {
        self.tell(&Word::Carried {
            node,
            number,
            carried,
        });
    }

    /// Says something to a peer that is connected to another node; whether there is one.
    pub(crate) fn whisper(&self, name: &str, subject: &str, text: &Bytes) -> bool {
        let (Some(there), Ok(text)) = (self.find(name), std::str::from_utf8(text)) else {
            return false;
        };
        self.tell(&Word::Whisper {
            node: there.node,
            subject: subject.to_owned(),
            text: text.to_owned(),
        });
        true
    }

    /// Another node says something about connections; gives who is connected there since just now.
    pub(super) fn hear<'w>(&self, from: &str, word: &'w Word) -> &'w [(String, u64)] {
        match word {
            Word::Here { sum } if self.of(from, |node| node.claims.sum != *sum) => {
                self.tell(&Word::WhoIsConnected);
            }
            Word::WhoIsConnected => self.say_all(),
            Word::Connected { claims, all } => {
                if *all {
                    self.of(from, |node| node.claims = Claims::default());
                } else {
                    claims.iter().for_each(|(name, _)| self.forget(name));
                }
                self.take(from, claims);
                if !all {
                    return claims;
                }
            }
            Word::Gone { claims } => self.of(from, |node| {
                for (name, number) in claims {
                    node.claims.remove(name, *number);
                }
            }),
            Word::Carried {
                node,
                number,
                carried,
            } if self.is_own_name(node) => {
                if let Some(done) = lock(&self.asked).remove(number) {
                    // Whoever asked may have given up.
                    let _ = done.send(*carried);
                }
            }
            _ => {}
        }
        &[]
    }

    /// Whether that is this node.
    pub(super) fn is_own_name(&self, node: &str) -> bool {
        self.others
            .get()
            .is_some_and(|others| others.own_name() == node)
    }

    fn take(&self, from: &str, claims: &[(String, u64)]) {
        let nodes = lock(&self.nodes);
        let known: usize = nodes.values().map(|node| node.claims.of.len()).sum();
        drop(nodes);
        let room = KNOWN.saturating_sub(known);
        self.of(from, |node| {
            let at_most = node.claims.of.len() + room;
            for (name, number) in claims {
                node.claims.add(name, *number, at_most);
            }
        });
    }

    /// The latest connection counts: nobody else has it any more.
    fn forget(&self, name: &str) {
        for node in lock(&self.nodes).values_mut() {
            if let Some(number) = node.claims.of.get(name).copied() {
                node.claims.remove(name, number);
            }
        }
    }

    fn say_all(&self) {
        let own = lock(&self.own);
        let claims = own.of.iter().map(|(name, number)| (name.clone(), *number));
        let claims = claims.collect();
        drop(own);
        self.tell(&Word::Connected { claims, all: true });
    }

    /// What is known of a node, which was just heard of.
    fn of<T>(&self, name: &str, then: impl FnOnce(&mut Node) -> T) -> T {
        let mut nodes = lock(&self.nodes);
        nodes.retain(|of, node| of == name || node.heard.elapsed() < SILENCE);
        let node = nodes.entry_ref(name).or_insert_with(|| Node {
            claims: Claims::default(),
            heard: Instant::now(),
        });
        node.heard = Instant::now();
        then(node)
    }

    fn tell(&self, word: &Word) {
        if let Some(others) = self.others.get() {
            others.tell(word);
        }
    }
}

/// A question to another node; nobody waits for its answer once this is dropped.
struct Asked<'e>(&'e Elsewhere, u64);

impl Drop for Asked<'_> {
    fn drop(&mut self) {
        lock(&self.0.asked).remove(&self.1);
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn connected(claims: &[(&str, u64)], all: bool) -> Word {
        let claims = claims
            .iter()
            .map(|(name, number)| ((*name).to_owned(), *number));
        let claims = claims.collect();
        Word::Connected { claims, all }
    }

    #[tokio::test(start_paused = true)]
    async fn the_latest_connection_counts_and_a_silent_node_has_none() {
        // VX-WS-10
        let here = Elsewhere::default();
        let at = |node: &str, number| {
            let node = node.to_owned();
            Some(There { node, number })
        };
        here.hear("a", &connected(&[("x", 1), ("y", 2)], false));
        here.hear("b", &connected(&[("x", 7)], false));
        assert_eq!(here.find("x"), at("b", 7));
        assert_eq!(here.find("y"), at("a", 2));
        // What an old connection says at its end is not about the new one.
        let gone = vec![("x".to_owned(), 6)];
        here.hear("b", &Word::Gone { claims: gone });
        assert_eq!(here.find("x"), at("b", 7));
        // All of a node's are those that it names.
        here.hear("a", &connected(&[("z", 3)], true));
        assert_eq!((here.find("y"), here.find("z")), (None, at("a", 3)));
        tokio::time::advance(SILENCE / 2).await;
        here.hear("b", &Word::Here { sum: 0 });
        tokio::time::advance(SILENCE / 2).await;
        assert_eq!((here.find("x"), here.find("z")), (at("b", 7), None));
        here.came("x", 1);
        assert_eq!(here.find("x"), None, "it is here");
    }

    #[test]
    fn equal_claims_have_equal_sums_in_whatever_order_they_came() {
        let (mut one, mut other) = (Claims::default(), Claims::default());
        one.add("x", 1, 9);
        one.add("y", 2, 9);
        other.add("y", 9, 9);
        other.add("y", 2, 9);
        other.add("z", 4, 9);
        other.add("x", 1, 9);
        assert_ne!(one.sum, other.sum);
        assert!(other.remove("z", 4));
        assert_eq!(one.sum, other.sum);
        assert!(!one.add("w", 1, 2), "there is a bound");
    }
}
