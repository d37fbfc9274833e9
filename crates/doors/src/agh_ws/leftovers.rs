//! Peers on record as connected that no node is connected with: the node that was is gone.
//!
//! Whoever has the duties sees them out. It goes by what the nodes tell each other, and that may be lost or late; so a peer
//! has to be missed again and again. Should one be seen out that is still connected, its node closes the connection, and it
//! comes back.

use std::sync::Weak;
use std::time::Duration;

use chancery_agh::peer::PeerRecord;
use chancery_node::Office;
use hashbrown::HashMap;
use tokio::time::MissedTickBehavior;

use super::connected::{claim, subject_of};
use crate::ws::{SILENCE, Switchboard};

/// How often they are looked for.
const LOOK_EVERY: Duration = Duration::from_secs(5);
/// Who was missed at so many looks in a row is gone: for twice the time after which a silent node has no connections.
/// Looks are counted and not time, because a node that was paused has heard of nobody meanwhile.
const MISSED_AT_MOST: u64 = 2 * SILENCE.as_secs() / LOOK_EVERY.as_secs();

/// Looks for them as long as there is a node.
pub(crate) async fn see_them_out(switchboard: Weak<Switchboard>, office: Weak<Office>) {
    let mut look = tokio::time::interval(LOOK_EVERY);
    look.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut missed = Missed::default();
    loop {
        look.tick().await;
        let (Some(switchboard), Some(office)) = (switchboard.upgrade(), office.upgrade()) else {
            return;
        };
        let is_on_duty = *office.on_duty().borrow();
        if !is_on_duty {
            missed.0.clear();
            continue;
        }
        let of = office.clone();
        let Ok(Ok(peers)) = tokio::task::spawn_blocking(move || of.agh_peers()).await else {
            continue;
        };
        let is_missed = |peer: &&PeerRecord| peer.connected && !switchboard.has_peer(peer);
        let now = peers.iter().filter(is_missed).map(PeerRecord::address);
        for address in missed.look(now.collect()) {
            tracing::info!(peer = address, "the node of a connected peer is gone");
            if let Err(error) = office.agh_leave(&address).await {
                tracing::warn!(%error, "a peer that is gone could not be taken off the record");
            }
        }
    }
}

impl Switchboard {
    /// Whether a peer is connected, to this node or to another that was heard of lately.
    fn has_peer(&self, peer: &PeerRecord) -> bool {
        let subject = subject_of(peer);
        self.connected.has(&subject) || self.elsewhere.find(&claim(&subject)).is_some()
    }
}

/// How often each was missed in a row.
#[derive(Default)]
struct Missed(HashMap<String, u64>);

impl Missed {
    /// These are missed now; gives those that are gone.
    fn look(&mut self, now: Vec<String>) -> Vec<String> {
        let times = |address: String| {
            let before = self.0.get(&address).copied().unwrap_or(0);
            (address, before + 1)
        };
        self.0 = now.into_iter().map(times).collect();
        let gone = self.0.extract_if(|_, times| *times > MISSED_AT_MOST);
        gone.map(|(address, _)| address).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_is_missed_again_and_again_is_gone_and_who_is_heard_of_once_is_not() {
        // AG-DLV-4, CH-JRN-5
        let mut missed = Missed::default();
        let both = || vec!["works/a".to_owned(), "works/b".to_owned()];
        for _ in 0..MISSED_AT_MOST {
            assert!(missed.look(both()).is_empty());
        }
        // One was heard of in between.
        assert_eq!(missed.look(vec!["works/a".to_owned()]), ["works/a"]);
        assert!(missed.look(both()).is_empty(), "they begin anew");
    }
}
