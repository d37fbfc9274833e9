//! The chains of a log, followed without any rules: what `log verify` asks beside signatures (CH-JRN-7).

use std::collections::BTreeMap;

use chancery_core::admin::Act;
use chancery_core::line::{Line, Origin, ProtocolName, Seq};
use chancery_core::protocol::Failure;

use super::chain::ReplayState;
use crate::envelope::Envelope;
use crate::id::VacantId;
use crate::message::Message;
use crate::payload::Profile;

/// Follows the chains of all pairs of a log. Its memory grows with the pairs, not with the lines.
#[derive(Clone, Debug, Default)]
pub struct ChainCheck {
    pairs: BTreeMap<(VacantId, VacantId), ReplayState>,
    /// Where a pair stood before a call that its target may still refuse.
    before: BTreeMap<Seq, ((VacantId, VacantId), ReplayState)>,
}

impl ChainCheck {
    /// Looks at a line; says what is wrong with it.
    pub fn line(&mut self, line: &Line) -> Option<String> {
        match line.protocol {
            ProtocolName::Vacant => self.envelope(line),
            ProtocolName::Node => {
                self.failed(line);
                None
            }
            _ => None,
        }
    }

    fn envelope(&mut self, line: &Line) -> Option<String> {
        let message = match Message::of_record(line.received()) {
            Ok(message) => message,
            Err(error) => return Some(error.to_string()),
        };
        let envelope = &message.envelope;
        let pair = (envelope.from, envelope.to);
        let state = self.pairs.entry(pair).or_default();
        let answers: Option<Seq> = line.meta_json("answers").and_then(|text| text.parse().ok());
        if line.origin == Origin::Agent && answers.is_none() {
            self.before.insert(line.seq, (pair, *state));
        }
        if let (Some(call), Origin::External) = (answers, line.origin) {
            self.before.remove(&call);
        }
        let broken = state.check(envelope.sequence_no, &envelope.prev).err();
        // After a break the lines behind it are judged among themselves.
        *state = ReplayState {
            last_sequence_no: envelope.sequence_no,
            chain_tip: hash(envelope, line),
        };
        broken.map(|error| {
            let (from, to) = pair;
            format!(
                "{}: chain of {from} to {to}, number {}",
                error.code(),
                envelope.sequence_no
            )
        })
    }

    /// A call of ours that was not taken gives its number back.
    fn failed(&mut self, line: &Line) {
        let Ok(Act::Failed {
            protocol: ProtocolName::Vacant,
            of,
            code,
            ..
        }) = chancery_core::admin::reread(line)
        else {
            return;
        };
        let refused = matches!(
            code,
            Failure::Undeliverable | Failure::Interrupted | Failure::CallRefused
        );
        if let Some((pair, before)) = self.before.remove(&of)
            && refused
        {
            self.pairs.insert(pair, before);
        }
    }
}

fn hash(envelope: &Envelope, line: &Line) -> crate::envelope::EnvelopeHash {
    let form = line.meta_text("form");
    let profile = form.and_then(|form| Profile::parse(&form));
    envelope.hash(profile.unwrap_or_default())
}
