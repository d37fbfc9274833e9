//! Order per sender and recipient: a message is first attempted after the first attempt of the one before it has ended
//! (VX-ORD-3). What is exempt has a lane of its own, so it waits for nothing but its like.

use std::sync::{Arc, Mutex, PoisonError};

use chancery_core::delivery::Delivery;
use hashbrown::HashMap;
use tokio::sync::watch;

/// Whose order: sender, recipient, exempt or not.
pub(super) type Lane = (String, String, bool);

/// The last one of each lane whose first attempt has not ended.
#[derive(Default)]
pub(super) struct Turns {
    last: Mutex<Last>,
}

#[derive(Default)]
struct Last {
    of: HashMap<Lane, (u64, watch::Receiver<()>)>,
    next: u64,
}

/// A message's place in its lanes; it ends when this is dropped.
pub(super) struct Turn {
    turns: Arc<Turns>,
    number: u64,
    lanes: Vec<Lane>,
    before: Vec<watch::Receiver<()>>,
    _ends: watch::Sender<()>,
}

impl Turns {
    /// Lines up behind what is there already, in the lane of each recipient at once.
    pub(super) fn line_up<'d>(
        self: &Arc<Self>,
        deliveries: impl Iterator<Item = &'d Delivery>,
    ) -> Turn {
        let (ends, ended) = watch::channel(());
        let mut last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        let number = last.next;
        last.next += 1;
        let mut turn = Turn {
            turns: Arc::clone(self),
            number,
            lanes: Vec::new(),
            before: Vec::new(),
            _ends: ends,
        };
        for delivery in deliveries {
            let lane = (delivery.from.clone(), delivery.to.clone(), delivery.exempt);
            let before = last.of.insert(lane.clone(), (number, ended.clone()));
            turn.before.extend(before.map(|(_, ended)| ended));
            turn.lanes.push(lane);
        }
        turn
    }
}

impl Turn {
    /// Returns when the first attempts of all before it have ended.
    pub(super) async fn comes(&mut self) {
        for mut before in std::mem::take(&mut self.before) {
            // Nothing is ever sent: the end is that the sender is gone.
            while before.changed().await.is_ok() {}
        }
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        let mut last = self
            .turns
            .last
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        for lane in &self.lanes {
            if last
                .of
                .get(lane)
                .is_some_and(|(number, _)| *number == self.number)
            {
                last.of.remove(lane);
            }
        }
    }
}
