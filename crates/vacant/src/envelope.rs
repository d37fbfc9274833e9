//! The envelope: its fields, the bytes it is signed and hashed over, and whether a signature holds (section 5).

use chancery_core::canonical::write_string;
use chancery_core::digest::{Blake2b256, hex};
use chancery_core::fault;
use chancery_core::keys::ed25519::SigningKey;
use chancery_core::time::{Time, format_vacant};

use crate::error::ProtocolError;
use crate::id::VacantId;
use crate::payload::{Payload, Profile};

/// The hash of an envelope: what the next one of its pair names.
pub type EnvelopeHash = Blake2b256;

/// What the first envelope of a pair names (VA-ID-7).
pub const EMPTY_PREV_HASH: EnvelopeHash = Blake2b256::ZERO;

/// The largest number of an envelope (VA-ENV-4).
pub const MAX_SEQUENCE_NO: u64 = i64::MAX as u64;

/// Room for the signed bytes of most envelopes.
const SIGNED_BYTES: usize = 640;

/// A call or an answer from one vacant to another (VA-ENV-1).
#[derive(Clone, Debug, PartialEq)]
pub struct Envelope {
    /// Who sends it.
    pub from: VacantId,
    /// Whom it is for.
    pub to: VacantId,
    /// Its number in the chain of this ordered pair (VA-ENV-2).
    pub sequence_no: u64,
    /// When it was made, to the microsecond.
    pub timestamp: Time,
    /// The hash of the envelope before.
    pub prev: EnvelopeHash,
    /// What it says.
    pub payload: Payload,
    /// Tells repeats; may be empty.
    pub idempotency_key: String,
    /// Empty until signed; as received otherwise, whatever its length.
    pub signature: Vec<u8>,
}

/// Under what an envelope verified.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Verified {
    /// The profile that its signature is made in.
    pub profile: Profile,
    /// Its hash in that profile: the next link of the chain (VA-MSG-9).
    pub hash: EnvelopeHash,
}

/// The bytes of an envelope in one profile, from which signature and hash follow (VA-ENV-11).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SigningPayload(Vec<u8>);

impl SigningPayload {
    /// The canonical bytes.
    #[must_use]
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }

    /// BLAKE2b-256 of them (VA-ENV-7).
    #[must_use]
    pub fn hash(&self) -> EnvelopeHash {
        Blake2b256::of(&self.0)
    }
}

impl Envelope {
    /// The bytes that are signed and hashed: seven members, none of them the signature (VA-ENV-5, VA-ENV-6).
    #[must_use]
    pub fn signing_payload(&self, profile: Profile) -> SigningPayload {
        let mut out = Vec::with_capacity(SIGNED_BYTES);
        out.extend_from_slice(b"{\"from\":\"");
        out.extend_from_slice(self.from.hex().as_bytes());
        out.extend_from_slice(b"\",\"idem\":");
        write_string(&self.idempotency_key, &mut out);
        out.extend_from_slice(b",\"payload\":");
        self.payload.write_canonical(profile, &mut out);
        out.extend_from_slice(b",\"prev\":\"");
        out.extend_from_slice(hex::encode(&self.prev.0).as_bytes());
        out.extend_from_slice(b"\",\"seq\":");
        out.extend_from_slice(self.sequence_no.to_string().as_bytes());
        out.extend_from_slice(b",\"to\":\"");
        out.extend_from_slice(self.to.hex().as_bytes());
        out.extend_from_slice(b"\",\"ts\":\"");
        out.extend_from_slice(format_vacant(self.timestamp).as_str().as_bytes());
        out.extend_from_slice(b"\"}");
        SigningPayload(out)
    }

    /// The hash in a profile (VA-ENV-7).
    #[must_use]
    pub fn hash(&self, profile: Profile) -> EnvelopeHash {
        self.signing_payload(profile).hash()
    }

    /// A copy with a signature. Whether the key belongs to the sender is not asked (VA-ENV-8).
    #[must_use]
    pub fn signed(mut self, key: &SigningKey, profile: Profile) -> Self {
        self.signature = key.sign(self.signing_payload(profile).as_bytes()).to_vec();
        self
    }

    /// Verifies under the sender's own id (VA-SRV-7), in whichever profile holds.
    pub fn verify(&self) -> Result<Verified, ProtocolError> {
        self.verify_under(&self.from)
    }

    /// Verifies under an id. A self-evaluation that is there leaves one profile; otherwise base is tried first
    /// (VA-MSG-7).
    pub fn verify_under(&self, id: &VacantId) -> Result<Verified, ProtocolError> {
        let tried: &[Profile] = if self.payload.self_eval.is_some() {
            &[Profile::SelfEval]
        } else if fault::on("va-one-profile") {
            &[Profile::Base]
        } else {
            &[Profile::Base, Profile::SelfEval]
        };
        let found = tried
            .iter()
            .find_map(|profile| self.verified_in(id, *profile))
            .or_else(|| fault::on("va-signature-unchecked").then(|| self.believed(tried[0])));
        found.ok_or(ProtocolError::EnvelopeSignature(
            "the signature does not verify for the claimed sender",
        ))
    }

    /// What a node that checks no signatures takes an envelope for.
    fn believed(&self, profile: Profile) -> Verified {
        Verified {
            profile,
            hash: self.hash(profile),
        }
    }

    /// Verifies under an id in one profile.
    #[must_use]
    pub fn verified_in(&self, id: &VacantId, profile: Profile) -> Option<Verified> {
        // No bytes of another length verify, and most of what is refused here is refused for its length.
        if self.signature.len() != 64 {
            return None;
        }
        let signed = self.signing_payload(profile);
        id.verifies(signed.as_bytes(), &self.signature)
            .then(|| Verified {
                profile,
                hash: signed.hash(),
            })
    }
}

/// What a new envelope is made of; what is left out has the defaults of VA-ENV-10.
#[derive(Clone, Debug)]
pub struct Draft {
    /// Who sends it.
    pub from: VacantId,
    /// Whom it is for.
    pub to: VacantId,
    /// What it says.
    pub payload: Payload,
    /// Its number.
    pub sequence_no: u64,
    /// The hash of the envelope before.
    pub prev: EnvelopeHash,
    /// When it is made.
    pub timestamp: Time,
    /// Its idempotency key: a fresh UUIDv4, where the caller has none of its own.
    pub idempotency_key: String,
    /// The profile to sign in.
    pub profile: Profile,
}

impl Draft {
    /// Builds and signs. A key that is not the sender's is refused here: it could only give a rejected call
    /// (VA-ENV-9, VA-ENV-10).
    pub fn sign(self, key: &SigningKey) -> Result<Envelope, ProtocolError> {
        if VacantId::of(key) != self.from {
            return Err(ProtocolError::EnvelopeSignature(
                "the signing key does not belong to from_vacant_id",
            ));
        }
        if !(1..=MAX_SEQUENCE_NO).contains(&self.sequence_no) {
            return Err(ProtocolError::format("sequence_no is out of range"));
        }
        let profile = self.profile_of_payload();
        Ok(self.unsigned().signed(key, profile))
    }

    /// A self-evaluation can only be signed in the profile that has one.
    #[must_use]
    pub const fn profile_of_payload(&self) -> Profile {
        if self.payload.self_eval.is_some() {
            Profile::SelfEval
        } else {
            self.profile
        }
    }

    /// The envelope without a signature.
    #[must_use]
    pub fn unsigned(self) -> Envelope {
        Envelope {
            from: self.from,
            to: self.to,
            sequence_no: self.sequence_no,
            timestamp: self.timestamp.truncate_to_micros(),
            prev: self.prev,
            payload: self.payload,
            idempotency_key: self.idempotency_key,
            signature: Vec::new(),
        }
    }
}
