//! Envelopes that this node makes: their members in one place (AG-ENV-20, AG-SND-3).

use chancery_core::json::{Object, Value};

use crate::envelope::PROTOCOL;
use crate::kind::Kind;
use crate::message::{Container, Message};
use crate::revision::Revision;
use crate::trust::unsigned_proof;

/// An envelope without its body.
#[derive(Clone, Debug)]
pub(crate) struct Made<'m> {
    pub(crate) id: String,
    pub(crate) kind: Kind,
    pub(crate) revision: Revision,
    pub(crate) workspace: Option<&'m str>,
    pub(crate) channel: &'m str,
    pub(crate) from: &'m str,
    pub(crate) to: Option<&'m str>,
    pub(crate) work: Option<&'m str>,
    pub(crate) container: Option<&'m Container>,
    pub(crate) reply_to: Option<&'m str>,
    pub(crate) trace_id: Option<&'m str>,
    pub(crate) causation_id: Option<&'m str>,
    pub(crate) ts: i64,
}

impl<'m> Made<'m> {
    /// An answer of `from` to a message, in the revision it was asked in (AG-B-45).
    pub(crate) fn answering(
        message: &'m Message,
        kind: Kind,
        from: &'m str,
        id: String,
        now: i64,
    ) -> Self {
        Self {
            id,
            kind,
            revision: message.revision,
            workspace: message.workspace.as_deref(),
            channel: &message.channel,
            from,
            to: Some(&message.from),
            work: message.work.as_deref(),
            container: message.container.as_ref(),
            reply_to: Some(&message.id),
            trace_id: message.trace_id.as_deref(),
            causation_id: None,
            ts: now,
        }
    }

    /// The envelope with its body: `to` and `proof` are written also when unset, everything else is left out.
    pub(crate) fn into_object(
        self,
        body: Object<'static>,
        ext: Option<Object<'static>>,
    ) -> Object<'static> {
        let mut envelope = Object::with_capacity(16)
            .with("protocol", PROTOCOL)
            .with("id", self.id)
            .with("kind", self.kind.as_str())
            .with("channel", self.channel.to_owned())
            .with("from", self.from.to_owned())
            .with("to", self.to.map_or(Value::Null, |to| to.to_owned().into()))
            .with("ts", self.ts)
            .with("body", Value::Object(body))
            .with("proof", Value::Null);
        let work_name = match self.revision {
            Revision::A => "interaction_id",
            Revision::B => "work_id",
        };
        let optional = [
            ("workspace_id", self.workspace),
            (work_name, self.work),
            ("reply_to", self.reply_to),
            ("trace_id", self.trace_id),
            ("causation_id", self.causation_id),
        ];
        for (name, value) in optional {
            if let Some(value) = value {
                envelope.insert(name, value.to_owned());
            }
        }
        if let Some(container) = self.container {
            let name = if container.surface == "thread" {
                "thread_id"
            } else {
                "direct_id"
            };
            envelope.insert("surface", container.surface);
            envelope.insert(name, container.id.to_string());
        }
        if let Some(ext) = ext {
            envelope.insert("ext", Value::Object(ext));
        }
        envelope
    }
}

/// The envelope with a proof that waits for a signature, where it is to have one (AG-TRU-10).
pub(crate) fn proven_by(
    mut envelope: Object<'static>,
    public: Option<&[u8; 32]>,
) -> Object<'static> {
    if let Some(public) = public {
        envelope.insert("proof", Value::Object(unsigned_proof(public)));
    }
    envelope
}
