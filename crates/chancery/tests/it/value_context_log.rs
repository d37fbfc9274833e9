//! A log as a node writes it: the world and the accepted shares of the vectors, through the rules of this build.

use std::collections::BTreeMap;

use bytes::Bytes;
use chancery_core::admin::{Act, Config};
use chancery_core::decision::{Before, Nonce, Open, Unit};
use chancery_core::digest::hex;
use chancery_core::keys::ed25519::SigningKey;
use chancery_core::line::{DraftEnvelope, ProtocolName};
use chancery_core::protocol::{Caller, Door, Input, Protocol as _, Suite as _};
use chancery_core::time::{Time, parse_value_context};
use chancery_journal::{Backing as _, Chain, InForce, InMemory, Lines, Outcome, decide_input};
use chancery_node::suite::{AnyInput, Chancery};
use chancery_value_context::agent::AgentRecord;
use chancery_value_context::settings::Settings;
use chancery_value_context::world::World;
use serde_json::Value;

use crate::sample;
use crate::support::{Place, workspace};

struct Writer {
    suite: Chancery,
    state: InMemory,
    in_force: InForce<Chancery>,
    chain: Chain,
    lines: Vec<Bytes>,
    secrets: BTreeMap<String, SigningKey>,
    decided: u64,
}

impl Writer {
    fn new(secrets: BTreeMap<String, SigningKey>) -> Self {
        let (suite, state) = (Chancery::default(), InMemory::default());
        let in_force = InForce::of_rows(&suite, &state).unwrap();
        Self {
            suite,
            state,
            in_force,
            chain: Chain::default(),
            lines: Vec::new(),
            secrets,
            decided: 0,
        }
    }

    fn act(&mut self, act: Act) {
        assert!(self.decide(&AnyInput::Act(act), Time::UNIX_EPOCH));
    }

    /// Whether it is on record now.
    fn receive(&mut self, body: Vec<u8>, now: Time) -> bool {
        let settings = &self.in_force.settings().value_context;
        let protocol = self.suite.value_context();
        let authentic = protocol
            .decode(body.into(), Door::Http, settings)
            .and_then(|message| {
                let keys = self.in_force.keyring();
                protocol.authenticate(message, Door::Http, &Caller::default(), keys, settings, now)
            });
        authentic.is_ok_and(|message| {
            self.decide(&AnyInput::ValueContext(Input::Envelope(message)), now)
        })
    }

    fn decide(&mut self, input: &AnyInput, now: Time) -> bool {
        let head = self.chain.head();
        self.decided += 1;
        let mut nonce = Nonce::default();
        nonce[..8].copy_from_slice(&self.decided.to_be_bytes());
        let before = Before {
            now: head.decision_time(now),
            seq: head.seq + 1,
            rows: &self.state,
            windows: &self.state,
            guards: &mut Open,
            nonce,
            keeps_agenda: true,
        };
        let by_position = head.time_by_position();
        let settings = self.in_force.settings();
        match decide_input(&self.suite, input, settings, by_position, before) {
            Outcome::Recorded { unit, .. } => {
                self.commit(unit);
                true
            }
            _ => false,
        }
    }

    fn commit(&mut self, unit: Unit) {
        let sealed: Vec<Bytes> = unit
            .drafts
            .iter()
            .map(|draft| self.seal(&draft.envelope))
            .collect();
        let mut lines = Lines::default();
        self.chain
            .append_unit(unit.drafts.iter().zip(sealed), &mut lines);
        self.lines.extend(lines.into_bytes());
        let followed = self.in_force.relevant(&unit.rows);
        self.state.take(unit.rows, unit.remembered);
        self.in_force
            .follow(&self.suite, &self.state, &followed)
            .unwrap();
    }

    fn seal(&self, envelope: &DraftEnvelope) -> Bytes {
        match envelope {
            DraftEnvelope::Whole(bytes) => bytes.clone(),
            DraftEnvelope::Unsealed { bytes, signer } => {
                let mut sign = |signed: &[u8]| Some(self.secrets[signer].sign(signed));
                self.suite
                    .seal(ProtocolName::ValueContext, bytes, &mut sign)
                    .unwrap()
            }
        }
    }
}

fn vectors(name: &str) -> Vec<u8> {
    std::fs::read(workspace().join("vectors/value-context").join(name)).unwrap()
}

fn secrets(world: &Value) -> BTreeMap<String, SigningKey> {
    let seeds = world["secret_seeds_hex"].as_object().unwrap();
    let key =
        |seed: &Value| SigningKey::from_seed(&hex::decode_array(seed.as_str().unwrap()).unwrap());
    seeds
        .iter()
        .map(|(name, seed)| (name.clone(), key(seed)))
        .collect()
}

/// The lines, and how many of them are shares.
fn lines() -> (Vec<Bytes>, usize) {
    let text = vectors("world.json");
    let raw: Value = serde_json::from_slice(&text).unwrap();
    let world = World::parse(&text).unwrap();
    let now = parse_value_context(raw["now"].as_str().unwrap()).unwrap();
    let mut writer = Writer::new(secrets(&raw));
    let settings = serde_json::to_value(Settings::default()).unwrap();
    writer.act(Act::Config(Config {
        protocols: [("value-context".to_owned(), settings)].into(),
        ..Config::default()
    }));
    for key in &world.keys {
        writer.act(Act::Key(key.clone()));
    }
    for agent in &world.agents {
        writer.act(Act::Agent {
            protocol: ProtocolName::ValueContext,
            id: agent.id.as_str().to_owned(),
            record: Some(serde_json::to_value(AgentRecord::of(agent)).unwrap()),
            run_state: None,
        });
    }
    let requests: Value = serde_json::from_slice(&vectors("requests.json")).unwrap();
    let bodies = requests["vectors"]
        .as_array()
        .unwrap()
        .iter()
        .filter_map(|case| case["body"].as_str());
    let recorded = bodies
        .filter(|body| writer.receive(body.as_bytes().to_vec(), now))
        .count();
    (writer.lines, recorded)
}

fn place() -> (Place, Vec<Bytes>, usize) {
    let (lines, recorded) = lines();
    let place = Place::new();
    place.write("data/audit.jsonl", sample::text(&lines));
    (place, lines, recorded)
}

#[test]
fn it_verifies_and_replays() {
    // CH-JRN-7, VC-RPL-2
    let (place, lines, recorded) = place();
    assert!(recorded > 0);
    let told = place
        .run(&["log", "verify", "data", "--json"])
        .exits(0)
        .json();
    assert_eq!(told["lines"], lines.len());
    assert!(
        told["signatures"].as_u64().unwrap() >= recorded as u64,
        "{told}"
    );
    let told = place
        .run(&["log", "replay", "data", "--json"])
        .exits(0)
        .json();
    assert_eq!(told["replayed"], lines.len());
    assert_eq!(told["left_out"], 0);
}

#[test]
fn a_signature_of_another_message_is_found() {
    // CH-JRN-7
    let (place, mut lines, _) = place();
    let signed: Vec<usize> = (0..lines.len())
        .filter(|at| signature(&lines[*at]).is_some())
        .collect();
    let (at, other) = (signed[0], signed[1]);
    let text = String::from_utf8(lines[at].to_vec()).unwrap();
    let forged = text.replace(
        &signature(&lines[at]).unwrap(),
        &signature(&lines[other]).unwrap(),
    );
    lines[at] = forged.into();
    place.write("data/audit.jsonl", sample::text(&lines));
    let told = place
        .run(&["log", "verify", "data", "--json"])
        .exits(1)
        .json();
    let finding = &told["findings"][0];
    assert_eq!(finding["at"], format!("data/audit.jsonl:{}", at + 1));
    assert!(
        finding["check"]
            .as_str()
            .unwrap()
            .starts_with("signature: "),
        "{told}"
    );
    let told = place
        .run(&["log", "replay", "data", "--json"])
        .exits(1)
        .json();
    assert_eq!(told["seq"], at + 1);
}

fn signature(line: &Bytes) -> Option<String> {
    let line: Value = serde_json::from_slice(line).unwrap();
    let value = line["envelope"]["signature"].as_str()?;
    Some(value.to_owned())
}

#[test]
fn it_is_explained() {
    // CH-CLI-2
    let (place, lines, _) = place();
    let line = lines.iter().find(|line| signature(line).is_some()).unwrap();
    let line: Value = serde_json::from_slice(line).unwrap();
    let envelope = &line["envelope"];
    let id = envelope["message_id"].as_str().unwrap();
    let words = place.run(&["log", "explain", id, "data"]).exits(0).text();
    assert!(
        words.contains(&format!("accepted as line {}", line["meta"]["seq"])),
        "{words}"
    );
    assert!(words.contains("signature: holds under key "), "{words}");
    assert!(
        words.contains(envelope["sender"].as_str().unwrap()),
        "{words}"
    );
    let (sender, recipient) = (&envelope["sender"], &envelope["recipient"]);
    let share = format!(
        "vx-share/{}/{} written",
        recipient.as_str().unwrap(),
        sender.as_str().unwrap()
    );
    assert!(words.contains("rows that it changed:"), "{words}");
    assert!(words.contains(&share), "{words}");
    let context = envelope["payload"]["context"].as_str().unwrap();
    assert!(
        !words.contains(context),
        "contexts are personal data (VX-CTX-13): {words}"
    );
}
