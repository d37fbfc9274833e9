//! For which value-context agents this node signs, and under which of their keys on record.
//!
//! The record of an agent says both: rules that derive a message in its name read it there, live and in replay, and look
//! up whether that key counts at the moment (VX-KEY-5).

use chancery_core::admin::{Act, agent_key, agents_prefix};
use chancery_core::line::ProtocolName;
use chancery_store::StoreError;
use chancery_value_context::agent::AgentRecord;

use crate::office::Office;
use crate::reconcile::ReconcileError;

impl Office {
    /// Writes into the record of an agent whether this node signs for it, and with what.
    pub(crate) fn write_who_signs(&self, id: &str, record: &mut AgentRecord) {
        let public = self.gate().vault().public(id);
        let keys = self.gate().keyring();
        record.signs = public.is_some();
        record.signs_with = public.and_then(|public| {
            let held = keys.records(id).find(|key| key.public == public);
            held.map(|key| key.id.clone())
        });
    }

    /// The same in an act that brings such a record, whatever else that says.
    pub(crate) fn say_who_signs(&self, act: &mut Act) {
        if let Act::Agent {
            protocol: ProtocolName::ValueContext,
            id,
            record: Some(serde_json::Value::Object(record)),
            ..
        } = act
        {
            let mut said = AgentRecord::default();
            self.write_who_signs(id, &mut said);
            record.remove("signs");
            record.remove("signs_with");
            if said.signs {
                record.insert("signs".to_owned(), true.into());
            }
            if let Some(key) = said.signs_with {
                record.insert("signs_with".to_owned(), key.into());
            }
        }
    }

    /// Brings the record in line with the keys that this node holds.
    pub async fn reconcile_signing(&self) -> Result<(), ReconcileError> {
        let prefix = agents_prefix(ProtocolName::ValueContext);
        let agents: Vec<(String, AgentRecord)> = self.rows_below(&prefix)?;
        for (id, on_record) in agents {
            if let Some(act) = self.other_signing(&id, &on_record)? {
                self.record(act, || format!("agent {id}")).await?;
            }
        }
        Ok(())
    }

    /// Whose key an act is about, where this node signs with a key of theirs.
    pub(crate) fn signer_whose_key_changes(&self, act: &Act) -> Option<String> {
        match act {
            Act::Key(key) if self.gate().vault().holds(&key.owner) => Some(key.owner.clone()),
            _ => None,
        }
    }

    /// A key that is held came on record, or left it. What fails here is done at the next start.
    pub(crate) async fn follow_key(&self, owner: &str) {
        let on_record = self.row(&agent_key(ProtocolName::ValueContext, owner));
        let act = match on_record {
            Ok(Some(record)) => self.other_signing(owner, &record),
            Ok(None) => Ok(None),
            Err(error) => Err(error),
        };
        let failed = match act {
            Ok(Some(act)) => self
                .submit_act(act)
                .await
                .err()
                .map(|refusal| refusal.to_string()),
            Ok(None) => None,
            Err(error) => Some(error.to_string()),
        };
        if let Some(error) = failed {
            tracing::warn!(
                owner,
                error,
                "the agent's record does not name the key that is held for it"
            );
        }
    }

    /// The act that brings an agent's record in line, when it says something else.
    fn other_signing(&self, id: &str, on_record: &AgentRecord) -> Result<Option<Act>, StoreError> {
        let mut record = on_record.clone();
        self.write_who_signs(id, &mut record);
        if record == *on_record {
            return Ok(None);
        }
        let record =
            serde_json::to_value(&record).map_err(|error| StoreError(error.to_string()))?;
        Ok(Some(Act::Agent {
            protocol: ProtocolName::ValueContext,
            id: id.to_owned(),
            record: Some(record),
            run_state: None,
        }))
    }
}
