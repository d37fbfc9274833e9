//! What would have been decided under another policy: every vibe input of a log, judged again.
//!
//! Without a cascade each input is judged against the state as it was recorded, so that every difference has its cause in
//! the policy alone. With one, what the changed policy leaves is the state that later inputs meet, and what differs only
//! through that is a consequence.

use bytes::Bytes;
use chancery_core::decision::{Before, Open};
use chancery_core::digest::Sha256Digest;
use chancery_core::line::{DraftEnvelope, Line, ProtocolName, Seq};
use chancery_core::protocol::{Input, Suite as _};
use chancery_core::rows::{Lookup, Row, RowKey, Rows, RowsDamaged};
use chancery_journal::line::read;
use chancery_journal::{
    Backing as _, Divergence, Fold, Head, InForce, InMemory, Outcome, Recorded, Units, decide_input,
};
use chancery_node::suite::{AllSettings, AnyAnswer, AnyInput, Chancery};
use chancery_vibe::Answer;
use chancery_vibe::action::Action;
use chancery_vibe::code::Code;
use chancery_vibe::message::Message;
use chancery_vibe::state::MandateRow;

/// One thing that is other than it was.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Item {
    /// A row of the permission table; `*` stands for any address.
    Partition {
        /// The action.
        action: String,
        /// Who sends.
        from: String,
        /// Who receives.
        to: String,
        /// Whether it may.
        allow: bool,
    },
    /// The ceiling of every mandate.
    Ceiling(u64),
    /// The reputation that a merchant needs where the mandate asks for none.
    MinReputation(i64),
    /// The name of the ranking policy.
    Ranking(String),
}

impl Item {
    /// The rule that it is, for people.
    pub fn name(&self) -> String {
        match self {
            Self::Partition {
                action,
                from,
                to,
                allow,
            } => {
                let word = if *allow { "allow" } else { "deny" };
                format!("partition: {word} {action} from {from} to {to}")
            }
            Self::Ceiling(value) => format!("max_spend_without_confirmation = {value}"),
            Self::MinReputation(value) => format!("min_reputation = {value}"),
            Self::Ranking(value) => format!("ranking_version = {value}"),
        }
    }

    /// Whether it can change the verdict on a message at all: most inputs need not be judged.
    fn touches(&self, message: &Message) -> bool {
        let Some(kind) = message.action else {
            return false;
        };
        match self {
            Self::Partition { action, .. } => kind.kind() == action,
            Self::Ceiling(_) => matches!(
                kind,
                Action::ApprovePurchase
                    | Action::AcceptOffer
                    | Action::VerifyClaims
                    | Action::CreateMatchCertificate
                    | Action::AuthorizePayment
                    | Action::SettlePayment
            ),
            Self::MinReputation(_) => {
                matches!(
                    kind,
                    Action::AcceptOffer | Action::VerifyClaims | Action::CreateMatchCertificate
                )
            }
            Self::Ranking(_) => kind == Action::Search,
        }
    }

    /// What a row of the permission table says about a message.
    fn allows(&self, message: &Message) -> Option<bool> {
        let fits = |pattern: &str, text: &str| pattern == "*" || pattern == text;
        match self {
            Self::Partition {
                action,
                from,
                to,
                allow,
            } => {
                let is_it = message.action.is_some_and(|kind| kind.kind() == action)
                    && fits(from, &message.from_text)
                    && fits(to, &message.to_text);
                is_it.then_some(*allow)
            }
            _ => None,
        }
    }
}

/// A decision that would be another.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Difference {
    /// Its line.
    pub seq: Seq,
    /// The envelope.
    pub msg_id: String,
    /// Its action.
    pub kind: String,
    /// What would be instead.
    pub would: String,
    /// The rules that make it differ; none for a consequence.
    pub rules: Vec<String>,
}

/// Why a log cannot be judged.
#[derive(Debug, thiserror::Error)]
pub enum NotJudged {
    /// A line is none.
    #[error("line {0} of the log cannot be read")]
    Unreadable(u64),
    /// It does not replay.
    #[error("the log does not replay: {0}")]
    Diverged(#[from] Divergence),
    /// The rows of a world cannot be read.
    #[error(transparent)]
    Damaged(#[from] RowsDamaged),
}

/// Judges a log line by line.
pub struct WhatIf {
    items: Vec<Item>,
    fold: Fold<Chancery, InMemory>,
    units: Units<Recorded>,
    changed: Option<Changed>,
    lines: u64,
}

/// The world that the changed policy leaves.
struct Changed {
    world: InMemory,
    in_force: InForce<Chancery>,
}

/// What a decision came to.
enum Judged {
    Recorded {
        envelopes: Vec<Bytes>,
        follow_up_error: Option<String>,
        unit: Box<chancery_core::decision::Unit>,
    },
    Refused(String),
}

impl WhatIf {
    /// A judge with this policy; `cascade` folds the changed world too.
    ///
    /// # Errors
    /// Rows in memory cannot be read, which does not happen.
    pub fn new(suite: Chancery, items: Vec<Item>, cascade: bool) -> Result<Self, NotJudged> {
        let changed = match cascade {
            true => Some(Changed {
                in_force: InForce::of_rows(&suite, &InMemory::default())?,
                world: InMemory::default(),
            }),
            false => None,
        };
        Ok(Self {
            items,
            fold: Fold::new(suite, InMemory::default(), Head::EMPTY, false)?,
            units: Units::default(),
            changed,
            lines: 0,
        })
    }

    /// Takes the next line; gives what differs once its unit is whole.
    ///
    /// # Errors
    /// The log cannot be read or does not replay.
    pub fn take(&mut self, text: &Bytes) -> Result<Option<Difference>, NotJudged> {
        self.lines += 1;
        let reading = read(text).map_err(|_| NotJudged::Unreadable(self.lines))?;
        let more = reading.line.more;
        let recorded = Recorded {
            line: reading.line,
            canonical: reading.canonical,
            hash: Sha256Digest::of(text),
        };
        let unit = self.units.push(recorded, more);
        let Some(unit) = unit.map_err(|_| NotJudged::Unreadable(self.lines))? else {
            return Ok(None);
        };
        let difference = self.judge(&unit)?;
        self.fold.apply(&unit)?;
        Ok(difference)
    }

    fn judge(&mut self, unit: &[Recorded]) -> Result<Option<Difference>, NotJudged> {
        let first = &unit[0].line;
        if first.protocol == ProtocolName::Node {
            self.follow(first);
            return Ok(None);
        }
        if first.protocol != ProtocolName::Vibe {
            return Ok(None);
        }
        let Ok(input) = self.fold.suite().reread(first, self.fold.settings()) else {
            return Ok(None);
        };
        // What a hosted agent said is as much an input as what came from outside (CH-JRN-1).
        let message = match &input {
            AnyInput::Vibe(Input::Envelope(authentic)) => authentic.message.clone(),
            AnyInput::Vibe(Input::Outgoing { content, .. }) => content.clone(),
            _ => return Ok(None),
        };
        let touching: Vec<Item> = self
            .items
            .iter()
            .filter(|item| item.touches(&message))
            .cloned()
            .collect();
        let direct = match touching.is_empty() {
            true => None,
            false => {
                let judged = self.judged(&input, &message, first, &touching, false);
                difference(unit, &judged).map(|would| {
                    let rules = self.rules(&input, &message, unit, &touching);
                    (would, rules)
                })
            }
        };
        let told = |would: String, rules: Vec<String>| Difference {
            seq: first.seq,
            msg_id: message.msg_id.clone(),
            kind: message
                .action
                .map(Action::kind)
                .unwrap_or_default()
                .to_owned(),
            would,
            rules,
        };
        if self.changed.is_none() {
            return Ok(direct.map(|(would, rules)| told(would, rules)));
        }
        let judged = self.judged(&input, &message, first, &self.items, true);
        let would = difference(unit, &judged);
        if let Judged::Recorded { unit, .. } = judged {
            self.take_changed(*unit)?;
        }
        let rules = direct.map(|(_, rules)| rules).unwrap_or_default();
        Ok(would.map(|would| told(would, rules)))
    }

    /// The items that make the difference each by itself; all of them when only together they do.
    fn rules(
        &self,
        input: &AnyInput,
        message: &Message,
        unit: &[Recorded],
        items: &[Item],
    ) -> Vec<String> {
        let alone = |item: &&Item| {
            let judged = self.judged(
                input,
                message,
                &unit[0].line,
                std::slice::from_ref(*item),
                false,
            );
            difference(unit, &judged).is_some()
        };
        let found: Vec<String> = items.iter().filter(alone).map(Item::name).collect();
        match found.is_empty() {
            true => items.iter().map(Item::name).collect(),
            false => found,
        }
    }

    fn judged(
        &self,
        input: &AnyInput,
        message: &Message,
        first: &Line,
        items: &[Item],
        cascade: bool,
    ) -> Judged {
        let says = items.iter().rev().find_map(|item| item.allows(message));
        if says == Some(false) {
            return Judged::Refused(Code::PartitionDenied.as_str().to_owned());
        }
        let (world, settings) = match &self.changed {
            Some(changed) if cascade => (&changed.world, changed.in_force.settings()),
            _ => (self.fold.backing(), self.fold.settings()),
        };
        let rows = Patched {
            below: world,
            ceiling: ceiling(items),
        };
        let settings = altered(settings, items);
        let by_position = self.fold.head().time_by_position();
        let before = Before {
            now: first.eval_ts.unwrap_or(by_position),
            seq: first.seq,
            rows: &rows,
            windows: world,
            guards: &mut Open,
            nonce: [0; 16],
            // As a node decides: only then is there an answer that says why a follow-up was not made.
            keeps_agenda: true,
        };
        match decide_input(self.fold.suite(), input, &settings, by_position, before) {
            Outcome::Recorded { unit, answer, .. } => Judged::Recorded {
                envelopes: unit
                    .drafts
                    .iter()
                    .map(|draft| match &draft.envelope {
                        DraftEnvelope::Whole(bytes) | DraftEnvelope::Unsealed { bytes, .. } => {
                            bytes.clone()
                        }
                    })
                    .collect(),
                follow_up_error: follow_up_error(&answer),
                unit: Box::new(unit),
            },
            Outcome::Passed { .. } => Judged::Refused("answered as a repeat".to_owned()),
            Outcome::Refused { refusal, .. } => Judged::Refused(refusal.code.to_owned()),
            Outcome::Missing(_) | Outcome::Damaged(_) => {
                Judged::Refused(Code::Internal.as_str().to_owned())
            }
        }
    }

    /// Administration is the same in both worlds.
    fn follow(&mut self, first: &Line) {
        let Some(changed) = &self.changed else {
            return;
        };
        let suite = self.fold.suite();
        let Ok(input) = suite.reread(first, changed.in_force.settings()) else {
            return;
        };
        let by_position = self.fold.head().time_by_position();
        let before = Before {
            now: by_position,
            seq: first.seq,
            rows: &changed.world,
            windows: &changed.world,
            guards: &mut Open,
            nonce: [0; 16],
            keeps_agenda: false,
        };
        let decided = decide_input(
            suite,
            &input,
            changed.in_force.settings(),
            by_position,
            before,
        );
        if let Outcome::Recorded { unit, .. } = decided {
            // What the recorded world took, this one takes; a line that it cannot take is found by the fold.
            let _ = self.take_changed(unit);
        }
    }

    fn take_changed(&mut self, unit: chancery_core::decision::Unit) -> Result<(), NotJudged> {
        if let Some(changed) = &mut self.changed {
            let followed = changed.in_force.relevant(&unit.rows);
            changed.world.take(unit.rows, unit.remembered);
            changed
                .in_force
                .follow(self.fold.suite(), &changed.world, &followed)?;
        }
        Ok(())
    }
}

fn ceiling(items: &[Item]) -> Option<u64> {
    items.iter().rev().find_map(|item| match item {
        Item::Ceiling(value) => Some(*value),
        _ => None,
    })
}

fn altered(settings: &AllSettings, items: &[Item]) -> AllSettings {
    let mut settings = settings.clone();
    for item in items {
        match item {
            Item::MinReputation(value) => settings.vibe.policy.min_reputation = *value,
            Item::Ranking(value) => settings.vibe.policy.ranking_version.clone_from(value),
            Item::Partition { .. } | Item::Ceiling(_) => {}
        }
    }
    settings
}

fn follow_up_error(answer: &AnyAnswer) -> Option<String> {
    let AnyAnswer::Vibe(Answer::Accepted { body, .. }) = answer else {
        return None;
    };
    let body: serde_json::Value = serde_json::from_slice(body).ok()?;
    Some(body["follow_up_error"]["code"].as_str()?.to_owned())
}

/// What would be instead of what is on record; none when it is the same.
fn difference(unit: &[Recorded], judged: &Judged) -> Option<String> {
    let (envelopes, error) = match judged {
        Judged::Refused(code) => return Some(format!("refused: {code}")),
        Judged::Recorded {
            envelopes,
            follow_up_error,
            ..
        } => (envelopes, follow_up_error),
    };
    let same = unit.len() == envelopes.len()
        && unit
            .iter()
            .zip(envelopes)
            .all(|(recorded, made)| recorded.line.envelope == *made);
    if same {
        return None;
    }
    let kinds = |envelopes: &mut dyn Iterator<Item = &Bytes>| -> Vec<String> {
        envelopes.map(kind_of).collect()
    };
    let recorded = kinds(&mut unit.iter().map(|recorded| &recorded.line.envelope));
    let made = kinds(&mut envelopes.iter());
    let missing: Vec<&String> = recorded
        .iter()
        .filter(|kind| !made.contains(kind))
        .collect();
    let added: Vec<&String> = made
        .iter()
        .filter(|kind| !recorded.contains(kind))
        .collect();
    let mut words = Vec::new();
    for (word, kinds) in [("without", missing), ("with", added)] {
        for kind in kinds {
            words.push(format!("{word} {kind}"));
        }
    }
    if words.is_empty() {
        let differs = unit
            .iter()
            .zip(envelopes)
            .position(|(recorded, made)| recorded.line.envelope != *made);
        words.push(format!(
            "with another {}",
            differs.map(|at| made[at].clone()).unwrap_or_default()
        ));
    }
    let because = error
        .as_ref()
        .map(|code| format!(" ({code})"))
        .unwrap_or_default();
    Some(format!("accepted {}{because}", words.join(", ")))
}

fn kind_of(envelope: &Bytes) -> String {
    let envelope: serde_json::Value = serde_json::from_slice(envelope).unwrap_or_default();
    envelope["action"]["kind"]
        .as_str()
        .unwrap_or_default()
        .to_owned()
}

/// Rows with another ceiling in every mandate.
struct Patched<'r> {
    below: &'r InMemory,
    ceiling: Option<u64>,
}

impl Patched<'_> {
    fn patched(&self, row_key: &RowKey, row: Row) -> Row {
        let Some(ceiling) = self.ceiling else {
            return row;
        };
        if !row_key.is_in(MANDATES) {
            return row;
        }
        let Ok(mut mandate) = serde_json::from_slice::<MandateRow>(&row) else {
            return row;
        };
        mandate.max_spend_without_confirmation = ceiling;
        chancery_vibe::world::rows::bytes(&mandate).into()
    }
}

/// The space of mandates.
const MANDATES: &str = "vibe-mandate";

impl Rows for Patched<'_> {
    fn get(&self, row_key: &RowKey) -> Lookup {
        match self.below.get(row_key) {
            Lookup::Found(row) => Lookup::Found(self.patched(row_key, row)),
            other => other,
        }
    }

    fn scan(&self, prefix: &RowKey) -> Result<Vec<(RowKey, Row)>, RowsDamaged> {
        let rows = self.below.scan(prefix)?.into_iter();
        Ok(rows
            .map(|(row_key, row)| {
                let row = self.patched(&row_key, row);
                (row_key, row)
            })
            .collect())
    }
}

#[cfg(test)]
mod tests {
    use chancery_vibe::state::key;

    use super::MANDATES;

    #[test]
    fn a_mandate_lies_where_it_is_looked_for() {
        assert!(key::mandate("man_1").is_in(MANDATES));
    }
}
