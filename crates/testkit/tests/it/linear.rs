//! The judge of histories: what can have happened in one order is told from what cannot.

use chancery_testkit::linear::{Operation, Register, is_linearizable};

/// A number that is read, written, and changed from one value to another.
struct Number;

#[derive(Clone, Copy, Debug)]
enum Op {
    Read,
    Write(u32),
    /// From one value to another, if it is the first.
    Swap(u32, u32),
}

impl Register for Number {
    type State = u32;
    type Op = Op;
    /// What was read; for a swap 1 if it was made, else 0.
    type Told = u32;

    fn begin(&self) -> u32 {
        0
    }

    fn after(&self, state: &u32, op: &Op, told: Option<&u32>) -> Option<u32> {
        let (answer, next) = match *op {
            Op::Read => (*state, *state),
            Op::Write(value) => (value, value),
            Op::Swap(from, to) if from == *state => (1, to),
            Op::Swap(..) => (0, *state),
        };
        told.is_none_or(|told| *told == answer).then_some(next)
    }
}

fn judged(history: &[(Op, Option<u32>, u64, u64)]) -> bool {
    let operation = |(op, told, begun, ended): &(Op, Option<u32>, u64, u64)| Operation {
        op: *op,
        told: *told,
        begun: *begun,
        ended: *ended,
    };
    is_linearizable(&Number, history.iter().map(operation).collect())
}

#[test]
fn operations_at_the_same_time_may_have_happened_either_way() {
    assert!(judged(&[]));
    for read in [0, 7] {
        assert!(judged(&[
            (Op::Write(7), Some(7), 1, 4),
            (Op::Read, Some(read), 2, 3)
        ]));
    }
    // The later to begin was first.
    assert!(judged(&[
        (Op::Write(1), Some(1), 1, 10),
        (Op::Write(2), Some(2), 2, 3),
        (Op::Read, Some(2), 4, 5),
        (Op::Read, Some(1), 6, 7),
    ]));
}

#[test]
fn a_read_of_an_old_moment_is_found() {
    assert!(!judged(&[
        (Op::Write(7), Some(7), 1, 2),
        (Op::Read, Some(0), 3, 4)
    ]));
    // What one has read another must not read away again.
    assert!(!judged(&[
        (Op::Write(7), Some(7), 1, 10),
        (Op::Read, Some(7), 2, 3),
        (Op::Read, Some(0), 4, 5),
    ]));
}

#[test]
fn of_two_swaps_from_one_value_one_can_have_been_made() {
    let swaps = |second| {
        judged(&[
            (Op::Swap(0, 1), Some(1), 1, 4),
            (Op::Swap(0, 2), Some(second), 2, 3),
        ])
    };
    assert!(swaps(0));
    assert!(!swaps(1), "both were told that they were first");
    // Nobody was first: each was told that another had been.
    assert!(!judged(&[
        (Op::Swap(0, 1), Some(0), 1, 4),
        (Op::Swap(0, 2), Some(0), 2, 3)
    ]));
}

#[test]
fn an_operation_without_an_answer_happened_once_or_never() {
    let lost = (Op::Swap(0, 1), None, 1, 0);
    assert!(judged(&[lost, (Op::Read, Some(0), 5, 6)]));
    assert!(judged(&[lost, (Op::Read, Some(1), 5, 6)]));
    // Also late: after the one who asked had given up.
    assert!(judged(&[
        lost,
        (Op::Read, Some(0), 5, 6),
        (Op::Read, Some(1), 7, 8)
    ]));
    // Once it has happened it does not happen again.
    assert!(!judged(&[
        lost,
        (Op::Read, Some(1), 5, 6),
        (Op::Write(0), Some(0), 7, 8),
        (Op::Read, Some(1), 9, 10),
    ]));
    // It cannot have happened before it was asked for.
    assert!(!judged(&[
        (Op::Read, Some(1), 1, 2),
        (Op::Swap(0, 1), None, 3, 0)
    ]));
}

#[test]
fn long_histories_of_many_at_once_are_judged() {
    // Eight at a time, each round a swap that one of them makes; many rounds, so that trying every order is hopeless.
    let round = |n: u32| {
        (0..8).map(move |writer| {
            let won = u32::from(writer == n % 8);
            let at = u64::from(n) * 10;
            (
                Op::Swap(n, n + 1),
                Some(won),
                at + u64::from(writer),
                at + 9,
            )
        })
    };
    let mut history: Vec<_> = (0..300).flat_map(round).collect();
    assert!(judged(&history));
    history[1200].1 = Some(1 - history[1200].1.unwrap());
    assert!(!judged(&history));
}

/// Whether some order of all that was answered, and of any of what was not, gives these answers: every order is tried.
fn judged_by_every_order(history: &[(Op, Option<u32>, u64, u64)], state: u32) -> bool {
    if history.iter().all(|(_, told, ..)| told.is_none()) {
        return true;
    }
    let last_moment = |one: &(Op, Option<u32>, u64, u64)| one.1.map_or(u64::MAX, |_| one.3);
    let first_end = history.iter().map(last_moment).min().unwrap_or(u64::MAX);
    (0..history.len()).any(|n| {
        let (op, told, begun, _) = history[n];
        if begun > first_end {
            return false;
        }
        let Some(state) = Number.after(&state, &op, told.as_ref()) else {
            return false;
        };
        let left = [&history[..n], &history[n + 1..]].concat();
        judged_by_every_order(&left, state)
    })
}

#[test]
fn a_history_is_judged_as_by_trying_every_order() {
    let mut seed: u64 = 20_261_119;
    let mut below = |end: u64| {
        seed = seed
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (seed >> 33) % end
    };
    let mut held = [0, 0];
    for _ in 0..20_000 {
        let operations = 2 + below(4);
        let history: Vec<_> = (0..operations)
            .map(|_| {
                let value = |n| u32::try_from(n).unwrap();
                let (one, other) = (value(below(3)), value(below(3)));
                let (op, told) = match below(3) {
                    0 => (Op::Read, one),
                    1 => (Op::Write(one), one),
                    _ => (Op::Swap(one, other), value(below(2))),
                };
                let begun = below(10);
                let told = (below(4) > 0).then_some(told);
                (op, told, begun, begun + 1 + below(5))
            })
            .collect();
        let expected = judged_by_every_order(&history, 0);
        assert_eq!(judged(&history), expected, "{history:?}");
        held[usize::from(expected)] += 1;
    }
    assert!(held.iter().all(|count| *count > 2_000), "{held:?}");
}

#[test]
fn what_was_never_answered_early_on_does_not_weigh_on_a_long_history() {
    // A hundred that were lost and never happened, then many, two at a time.
    let lost = (0..100).map(|n| (Op::Swap(1_000_000 + n, 0), None, 0, 0));
    let rounds = (0..20_000_u32).flat_map(|n| {
        let at = 1 + u64::from(n) * 10;
        [0, 1].map(|writer| {
            let won = u32::from(u64::from(n % 2) == writer);
            (Op::Swap(n, n + 1), Some(won), at + writer, at + 5)
        })
    });
    let mut history: Vec<_> = lost.chain(rounds).collect();
    assert!(judged(&history));
    history[30_000].1 = Some(1 - history[30_000].1.unwrap());
    assert!(!judged(&history));
}
