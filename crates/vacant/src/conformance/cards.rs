//! Capability cards: fields to bytes, and what a blob is.

use chancery_core::digest::hex;

use super::{Case, File, expect, key_of};
use crate::card::{CapabilityCard, SubstrateSpec};
use crate::id::VacantId;

/// Fields give payload, signature, blob and hash; the blob gives the card.
pub(super) fn card(case: &mut Case, _: &mut File) -> Result<(), String> {
    let key = key_of(&case.text("signer")?);
    let mut fields = case.object("fields")?;
    let id = VacantId::from_hex(&fields.text("vacant_id")?).map_err(|error| error.to_string())?;
    let card = CapabilityCard {
        vacant_id: id,
        capability_text: fields.text("capability_text")?,
        substrate_spec: SubstrateSpec {
            allowed_substrates: fields.texts("allowed_substrates")?,
            policy: fields.object("policy")?.into_members(),
        },
        halo_version: fields.number("halo_version")?,
        endpoint: fields.optional_text("endpoint")?,
        signature: Vec::new(),
    };
    fields.finish()?;
    let text = |bytes: &[u8]| hex::encode(bytes);
    expect(
        "substrate",
        text(&card.substrate_spec.canonical()),
        case.text("substrate_canonical_hex")?,
    )?;
    expect(
        "signing payload",
        text(&card.signing_payload()),
        case.text("signing_payload_hex")?,
    )?;
    let card = card.signed(&key);
    expect(
        "signature",
        text(&card.signature),
        case.text("signature_hex")?,
    )?;
    expect("verifies", card.verify(), true)?;
    let blob = card.serialize();
    expect("blob", text(&blob), case.text("serialized_hex")?)?;
    expect("hash", card.hash().hex(), case.text("card_hash_hex")?)?;
    match CapabilityCard::deserialize(&blob) {
        Ok(read) => expect("card read back", read.serialize(), blob),
        // A card may be signed in a version that this build does not read.
        Err(error) => expect("error", error.type_name(), "UnsupportedHaloVersionError"),
    }
}

/// A blob is a card that verifies or does not, or an error.
pub(super) fn blob(case: &mut Case, _: &mut File) -> Result<(), String> {
    case.optional("reference");
    let found = match CapabilityCard::deserialize(&case.bytes("blob_hex")?) {
        Ok(card) => format!("ok:verify={}", card.verify()),
        Err(error) => error.type_name().to_owned(),
    };
    expect("outcome", found, case.text("expect")?)
}
