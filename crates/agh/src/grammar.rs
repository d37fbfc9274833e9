//! The grammars of names: ASCII only, anchored, nothing trimmed or folded (AG-ENV-18, AG-ENV-22).

/// Characters of a verified handle's fingerprint.
const FINGERPRINT_CHARACTERS: usize = 32;

/// `^[a-z0-9][a-z0-9_-]{0,63}$`
pub fn is_channel(text: &str) -> bool {
    name_of(text, 64, |byte| matches!(byte, b'_' | b'-'))
}

/// `^[a-z0-9][a-z0-9._-]{0,127}$`
pub fn is_peer_id(text: &str) -> bool {
    name_of(text, 128, |byte| matches!(byte, b'.' | b'_' | b'-'))
}

/// The nickname and fingerprint of a verified handle, `nickname@fingerprint` (AG-TRU-3).
pub fn split_handle(text: &str) -> Option<(&str, &str)> {
    let (nickname, fingerprint) = text.split_once('@')?;
    let good_nickname = (1..=32).contains(&nickname.len())
        && nickname
            .bytes()
            .all(|byte| is_lower_alphanumeric(byte) || matches!(byte, b'_' | b'-'));
    let good_fingerprint =
        fingerprint.len() == FINGERPRINT_CHARACTERS && fingerprint.bytes().all(is_lower_hex);
    (good_nickname && good_fingerprint).then_some((nickname, fingerprint))
}

/// A workspace: something visible, without what a subject gives meaning to (AG-B-1).
pub fn is_workspace(text: &str) -> bool {
    let forbidden = |c: char| matches!(c, '.' | '*' | '>') || c.is_whitespace() || c.is_control();
    !text.is_empty() && !text.contains(forbidden)
}

/// `^thread_[a-z0-9][a-z0-9_-]{2,95}$` (AG-B-6)
pub fn is_thread_id(text: &str) -> bool {
    text.strip_prefix("thread_").is_some_and(|rest| {
        rest.len() >= 3 && name_of(rest, 96, |byte| matches!(byte, b'_' | b'-'))
    })
}

/// `^direct_[a-f0-9]{32}$` (AG-B-7)
pub fn is_direct_id(text: &str) -> bool {
    text.strip_prefix("direct_")
        .is_some_and(|rest| rest.len() == 32 && rest.bytes().all(is_lower_hex))
}

/// What a receiver takes for a work (AG-B-8).
pub fn is_work_id(text: &str) -> bool {
    text.len() <= 128
        && !is_blank(text)
        && !text.contains(|c: char| matches!(c, '/' | '\\') || c.is_control())
}

/// `^work_[a-zA-Z0-9_-]{1,64}$`: what a sender writes (AG-B-8).
pub fn is_sent_work_id(text: &str) -> bool {
    text.strip_prefix("work_").is_some_and(|rest| {
        (1..=64).contains(&rest.len())
            && rest
                .bytes()
                .all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-'))
    })
}

/// Whether a text has no character that is not white space (AG-KND-4).
pub fn is_blank(text: &str) -> bool {
    text.chars().all(char::is_whitespace)
}

/// A Peer ID as a runtime derives it from an agent's name and a run (AG-PRS-8).
pub fn derived_peer_id(agent: &str, run: &str) -> String {
    let fold = |c: char| {
        let c = c.to_ascii_lowercase();
        let fits = c.is_ascii_lowercase() || c.is_ascii_digit() || matches!(c, '.' | '_' | '-');
        if fits { c } else { '-' }
    };
    let mut id: String = agent.chars().map(fold).collect();
    id.push('.');
    id.extend(run.chars().map(fold));
    if !id.starts_with(|c: char| c.is_ascii_lowercase() || c.is_ascii_digit()) {
        id.insert(0, 'p');
    }
    id.truncate(128);
    id
}

fn name_of(text: &str, at_most: usize, also: impl Fn(u8) -> bool) -> bool {
    let Some((first, rest)) = text.as_bytes().split_first() else {
        return false;
    };
    text.len() <= at_most
        && is_lower_alphanumeric(*first)
        && rest
            .iter()
            .all(|byte| is_lower_alphanumeric(*byte) || also(*byte))
}

const fn is_lower_alphanumeric(byte: u8) -> bool {
    byte.is_ascii_lowercase() || byte.is_ascii_digit()
}

const fn is_lower_hex(byte: u8) -> bool {
    matches!(byte, b'0'..=b'9' | b'a'..=b'f')
}
