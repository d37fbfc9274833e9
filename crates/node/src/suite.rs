//! The protocols that this program serves, as one closed set with the administration.

use std::sync::Arc;

use bytes::Bytes;
use chancery_agh::answer::Answer as AghAnswer;
use chancery_agh::settings::{RULES_VERSION as AGH_RULES, Settings as AghSettings};
use chancery_agh::{Agh, rules as agh_rules};
use chancery_core::admin::{self, Act, Config, RunState};
use chancery_core::decision::{Cx, Stop, Verdict};
use chancery_core::json::Value;
use chancery_core::keys::Keyring;
use chancery_core::line::{Damage, Line, ProtocolName, Seq};
use chancery_core::protocol::{Failure, Input, Protocol, SignatureCheck, Suite};
use chancery_core::refusal::Refusal;
use chancery_core::rows::{RowKey, Rows, RowsDamaged};
use chancery_core::timer::TimerName;
use chancery_core::window::WindowName;
use chancery_vacant::answer::Answer as VacantAnswer;
use chancery_vacant::settings::{
    RULES_VERSION as VACANT_RULES_VERSION, Settings as VacantSettings,
};
use chancery_vacant::{Vacant, act as vacant_act, rules as vacant_rules};
use chancery_value_context::settings::{RULES_VERSION, Settings as ValueContextSettings};
use chancery_value_context::{Answer as ValueContextAnswer, ValueContext, rules};
use chancery_vibe::settings::{RULES_VERSION as VIBE_RULES_VERSION, Settings as VibeSettings};
use chancery_vibe::world::seed::Seed;
use chancery_vibe::{Answer as VibeAnswer, Vibe};

/// The suite of this program.
#[derive(Clone, Debug, Default)]
pub struct Chancery {
    value_context: ValueContext,
    vibe: Vibe,
    vacant: Vacant,
    agh: Agh,
    /// The world that vibe starts from; a log with vibe lines cannot be decided again without it.
    seed: Option<Arc<Seed>>,
}

/// The name under which a configuration line holds the digest of the world seed (CH-JRN-12).
pub const WORLD_DIGEST: &str = "vibe-world";

/// What a missing world seed is told with.
pub const SEED_NEEDED: &str = "the world seed with the SHA-256";

/// The row that says which world was planted.
fn planted_key() -> RowKey {
    RowKey::text("vibe-seed", &[])
}

/// An input of any of the protocols, or of the administration.
#[derive(Debug)]
pub enum AnyInput {
    /// An act of administration.
    Act(Act),
    /// An input of value-context.
    ValueContext(Input<ValueContext>),
    /// An input of vibe.
    Vibe(Input<Vibe>),
    /// An input of vacant.
    Vacant(Input<Vacant>),
    /// An input of agh.
    Agh(Input<Agh>),
}

/// An answer of any of them.
#[derive(Debug)]
pub enum AnyAnswer {
    /// The line of an act.
    Act(Seq),
    /// An answer of value-context.
    ValueContext(ValueContextAnswer),
    /// An answer of vibe.
    Vibe(VibeAnswer),
    /// An answer of vacant.
    Vacant(VacantAnswer),
    /// An answer of agh.
    Agh(AghAnswer),
}

/// The settings of all of them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AllSettings {
    /// Of value-context.
    pub value_context: ValueContextSettings,
    /// Of vibe; without a world it answers that it is not configured.
    pub vibe: VibeSettings,
    /// Of vacant.
    pub vacant: VacantSettings,
    /// Of agh.
    pub agh: AghSettings,
}

/// Every window of every protocol.
const WINDOWS: &[WindowName] = &{
    const OTHERS: [WindowName; 3] = [vacant_rules::SENT, agh_rules::SEEN, agh_rules::SENT];
    let mut all = [vacant_rules::SENT; rules::WINDOWS.len() + OTHERS.len()];
    let mut index = 0;
    while index < rules::WINDOWS.len() {
        all[index] = rules::WINDOWS[index];
        index += 1;
    }
    while index < all.len() {
        all[index] = OTHERS[index - rules::WINDOWS.len()];
        index += 1;
    }
    all
};

impl Chancery {
    /// The suite over a world of vibe.
    pub fn with_seed(seed: Arc<Seed>) -> Self {
        Self {
            seed: Some(seed),
            ..Self::default()
        }
    }

    /// The world that vibe starts from, where there is one.
    pub fn seed(&self) -> Option<&Arc<Seed>> {
        self.seed.as_ref()
    }

    /// Value-Context messaging.
    pub fn value_context(&self) -> &ValueContext {
        &self.value_context
    }

    /// Vibe Commerce.
    pub fn vibe(&self) -> &Vibe {
        &self.vibe
    }

    /// Vacant.
    pub fn vacant(&self) -> &Vacant {
        &self.vacant
    }

    /// AGH Network.
    pub fn agh(&self) -> &Agh {
        &self.agh
    }

    fn decide_act(&self, act: &Act, cx: &mut Cx<'_>) -> Result<Verdict<AnyAnswer>, Stop> {
        let hook = |protocol: ProtocolName,
                    id: &str,
                    before: Option<&serde_json::Value>,
                    after: Option<&serde_json::Value>,
                    cx: &mut Cx<'_>| match protocol {
            ProtocolName::ValueContext => self.value_context.agent_changed(id, before, after, cx),
            ProtocolName::Vacant => self.vacant.agent_changed(id, before, after, cx),
            ProtocolName::Agh => self.agh.agent_changed(id, before, after, cx),
            ProtocolName::Vibe => self.vibe.agent_changed(id, before, after, cx),
            _ => Ok(()),
        };
        if let Act::Config(config) = act {
            self.plant(config, cx)?;
        }
        let seq = admin::decide(act, &hook, cx)?;
        if let Act::Agent {
            protocol: ProtocolName::ValueContext,
            id,
            run_state: Some(RunState::Running),
            ..
        } = act
        {
            rules::operator_resumed(id, cx)?;
        }
        Ok(Verdict::Record {
            answer: AnyAnswer::Act(seq),
        })
    }

    /// The first configuration that names a world brings its rows, live, in recovery and in replay alike: so the log and
    /// the seed together give every row, and no store has to know of seeds.
    fn plant(&self, config: &Config, cx: &mut Cx<'_>) -> Result<(), Stop> {
        let Some(digest) = config.digests.get(WORLD_DIGEST) else {
            return Ok(());
        };
        match cx.row::<String>(&planted_key())? {
            Some(planted) if planted == *digest => return Ok(()),
            Some(_) => {
                let message = "the log began with another world seed";
                return Err(Refusal::new("world_seed_differs", 409, "CH-JRN-12", message).into());
            }
            None => {}
        }
        let seed = self.seed.as_ref();
        let seed = seed
            .filter(|seed| seed.digest.hex() == *digest)
            .ok_or_else(|| RowsDamaged(format!("{SEED_NEEDED} {digest} is needed and not here")))?;
        for (key, row) in seed.rows().iter() {
            cx.put_bytes(key, row.bytes().clone());
        }
        cx.put(planted_key(), digest);
        Ok(())
    }
}

/// Whose world a `node` line changes; none when it is administration. Vibe's own lines name no protocol.
fn world_of(line: &Line) -> Option<ProtocolName> {
    #[derive(serde::Deserialize)]
    struct Kind<'l> {
        #[serde(borrow)]
        kind: std::borrow::Cow<'l, str>,
        protocol: Option<ProtocolName>,
    }
    if line.protocol != ProtocolName::Node {
        return None;
    }
    let line: Kind<'_> = serde_json::from_slice(&line.envelope).ok()?;
    (line.kind == "world").then(|| line.protocol.unwrap_or(ProtocolName::Vibe))
}

/// A verdict with its answer put into the suite's.
fn lift<A>(verdict: Verdict<A>, into: impl FnOnce(A) -> AnyAnswer) -> Verdict<AnyAnswer> {
    match verdict {
        Verdict::Record { answer } => Verdict::Record {
            answer: into(answer),
        },
        Verdict::Pass { answer, repeat } => Verdict::Pass {
            answer: into(answer),
            repeat,
        },
    }
}

impl Suite for Chancery {
    type Input = AnyInput;
    type Answer = AnyAnswer;
    type Settings = AllSettings;

    fn windows(&self) -> &'static [WindowName] {
        WINDOWS
    }

    fn settings(&self, rows: &dyn Rows) -> Result<AllSettings, RowsDamaged> {
        Ok(AllSettings {
            value_context: admin::settings(rows, ProtocolName::ValueContext)?,
            vibe: admin::settings(rows, ProtocolName::Vibe)?,
            vacant: admin::settings(rows, ProtocolName::Vacant)?,
            agh: admin::settings(rows, ProtocolName::Agh)?,
        })
    }

    fn urgent(&self, input: &AnyInput) -> bool {
        match input {
            AnyInput::Act(_) => true,
            AnyInput::ValueContext(input) => self.value_context.urgent(input),
            AnyInput::Vibe(input) => self.vibe.urgent(input),
            AnyInput::Vacant(input) => self.vacant.urgent(input),
            AnyInput::Agh(input) => self.agh.urgent(input),
        }
    }

    fn wants(&self, input: &AnyInput, wants: &mut Vec<RowKey>) {
        match input {
            AnyInput::Act(_) => {}
            AnyInput::ValueContext(input) => self.value_context.wants(input, wants),
            AnyInput::Vibe(input) => self.vibe.wants(input, wants),
            AnyInput::Vacant(input) => self.vacant.wants(input, wants),
            AnyInput::Agh(input) => self.agh.wants(input, wants),
        }
    }

    fn decide(
        &self,
        input: &AnyInput,
        settings: &AllSettings,
        cx: &mut Cx<'_>,
    ) -> Result<Verdict<AnyAnswer>, Stop> {
        match input {
            AnyInput::Act(act) => self.decide_act(act, cx),
            AnyInput::ValueContext(input) => {
                let verdict = self
                    .value_context
                    .decide(input, &settings.value_context, cx)?;
                Ok(lift(verdict, AnyAnswer::ValueContext))
            }
            AnyInput::Vibe(input) => {
                let verdict = self.vibe.decide(input, &settings.vibe, cx)?;
                Ok(lift(verdict, AnyAnswer::Vibe))
            }
            AnyInput::Vacant(input) => {
                let verdict = self.vacant.decide(input, &settings.vacant, cx)?;
                Ok(lift(verdict, AnyAnswer::Vacant))
            }
            AnyInput::Agh(input) => {
                let verdict = self.agh.decide(input, &settings.agh, cx)?;
                Ok(lift(verdict, AnyAnswer::Agh))
            }
        }
    }

    fn has_rules(&self, line: &Line, settings: &AllSettings) -> bool {
        match world_of(line).unwrap_or(line.protocol) {
            ProtocolName::Node => true,
            ProtocolName::Vibe => settings.vibe.rules_version == VIBE_RULES_VERSION,
            ProtocolName::ValueContext => settings.value_context.rules_version == RULES_VERSION,
            ProtocolName::Vacant => settings.vacant.rules_version == VACANT_RULES_VERSION,
            ProtocolName::Agh => settings.agh.rules_version == AGH_RULES,
            _ => false,
        }
    }

    fn reread(&self, line: &Line, settings: &AllSettings) -> Result<AnyInput, Damage> {
        match world_of(line).unwrap_or(line.protocol) {
            ProtocolName::Vacant if line.protocol == ProtocolName::Node => {
                let act = vacant_act::Act::of_line(&line.envelope).ok_or_else(|| Damage {
                    seq: line.seq,
                    reason: "not an act of vacant".to_owned(),
                })?;
                Ok(AnyInput::Vacant(Input::Act(act)))
            }
            ProtocolName::Vacant => Ok(AnyInput::Vacant(
                self.vacant.reread(line, &settings.vacant)?,
            )),
            ProtocolName::Vibe => Ok(AnyInput::Vibe(self.vibe.reread(line, &settings.vibe)?)),
            ProtocolName::Node => match admin::reread(line)? {
                Act::Failed {
                    protocol,
                    of,
                    about,
                    code,
                } => Ok(self.failed(protocol, of, about, code)),
                Act::Timer { protocol, timer } => {
                    let name = TimerName {
                        protocol,
                        name: String::new(),
                    };
                    self.timer(&name, timer.to_string().as_bytes())
                        .map_err(|damage| Damage {
                            seq: line.seq,
                            reason: damage.to_string(),
                        })
                }
                act => Ok(AnyInput::Act(act)),
            },
            ProtocolName::ValueContext => Ok(AnyInput::ValueContext(
                self.value_context.reread(line, &settings.value_context)?,
            )),
            ProtocolName::Agh => Ok(AnyInput::Agh(self.agh.reread(line, &settings.agh)?)),
            other => Err(Damage {
                seq: line.seq,
                reason: format!("this build has no rules of {}", other.as_str()),
            }),
        }
    }

    fn check_signature(&self, line: &Line, keys: &Keyring) -> SignatureCheck {
        match line.protocol {
            ProtocolName::ValueContext => self.value_context.check_signature(line, keys),
            ProtocolName::Vibe => self.vibe.check_signature(line, keys),
            ProtocolName::Vacant => self.vacant.check_signature(line, keys),
            ProtocolName::Agh => self.agh.check_signature(line, keys),
            _ => SignatureCheck::NotSigned,
        }
    }

    fn check_and_reread(
        &self,
        line: &Line,
        envelope: Option<&Value<'_>>,
        keys: &Keyring,
        settings: Option<&AllSettings>,
    ) -> (SignatureCheck, Option<AnyInput>) {
        match line.protocol {
            ProtocolName::ValueContext => {
                let settings = settings.map(|all| &all.value_context);
                let checked = self
                    .value_context
                    .check_and_reread(line, envelope, keys, settings);
                (checked.0, checked.1.map(AnyInput::ValueContext))
            }
            ProtocolName::Vibe => {
                let settings = settings.map(|all| &all.vibe);
                let checked = self.vibe.check_and_reread(line, envelope, keys, settings);
                (checked.0, checked.1.map(AnyInput::Vibe))
            }
            ProtocolName::Vacant => {
                let settings = settings.map(|all| &all.vacant);
                let checked = self.vacant.check_and_reread(line, envelope, keys, settings);
                (checked.0, checked.1.map(AnyInput::Vacant))
            }
            ProtocolName::Agh => (self.agh.check_signature(line, keys), None),
            _ => (SignatureCheck::NotSigned, None),
        }
    }

    fn recorded_signature(&self, line: &Line) -> Option<[u8; 64]> {
        match line.protocol {
            ProtocolName::ValueContext => self.value_context.recorded_signature(line),
            ProtocolName::Vacant => self.vacant.recorded_signature(line),
            ProtocolName::Agh => self.agh.recorded_signature(line),
            _ => None,
        }
    }

    fn seal(
        &self,
        protocol: ProtocolName,
        unsealed: &Bytes,
        sign: &mut dyn FnMut(&[u8]) -> Option<[u8; 64]>,
    ) -> Option<Bytes> {
        match protocol {
            ProtocolName::ValueContext => self.value_context.seal(unsealed, sign),
            ProtocolName::Vacant => self.vacant.seal(unsealed, sign),
            ProtocolName::Agh => self.agh.seal(unsealed, sign),
            _ => None,
        }
    }

    fn timer(&self, name: &TimerName, row: &[u8]) -> Result<AnyInput, RowsDamaged> {
        let unknown = || {
            RowsDamaged(format!(
                "no rules of {} have a timer {}",
                name.protocol.as_str(),
                name.name
            ))
        };
        match name.protocol {
            ProtocolName::ValueContext => {
                let timer = serde_json::from_slice(row).map_err(|_| unknown())?;
                Ok(AnyInput::ValueContext(Input::Timer(timer)))
            }
            _ => Err(unknown()),
        }
    }

    fn failed(&self, protocol: ProtocolName, of: Seq, about: String, why: Failure) -> AnyInput {
        match protocol {
            ProtocolName::ValueContext => AnyInput::ValueContext(Input::Failed { of, about, why }),
            ProtocolName::Vacant => AnyInput::Vacant(Input::Failed { of, about, why }),
            ProtocolName::Agh => AnyInput::Agh(Input::Failed { of, about, why }),
            _ => AnyInput::Act(Act::Failed {
                protocol,
                of,
                about,
                code: why,
            }),
        }
    }
}
