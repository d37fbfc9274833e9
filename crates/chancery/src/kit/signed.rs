//! What is asked of a server where envelopes are signed: vibe in a signed scenario, and AGH with its trust profile on.

use std::time::Duration;

use chancery_agh::trust;
use chancery_core::canonical::{Dialect, to_bytes};
use chancery_core::json::{Object, ReadRules, Value as Json, read};
use chancery_core::keys::ed25519;
use chancery_core::keys::jws;
use chancery_core::time::format_millis;
use chancery_node::Clock;
use chancery_vibe::seal::header;
use serde_json::{Value, json};

use super::setup::{CHANNEL, SEARCHER, SHOPPER, pinned};
use super::{Kit, agh, fresh_id, vibe};
use crate::exit::Failure;

/// Beyond the window of five minutes.
const TOO_LONG: Duration = Duration::from_secs(400);
const FORGED: &str = "401 signature_invalid";
const REFUSED: &str = "400 reject verification_failed";

/// Asks a server that runs a signed scenario.
pub(super) async fn ask_vibe(kit: &mut Kit<'_>) -> Result<(), Failure> {
    let search = search(Duration::ZERO)?;
    let asked = "a search without a signature";
    let expected = "401 signature_required";
    vibe::expect(kit, "VC-SIG-4", asked, &search, expected).await?;
    let mut forged = sealed(&self::search(Duration::ZERO)?, SEARCHER, &header(SEARCHER));
    forged["action"]["payload"]["query"] = "another lamp".into();
    let asked = "a search that was changed after it was signed";
    vibe::expect(kit, "VC-SIG-4", asked, &forged, FORGED).await?;
    let unknown = sealed(&search, SEARCHER, &header("kit-nobody"));
    let asked = "a signature under a key that is not pinned";
    vibe::expect(kit, "VC-SIG-4", asked, &unknown, "401 unknown_key").await?;
    let foreign = sealed(&search, SHOPPER, &header(SHOPPER));
    let asked = "a signature under a key that is pinned for another address";
    let expected = "401 key_not_for_sender";
    vibe::expect(kit, "VC-SIG-4", asked, &foreign, expected).await?;
    let spaced = format!(r#"{{"alg":"ES256", "kid":"{SEARCHER}"}}"#);
    let spaced = sealed(&search, SEARCHER, spaced.as_bytes());
    let asked = "a header with a space in it";
    let expected = "401 signature_malformed";
    vibe::expect(kit, "VC-SIG-4", asked, &spaced, expected).await?;
    let old = self::search(TOO_LONG)?;
    let old = sealed(&old, SEARCHER, &header(SEARCHER));
    let asked = "a signed search of 400 s ago";
    vibe::expect(kit, "VC-SIG-5", asked, &old, "401 stale_envelope").await?;
    let signed = sealed(&search, SEARCHER, &header(SEARCHER));
    let asked = "the search, signed, after all of these";
    vibe::expect(kit, "VC-SIG-2", asked, &signed, "200 accepted").await?;
    Ok(())
}

/// A search of so long ago, not signed yet.
fn search(ago: Duration) -> Result<Value, Failure> {
    let at = Clock::System.now().saturating_sub(ago);
    Ok(json!({
        "protocol": "vcp", "version": "1.0", "msg_id": fresh_id()?, "ts": format_millis(at).as_str(),
        "from": "buyer:discovery", "to": "platform:aggregator", "session_id": fresh_id()?, "in_reply_to": null,
        "idempotency_key": null, "signature": null,
        "action": {"kind": "commerce.search", "payload": {"query": "a lamp"}},
    }))
}

/// An envelope with a detached signature of a pinned key, under this header.
fn sealed(envelope: &Value, kid: &str, header: &[u8]) -> Value {
    let mut unsigned = members(envelope);
    unsigned.remove("signature");
    let body = to_bytes(&Json::Object(unsigned), Dialect::Vibe);
    let mut signed = envelope.clone();
    signed["signature"] = jws::sign(&pinned(kid), header, &body).into();
    signed
}

/// Asks a server whose trust profile is on.
pub(super) async fn ask_agh(kit: &mut Kit<'_>) -> Result<(), Failure> {
    let asked = "a say of a plain name, without a proof";
    agh::expect(kit, "AG-TRU-7", asked, &agh::say()?, "200 accept").await?;
    let key = ed25519::SigningKey::from_seed(&[0x76; 32]);
    let asked = "a say under a verified handle, signed";
    agh::expect(kit, "AG-TRU-5", asked, &proven(&key)?, "200 accept").await?;
    let mut stripped = proven(&key)?;
    stripped["proof"] = Value::Null;
    let asked = "a say under a verified handle, without its proof";
    agh::expect(kit, "AG-TRU-7", asked, &stripped, REFUSED).await?;
    let mut forged = proven(&key)?;
    forged["body"]["text"] = "the kit did not say this".into();
    let asked = "a say that was changed after it was signed";
    agh::expect(kit, "AG-TRU-6", asked, &forged, REFUSED).await?;
    let mut stolen = proven(&key)?;
    let other = ed25519::SigningKey::from_seed(&[0x77; 32]);
    stolen["from"] = handle(&other).into();
    let asked = "a proof under the handle of another key";
    agh::expect(kit, "AG-TRU-3", asked, &stolen, REFUSED).await?;
    let mut padded = proven(&key)?;
    let signature = padded["proof"]["sig"].as_str().unwrap_or_default();
    padded["proof"]["sig"] = format!("{signature}==").into();
    let asked = "a signature with padding";
    agh::expect(kit, "AG-TRU-4", asked, &padded, REFUSED).await?;
    Ok(())
}

fn handle(key: &ed25519::SigningKey) -> String {
    let public = key.verifying_key();
    trust::handle("kit", public.as_bytes()).expect("the nickname is one")
}

/// A say of the kit under the handle of a key, with its proof.
fn proven(key: &ed25519::SigningKey) -> Result<Value, Failure> {
    let mut said = agh::say()?;
    said["channel"] = CHANNEL.into();
    said["from"] = handle(key).into();
    let signed = trust::sign(members(&said), key).expect("it has no extensions");
    let text = to_bytes(&Json::Object(signed), Dialect::Rfc8785);
    Ok(serde_json::from_slice(&text).expect("canonical bytes are JSON"))
}

fn members(envelope: &Value) -> Object<'static> {
    let text = envelope.to_string();
    let read = read(text.as_bytes(), &ReadRules::OWN).expect("the kit writes JSON");
    match read {
        Json::Object(members) => members.into_owned(),
        _ => Object::new(),
    }
}
