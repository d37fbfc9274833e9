//! What the doors ask of AGH: envelopes in, envelopes of hosted peers out, who is where.

use std::collections::BTreeMap;

use bytes::Bytes;
use chancery_agh::answer::{Answer, Outcome, Verdict as AghVerdict};
use chancery_agh::fault::{ErrorName, Fault, Stage};
use chancery_agh::kind::Kind;
use chancery_agh::outgoing::Outgoing;
use chancery_agh::peer::{PeerRecord, address, channel_key};
use chancery_agh::revision::Revision;
use chancery_agh::rules::{StoredInteraction, interactions_prefix};
use chancery_agh::settings::Settings;
use chancery_agh::soft::Standing;
use chancery_core::admin::{Act, agent_key};
use chancery_core::line::ProtocolName;
use chancery_core::protocol::{Door, Input};
use chancery_core::refusal::Refusal;
use chancery_core::rows::RowKey;
use chancery_store::StoreError;
use serde_json::{Value, json};

use crate::office::Office;
use crate::passage::{Passage, Verdict};
use crate::reconcile::ReconcileError;
use crate::soft::lock;
use crate::suite::{AnyAnswer, AnyInput};
use crate::trace::Stage as PathStage;

/// Interactions that one answer lists.
const LISTED: usize = 10_000;

impl Office {
    /// An AGH envelope as from the network. What is wrong with it is part of the answer.
    pub async fn receive_agh(&self, raw: Bytes, door: Door) -> Outcome {
        let read = self.read_agh(raw, door).await;
        self.decide_agh(read).await
    }

    /// An envelope of a hosted peer: the body of `POST /send/agh`.
    pub async fn send_agh(
        &self,
        body: &[u8],
        idempotency: Option<String>,
    ) -> Result<Outcome, Refusal> {
        let mut passage = self.passage(ProtocolName::Agh);
        let result = self.send_as_peer(&mut passage, body, idempotency).await;
        match &result {
            Ok(outcome) => {
                passage.is_called(&outcome.id);
                self.conclude_agh(&passage, outcome);
            }
            Err(refusal) => self.conclude(&passage, Verdict::Rejected(refusal)),
        }
        result
    }

    async fn send_as_peer(
        &self,
        passage: &mut Passage,
        body: &[u8],
        idempotency: Option<String>,
    ) -> Result<Outcome, Refusal> {
        let busy = || Fault::new(ErrorName::Busy, Stage::Routing).into_refusal(Revision::A);
        let settings = self.gate().settings();
        let permit = self.gate().permit().map_err(|_| busy())?;
        let read = Outgoing::decode(body, &settings.agh);
        passage.ends(PathStage::Decode);
        let mut outgoing = read.map_err(|fault| fault.into_refusal(Revision::A))?;
        if let Some(place) = passage.place() {
            outgoing.name_trace(&place.traceparent(), place.tracestate());
        }
        let (workspace, channel, from) = outgoing.place();
        let (agent, signer) = (address(workspace, channel, from), from.to_owned());
        passage.names(|| (agent.clone(), None));
        outgoing.signed = settings.agh.trust.enabled && self.gate().vault().holds(&signer);
        let kind = outgoing.kind();
        let input = AnyInput::Agh(Input::Outgoing {
            agent,
            answers: None,
            idempotency,
            content: outgoing,
        });
        let received = self.gate().clock().now();
        let decided = self.decide(passage, input, received, Some(permit)).await;
        match decided.map_err(|_| busy())?.result? {
            AnyAnswer::Agh(Answer::Decided(mut outcome)) => {
                self.seal_emitted(&mut outcome);
                count_agh("sent", kind, &outcome);
                Ok(*outcome)
            }
            AnyAnswer::Agh(Answer::SentBefore(seq)) => {
                let id = self.envelope_id(seq).map_err(|_| busy())?;
                let mut outcome = Outcome::new(AghVerdict::Accept, &id, Revision::A);
                outcome.sent_before = true;
                Ok(outcome)
            }
            _ => Err(busy()),
        }
    }

    /// The identifier of the envelope that a line holds.
    fn envelope_id(&self, seq: u64) -> Result<String, StoreError> {
        let line = self.gate().store().lines(seq, 1)?.pop();
        let line = line.ok_or_else(|| StoreError(format!("the log has no line {seq}")))?;
        let line =
            chancery_journal::line::parse(&line).map_err(|fault| StoreError(fault.to_string()))?;
        let envelope: Value = serde_json::from_slice(&line.envelope)
            .map_err(|error| StoreError(error.to_string()))?;
        let id = envelope.get("id").and_then(Value::as_str);
        id.map(str::to_owned)
            .ok_or_else(|| StoreError(format!("line {seq} holds no envelope")))
    }

    /// Who is in a channel, and what they work on.
    pub fn agh_state(&self, workspace: Option<&str>, channel: &str) -> Result<Value, StoreError> {
        let now = self.gate().clock().now().unix_seconds();
        let mut peers = Vec::new();
        for peer in self.agh_locals(workspace, channel)? {
            peers.push(json!({
                "peer_id": peer.card.peer_id,
                "state": Standing::Local.as_str(),
                "last_seen": now,
                "card": peer.shown_card(),
            }));
        }
        let soft = lock(self.agh());
        for (standing, known) in soft.presence.list(workspace, channel, now) {
            peers.push(json!({
                "peer_id": known.card.peer_id,
                "state": standing.as_str(),
                "last_seen": known.last_seen,
                "card": known.card,
            }));
        }
        drop(soft);
        Ok(json!({
            "peers": peers,
            "interactions": self.agh_interactions(workspace, channel)?,
        }))
    }

    /// The local peers of a channel, in the order in which they joined.
    pub fn agh_locals(
        &self,
        workspace: Option<&str>,
        channel: &str,
    ) -> Result<Vec<PeerRecord>, StoreError> {
        let names: Vec<String> = self
            .row(&channel_key(workspace, channel))?
            .unwrap_or_default();
        let mut records = Vec::with_capacity(names.len());
        for name in names {
            let key = agent_key(ProtocolName::Agh, &address(workspace, channel, &name));
            records.extend(self.row::<PeerRecord>(&key)?);
        }
        Ok(records)
    }

    fn agh_interactions(
        &self,
        workspace: Option<&str>,
        channel: &str,
    ) -> Result<Vec<Value>, StoreError> {
        let prefix = interactions_prefix(workspace, channel);
        let name_member = match workspace {
            None => "interaction_id",
            Some(_) => "work_id",
        };
        let rows = self.gate().store().scan(&prefix, None, LISTED)?;
        let mut listed = Vec::with_capacity(rows.len());
        for (key, bytes) in rows {
            let stored: StoredInteraction = serde_json::from_slice(&bytes)
                .map_err(|error| StoreError(format!("{key:?}: {error}")))?;
            let interaction = stored.interaction;
            // In revision B the key names the workspace; the channel is on record.
            if workspace.is_some() && interaction.channel.as_deref() != Some(channel) {
                continue;
            }
            listed.push(json!({
                name_member: last_part(&key),
                "initiator": interaction.initiator,
                "target": interaction.target,
                "state": interaction.state,
            }));
        }
        Ok(listed)
    }

    /// Writes the AGH peers of the configuration that differ from the record, in sorted order. Gives their number.
    pub async fn reconcile_peers(&self, peers: &[PeerRecord]) -> Result<usize, ReconcileError> {
        let mut written = 0;
        let sorted: BTreeMap<String, &PeerRecord> =
            peers.iter().map(|peer| (peer.address(), peer)).collect();
        for (id, record) in sorted {
            self.forget_remote(record);
            let on_record: Option<PeerRecord> = self.row(&agent_key(ProtocolName::Agh, &id))?;
            if on_record.as_ref() == Some(record) {
                continue;
            }
            let record =
                serde_json::to_value(record).map_err(|error| StoreError(error.to_string()))?;
            let act = Act::Agent {
                protocol: ProtocolName::Agh,
                id: id.clone(),
                record: Some(record),
                run_state: None,
            };
            self.record(act, || format!("peer {id}")).await?;
            written += 1;
        }
        Ok(written)
    }

    /// Goes by these settings from here on, as far as memory is concerned.
    pub(crate) fn limit_agh(&self, settings: &Settings) {
        lock(self.agh()).follow(settings);
    }

    /// A peer is hosted here from now on: an announcement of its name counts no more (AG-PRS-3).
    pub(crate) fn forget_remote(&self, record: &PeerRecord) {
        let workspace = record.workspace_id.as_deref();
        lock(self.agh())
            .presence
            .forget(workspace, &record.channel, &record.card.peer_id);
    }

    pub(crate) fn conclude_agh(&self, passage: &Passage, outcome: &Outcome) {
        let verdict = match (&outcome.fault, outcome.verdict) {
            (Some(fault), AghVerdict::Reject) => {
                let refusal = fault.clone().into_refusal(outcome.revision);
                let refusal = refusal.of_message(outcome.id.as_str());
                return self.conclude(passage, Verdict::Rejected(&refusal));
            }
            (Some(fault), AghVerdict::Ignore) => Verdict::Ignored(fault.error.as_str()),
            _ if outcome.sent_before => Verdict::Duplicate,
            _ => Verdict::Accepted,
        };
        self.conclude(passage, verdict);
    }
}

/// Counts an envelope that was not rejected, and the inboxes that have it, by kind (AG-OBS-1). Rejected ones count by
/// their code.
pub(crate) fn count_agh(direction: &'static str, kind: Option<Kind>, outcome: &Outcome) {
    if outcome.verdict == AghVerdict::Reject {
        return;
    }
    let kind = kind.map_or("other", Kind::as_str);
    metrics::counter!("chancery_agh_envelopes_total", "direction" => direction, "kind" => kind)
        .increment(1);
    metrics::counter!("chancery_agh_envelopes_total", "direction" => "delivered", "kind" => kind)
        .increment(outcome.deliver_to.len() as u64);
}

pub(crate) fn rejected(id: &str, revision: Revision, fault: Fault) -> Outcome {
    let mut outcome = Outcome::new(AghVerdict::Reject, id, revision);
    outcome.fault = Some(fault);
    outcome
}

/// The last part of a row's key, as text.
fn last_part(key: &RowKey) -> String {
    let last = key.parts().pop().unwrap_or_default();
    String::from_utf8_lossy(&last).into_owned()
}
