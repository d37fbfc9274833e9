//! The PRIVATE_UTILITY guard (section 6): a sender must not put a private value of its own side on the wire.
//!
//! Decoding collects every number that an envelope writes, in digits or in text; step 13 compares them with the
//! sender's store. Words and encodings are outside the guard (VC-PRIV-10).

use chancery_core::json::{Number, Object, Place, Value};
use chancery_core::time::parse_vibe;
use unicode_normalization::UnicodeNormalization as _;

use crate::address::Side;
use crate::money::exponent;

/// All numbers that an envelope writes, in canonical order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Facts(Vec<Fact>);

#[derive(Clone, Debug, PartialEq, Eq)]
struct Fact {
    /// The value in thousandths: no currency has a smaller minor unit.
    thousandths: u64,
    written: Written,
}

/// How a number is written: it decides what it may stand for.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Written {
    /// A JSON number, in plain digits or with a fraction or exponent.
    Number { plain: bool },
    /// Digits in a text.
    Token {
        has_point: bool,
        /// A currency sign stands next to it.
        has_sign: bool,
        /// Three capital letters that stand next to it.
        codes: [Option<[u8; 3]>; 2],
        /// Those of them that touch it: it is no number unless they are currency codes.
        touching: [Option<[u8; 3]>; 2],
    },
}

/// A private value in its currency.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Private {
    /// In minor units.
    pub value: u64,
    /// Its currency.
    pub currency: String,
}

/// Whether envelopes of this side are compared with anything (VC-PRIV-4).
pub const fn has_store(side: Side) -> bool {
    matches!(side, Side::Buyer | Side::Merchant)
}

/// The numbers of an envelope: its payload, and what is unknown beside it (VC-PRIV-6).
pub fn facts(
    fields: &Object<'_>,
    action: &Object<'_>,
    payload: &Object<'_>,
    known: &[&str],
) -> Facts {
    let mut walk = Walk::default();
    walk.envelope(fields, action, payload, known);
    Facts(walk.facts)
}

/// Where the number of that index stands: looked up only when it gives something away.
pub fn place_of(
    index: usize,
    fields: &Object<'_>,
    action: &Object<'_>,
    payload: &Object<'_>,
    known: &[&str],
) -> Option<String> {
    let mut walk = Walk {
        facts: Vec::new(),
        places: Some(Vec::new()),
    };
    walk.envelope(fields, action, payload, known);
    walk.places?.into_iter().nth(index)
}

fn sorted<'v, 'a>(object: &'v Object<'a>) -> Vec<(&'v str, &'v Value<'a>)> {
    let mut members: Vec<_> = object.iter().collect();
    if !members.is_sorted_by_key(|(name, _)| *name) {
        members.sort_unstable_by_key(|(name, _)| *name);
    }
    members
}

impl Facts {
    /// The index of the first number that is one of the private values, if any. `currencies` are those of the world.
    pub fn leak(&self, store: &[Private], currencies: &[String]) -> Option<usize> {
        self.0.iter().position(|fact| {
            store
                .iter()
                .any(|private| fact.gives_away(private, currencies))
        })
    }

    /// Whether there is nothing to compare.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

/// The walk over an envelope, in the order of the names.
#[derive(Default)]
struct Walk {
    facts: Vec<Fact>,
    /// The place of each fact, where it is asked for.
    places: Option<Vec<String>>,
}

impl Walk {
    fn envelope(
        &mut self,
        fields: &Object<'_>,
        action: &Object<'_>,
        payload: &Object<'_>,
        known: &[&str],
    ) {
        let root = Place::ROOT;
        let place = root.child("action");
        for (name, value) in sorted(action) {
            match name {
                "kind" => {}
                "payload" => self.object(payload, &place.child("payload")),
                _ => self.member(name, value, &place),
            }
        }
        for (name, value) in sorted(fields) {
            if !known.contains(&name) {
                self.member(name, value, &root);
            }
        }
    }

    fn object(&mut self, object: &Object<'_>, place: &Place<'_>) {
        for (name, value) in sorted(object) {
            self.member(name, value, place);
        }
    }

    fn member(&mut self, name: &str, value: &Value<'_>, place: &Place<'_>) {
        // A key that holds the value is not repeated in the answer (VC-PRIV-10).
        self.tokens(name, || place.to_path().to_jsonpath() + ".*");
        self.value(value, &place.child(name));
    }

    fn value(&mut self, value: &Value<'_>, place: &Place<'_>) {
        match value {
            Value::Number(number) => {
                if let Some(thousandths) = thousandths_of(number) {
                    let plain = number.is_integer_token();
                    self.facts.push(Fact {
                        thousandths,
                        written: Written::Number { plain },
                    });
                    self.note(|| place.to_path().to_jsonpath());
                }
            }
            Value::String(text) => self.tokens(text, || place.to_path().to_jsonpath()),
            Value::Array(items) => {
                for (index, item) in items.iter().enumerate() {
                    self.value(item, &place.item(index));
                }
            }
            Value::Object(object) => self.object(object, place),
            Value::Null | Value::Bool(_) => {}
        }
    }

    fn tokens(&mut self, text: &str, place: impl Fn() -> String) {
        if text.is_ascii() {
            if text.bytes().any(|byte| byte.is_ascii_digit()) && !is_exempt(text) {
                collect(text, &mut self.facts);
            }
        } else {
            let folded: String = text.nfkc().collect();
            if !is_exempt(&folded) {
                collect(&folded, &mut self.facts);
            }
        }
        self.note(place);
    }

    /// Gives every fact that has no place yet this one.
    fn note(&mut self, place: impl Fn() -> String) {
        if let Some(places) = &mut self.places {
            places.resize_with(self.facts.len(), place);
        }
    }
}

impl Fact {
    fn gives_away(&self, private: &Private, currencies: &[String]) -> bool {
        let is_known = |code: &[u8; 3]| currencies.iter().any(|known| known.as_bytes() == code);
        let in_major = || {
            let scale = 10_u128.pow(exponent(&private.currency));
            u128::from(self.thousandths) * scale == u128::from(private.value) * 1_000
        };
        let in_minor = u128::from(self.thousandths) == u128::from(private.value) * 1_000;
        match &self.written {
            Written::Number { plain } => in_minor || (!plain && in_major()),
            Written::Token {
                has_point,
                has_sign,
                codes,
                touching,
            } => {
                if touching.iter().flatten().any(|code| !is_known(code)) {
                    return false;
                }
                let has_mark = || *has_sign || codes.iter().flatten().any(is_known);
                in_minor || ((*has_point || has_mark()) && in_major())
            }
        }
    }
}

/// A text that is wholly a UUID or a timestamp has chance digits (VC-PRIV-8).
fn is_exempt(text: &str) -> bool {
    is_uuid(text) || parse_vibe(text).is_ok()
}

fn is_uuid(text: &str) -> bool {
    text.len() == 36
        && text.bytes().enumerate().all(|(at, byte)| match at {
            8 | 13 | 18 | 23 => byte == b'-',
            _ => byte.is_ascii_hexdigit(),
        })
}

/// The exact value of a JSON number in thousandths; none for what no amount can equal.
fn thousandths_of(number: &Number<'_>) -> Option<u64> {
    let token = number.token();
    let (mantissa, exponent) = match token.find(['e', 'E']) {
        Some(at) => (&token[..at], token[at + 1..].parse().ok()?),
        None => (token, 0_i32),
    };
    let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    exact(whole, fraction, exponent)
}

/// `whole.fraction × 10^exponent` in thousandths, where it is exact and not negative.
fn exact(whole: &str, fraction: &str, exponent: i32) -> Option<u64> {
    if whole.starts_with('-') {
        return None;
    }
    let digits = [whole, fraction].concat();
    let kept = digits.trim_end_matches('0');
    let dropped = i32::try_from(digits.len() - kept.len()).ok()?;
    let scale = exponent
        .checked_sub(i32::try_from(fraction.len()).ok()?)?
        .checked_add(dropped)?
        .checked_add(3)?;
    let kept = kept.trim_start_matches('0');
    if kept.is_empty() {
        return Some(0);
    }
    let scale = u32::try_from(scale).ok()?;
    let value: u64 = kept.parse().ok()?;
    value.checked_mul(10_u64.checked_pow(scale)?)
}

/// Finds the number tokens of a folded text (VC-PRIV-7).
fn collect(text: &str, facts: &mut Vec<Fact>) {
    let bytes = text.as_bytes();
    let mut at = 0;
    while at < bytes.len() {
        if !bytes[at].is_ascii_digit() {
            at += 1;
            continue;
        }
        let (whole_end, end) = token_at(text, at);
        facts.extend(token(text, at, whole_end, end));
        at = end;
    }
}

/// Where the whole part and the whole token that begin at `start` end. The longest match counts (VC-CLR-16).
fn token_at(text: &str, start: usize) -> (usize, usize) {
    let bytes = text.as_bytes();
    let digits_from = |from: usize| {
        bytes[from..]
            .iter()
            .take_while(|byte| byte.is_ascii_digit())
            .count()
    };
    let first = digits_from(start);
    let mut whole_end = start + first;
    if first <= 3 {
        while let Some(mark) = group_mark(&text[whole_end..]) {
            if digits_from(whole_end + mark) != 3 {
                break;
            }
            whole_end += mark + 3;
        }
    }
    let fraction = match bytes.get(whole_end) {
        Some(b'.') => digits_from(whole_end + 1),
        _ => 0,
    };
    let end = if fraction > 0 {
        whole_end + 1 + fraction
    } else {
        whole_end
    };
    (whole_end, end)
}

/// The length of the group mark that a text begins with.
fn group_mark(text: &str) -> Option<usize> {
    let first = text.chars().next()?;
    matches!(first, ',' | '_' | '\'' | ' ' | '\u{a0}' | '\u{202f}').then(|| first.len_utf8())
}

fn token(text: &str, start: usize, whole_end: usize, end: usize) -> Option<Fact> {
    let (before, after) = (&text[..start], &text[end..]);
    let before_letters = letters_at_end(before);
    let after_letters = letters_at_start(after);
    let touching_before = touching(before_letters)?;
    let touching_after = touching(after_letters)?;
    let whole: String = text[start..whole_end]
        .chars()
        .filter(char::is_ascii_digit)
        .collect();
    let fraction = text[whole_end..end].strip_prefix('.').unwrap_or_default();
    let apart_before = before.strip_suffix(' ').unwrap_or(before);
    let apart_after = after.strip_prefix(' ').unwrap_or(after);
    let codes = [
        code(letters_at_end(apart_before)),
        code(letters_at_start(apart_after)),
    ];
    let has_sign = apart_before.chars().next_back().is_some_and(is_sign)
        || apart_after.chars().next().is_some_and(is_sign);
    let written = Written::Token {
        has_point: !fraction.is_empty(),
        has_sign,
        codes,
        touching: [touching_before, touching_after],
    };
    Some(Fact {
        thousandths: exact(&whole, fraction, 0)?,
        written,
    })
}

/// What touches a token: nothing, or perhaps a currency code. Other letters make it no number: none.
#[expect(
    clippy::option_option,
    reason = "no number, a number that nothing touches, one that a code touches"
)]
fn touching(letters: &str) -> Option<Option<[u8; 3]>> {
    if letters.is_empty() {
        return Some(None);
    }
    code(letters).map(Some)
}

fn code(letters: &str) -> Option<[u8; 3]> {
    let code: [u8; 3] = letters.as_bytes().try_into().ok()?;
    code.iter().all(u8::is_ascii_uppercase).then_some(code)
}

const fn is_sign(c: char) -> bool {
    matches!(c, '$' | '€' | '£' | '¥' | '₹')
}

fn letters_at_end(text: &str) -> &str {
    let kept = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    &text[kept.len()..]
}

fn letters_at_start(text: &str) -> &str {
    let rest = text.trim_start_matches(|c: char| c.is_ascii_alphabetic());
    &text[..text.len() - rest.len()]
}
