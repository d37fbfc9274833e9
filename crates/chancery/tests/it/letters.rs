//! Signed calls of a vacant that lives in the test, and the place of a node that hosts one.

use chancery_core::canonical::{Dialect, to_bytes};
use chancery_core::keys::ed25519::SigningKey;
use chancery_vacant::envelope::{Draft, EnvelopeHash};
use chancery_vacant::id::VacantId;
use chancery_vacant::payload::{Payload, Profile, Role};
use chancery_vacant::wire::to_jsonrpc;

use crate::served::{Served, now};
use crate::support::Place;

/// Where calls go in.
pub const CALLS: &str = "/a2a/message/send";

/// A place whose node hosts bob, with these further lines about him.
pub fn place_of_bob(about: &str) -> Place {
    let place = Place::new()
        .with("CHANCERY_LISTEN", "127.0.0.1:0")
        .with("CHANCERY_DATA", "data")
        .with("CHANCERY_DEV", "true");
    place.run(&["vacant", "init", "bob.key"]).exits(0);
    let agent = "[[vacant.agent]]\nname = \"bob\"\nseed = \"bob.key\"\nstate = \"ACTIVE\"\n";
    place.write("chancery.toml", format!("{agent}{about}"));
    place
}

/// Who bob is.
pub fn bob(node: &Served) -> VacantId {
    let card = node.wire().get("/card").unwrap().ok();
    VacantId::from_hex(card["vacant_id"].as_str().unwrap()).unwrap()
}

/// The place of a call on its chain: its number, and the hash of the one before.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Link {
    pub number: u64,
    pub prev: EnvelopeHash,
}

/// A call as it is sent, and its hash. `name` tells it from every other, also on the log.
pub fn letter(
    key: &SigningKey,
    to: VacantId,
    link: Link,
    name: &str,
    text: &str,
) -> (Vec<u8>, EnvelopeHash) {
    let draft = Draft {
        from: VacantId::of(key),
        to,
        payload: Payload::text(Role::User, text),
        sequence_no: link.number,
        prev: link.prev,
        timestamp: now(),
        idempotency_key: name.to_owned(),
        profile: Profile::Base,
    };
    let envelope = draft.sign(key).unwrap();
    let rpc = to_jsonrpc(&envelope, Profile::Base);
    let bytes = to_bytes(&rpc.into(), Dialect::Python);
    (bytes, envelope.hash(Profile::Base))
}
