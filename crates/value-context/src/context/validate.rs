//! The grammar of a context string (VX-CTX-1 to 9), walked once and without allocation.
//!
//! Whoever wants more than a yes gets each segment as it passes: the check of a message and the full
//! parse are the same walk.

use super::ContextFault;
use super::table::{Dimension, is_selector, same, without_selectors};
use super::units::Units;

/// Longest context string in code points (VX-CTX-4).
pub const MAX_CODE_POINTS: usize = 512;
/// Most values in one dimension, counted as written (VX-CTX-4).
pub const MAX_VALUES: usize = 16;

const SEPARATOR: char = '|';
/// Opens the personal band of later versions (VX-CTX-7).
pub(super) const BAND: char = '\u{2016}';

/// Hears what a walk over a context string finds.
pub(super) trait Visitor<'a> {
    /// A value of a core dimension, as written.
    fn value(&mut self, dimension: Dimension, unit: &'a str);
    /// A segment that is kept as it is.
    fn opaque(&mut self, segment: &'a str);
    /// The personal band without its mark.
    fn band(&mut self, band: &'a str);
}

/// The visitor of a check: it keeps nothing.
struct Nothing;

impl<'a> Visitor<'a> for Nothing {
    fn value(&mut self, _: Dimension, _: &'a str) {}
    fn opaque(&mut self, _: &'a str) {}
    fn band(&mut self, _: &'a str) {}
}

/// Whether `text` is a context string. Allocates nothing.
pub fn validate(text: &str) -> Result<(), ContextFault> {
    walk(text, &mut Nothing)
}

pub(super) fn walk<'a>(text: &'a str, visitor: &mut impl Visitor<'a>) -> Result<(), ContextFault> {
    if text.is_empty() {
        return Err(ContextFault::Empty);
    }
    if text.len() > MAX_CODE_POINTS && text.chars().nth(MAX_CODE_POINTS).is_some() {
        return Err(ContextFault::TooLong);
    }
    let (situation, band) = match text.split_once(BAND) {
        Some(("", "")) => return Err(ContextFault::EmptyBand),
        Some((situation, band)) => (situation, Some(band)),
        None => (text, None),
    };
    // A band may stand alone; everything else has at least one segment.
    if !situation.is_empty() {
        walk_segments(situation, visitor)?;
    }
    if let Some(band) = band {
        visitor.band(band);
    }
    Ok(())
}

fn walk_segments<'a>(
    situation: &'a str,
    visitor: &mut impl Visitor<'a>,
) -> Result<(), ContextFault> {
    let mut seen = 0_u16;
    let mut start = 0;
    for segment in situation.split(SEPARATOR) {
        let mut units = Units::of(segment);
        let symbol = units.next_unit()?.ok_or(ContextFault::EmptySegment)?;
        let kind = Kind::of(symbol);
        let repeated = match kind.bit() {
            Some(bit) => {
                let repeated = seen & bit != 0;
                seen |= bit;
                repeated
            }
            None => opens_an_earlier_segment(&situation[..start], symbol),
        };
        if repeated {
            return Err(ContextFault::RepeatedSymbol);
        }
        walk_values(kind, segment, units, visitor)?;
        start += segment.len() + SEPARATOR.len_utf8();
    }
    Ok(())
}

fn walk_values<'a>(
    kind: Kind,
    segment: &'a str,
    mut units: Units<'a>,
    visitor: &mut impl Visitor<'a>,
) -> Result<(), ContextFault> {
    if units.rest().is_empty() {
        return Err(ContextFault::NoValue);
    }
    if matches!(kind, Kind::FreeText(_)) {
        visitor.opaque(segment);
        return Ok(());
    }
    let mut values = 0;
    while let Some(unit) = units.next_unit()? {
        values += 1;
        if values > MAX_VALUES {
            return Err(ContextFault::TooManyValues);
        }
        if let Kind::Core(dimension) = kind {
            visitor.value(dimension, unit);
        }
    }
    if matches!(kind, Kind::Other) {
        visitor.opaque(segment);
    }
    Ok(())
}

/// What the leading unit of a segment announces.
#[derive(Clone, Copy)]
enum Kind {
    /// One of the nine dimensions.
    Core(Dimension),
    /// A symbol of later versions whose segment is free text (VX-CTX-6); counted from 0.
    FreeText(u16),
    /// Any other picture: opaque, but its values are units.
    Other,
}

impl Kind {
    fn of(symbol: &str) -> Self {
        let mut characters = without_selectors(symbol);
        let (Some(first), None) = (characters.next(), characters.next()) else {
            return Self::Other;
        };
        if let Some(dimension) = Dimension::of_symbol(first) {
            return Self::Core(dimension);
        }
        match first {
            '\u{1F4E1}' => Self::FreeText(0),
            '\u{1F9CD}' => Self::FreeText(1),
            '\u{2194}' => Self::FreeText(2),
            '\u{1FAA2}' => Self::FreeText(3),
            '\u{1F3A9}' => Self::FreeText(4),
            _ => Self::Other,
        }
    }

    /// The bit under which a symbol with a name of its own is remembered.
    fn bit(self) -> Option<u16> {
        match self {
            Self::Core(dimension) => Some(1 << (dimension as u16)),
            Self::FreeText(index) => Some(1 << (Dimension::ALL.len() as u16 + index)),
            Self::Other => None,
        }
    }
}

/// Whether one of the `earlier` segments begins with the same symbol. Only pictures without a name of
/// their own are looked up this way, and a string is short.
fn opens_an_earlier_segment(earlier: &str, symbol: &str) -> bool {
    let first = symbol.chars().find(|c| !is_selector(*c));
    earlier.split(SEPARATOR).any(|segment| {
        segment.chars().next() == first
            && matches!(Units::of(segment).next_unit(), Ok(Some(unit)) if same(unit, symbol))
    })
}
