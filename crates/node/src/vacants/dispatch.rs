//! Calling by capability: the registry says who can do something, the best of them is called directly (section 13).
//!
//! The registry is only asked; nothing goes through it (VA-DSP-8).

use chancery_core::refusal::Refusal;
use chancery_vacant::dispatch::{SearchArgs, choose};
use chancery_vacant::error::ProtocolError;
use chancery_vacant::id::VacantId;
use chancery_vacant::reputation::{Dimension, Oracle};

use super::{CapabilityMatch, RegistryQuery, Vacants};

impl Vacants {
    /// Whom a call by capability means: of what one search of this node's registry gives, the one with the highest
    /// score (VA-DSP-2, VA-DSP-4).
    pub(super) async fn best_for(
        &self,
        capability: &str,
    ) -> Result<(VacantId, Option<String>), Refusal> {
        let asked = SearchArgs::new(capability);
        let found = self.search(&RegistryQuery {
            query: Some(asked.query.to_owned()),
            family: None,
            limit: asked.limit,
        });
        let found = found.map_err(|_| ProtocolError::Transport("the registry is away".into()))?;
        let cards: Vec<_> = found
            .iter()
            .map(|one| Some(one.found.card.clone()))
            .collect();
        let winner = choose(&cards, Some(&Scores(&found)))?;
        self.endpoint_of(winner).await
    }
}

/// The scores that the search came with.
struct Scores<'m>(&'m [CapabilityMatch]);

impl Oracle for Scores<'_> {
    fn score(&self, vacant: &VacantId, _: &[Dimension]) -> f64 {
        let of = |one: &&CapabilityMatch| one.found.card.vacant_id == *vacant;
        self.0.iter().find(of).map_or(f64::NAN, |one| one.score)
    }
}
