//! The protocol with the administration beside it, as a node and replay run it.

use bytes::Bytes;
use chancery_core::admin::{self, Act};
use chancery_core::decision::{Cx, Stop, Verdict};
use chancery_core::json::Value;
use chancery_core::keys::Keyring;
use chancery_core::line::{Damage, Line, ProtocolName, Seq};
use chancery_core::protocol::{Failure, Input, Protocol as _, SignatureCheck, Suite};
use chancery_core::rows::{RowKey, Rows, RowsDamaged};
use chancery_core::timer::TimerName;
use chancery_core::window::WindowName;
use chancery_vibe::Vibe;
use chancery_vibe::settings::Settings;

/// One input.
#[expect(
    clippy::large_enum_variant,
    reason = "almost every input is the large one"
)]
pub enum VibeInput {
    /// Administration.
    Admin(Act),
    /// The protocol's.
    Vibe(Input<Vibe>),
}

/// The suite.
#[derive(Clone, Copy, Default)]
pub struct VibeSuite;

impl Suite for VibeSuite {
    type Input = VibeInput;
    type Answer = ();
    type Settings = Settings;

    fn windows(&self) -> &'static [WindowName] {
        &[]
    }

    fn settings(&self, rows: &dyn Rows) -> Result<Settings, RowsDamaged> {
        admin::settings(rows, ProtocolName::Vibe)
    }

    fn urgent(&self, _: &VibeInput) -> bool {
        false
    }

    fn wants(&self, input: &VibeInput, wants: &mut Vec<RowKey>) {
        if let VibeInput::Vibe(input) = input {
            Vibe.wants(input, wants);
        }
    }

    fn decide(
        &self,
        input: &VibeInput,
        settings: &Settings,
        cx: &mut Cx<'_>,
    ) -> Result<Verdict<()>, Stop> {
        match input {
            VibeInput::Admin(act) => {
                admin::decide(act, &|_, _, _, _, _| Ok(()), cx)?;
                Ok(Verdict::Record { answer: () })
            }
            VibeInput::Vibe(input) => Ok(match Vibe.decide(input, settings, cx)? {
                Verdict::Record { .. } => Verdict::Record { answer: () },
                Verdict::Pass { repeat, .. } => Verdict::Pass { answer: (), repeat },
            }),
        }
    }

    fn has_rules(&self, _: &Line, _: &Settings) -> bool {
        true
    }

    fn reread(&self, line: &Line, settings: &Settings) -> Result<VibeInput, Damage> {
        let is_world = line.envelope.starts_with(b"{\"catalog\"")
            || serde_json::from_slice::<serde_json::Value>(&line.envelope)
                .is_ok_and(|envelope| envelope["kind"] == "world");
        match line.protocol {
            ProtocolName::Node if !is_world => Ok(VibeInput::Admin(admin::reread(line)?)),
            _ => Vibe.reread(line, settings).map(VibeInput::Vibe),
        }
    }

    fn check_signature(&self, line: &Line, keys: &Keyring) -> SignatureCheck {
        match line.protocol {
            ProtocolName::Vibe => Vibe.check_signature(line, keys),
            _ => SignatureCheck::NotSigned,
        }
    }

    fn check_and_reread(
        &self,
        line: &Line,
        envelope: Option<&Value<'_>>,
        keys: &Keyring,
        settings: Option<&Settings>,
    ) -> (SignatureCheck, Option<VibeInput>) {
        match line.protocol {
            ProtocolName::Vibe => {
                let (check, input) = Vibe.check_and_reread(line, envelope, keys, settings);
                (check, input.map(VibeInput::Vibe))
            }
            _ => (SignatureCheck::NotSigned, None),
        }
    }

    fn recorded_signature(&self, _: &Line) -> Option<[u8; 64]> {
        None
    }

    fn seal(
        &self,
        _: ProtocolName,
        _: &Bytes,
        _: &mut dyn FnMut(&[u8]) -> Option<[u8; 64]>,
    ) -> Option<Bytes> {
        None
    }

    fn timer(&self, name: &TimerName, _: &[u8]) -> Result<VibeInput, RowsDamaged> {
        Err(RowsDamaged(format!("no timer {}", name.name)))
    }

    fn failed(&self, protocol: ProtocolName, of: Seq, about: String, why: Failure) -> VibeInput {
        VibeInput::Admin(Act::Failed {
            protocol,
            of,
            about,
            code: why,
        })
    }
}
