//! Vibe Commerce 1.0 over `POST /vcp`: the envelope, who may send what, and deals from mandate to refund.
//!
//! The server's platform is `manual` and its clock that of the envelopes: the kit speaks for every role.

mod deal;
mod journey;

use serde_json::{Value, json};

use self::journey::{FLOOR, Journey, told};
use super::setup::SKU;
use super::{Kit, fresh_id};
use crate::exit::Failure;

const VCP: [&str; 1] = ["vcp"];

/// Asks everything.
pub(super) async fn ask(kit: &mut Kit<'_>) -> Result<(), Failure> {
    envelopes(kit).await?;
    json_layer(kit).await?;
    permissions(kit).await?;
    idempotency(kit).await?;
    secrets(kit).await?;
    negotiation(kit).await?;
    deal::ask(kit).await
}

pub(super) async fn expect(
    kit: &mut Kit<'_>,
    requirement: &'static str,
    asked: &str,
    envelope: &Value,
    expected: &str,
) -> Result<bool, Failure> {
    let exchange = kit.post(&VCP, envelope.to_string()).await?;
    Ok(kit.check(requirement, asked, expected, told(&exchange)))
}

async fn envelopes(kit: &mut Kit<'_>) -> Result<(), Failure> {
    let mut journey = Journey::new()?;
    let search = journey.search()?;
    let with = |name: &str, value: Value| {
        let mut envelope = search.clone();
        envelope[name] = value;
        envelope
    };
    let refused = [
        (
            "VC-ENV-1",
            "protocol",
            json!("vcq"),
            "400 unsupported_protocol",
        ),
        (
            "VC-ENV-2",
            "version",
            json!("2.0"),
            "400 unsupported_version",
        ),
        (
            "VC-ENV-5",
            "ts",
            json!("2026-05-15T12:00:00"),
            "400 invalid_ts",
        ),
        (
            "VC-ADR-6",
            "from",
            json!("Buyer:discovery"),
            "400 invalid_address",
        ),
        (
            "VC-ENV-12",
            "signature",
            json!("x"),
            "400 unexpected_signature",
        ),
        (
            "VC-ENV-8",
            "in_reply_to",
            json!(7),
            "400 malformed_envelope",
        ),
    ];
    for (requirement, name, value, expected) in refused {
        let asked = format!("{name} {value}");
        expect(kit, requirement, &asked, &with(name, value), expected).await?;
    }
    let asked = "a minor version of the future, with a field of the future";
    let mut later = with("version", json!("1.7"));
    later["x_later"] = json!({"a": [1]});
    expect(kit, "VC-ENV-16", asked, &later, "200 accepted").await?;
    let expected = "409 duplicate_msg_id";
    expect(kit, "VC-ENV-3", "the same msg_id again", &search, expected).await?;
    let mut lost = journey.offer(15_000, &["warm"])?;
    lost["session_id"] = fresh_id()?.into();
    let asked = "an offer in a session nobody opened";
    expect(kit, "VC-SM-1", asked, &lost, "404 session_not_found").await?;
    let mut open = journey.mandate()?;
    open["idempotency_key"] = Value::Null;
    let expected = "400 idempotency_key_required";
    expect(kit, "VC-ENV-10", "a mandate without a key", &open, expected).await?;
    Ok(())
}

async fn json_layer(kit: &mut Kit<'_>) -> Result<(), Failure> {
    let mut journey = Journey::new()?;
    let text = journey.search()?.to_string();
    let twice = text.replacen('{', r#"{"version":"1.0","#, 1);
    let exchange = kit.post(&VCP, twice).await?;
    let asked = "a name that occurs twice";
    kit.check("VC-ENV-18", asked, "400 malformed_json", told(&exchange));
    let exchange = kit.post_as("text/plain", &VCP, text).await?;
    let expected = "415 unsupported_media_type";
    kit.check(
        "VC-PIPE-1",
        "a body of text/plain",
        expected,
        told(&exchange),
    );
    Ok(())
}

async fn permissions(kit: &mut Kit<'_>) -> Result<(), Failure> {
    let mut journey = Journey::new()?;
    let ranking = json!({"policy_version": "rank-1", "query_msg_id": "x", "candidates": []});
    let kind = "platform.rank_offers";
    let ranking = journey.envelope(kind, ("buyer:negotiation", "buyer:discovery"), &ranking)?;
    let expected = "403 partition_denied";
    expect(kit, "VC-PART-3", "a ranking by a buyer", &ranking, expected).await?;
    let write = json!({"tx_id": "tx", "entries": []});
    let write = journey.envelope("world.update_ledger", ("platform:psp", "world"), &write)?;
    let expected = "409 outside_transaction";
    let asked = "a write to the ledger from outside";
    expect(kit, "VC-ACT-world-3", asked, &write, expected).await?;
    let mut wrong = journey.mandate()?;
    wrong["from"] = "merchant:pricing".into();
    wrong["idempotency_key"] = Value::Null;
    let asked = "a mandate by a merchant and without a key: permission goes first";
    expect(kit, "VC-PIPE-1", asked, &wrong, "403 partition_denied").await?;
    Ok(())
}

async fn idempotency(kit: &mut Kit<'_>) -> Result<(), Failure> {
    let mut journey = Journey::new()?;
    let mandate = journey.mandate()?;
    let first = kit.post(&VCP, mandate.to_string()).await?;
    let asked = "a mandate";
    let requirement = "VC-ACT-delegate.create_purchase_mandate-1";
    kit.check(requirement, asked, "200 accepted", told(&first));
    let again = kit.post(&VCP, mandate.to_string()).await?;
    let is_same = again.bytes() == first.bytes();
    let is_marked = again.header("idempotent-replayed") == Some("true");
    let came_back = match (is_same, is_marked) {
        (true, true) => "the first answer, marked as replayed".to_owned(),
        (true, false) => "the first answer, not marked".to_owned(),
        _ => told(&again),
    };
    let expected = "the first answer, marked as replayed";
    kit.check("VC-IDEM-1", "the same mandate again", expected, came_back);
    let mut other = mandate;
    other["msg_id"] = fresh_id()?.into();
    other["action"]["payload"]["taste"] = json!({"colour": "red"});
    let asked = "another mandate under the same key";
    expect(kit, "VC-IDEM-2", asked, &other, "422 idempotency_conflict").await?;
    Ok(())
}

/// What a merchant and a buyer keep to themselves does not pass, whoever says it.
async fn secrets(kit: &mut Kit<'_>) -> Result<(), Failure> {
    let mut journey = Journey::open(kit).await?;
    let mut telling = journey.offer(15_000, &[])?;
    let floor = format!("we go down to {}.{:02} USD", FLOOR / 100, FLOOR % 100);
    telling["action"]["payload"]["x_note"] = floor.into();
    let expected = "403 private_utility_leak";
    let asked = "an offer that tells the merchant's floor in words";
    expect(kit, "VC-PRIV-1", asked, &telling, expected).await?;
    let mut search = journey.search()?;
    search["action"]["payload"]["constraints"] = json!({"max_price": journey::BUDGET});
    let asked = "a search that tells the buyer's budget";
    expect(kit, "VC-ACT-commerce.search-3", asked, &search, expected).await?;
    Ok(())
}

async fn negotiation(kit: &mut Kit<'_>) -> Result<(), Failure> {
    let mut journey = Journey::open(kit).await?;
    let mut float = journey.offer(15_000, &[])?;
    float["action"]["payload"]["unit_price"] = json!(15_000.0);
    let expected = "400 money_not_integer";
    expect(kit, "VC-MON-1", "a price of 15000.0", &float, expected).await?;
    let low = journey.offer(FLOOR - 1, &[])?;
    let requirement = "VC-ACT-commerce.propose_offer-3";
    let expected = "409 offer_outside_mandate";
    expect(kit, requirement, "an offer below the floor", &low, expected).await?;
    let mut unknown = journey.offer(15_000, &[])?;
    unknown["action"]["payload"]["sku_id"] = format!("{SKU}-x").into();
    let asked = "an offer of goods that nobody lists";
    expect(kit, requirement, asked, &unknown, "404 sku_not_found").await?;

    let bid = journey.bid(14_000)?;
    kit.post(&VCP, bid.to_string()).await?;
    let own = journey.accept(&bid)?;
    let requirement = "VC-ACT-commerce.accept_offer-2";
    let asked = "a buyer that accepts its own offer";
    expect(kit, requirement, asked, &own, "409 own_offer").await?;
    let offer = journey.offer(15_000, &[])?;
    kit.post(&VCP, offer.to_string()).await?;
    let mut astray = journey.accept(&offer)?;
    astray["in_reply_to"] = fresh_id()?.into();
    let expected = "404 in_reply_to_not_found";
    expect(kit, "VC-ENV-9", "an answer to nothing", &astray, expected).await?;
    let mut late = journey.accept(&offer)?;
    late["ts"] = offer["action"]["payload"]["expires_at"].clone();
    let asked = "an acceptance at the instant at which the offer ends";
    expect(kit, "VC-PIPE-5", asked, &late, "409 offer_expired").await?;
    Ok(())
}
