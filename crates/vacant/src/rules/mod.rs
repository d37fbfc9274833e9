//! The rules: what becomes of a call, an answer, a failure and an act.
//!
//! Decode and authenticate have done checks 1 to 4 of VA-SRV-4; here are 5, 6 and 8, and the row that says whether the
//! addressed vacant is hosted at all. Check 7, the behaviour, happens between two decisions (CH-JRN-16). A refusal
//! leaves nothing behind (VA-SRV-6).

pub mod chain;
mod failed;
pub mod judge;
mod outgoing;
pub mod registry;
mod reply;
mod serve;
mod verify;

use chancery_core::admin::{RunState, run_state};
use chancery_core::decision::{Cx, Stop};
use chancery_core::digest::Sha256;
use chancery_core::inbox::InboxName;
use chancery_core::line::{ProtocolName, Seq};
use chancery_core::protocol::Input;
use chancery_core::refusal::Refusal;
use chancery_core::rows::RowKey;
use chancery_core::window::{WindowId, WindowName};
use serde::{Deserialize, Serialize};

pub use failed::failed;
pub use outgoing::{answer, call};
pub use reply::reply;
pub use serve::serve;
pub use verify::ChainCheck;

use crate::agent::{Hosted, hosted_key};
use crate::envelope::EnvelopeHash;
use crate::error::ProtocolError;
use crate::id::VacantId;
use crate::outgoing::Outgoing;
use crate::payload::Profile;
use crate::protocol::Vacant;

/// Keys of send requests that were carried out.
pub const SENT: WindowName = "vacant/sent";

/// The checks that an accepted envelope has passed (VA-SRV-4).
const CHECKS: &[&str] = &["parse", "destination", "signature", "state", "chain"];

/// A call that was accepted here and has no outcome yet.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct OpenCall {
    /// Who called.
    pub from: VacantId,
    /// Who is called.
    pub to: VacantId,
    /// Its name.
    pub name: String,
    /// The profile of the call, and so of its answer (VA-MSG-8).
    pub profile: Profile,
    /// Whether a vacant of this node made the call.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub ours: bool,
}

/// A call of ours whose answer is awaited from elsewhere.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SentCall {
    /// Who called.
    pub from: VacantId,
    /// Its name.
    pub name: String,
    /// Who is called.
    pub to: VacantId,
    /// The hash of the call: a target that names it as its tip has accepted it (VA-DSP-10).
    pub hash: EnvelopeHash,
}

/// The row of a call without outcome.
pub fn open_call_key(line: Seq) -> RowKey {
    RowKey::new("va-call", &[&line.to_be_bytes()])
}

/// The prefix of all calls without outcome.
pub fn open_calls_prefix() -> RowKey {
    RowKey::new("va-call", &[])
}

/// The row of a call of ours that waits for its answer.
pub fn sent_call_key(line: Seq) -> RowKey {
    RowKey::new("va-sent", &[&line.to_be_bytes()])
}

/// The line that the key of a call's row names.
#[must_use]
pub fn line_of_call(key: &RowKey) -> Option<Seq> {
    let parts = key.parts();
    let line: [u8; 8] = parts.get(1)?.as_slice().try_into().ok()?;
    Some(Seq::from_be_bytes(line))
}

/// The rows that a decision will surely read.
pub fn wants(input: &Input<Vacant>, wants: &mut Vec<RowKey>) {
    match input {
        Input::Envelope(authentic) => {
            let envelope = &authentic.message.envelope;
            wants.push(hosted_key(&envelope.to));
            wants.push(chain::pair_key(&envelope.from, &envelope.to));
        }
        Input::Reply { to, message } => {
            let envelope = &message.message.envelope;
            wants.push(sent_call_key(*to));
            wants.push(chain::pair_key(&envelope.from, &envelope.to));
            wants.push(chain::pair_key(&envelope.to, &envelope.from));
        }
        Input::Outgoing {
            agent,
            answers,
            content,
            ..
        } => {
            let sender = VacantId::from_hex(agent).ok();
            wants.extend(sender.map(|id| hosted_key(&id)));
            wants.extend(answers.map(open_call_key));
            if let (Outgoing::Call(call), Some(from)) = (content, sender) {
                wants.push(hosted_key(&call.to));
                wants.push(chain::pair_key(&from, &call.to));
                wants.push(chain::pair_key(&call.to, &from));
            }
        }
        Input::Failed { of, .. } => wants.extend([open_call_key(*of), sent_call_key(*of)]),
        Input::Timer(_) | Input::Act(_) => {}
    }
}

/// The inbox of a hosted vacant.
fn inbox(name: &str) -> InboxName {
    InboxName {
        protocol: ProtocolName::Vacant,
        agent: name.to_owned(),
    }
}

/// Check 5: a vacant that is gone, asleep or suspended takes no calls (VA-SRV-5, CH-ID-5).
fn check_can_be_called(target: &Hosted, cx: &Cx<'_>) -> Result<(), Stop> {
    if !target.state.can_be_called() {
        return Err(refuse(ProtocolError::TargetUnavailable(target.state)));
    }
    check_not_suspended(target.participant(), cx)
}

fn check_not_suspended(participant: &str, cx: &Cx<'_>) -> Result<(), Stop> {
    match run_state(cx, participant)? {
        RunState::Suspended => Err(refuse(ProtocolError::Suspended)),
        RunState::Running | RunState::Paused => Ok(()),
    }
}

fn refuse(error: ProtocolError) -> Stop {
    Stop::Refused(Refusal::from(error))
}

/// An identifier in a window: what it belongs to, and its own name.
fn window_id(scope: &str, name: &str) -> WindowId {
    let mut hash = Sha256::new();
    hash.update(&(scope.len() as u64).to_be_bytes());
    hash.update(scope.as_bytes());
    hash.update(name.as_bytes());
    let mut id = [0; 16];
    id.copy_from_slice(&hash.finish().0[..16]);
    id
}
