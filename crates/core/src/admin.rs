//! Administration: the acts that become `node` lines, and the rows they leave for every protocol to read.
//!
//! Configuration, keys, agents, run states and tokens are inputs like envelopes: on the log before they hold,
//! so that the log alone says what was in force when.

use std::collections::BTreeMap;

use bytes::Bytes;
use serde::{Deserialize, Serialize};

use crate::canonical::{self, Dialect};
use crate::decision::{Cx, Stop};
use crate::json;
use crate::keys::{KeyRecord, KeyState, Keyring, KeyringError};
use crate::line::{Draft, DraftEnvelope, Line, MetaValue, Origin, ProtocolName, Seq};
use crate::protocol::Failure;
use crate::refusal::Refusal;
use crate::rows::{Row, RowKey, Rows, RowsDamaged};

/// The space of the protocols' settings.
pub const CONFIG: &str = "config";
/// The space of keys.
pub const KEYS: &str = "key";

/// Whether a participant may act.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum RunState {
    /// It acts.
    #[default]
    Running,
    /// It ends what it is doing and begins nothing new.
    Paused,
    /// It says and does nothing until it is resumed.
    Suspended,
}

impl RunState {
    /// The word in lines and answers.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Running => "running",
            Self::Paused => "paused",
            Self::Suspended => "suspended",
        }
    }
}

/// Who a token speaks for and what it allows. Never the token itself, nor its hash.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TokenRecord {
    /// The token's public name.
    pub id: String,
    /// Who it speaks for.
    pub principal: String,
    /// What it allows (CH-ID-2), sorted.
    pub scopes: Vec<String>,
    /// The vibe addresses it may speak as (VC-ADR-7), sorted.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub addresses: Vec<String>,
    /// The consumer it stands for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub consumer_id: Option<String>,
    /// The merchant it stands for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub merchant_id: Option<String>,
    /// The participant that it is one with (CH-ID-5); none when it is its own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agent: Option<String>,
    /// Whether it was revoked.
    #[serde(default)]
    pub revoked: bool,
}

/// For whom a principal acts, whichever of its tokens it shows: what rules read beside the line's principal.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PrincipalRecord {
    /// The consumer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub consumer_id: Option<String>,
    /// The merchant.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub merchant_id: Option<String>,
    /// The participant that it is one with: suspended, it says nothing (CH-ID-5).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agent: Option<String>,
}

impl PrincipalRecord {
    /// The principal when it also acts as `other` says; none when the two contradict each other.
    #[must_use]
    pub fn joined(&self, other: &Self) -> Option<Self> {
        let same = self.consumer_id == other.consumer_id && self.merchant_id == other.merchant_id;
        let agent = match (&self.agent, &other.agent) {
            (Some(own), Some(other)) if own != other => return None,
            (own, other) => own.as_ref().or(other.as_ref()).cloned(),
        };
        same.then(|| Self {
            agent,
            ..self.clone()
        })
    }
}

/// What is in force: rules version and rule settings of each protocol (CH-JRN-12).
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Config {
    /// Per protocol, its settings as that protocol writes them, the rules version among them.
    pub protocols: BTreeMap<String, serde_json::Value>,
    /// Digests of what the rules read besides the log, by name.
    #[serde(default)]
    pub digests: BTreeMap<String, String>,
}

/// An act of administration: the envelope of a `node` line.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "lowercase")]
pub enum Act {
    /// The configuration in force from here on.
    Config(Config),
    /// A key as it is from here on.
    Key(KeyRecord),
    /// A hosted agent as it is from here on; without a record it is hosted no more.
    Agent {
        /// Which protocol's agent.
        protocol: ProtocolName,
        /// Its identifier there.
        id: String,
        /// All that rules read about it; its member `agent` names its participant when it is not its own (CH-ID-5).
        #[serde(default, skip_serializing_if = "Option::is_none")]
        record: Option<serde_json::Value>,
        /// Its participant's run state, when this act changes it.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        run_state: Option<RunState>,
    },
    /// A token as it is from here on.
    Token(TokenRecord),
    /// Something that was to happen outside did not.
    Failed {
        /// Whose rules.
        protocol: ProtocolName,
        /// The line it is about.
        of: Seq,
        /// The recipient or caller.
        about: String,
        /// Why.
        code: Failure,
    },
    /// A timer was due and still wanted.
    Timer {
        /// Whose rules.
        protocol: ProtocolName,
        /// Which one and for what, as those rules write it.
        timer: serde_json::Value,
    },
}

/// The row of a protocol's settings.
pub fn config_key(protocol: &str) -> RowKey {
    RowKey::text(CONFIG, &[protocol])
}

/// The row of the digests that a configuration names.
pub fn digests_key() -> RowKey {
    RowKey::text("config-digests", &[])
}

/// The row of a key.
pub fn key_key(owner: &str, id: &str) -> RowKey {
    RowKey::text(KEYS, &[owner, id])
}

/// The row of a hosted agent.
pub fn agent_key(protocol: ProtocolName, id: &str) -> RowKey {
    RowKey::text("agent", &[protocol.as_str(), id])
}

/// The prefix of a protocol's hosted agents.
pub fn agents_prefix(protocol: ProtocolName) -> RowKey {
    RowKey::text("agent", &[protocol.as_str()])
}

/// The row of a participant's run state.
pub fn run_state_key(participant: &str) -> RowKey {
    RowKey::text("run", &[participant])
}

/// The row of a token.
pub fn token_key(id: &str) -> RowKey {
    RowKey::text("token", &[id])
}

/// The row of a principal.
pub fn principal_key(principal: &str) -> RowKey {
    RowKey::text("principal", &[principal])
}

/// Whether this is the row of a token.
pub fn is_token(key: &RowKey) -> bool {
    key.is_in("token")
}

/// Whether a change of this row changes settings or keys.
pub fn changes_rules(key: &RowKey) -> bool {
    key.is_in("config") || key.is_in("key")
}

/// The run state of a participant.
pub fn run_state(cx: &Cx<'_>, participant: &str) -> Result<RunState, Stop> {
    Ok(cx.row(&run_state_key(participant))?.unwrap_or_default())
}

/// The keyring that the rows hold.
pub fn keyring(rows: &dyn Rows) -> Result<Keyring, RowsDamaged> {
    keyring_of(rows.scan(&RowKey::text(KEYS, &[]))?)
}

/// Puts a key in, changes the one of that owner and id, or takes it out.
pub fn set_key(keyring: &mut Keyring, record: KeyRecord) -> Result<(), KeyringError> {
    let known = keyring.get(&record.owner, &record.id);
    match (known.map(|known| known.state), record.removed) {
        (None, true) => Err(KeyringError::UnknownId),
        (Some(state @ (KeyState::Compromised | KeyState::Revoked)), true) => {
            Err(KeyringError::Withdrawn(state))
        }
        (Some(_), true) => {
            keyring.remove(&record.owner, &record.id);
            Ok(())
        }
        (Some(_), false) => keyring.update(record),
        (None, false) => keyring.insert(record),
    }
}

/// Takes the key of a row out.
pub fn drop_key(keyring: &mut Keyring, key: &RowKey) {
    let mut parts = key.parts();
    let mut last = || parts.pop().and_then(|part| String::from_utf8(part).ok());
    if let (Some(id), Some(owner)) = (last(), last()) {
        keyring.remove(&owner, &id);
    }
}

fn keyring_of(rows: Vec<(RowKey, Row)>) -> Result<Keyring, RowsDamaged> {
    let mut keyring = Keyring::default();
    for (key, bytes) in rows {
        let record: KeyRecord = serde_json::from_slice(&bytes)
            .map_err(|error| RowsDamaged(format!("{key:?}: {error}")))?;
        keyring
            .insert(record)
            .map_err(|error| RowsDamaged(format!("{key:?}: {error}")))?;
    }
    Ok(keyring)
}

/// A protocol's settings from its row; the defaults when no configuration names it.
pub fn settings<T>(rows: &dyn Rows, protocol: ProtocolName) -> Result<T, RowsDamaged>
where
    T: serde::de::DeserializeOwned + Default,
{
    let prefix = config_key(protocol.as_str());
    match rows.scan(&prefix)?.into_iter().next() {
        Some((key, bytes)) => {
            serde_json::from_slice(&bytes).map_err(|error| RowsDamaged(format!("{key:?}: {error}")))
        }
        None => Ok(T::default()),
    }
}

/// Lets the rules of an agent's protocol follow a change of its record.
pub type AgentHook<'h> = &'h dyn Fn(
    ProtocolName,
    &str,
    Option<&serde_json::Value>,
    Option<&serde_json::Value>,
    &mut Cx<'_>,
) -> Result<(), Stop>;

/// Decides an act: writes its line and its rows.
///
/// The act is taken as its line will give it back, so that a number written `1.0` leaves the same rows now and
/// in replay.
pub fn decide(act: &Act, hook: AgentHook<'_>, cx: &mut Cx<'_>) -> Result<Seq, Stop> {
    let line = node_line(act, Origin::External, None);
    let act: Act = serde_json::from_slice(line.envelope.bytes())
        .expect("an act is read back from its own JSON");
    match &act {
        Act::Config(config) => decide_config(config, cx),
        Act::Key(record) => decide_key(record, cx)?,
        Act::Agent {
            protocol,
            id,
            record,
            run_state,
        } => {
            decide_agent(*protocol, id, record.as_ref(), *run_state, hook, cx)?;
        }
        Act::Token(record) => decide_token(record, cx)?,
        Act::Failed { .. } | Act::Timer { .. } => {}
    }
    Ok(cx.line(line))
}

/// A `node` line. Its position counts, unless a decision time is given.
pub fn node_line(act: &Act, origin: Origin, eval_ts: Option<crate::time::Time>) -> Draft {
    Draft {
        protocol: ProtocolName::Node,
        origin,
        envelope: DraftEnvelope::Whole(canonical_json(act)),
        raw: None,
        signature: None,
        eval_ts,
        meta: Vec::<(&'static str, MetaValue)>::new(),
    }
}

/// The act that a `node` line holds.
pub fn reread(line: &Line) -> Result<Act, crate::line::Damage> {
    serde_json::from_slice(&line.envelope).map_err(|error| crate::line::Damage {
        seq: line.seq,
        reason: format!("not an act: {error}"),
    })
}

fn decide_config(config: &Config, cx: &mut Cx<'_>) {
    for (protocol, settings) in &config.protocols {
        cx.put(config_key(protocol), settings);
    }
    cx.put(digests_key(), &config.digests);
}

fn decide_key(record: &KeyRecord, cx: &mut Cx<'_>) -> Result<(), Stop> {
    let mut of_owner = keyring_of(cx.scan(&RowKey::text(KEYS, &[&record.owner]))?)?;
    set_key(&mut of_owner, record.clone()).map_err(|error| {
        let mut refusal = refuse("key_not_allowed", "");
        refusal.message = error.to_string().into();
        refusal
    })?;
    let key = key_key(&record.owner, &record.id);
    if record.removed {
        cx.remove(key);
    } else {
        cx.put(key, record);
    }
    Ok(())
}

/// All tokens of a principal act for the same consumer and merchant: a line names the principal, not the token.
fn decide_token(record: &TokenRecord, cx: &mut Cx<'_>) -> Result<(), Stop> {
    let key = principal_key(&record.principal);
    let acts_for = PrincipalRecord {
        consumer_id: record.consumer_id.clone(),
        merchant_id: record.merchant_id.clone(),
        agent: record.agent.clone(),
    };
    let known: Option<PrincipalRecord> = cx.row(&key)?;
    let joined = known
        .as_ref()
        .map_or(Some(acts_for.clone()), |known| known.joined(&acts_for));
    match joined {
        None => {
            let message = "the principal acts for another consumer, merchant or participant";
            return Err(refuse("token_not_allowed", message).into());
        }
        Some(joined) if known.as_ref() != Some(&joined) => cx.put(key, &joined),
        Some(_) => {}
    }
    cx.put(token_key(&record.id), record);
    Ok(())
}

fn decide_agent(
    protocol: ProtocolName,
    id: &str,
    record: Option<&serde_json::Value>,
    run_state: Option<RunState>,
    hook: AgentHook<'_>,
    cx: &mut Cx<'_>,
) -> Result<(), Stop> {
    let key = agent_key(protocol, id);
    let before: Option<serde_json::Value> = cx.row(&key)?;
    if before.is_none() && record.is_none() {
        return Err(refuse("agent_unknown", "no such agent is on record").into());
    }
    if before.as_ref() != record {
        hook(protocol, id, before.as_ref(), record, cx)?;
    }
    match record {
        Some(record) => cx.put(key, record),
        None => cx.remove(key),
    }
    if let Some(state) = run_state {
        let participant = record.and_then(participant_of).unwrap_or(id);
        cx.put(run_state_key(participant), &state);
    }
    Ok(())
}

/// The participant that an agent's record names.
pub fn participant_of(record: &serde_json::Value) -> Option<&str> {
    record.get("agent").and_then(serde_json::Value::as_str)
}

fn refuse(code: &'static str, message: &'static str) -> Refusal {
    Refusal::new(code, 409, "CH-JRN-1", message)
}

/// A value as canonical JSON in the dialect of the log.
pub fn canonical_json<T: Serialize>(value: &T) -> Bytes {
    let text =
        serde_json::to_vec(value).expect("administration is plain data and always has a JSON form");
    let tree = json::read(&text, &json::ReadRules::OWN).expect("what serde_json writes is JSON");
    canonical::to_bytes(&tree, Dialect::Vibe).into()
}
