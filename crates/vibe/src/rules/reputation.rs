//! Reputation: written by one role alone, on evidence, within 0 to 1000 (VC-REP-1, VC-REP-2).

use chancery_core::decision::Stop;
use chancery_core::json::Place;
use serde::Serialize;

use super::batch::REPUTATION;
use super::diff::Diff;
use super::turn::{Child, Effect, Turn};
use crate::action::Action;
use crate::code::{Code, Fault};
use crate::world::rows::{ReputationRow, Table};

/// A merchant's score as it will be.
pub(super) struct Standing {
    row: ReputationRow,
    delta: i64,
}

#[derive(Serialize)]
struct UpdateReputation<'p> {
    delta: i64,
    evidence: &'p [String],
    reason: &'p str,
    subject: &'p str,
}

/// Plans a change of a merchant's score; none when it changes by nothing.
pub(super) fn plan(
    turn: &Turn<'_, '_>,
    merchant_id: &str,
    delta: i64,
) -> Result<Option<Standing>, Stop> {
    if delta == 0 {
        return Ok(None);
    }
    let row: Option<ReputationRow> = turn.cx.row(&Table::Reputation.key(merchant_id))?;
    let row = row.ok_or_else(|| Code::InvariantViolation.stop())?;
    Ok(Some(Standing::after(row, delta)))
}

impl Standing {
    /// The score moves by what is left up to its bounds: the applied delta, not the requested one.
    fn after(mut row: ReputationRow, delta: i64) -> Self {
        let before = row.score;
        row.score = before.saturating_add(delta).clamp(0, 1_000);
        Self {
            delta: row.score - before,
            row,
        }
    }

    /// Writes it inside another action's batch: `world.update_reputation`.
    pub(super) fn write(
        self,
        turn: &mut Turn<'_, '_>,
        reason: &str,
        evidence: &[String],
        diff: &mut Diff,
    ) -> Result<Child, Stop> {
        let payload = UpdateReputation {
            delta: self.delta,
            evidence,
            reason,
            subject: &self.row.merchant_id,
        };
        let child = Child::new(Action::UpdateReputation, REPUTATION, &payload);
        self.apply(turn, diff)?;
        Ok(child)
    }

    fn apply(self, turn: &mut Turn<'_, '_>, diff: &mut Diff) -> Result<(), Stop> {
        assert!(
            (0..=1_000).contains(&self.row.score),
            "a score is within its bounds"
        );
        let merchant_id = self.row.merchant_id.clone();
        diff.ops
            .put_row(Table::Reputation, &merchant_id, self.row, turn.cx)
    }
}

/// `world.update_reputation`, sent by the platform's keeper of reputation.
pub(super) fn update(
    turn: &mut Turn<'_, '_>,
    subject: &str,
    delta: i64,
    evidence: &[String],
) -> Result<Effect, Stop> {
    let row: Option<ReputationRow> = turn.cx.row(&Table::Reputation.key(subject))?;
    let Some(row) = row else {
        let action = Place::ROOT.child("action");
        let payload = action.child("payload");
        let fault = Fault::at(Code::MalformedPayload, &payload.child("subject"));
        return Err(fault.into_refusal("payload").into());
    };
    turn.check_evidence(evidence)?;
    let mut diff = Diff::default();
    Standing::after(row, delta).apply(turn, &mut diff)?;
    Ok(Effect::of(diff))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rules::turn::with_turn;

    fn row(score: i64) -> ReputationRow {
        ReputationRow {
            merchant_id: "m".to_owned(),
            score,
        }
    }

    fn write(score: i64) {
        let standing = Standing {
            row: row(score),
            delta: 1,
        };
        with_turn(|turn| {
            let _ = standing.write(turn, "seen", &[], &mut Diff::default());
        });
    }

    // VC-REP-2, VC-ACT-world-4
    #[test]
    #[should_panic(expected = "a score is within its bounds")]
    fn a_score_above_its_bounds_stops_the_node() {
        write(1_001);
    }

    // VC-REP-2, VC-ACT-world-4
    #[test]
    #[should_panic(expected = "a score is within its bounds")]
    fn a_score_below_its_bounds_stops_the_node() {
        write(-1);
    }

    // VC-REP-2
    #[test]
    fn a_score_ends_at_its_bounds_and_tells_by_how_much_it_moved() {
        for (score, delta, after, moved) in [
            (700, 40, 740, 40),
            (990, 40, 1_000, 10),
            (1_000, 1, 1_000, 0),
            (30, -1_000, 0, -30),
            (500, i64::MIN, 0, -500),
            (500, i64::MAX, 1_000, 500),
        ] {
            let standing = Standing::after(row(score), delta);
            assert_eq!((standing.row.score, standing.delta), (after, moved));
            write(standing.row.score);
        }
    }
}
