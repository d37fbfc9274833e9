//! The payload of a `context_share` (VX-CS-1).

use super::{read_context, read_creed};
use crate::code::Fault;
use crate::context::{Context, Dimension};
use crate::members::closed;
use crate::personal_state::PersonalState;
use crate::schema::{ContextText, CreedText};
use chancery_core::json::{Place, Value};
use schemars::JsonSchema;

/// The sender's current context.
#[derive(Clone, Debug, PartialEq, JsonSchema)]
#[schemars(rename = "context_share", deny_unknown_fields)]
pub struct ContextShare {
    /// The context string as written; [`crate::context::validate`] holds.
    #[schemars(with = "ContextText")]
    pub context: Box<str>,
    /// The active constitution as written; [`crate::creed::CreedRef::parse`] holds.
    #[schemars(with = "CreedText")]
    pub constitution_ref: Box<str>,
    /// How the agent's owner is, when it is shared.
    pub personal_state: Option<PersonalState>,
}

impl ContextShare {
    /// How the sender is, as values of STATE: what follows from the personal state where there is one, whatever the
    /// context says beside it (VX-PS-4); else what the context says.
    pub fn state_values(&self) -> Vec<String> {
        if let Some(state) = &self.personal_state {
            return state
                .state_values()
                .into_iter()
                .map(str::to_owned)
                .collect();
        }
        let context = Context::parse(&self.context);
        let values = context.map(|context| {
            let values = context.values(Dimension::State).iter();
            values.map(|value| value.text.to_owned()).collect()
        });
        values.unwrap_or_default()
    }

    pub(super) fn read(value: &Value<'_>, place: &Place<'_>) -> Result<Self, Fault> {
        const NAMES: [&str; 3] = ["context", "constitution_ref", "personal_state"];
        let [context, constitution_ref, personal_state] = closed(value, place, NAMES)?;
        let state_place = place.child("personal_state");
        Ok(Self {
            context: read_context(context, &place.child("context"))?,
            constitution_ref: read_creed(constitution_ref, &place.child("constitution_ref"))?,
            personal_state: personal_state
                .map(|state| PersonalState::read(state, &state_place))
                .transpose()?,
        })
    }
}
