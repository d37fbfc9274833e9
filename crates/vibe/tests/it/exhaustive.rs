//! Every order of two sessions' steps on one unit of stock, with retries and a crash at every step, over the real rules.
//!
//! A state is what is committed, what is decided on top of it and not synced yet, and which answers were heard. A crash
//! loses everything after the last commit.

use std::collections::{BTreeSet, VecDeque};

use bytes::Bytes;
use chancery_core::digest::Sha256;
use chancery_core::ids::{ObjectKind, object_id};
use chancery_core::rows::{MapRows, Rows as _};
use chancery_vibe::conformance::Host;
use chancery_vibe::settings::Settings;
use chancery_vibe::world::rows::Table;
use serde_json::{Value, json};

use crate::crashes::{envelope, post};
use crate::replay::{lines, tell};
use crate::support::{
    ACCEPT_OFFER_BY_NEGOTIATION, APPROVE_PURCHASE, Desk, PROPOSE_OFFER, SETTLE_PAYMENT,
    SETTLE_PAYMENT_BY_PSP, Way, agreed, offer, seed, world,
};

const REJECT: Way = Way(
    "consumer:persona",
    "buyer:authorization",
    "delegate.reject_purchase",
);

/// How many decisions wait for their sync at most: the node decides a batch while it writes another.
const MOST_PENDING: usize = 2;

/// An envelope that may be sent at any time and any number of times; a settlement has an order.
struct Sendable {
    body: Bytes,
    order: Option<String>,
}

fn sendable(name: &str, way: Way, session: &str, payload: &Value) -> Sendable {
    let settles = way.2 == "platform.settle_payment";
    Sendable {
        body: envelope(name, way, session, Value::Null, payload),
        order: settles.then(|| object_id(ObjectKind::Order, name)),
    }
}

/// Two sessions and one unit of stock. The first has one mandate and two certificates on it; the second waits for its
/// person, who may also withdraw.
fn scene() -> (Desk, Vec<Sendable>) {
    let mut world = world();
    world["inventory"][0]["on_hand"] = json!(1);
    let mut desk = Desk::of(&seed(&world), Settings::default());
    let first = agreed(&mut desk, "x", "c1", "a_c1", "m1", 1, 20_000);
    let proposed = desk.yes(PROPOSE_OFFER, "x", None, offer("more", "m1", 9_000, 1));
    let accept = json!({"offer_id": "more"});
    let answer = desk.told(ACCEPT_OFFER_BY_NEGOTIATION, "x", Some(&proposed), accept);
    let second = &answer["emitted"][1]["action"]["payload"]["cert_id"];
    let other = agreed(&mut desk, "y", "c2", "a_c2", "m1", 1, 0);
    let of = |cert: &str| json!({"cert_id": cert});
    let withdraw = json!({"cert_id": other, "reason": "no"});
    let sendables = vec![
        sendable("buyer", SETTLE_PAYMENT, "x", &of(&first)),
        sendable("psp", SETTLE_PAYMENT_BY_PSP, "x", &of(&first)),
        sendable("second", SETTLE_PAYMENT, "x", &json!({"cert_id": second})),
        sendable("yes", APPROVE_PURCHASE, "y", &of(&other)),
        sendable("other", SETTLE_PAYMENT, "y", &of(&other)),
        sendable("no", REJECT, "y", &withdraw),
    ];
    (desk, sendables)
}

/// Rows and the number of lines that left them.
#[derive(Clone)]
struct Left {
    rows: MapRows,
    lines: u64,
}

#[derive(Clone)]
struct State {
    committed: Left,
    /// Decided and not synced: what each leaves, and whose answer waits for it.
    pending: VecDeque<(Left, usize)>,
    heard: BTreeSet<usize>,
}

impl State {
    fn id(&self) -> [u8; 32] {
        let mut hash = Sha256::new();
        let pending = self.pending.iter().map(|(left, _)| left);
        for left in std::iter::once(&self.committed).chain(pending) {
            for (key, row) in left.rows.iter() {
                hash.update(key.as_bytes());
                hash.update(row);
            }
            hash.update(b"|");
        }
        let who: Vec<u8> = self.pending.iter().map(|(_, who)| *who as u8).collect();
        let heard: Vec<u8> = self.heard.iter().map(|who| *who as u8).collect();
        hash.update(&who);
        hash.update(b"|");
        hash.update(&heard);
        hash.finish().0
    }

    /// What may come next.
    fn successors(&self, sendables: &[Sendable], settings: &Settings) -> Vec<Self> {
        let mut next = Vec::new();
        if let Some((left, who)) = self.pending.front() {
            // Synced, and the answer heard or lost on its way.
            let mut unheard = self.clone();
            unheard.committed = left.clone();
            unheard.pending.pop_front();
            let mut heard = unheard.clone();
            heard.heard.insert(*who);
            let mut crashed = self.clone();
            crashed.pending.clear();
            next.extend([unheard, heard, crashed]);
        }
        if self.pending.len() == MOST_PENDING {
            return next;
        }
        let newest = self
            .pending
            .back()
            .map_or(&self.committed, |(left, _)| left);
        for (who, sendable) in sendables.iter().enumerate() {
            let rows = newest.rows.clone();
            let mut host = Host::resume(rows, settings.clone(), newest.lines).unwrap();
            let reply = post(&mut host, &sendable.body);
            if reply.status != 200 {
                assert_eq!(reply.status, 409);
                assert_eq!(*host.rows(), newest.rows, "a refusal changes nothing");
                continue;
            }
            // A repeat leaves no line, and is answered after the sync of what it rests on all the same.
            let left = Left {
                rows: host.rows().clone(),
                lines: newest.lines + reply.lines_added as u64,
            };
            let mut decided = self.clone();
            decided.pending.push_back((left, who));
            next.push(decided);
        }
        next
    }

    fn check(&self, sendables: &[Sendable], winners: &mut BTreeSet<usize>) {
        let orders = self.committed.rows.scan(&Table::Orders.prefix()).unwrap();
        assert!(orders.len() <= 1, "two settlements of one unit");
        for who in &self.heard {
            let Some(order) = &sendables[*who].order else {
                continue;
            };
            let found = self.committed.rows.find(&Table::Orders.key(order));
            assert!(found.is_some(), "an acknowledged settlement was lost");
            winners.insert(*who);
        }
    }
}

#[test]
fn no_order_of_steps_and_crashes_sells_a_unit_twice_or_loses_a_sale() {
    // VC-SET-5, VC-IDEM-1, VC-IDEM-4, VC-PIPE-2, CH-NET-3, VC-OBJ-PurchaseMandate-2
    let (desk, sendables) = scene();
    let settings = desk.host.settings().clone();
    let start = State {
        committed: Left {
            rows: desk.host.rows().clone(),
            lines: lines(desk.host.units()).len() as u64,
        },
        pending: VecDeque::new(),
        heard: BTreeSet::new(),
    };
    let mut seen = BTreeSet::from([start.id()]);
    let mut queue = VecDeque::from([start]);
    let mut winners = BTreeSet::new();
    while let Some(state) = queue.pop_front() {
        state.check(&sendables, &mut winners);
        for next in state.successors(&sendables, &settings) {
            if seen.insert(next.id()) {
                queue.push_back(next);
            }
        }
    }
    tell(&format!(
        "{} states: two sessions, one unit of stock, one mandate for two certificates",
        seen.len()
    ));
    let settlements = sendables.iter().filter(|sendable| sendable.order.is_some());
    assert_eq!(winners.len(), settlements.count(), "each of them may win");
}
