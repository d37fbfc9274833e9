//! What the log teaches about vacants: outcomes of calls that ours made, and reviews (section 15).

use chancery_core::decision::{Cx, Stop};
use chancery_core::refusal::Refusal;
use chancery_core::rows::RowKey;
use chancery_core::time::Time;

use crate::act::Review;
use crate::id::VacantId;
use crate::reputation::{Dimension, Reputation};

/// How much the outcome of one call counts.
const OUTCOME_WEIGHT: f64 = 1.0;

/// How a call ended for the one who made it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Outcome {
    /// With an answer.
    Answered,
    /// Without one.
    Failed,
}

/// The row of what is known about a vacant.
pub fn reputation_key(id: &VacantId) -> RowKey {
    RowKey::new("va-reputation", &[id.as_bytes()])
}

/// The prefix of all of them.
pub fn reputations_prefix() -> RowKey {
    RowKey::new("va-reputation", &[])
}

/// Learns from the outcome of a call that a hosted vacant made of another one: an answer is use. What strangers get
/// out of our vacants says nothing here, and nobody judges itself.
pub(super) fn judge(
    caller: &VacantId,
    target: &VacantId,
    outcome: Outcome,
    cx: &mut Cx<'_>,
) -> Result<(), Stop> {
    if caller == target {
        return Ok(());
    }
    let signal = match outcome {
        Outcome::Answered => 1.0,
        Outcome::Failed => 0.0,
    };
    learn(target, Dimension::Adoption, signal, OUTCOME_WEIGHT, cx)
}

/// Learns from a review.
pub(super) fn review(review: &Review, cx: &mut Cx<'_>) -> Result<(), Stop> {
    learn(&review.of, review.dim, review.signal, review.weight, cx)
}

fn learn(
    of: &VacantId,
    dim: Dimension,
    signal: f64,
    weight: f64,
    cx: &mut Cx<'_>,
) -> Result<(), Stop> {
    let key = reputation_key(of);
    let mut reputation: Reputation = cx.row(&key)?.unwrap_or_default();
    reputation
        .update(dim, signal, weight, seconds(cx.now()))
        .map_err(|error| {
            let mut refusal = Refusal::new("REVIEW_NOT_ALLOWED", 400, "VA-UCB-2", "");
            refusal.message = error.to_string().into();
            refusal
        })?;
    cx.put(key, &reputation);
    Ok(())
}

/// Seconds since 1970; fractions do not matter to half-lives of days.
#[expect(clippy::cast_precision_loss, reason = "seconds fit a double")]
fn seconds(time: Time) -> f64 {
    time.unix_seconds() as f64
}
