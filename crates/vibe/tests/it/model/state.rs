//! What the model knows: plain records of what the specification's sections 7, 10, 11 and 13 keep.

use std::collections::BTreeMap;

use chancery_core::digest::Sha256Digest;
use serde_json::Value;

/// A refusal, as VC-ERR-1 writes it.
pub type Code = &'static str;

/// An envelope as the model sends it; stamps are seconds after noon.
#[derive(Clone, Debug, PartialEq)]
pub struct Envelope {
    pub id: String,
    pub ts: u64,
    pub from: &'static str,
    pub to: &'static str,
    pub session: String,
    pub reply: Option<String>,
    pub key: Option<String>,
    pub kind: &'static str,
    pub payload: Value,
}

impl Envelope {
    /// A member of the payload that is text.
    pub fn text(&self, name: &str) -> &str {
        self.payload[name].as_str().unwrap_or_default()
    }

    /// Whether it is the same request under another stamp (VC-IDEM-3).
    pub fn same_request(&self, other: &Self) -> bool {
        (self.from, self.to, self.kind) == (other.from, other.to, other.kind)
            && self.session == other.session
            && self.reply == other.reply
            && self.key == other.key
            && self.payload == other.payload
    }

    pub fn is_buyers(&self) -> bool {
        self.from.starts_with("buyer")
    }
}

/// What the model says comes of an envelope.
#[derive(Clone, Debug, PartialEq)]
pub enum Outcome {
    /// On record, with the kinds of what it caused, and why the platform could not go on.
    Accepted {
        emitted: Vec<&'static str>,
        follow_up_error: Option<Code>,
    },
    /// Answered as the accepted envelope of this number was.
    Replayed(usize),
    /// Refused.
    Refused(Code),
}

/// How far a session has come (VC-SM-1).
pub const PHASES: [&str; 10] = [
    "browsing",
    "mandated",
    "negotiating",
    "agreed",
    "certified",
    "approved",
    "authorized",
    "settled",
    "fulfilled",
    "closed",
];

/// The place of a phase in its order.
pub fn phase(name: &str) -> usize {
    PHASES.iter().position(|known| *known == name).unwrap()
}

#[derive(Clone, Debug)]
pub struct Session {
    pub kind: &'static str,
    pub phase: usize,
    pub clock: u64,
    pub consumer: Option<String>,
    pub mandate: Option<String>,
    pub private: Vec<u64>,
    pub offers: Vec<String>,
    pub certs: Vec<String>,
    pub orders: Vec<String>,
}

impl Session {
    pub fn reach(&mut self, name: &str) {
        self.phase = self.phase.max(phase(name));
    }
}

#[derive(Clone, Debug)]
pub struct Mandate {
    pub consumed: bool,
    pub payload: Value,
    pub expiry: u64,
    pub cart: bool,
}

#[derive(Clone, Debug)]
pub struct Goal {
    pub floor: u64,
    pub claims: Vec<String>,
    pub rounds: u64,
    pub refundable: bool,
    pub until: Option<u64>,
}

#[derive(Clone, Debug)]
pub struct Offer {
    pub session: String,
    pub merchant: String,
    pub sku: String,
    pub qty: u64,
    pub price: u64,
    pub eta: u64,
    pub total: u64,
    pub claims: Vec<String>,
    pub expires: u64,
    pub by_buyer: bool,
    pub state: &'static str,
    pub round: u64,
    pub thread: String,
    /// `none`, `requested`, `passed` or `failed`.
    pub verification: &'static str,
    pub cert: Option<String>,
    /// The envelope that carries it.
    pub carrier: String,
}

#[derive(Clone, Debug)]
pub struct Auth {
    pub id: String,
    pub account: String,
    pub until: u64,
    pub state: &'static str,
}

#[derive(Clone, Debug)]
pub struct Cert {
    pub session: String,
    pub mandate: String,
    pub offer: String,
    pub expires: u64,
    pub state: &'static str,
    pub auth: Option<Auth>,
}

#[derive(Clone, Debug)]
pub struct Order {
    pub session: String,
    pub consumer: String,
    pub row: Value,
    pub dispute: Option<String>,
}

impl Order {
    pub fn state(&self) -> &str {
        self.row["state"].as_str().unwrap()
    }

    pub fn number(&self, name: &str) -> u64 {
        self.row[name].as_u64().unwrap()
    }

    pub fn text(&self, name: &str) -> String {
        self.row[name].as_str().unwrap().to_owned()
    }

    pub fn is_final(&self) -> bool {
        matches!(self.state(), "refunded" | "partially_refunded")
    }

    pub fn left(&self) -> u64 {
        self.number("total") - self.number("refunded_total")
    }

    pub fn item(&self) -> (String, String) {
        (self.text("merchant_id"), self.text("sku_id"))
    }
}

#[derive(Clone, Debug)]
pub struct Return {
    pub order: String,
    pub session: String,
    pub state: &'static str,
    pub amount: u64,
    pub restock: bool,
}

#[derive(Clone, Debug)]
pub struct Dispute {
    pub session: String,
    pub merchant: String,
    pub order: String,
    pub unanswered: Vec<String>,
    pub row: Value,
}

/// What is known of an envelope on record.
#[derive(Clone, Debug)]
pub struct Known {
    pub session: String,
    pub kind: &'static str,
    pub to: &'static str,
    pub thread: Option<String>,
    pub offer: Option<String>,
    pub asks: bool,
}

/// A key that is bound (VC-IDEM-1).
#[derive(Clone, Debug)]
pub struct Bound {
    pub envelope: Envelope,
    pub at: u64,
    pub number: usize,
}

/// Accounts, stocks, scores and the policy.
#[derive(Clone, Debug, Default)]
pub struct World {
    /// Owner, currency, balance.
    pub ledger: BTreeMap<String, (String, String, i64)>,
    /// On hand, reserved.
    pub stock: BTreeMap<(String, String), (u64, u64)>,
    pub reputation: BTreeMap<String, i64>,
    /// Attributes, whether refundable.
    pub catalog: BTreeMap<(String, String), (Vec<String>, bool)>,
    pub rulings: BTreeMap<String, Value>,
    pub policy: Policy,
}

/// What the seed's policy says of times and scores (VC-WLD-1).
#[derive(Clone, Debug, Default)]
pub struct Policy {
    pub cert_ttl_s: u64,
    pub auth_ttl_s: u64,
    pub min_reputation: i64,
}

/// The account of a merchant.
pub fn account_of(merchant: &str) -> String {
    ["a_", merchant].concat()
}

/// The whole model, and what it said last.
#[derive(Clone)]
pub struct Model {
    pub auto: bool,
    pub now: u64,
    pub made: u64,
    pub accepted: usize,
    pub world: World,
    pub sessions: BTreeMap<String, Session>,
    pub mandates: BTreeMap<String, Mandate>,
    pub goals: BTreeMap<(String, String), Goal>,
    pub offers: BTreeMap<String, Offer>,
    pub certs: BTreeMap<String, Cert>,
    /// By account: authorization, amount, end.
    pub holds: BTreeMap<String, Vec<(String, u64, u64)>>,
    pub orders: BTreeMap<String, Order>,
    pub transactions: BTreeMap<String, String>,
    pub returns: BTreeMap<String, Return>,
    pub disputes: BTreeMap<String, Dispute>,
    pub known: BTreeMap<String, Known>,
    pub keys: BTreeMap<(&'static str, String), Bound>,
    pub last: Option<(Envelope, Outcome)>,
}

impl std::fmt::Debug for Model {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Model {{ auto: {} }}", self.auto)
    }
}

/// An identifier that the runtime makes (VC-CAN-7).
pub fn object(kind: &str, cause: &str) -> String {
    let prefix = match kind {
        "order" => "ord",
        "return" => "ret",
        "dispute" => "dsp",
        "ruling" => "rul",
        other => other,
    };
    let digest = Sha256Digest::of(format!("{kind}:{cause}").as_bytes()).hex();
    format!("{prefix}_{}", &digest.as_str()[..16])
}

/// The identifier of what an envelope causes (VC-CAN-6).
pub fn child(parent: &str, index: usize) -> String {
    let digest = Sha256Digest::of(format!("{parent}:{index}").as_bytes());
    let mut bytes = [0_u8; 16];
    bytes.copy_from_slice(&digest.0[..16]);
    bytes[6] = bytes[6] & 0x0f | 0x40;
    bytes[8] = bytes[8] & 0x3f | 0x80;
    let hex: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
    [
        &hex[..8],
        &hex[8..12],
        &hex[12..16],
        &hex[16..20],
        &hex[20..],
    ]
    .join("-")
}
