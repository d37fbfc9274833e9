//! The personal state that a share may carry (VX-PS-1 to 3).
//!
//! Any subset of its members is accepted, each within 1 to 9. A text that looks like a number is none.

use crate::code::Fault;
use crate::members::{closed, required};
use chancery_core::json::{Place, Value};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// How an agent's owner is, each scale from 1 to 9.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "personal_state", deny_unknown_fields)]
pub struct PersonalState {
    /// Cognitive load or clarity.
    #[schemars(range(min = 1, max = 9))]
    pub cognitive: Option<f64>,
    /// Emotional state.
    pub emotional: Option<Emotional>,
    /// Depleted to energized.
    #[schemars(range(min = 1, max = 9))]
    pub energy: Option<f64>,
    /// Relaxed to urgent.
    #[schemars(range(min = 1, max = 9))]
    pub urgency: Option<f64>,
    /// Physical state.
    pub body: Option<Body>,
}

/// Emotional state; both members always come together.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "emotional", deny_unknown_fields)]
pub struct Emotional {
    /// Negative to positive.
    #[schemars(range(min = 1, max = 9))]
    pub valence: f64,
    /// Calm to activated.
    #[schemars(range(min = 1, max = 9))]
    pub arousal: f64,
}

/// Physical state.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "body", deny_unknown_fields)]
pub struct Body {
    /// None to severe.
    #[schemars(range(min = 1, max = 9))]
    pub pain: Option<f64>,
    /// Uncomfortable to comfortable.
    #[schemars(range(min = 1, max = 9))]
    pub comfort: Option<f64>,
}

impl PersonalState {
    /// Reads a personal state, refusing what is out of range or not listed.
    pub fn read(value: &Value<'_>, place: &Place<'_>) -> Result<Self, Fault> {
        const NAMES: [&str; 5] = ["cognitive", "emotional", "energy", "urgency", "body"];
        let [cognitive, emotional, energy, urgency, body] = closed(value, place, NAMES)?;
        Ok(Self {
            cognitive: scale(cognitive, &place.child("cognitive"))?,
            emotional: read_emotional(emotional, &place.child("emotional"))?,
            energy: scale(energy, &place.child("energy"))?,
            urgency: scale(urgency, &place.child("urgency"))?,
            body: read_body(body, &place.child("body"))?,
        })
    }

    /// Whether a sender may emit it: the four scales that are not marked optional are there and every
    /// number is an integer (VX-PS-2). Receivers ask for neither.
    pub fn is_fit_to_send(&self) -> bool {
        let complete = self.cognitive.is_some()
            && self.emotional.is_some()
            && self.energy.is_some()
            && self.urgency.is_some();
        complete && self.scales().all(|scale| scale.fract() == 0.0)
    }

    fn scales(&self) -> impl Iterator<Item = f64> {
        let emotional = self
            .emotional
            .map(|feeling| [feeling.valence, feeling.arousal]);
        let body = self.body.map(|body| [body.pain, body.comfort]);
        [self.cognitive, self.energy, self.urgency]
            .into_iter()
            .chain(body.into_iter().flatten())
            .flatten()
            .chain(emotional.into_iter().flatten())
    }

    /// The values of the STATE dimension that follow from it (VX-PS-3), in the order of the rule.
    pub fn state_values(&self) -> Vec<&'static str> {
        let feeling = self
            .emotional
            .filter(|emotional| emotional.valence < 3.0)
            .map(|emotional| {
                if emotional.arousal >= 6.0 {
                    "😡"
                } else {
                    "😢"
                }
            });
        let tired = self.energy.filter(|energy| *energy < 3.0).map(|_| "😴");
        let anxious = self.urgency.filter(|urgency| *urgency > 7.0).map(|_| "😰");
        let sick = self
            .body
            .and_then(|body| body.pain)
            .filter(|pain| *pain > 5.0)
            .map(|_| "🤒");
        [feeling, tired, anxious, sick]
            .into_iter()
            .flatten()
            .collect()
    }
}

fn read_emotional(
    value: Option<&Value<'_>>,
    place: &Place<'_>,
) -> Result<Option<Emotional>, Fault> {
    let Some(value) = value else { return Ok(None) };
    let [valence, arousal] = closed(value, place, ["valence", "arousal"])?;
    Ok(Some(Emotional {
        valence: required_scale(valence, &place.child("valence"))?,
        arousal: required_scale(arousal, &place.child("arousal"))?,
    }))
}

fn read_body(value: Option<&Value<'_>>, place: &Place<'_>) -> Result<Option<Body>, Fault> {
    let Some(value) = value else { return Ok(None) };
    let [pain, comfort] = closed(value, place, ["pain", "comfort"])?;
    Ok(Some(Body {
        pain: scale(pain, &place.child("pain"))?,
        comfort: scale(comfort, &place.child("comfort"))?,
    }))
}

fn scale(value: Option<&Value<'_>>, place: &Place<'_>) -> Result<Option<f64>, Fault> {
    value.map(|value| on_scale(value, place)).transpose()
}

fn required_scale(value: Option<&Value<'_>>, place: &Place<'_>) -> Result<f64, Fault> {
    on_scale(required(value, place)?, place)
}

fn on_scale(value: &Value<'_>, place: &Place<'_>) -> Result<f64, Fault> {
    value
        .as_number()
        .map(|number| number.as_f64())
        .filter(|number| (1.0..=9.0).contains(number))
        .ok_or_else(|| Fault::schema(place, "must be a number from 1 to 9", "VX-PS-1"))
}
