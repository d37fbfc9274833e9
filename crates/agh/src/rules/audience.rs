//! Who gets an envelope: local peers through their inboxes, others through the network.

use chancery_core::decision::{Cx, Stop};
use chancery_core::delivery::Delivery;
use chancery_core::fault;
use chancery_core::line::{ProtocolName, Seq};
use chancery_core::rows::RowKey;

use super::interactions::{Stored, interaction_key};
use crate::kind::Kind;
use crate::message::Message;
use crate::peer::{in_channel, inbox, local};
use crate::subject;

/// The pauses before the second and third attempt to publish.
const PAUSES_MS: [u32; 2] = [250, 1_000];
/// How long a broker may take (AG-NAT-7).
const ATTEMPT_MS: u32 = 5_000;

/// The local peers that an accepted message goes to (AG-RTE-1 to AG-RTE-4); never its sender.
pub(super) fn local_recipients(
    message: &Message,
    interaction: Option<&Stored>,
    cx: &Cx<'_>,
) -> Result<Vec<String>, Stop> {
    let (workspace, channel) = (message.workspace.as_deref(), &*message.channel);
    let mut recipients = match (&message.to, message.kind) {
        (Some(to), _) => match local(cx, workspace, channel, to)? {
            Some(_) => vec![to.to_string()],
            None => Vec::new(),
        },
        (None, Some(Kind::Receipt | Kind::Trace)) => {
            let mut participants = Vec::new();
            if let Some(stored) = interaction {
                for peer in [&stored.interaction.initiator, &stored.interaction.target] {
                    if local(cx, workspace, channel, peer)?.is_some() {
                        participants.push(peer.clone());
                    }
                }
            }
            participants
        }
        (None, _) => in_channel(cx, workspace, channel)?,
    };
    recipients.retain(|peer| **peer != *message.from || fault::on("ag-own-envelope-back"));
    Ok(recipients)
}

/// Puts a line into inboxes.
pub(super) fn hand_over(message: &Message, recipients: &[String], line: Seq, cx: &mut Cx<'_>) {
    for peer in recipients {
        let name = inbox(message.workspace.as_deref(), &message.channel, peer);
        cx.inbox(name, line);
    }
}

/// Sends a line out: to one peer that is not hosted here, or to everybody in the channel.
pub(super) fn publish(message: &Message, participant: &str, line: Seq, cx: &mut Cx<'_>) {
    cx.deliver(
        line,
        Delivery {
            protocol: ProtocolName::Agh,
            from: participant.to_owned(),
            to: network_address(message),
            exempt: false,
            pauses_ms: PAUSES_MS.to_vec(),
            attempt_ms: ATTEMPT_MS,
            within_ms: None,
            then_ask: None,
        },
    );
}

/// The subject, and after a blank the unit of work that the envelope moves: what a failure is to put back.
fn network_address(message: &Message) -> String {
    let workspace = message.workspace.as_deref();
    let subject = subject::of(workspace, &message.channel, message.to.as_deref());
    match &message.work {
        Some(work) => format!("{subject} {work}"),
        None => subject,
    }
}

/// The interaction that a delivery's address names.
pub(super) fn interaction_of(address: &str) -> Option<RowKey> {
    let (subject, work) = address.split_once(' ')?;
    let (workspace, channel) = subject::parse(subject)?;
    Some(interaction_key(workspace, channel, work))
}
