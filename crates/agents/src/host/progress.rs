//! What is kept of turns beside the log (CH-JRN-15): memory, records, and what was about to be sent.
//!
//! It survives `kill -9`. Losing it repeats a turn, and the gate lets no turn speak twice (CH-JRN-16).

use chancery_core::inbox::InboxName;
use chancery_core::line::Seq;
use chancery_core::rows::{Row, RowChange, RowKey};
use chancery_node::{Office, turn_records_prefix};
use chancery_store::StoreError;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::agent::Agent;
use crate::memory::Memory;
use crate::record::TurnRecord;

/// Turn records that are kept of an agent.
pub const MAX_RECORDS: usize = 1_000;

/// What an agent keeps of a session.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Kept {
    /// Turns so far.
    pub turns: u64,
    /// Its memory.
    pub memory: Memory,
}

/// An envelope on its way to the gate, with the memory that goes with it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Intent {
    /// The envelope.
    pub envelope: String,
    /// The agent's memory once it is sent.
    pub memory: Memory,
}

fn kept_key(agent: &str, session_id: &str) -> RowKey {
    RowKey::text("turn-memory", &[agent, session_id])
}

fn intent_key(agent: &str, seq: Seq) -> RowKey {
    RowKey::new("turn-intent", &[agent.as_bytes(), &seq.to_be_bytes()])
}

fn record_key(agent: &str, seq: Seq) -> RowKey {
    turn_records_prefix(agent).child(&seq.to_be_bytes())
}

fn row<T: Serialize>(value: &T) -> Result<Option<Row>, StoreError> {
    let bytes = serde_json::to_vec(value).map_err(|error| StoreError(error.to_string()))?;
    Ok(Some(bytes.into()))
}

fn get<T: DeserializeOwned>(office: &Office, key: &RowKey) -> Result<Option<T>, StoreError> {
    let bytes = office.gate().store().ops_get(key)?;
    // What cannot be read is as good as lost, and losing it is harmless.
    Ok(bytes.and_then(|bytes| serde_json::from_slice(&bytes).ok()))
}

fn cursor_key(agent: &str, inbox: &InboxName) -> RowKey {
    RowKey::text("turn-cursor", &[agent, &inbox.agent])
}

/// How far an agent has come in an inbox: its own count, because others may read and acknowledge there too.
pub fn cursor(office: &Office, agent: &Agent, inbox: &InboxName) -> Result<Seq, StoreError> {
    Ok(get(office, &cursor_key(&agent.name, inbox))?.unwrap_or_default())
}

/// The change that moves it.
pub fn moved(agent: &Agent, inbox: &InboxName, through: Seq) -> Result<RowChange, StoreError> {
    Ok((cursor_key(&agent.name, inbox), row(&through)?))
}

/// What an agent keeps of a session.
pub fn kept(office: &Office, agent: &Agent, session_id: &str) -> Result<Kept, StoreError> {
    Ok(get(office, &kept_key(&agent.name, session_id))?.unwrap_or_default())
}

/// What an agent was about to answer to an envelope.
pub fn intent(office: &Office, agent: &Agent, seq: Seq) -> Result<Option<Intent>, StoreError> {
    get(office, &intent_key(&agent.name, seq))
}

/// Notes what is about to be sent.
pub fn intend(office: &Office, agent: &Agent, seq: Seq, is: &Intent) -> Result<(), StoreError> {
    let change = (intent_key(&agent.name, seq), row(is)?);
    office.gate().store().ops_put(&[change], false)
}

/// The rows that a finished turn leaves.
pub fn finished(
    agent: &Agent,
    seq: Seq,
    session_id: &str,
    kept: &Kept,
    record: &TurnRecord,
) -> Result<Vec<RowChange>, StoreError> {
    Ok(vec![
        (kept_key(&agent.name, session_id), row(kept)?),
        (intent_key(&agent.name, seq), None),
        (record_key(&agent.name, seq), row(record)?),
    ])
}

/// The change that drops the record of an old turn.
pub fn dropped(agent: &Agent, seq: Seq) -> RowChange {
    (record_key(&agent.name, seq), None)
}

/// The lines whose turns are on record, oldest first.
pub fn recorded(office: &Office, agent: &str) -> Result<Vec<Seq>, StoreError> {
    let rows = office
        .gate()
        .store()
        .ops_scan(&turn_records_prefix(agent))?;
    let seqs = rows.iter().filter_map(|(key, _)| {
        let last: [u8; 8] = key.parts().pop()?.try_into().ok()?;
        Some(Seq::from_be_bytes(last))
    });
    Ok(seqs.collect())
}
