//! Requirement ids in text: `VX-DUP-1` is not found in `VX-DUP-10`.

/// The ids of a list, one a line.
pub fn listed(list: &str) -> impl Iterator<Item = &str> {
    list.lines().map(str::trim).filter(|line| !line.is_empty())
}

/// Whether the text names the id, as a whole.
pub fn is_cited(text: &str, id: &str) -> bool {
    stands_alone(
        text,
        id,
        |c| c.is_alphanumeric() || c == '-' || c == '_',
        |c| c.is_alphanumeric() || c == '_',
    )
}

/// Whether a function's name holds the id, written as names are: `vx_dup_1_is_refused`.
pub fn is_in_name(name: &str, id: &str) -> bool {
    let as_name = id.to_lowercase().replace(['-', '.'], "_");
    stands_alone(name, &as_name, char::is_alphanumeric, char::is_alphanumeric)
}

fn stands_alone(
    text: &str,
    word: &str,
    joins_before: fn(char) -> bool,
    joins_after: fn(char) -> bool,
) -> bool {
    text.match_indices(word).any(|(at, _)| {
        let before = text[..at].chars().next_back();
        let after = text[at + word.len()..].chars().next();
        !before.is_some_and(joins_before) && !after.is_some_and(joins_after)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_is_found_as_a_whole_only() {
        for text in [
            "VX-DUP-1",
            "// VX-DUP-1: refused",
            "(VX-DUP-1)",
            "VX-DUP-1/2",
            "VX-DUP-1.",
            "x\nVX-DUP-1\n",
        ] {
            assert!(is_cited(text, "VX-DUP-1"), "{text}");
        }
        for text in [
            "VX-DUP-10",
            "AVX-DUP-1",
            "A-VX-DUP-1",
            "VX-DUP-1_b",
            "vx-dup-1",
            "VX-DUP",
        ] {
            assert!(!is_cited(text, "VX-DUP-1"), "{text}");
        }
        assert!(is_cited("`VC-ACT-a.b_c-1` x", "VC-ACT-a.b_c-1"));
    }

    #[test]
    fn a_function_name_may_hold_an_id() {
        assert!(is_in_name("vx_dup_1_is_refused", "VX-DUP-1"));
        assert!(is_in_name("shows_vx_dup_1", "VX-DUP-1"));
        assert!(is_in_name("vc_act_world_debit_1", "VC-ACT-world.debit-1"));
        assert!(!is_in_name("vx_dup_10", "VX-DUP-1"));
        assert!(!is_in_name("avx_dup_1", "VX-DUP-1"));
    }
}
