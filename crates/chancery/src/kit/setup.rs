//! What a server under test has to be set up with: the participants that the kit speaks as and to.
//!
//! The keys are no secrets: everybody has them. They belong on a server that is being tested and on no other.

use std::path::Path;

use chancery_core::keys::ed25519::{SigningKey, encode_public_key};
use chancery_core::keys::p256;
use serde_json::{Value, json};

use crate::config::DEFAULT_FILE;
use crate::exit::Failure;
use crate::secret_file;

/// The hosted agent that supervises [`CHILD`].
pub(super) const PARENT: &str = "agent://kit.example/parent";
/// A hosted agent.
pub(super) const CHILD: &str = "agent://kit.example/child";
/// An agent elsewhere that both know.
pub(super) const PEER: &str = "agent://kit.example/peer";

/// The hosted peers of AGH, and their channel.
pub(super) const PEERS: [&str; 2] = ["kit-a", "kit-b"];
/// Where they are.
pub(super) const CHANNEL: &str = "kit";

/// The merchant, its goods, and the consumer of vibe.
pub(super) const MERCHANT: &str = "m_kit";
/// What it sells.
pub(super) const SKU: &str = "kit-lamp";
/// Who buys.
pub(super) const CONSUMER: &str = "c_kit";
/// The consumer's account.
pub(super) const ACCOUNT: &str = "a_kit_c";

/// The configuration, but for the files that it names.
const CONFIG: &str = r#"# A node for `chancery conform --url`: everybody has its keys, so use it for nothing else.
listen = "127.0.0.1:8700"
data = "data"
dev = true

[vibe]
world = "world.json"
platform = "manual"
clock = "envelope"

[value_context]
world = "agents.json"

[[vacant.agent]]
name = "echo"
seed = "echo.key"
state = "ACTIVE"
capability = "echoes what it hears"
behaviour = "echo"

[[agh.peer]]
id = "kit-a"
channel = "kit"

[[agh.peer]]
id = "kit-b"
channel = "kit"
"#;

/// The configuration of a second node, where envelopes are signed.
const SIGNED_CONFIG: &str = r#"# A node for `chancery conform --url … --signed`: everybody has its keys, so use it for nothing else.
listen = "127.0.0.1:8701"
data = "signed-data"
dev = true

[vibe]
world = "signed-world.json"
platform = "manual"
clock = "wall"
signed = true

[agh]
trust = "on"

[[agh.peer]]
id = "kit-a"
channel = "kit"

[[agh.peer]]
id = "kit-b"
channel = "kit"
"#;
/// Its name.
pub(crate) const SIGNED_FILE: &str = "signed.toml";

/// The pinned keys of signed vibe: who searches, and who shops.
pub(super) const SEARCHER: &str = "kit-searcher";
/// See [`SEARCHER`].
pub(super) const SHOPPER: &str = "kit-shopper";

/// The key of a pinned name.
pub(super) fn pinned(kid: &str) -> p256::SigningKey {
    let byte = if kid == SEARCHER { 0x78 } else { 0x79 };
    p256::SigningKey::from_scalar(&[byte; 32]).expect("the scalar is in its range")
}

/// The key of one of the kit's agents; `retired` is an old one of [`PEER`].
pub(super) fn key_of(agent: &str) -> SigningKey {
    let byte = match agent {
        PARENT => 0x71,
        CHILD => 0x72,
        PEER => 0x73,
        _ => 0x74,
    };
    SigningKey::from_seed(&[byte; 32])
}

/// Writes a folder that `chancery serve` can be started in.
///
/// # Errors
/// A file is there already, or cannot be written.
pub(crate) fn write(folder: &Path) -> Result<(), Failure> {
    std::fs::create_dir_all(folder)
        .map_err(|error| Failure::usage(format!("cannot make {}: {error}", folder.display())))?;
    let files = [
        ("agents.json", format!("{:#}\n", agents())),
        ("world.json", format!("{:#}\n", world())),
        ("echo.key", format!("{}\n", "75".repeat(32))),
        (DEFAULT_FILE, CONFIG.to_owned()),
        ("signed-world.json", format!("{:#}\n", signed_world())),
        (SIGNED_FILE, SIGNED_CONFIG.to_owned()),
    ];
    for (name, text) in files {
        secret_file::write_private(&folder.join(name), text.as_bytes())?;
    }
    Ok(())
}

/// The world of value-context (CH-CFG-5).
fn agents() -> Value {
    let key = |id: &str, of: &str, state: &str| {
        json!({
            "id": id,
            "algorithm": "ed25519",
            "public_key": encode_public_key(&key_of(of).verifying_key()),
            "state": state,
            "valid_from": "2020-01-01T00:00:00Z",
            "valid_until": "2120-01-01T00:00:00Z",
        })
    };
    let anchor = |keys: Value| json!({"type": "agent", "keys": keys});
    let seed = |byte: &str| byte.repeat(32);
    json!({
        "trust": {"trust_anchors": {
            PARENT: anchor(json!([key("k1", PARENT, "active")])),
            CHILD: anchor(json!([key("k1", CHILD, "active")])),
            PEER: anchor(json!([key("k2", PEER, "active"), key("k1", "retired", "retired")])),
        }},
        "local_agents": [
            {"id": PARENT, "parent": null, "children": [CHILD], "peers": [PEER]},
            {"id": CHILD, "parent": PARENT, "children": [], "peers": [PEER]},
        ],
        "secret_seeds_hex": {PARENT: seed("71"), CHILD: seed("72")},
    })
}

/// The world of signed vibe: the same with keys (VC-SIG-3).
fn signed_world() -> Value {
    let key = |kid: &str, address: &str| {
        let (x, y) = pinned(kid).verifying_key().to_jwk();
        json!({"kid": kid, "jwk": {"kty": "EC", "crv": "P-256", "x": x, "y": y}, "addresses": [address]})
    };
    let mut world = world();
    world["seed_id"] = "kit-signed".into();
    world["keys"] = json!([
        key(SEARCHER, "buyer:discovery"),
        key(SHOPPER, "buyer:negotiation")
    ]);
    world
}

/// The world of vibe (VC-WLD-1).
fn world() -> Value {
    json!({
        "seed_id": "kit",
        "currency": "USD",
        "policy": {
            "verification_version": "verify-1",
            "ranking_version": "rank-1",
            "min_reputation": 0,
            "cert_ttl_s": 900,
            "auth_ttl_s": 900,
            "freshness_window_s": 300,
        },
        "merchants": [{"merchant_id": MERCHANT, "name": "Kit", "account_id": "a_kit_m"}],
        "catalog": [{
            "merchant_id": MERCHANT,
            "sku_id": SKU,
            "title": "A lamp",
            "attributes": ["bright"],
            "list_price": 20_000,
            "eta_days": 2,
            "refundable": true,
        }],
        "inventory": [{
            "merchant_id": MERCHANT, "sku_id": SKU, "on_hand": 1_000_000, "reserved": 0,
        }],
        "ledger": [
            {"account_id": "a_kit_m", "owner": MERCHANT, "currency": "USD", "balance": 0},
            {"account_id": ACCOUNT, "owner": CONSUMER, "currency": "USD",
             "balance": 1_000_000_000_000_u64},
        ],
        "reputation": [{"merchant_id": MERCHANT, "score": 500}],
    })
}
