//! Host names as both reference grammars of this crate use them.

/// Whether `name` is a DNS name in lower case: labels of 1 to 63 of `a-z 0-9 -` that neither begin nor
/// end with `-`, at most 253 in all, no final dot.
pub(crate) fn is_lower_case_name(name: &str) -> bool {
    name.len() <= 253 && name.split('.').all(is_label)
}

fn is_label(label: &str) -> bool {
    (1..=63).contains(&label.len())
        && label
            .bytes()
            .all(|byte| matches!(byte, b'a'..=b'z' | b'0'..=b'9' | b'-'))
        && !label.starts_with('-')
        && !label.ends_with('-')
}
