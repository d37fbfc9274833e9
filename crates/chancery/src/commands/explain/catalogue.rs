//! All codes: those of every crate that has some, and the program's own exit codes.

use chancery_core::guide::Guide;

use crate::exit::Exit;

/// Every code, group by group.
pub(super) fn all() -> Vec<Guide> {
    let mut all = chancery_value_context::guide::guides();
    all.extend(chancery_vibe::guide::guides());
    all.extend(chancery_vacant::guide::guides());
    all.extend(chancery_agh::guide::guides());
    all.extend(chancery_doors::guide::guides());
    all.extend(chancery_core::guide::guides());
    all.extend(chancery_node::guide::guides());
    all.extend(chancery_agents::guide::guides());
    all.extend(Exit::ALL.map(of_exit));
    all
}

/// The groups in the order of their first codes, each with its codes.
pub(super) fn groups(all: &[Guide]) -> Vec<(&'static str, Vec<&Guide>)> {
    let mut groups: Vec<(&'static str, Vec<&Guide>)> = Vec::new();
    for guide in all {
        match groups.iter_mut().find(|(group, _)| *group == guide.group) {
            Some((_, guides)) => guides.push(guide),
            None => groups.push((guide.group, vec![guide])),
        }
    }
    groups
}

fn of_exit(exit: Exit) -> Guide {
    let (code, when, next) = match exit {
        Exit::Done => ("0", "Done.", "Nothing."),
        Exit::No => (
            "1",
            "The answer is no: rejected, diverged, not valid.",
            "What is printed says why; a code in it can be explained.",
        ),
        Exit::Usage => (
            "2",
            "Wrong usage or configuration.",
            "The message names the argument or the key; `chancery COMMAND --help` and `chancery config check` help.",
        ),
        Exit::Damaged => (
            "3",
            "Damaged data: the log, the index or a write to them cannot be trusted.",
            "The message names file and line; `chancery doctor` and `chancery log verify` look closer.",
        ),
    };
    Guide {
        group: "exit codes of the program",
        code,
        status: None,
        wire: None,
        again: false,
        requirement: "CH-CLI-1",
        when,
        next,
    }
}
