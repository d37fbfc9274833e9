//! What the tests share: the vector files, the world they speak of, and a good message.

use bytes::Bytes;
use chancery_core::json::{Object, Value};
use chancery_core::keys::Keyring;
use chancery_core::keys::ed25519::SigningKey;
use chancery_core::time::{Time, parse_value_context};
use chancery_value_context::agent_id::AgentId;
use chancery_value_context::message::{DEFAULT_MAX_BYTES, Kind, Message, Recipient, Undecodable};
use chancery_value_context::message_id::MessageId;
use chancery_value_context::world::World;
use chancery_value_context::{message, sign};
use std::path::PathBuf;

pub const SENDER: &str = "agent://home.local/living-room-agent";
pub const RECIPIENT: &str = "agent://home.local/kitchen-agent";
pub const MESSAGE_ID: &str = "019502a4-7e5c-7000-8000-000000000001";
/// The secret of [`SENDER`] in the world of the vectors.
pub const SENDER_SEED: [u8; 32] = [3; 32];

pub fn vector_file(name: &str) -> String {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR"))
        .join("../../vectors/value-context")
        .join(name);
    std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

pub fn vector_json(name: &str) -> serde_json::Value {
    serde_json::from_str(&vector_file(name)).unwrap()
}

pub fn world() -> World {
    World::parse(vector_file("world.json").as_bytes()).unwrap()
}

pub fn keyring() -> Keyring {
    let mut keys = Keyring::new();
    for record in world().keys {
        keys.insert(record).unwrap();
    }
    keys
}

/// The time at which the vectors are judged.
pub fn now() -> Time {
    parse_value_context(vector_json("world.json")["now"].as_str().unwrap()).unwrap()
}

pub fn sender_key() -> SigningKey {
    SigningKey::from_seed(&SENDER_SEED)
}

pub fn agent(name: &str) -> AgentId {
    AgentId::parse(name).unwrap()
}

/// The payload of the seed's example.
pub fn share() -> Object<'static> {
    Object::new().with("context", "⏰🌅|📍🏡|👥👶").with(
        "constitution_ref",
        "creed://creed.space/family.safe.guide@1.2.0",
    )
}

/// An unsigned envelope from [`SENDER`] to [`RECIPIENT`] around `payload`.
pub fn envelope(payload: Object<'static>) -> Object<'static> {
    sign::envelope(
        Kind::ContextShare,
        MessageId::parse(MESSAGE_ID).unwrap(),
        &agent(SENDER),
        &Recipient::Directed(agent(RECIPIENT)),
        now(),
        payload,
    )
}

pub fn text_of(envelope: Object<'_>) -> String {
    let bytes = chancery_core::canonical::to_bytes(
        &Value::Object(envelope),
        chancery_core::canonical::Dialect::Python,
    );
    String::from_utf8(bytes).unwrap()
}

pub fn decode(text: impl Into<Bytes>) -> Result<Message, Undecodable> {
    message::decode(text.into(), DEFAULT_MAX_BYTES)
}

/// The code and pointer with which `envelope` is refused.
pub fn refusal(envelope: Object<'_>) -> (String, String) {
    let refused = decode(text_of(envelope)).unwrap_err();
    let path = refused.fault.path.map(|path| path.to_pointer());
    (refused.fault.code.to_string(), path.unwrap_or_default())
}
