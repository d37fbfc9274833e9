//! Chains that several hold the key of: each number is claimed by all of them, and one has it.

use std::sync::atomic::{AtomicU64, Ordering};

use chancery_core::digest::Sha256Digest;
use chancery_core::keys::ed25519::SigningKey;
use chancery_testkit::linear::Register;
use chancery_vacant::envelope::{EMPTY_PREV_HASH, EnvelopeHash};
use chancery_vacant::id::VacantId;

use super::clients::{Book, Client, Sent};
use crate::letters::{CALLS, Link, letter};
use crate::wire::Answer;

/// At this number a chain is left and the next one begun: each is a register of its own, and is judged on its own.
const LONG: u64 = 80;

/// The end of a chain: its last number, and that envelope's hash.
pub type End = (u64, EnvelopeHash);

/// A chain as the node keeps it (VA-REP-4, VA-SRV-11).
pub struct Chain;

/// An envelope that claims the next place.
#[derive(Clone, Copy, Debug)]
pub struct Claim {
    link: Link,
    hash: EnvelopeHash,
}

/// What was told about it.
#[derive(Clone, Copy, Debug)]
pub enum Claimed {
    Taken,
    /// It does not follow this end.
    Refused(End),
}

impl Register for Chain {
    type State = End;
    type Op = Claim;
    type Told = Claimed;

    fn begin(&self) -> End {
        (0, EMPTY_PREV_HASH)
    }

    fn after(&self, end: &End, claim: &Claim, told: Option<&Claimed>) -> Option<End> {
        let Claim { link, hash } = claim;
        let follows = (link.number, link.prev) == (end.0 + 1, end.1);
        match told {
            Some(Claimed::Taken) => follows.then_some((link.number, *hash)),
            Some(Claimed::Refused(seen)) => (!follows && seen == end).then_some(*end),
            None if follows => Some((link.number, *hash)),
            None => Some(*end),
        }
    }
}

/// Who is called, and which chain to it is being written.
pub struct Chains {
    pub to: VacantId,
    now: AtomicU64,
}

impl Chains {
    pub fn new(to: VacantId) -> Self {
        Self {
            to,
            now: AtomicU64::new(0),
        }
    }
}

/// Claims number after number of the chain that all are writing.
pub fn claim(mut client: Client<'_>, name: &str, chains: &Chains, book: &Book<Chain>) {
    let (mut chain, mut end, mut made) = (0, Chain.begin(), 0_u64);
    while !client.fleet.is_over() {
        let now = chains.now.load(Ordering::SeqCst);
        if now != chain {
            (chain, end) = (now, Chain.begin());
        }
        let key = SigningKey::from_seed(&Sha256Digest::of(format!("chain {chain}").as_bytes()).0);
        let link = Link {
            number: end.0 + 1,
            prev: end.1,
        };
        made += 1;
        let id = format!("{name}-{made}");
        let (body, hash) = letter(&key, chains.to, link, &id, "mine");
        loop {
            let (sent, begun) = client.send(CALLS, &body, &id);
            let told = match sent {
                Sent::NotTaken => break,
                Sent::Unknown => None,
                Sent::Told(answer) => Some(claimed(&answer)),
            };
            let claim = Claim { link, hash };
            book.note(&format!("chain {chain}"), claim, told, begun, client.fleet);
            match told {
                Some(Claimed::Taken) => end = (link.number, hash),
                Some(Claimed::Refused(seen)) => end = seen,
                // The same once more, or another for the same place.
                None if client.chance(2) => continue,
                None => {}
            }
            break;
        }
        if end.0 >= LONG {
            // Somebody else may have begun it already.
            let _ =
                chains
                    .now
                    .compare_exchange(chain, chain + 1, Ordering::SeqCst, Ordering::SeqCst);
        }
    }
}

fn claimed(answer: &Answer) -> Claimed {
    let said = answer.json();
    match answer.status {
        200 => Claimed::Taken,
        409 => {
            let place = &said["error"]["data"][0]["metadata"];
            let text = |name: &str| place[name].as_str().unwrap_or_else(|| panic!("{said}"));
            let tip = EnvelopeHash::from_hex(text("chain_tip")).unwrap();
            Claimed::Refused((text("last_sequence_no").parse().unwrap(), tip))
        }
        other => panic!("{other}: {said}"),
    }
}
