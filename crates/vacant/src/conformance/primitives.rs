//! Keys, canonical JSON and timestamps.

use chancery_core::canonical::{Dialect, to_bytes};
use chancery_core::digest::hex;
use chancery_core::keys::ed25519::SigningKey;
use chancery_core::time::{format_vacant, parse_vacant};

use super::{Case, File, expect, key_of};
use crate::id::VacantId;

/// A seed gives its id, in three forms; the label gives the seed.
pub(super) fn key(case: &mut Case, _: &mut File) -> Result<(), String> {
    let key = SigningKey::from_seed(&case.array("seed_hex")?);
    let id = VacantId::of(&key);
    expect(
        "id of the label",
        VacantId::of(&key_of(&case.text("label")?)),
        id,
    )?;
    expect("id", id.hex(), case.text("vacant_id_hex")?)?;
    expect("short form", id.short(), case.text("short")?)?;
    expect("display form", id.to_string(), case.text("display")?)
}

/// An object gives its bytes.
pub(super) fn canonical_json(case: &mut Case, _: &mut File) -> Result<(), String> {
    let bytes = to_bytes(&case.take("object")?, Dialect::Python);
    expect(
        "canonical form",
        hex::encode(&bytes),
        case.text("canonical_hex")?,
    )
}

/// A text gives its canonical form, or a format error.
pub(super) fn timestamp(case: &mut Case, _: &mut File) -> Result<(), String> {
    let read = parse_vacant(&case.text("input")?);
    match case.optional_text("error")? {
        Some(error) => {
            expect("error", error.as_str(), "EnvelopeFormatError")?;
            expect("is refused", read.is_err(), true)
        }
        None => {
            let time = read.map_err(|error| error.to_string())?;
            let found = format_vacant(time).as_str().to_owned();
            expect("canonical form", found, case.text("canonical")?)
        }
    }
}
