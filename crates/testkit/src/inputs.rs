//! Makes envelopes and acts.

use bytes::Bytes;
use chancery_core::admin::{Act, Config, RunState};
use chancery_core::keys::ed25519::{SigningKey, encode_signature};
use chancery_core::keys::{Algorithm, KeyRecord, KeyState};
use chancery_core::line::ProtocolName;
use chancery_core::protocol::Input;
use serde_json::json;

use crate::message::{TestOutgoing, envelope, with_member};
use crate::settings::TestSettings;
use crate::suite::TestInput;

/// An envelope's bytes, without a signature.
pub fn unsigned(id: &str, from: &str, to: &str, verb: &str, value: Option<&str>) -> Bytes {
    envelope(&[
        ("id", Some(id)),
        ("from", Some(from)),
        ("to", Some(to)),
        ("verb", Some(verb)),
        ("value", value),
    ])
}

/// An envelope's bytes with a signature of `key`.
pub fn signed(key: &SigningKey, unsigned: &Bytes) -> Bytes {
    let signature = encode_signature(&key.sign(unsigned));
    with_member(unsigned, "signature", &signature).expect("an envelope made here is an object")
}

/// The signing key that goes by a name in tests.
pub fn key_of(name: &str) -> SigningKey {
    SigningKey::from_seed(chancery_core::digest::Sha256Digest::of(name.as_bytes()).as_bytes())
}

/// The act that puts the key of `owner` on record, in a state.
pub fn key_act(owner: &str, id: &str, key: &SigningKey, state: KeyState) -> TestInput {
    TestInput::Admin(Act::Key(KeyRecord {
        id: id.to_owned(),
        owner: owner.to_owned(),
        algorithm: Algorithm::Ed25519,
        public: key.verifying_key().as_bytes().to_vec(),
        state,
        valid_from: None,
        valid_until: None,
        source: chancery_core::keys::KeySource::Operator,
        removed: false,
    }))
}

/// The act that hosts an agent; `key` names the key it signs with.
pub fn host_act(agent: &str, key: Option<&str>) -> TestInput {
    agent_act(agent, Some(json!({ "key": key })), None)
}

/// The act that changes an agent's run state.
pub fn run_state_act(agent: &str, key: Option<&str>, state: RunState) -> TestInput {
    agent_act(agent, Some(json!({ "key": key })), Some(state))
}

fn agent_act(
    agent: &str,
    record: Option<serde_json::Value>,
    run_state: Option<RunState>,
) -> TestInput {
    TestInput::Admin(Act::Agent {
        protocol: ProtocolName::Test,
        id: agent.to_owned(),
        record,
        run_state,
    })
}

/// The act that puts settings in force.
pub fn config_act(settings: &TestSettings) -> TestInput {
    let settings = serde_json::to_value(settings).expect("settings have a JSON form");
    let protocols = [(ProtocolName::Test.as_str().to_owned(), settings)].into();
    TestInput::Admin(Act::Config(Config {
        protocols,
        ..Config::default()
    }))
}

/// What a hosted agent sends.
pub fn outgoing(agent: &str, to: &str, verb: &str, value: Option<&str>) -> TestInput {
    TestInput::Test(Input::Outgoing {
        agent: agent.to_owned(),
        answers: None,
        idempotency: None,
        content: TestOutgoing {
            to: to.to_owned(),
            verb: verb.to_owned(),
            value: value.map(str::to_owned),
        },
    })
}
