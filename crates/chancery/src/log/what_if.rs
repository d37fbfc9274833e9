//! What would have been decided under another policy: every vibe input of a log, judged again.
//!
//! Without a cascade each input is judged against the state as it was recorded, so that every difference has its cause in
//! the policy alone. With one, what the changed policy leaves is the state that later inputs meet, and what differs only
//! through that is a consequence.

mod policy;

use bytes::Bytes;
use chancery_core::decision::{Before, Open, Unit};
use chancery_core::digest::Sha256Digest;
use chancery_core::line::{Draft, DraftEnvelope, Line, Members, Origin, ProtocolName, Seq};
use chancery_core::protocol::{Input, Suite as _};
use chancery_core::rows::RowsDamaged;
use chancery_journal::line::read;
use chancery_journal::{
    Backing as _, Divergence, Fold, Head, InForce, InMemory, Outcome, Recorded, Units, decide_input,
};
use chancery_node::suite::{AllSettings, AnyAnswer, AnyInput, Chancery};
use chancery_vibe::Answer;
use chancery_vibe::action::Action;
use chancery_vibe::code::Code;
use chancery_vibe::message::Message;
use chancery_vibe::settings::Platform;

use super::summary::Summary;
pub use policy::{Item, Party};
use policy::{Patched, Policy, is_write, kind_of};

/// A decision that would be another.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Difference {
    /// Its line.
    pub seq: Seq,
    /// The envelope; none for a line of administration.
    pub msg_id: Option<String>,
    /// Its action, or what kind of administration it is.
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
    /// The rules take a unit whole, and not what the policy leaves of it.
    #[error("line {0} cannot be judged without what the policy takes from it")]
    Indivisible(Seq),
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
        unit: Box<Unit>,
        /// Whether the permission table leaves less of it than the rules made.
        is_cut: bool,
    },
    Refused(String),
}

/// An input on record that is judged.
struct Case<'r> {
    input: AnyInput,
    message: Message,
    unit: &'r [Recorded],
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
            return self.follow(first);
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
        let case = Case {
            input,
            message,
            unit,
        };
        let direct = self.direct(&case);
        let (would, rules) = if self.changed.is_none() {
            direct.unzip()
        } else {
            let judged = self.judged(&case, &Policy::of(&self.items), true);
            let would = difference(unit, &judged);
            self.take_judged(&case, judged)?;
            (would, direct.map(|(_, rules)| rules))
        };
        let message = case.message;
        Ok(would.map(|would| Difference {
            seq: first.seq,
            kind: message
                .action
                .map(Action::kind)
                .unwrap_or_default()
                .to_owned(),
            msg_id: Some(message.msg_id),
            would,
            rules: rules.unwrap_or_default(),
        }))
    }

    /// What differs by the policy alone, and the rules that make it differ.
    fn direct(&self, case: &Case<'_>) -> Option<(String, Vec<String>)> {
        let touches = |item: &&Item| item.touches(&case.message, case.unit);
        let touching: Vec<&Item> = self.items.iter().filter(touches).collect();
        if touching.is_empty() {
            return None;
        }
        // Judged under all of it: what one item adds to a unit another may take away again.
        let judged = self.judged(case, &Policy::of(&self.items), false);
        let would = difference(case.unit, &judged)?;
        Some((would, self.rules(case, &touching)))
    }

    /// The items that make the difference each by itself; all of them when only together they do.
    fn rules(&self, case: &Case<'_>, items: &[&Item]) -> Vec<String> {
        let alone = |item: &&&Item| {
            let policy = Policy::of(std::slice::from_ref(**item));
            difference(case.unit, &self.judged(case, &policy, false)).is_some()
        };
        let found: Vec<&&Item> = items.iter().filter(alone).collect();
        let named = match found.is_empty() {
            true => items.iter().collect(),
            false => found,
        };
        named.into_iter().map(|item| item.name()).collect()
    }

    fn judged(&self, case: &Case<'_>, policy: &Policy<'_>, cascade: bool) -> Judged {
        let denied = || Judged::Refused(Code::PartitionDenied.as_str().to_owned());
        if policy.denies(&case.message) {
            return denied();
        }
        let (world, settings) = match &self.changed {
            Some(changed) if cascade => (&changed.world, changed.in_force.settings()),
            _ => (self.fold.backing(), self.fold.settings()),
        };
        let settings = policy.alter(settings);
        let rows = Patched {
            below: world,
            ceiling: policy.ceiling(),
        };
        match self.decided(&case.input, &case.unit[0].line, &settings, &rows) {
            Outcome::Recorded { unit, answer, .. } => {
                let mut envelopes: Vec<Bytes> = unit.drafts.iter().map(envelope_of).collect();
                let end = policy.ends(&envelopes);
                if end == Some(0) {
                    return denied();
                }
                envelopes.truncate(end.unwrap_or(envelopes.len()));
                Judged::Recorded {
                    envelopes,
                    follow_up_error: match end {
                        Some(_) => Some(Code::PartitionDenied.as_str().to_owned()),
                        None => follow_up_error(&answer),
                    },
                    unit: Box::new(unit),
                    is_cut: end.is_some(),
                }
            }
            Outcome::Passed { .. } => Judged::Refused("answered as a repeat".to_owned()),
            Outcome::Refused { refusal, .. } => Judged::Refused(refusal.code.to_owned()),
            Outcome::Missing(_) | Outcome::Damaged(_) => {
                Judged::Refused(Code::Internal.as_str().to_owned())
            }
        }
    }

    /// Decides an input that stands, or would stand, at that line.
    fn decided(
        &self,
        input: &AnyInput,
        line: &Line,
        settings: &AllSettings,
        rows: &Patched<'_>,
    ) -> Outcome<AnyAnswer> {
        let by_position = self.fold.head().time_by_position();
        let before = Before {
            now: line.eval_ts.unwrap_or(by_position),
            seq: line.seq,
            rows,
            windows: rows.below,
            guards: &mut Open,
            nonce: [0; 16],
            // As a node decides: only then is there an answer that says why a follow-up was not made.
            keeps_agenda: true,
        };
        decide_input(self.fold.suite(), input, settings, by_position, before)
    }

    /// Administration is the same in both worlds, as far as the changed one takes it.
    fn follow(&mut self, first: &Line) -> Result<Option<Difference>, NotJudged> {
        let Some(changed) = &self.changed else {
            return Ok(None);
        };
        let settings = changed.in_force.settings();
        let Ok(input) = self.fold.suite().reread(first, settings) else {
            return Ok(None);
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
        let decided = decide_input(self.fold.suite(), &input, settings, by_position, before);
        match decided {
            Outcome::Recorded { unit, .. } => {
                self.take_changed(unit)?;
                Ok(None)
            }
            // Of other protocols the changed world holds no envelopes: what they lack there says nothing.
            Outcome::Refused { refusal, .. } if matches!(input, AnyInput::Vibe(_)) => {
                Ok(Some(Difference {
                    seq: first.seq,
                    msg_id: None,
                    kind: Summary::of(first).kind,
                    would: format!("refused: {}", refusal.code),
                    rules: Vec::new(),
                }))
            }
            _ => Ok(None),
        }
    }

    /// What the changed world takes of a decision.
    fn take_judged(&mut self, case: &Case<'_>, judged: Judged) -> Result<(), NotJudged> {
        match judged {
            Judged::Refused(_) => Ok(()),
            Judged::Recorded {
                envelopes,
                is_cut: true,
                ..
            } => self.take_cut(case, &envelopes),
            Judged::Recorded { unit, .. } => self.take_changed(*unit),
        }
    }

    /// What is left of a unit. The rules make one whole, so its trigger is decided as if the platform sent nothing by
    /// itself, and each follow-up that is left as if the platform's role had sent it (VC-PLAT-1).
    fn take_cut(&mut self, case: &Case<'_>, envelopes: &[Bytes]) -> Result<(), NotJudged> {
        let first = &case.unit[0].line;
        let sent = envelopes.iter().zip(first.seq..).enumerate();
        for (at, (envelope, seq)) in sent.filter(|(_, (envelope, _))| !is_write(envelope)) {
            let Some(changed) = &self.changed else {
                return Ok(());
            };
            let policy = Policy::of(&self.items);
            let mut settings = policy.alter(changed.in_force.settings());
            settings.vibe.platform = Platform::Manual;
            let mut line = first.clone();
            line.seq = seq;
            if at > 0 {
                // The runtime signs nothing (VC-SIG-6), and what it makes is no principal's.
                settings.vibe.signed = false;
                line.origin = Origin::External;
                line.envelope = envelope.clone();
                line.meta = Members::default();
            }
            let input = self.fold.suite().reread(&line, &settings);
            let input = input.map_err(|_| NotJudged::Indivisible(first.seq))?;
            let rows = Patched {
                below: &changed.world,
                ceiling: policy.ceiling(),
            };
            let Outcome::Recorded { unit, .. } = self.decided(&input, &line, &settings, &rows)
            else {
                return Err(NotJudged::Indivisible(first.seq));
            };
            self.take_changed(unit)?;
        }
        Ok(())
    }

    fn take_changed(&mut self, unit: Unit) -> Result<(), NotJudged> {
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

fn envelope_of(draft: &Draft) -> Bytes {
    match &draft.envelope {
        DraftEnvelope::Whole(bytes) | DraftEnvelope::Unsealed { bytes, .. } => bytes.clone(),
    }
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
