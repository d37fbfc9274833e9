//! The chain of an ordered pair: strictly one more each time, each naming the one before (section 8).
//!
//! The pair's row is read, checked and written within one decision, and decisions are made one after the other: of
//! any number of envelopes that claim one place, one is accepted (VA-REP-4). There is no way back: nothing here resets
//! a chain (VA-SRV-13).

use bytes::Bytes;
use chancery_core::decision::{Cx, Stop};
use chancery_core::fault;
use chancery_core::line::Seq;
use chancery_core::rows::RowKey;
use serde::{Deserialize, Serialize};

use crate::envelope::{EMPTY_PREV_HASH, Envelope, EnvelopeHash, MAX_SEQUENCE_NO, Verified};
use crate::error::ProtocolError;
use crate::id::VacantId;
use crate::payload::Profile;

/// Where a chain stands (VA-REP-1).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReplayState {
    /// The number of the last accepted envelope, 0 when there is none.
    #[serde(rename = "last")]
    pub last_sequence_no: u64,
    /// Its hash.
    #[serde(rename = "tip")]
    pub chain_tip: EnvelopeHash,
}

impl Default for ReplayState {
    fn default() -> Self {
        Self {
            last_sequence_no: 0,
            chain_tip: EMPTY_PREV_HASH,
        }
    }
}

impl ReplayState {
    /// The number and the hash must be the next ones, checked in this order (VA-REP-3).
    pub fn check(&self, sequence_no: u64, prev: &EnvelopeHash) -> Result<(), ProtocolError> {
        let is_gap = sequence_no > self.last_sequence_no.saturating_add(1);
        let is_tolerated = (is_gap && fault::on("va-gap-accepted"))
            || (sequence_no < self.last_sequence_no && fault::on("va-replay-accepted"));
        if is_tolerated {
            return Ok(());
        }
        if self.last_sequence_no.checked_add(1) != Some(sequence_no) {
            return Err(ProtocolError::ReplayDetected {
                last_sequence_no: self.last_sequence_no,
            });
        }
        if *prev != self.chain_tip && !fault::on("va-fork-accepted") {
            return Err(ProtocolError::ChainFork);
        }
        Ok(())
    }

    /// `check_and_advance` (VA-REP-2): on failure nothing changes.
    pub fn check_and_advance(
        &mut self,
        envelope: &Envelope,
        hash: EnvelopeHash,
    ) -> Result<(), ProtocolError> {
        self.check(envelope.sequence_no, &envelope.prev)?;
        *self = Self {
            last_sequence_no: envelope.sequence_no,
            chain_tip: hash,
        };
        Ok(())
    }

    /// The number of the next envelope.
    pub fn next_sequence_no(&self) -> Result<u64, ProtocolError> {
        let next = self.last_sequence_no.checked_add(1);
        next.filter(|next| *next <= MAX_SEQUENCE_NO)
            .ok_or(ProtocolError::Overloaded("the chain has no number left"))
    }
}

/// The row of a pair: where its chain stands, and what waits for or answers its last envelope.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Pair {
    /// Where the chain stands.
    #[serde(flatten)]
    pub state: ReplayState,
    /// The line of the last accepted call.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub call: Option<Seq>,
    /// The line of its answer, for the caller who lost it (VA-SRV-12).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub answer: Option<Seq>,
    /// A call of ours that its target has not accepted for certain, with the state to go back to (VA-DSP-10).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pending: Option<Pending>,
    /// The profile that the last envelope verified in (VA-MSG-8).
    #[serde(default, skip_serializing_if = "is_base")]
    pub profile: Profile,
}

/// A call of ours on its way.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Pending {
    /// Its line.
    pub line: Seq,
    /// Where the chain stood before it.
    pub before: ReplayState,
}

#[expect(
    clippy::trivially_copy_pass_by_ref,
    reason = "serde passes a reference"
)]
fn is_base(profile: &Profile) -> bool {
    *profile == Profile::Base
}

/// The row of a pair.
pub fn pair_key(from: &VacantId, to: &VacantId) -> RowKey {
    RowKey::new("va-pair", &[from.as_bytes(), to.as_bytes()])
}

/// The prefix of the rows of all chains that a vacant sends on.
pub fn pairs_prefix(from: &VacantId) -> RowKey {
    RowKey::new("va-pair", &[from.as_bytes()])
}

/// The prefix of the rows of all chains.
pub fn all_pairs_prefix() -> RowKey {
    RowKey::new("va-pair", &[])
}

/// The row of one accepted envelope (VA-REP-7): never read by a rule, kept for whoever asks the index.
pub fn accepted_key(from: &VacantId, to: &VacantId, sequence_no: u64) -> RowKey {
    let number = format!("{sequence_no:019}");
    RowKey::text("replay_protect", &[&from.hex(), &to.hex(), &number])
}

/// A pair's row.
pub fn pair(cx: &Cx<'_>, from: &VacantId, to: &VacantId) -> Result<Pair, Stop> {
    Ok(cx.row(&pair_key(from, to))?.unwrap_or_default())
}

/// Writes a pair's row after its chain advanced to an envelope.
pub fn put_advanced(envelope: &Envelope, verified: Verified, pair: &mut Pair, cx: &mut Cx<'_>) {
    pair.profile = verified.profile;
    let tip = Bytes::copy_from_slice(verified.hash.as_bytes());
    let key = accepted_key(&envelope.from, &envelope.to, envelope.sequence_no);
    cx.put_bytes(key, tip);
    cx.put(pair_key(&envelope.from, &envelope.to), pair);
}
