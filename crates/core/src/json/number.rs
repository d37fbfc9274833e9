//! A number token as written.

use std::borrow::Cow;

const MAX_SAFE: u64 = (1 << 53) - 1;

/// A JSON number, kept as the token in the text. Two numbers are equal when their tokens are.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Number<'a>(Cow<'a, str>);

impl<'a> Number<'a> {
    /// A number from text that is exactly one JSON number token; `None` for any other text.
    #[must_use]
    pub fn from_token(token: impl Into<Cow<'a, str>>) -> Option<Self> {
        let token = token.into();
        (token_len(token.as_bytes()) == Some(token.len())).then_some(Self(token))
    }

    /// The shortest token of a double, integral ones without fraction (VX-CAN-6); `None` when it is not
    /// finite.
    #[must_use]
    pub fn from_f64(value: f64) -> Option<Self> {
        value.is_finite().then(|| {
            let mut buffer = ryu_js::Buffer::new();
            Self(Cow::Owned(buffer.format_finite(value).to_owned()))
        })
    }

    /// The reader has checked the token already.
    pub(super) fn from_checked(token: &'a str) -> Self {
        Self(Cow::Borrowed(token))
    }

    /// The token as written.
    #[must_use]
    pub fn token(&self) -> &str {
        &self.0
    }

    /// Whether the token has neither fraction nor exponent. The literal decides, not the value: `3.0`
    /// is no integer token (VC-MON-3).
    #[must_use]
    pub fn is_integer_token(&self) -> bool {
        is_integer(&self.0)
    }

    /// Whether this is an integer token within ±(2^53 − 1).
    #[must_use]
    pub fn is_safe_integer(&self) -> bool {
        is_safe(&self.0)
    }

    /// The value of an integer token, where it fits.
    #[must_use]
    pub fn as_i64(&self) -> Option<i64> {
        self.0.parse().ok()
    }

    /// The value of an integer token that is not negative (`-0` is 0), where it fits.
    #[must_use]
    pub fn as_u64(&self) -> Option<u64> {
        if self.0 == "-0" {
            return Some(0);
        }
        self.0.parse().ok()
    }

    /// The nearest double; infinite for a number beyond a double, which only rules that keep overflow
    /// let through.
    #[must_use]
    pub fn as_f64(&self) -> f64 {
        self.0
            .parse()
            .expect("every JSON number token is a decimal number")
    }

    /// The same number, owning its token.
    #[must_use]
    pub fn into_owned(self) -> Number<'static> {
        Number(Cow::Owned(self.0.into_owned()))
    }
}

impl From<i64> for Number<'_> {
    fn from(value: i64) -> Self {
        Self(Cow::Owned(value.to_string()))
    }
}

impl From<u64> for Number<'_> {
    fn from(value: u64) -> Self {
        Self(Cow::Owned(value.to_string()))
    }
}

pub(super) fn is_integer(token: &str) -> bool {
    !token.bytes().any(|b| matches!(b, b'.' | b'e' | b'E'))
}

pub(super) fn is_safe(token: &str) -> bool {
    let digits = token.strip_prefix('-').unwrap_or(token);
    match digits.len() {
        0..=15 => is_integer(digits),
        16 => digits.parse().is_ok_and(|value: u64| value <= MAX_SAFE),
        _ => false,
    }
}

/// The length of the number token that `text` begins with, `None` when it begins with none. What follows
/// the token is not looked at.
pub(super) fn token_len(text: &[u8]) -> Option<usize> {
    let mut at = usize::from(text.first() == Some(&b'-'));
    at = match text.get(at)? {
        b'0' => at + 1,
        b'1'..=b'9' => skip_digits(text, at),
        _ => return None,
    };
    if text.get(at) == Some(&b'.') {
        at = some_digits(text, at + 1)?;
    }
    if matches!(text.get(at), Some(b'e' | b'E')) {
        let signed = matches!(text.get(at + 1), Some(b'+' | b'-'));
        at = some_digits(text, at + 1 + usize::from(signed))?;
    }
    Some(at)
}

fn some_digits(text: &[u8], from: usize) -> Option<usize> {
    let end = skip_digits(text, from);
    (end > from).then_some(end)
}

fn skip_digits(text: &[u8], mut at: usize) -> usize {
    while text.get(at).is_some_and(u8::is_ascii_digit) {
        at += 1;
    }
    at
}
