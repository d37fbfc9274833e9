//! The trust profile `agh-network.trust.ed25519-jcs/v1` (chapter 15): what a proof proves, and how one is made.

use chancery_core::canonical::{Dialect, to_bytes};
use chancery_core::digest::Sha256Digest;
use chancery_core::fault;
use chancery_core::json::{Object, Value};
use chancery_core::keys::base64;
use chancery_core::keys::ed25519::{SigningKey, VerifyingKey};

use crate::envelope::Envelope;
use crate::fault::{ErrorName, Fault, Stage};
use crate::grammar::split_handle;
use crate::settings::{Settings, Trust};

/// The profile's name (AG-TRU-2).
pub const PROFILE: &str = "agh-network.trust.ed25519-jcs/v1";
const ALGORITHM: &str = "Ed25519";

/// What is known about who sent an envelope (AG-CON-2).
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TrustState {
    /// `from` is a claim.
    Unverified,
    /// The sender holds the key behind its handle, and nothing more is said.
    Verified {
        /// The key's identifier, `sha256:` and hex.
        key_id: String,
    },
    /// The proof does not hold, or local policy does not want the sender.
    Rejected(Fault),
}

impl TrustState {
    /// The word in answers.
    pub const fn as_str(&self) -> &'static str {
        match self {
            Self::Unverified => "unverified",
            Self::Verified { .. } => "verified",
            Self::Rejected(_) => "rejected",
        }
    }
}

/// The trust state of an envelope: its proof, then local policy. `whole` is the envelope as it was read.
pub fn evaluate(whole: &Value<'_>, envelope: &Envelope<'_>, settings: &Settings) -> TrustState {
    if !settings.trust.enabled {
        return TrustState::Unverified;
    }
    let state = match prove(whole, envelope, &settings.trust) {
        Ok(None) => TrustState::Unverified,
        Ok(Some(key_id)) => TrustState::Verified { key_id },
        Err(fault) => return TrustState::Rejected(fault),
    };
    match check_policy(&state, envelope, &settings.trust) {
        Ok(()) => state,
        Err(fault) => TrustState::Rejected(fault),
    }
}

/// The key that a proof proves; none when there is no proof of this profile (AG-TRU-6, AG-TRU-7).
fn prove(
    whole: &Value<'_>,
    envelope: &Envelope<'_>,
    trust: &Trust,
) -> Result<Option<String>, Fault> {
    let Some(proof) = envelope.proof else {
        return match split_handle(envelope.from) {
            Some(_) => Err(Fault::new(ErrorName::ProofStripped, Stage::Trust).at("proof")),
            None => Ok(None),
        };
    };
    if text(proof, "profile") != Some(PROFILE) {
        if trust.reject_unknown_profiles {
            return Err(
                Fault::new(ErrorName::UnsupportedProtocol, Stage::Trust).at("proof.profile")
            );
        }
        return Ok(None);
    }
    if text(proof, "alg") != Some(ALGORITHM) {
        return Err(invalid("proof.alg"));
    }
    let public: [u8; 32] = text(proof, "pubkey")
        .and_then(|pubkey| base64::decode_url_array(pubkey).ok())
        .ok_or_else(|| invalid("proof.pubkey"))?;
    let key_id = key_id(&public);
    if text(proof, "key_id") != Some(key_id.as_str()) {
        return Err(invalid("proof.key_id"));
    }
    let (_, fingerprint) = split_handle(envelope.from).ok_or_else(|| invalid("from"))?;
    if key_id.strip_prefix("sha256:").and_then(|hex| hex.get(..32)) != Some(fingerprint) {
        return Err(invalid("from"));
    }
    let signature: [u8; 64] = text(proof, "sig")
        .and_then(|sig| base64::decode_url_array(sig).ok())
        .ok_or_else(|| invalid("proof.sig"))?;
    let signed = signed_bytes(whole).ok_or_else(|| invalid("proof.sig"))?;
    let key = VerifyingKey::from_bytes(&public).map_err(|_| invalid("proof.pubkey"))?;
    if !key.verify(&signed, &signature) && !fault::on("ag-signature-unchecked") {
        return Err(invalid("proof.sig"));
    }
    Ok(Some(key_id))
}

/// Local policy, after verification (AG-TRU-9).
fn check_policy(state: &TrustState, envelope: &Envelope<'_>, trust: &Trust) -> Result<(), Fault> {
    let named = |list: &[String], name: &str| list.iter().any(|entry| entry == name);
    let verified = match state {
        TrustState::Verified { key_id } => Some(key_id.as_str()),
        _ => None,
    };
    let pinned_elsewhere = trust
        .pins
        .iter()
        .filter_map(|pin| pin.split_once('='))
        .any(|(peer, key)| peer == envelope.from && Some(key) != verified);
    let must_be_verified = named(&trust.verified_channels, envelope.channel)
        || envelope
            .kind
            .is_some_and(|kind| named(&trust.verified_kinds, kind.as_str()));
    let refused = named(&trust.deny, envelope.from)
        || (!trust.allow.is_empty() && !named(&trust.allow, envelope.from))
        || pinned_elsewhere
        || (must_be_verified && verified.is_none());
    if refused {
        return Err(invalid("from"));
    }
    Ok(())
}

fn invalid(path: &'static str) -> Fault {
    Fault::new(ErrorName::ProofInvalid, Stage::Trust).at(path)
}

fn text<'v>(object: &'v Object<'_>, name: &str) -> Option<&'v str> {
    object.get(name)?.as_str()
}

/// `sha256:` and the hex of the SHA-256 of a public key (AG-TRU-4).
pub fn key_id(public: &[u8; 32]) -> String {
    format!("sha256:{}", Sha256Digest::of(public))
}

/// The verified handle of a nickname and a key (AG-TRU-3).
pub fn handle(nickname: &str, public: &[u8; 32]) -> Option<String> {
    let digest = Sha256Digest::of(public).hex();
    let handle = format!("{nickname}@{}", &digest[..32]);
    split_handle(&handle).is_some().then_some(handle)
}

/// The bytes that a proof signs: the whole envelope without `proof.sig`, by RFC 8785 (AG-TRU-5). None when a
/// number has no form there.
pub fn signed_bytes(whole: &Value<'_>) -> Option<Vec<u8>> {
    let Value::Object(members) = whole else {
        return None;
    };
    if !numbers_are_finite(whole) {
        return None;
    }
    let mut unsigned = members.clone();
    let mut proof = members.get("proof")?.as_object()?.clone();
    proof.remove("sig");
    unsigned.insert("proof", Value::Object(proof));
    Some(to_bytes(&Value::Object(unsigned), Dialect::Rfc8785))
}

fn numbers_are_finite(value: &Value<'_>) -> bool {
    match value {
        Value::Number(number) => number.is_safe_integer() || number.as_f64().is_finite(),
        Value::Array(items) => items.iter().all(numbers_are_finite),
        Value::Object(object) => object.iter().all(|(_, value)| numbers_are_finite(value)),
        _ => true,
    }
}

/// The proof of an envelope before it is signed.
pub fn unsigned_proof(public: &[u8; 32]) -> Object<'static> {
    Object::new()
        .with("profile", PROFILE)
        .with("alg", ALGORITHM)
        .with("key_id", key_id(public))
        .with("pubkey", base64::encode_url(public))
}

/// Puts a signature into an envelope whose proof waits for one.
pub fn put_signature(envelope: &mut Value<'_>, signature: &[u8; 64]) -> Option<()> {
    let Value::Object(members) = envelope else {
        return None;
    };
    let mut proof = members.get("proof")?.as_object()?.clone().into_owned();
    proof.insert("sig", base64::encode_url(signature));
    members.insert("proof", Value::Object(proof));
    Some(())
}

/// Signs an envelope under the handle in its `from` (AG-TRU-10). Extension keys must carry a prefix then.
pub fn sign(mut envelope: Object<'static>, key: &SigningKey) -> Option<Object<'static>> {
    let namespaced = envelope
        .get("ext")
        .and_then(Value::as_object)
        .is_none_or(|ext| ext.iter().all(|(name, _)| name.contains('.')));
    if !namespaced {
        return None;
    }
    let public = *key.verifying_key().as_bytes();
    envelope.insert("proof", Value::Object(unsigned_proof(&public)));
    let mut envelope = Value::Object(envelope);
    let signature = key.sign(&signed_bytes(&envelope)?);
    put_signature(&mut envelope, &signature)?;
    match envelope {
        Value::Object(members) => Some(members),
        _ => None,
    }
}
