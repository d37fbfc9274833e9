//! The envelopes that benchmarks run on: value-context shares of about 620 bytes, many senders, no identifier twice.

use anyhow::{Context, Result};
use bytes::Bytes;
use chancery_core::admin::Act;
use chancery_core::canonical::{Dialect, to_bytes};
use chancery_core::digest::Sha256Digest;
use chancery_core::ids::v7;
use chancery_core::json::{Object, Value};
use chancery_core::keys::ed25519::SigningKey;
use chancery_core::keys::{Algorithm, KeyRecord, KeyState};
use chancery_core::line::ProtocolName;
use chancery_core::time::Time;
use chancery_value_context::agent::AgentRecord;
use chancery_value_context::agent_id::AgentId;
use chancery_value_context::message::{Kind, Recipient};
use chancery_value_context::message_id::MessageId;
use chancery_value_context::sign::{envelope, seal};

/// The key that every sender signs with.
pub(crate) const KEY_ID: &str = "key-1";

const CONTEXT: &str = "⏰🌅|📍🏡|👥👶👨‍👩‍👧|🎭➖|🧠😊";
const CREED: &str = "creed://creed.space/family.safe.guide@1.2.0";

/// Who sends to whom.
pub(crate) struct World {
    senders: Vec<Sender>,
    agents: Vec<AgentId>,
    /// To how many agents a sender writes, in turn.
    agents_each: u64,
}

/// A sender keeps to a few agents, so that what the rules know of both is in memory after the first messages.
pub(crate) const FEW_AGENTS_EACH: usize = 4;

struct Sender {
    id: AgentId,
    key: SigningKey,
    /// A signature of its own that fits no message here: what is not verified need not be signed anew.
    stale_signature: String,
}

/// One envelope on its way.
#[derive(Clone, Debug)]
pub(crate) struct Envelope {
    pub(crate) bytes: Bytes,
    pub(crate) sender: usize,
    pub(crate) message_id: MessageId,
}

impl World {
    /// So many senders elsewhere and agents here; each sender writes to `agents_each` of them in turn.
    pub(crate) fn new(senders: usize, agents: usize, agents_each: usize) -> Result<Self> {
        let name = |kind: &str, n: usize| {
            AgentId::parse(&format!("agent://cluster-7.example.net/{kind}-{n:05}"))
                .with_context(|| format!("{kind} {n} cannot be named"))
        };
        let agents_here = agents.max(1);
        let senders = (0..senders).map(|n| Ok(Sender::new(name("living-room-agent", n)?, n)));
        let agents = (0..agents).map(|n| name("kitchen-agent", n));
        Ok(Self {
            senders: senders.collect::<Result<_>>()?,
            agents: agents.collect::<Result<_>>()?,
            agents_each: agents_each.clamp(1, agents_here) as u64,
        })
    }

    /// The keys and agents as acts of administration.
    pub(crate) fn acts(&self) -> Result<Vec<Act>> {
        let record = serde_json::to_value(AgentRecord::default())?;
        let keys = self.senders.iter().map(|sender| Act::Key(sender.record()));
        let agents = self.agents.iter().map(|id| Act::Agent {
            protocol: ProtocolName::ValueContext,
            id: id.as_str().to_owned(),
            record: Some(record.clone()),
            run_state: None,
        });
        Ok(keys.chain(agents).collect())
    }

    /// The sender's key, decoded by the signature library alone.
    pub(crate) fn bare_key(&self, sender: usize) -> Result<ed25519_dalek::VerifyingKey> {
        let bytes = *self.senders[sender].key.verifying_key().as_bytes();
        Ok(ed25519_dalek::VerifyingKey::from_bytes(&bytes)?)
    }

    /// Envelope number `n`, signed.
    pub(crate) fn signed(&self, n: u64, at: Time) -> Envelope {
        let (sender, message_id, members) = self.members(n, at);
        let bytes = seal(members, &self.senders[sender].key).bytes;
        Envelope {
            bytes,
            sender,
            message_id,
        }
    }

    /// Envelope number `n` with a signature that has the right form and fits nothing.
    pub(crate) fn shaped(&self, n: u64, at: Time) -> Envelope {
        let (sender, message_id, members) = self.members(n, at);
        let signature = self.senders[sender].stale_signature.as_str();
        let members = members.with("signature", signature.to_owned());
        let bytes = to_bytes(&Value::Object(members), Dialect::Python).into();
        Envelope {
            bytes,
            sender,
            message_id,
        }
    }

    fn members(&self, n: u64, at: Time) -> (usize, MessageId, Object<'static>) {
        let n_senders = self.senders.len() as u64;
        let sender = (n % n_senders) as usize;
        let turn = n / n_senders % self.agents_each;
        let agent = ((sender as u64 + turn) % self.agents.len() as u64) as usize;
        let unix_ms = u64::try_from(at.unix_millis()).unwrap_or_default();
        // Consecutive numbers must not make consecutive identifiers: multiplied by an odd number they stay distinct.
        let spread = n.wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let message_id = MessageId::made(v7(unix_ms, (n & 0xfff) as u16, spread));
        let members = envelope(
            Kind::ContextShare,
            message_id,
            &self.senders[sender].id,
            &Recipient::Directed(self.agents[agent].clone()),
            at,
            payload(n),
        );
        (sender, message_id, members)
    }

    /// Envelopes from number `first` on, signed on two threads.
    pub(crate) fn signed_many(&self, first: u64, count: usize, at: Time) -> Vec<Envelope> {
        let half = count / 2;
        let part = |from: usize, to: usize| -> Vec<Envelope> {
            (from..to)
                .map(|n| self.signed(first + n as u64, at))
                .collect()
        };
        std::thread::scope(|scope| {
            let second = scope.spawn(|| part(half, count));
            let mut all = part(0, half);
            all.extend(second.join().expect("signing does not panic"));
            all
        })
    }
}

impl Sender {
    fn new(id: AgentId, n: usize) -> Self {
        let seed = Sha256Digest::of(format!("benchmark sender {n}").as_bytes()).0;
        let key = SigningKey::from_seed(&seed);
        let signature = key.sign(b"no message of this run");
        let stale_signature = chancery_core::keys::ed25519::encode_signature(&signature);
        Self {
            id,
            key,
            stale_signature,
        }
    }

    fn record(&self) -> KeyRecord {
        KeyRecord {
            id: KEY_ID.to_owned(),
            owner: self.id.as_str().to_owned(),
            algorithm: Algorithm::Ed25519,
            public: self.key.verifying_key().as_bytes().to_vec(),
            state: KeyState::Active,
            valid_from: None,
            valid_until: None,
            source: chancery_core::keys::KeySource::Operator,
            removed: false,
        }
    }
}

fn payload(n: u64) -> Object<'static> {
    let scale = |shift: u32| (n >> shift) % 9 + 1;
    let emotional = Object::with_capacity(2)
        .with("valence", scale(0))
        .with("arousal", scale(3));
    let state = Object::with_capacity(4)
        .with("cognitive", scale(6))
        .with("emotional", emotional)
        .with("energy", scale(9))
        .with("urgency", scale(12));
    Object::with_capacity(3)
        .with("context", CONTEXT)
        .with("constitution_ref", CREED)
        .with("personal_state", state)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn envelopes_have_the_size_of_real_ones_and_no_identifier_twice() {
        let world = World::new(7, 3, 2).unwrap();
        let made: Vec<_> = (0..500)
            .map(|n| world.signed(n, Time::UNIX_EPOCH))
            .collect();
        let ids: HashSet<_> = made.iter().map(|envelope| envelope.message_id).collect();
        assert_eq!(ids.len(), made.len());
        let sizes: Vec<_> = made.iter().map(|envelope| envelope.bytes.len()).collect();
        assert!(
            sizes.iter().all(|size| (600..660).contains(size)),
            "{sizes:?}"
        );
        let shaped = world.shaped(1, Time::UNIX_EPOCH);
        assert_eq!(shaped.bytes.len(), made[1].bytes.len());
        assert_ne!(shaped.bytes, made[1].bytes);
    }
}
