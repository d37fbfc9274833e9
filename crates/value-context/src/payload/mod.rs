//! What a message carries: one payload a type (sections 8 to 11).

mod announce;
mod constraint;
mod escalation;
mod share;

pub(crate) use announce::ENVIRONMENTS;
pub use announce::{ConstitutionAnnounce, Deployment, Scope, manifest_hash};
pub(crate) use constraint::trimmed;
pub use constraint::{
    Constraint, ConstraintPropagate, ConstraintType, MAX_CONSTRAINTS, Mode, RESUME, Resume,
    is_value_of,
};
pub use escalation::{
    AckState, Acknowledgement, Escalation, MAX_REASON, Severity, acknowledgement_of,
};
pub use share::ContextShare;

use crate::code::{Code, Fault};
use crate::context::{self, ContextFault};
use crate::creed::CreedRef;
use crate::members::required_text;
use crate::message::{Kind, Version};
use chancery_core::fault;
use chancery_core::json::{Place, Value};

/// What a message carries.
#[derive(Clone, Debug, PartialEq)]
pub enum Payload {
    /// `context_share`
    ContextShare(ContextShare),
    /// `constitution_announce`
    ConstitutionAnnounce(ConstitutionAnnounce),
    /// `constraint_propagate`
    ConstraintPropagate(ConstraintPropagate),
    /// `escalation`
    Escalation(Escalation),
}

impl Payload {
    /// Reads the payload of a message of this kind, an object that was found at `place`.
    pub fn read(
        kind: Kind,
        version: Version,
        payload: &Value<'_>,
        place: &Place<'_>,
    ) -> Result<Self, Fault> {
        Ok(match kind {
            Kind::ContextShare => Self::ContextShare(ContextShare::read(payload, place)?),
            Kind::ConstitutionAnnounce => {
                Self::ConstitutionAnnounce(ConstitutionAnnounce::read(payload, version, place)?)
            }
            Kind::ConstraintPropagate => {
                Self::ConstraintPropagate(ConstraintPropagate::read(payload, version, place)?)
            }
            Kind::Escalation => Self::Escalation(Escalation::read(payload, version, place)?),
        })
    }

    /// Which of the four it is.
    pub const fn kind(&self) -> Kind {
        match self {
            Self::ContextShare(_) => Kind::ContextShare,
            Self::ConstitutionAnnounce(_) => Kind::ConstitutionAnnounce,
            Self::ConstraintPropagate(_) => Kind::ConstraintPropagate,
            Self::Escalation(_) => Kind::Escalation,
        }
    }

    /// Whether it may be sent by an agent that is suspended, and is taken from one: escalations, acknowledgements
    /// and forwards, or a suspended middle agent would cut its children off (VX-RUN-3, VX-RUN-4).
    pub const fn is_exempt(&self) -> bool {
        matches!(self, Self::Escalation(_))
    }
}

fn read_context(member: Option<&Value<'_>>, place: &Place<'_>) -> Result<Box<str>, Fault> {
    let text = required_text(member, place)?;
    match context::validate(text) {
        Ok(()) => Ok(text.into()),
        Err(_) if fault::on("vx-context-unchecked") => Ok(text.into()),
        Err(ContextFault::Empty) => Err(Fault::schema(place, "context is empty", "VX-CTX-4")),
        Err(fault) => Err(Fault::new(Code::ContextInvalid, fault.to_string())
            .at(place)
            .under(fault.requirement())),
    }
}

fn read_creed(member: Option<&Value<'_>>, place: &Place<'_>) -> Result<Box<str>, Fault> {
    let text = required_text(member, place)?;
    match CreedRef::parse(text) {
        Ok(_) => Ok(text.into()),
        Err(fault) => Err(Fault::schema(place, fault.to_string(), fault.requirement())),
    }
}

/// Whether a text has more than `limit` code points.
fn is_longer_than(text: &str, limit: usize) -> bool {
    text.len() > limit && text.chars().nth(limit).is_some()
}
