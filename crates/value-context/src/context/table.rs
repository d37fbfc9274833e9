//! The nine dimensions and the values each one knows (section 7.1), in canonical order.
//!
//! Symbols and values are compared without the variation selectors U+FE0E and U+FE0F (VX-CTX-3); the
//! texts here are the ones a canonical form writes.

/// One of the nine core dimensions, in canonical order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Dimension {
    /// ⏰ time.
    Time,
    /// 📍 space.
    Space,
    /// 👥 company.
    Company,
    /// 🌍 culture.
    Culture,
    /// 🎭 occasion.
    Occasion,
    /// 🧠 state.
    State,
    /// 🌡️ environment.
    Environment,
    /// 🔷 agency.
    Agency,
    /// 🔶 constraints.
    Constraints,
}

/// A value that a dimension knows: its text and its code name.
type Known = (&'static str, &'static str);

impl Dimension {
    /// All nine, in canonical order.
    pub const ALL: [Self; 9] = [
        Self::Time,
        Self::Space,
        Self::Company,
        Self::Culture,
        Self::Occasion,
        Self::State,
        Self::Environment,
        Self::Agency,
        Self::Constraints,
    ];

    /// The name that the specification gives it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Time => "time",
            Self::Space => "space",
            Self::Company => "company",
            Self::Culture => "culture",
            Self::Occasion => "occasion",
            Self::State => "state",
            Self::Environment => "environment",
            Self::Agency => "agency",
            Self::Constraints => "constraints",
        }
    }

    /// The symbol that opens its segment, as a canonical form writes it.
    pub const fn symbol(self) -> &'static str {
        match self {
            Self::Time => "⏰",
            Self::Space => "📍",
            Self::Company => "👥",
            Self::Culture => "🌍",
            Self::Occasion => "🎭",
            Self::State => "🧠",
            Self::Environment => "🌡️",
            Self::Agency => "🔷",
            Self::Constraints => "🔶",
        }
    }

    /// The dimension that `symbol` opens; variation selectors do not matter.
    pub(super) fn of_symbol(symbol: char) -> Option<Self> {
        Some(match symbol {
            '\u{23F0}' => Self::Time,
            '\u{1F4CD}' => Self::Space,
            '\u{1F465}' => Self::Company,
            '\u{1F30D}' => Self::Culture,
            '\u{1F3AD}' => Self::Occasion,
            '\u{1F9E0}' => Self::State,
            '\u{1F321}' => Self::Environment,
            '\u{1F537}' => Self::Agency,
            '\u{1F536}' => Self::Constraints,
            _ => return None,
        })
    }

    /// The value of this dimension that is written `unit`, give or take variation selectors.
    pub(super) fn known(self, unit: &str) -> Option<Known> {
        self.values()
            .iter()
            .find(|(text, _)| same(text, unit))
            .copied()
    }

    const fn values(self) -> &'static [Known] {
        match self {
            Self::Time => TIME,
            Self::Space => SPACE,
            Self::Company => COMPANY,
            Self::Culture => CULTURE,
            Self::Occasion => OCCASION,
            Self::State => STATE,
            Self::Environment => ENVIRONMENT,
            Self::Agency => AGENCY,
            Self::Constraints => CONSTRAINTS,
        }
    }
}

/// Whether two units are equal without their variation selectors (VX-CTX-3).
pub(super) fn same(a: &str, b: &str) -> bool {
    without_selectors(a).eq(without_selectors(b))
}

/// The code points of a unit that count in a comparison.
pub(super) fn without_selectors(unit: &str) -> impl Iterator<Item = char> {
    unit.chars().filter(|c| !is_selector(*c))
}

/// U+FE0E and U+FE0F ask for a text or an emoji picture of the same character.
pub(super) const fn is_selector(c: char) -> bool {
    matches!(c, '\u{FE0E}' | '\u{FE0F}')
}

const TIME: &[Known] = &[
    ("🌅", "morning"),
    ("☀️", "daytime"),
    ("🌆", "evening"),
    ("🌙", "night"),
    ("📅", "weekday"),
    ("🎉", "weekend"),
    ("⏰", "time_pressure"),
    ("📆", "scheduled"),
    ("🔄", "recurring"),
];
const SPACE: &[Known] = &[
    ("🏡", "home"),
    ("🏢", "office"),
    ("🏫", "school"),
    ("🏥", "hospital"),
    ("⛪", "religious"),
    ("🏛️", "government"),
    ("🏪", "commercial"),
    ("🚗", "vehicle"),
    ("🌳", "outdoor"),
    ("💻", "digital"),
    ("🏠", "shared_space"),
    ("🔒", "secure_facility"),
];
const COMPANY: &[Known] = &[
    ("👤", "alone"),
    ("👶", "children"),
    ("👨‍👩‍👧", "family"),
    ("👔", "colleagues"),
    ("👨‍🏫", "teacher"),
    ("👮", "authority"),
    ("👴", "elders"),
    ("💑", "partner"),
    ("🤝", "peers"),
    ("👨‍⚕️", "professional"),
    ("🧑‍🤝‍🧑", "strangers"),
    ("👥", "crowd"),
];
const CULTURE: &[Known] = &[
    ("🔇", "high_context"),
    ("📢", "low_context"),
    ("🎩", "formal"),
    ("👋", "informal"),
    ("📊", "hierarchical"),
    ("⚖️", "egalitarian"),
    ("👥", "collectivist"),
    ("👤", "individualist"),
];
const OCCASION: &[Known] = &[
    ("➖", "normal"),
    ("🎂", "celebration"),
    ("💼", "business"),
    ("⚰️", "mourning"),
    ("💒", "ceremony"),
    ("🏥", "medical"),
    ("🚨", "emergency"),
    ("👨‍🏫", "educational"),
    ("🎪", "entertainment"),
    ("⚖️", "legal"),
    ("🗳️", "political"),
    ("🎓", "graduation"),
];
const STATE: &[Known] = &[
    ("😊", "happy"),
    ("😴", "tired"),
    ("😰", "anxious"),
    ("😡", "angry"),
    ("😢", "sad"),
    ("🤒", "sick"),
    ("😋", "hungry"),
    ("🥳", "excited"),
    ("😌", "calm"),
    ("🤔", "contemplative"),
    ("😵", "overwhelmed"),
    ("🥺", "vulnerable"),
];
const ENVIRONMENT: &[Known] = &[
    ("☀️", "comfortable"),
    ("🥵", "hot"),
    ("🥶", "cold"),
    ("🌧️", "wet"),
    ("🌪️", "dangerous"),
    ("🔇", "quiet"),
    ("📢", "loud"),
    ("🔥", "fire"),
    ("💨", "windy"),
    ("🌫️", "poor_visibility"),
    ("🏔️", "high_altitude"),
    ("🌊", "near_water"),
];
const AGENCY: &[Known] = &[
    ("👑", "leader"),
    ("🤝", "peer"),
    ("👇", "subordinate"),
    ("💰", "wealthy"),
    ("💵", "adequate"),
    ("🕳️", "scarce"),
    ("🏡", "owner"),
    ("🔑", "authorized"),
    ("🎓", "expert"),
    ("🆓", "autonomous"),
    ("🔐", "limited"),
    ("🏃", "mobile"),
];
const CONSTRAINTS: &[Known] = &[
    ("○", "minimal"),
    ("🚧", "physical"),
    ("⚖️", "legal"),
    ("💸", "economic"),
    ("⏰", "time"),
    ("🤐", "social"),
    ("📱", "surveillance"),
    ("🚨", "emergency"),
    ("👮", "enforcement"),
    ("📜", "contractual"),
    ("🏥", "medical"),
    ("🔒", "confidential"),
];
