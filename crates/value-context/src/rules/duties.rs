//! What the receiver of an escalation owes (section 14.1), as a table of values.

use chancery_core::admin::RunState;

use crate::payload::{Escalation, Severity};
use crate::settings::Settings;

/// How long an acknowledgement that is due may take (VX-ACK-2).
pub const ACK_DEADLINE_MS: u32 = 5_000;

/// What the receiver of an escalation does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Duties {
    /// Whether it acknowledges.
    pub acknowledges: bool,
    /// Within what time it must, when it must.
    pub ack_deadline_ms: Option<u32>,
    /// What it holds the sender to from here on, when it does.
    pub holds_child: Option<RunState>,
    /// Whether it tells its own parent.
    pub propagates: bool,
    /// Whether the whole payload is kept for the owner (VX-AUD-2).
    pub audits_in_full: bool,
}

impl Duties {
    /// The duties towards an escalation; an acknowledgement causes none (VX-ACK-3).
    pub fn of(escalation: &Escalation, has_parent: bool, settings: &Settings) -> Self {
        let is_acknowledgement = escalation.is_acknowledgement();
        let (severity, asked) = (escalation.severity, escalation.requires_ack);
        Self {
            acknowledges: !is_acknowledgement && (asked || settings.ack_unrequested),
            ack_deadline_ms: (!is_acknowledgement && asked).then_some(ACK_DEADLINE_MS),
            holds_child: held_by(severity).filter(|_| !is_acknowledgement),
            propagates: !is_acknowledgement && severity == Severity::Emergency && has_parent,
            audits_in_full: !is_acknowledgement && severity.is_grave(),
        }
    }
}

/// The state that an escalation holds its sender to.
pub(super) const fn held_by(severity: Severity) -> Option<RunState> {
    match severity {
        Severity::Info | Severity::Warning => None,
        Severity::Critical => Some(RunState::Paused),
        Severity::Emergency => Some(RunState::Suspended),
    }
}

/// The stricter of two states.
pub fn stricter(a: RunState, b: RunState) -> RunState {
    let rank = |state| match state {
        RunState::Running => 0,
        RunState::Paused => 1,
        RunState::Suspended => 2,
    };
    if rank(a) >= rank(b) { a } else { b }
}
