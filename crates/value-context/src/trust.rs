//! The trust file: which keys an agent signs with (VX-KEY-1, VX-KEY-2).
//!
//! A key that cannot be used makes the whole file refused; nothing of it is taken.

use crate::file::{
    FileFault, FileReason, agent_id, array, object, read_file, required, required_text,
};
use chancery_core::json::{Object, Place, Value};
use chancery_core::keys::ed25519::decode_public_key;
use chancery_core::keys::{Algorithm, KeyRecord, KeySource, KeyState, Keyring};
use chancery_core::time::{Time, parse_value_context};

/// Reads a trust file. The records are in the order of the file, and fit into one keyring.
pub fn parse_trust(text: &[u8]) -> Result<Vec<KeyRecord>, FileFault> {
    read_trust(&read_file(text)?, &Place::ROOT)
}

/// Reads the trust part of a file.
pub(crate) fn read_trust(
    value: &Value<'_>,
    place: &Place<'_>,
) -> Result<Vec<KeyRecord>, FileFault> {
    let anchors_place = place.child("trust_anchors");
    let anchors = required(object(value, place)?, "trust_anchors", place)?;
    let mut reader = Reader::default();
    for (agent, anchor) in object(anchors, &anchors_place)?.iter() {
        reader.anchor(agent, anchor, &anchors_place.child(agent))?;
    }
    Ok(reader.records)
}

/// Collects records, and tries each in a keyring so that its fault is found where it stands.
#[derive(Default)]
struct Reader {
    records: Vec<KeyRecord>,
    trial: Keyring,
}

impl Reader {
    fn anchor(
        &mut self,
        agent: &str,
        anchor: &Value<'_>,
        place: &Place<'_>,
    ) -> Result<(), FileFault> {
        agent_id(agent, place)?;
        let anchor = object(anchor, place)?;
        if required_text(anchor, "type", place)? != "agent" {
            return Err(FileReason::Expected("agent").at(&place.child("type")));
        }
        let keys_place = place.child("keys");
        let keys = array(required(anchor, "keys", place)?, &keys_place)?;
        for (index, key) in keys.iter().enumerate() {
            let place = keys_place.item(index);
            let record = read_key(agent, object(key, &place)?, &place)?;
            self.trial
                .insert(record.clone())
                .map_err(|fault| FileReason::from(fault).at(&place))?;
            self.records.push(record);
        }
        Ok(())
    }
}

fn read_key(owner: &str, key: &Object<'_>, place: &Place<'_>) -> Result<KeyRecord, FileFault> {
    let id = required_text(key, "id", place)?;
    if id.is_empty() {
        return Err(FileReason::Expected("a name").at(&place.child("id")));
    }
    if required_text(key, "algorithm", place)? != "ed25519" {
        return Err(FileReason::Expected("ed25519").at(&place.child("algorithm")));
    }
    let public = decode_public_key(required_text(key, "public_key", place)?)
        .map_err(|fault| FileReason::from(fault).at(&place.child("public_key")))?;
    Ok(KeyRecord {
        id: id.to_owned(),
        owner: owner.to_owned(),
        algorithm: Algorithm::Ed25519,
        public: public.as_bytes().to_vec(),
        state: read_state(key, place)?,
        valid_from: Some(read_time(key, "valid_from", place)?),
        valid_until: Some(read_time(key, "valid_until", place)?),
        source: KeySource::File,
        removed: false,
    })
}

fn read_state(key: &Object<'_>, place: &Place<'_>) -> Result<KeyState, FileFault> {
    let name = required_text(key, "state", place)?;
    let expected = "pending, active, rotating, retired, compromised or revoked";
    KeyState::ALL
        .into_iter()
        .find(|state| state.name() == name)
        .ok_or_else(|| FileReason::Expected(expected).at(&place.child("state")))
}

fn read_time(key: &Object<'_>, name: &str, place: &Place<'_>) -> Result<Time, FileFault> {
    parse_value_context(required_text(key, name, place)?)
        .map_err(|_| FileReason::Expected("a UTC timestamp ending in Z").at(&place.child(name)))
}
