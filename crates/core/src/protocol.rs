//! What a protocol is to the spine, and what a suite of protocols is to a node.
//!
//! A [`Protocol`] is pure: bytes to a message, a message to an authentic one, an input to a verdict. A [`Suite`]
//! is a closed set of protocols with the administration beside them; the gate, recovery and replay know nothing else.

use bytes::Bytes;
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::decision::{Cx, Stop, Verdict};
use crate::json::Value;
use crate::keys::Keyring;
use crate::line::{Damage, DraftEnvelope, Line, ProtocolName, Seq};
use crate::refusal::Refusal;
use crate::rows::{RowKey, Rows, RowsDamaged};
use crate::time::Time;
use crate::timer::TimerName;
use crate::window::WindowName;

/// By which way an envelope came.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Door {
    /// Handed over inside this process.
    InProcess,
    /// An HTTP request.
    Http,
    /// A WebSocket frame; `greeting` for the first share on a connection.
    WebSocket {
        /// Whether it is the first share on the connection.
        greeting: bool,
    },
    /// A broker.
    Nats,
}

/// Who is calling, as far as the transport knows.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Caller {
    /// The principal of a bearer token.
    pub principal: Option<String>,
    /// The addresses that the token may speak as; none when no token is asked for.
    pub speaks_as: Option<Vec<String>>,
}

/// How a message was proven to come from its sender.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Proof {
    /// A signature under this key of the sender; `form` names a form other than the usual one.
    Key {
        /// The key's identifier.
        id: String,
        /// The form of the signed bytes, when it is not the usual one.
        form: Option<&'static str>,
    },
    /// A bearer token of this principal.
    Principal(String),
    /// It never left this process.
    InProcess,
    /// The protocol asks for no proof.
    Unverified,
}

/// A message with the proof of its sender. Rules take nothing else.
#[derive(Clone, Debug)]
pub struct Authentic<M> {
    /// The message.
    pub message: M,
    /// Its proof.
    pub proof: Proof,
    /// By which way it came.
    pub door: Door,
}

/// What becomes of something that was to happen outside.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Failure {
    /// Every attempt to deliver failed.
    Undeliverable,
    /// A behaviour failed.
    BehaviourFailed,
    /// A behaviour took too long.
    BehaviourTimeout,
    /// The node stopped in between.
    Interrupted,
    /// The other side refused the call.
    CallRefused,
}

impl Failure {
    /// Every one of them.
    pub const ALL: [Self; 5] = [
        Self::Undeliverable,
        Self::BehaviourFailed,
        Self::BehaviourTimeout,
        Self::Interrupted,
        Self::CallRefused,
    ];

    /// The word on a line.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Undeliverable => "undeliverable",
            Self::BehaviourFailed => "behaviour_failed",
            Self::BehaviourTimeout => "behaviour_timeout",
            Self::Interrupted => "interrupted",
            Self::CallRefused => "call_refused",
        }
    }
}

/// An input of a protocol's rules.
#[derive(Debug)]
pub enum Input<P: Protocol + ?Sized> {
    /// An envelope from outside.
    Envelope(Authentic<P::Message>),
    /// A signed answer to a call of ours.
    Reply {
        /// The line of the call.
        to: Seq,
        /// The answer.
        message: Authentic<P::Message>,
    },
    /// What a hosted agent sends: the node adds identifiers, time and signature.
    Outgoing {
        /// The agent.
        agent: String,
        /// The line it answers.
        answers: Option<Seq>,
        /// A key that makes a repeat safe.
        idempotency: Option<String>,
        /// What the agent decided.
        content: P::Outgoing,
    },
    /// Something that was to happen outside did not.
    Failed {
        /// The line it is about.
        of: Seq,
        /// The recipient or caller, as the protocol names it.
        about: String,
        /// Why.
        why: Failure,
    },
    /// A timer is due; the rules ask only whether it is still wanted.
    Timer(P::Timer),
    /// Administration that this protocol understands.
    Act(P::Act),
}

/// A protocol: pure functions over values.
pub trait Protocol: Send + Sync + 'static {
    /// Its name in lines and paths.
    const NAME: ProtocolName;
    /// A decoded envelope. Faults that the protocol ranks after later checks ride inside.
    type Message: Send + 'static;
    /// What a hosted agent decides about an envelope it sends.
    type Outgoing: Send + 'static;
    /// Its timers.
    type Timer: Serialize + DeserializeOwned + Send + 'static;
    /// Its own administration.
    type Act: Serialize + DeserializeOwned + Send + 'static;
    /// The rule settings in force, with the rules version.
    type Settings: Serialize + DeserializeOwned + Default + Clone + Send + Sync + 'static;
    /// What the sender is told; each door renders it.
    type Answer: Send + 'static;

    /// Bytes to a message. All syntax is read here.
    fn decode(
        &self,
        raw: Bytes,
        door: Door,
        settings: &Self::Settings,
    ) -> Result<Self::Message, Refusal>;

    /// A message to an authentic one, given a snapshot of the keyring. The expensive step.
    fn authenticate(
        &self,
        message: Self::Message,
        door: Door,
        caller: &Caller,
        keys: &Keyring,
        settings: &Self::Settings,
        received: Time,
    ) -> Result<Authentic<Self::Message>, Refusal>;

    /// Whether an input goes before others.
    fn urgent(&self, input: &Input<Self>) -> bool;

    /// The rows that a decision on this input will surely read.
    fn wants(&self, input: &Input<Self>, wants: &mut Vec<RowKey>);

    /// The rules.
    fn decide(
        &self,
        input: &Input<Self>,
        settings: &Self::Settings,
        cx: &mut Cx<'_>,
    ) -> Result<Verdict<Self::Answer>, Stop>;

    /// A hosted agent's record is about to change from `before` to `after`: lets rules keep rows derived from it.
    fn agent_changed(
        &self,
        agent: &str,
        before: Option<&serde_json::Value>,
        after: Option<&serde_json::Value>,
        cx: &mut Cx<'_>,
    ) -> Result<(), Stop>;

    /// A line back to the input it was, not proven yet.
    fn reread(&self, line: &Line, settings: &Self::Settings) -> Result<Input<Self>, Damage>;

    /// Whether the signature on a recorded line holds under the key that the line names.
    fn check_signature(&self, line: &Line, keys: &Keyring) -> SignatureCheck;

    /// [`Protocol::check_signature`], and the input as [`Protocol::reread`] gives it: for a protocol that reads the
    /// line once for both. None where the input depends on settings that are not given, or is not at hand.
    ///
    /// `envelope` is the tree of the line's envelope when the line was plain text ([`crate::json::read_noting`]), so
    /// that it need not be read again.
    fn check_and_reread(
        &self,
        line: &Line,
        _envelope: Option<&Value<'_>>,
        keys: &Keyring,
        _settings: Option<&Self::Settings>,
    ) -> (SignatureCheck, Option<Input<Self>>) {
        (self.check_signature(line, keys), None)
    }

    /// The signature that a node put into a recorded envelope of a hosted agent: sealing the unsealed envelope
    /// with it gives the recorded bytes again. None when the line carries none.
    fn recorded_signature(&self, line: &Line) -> Option<[u8; 64]>;

    /// Signs an unsealed envelope: gives `sign` the bytes to sign and puts the signature where it belongs.
    fn seal(
        &self,
        unsealed: &Bytes,
        sign: &mut dyn FnMut(&[u8]) -> Option<[u8; 64]>,
    ) -> Option<Bytes>;
}

/// What a check of a recorded line's signature found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SignatureCheck {
    /// It holds.
    Valid,
    /// The line carries none, and needs none.
    NotSigned,
    /// It does not hold, and why.
    Invalid(String),
}

/// A closed set of protocols with the administration: what a node, recovery and replay run.
pub trait Suite: Send + Sync + 'static {
    /// One input of any of them.
    type Input: Send + 'static;
    /// One answer of any of them.
    type Answer: Send + 'static;
    /// The settings of all of them, as the log says.
    type Settings: Clone + Send + Sync + 'static;

    /// The names of all windows the rules use.
    fn windows(&self) -> &'static [WindowName];

    /// The settings in force, from the rows that configuration lines left.
    fn settings(&self, rows: &dyn Rows) -> Result<Self::Settings, RowsDamaged>;

    /// Whether an input goes before others.
    fn urgent(&self, input: &Self::Input) -> bool;

    /// The rows that a decision will surely read.
    fn wants(&self, input: &Self::Input, wants: &mut Vec<RowKey>);

    /// The rules.
    fn decide(
        &self,
        input: &Self::Input,
        settings: &Self::Settings,
        cx: &mut Cx<'_>,
    ) -> Result<Verdict<Self::Answer>, Stop>;

    /// Whether this build has the rules that the first line of a unit was decided under (CH-JRN-7).
    fn has_rules(&self, line: &Line, settings: &Self::Settings) -> bool;

    /// The first line of a unit back to the input it was.
    fn reread(&self, line: &Line, settings: &Self::Settings) -> Result<Self::Input, Damage>;

    /// Whether the signature on a recorded line holds.
    fn check_signature(&self, line: &Line, keys: &Keyring) -> SignatureCheck;

    /// Both in one: see [`Protocol::check_and_reread`].
    fn check_and_reread(
        &self,
        line: &Line,
        _envelope: Option<&Value<'_>>,
        keys: &Keyring,
        _settings: Option<&Self::Settings>,
    ) -> (SignatureCheck, Option<Self::Input>) {
        (self.check_signature(line, keys), None)
    }

    /// The signature that a node put into a recorded envelope: see [`Protocol::recorded_signature`].
    fn recorded_signature(&self, line: &Line) -> Option<[u8; 64]>;

    /// Signs an unsealed envelope of a protocol.
    fn seal(
        &self,
        protocol: ProtocolName,
        unsealed: &Bytes,
        sign: &mut dyn FnMut(&[u8]) -> Option<[u8; 64]>,
    ) -> Option<Bytes>;

    /// A due timer's row as an input.
    fn timer(&self, name: &TimerName, row: &[u8]) -> Result<Self::Input, RowsDamaged>;

    /// A delivery that was given up as an input.
    fn failed(&self, protocol: ProtocolName, of: Seq, about: String, why: Failure) -> Self::Input;
}

impl DraftEnvelope {
    /// The bytes, sealed or not.
    pub fn bytes(&self) -> &Bytes {
        match self {
            Self::Whole(bytes) | Self::Unsealed { bytes, .. } => bytes,
        }
    }
}
