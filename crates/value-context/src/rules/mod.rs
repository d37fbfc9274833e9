//! The rules: what becomes of a message, in the order of section 15.
//!
//! Decode and authenticate have done checks 1 to 5; here are 6 to 10, and those of 4 and 5 that depend on the
//! decision's own time and place. A refusal leaves nothing behind.

mod announcements;
mod audience;
mod children;
mod constrained;
mod direction;
mod duties;
mod escalated;
mod evaluations;
mod forwards;
mod made;
mod open;
mod receive;
mod resumes;
mod runtime;
mod send;
mod shares;
mod timer;
mod told;
mod unacknowledged;

use chancery_core::admin::{agent_key, key_key, run_state_key};
use chancery_core::digest::{Sha256, Sha256Digest};
use chancery_core::line::ProtocolName;
use chancery_core::protocol::{Input, Proof};
use chancery_core::rows::RowKey;
use chancery_core::window::{WindowId, WindowName};

pub use announcements::{Announcement, Comparison, announcements_key, announcements_prefix};
pub use children::{ChildView, child_key};
pub use constrained::{constraints_key, constraints_prefix, effective};
pub use duties::{Duties, stricter};
pub use evaluations::{EVALUATION, Evaluation, evaluation_key};
pub use forwards::as_forward;
pub use open::{Open, open_key, open_prefix, operator_resumed};
pub use receive::receive;
pub use send::send;
pub use shares::{Share, own_context_key, share_key, shares_prefix};
pub use timer::{Timer, due};
pub use unacknowledged::failed;

use crate::agent::known_by_key;
use crate::message::{Message, Recipient};
use crate::protocol::ValueContext;

/// Identifiers that a hosted agent has received (VX-DUP-2).
pub const SEEN: WindowName = "value-context/seen";
/// Escalations that a hosted agent has acknowledged, with the line of the acknowledgement (VX-ACK-4).
pub const ACKED: WindowName = "value-context/acked";
/// Escalations that a hosted agent has sent, and to whom (VX-ACK-6).
pub const ESCALATED: WindowName = "value-context/escalated";
/// Escalations that a hosted agent has forwarded (VX-RUN-8).
pub const FORWARDED: WindowName = "value-context/forwarded";
/// All windows of these rules.
pub const WINDOWS: [WindowName; 5] = [SEEN, SENT, ACKED, ESCALATED, FORWARDED];
/// Keys of send requests that were carried out.
pub const SENT: WindowName = "value-context/sent";

/// The checks that an accepted message has passed (VX-AUD-1).
const CHECKS: &[&str] = &[
    "parse",
    "schema",
    "temporal",
    "signature",
    "recipient",
    "replay",
    "direction",
];

/// The rows that a decision will surely read.
pub fn wants(input: &Input<ValueContext>, wants: &mut Vec<RowKey>) {
    let (sender, recipient) = match input {
        Input::Envelope(authentic) => {
            if let Proof::Key { id, .. } = &authentic.proof {
                wants.push(key_key(authentic.message.sender.as_str(), id));
            }
            (
                authentic.message.sender.as_str(),
                &authentic.message.recipient,
            )
        }
        Input::Outgoing { content, .. } => {
            wants.push(made::last_id_key());
            wants.push(own_context_key(content.sender.as_str()));
            if let Recipient::Directed(child) = &content.recipient {
                wants.push(child_key(content.sender.as_str(), child.as_str()));
            }
            (content.sender.as_str(), &content.recipient)
        }
        _ => return,
    };
    wants.push(agent_key(ProtocolName::ValueContext, sender));
    wants.push(run_state_key(sender));
    match recipient {
        Recipient::Directed(agent) => {
            wants.push(child_key(agent.as_str(), sender));
            wants.push(agent_key(ProtocolName::ValueContext, agent.as_str()));
            wants.push(share_key(agent.as_str(), sender));
            wants.push(chancery_core::inbox::open_page_key(&audience::inbox(
                agent.as_str(),
            )));
        }
        Recipient::Broadcast => wants.push(known_by_key(sender)),
    }
}

/// The rows that say whether the sender of a message is suspended; where none of them is on record it is not.
pub fn run_states(message: &Message) -> impl Iterator<Item = RowKey> {
    let sender = message.sender.as_str();
    let held = match &message.recipient {
        Recipient::Directed(agent) => Some(child_key(agent.as_str(), sender)),
        Recipient::Broadcast => None,
    };
    std::iter::once(run_state_key(sender)).chain(held)
}

/// An identifier in a window: what it belongs to, and its own name.
fn window_id(scope: &str, name: &[u8]) -> WindowId {
    let mut hash = Sha256::new();
    hash.update(&(scope.len() as u64).to_be_bytes());
    hash.update(scope.as_bytes());
    hash.update(name);
    let mut id = [0; 16];
    id.copy_from_slice(&hash.finish().0[..16]);
    id
}

/// Tells copies of a message from another one under the same identifier: the head of a digest of its signed bytes.
fn content_tag(signed: &[u8]) -> u64 {
    let digest = Sha256Digest::of(signed);
    let mut head = [0; 8];
    head.copy_from_slice(&digest.0[..8]);
    u64::from_be_bytes(head)
}
