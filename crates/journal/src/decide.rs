//! The one place where a suite's rules run: live, in recovery and in replay.

use chancery_core::decision::{Aside, Before, Cx, Stop, Unit, Verdict};
use chancery_core::delivery::Delivery;
use chancery_core::line::Seq;
use chancery_core::protocol::Suite;
use chancery_core::refusal::Refusal;
use chancery_core::rows::{RowKey, RowsDamaged};
use chancery_core::time::Time;

/// What became of an input.
#[derive(Debug)]
pub enum Outcome<A> {
    /// A unit for the log.
    Recorded {
        /// Its lines, row changes and deliveries.
        unit: Unit,
        /// What the sender is told once the unit is durable.
        answer: A,
        /// What is said besides.
        aside: Aside,
    },
    /// Nothing to record.
    Passed {
        /// What the sender is told.
        answer: A,
        /// Lines to be delivered once more: the same bytes to the same recipient.
        repeat: Vec<(Seq, Delivery)>,
        /// What is said besides.
        aside: Aside,
    },
    /// The input is refused.
    Refused {
        /// Why.
        refusal: Refusal,
        /// What is said besides.
        aside: Aside,
    },
    /// Rows that are not in memory: fetch them and decide again. Nothing of this decision stays.
    Missing(Vec<RowKey>),
    /// The node's own data cannot be read.
    Damaged(RowsDamaged),
}

/// Decides one input on what is before it.
///
/// `by_position` is the journal's time so far. A unit whose first line carries no decision time is decided at it,
/// whatever the clock says: replay knows no other, and no rule may depend on what the log does not hold (CH-JRN-12).
pub fn decide_input<S: Suite>(
    suite: &S,
    input: &S::Input,
    settings: &S::Settings,
    by_position: Time,
    before: Before<'_>,
) -> Outcome<S::Answer> {
    let Before {
        now,
        seq,
        rows,
        windows,
        guards,
        nonce,
        keeps_agenda,
    } = before;
    let outcome = decide_once(
        suite,
        input,
        settings,
        Before {
            now,
            seq,
            rows,
            windows,
            guards: &mut *guards,
            nonce,
            keeps_agenda,
        },
    );
    let has_no_time =
        matches!(&outcome, Outcome::Recorded { unit, .. } if unit.drafts[0].eval_ts.is_none());
    if !has_no_time || now == by_position {
        return outcome;
    }
    let before = Before {
        now: by_position,
        seq,
        rows,
        windows,
        guards,
        nonce,
        keeps_agenda,
    };
    decide_once(suite, input, settings, before)
}

fn decide_once<S: Suite>(
    suite: &S,
    input: &S::Input,
    settings: &S::Settings,
    before: Before<'_>,
) -> Outcome<S::Answer> {
    let mut cx = Cx::new(before);
    match suite.decide(input, settings, &mut cx) {
        Ok(Verdict::Record { answer }) => match cx.into_unit() {
            Ok((unit, aside)) => Outcome::Recorded {
                unit,
                answer,
                aside,
            },
            Err(stop) => stopped(stop, Aside::default()),
        },
        Ok(Verdict::Pass { answer, repeat }) => Outcome::Passed {
            answer,
            repeat,
            aside: cx.into_aside(),
        },
        Err(stop) => stopped(stop, cx.into_aside()),
    }
}

fn stopped<A>(stop: Stop, aside: Aside) -> Outcome<A> {
    match stop {
        Stop::Refused(refusal) => Outcome::Refused { refusal, aside },
        Stop::Missing(keys) => Outcome::Missing(keys),
        Stop::Damaged(damage) => Outcome::Damaged(damage),
    }
}
