//! The test protocol with the administration beside it: what a node, recovery and replay run in tests.

use bytes::Bytes;
use chancery_core::admin::{self, Act};
use chancery_core::decision::{Cx, Stop, Verdict};
use chancery_core::keys::Keyring;
use chancery_core::line::{Damage, Line, ProtocolName, Seq};
use chancery_core::protocol::{Failure, Input, Protocol, SignatureCheck, Suite};
use chancery_core::rows::{RowKey, Rows, RowsDamaged};
use chancery_core::timer::TimerName;
use chancery_core::window::WindowName;
use serde::Deserialize;

use crate::rules::{SEEN, TestAct, TestAnswer, TestProtocol, TestTimer};
use crate::settings::{RULES, TestSettings};

/// One input of the suite.
#[derive(Debug)]
pub enum TestInput {
    /// Administration.
    Admin(Act),
    /// Anything of the test protocol.
    Test(Input<TestProtocol>),
}

/// The suite.
#[derive(Clone, Copy, Debug, Default)]
pub struct TestSuite {
    protocol: TestProtocol,
}

impl TestSuite {
    /// The suite with one rule changed: the second derived line of a `batch` is another one.
    pub fn altered() -> Self {
        Self {
            protocol: TestProtocol { altered: true },
        }
    }

    /// Its protocol.
    pub fn protocol(&self) -> &TestProtocol {
        &self.protocol
    }
}

/// What a `node` line may hold besides administration.
#[derive(Deserialize)]
#[serde(tag = "kind", rename_all = "lowercase")]
enum NodeLine {
    Timer {
        timer: TestTimer,
    },
    World {
        name: String,
        count: u64,
    },
    Failed {
        of: Seq,
        about: String,
        code: Failure,
    },
    #[serde(other)]
    Other,
}

impl Suite for TestSuite {
    type Input = TestInput;
    type Answer = TestAnswer;
    type Settings = TestSettings;

    fn windows(&self) -> &'static [WindowName] {
        &[SEEN]
    }

    fn settings(&self, rows: &dyn Rows) -> Result<TestSettings, RowsDamaged> {
        admin::settings(rows, ProtocolName::Test)
    }

    fn urgent(&self, input: &TestInput) -> bool {
        match input {
            TestInput::Admin(_) => true,
            TestInput::Test(input) => self.protocol.urgent(input),
        }
    }

    fn wants(&self, input: &TestInput, wants: &mut Vec<RowKey>) {
        if let TestInput::Test(input) = input {
            self.protocol.wants(input, wants);
        }
    }

    fn decide(
        &self,
        input: &TestInput,
        settings: &TestSettings,
        cx: &mut Cx<'_>,
    ) -> Result<Verdict<TestAnswer>, Stop> {
        match input {
            TestInput::Test(input) => self.protocol.decide(input, settings, cx),
            TestInput::Admin(act) => {
                let hook: admin::AgentHook<'_> = &|protocol, id, before, after, cx| match protocol {
                    ProtocolName::Test => self.protocol.agent_changed(id, before, after, cx),
                    _ => Ok(()),
                };
                let seq = admin::decide(act, hook, cx)?;
                Ok(Verdict::Record {
                    answer: TestAnswer::Acted { seq },
                })
            }
        }
    }

    fn has_rules(&self, line: &Line, settings: &TestSettings) -> bool {
        let administers = line.protocol == ProtocolName::Node
            && matches!(serde_json::from_slice(&line.envelope), Ok(NodeLine::Other));
        administers || settings.rules == RULES
    }

    fn reread(&self, line: &Line, settings: &TestSettings) -> Result<TestInput, Damage> {
        let damage = |reason: String| Damage {
            seq: line.seq,
            reason,
        };
        match line.protocol {
            ProtocolName::Test => self.protocol.reread(line, settings).map(TestInput::Test),
            ProtocolName::Node => {
                let held = serde_json::from_slice(&line.envelope)
                    .map_err(|error| damage(error.to_string()))?;
                Ok(match held {
                    NodeLine::Timer { timer } => TestInput::Test(Input::Timer(timer)),
                    NodeLine::World { name, count } => {
                        TestInput::Test(Input::Act(TestAct::World { name, count }))
                    }
                    NodeLine::Failed { of, about, code } => TestInput::Test(Input::Failed {
                        of,
                        about,
                        why: code,
                    }),
                    NodeLine::Other => TestInput::Admin(admin::reread(line)?),
                })
            }
            other => Err(damage(format!("a line of {}", other.as_str()))),
        }
    }

    fn check_signature(&self, line: &Line, keys: &Keyring) -> SignatureCheck {
        match line.protocol {
            ProtocolName::Test => self.protocol.check_signature(line, keys),
            _ => SignatureCheck::NotSigned,
        }
    }

    fn recorded_signature(&self, line: &Line) -> Option<[u8; 64]> {
        self.protocol.recorded_signature(line)
    }

    fn seal(
        &self,
        _: ProtocolName,
        unsealed: &Bytes,
        sign: &mut dyn FnMut(&[u8]) -> Option<[u8; 64]>,
    ) -> Option<Bytes> {
        self.protocol.seal(unsealed, sign)
    }

    fn timer(&self, name: &TimerName, row: &[u8]) -> Result<TestInput, RowsDamaged> {
        let timer = serde_json::from_slice(row)
            .map_err(|error| RowsDamaged(format!("{}: {error}", name.name)))?;
        Ok(TestInput::Test(Input::Timer(timer)))
    }

    fn failed(&self, _: ProtocolName, of: Seq, about: String, why: Failure) -> TestInput {
        TestInput::Test(Input::Failed { of, about, why })
    }
}
