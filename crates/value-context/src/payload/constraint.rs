//! The payload of a `constraint_propagate` and the values of the types that are known (VX-CP-1, VX-CP-2, VX-CP-10).

use super::{is_longer_than, read_creed};
use crate::code::{Code, Fault};
use crate::members::{closed, required, required_text};
use crate::message::Version;
use crate::message_id::MessageId;
use crate::schema::CreedText;
use chancery_core::json::{Place, Value};
use schemars::JsonSchema;

/// Most constraints of one message.
pub const MAX_CONSTRAINTS: usize = 256;
/// Longest type in code points.
const MAX_TYPE: usize = 128;
/// The type of the control entry that says what a message means for a suspended child.
pub const RESUME: &str = "x-vcp-resume";
/// 2^53 − 1, the largest token limit.
const MAX_SAFE_INTEGER: f64 = 9_007_199_254_740_991.0;

/// Constraints from a parent to its child.
#[derive(Clone, Debug, PartialEq, JsonSchema)]
#[schemars(rename = "constraint_propagate", deny_unknown_fields)]
pub struct ConstraintPropagate {
    /// What they are, in the order written.
    #[schemars(length(min = 1, max = MAX_CONSTRAINTS))]
    pub constraints: Vec<Constraint>,
    /// What becomes of those the child has.
    #[schemars(rename = "propagation_mode")]
    pub mode: Mode,
}

/// What becomes of the constraints a child has.
#[derive(Clone, Copy, Debug, PartialEq, Eq, JsonSchema)]
#[schemars(rename = "propagation_mode", rename_all = "lowercase")]
pub enum Mode {
    /// They stay, and the more restrictive of each type wins.
    Merge,
    /// Those of the same types are replaced.
    Override,
}

/// One constraint.
#[derive(Clone, Debug, PartialEq, JsonSchema)]
#[schemars(rename = "constraint", deny_unknown_fields)]
pub struct Constraint {
    /// Its type.
    #[schemars(rename = "type", length(min = 1, max = MAX_TYPE))]
    pub kind: Box<str>,
    /// Its value; one that its type allows.
    #[schemars(with = "serde_json::Value")]
    pub value: Value<'static>,
    /// The constitution it comes from.
    #[schemars(rename = "source_constitution_ref", with = "CreedText")]
    pub source: Box<str>,
}

/// The types whose values have an order (VX-CP-2).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ConstraintType {
    /// Topics that are not spoken of.
    TopicBlock,
    /// The longest output in tokens.
    TokenLimit,
    /// The only audiences that are served.
    AudienceRestrict,
    /// The least level of adherence.
    SafetyFloor,
    /// No order is known.
    Unknown,
}

/// What a control entry says about open escalations (VX-CP-10).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Resume {
    /// Whether the child is to go on.
    pub resume: bool,
    /// Which escalation is meant; all of them when none is named.
    pub escalation_id: Option<MessageId>,
}

impl ConstraintType {
    /// The type of that name.
    pub fn named(name: &str) -> Self {
        match name {
            "topic_block" => Self::TopicBlock,
            "token_limit" => Self::TokenLimit,
            "audience_restrict" => Self::AudienceRestrict,
            "safety_floor" => Self::SafetyFloor,
            _ => Self::Unknown,
        }
    }

    fn allows(self, value: &Value<'_>) -> bool {
        match self {
            Self::TopicBlock | Self::AudienceRestrict => is_words(value),
            Self::TokenLimit => is_integer_up_to(value, MAX_SAFE_INTEGER),
            Self::SafetyFloor => is_integer_up_to(value, 5.0),
            Self::Unknown => true,
        }
    }
}

/// Whether a type allows a value.
pub fn is_value_of(kind: &str, value: &Value<'_>) -> bool {
    if kind == RESUME {
        return Resume::of(value).is_some();
    }
    ConstraintType::named(kind).allows(value)
}

impl Resume {
    /// The control entry that a value is.
    pub fn of(value: &Value<'_>) -> Option<Self> {
        let members = value.as_object()?;
        let resume = members.get("resume")?.as_bool()?;
        let escalation_id = match members.get("escalation_id") {
            Some(id) => Some(MessageId::parse_any(id.as_str()?)?),
            None => None,
        };
        let known = 1 + usize::from(escalation_id.is_some());
        (members.len() == known).then_some(Self {
            resume,
            escalation_id,
        })
    }
}

impl ConstraintPropagate {
    pub(super) fn read(
        value: &Value<'_>,
        version: Version,
        place: &Place<'_>,
    ) -> Result<Self, Fault> {
        let [constraints, mode] = closed(value, place, ["constraints", "propagation_mode"])?;
        let constraints = read_constraints(constraints, version, &place.child("constraints"))?;
        let mode = read_mode(mode, &place.child("propagation_mode"))?;
        Ok(Self { constraints, mode })
    }

    /// The control entries.
    pub fn resumes(&self) -> impl Iterator<Item = Resume> {
        let control = self
            .constraints
            .iter()
            .filter(|constraint| *constraint.kind == *RESUME);
        control.filter_map(|constraint| Resume::of(&constraint.value))
    }

    /// What is kept: all but the control entries.
    pub fn kept(&self) -> impl Iterator<Item = &Constraint> {
        self.constraints
            .iter()
            .filter(|constraint| *constraint.kind != *RESUME)
    }
}

fn read_constraints(
    member: Option<&Value<'_>>,
    version: Version,
    place: &Place<'_>,
) -> Result<Vec<Constraint>, Fault> {
    let items = required(member, place)?
        .as_array()
        .ok_or_else(|| Fault::schema(place, "must be an array", "VX-CP-1"))?;
    if items.is_empty() || items.len() > MAX_CONSTRAINTS {
        return Err(Fault::schema(place, "must have 1 to 256 items", "VX-CP-1"));
    }
    let read = |(index, item)| read_constraint(item, version, &place.item(index));
    items.iter().enumerate().map(read).collect()
}

fn read_constraint(value: &Value<'_>, _: Version, place: &Place<'_>) -> Result<Constraint, Fault> {
    const NAMES: [&str; 3] = ["type", "value", "source_constitution_ref"];
    let [kind, value, source] = closed(value, place, NAMES)?;
    let kind_place = place.child("type");
    let kind = required_text(kind, &kind_place)?;
    if kind.is_empty() || is_longer_than(kind, MAX_TYPE) {
        let message = "must have 1 to 128 characters";
        return Err(Fault::schema(&kind_place, message, "VX-CP-1"));
    }
    let value_place = place.child("value");
    let value = required(value, &value_place)?;
    let source = read_creed(source, &place.child("source_constitution_ref"))?;
    if !is_value_of(kind, value) {
        let message = "the type does not allow this value";
        return Err(Fault::new(Code::ConstraintInvalid, message).at(&value_place));
    }
    Ok(Constraint {
        kind: kind.into(),
        value: value.clone().into_owned(),
        source,
    })
}

fn read_mode(member: Option<&Value<'_>>, place: &Place<'_>) -> Result<Mode, Fault> {
    match required_text(member, place)? {
        "merge" => Ok(Mode::Merge),
        "override" => Ok(Mode::Override),
        _ => Err(Fault::schema(place, "must be merge or override", "VX-CP-1")),
    }
}

fn is_words(value: &Value<'_>) -> bool {
    let is_word = |item: &Value<'_>| item.as_str().is_some_and(|word| !trimmed(word).is_empty());
    match value {
        Value::Array(items) => items.iter().all(is_word),
        other => is_word(other),
    }
}

fn is_integer_up_to(value: &Value<'_>, largest: f64) -> bool {
    value.as_number().is_some_and(|number| {
        let number = number.as_f64();
        number.fract() == 0.0 && (0.0..=largest).contains(&number)
    })
}

/// A word without the blanks around it that do not count (VX-CP-3).
pub(crate) fn trimmed(word: &str) -> &str {
    word.trim_matches([' ', '\t', '\r', '\n'])
}
