//! The path from bytes to a unit with the program's own functions, on rows in memory: no threads, no disk.

use anyhow::{Result, bail};
use bytes::Bytes;
use chancery_core::admin::{self, Act};
use chancery_core::decision::{Before, Open, Unit};
use chancery_core::keys::Keyring;
use chancery_core::line::{Draft, DraftEnvelope};
use chancery_core::protocol::{Authentic, Caller, Door, Input, Proof, Protocol, Suite};
use chancery_core::refusal::Refusal;
use chancery_core::rows::{Lookup, Row, RowKey, Rows, RowsDamaged};
use chancery_core::time::Time;
use chancery_core::window::Windows;
use chancery_journal::{Chain, Head, Lines, Outcome, decide_input};
use chancery_node::suite::{AllSettings, AnyInput, Chancery};
use chancery_store::StoredUnit;
use chancery_value_context::message::Message;

use hashbrown::HashMap;

use crate::traffic::{Envelope, KEY_ID, World};

/// A node's state of the rules, without a node.
#[derive(Clone)]
pub(crate) struct Host {
    suite: Chancery,
    settings: AllSettings,
    keyring: Keyring,
    rows: HashRows,
    windows: Windows,
    seq: u64,
    time: Time,
    forgotten_minute: i64,
}

impl Host {
    /// With the keys and agents of a world; gives the units that brought them as well.
    pub(crate) fn new(world: &World) -> Result<(Self, Vec<Unit>)> {
        let mut host = Self {
            suite: Chancery::default(),
            settings: AllSettings::default(),
            keyring: Keyring::new(),
            rows: HashRows::default(),
            windows: Windows::default(),
            seq: 0,
            time: Time::UNIX_EPOCH,
            forgotten_minute: 0,
        };
        let mut acts = vec![config(&host.settings)?];
        acts.extend(world.acts()?);
        let mut units = Vec::with_capacity(acts.len());
        for act in acts {
            units.push(host.decide(&AnyInput::Act(act), Time::UNIX_EPOCH)?);
        }
        host.settings = host.suite.settings(&host.rows)?;
        host.keyring = admin::keyring(&host.rows)?;
        Ok((host, units))
    }

    /// Decodes, authenticates and decides an envelope that arrives at `now`.
    pub(crate) fn receive(&mut self, raw: Bytes, now: Time) -> Result<Unit> {
        let message = self.decode(raw)?;
        let protocol = self.suite.value_context();
        let authentic = protocol
            .authenticate(
                message,
                Door::Http,
                &Caller::default(),
                &self.keyring,
                &self.settings.value_context,
                now,
            )
            .map_err(refused)?;
        self.decide(&AnyInput::ValueContext(Input::Envelope(authentic)), now)
    }

    /// Decodes and decides an envelope whose signature is taken as good.
    pub(crate) fn believe(&mut self, envelope: &Envelope, now: Time) -> Result<Unit> {
        let authentic = Authentic {
            message: self.decode(envelope.bytes.clone())?,
            proof: Proof::Key {
                id: KEY_ID.to_owned(),
                form: None,
            },
            door: Door::Http,
        };
        self.decide(&AnyInput::ValueContext(Input::Envelope(authentic)), now)
    }

    /// An envelope as a message: for the bytes that its signature covers.
    pub(crate) fn decode(&self, raw: Bytes) -> Result<Message> {
        let settings = &self.settings.value_context;
        let protocol = self.suite.value_context();
        protocol.decode(raw, Door::Http, settings).map_err(refused)
    }

    fn decide(&mut self, input: &AnyInput, now: Time) -> Result<Unit> {
        let before = Before {
            now,
            seq: self.seq + 1,
            rows: &self.rows,
            windows: &self.windows,
            guards: &mut Open,
            nonce: [0; 16],
            keeps_agenda: true,
        };
        match decide_input(&self.suite, input, &self.settings, self.time, before) {
            Outcome::Recorded { unit, .. } => {
                self.seq += unit.drafts.len() as u64;
                if unit.drafts.iter().any(|draft| draft.eval_ts.is_some()) {
                    self.time = self.time.max(now);
                }
                self.take(&unit);
                Ok(unit)
            }
            Outcome::Refused { refusal, .. } => bail!("refused: {refusal}"),
            Outcome::Passed { .. } => bail!("an envelope came twice"),
            Outcome::Missing(_) => bail!("a row in memory is missing"),
            Outcome::Damaged(damage) => bail!(damage),
        }
    }
}

impl Host {
    /// Takes a unit's changes in, without the full pages of inboxes: rules never read them, and a store keeps them.
    fn take(&mut self, unit: &Unit) {
        for (key, change) in &unit.rows {
            match change {
                Some(_) if key.is_in("inbox-page") => None,
                Some(row) => self.rows.0.insert(key.clone(), row.clone()),
                None => self.rows.0.remove(key),
            };
        }
        unit.remembered
            .iter()
            .for_each(|record| self.windows.remember(record));
        let minute = self.time.unix_seconds().div_euclid(60);
        if minute > self.forgotten_minute {
            self.forgotten_minute = minute;
            self.windows.forget_ended(self.time);
        }
    }
}

/// Rows in a hash table, as a node holds the ones it reads.
#[derive(Clone, Default)]
struct HashRows(HashMap<RowKey, Row>);

impl Rows for HashRows {
    fn get(&self, key: &RowKey) -> Lookup {
        let found = self.0.get(key).cloned();
        found.map_or(Lookup::Absent, Lookup::Found)
    }

    fn scan(&self, prefix: &RowKey) -> Result<Vec<(RowKey, Row)>, RowsDamaged> {
        let below = self.0.iter().filter(|(key, _)| key.starts_with(prefix));
        let mut rows: Vec<_> = below
            .map(|(key, bytes)| (key.clone(), bytes.clone()))
            .collect();
        rows.sort_unstable_by(|(a, _), (b, _)| a.cmp(b));
        Ok(rows)
    }
}

fn refused(refusal: Refusal) -> anyhow::Error {
    anyhow::anyhow!("refused: {refusal}")
}

fn config(settings: &AllSettings) -> Result<Act> {
    let value_context = serde_json::to_value(&settings.value_context)?;
    Ok(Act::Config(admin::Config {
        protocols: [("value-context".to_owned(), value_context)].into(),
        digests: Default::default(),
    }))
}

/// A unit as a store takes it; its lines go to `lines`.
pub(crate) fn stored(unit: Unit, chain: &mut Chain, lines: &mut Lines) -> StoredUnit {
    let envelopes = unit.drafts.iter().map(|draft| (draft, whole(draft)));
    chain.append_unit(envelopes, lines);
    StoredUnit {
        rows: unit.rows,
        remembered: unit.remembered,
    }
}

/// What a remote signed is whole already; nothing here is sealed by the node.
fn whole(draft: &Draft) -> &Bytes {
    match &draft.envelope {
        DraftEnvelope::Whole(bytes) | DraftEnvelope::Unsealed { bytes, .. } => bytes,
    }
}

/// A chain at the beginning of a log.
pub(crate) fn new_chain() -> Chain {
    Chain::after(Head::EMPTY)
}
