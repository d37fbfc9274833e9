//! What value-context alone asks of the office: judgements, short-lived keys, and what it holds about an agent.

use chancery_core::admin::{Act, agent_key};
use chancery_core::digest::Sha256Digest;
use chancery_core::json::Place;
use chancery_core::keys::{Algorithm, KeyRecord, KeySource, KeyState};
use chancery_core::line::{ProtocolName, Seq};
use chancery_core::refusal::Refusal;
use chancery_core::rows::{Row, RowKey};
use chancery_core::time::Time;
use chancery_store::StoreError;
use chancery_value_context::agent::{AgentRecord, SPAWN_KEY};
use chancery_value_context::code::{Code, Fault};
use chancery_value_context::judgement::{About, Judgement, Pending};
use chancery_value_context::message::read_json;
use chancery_value_context::outgoing::Outgoing;
use chancery_value_context::rules;
use chancery_value_context::settings::Settings;
use serde_json::json;

use crate::office::{Office, internal};

impl Office {
    /// What a send request asks for: a message, or a judgement that becomes one (VX-RUN-7).
    pub(crate) fn asked_to_send(
        &self,
        body: &[u8],
        settings: &Settings,
    ) -> Result<Outgoing, Refusal> {
        let refuse = |fault: Fault| fault.into_refusal("schema");
        let value = read_json(body, settings.max_bytes).map_err(refuse)?;
        let Some(judgement) = Judgement::read(&value) else {
            let disabled = &settings.disabled_types;
            let mut outgoing = Outgoing::read(&value, disabled, false).map_err(refuse)?;
            outgoing.signed = self.gate().vault().holds(outgoing.sender.as_str());
            return Ok(outgoing);
        };
        let judgement = judgement.map_err(refuse)?;
        let sender = judgement.sender.as_str();
        let signed = self.gate().vault().holds(sender);
        let record: Option<AgentRecord> = self
            .row(&agent_key(ProtocolName::ValueContext, sender))
            .map_err(|_| internal())?;
        let mut record = record.ok_or_else(|| nothing_to_judge("sender"))?;
        let shared: Option<String> = self
            .row(&rules::own_context_key(sender))
            .map_err(|_| internal())?;
        record.context = shared.or(record.context);
        let pending = self
            .pending(sender, &record, &judgement.about)
            .map_err(|_| internal())?
            .ok_or_else(|| nothing_to_judge("escalation_id"))?;
        judgement
            .into_message(&record, &pending, signed)
            .map_err(refuse)?
            .ok_or_else(|| nothing_to_judge("escalation_id"))
    }

    /// The escalation that a judgement is about.
    fn pending(
        &self,
        agent: &str,
        record: &AgentRecord,
        about: &About,
    ) -> Result<Option<Pending>, StoreError> {
        let id = match about {
            About::Child(child) => {
                return Ok(Some(Pending {
                    child: child.as_str().to_owned(),
                    evaluation: None,
                }));
            }
            About::Escalation(id) => *id,
        };
        let evaluation: Option<rules::Evaluation> = self.row(&rules::evaluation_key(agent, id))?;
        if let Some(evaluation) = evaluation {
            return Ok(Some(Pending {
                child: evaluation.child.clone(),
                evaluation: Some(evaluation),
            }));
        }
        for child in &record.children {
            let view: Option<rules::ChildView> = self.row(&rules::child_key(agent, child))?;
            if view.is_some_and(|view| view.open.iter().any(|open| open.stamp.id == id)) {
                return Ok(Some(Pending {
                    child: child.clone(),
                    evaluation: None,
                }));
            }
        }
        Ok(None)
    }

    /// Trusts a short-lived key of an agent that was just spawned (VX-KEY-6). It ends at `valid_until`, after a day at
    /// the latest, or with the agent when that is hosted here.
    pub async fn register_key(
        &self,
        owner: &str,
        public: [u8; 32],
        valid_until: Option<Time>,
    ) -> Result<(Seq, String), Refusal> {
        let now = self.gate().clock().now();
        self.drop_ended_keys(owner, now).await?;
        let latest = now.saturating_add(self.short_lived_key_life());
        let digest = Sha256Digest::of(&public).hex();
        let id = format!("{SPAWN_KEY}{}", &digest[..16]);
        let act = Act::Key(KeyRecord {
            id: id.clone(),
            owner: owner.to_owned(),
            algorithm: Algorithm::Ed25519,
            public: public.to_vec(),
            state: KeyState::Active,
            valid_from: None,
            valid_until: Some(valid_until.map_or(latest, |until| until.min(latest))),
            source: KeySource::Spawn,
            removed: false,
        });
        Ok((self.act(act).await?, id))
    }

    /// What the node holds about a hosted value-context agent; none when it is not hosted here.
    pub fn value_context_state(
        &self,
        agent: &str,
    ) -> Result<Option<serde_json::Value>, StoreError> {
        let Some(record): Option<AgentRecord> =
            self.row(&agent_key(ProtocolName::ValueContext, agent))?
        else {
            return Ok(None);
        };
        let participant = record.agent.as_deref().unwrap_or(agent);
        let mut open = self.open_escalations(participant, agent)?;
        let mut children = serde_json::Map::new();
        for child in &record.children {
            let view: Option<rules::ChildView> = self.row(&rules::child_key(agent, child))?;
            let view = view.unwrap_or_default();
            let state = rules::stricter(view.state, self.run_state(child)?);
            children.insert(child.clone(), json!(state));
            open.extend(view.open.iter().map(|open| open.stamp.id.to_string()));
        }
        let context: Option<String> = self.row(&rules::own_context_key(agent))?;
        let rows = self.scan(&rules::constraints_prefix(agent))?;
        let constraints: Vec<_> = rules::effective(&record, &rows)
            .map_err(|damage| StoreError(damage.to_string()))?
            .iter()
            .map(|(kind, effective)| json!({"type": kind, "value": effective.to_json()}))
            .collect();
        Ok(Some(json!({
            "run_state": self.run_state(participant)?,
            "children": children,
            "constraints": constraints,
            "context": context.or(record.context),
            "open_escalations": open,
            "announcements": self.announcements(agent)?,
        })))
    }

    /// The escalations of an agent that hold it or wait for their acknowledgement.
    fn open_escalations(&self, participant: &str, agent: &str) -> Result<Vec<String>, StoreError> {
        let rows = self.scan(&rules::open_prefix(participant, agent))?;
        let ids = rows
            .iter()
            .filter_map(|(key, _)| String::from_utf8(key.parts().pop()?).ok());
        Ok(ids.collect())
    }

    /// The constitutions that others announced to an agent.
    fn announcements(&self, agent: &str) -> Result<Vec<serde_json::Value>, StoreError> {
        let mut announcements = Vec::new();
        for (key, bytes) in self.scan(&rules::announcements_prefix(agent))? {
            let sender = String::from_utf8(key.parts().pop().unwrap_or_default())
                .map_err(|error| StoreError(format!("{key:?}: {error}")))?;
            let announced: Vec<rules::Announcement> = serde_json::from_slice(&bytes)
                .map_err(|error| StoreError(format!("{key:?}: {error}")))?;
            announcements.extend(announced.iter().map(|one| {
                json!({
                    "sender": sender,
                    "constitution_ref": one.constitution_ref,
                    "manifest_hash": one.manifest_hash,
                    "scope": one.scope,
                })
            }));
        }
        Ok(announcements)
    }

    fn scan(&self, prefix: &RowKey) -> Result<Vec<(RowKey, Row)>, StoreError> {
        self.gate().store().scan(prefix, None, usize::MAX)
    }
}

fn nothing_to_judge(member: &'static str) -> Refusal {
    let message = "no escalation of that name waits for this agent";
    let fault = Fault::new(Code::NotFound, message).under("VX-RUN-7");
    fault
        .at(&Place::ROOT.child(member))
        .into_refusal("recipient")
}
