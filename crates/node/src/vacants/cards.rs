//! Bringing the record in line with the configuration, cards included, and the acts of an operator.

use chancery_core::admin::{Act, agent_key};
use chancery_core::line::{ProtocolName, Seq};
use chancery_core::protocol::Input;
use chancery_core::refusal::Refusal;
use chancery_store::StoreError;
use chancery_vacant::act::{Act as VacantAct, Change};
use chancery_vacant::agent::AgentRecord;
use chancery_vacant::answer::Answer;
use chancery_vacant::card::CapabilityCard;
use chancery_vacant::error::ProtocolError;
use chancery_vacant::state::State;

use super::behaviour::Behaviour;
use super::calls::answer_of;
use super::{HostedVacant, Vacants, lock};
use crate::reconcile::ReconcileError;
use crate::suite::AnyInput;

impl Vacants {
    /// Writes what differs between the configuration and the record, in sorted order: each vacant with a card that
    /// names where it is reached (CH-JRN-1). Gives the number of changes.
    pub async fn reconcile(&self, base_url: &str) -> Result<usize, ReconcileError> {
        *lock(&self.base_url) = base_url.trim_end_matches('/').to_owned();
        let mut sorted: Vec<_> = self.hosted.iter().collect();
        sorted.sort_by(|a, b| a.name.cmp(&b.name));
        let mut written = 0;
        for vacant in sorted {
            let key = agent_key(ProtocolName::Vacant, &vacant.name);
            let on_record: Option<AgentRecord> = self.office.row(&key)?;
            let state = on_record.as_ref().map_or(vacant.first_state, |r| r.state);
            let address = on_record
                .as_ref()
                .and_then(|record| self.kept_address(record));
            let wanted = self.record_of(vacant, state, address)?;
            if on_record.as_ref() != Some(&wanted) {
                let what = || format!("vacant {}", vacant.name);
                self.put(vacant, &wanted)
                    .await
                    .map_err(|refusal| ReconcileError::Refused {
                        what: what(),
                        refusal,
                    })?;
                written += 1;
            }
        }
        Ok(written)
    }

    /// The address on record, where it is not this node's alone to say where a vacant is reached.
    fn kept_address(&self, record: &AgentRecord) -> Option<String> {
        let card = record.card.as_ref().filter(|_| self.keeps_addresses)?;
        CapabilityCard::deserialize(card.as_bytes()).ok()?.endpoint
    }

    fn record_of(
        &self,
        vacant: &HostedVacant,
        state: State,
        address: Option<String>,
    ) -> Result<AgentRecord, StoreError> {
        let own = || format!("{}/a2a/message/send", self.address_of(vacant));
        let endpoint = address.unwrap_or_else(own);
        let mut card = CapabilityCard::new(vacant.id, vacant.capability.as_str(), Some(endpoint));
        let vault = self.office.gate().vault();
        let signature = vault.sign(&vacant.id.hex(), &card.signing_payload());
        card.signature = signature
            .ok_or_else(|| StoreError(format!("there is no key of {}", vacant.name)))?
            .to_vec();
        Ok(AgentRecord {
            id: vacant.id,
            state,
            card: Some(String::from_utf8_lossy(&card.serialize()).into_owned()),
            inbox: matches!(vacant.behaviour, Behaviour::Inbox),
            agent: vacant.participant.clone(),
        })
    }

    async fn put(&self, vacant: &HostedVacant, record: &AgentRecord) -> Result<Seq, Refusal> {
        let record = serde_json::to_value(record)
            .map_err(|_| ProtocolError::format("the record has no JSON form"))?;
        let act = Act::Agent {
            protocol: ProtocolName::Vacant,
            id: vacant.name.clone(),
            record: Some(record),
            run_state: None,
        };
        self.office.act(act).await
    }

    /// Sets the state of a vacant; it is on record before it takes effect (VA-STA-4).
    pub async fn set_state(&self, name: &str, state: State) -> Result<Seq, Refusal> {
        let unknown = || Refusal::from(ProtocolError::NotFound("no such vacant is hosted here"));
        let vacant = self.find(name).ok_or_else(unknown)?;
        let key = agent_key(ProtocolName::Vacant, &vacant.name);
        let record: Option<AgentRecord> = self.office.row(&key).ok().flatten();
        let mut record = record.ok_or_else(unknown)?;
        record.state = state;
        self.put(vacant, &record).await
    }

    /// Publishes, withdraws or judges, as an administrator (VA-REG-4, CH-ID-4).
    pub async fn change(&self, change: Change) -> Result<Seq, Refusal> {
        let input = Input::Act(VacantAct::new(change));
        let decided = self.office.submit(AnyInput::Vacant(input)).await;
        let busy = ProtocolError::Overloaded("the node is busy; try again");
        match answer_of(decided.map_err(|_| busy)?)?.0 {
            Answer::Acted(line) => Ok(line),
            _ => Err(ProtocolError::format("the act left no line").into()),
        }
    }
}
