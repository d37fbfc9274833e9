//! The loss test: a network that drops, repeats and reorders, nodes that crash, clocks that disagree (VX-TST-3).
//!
//! What runs is the node's own gate, rules, outbox, timers and store; sockets, disk and time are replaced. A failure
//! names its seed; `cargo xtask sim --seed N` runs that one again. `CHANCERY_SIM_SEEDS` says how many seeds are
//! tried, `CHANCERY_SIM_FIRST` the first of them.

mod network;
mod story;
mod world;

use story::Story;

/// What a run does without, to see that the checks miss it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Without {
    /// Identifiers are forgotten at once.
    Dedupe,
    /// A duplicate escalation gets no second acknowledgement.
    RepeatedAcknowledgements,
    /// There is nobody after the parent.
    EscalationPath,
}

fn number(name: &str, otherwise: u64) -> u64 {
    std::env::var(name).map_or(otherwise, |text| text.parse().expect(name))
}

/// Plays the story of a seed; what went wrong in it.
fn play(seed: u64, without: Option<Without>) -> Vec<String> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .start_paused(true)
        .build()
        .unwrap();
    runtime.block_on(Story::new(seed, without).play())
}

// VX-TST-3, VX-DUP-1, VX-ACK-4, VX-ACK-7, VX-RUN-3
#[test]
fn every_escalation_is_acknowledged_or_reported_and_nothing_is_processed_twice() {
    let first = number("CHANCERY_SIM_FIRST", 0);
    for seed in first..first + number("CHANCERY_SIM_SEEDS", 1_000) {
        let faults = play(seed, None);
        assert!(faults.is_empty(), "seed {seed}: {faults:#?}");
    }
}

fn is_missed(without: Without) {
    let found = (0..200).any(|seed| !play(seed, Some(without)).is_empty());
    assert!(found, "200 seeds pass without {without:?}");
}

#[test]
fn without_dedupe_it_fails() {
    is_missed(Without::Dedupe);
}

#[test]
fn without_repeated_acknowledgements_it_fails() {
    is_missed(Without::RepeatedAcknowledgements);
}

#[test]
fn without_the_escalation_path_it_fails() {
    is_missed(Without::EscalationPath);
}
