//! What a context string says: its dimensions, canonical form and derived flags (VX-CTX-5 to 11).

use super::ContextFault;
use super::table::{Dimension, same};
use super::validate::{BAND, Visitor, walk};
use unicode_normalization::UnicodeNormalization;

const EMERGENCY_VALUES: [&str; 3] = ["🚨", "🔥", "🌪️"];
const EMERGENCY_DIMENSIONS: [Dimension; 3] = [
    Dimension::Occasion,
    Dimension::Environment,
    Dimension::Constraints,
];
const CHILDREN: &str = "👶";

/// A context string taken apart; its texts borrow from the string.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Context<'a> {
    dimensions: [Vec<ContextValue<'a>>; 9],
    opaque: Vec<&'a str>,
    personal_band: Option<&'a str>,
    unknown: Vec<&'a str>,
}

/// One value of a dimension.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ContextValue<'a> {
    /// As the table writes it; a value the table does not have, as the sender wrote it.
    pub text: &'a str,
    /// The code name, for a value that the table has.
    pub name: Option<&'static str>,
}

/// How much care a context asks for, lowest first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum RiskLevel {
    /// Nothing special.
    Normal,
    /// At work.
    Standard,
    /// Children, or somebody vulnerable.
    Elevated,
    /// An emergency.
    Critical,
}

impl RiskLevel {
    /// The word for it.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Normal => "normal",
            Self::Standard => "standard",
            Self::Elevated => "elevated",
            Self::Critical => "critical",
        }
    }
}

impl<'a> Context<'a> {
    /// Takes a context string apart, or says why it is none.
    pub fn parse(text: &'a str) -> Result<Self, ContextFault> {
        let mut context = Self::default();
        walk(text, &mut context)?;
        Ok(context)
    }

    /// The distinct values of a dimension in the order written; empty when it is unspecified.
    pub fn values(&self, dimension: Dimension) -> &[ContextValue<'a>] {
        &self.dimensions[dimension as usize]
    }

    /// The segments kept as they are: symbols of later versions and unknown ones (VX-CTX-6).
    pub fn opaque_segments(&self) -> &[&'a str] {
        &self.opaque
    }

    /// What follows the first ‖, unread (VX-CTX-7).
    pub const fn personal_band(&self) -> Option<&'a str> {
        self.personal_band
    }

    /// The values that the table of their dimension does not have (VX-CTX-5).
    pub fn unknown_values(&self) -> &[&'a str] {
        &self.unknown
    }

    /// Whether the dimension has this value; variation selectors do not matter.
    pub fn has(&self, dimension: Dimension, value: &str) -> bool {
        self.values(dimension)
            .iter()
            .any(|known| same(known.text, value))
    }

    /// The form in which two contexts are compared (VX-CTX-10). It is never sent or signed.
    pub fn canonical(&self) -> String {
        let dimensions = Dimension::ALL
            .into_iter()
            .filter(|dimension| !self.values(*dimension).is_empty())
            .map(|dimension| {
                let values = self.values(dimension).iter().map(|value| value.text);
                std::iter::once(dimension.symbol()).chain(values).collect()
            });
        let opaque = self.opaque.iter().map(|segment| (*segment).to_owned());
        let mut text = dimensions.chain(opaque).collect::<Vec<String>>().join("|");
        if let Some(band) = self.personal_band {
            text.push(BAND);
            text.push_str(band);
        }
        text.nfc().collect()
    }

    /// 🚨, 🔥 or 🌪️ in occasion, environment or constraints.
    pub fn has_emergency(&self) -> bool {
        EMERGENCY_DIMENSIONS.into_iter().any(|dimension| {
            EMERGENCY_VALUES
                .into_iter()
                .any(|value| self.has(dimension, value))
        })
    }

    /// 👶 in company.
    pub fn has_children(&self) -> bool {
        self.has(Dimension::Company, CHILDREN)
    }

    /// 🏢 in space or 👔 in company.
    pub fn is_professional(&self) -> bool {
        self.has(Dimension::Space, "🏢") || self.has(Dimension::Company, "👔")
    }

    /// The care that the flags together ask for (VX-CTX-11).
    pub fn risk_level(&self) -> RiskLevel {
        if self.has_emergency() {
            RiskLevel::Critical
        } else if self.has_children() || self.has(Dimension::State, "🥺") {
            RiskLevel::Elevated
        } else if self.is_professional() {
            RiskLevel::Standard
        } else {
            RiskLevel::Normal
        }
    }
}

impl<'a> Visitor<'a> for Context<'a> {
    fn value(&mut self, dimension: Dimension, unit: &'a str) {
        if self.has(dimension, unit) {
            return;
        }
        let value = match dimension.known(unit) {
            Some((text, name)) => ContextValue {
                text,
                name: Some(name),
            },
            None => {
                self.unknown.push(unit);
                ContextValue {
                    text: unit,
                    name: None,
                }
            }
        };
        self.dimensions[dimension as usize].push(value);
    }

    fn opaque(&mut self, segment: &'a str) {
        self.opaque.push(segment);
    }

    fn band(&mut self, band: &'a str) {
        self.personal_band = Some(band);
    }
}
