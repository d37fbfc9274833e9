//! Frames of one connection on their way through the node: in order, no more at once than allowed.

use std::sync::Arc;

use bytes::Bytes;
use chancery_agh::answer::{Outcome, Verdict};
use chancery_agh::fault::{ErrorName, Stage};
use chancery_agh::peer::PeerRecord;
use chancery_node::{AghRead, Office};
use futures_util::StreamExt as _;
use futures_util::future::BoxFuture;
use futures_util::stream::{FuturesOrdered, FuturesUnordered};

/// Frames under way.
pub(super) struct Frames {
    office: Arc<Office>,
    record: Arc<PeerRecord>,
    reading: FuturesOrdered<BoxFuture<'static, AghRead>>,
    deciding: FuturesUnordered<BoxFuture<'static, Outcome>>,
}

impl Frames {
    pub(super) fn new(office: Arc<Office>, record: Arc<PeerRecord>) -> Self {
        Self {
            office,
            record,
            reading: FuturesOrdered::new(),
            deciding: FuturesUnordered::new(),
        }
    }

    /// How many are under way.
    pub(super) fn len(&self) -> usize {
        self.reading.len() + self.deciding.len()
    }

    /// Takes a frame in.
    pub(super) fn push(&mut self, frame: Bytes) {
        let (office, record) = (Arc::clone(&self.office), Arc::clone(&self.record));
        let read = async move { office.read_agh_of(frame, &record).await };
        self.reading.push_back(Box::pin(read));
    }

    /// What became of the next frame that is decided; waits for ever while none is under way.
    pub(super) async fn next(&mut self) -> Outcome {
        loop {
            tokio::select! {
                biased;
                Some(read) = self.reading.next(), if !self.reading.is_empty() => {
                    let office = Arc::clone(&self.office);
                    let decide = async move { office.decide_agh(read).await };
                    self.deciding.push(Box::pin(decide));
                }
                Some(outcome) = self.deciding.next(), if !self.deciding.is_empty() => {
                    return outcome;
                }
                else => std::future::pending().await,
            }
        }
    }
}

/// What the peer is told about a frame; nothing about one that counts, unless it asked for that.
pub(super) fn told(outcome: &Outcome, always: bool) -> Option<String> {
    if outcome.verdict == Verdict::Accept && !always {
        return None;
    }
    String::from_utf8(outcome.to_json(true)).ok()
}

/// Whether a frame counts towards the end of the connection: it is not the peer's, or wrong in itself (steps 1 to 4).
/// What this node was too busy for does not.
pub(super) fn is_bad(outcome: &Outcome) -> bool {
    outcome.verdict == Verdict::Reject
        && outcome
            .fault
            .as_ref()
            .is_some_and(|fault| fault.stage < Stage::Routing && fault.error != ErrorName::Busy)
}
