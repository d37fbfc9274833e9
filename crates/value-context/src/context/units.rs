//! Splitting a segment into units (VX-CTX-2).
//!
//! A unit is what a reader sees as one picture: a base with its selectors, skin tones, tags and joined
//! bases, a flag, or a keycap. The rule is fixed and needs no Unicode tables, so every node cuts alike.

use super::ContextFault;

const JOINER: char = '\u{200D}';
const KEYCAP: char = '\u{20E3}';

/// The units of a text from left to right; stops at the first fault.
pub(super) struct Units<'a> {
    rest: &'a str,
}

impl<'a> Units<'a> {
    pub(super) const fn of(text: &'a str) -> Self {
        Self { rest: text }
    }

    /// What has not been cut yet.
    pub(super) const fn rest(&self) -> &'a str {
        self.rest
    }

    /// Cuts the next unit off; none at the end of the text.
    pub(super) fn next_unit(&mut self) -> Result<Option<&'a str>, ContextFault> {
        let Some(first) = self.rest.chars().next() else {
            return Ok(None);
        };
        let length = unit_length(first, self.rest)?;
        let (unit, rest) = self.rest.split_at(length);
        self.rest = rest;
        Ok(Some(unit))
    }
}

/// Length in bytes of the unit that `text` begins with; `first` is its first character.
fn unit_length(first: char, text: &str) -> Result<usize, ContextFault> {
    let after_first = &text[first.len_utf8()..];
    let tail = if is_regional_indicator(first) {
        flag_tail(after_first)?
    } else if matches!(first, '0'..='9' | '#' | '*') {
        keycap_tail(after_first)?
    } else if is_base(first) {
        base_tail(after_first)?
    } else {
        return Err(ContextFault::Character);
    };
    Ok(first.len_utf8() + tail)
}

fn flag_tail(text: &str) -> Result<usize, ContextFault> {
    match text.chars().next() {
        Some(second) if is_regional_indicator(second) => Ok(second.len_utf8()),
        _ => Err(ContextFault::LoneRegionalIndicator),
    }
}

fn keycap_tail(text: &str) -> Result<usize, ContextFault> {
    let after_selector = text.strip_prefix('\u{FE0F}').unwrap_or(text);
    if !after_selector.starts_with(KEYCAP) {
        return Err(ContextFault::Character);
    }
    Ok(text.len() - after_selector.len() + KEYCAP.len_utf8())
}

fn base_tail(text: &str) -> Result<usize, ContextFault> {
    let mut characters = text.char_indices();
    while let Some((at, c)) = characters.next() {
        if c == JOINER {
            match characters.next() {
                Some((_, joined)) if is_base(joined) => {}
                _ => return Err(ContextFault::DanglingJoiner),
            }
        } else if !is_extension(c) {
            return Ok(at);
        }
    }
    Ok(text.len())
}

const fn is_base(c: char) -> bool {
    matches!(c,
        '\u{A9}' | '\u{AE}' | '\u{203C}'..='\u{2BFF}' | '\u{3030}' | '\u{303D}' | '\u{3297}' | '\u{3299}'
        | '\u{1F000}'..='\u{1F3FA}' | '\u{1F400}'..='\u{1FAFF}')
}

const fn is_extension(c: char) -> bool {
    matches!(c,
        '\u{FE0E}' | '\u{FE0F}' | '\u{1F3FB}'..='\u{1F3FF}' | KEYCAP | '\u{E0020}'..='\u{E007F}')
}

const fn is_regional_indicator(c: char) -> bool {
    matches!(c, '\u{1F1E6}'..='\u{1F1FF}')
}
