//! A draw among the requirements that are done: whoever looks whether tests show what they name looks at these.
//!
//! The same seed draws the same ones from the same page, so that two people look at the same.

use super::{Row, State};
use anyhow::{Result, ensure};
use std::fmt::Write as _;

/// What is asked.
#[derive(Debug, PartialEq, Eq)]
pub struct Wanted {
    /// How many.
    pub count: usize,
    pub seed: u64,
}

impl Wanted {
    /// Reads the words behind `--draw`.
    pub fn of(words: &[&str]) -> Option<Self> {
        let (count, seed) = match words {
            [count] => (count, crate::soak::any_seed()),
            [count, "--seed", seed] => (count, seed.parse().ok()?),
            _ => return None,
        };
        Some(Self {
            count: count.parse().ok()?,
            seed,
        })
    }
}

/// The seed, and each drawn requirement with all the tests that name it, in the order of the page.
pub fn drawn(rows: &[Row], wanted: &Wanted) -> Result<String> {
    let mut done: Vec<&Row> = rows.iter().filter(|row| row.state == State::Done).collect();
    let (count, all) = (wanted.count, done.len());
    ensure!(count <= all, "{count} cannot be drawn: {all} are done");
    let mut state = wanted.seed;
    for place in 0..count {
        let left = (all - place) as u64;
        let other = place + usize::try_from(next(&mut state) % left)?;
        done.swap(place, other);
    }
    done.truncate(count);
    done.sort_by_key(|row| rows.iter().position(|known| known.id == row.id));
    let mut told = format!("seed {}: {count} of {all} that are done\n", wanted.seed);
    for row in done {
        write!(told, "\n{}\n", row.id)?;
        for test in &row.tests {
            writeln!(told, "  {test}")?;
        }
    }
    Ok(told)
}

/// SplitMix64.
fn next(state: &mut u64) -> u64 {
    *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let mixed = (*state ^ (*state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^ (mixed >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rows() -> Vec<Row<'static>> {
        let row = |id, state, tests: &[&str]| Row {
            id,
            state,
            tests: tests.iter().map(|test| (*test).to_owned()).collect(),
        };
        vec![
            row("VX-A-1", State::Done, &["a::one", "b::two"]),
            row("VX-A-2", State::NotDone, &[]),
            row("VX-A-3", State::Done, &["c::three"]),
            row("VX-A-4", State::Deviates("So.".to_owned()), &["d::four"]),
            row("VX-A-5", State::Done, &["e::five"]),
        ]
    }

    #[test]
    fn only_what_is_done_is_drawn_with_all_its_tests() {
        let told = drawn(&rows(), &Wanted { count: 3, seed: 7 }).unwrap();
        let expected = "seed 7: 3 of 3 that are done\n\nVX-A-1\n  a::one\n  b::two\n\nVX-A-3\n  c::three\n\n\
                        VX-A-5\n  e::five\n";
        assert_eq!(told, expected);
        assert!(drawn(&rows(), &Wanted { count: 4, seed: 7 }).is_err());
    }

    #[test]
    fn a_seed_draws_the_same_and_another_may_draw_others() {
        let one = |seed| drawn(&rows(), &Wanted { count: 1, seed }).unwrap();
        let ids = |seed| one(seed).lines().nth(2).unwrap().to_owned();
        assert_eq!(one(3), one(3));
        let drawn: std::collections::BTreeSet<String> = (0..50).map(ids).collect();
        assert_eq!(drawn.len(), 3, "each of them comes");
    }

    #[test]
    fn the_words_behind_draw() {
        let wanted = Wanted::of(&["40", "--seed", "9"]);
        assert_eq!(wanted, Some(Wanted { count: 40, seed: 9 }));
        assert_eq!(Wanted::of(&["40"]).unwrap().count, 40);
        assert_eq!(Wanted::of(&["many"]), None);
        assert_eq!(Wanted::of(&["40", "--seed"]), None);
    }
}
