//! Faults on purpose: what a deliberately broken node does wrong, so that the test kit can be shown to notice.
//!
//! Only a build with the feature `seeded-faults` can be told to have one, and it has one at a time. In every other
//! build [`on`] is the constant false, and nothing of the faults is left.

/// Whether this node has the fault of that name.
#[cfg(not(feature = "seeded-faults"))]
#[must_use]
#[inline(always)]
pub const fn on(_name: &str) -> bool {
    false
}

#[cfg(feature = "seeded-faults")]
static CHOSEN: std::sync::OnceLock<String> = std::sync::OnceLock::new();

/// Gives this process a fault, once and for good; false when it has one already.
#[cfg(feature = "seeded-faults")]
#[must_use]
pub fn choose(name: &str) -> bool {
    CHOSEN.set(name.to_owned()).is_ok()
}

/// Whether this node has the fault of that name.
#[cfg(feature = "seeded-faults")]
#[must_use]
pub fn on(name: &str) -> bool {
    CHOSEN.get().is_some_and(|chosen| chosen == name)
}
