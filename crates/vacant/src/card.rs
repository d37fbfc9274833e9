//! The capability card: what a vacant says it can do and where it is called, under its own signature (section 12).

use chancery_core::canonical::{Dialect, to_bytes};
use chancery_core::digest::{Blake2b256, hex};
use chancery_core::json::{Number, Object, Place, Value};
use chancery_core::keys::ed25519::SigningKey;

use crate::error::ProtocolError;
use crate::id::VacantId;
use crate::wire::read_json;

/// The oldest card version that is read (VA-CARD-6).
pub const MIN_SUPPORTED_HALO_VERSION: u64 = 1;
/// The newest card version that is read (VA-CARD-6).
pub const MAX_SUPPORTED_HALO_VERSION: u64 = 1;
/// Largest card in bytes.
pub const MAX_CARD_BYTES: usize = 262_144;
/// Stands between the signed fields, which carry no lengths.
const SEPARATOR: u8 = 0x1f;

/// What a vacant runs on.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SubstrateSpec {
    /// The substrates it may run on, none of them blank.
    pub allowed_substrates: Vec<String>,
    /// Whatever else it says about them, numbers exact.
    pub policy: Object<'static>,
}

/// A card (VA-CARD-1).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CapabilityCard {
    /// Whose card it is.
    pub vacant_id: VacantId,
    /// What the vacant can do, in words.
    pub capability_text: String,
    /// What it runs on.
    pub substrate_spec: SubstrateSpec,
    /// The version of this form, from 1.
    pub halo_version: u64,
    /// Where it is called: the full address that calls are posted to.
    pub endpoint: Option<String>,
    /// Empty until signed; as received otherwise.
    pub signature: Vec<u8>,
}

impl SubstrateSpec {
    fn to_value(&self) -> Value<'_> {
        let substrates = self.allowed_substrates.iter();
        let substrates: Vec<Value<'_>> = substrates.map(|name| name.as_str().into()).collect();
        Object::with_capacity(2)
            .with("allowed_substrates", substrates)
            .with("policy", self.policy.clone())
            .into()
    }

    /// The canonical bytes; the order of the list counts (VA-CARD-2).
    #[must_use]
    pub fn canonical(&self) -> Vec<u8> {
        to_bytes(&self.to_value(), Dialect::Python)
    }
}

impl CapabilityCard {
    /// A card that is not signed yet, in the version of this build.
    pub fn new(
        vacant_id: VacantId,
        capability_text: impl Into<String>,
        endpoint: Option<String>,
    ) -> Self {
        Self {
            vacant_id,
            capability_text: capability_text.into(),
            substrate_spec: SubstrateSpec::default(),
            halo_version: MAX_SUPPORTED_HALO_VERSION,
            endpoint,
            signature: Vec::new(),
        }
    }

    /// The signed bytes: five fields joined by one byte each. No endpoint and an empty one sign alike (VA-CARD-2).
    #[must_use]
    pub fn signing_payload(&self) -> Vec<u8> {
        let endpoint = self.endpoint.as_deref().unwrap_or_default();
        let fields: [&[u8]; 5] = [
            self.vacant_id.as_bytes(),
            self.capability_text.as_bytes(),
            &self.substrate_spec.canonical(),
            &self.halo_version.to_be_bytes(),
            endpoint.as_bytes(),
        ];
        fields.join(&SEPARATOR)
    }

    /// The same card with a signature.
    #[must_use]
    pub fn signed(mut self, key: &SigningKey) -> Self {
        self.signature = key.sign(&self.signing_payload()).to_vec();
        self
    }

    /// Whether it is signed by the vacant it speaks for (VA-CARD-3).
    #[must_use]
    pub fn verify(&self) -> bool {
        !self.signature.is_empty()
            && self
                .vacant_id
                .verifies(&self.signing_payload(), &self.signature)
    }

    /// BLAKE2b-256 of the signed bytes (VA-CARD-3).
    #[must_use]
    pub fn hash(&self) -> Blake2b256 {
        Blake2b256::of(&self.signing_payload())
    }

    /// The endpoint, if there is one to call.
    #[must_use]
    pub fn callable_endpoint(&self) -> Option<&str> {
        self.endpoint.as_deref().filter(|url| !url.is_empty())
    }

    /// Whether it may be published: signed, and no field holds the byte that stands between them (VA-CARD-9).
    pub fn check_publishable(&self) -> Result<(), ProtocolError> {
        let separated = |text: &str| text.as_bytes().contains(&SEPARATOR);
        if separated(&self.capability_text) || self.endpoint.as_deref().is_some_and(separated) {
            return Err(ProtocolError::format(
                "U+001F stands between the signed fields of a card and cannot be in one",
            ));
        }
        if !self.verify() {
            return Err(ProtocolError::EnvelopeSignature("the card does not verify"));
        }
        Ok(())
    }

    /// `serialize`: canonical JSON (VA-CARD-4).
    #[must_use]
    pub fn serialize(&self) -> Vec<u8> {
        let endpoint: Value<'_> = match &self.endpoint {
            Some(endpoint) => endpoint.as_str().into(),
            None => Value::Null,
        };
        let card = Object::with_capacity(6)
            .with("capability_text", self.capability_text.as_str())
            .with("endpoint", endpoint)
            .with("halo_version", self.halo_version)
            .with("signature", hex::encode(&self.signature))
            .with("substrate_spec", self.substrate_spec.to_value())
            .with("vacant_id", self.vacant_id.hex());
        to_bytes(&card.into(), Dialect::Python)
    }

    /// `deserialize`: object, version gate, shape, in that order. The signature is not verified (VA-CARD-5).
    pub fn deserialize(blob: &[u8]) -> Result<Self, ProtocolError> {
        let value = read_json(blob, MAX_CARD_BYTES).map_err(|error| match error {
            ProtocolError::TooLarge => ProtocolError::format("the card is too large"),
            other => other,
        })?;
        let card = value
            .as_object()
            .ok_or_else(|| ProtocolError::format("the card is no object"))?;
        let halo_version = read_halo_version(card.get("halo_version"))?;
        let root = Place::ROOT;
        let vacant_id = VacantId::from_hex(required(card, "vacant_id")?)
            .map_err(|_| wrong(&root.child("vacant_id"), "it is not 64 hex"))?;
        let signature = match card.get("signature") {
            None => Vec::new(),
            Some(text) => text
                .as_str()
                .and_then(|text| hex::decode(text).ok())
                .ok_or_else(|| wrong(&root.child("signature"), "it is not hex"))?,
        };
        let endpoint = match card.get("endpoint") {
            None | Some(Value::Null) => None,
            Some(text) => Some(string(text, &root.child("endpoint"))?.to_owned()),
        };
        Ok(Self {
            vacant_id,
            capability_text: required(card, "capability_text")?.to_owned(),
            substrate_spec: read_spec(card.get("substrate_spec"))?,
            halo_version,
            endpoint,
            signature,
        })
    }
}

/// The version gate comes before every other field (VA-CARD-6); only an integer passes to it (VA-CARD-7).
fn read_halo_version(value: Option<&Value<'_>>) -> Result<u64, ProtocolError> {
    let Some(value) = value else {
        return Ok(1);
    };
    let number = value
        .as_number()
        .filter(|number| number.is_integer_token())
        .ok_or_else(|| wrong(&Place::ROOT.child("halo_version"), "it is no integer"))?;
    let known = MIN_SUPPORTED_HALO_VERSION..=MAX_SUPPORTED_HALO_VERSION;
    match number.as_u64() {
        Some(version) if known.contains(&version) => Ok(version),
        _ => Err(ProtocolError::UnsupportedHaloVersion(shortened(number))),
    }
}

/// A number of any size comes from outside; an error repeats at most a few of its digits.
fn shortened(number: &Number<'_>) -> String {
    const DIGITS: usize = 20;
    let token = number.token();
    match token.get(..DIGITS) {
        Some(head) if token.len() > DIGITS => format!("{head}…"),
        _ => token.to_owned(),
    }
}

/// Missing or null is the empty spec (VA-CARD-8).
fn read_spec(value: Option<&Value<'_>>) -> Result<SubstrateSpec, ProtocolError> {
    let place = Place::ROOT.child("substrate_spec");
    let spec = match value {
        None | Some(Value::Null) => return Ok(SubstrateSpec::default()),
        Some(spec) => spec.as_object(),
    };
    let spec = spec.ok_or_else(|| wrong(&place, "it is no object"))?;
    let policy = match spec.get("policy") {
        None => Object::new(),
        Some(policy) => policy
            .as_object()
            .ok_or_else(|| wrong(&place.child("policy"), "it is no object"))?
            .clone()
            .into_owned(),
    };
    let place = place.child("allowed_substrates");
    let allowed_substrates = match spec.get("allowed_substrates") {
        None => Vec::new(),
        Some(names) => names
            .as_array()
            .ok_or_else(|| wrong(&place, "it is no array"))?
            .iter()
            .enumerate()
            .map(|(index, name)| substrate(name, &place.item(index)))
            .collect::<Result<_, _>>()?,
    };
    Ok(SubstrateSpec {
        allowed_substrates,
        policy,
    })
}

fn substrate(name: &Value<'_>, place: &Place<'_>) -> Result<String, ProtocolError> {
    let name = string(name, place)?;
    if name.trim().is_empty() {
        return Err(wrong(place, "it is blank"));
    }
    Ok(name.to_owned())
}

fn required<'v>(card: &'v Object<'_>, name: &str) -> Result<&'v str, ProtocolError> {
    let place = Place::ROOT;
    let value = card
        .get(name)
        .ok_or_else(|| wrong(&place.child(name), "it is missing"))?;
    string(value, &place.child(name))
}

fn string<'v>(value: &'v Value<'_>, place: &Place<'_>) -> Result<&'v str, ProtocolError> {
    value
        .as_str()
        .ok_or_else(|| wrong(place, "it is no string"))
}

fn wrong(place: &Place<'_>, reason: &'static str) -> ProtocolError {
    ProtocolError::format_at(place.to_path().to_pointer(), reason)
}
