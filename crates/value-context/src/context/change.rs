//! How much a context changed (VX-CTX-12).

use super::{Context, ContextValue, Dimension};

/// What changed between two contexts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Change {
    /// How grave the change is.
    pub severity: ChangeSeverity,
    /// The dimensions whose sets of values differ, in canonical order.
    pub dimensions: Vec<Dimension>,
}

/// How grave a change of context is, lowest first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum ChangeSeverity {
    /// One or two ordinary dimensions.
    Minor,
    /// Agency, constraints, children, or three dimensions and more.
    Major,
    /// The new context has an emergency value.
    Emergency,
}

impl ChangeSeverity {
    /// The word for it.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Minor => "minor",
            Self::Major => "major",
            Self::Emergency => "emergency",
        }
    }
}

/// The change from one context to the next; none when every dimension holds the same set of values.
pub fn change(from: &Context<'_>, to: &Context<'_>) -> Option<Change> {
    let dimensions: Vec<Dimension> = Dimension::ALL
        .into_iter()
        .filter(|dimension| !same_set(from, to, *dimension))
        .collect();
    if dimensions.is_empty() {
        return None;
    }
    let severity = if to.has_emergency() {
        ChangeSeverity::Emergency
    } else if dimensions.len() >= 3
        || dimensions.contains(&Dimension::Agency)
        || dimensions.contains(&Dimension::Constraints)
        || from.has_children() != to.has_children()
    {
        ChangeSeverity::Major
    } else {
        ChangeSeverity::Minor
    };
    Some(Change {
        severity,
        dimensions,
    })
}

fn same_set(from: &Context<'_>, to: &Context<'_>, dimension: Dimension) -> bool {
    let holds_all = |context: &Context<'_>, values: &[ContextValue<'_>]| {
        values
            .iter()
            .all(|value| context.has(dimension, value.text))
    };
    from.values(dimension).len() == to.values(dimension).len()
        && holds_all(to, from.values(dimension))
}
