//! Value-Context 1.2 over HTTP: what a receiver takes, what it refuses and in which order.

use std::time::Duration;

use chancery_core::ids::Uuid7Sequence;
use chancery_core::json::{self, ReadRules};
use chancery_core::keys::ed25519::SigningKey;
use chancery_core::time::{Time, format_millis};
use chancery_node::Clock;
use chancery_value_context::signature::{SignatureText, SignedForms};

use super::setup::{CHILD, PARENT, PEER, key_of};
use super::{Kit, fresh_id};
use crate::commands::send::MESSAGES;
use crate::exit::Failure;
use crate::secret_file;

const SHARE: &str =
    r#"{"context":"⏰🌅|📍🏡","constitution_ref":"creed://creed.space/family.safe.guide@1.2.0"}"#;

/// A message, not signed yet.
struct Letter {
    id: String,
    kind: &'static str,
    sender: &'static str,
    recipient: &'static str,
    at: Time,
    payload: String,
}

impl Letter {
    /// A message of one of the kit's agents, made now.
    fn new(
        kind: &'static str,
        sender: &'static str,
        recipient: &'static str,
        payload: impl Into<String>,
    ) -> Result<Self, Failure> {
        let at = Clock::System.now();
        let unix_ms = u64::try_from(at.unix_millis()).unwrap_or_default();
        let id = Uuid7Sequence::new().next(unix_ms, *secret_file::random::<10>()?);
        Ok(Self {
            id: id.hyphenated().to_string(),
            kind,
            sender,
            recipient,
            at,
            payload: payload.into(),
        })
    }

    /// A share of the peer.
    fn share() -> Result<Self, Failure> {
        Self::new("context_share", PEER, PARENT, SHARE)
    }

    fn text(&self) -> String {
        let Self {
            id,
            kind,
            sender,
            recipient,
            at,
            payload,
        } = self;
        let at = format_millis(*at);
        let at = at.as_str();
        format!(
            r#"{{"vcp_message":"1.2","type":"{kind}","message_id":"{id}","sender":"{sender}","recipient":"{recipient}","timestamp":"{at}","payload":{payload}}}"#
        )
    }

    /// Signed by its sender.
    fn signed(&self) -> String {
        signed(&self.text(), &key_of(self.sender))
    }
}

/// A text with a signature over its RFC 8785 form.
fn signed(text: &str, key: &SigningKey) -> String {
    let rules = ReadRules::OWN;
    let value = json::read(text.as_bytes(), &rules).expect("the kit writes JSON");
    let signature = SignatureText::sign(SignedForms::of(&value).jcs(), key);
    with_signature(text, signature.as_str())
}

fn with_signature(text: &str, signature: &str) -> String {
    let open = text.strip_suffix('}').expect("the kit writes objects");
    format!(r#"{open},"signature":"{signature}"}}"#)
}

/// Asks everything.
pub(super) async fn ask(kit: &mut Kit<'_>) -> Result<(), Failure> {
    once_and_again(kit).await?;
    form(kit).await?;
    time(kit).await?;
    signatures(kit).await?;
    canonical_bytes(kit).await?;
    payloads(kit).await?;
    directions(kit).await?;
    suspension(kit).await
}

/// Posts a body and notes what came back.
async fn expect(
    kit: &mut Kit<'_>,
    requirement: &'static str,
    asked: &str,
    body: String,
    expected: &str,
) -> Result<bool, Failure> {
    let exchange = kit.post(&MESSAGES, body).await?;
    let word = match &exchange.body["error"]["code"] {
        code if code.is_string() => code,
        _ => &exchange.body["status"],
    };
    let told = exchange.told(word);
    Ok(kit.check(requirement, asked, expected, told))
}

async fn once_and_again(kit: &mut Kit<'_>) -> Result<(), Failure> {
    let body = Letter::share()?.signed();
    let asked = "a signed context_share";
    expect(kit, "VX-ERR-1", asked, body.clone(), "200 accepted").await?;
    let asked = "the same bytes again";
    expect(kit, "VX-DUP-1", asked, body, "200 duplicate").await?;
    let letter = Letter::share()?;
    let forged = signed(&letter.text(), &key_of(PARENT));
    let exchange = kit.post(&MESSAGES, forged).await?;
    if exchange.status != 200 {
        let asked = "a message whose identifier a forger used before it";
        expect(kit, "VX-DUP-4", asked, letter.signed(), "200 accepted").await?;
    }
    Ok(())
}

async fn form(kit: &mut Kit<'_>) -> Result<(), Failure> {
    let changed = |from: &str, to: &str| -> Result<String, Failure> {
        let text = Letter::share()?.text().replace(from, to);
        Ok(signed(&text, &key_of(PEER)))
    };
    let extra = changed(r#""payload":"#, r#""x_more":1,"payload":"#)?;
    let asked = "a member that the envelope does not have";
    expect(kit, "VX-ENV-2", asked, extra, "400 schema_invalid").await?;
    let other = changed(r#""vcp_message":"1.2""#, r#""vcp_message":"1.1""#)?;
    let asked = "vcp_message 1.1";
    expect(kit, "VX-ENV-3", asked, other, "400 unsupported_version").await?;
    let twice = Letter::share()?.signed();
    let twice = twice.replace(r#""payload":"#, r#""type":"context_share","payload":"#);
    let asked = "a member name that occurs twice";
    expect(kit, "VX-ENV-6", asked, twice, "400 malformed_json").await?;
    let large = changed(
        r#""payload":"#,
        &format!("{}\"payload\":", " ".repeat(65_536)),
    )?;
    let asked = "a body of more than 65,536 bytes";
    expect(kit, "VX-ENV-7", asked, large, "413 payload_too_large").await?;
    let mut letter = Letter::share()?;
    letter.id = fresh_id()?;
    let asked = "a message_id of UUID version 4";
    expect(kit, "VX-ID-1", asked, letter.signed(), "400 schema_invalid").await?;
    let offset = changed(r#"Z","payload"#, r#"+00:00","payload"#)?;
    let asked = "a timestamp with an offset in place of Z";
    expect(kit, "VX-TS-1", asked, offset, "400 schema_invalid").await?;
    let exchange = kit.post_as("text/plain", &MESSAGES, Letter::share()?.signed());
    let exchange = exchange.await?;
    let told = exchange.told(&exchange.body["error"]["code"]);
    let expected = "415 unsupported_media_type";
    kit.check("VX-HTTP-3", "a body of text/plain", expected, told);
    Ok(())
}

async fn time(kit: &mut Kit<'_>) -> Result<(), Failure> {
    let mut old = Letter::share()?;
    old.at = old.at.saturating_sub(Duration::from_secs(310));
    let asked = "a message stamped 310 s ago";
    expect(kit, "VX-RPL-1", asked, old.signed(), "400 timestamp_stale").await?;
    let mut recent = Letter::share()?;
    recent.at = recent.at.saturating_sub(Duration::from_secs(240));
    let asked = "a message stamped 240 s ago";
    expect(kit, "VX-RPL-1", asked, recent.signed(), "200 accepted").await?;
    let mut early = Letter::share()?;
    early.at = early.at.saturating_add(Duration::from_secs(90));
    let forged = signed(&early.text(), &key_of(PARENT));
    let asked = "stamped 90 s ahead and signed by another: time goes first";
    expect(kit, "VX-RCV-1", asked, forged, "400 timestamp_future").await?;
    Ok(())
}

async fn signatures(kit: &mut Kit<'_>) -> Result<(), Failure> {
    let forged = signed(&Letter::share()?.text(), &key_of(PARENT));
    let asked = "a message signed with another agent's key";
    expect(kit, "VX-SIG-4", asked, forged, "401 signature_invalid").await?;
    let unsigned = Letter::share()?.text();
    let asked = "a message without a signature";
    expect(kit, "VX-SIG-2", asked, unsigned, "401 signature_missing").await?;
    let open = Letter::share()?.signed().replace(r#"==""#, r#"""#);
    let asked = "a signature without its base64 padding";
    expect(kit, "VX-SIG-5", asked, open, "401 signature_invalid").await?;
    let retired = signed(&Letter::share()?.text(), &key_of("retired"));
    let asked = "a message signed with a retired key";
    expect(kit, "VX-KEY-5", asked, retired, "401 key_not_valid").await?;
    let mut nobody = Letter::share()?;
    nobody.sender = "agent://kit.example/nobody";
    let asked = "a sender without a trust entry";
    expect(
        kit,
        "VX-ERR-2",
        asked,
        nobody.signed(),
        "403 sender_unknown",
    )
    .await?;
    let mut lost = Letter::share()?;
    lost.recipient = "agent://kit.example/nobody";
    let asked = "a recipient that is not hosted";
    expect(
        kit,
        "VX-ERR-2",
        asked,
        lost.signed(),
        "404 recipient_unknown",
    )
    .await?;
    Ok(())
}

/// Constraints of a type that nobody knows, with any JSON as their value: the one open place.
fn constrain(value: &str) -> String {
    format!(
        r#"{{"constraints":[{{"type":"x-kit","value":{value},"source_constitution_ref":"creed://creed.space/kit@1.0.0"}}],"propagation_mode":"override"}}"#
    )
}

async fn canonical_bytes(kit: &mut Kit<'_>) -> Result<(), Failure> {
    let names = constrain("{\"\u{e000}\":1,\"\u{10000}\":2}");
    let letter = Letter::new("constraint_propagate", PARENT, CHILD, names)?;
    let asked = "names signed in the order of their UTF-16 code units";
    expect(kit, "VX-CAN-2", asked, letter.signed(), "200 accepted").await?;
    let numbers = constrain("[1e16,1e-7,-0.0,7.0]");
    let letter = Letter::new("constraint_propagate", PARENT, CHILD, numbers)?;
    let asked = "numbers signed as ECMAScript writes them";
    expect(kit, "VX-CAN-3", asked, letter.signed(), "200 accepted").await?;
    let letter = Letter::share()?.signed();
    let spaced = letter.replace(r#""type":"#, "\n \"type\" : ");
    let asked = "blanks that are not signed";
    expect(kit, "VX-CAN-8", asked, spaced, "200 accepted").await?;
    Ok(())
}

async fn payloads(kit: &mut Kit<'_>) -> Result<(), Failure> {
    let share = |payload: String| Letter::new("context_share", PEER, PARENT, payload);
    let context = share(SHARE.replace("⏰🌅", "T:morning"))?;
    let asked = "a context in letters";
    expect(
        kit,
        "VX-CTX-4",
        asked,
        context.signed(),
        "400 context_invalid",
    )
    .await?;
    let state = SHARE.replace(r#"@1.2.0""#, r#"@1.2.0","personal_state":{"urgency":10}"#);
    let asked = "an urgency of 10 on a scale from 1 to 9";
    expect(
        kit,
        "VX-PS-1",
        asked,
        share(state)?.signed(),
        "400 schema_invalid",
    )
    .await?;
    let creed = share(SHARE.replace("creed://creed.space", "creed://Creed.Space"))?;
    let asked = "a creed reference whose issuer has capitals";
    expect(kit, "VX-CRD-2", asked, creed.signed(), "400 schema_invalid").await?;
    let limit = constrain("-1").replace("x-kit", "token_limit");
    let limit = Letter::new("constraint_propagate", PARENT, CHILD, limit)?;
    let asked = "a token_limit below zero";
    expect(
        kit,
        "VX-CP-2",
        asked,
        limit.signed(),
        "400 constraint_invalid",
    )
    .await?;
    let grave = escalation("critical", false);
    let grave = Letter::new("escalation", CHILD, PARENT, grave)?;
    let asked = "a critical escalation that asks for no acknowledgement";
    expect(kit, "VX-ES-2", asked, grave.signed(), "400 schema_invalid").await?;
    Ok(())
}

fn escalation(severity: &str, requires_ack: bool) -> String {
    format!(
        r#"{{"severity":"{severity}","reason":"the kit asks","context":"📍💻","requires_ack":{requires_ack}}}"#
    )
}

async fn directions(kit: &mut Kit<'_>) -> Result<(), Failure> {
    let peer = Letter::new("constraint_propagate", PEER, CHILD, constrain("1"))?;
    let asked = "constraints from an agent that is not the parent";
    expect(kit, "VX-CP-9", asked, peer.signed(), "403 not_authorized").await?;
    let peer = Letter::new("escalation", PEER, PARENT, escalation("info", false))?;
    let asked = "an escalation from an agent that is no child";
    expect(kit, "VX-ES-4", asked, peer.signed(), "403 not_authorized").await?;
    Ok(())
}

/// An emergency holds the child until its parent lets it go on.
async fn suspension(kit: &mut Kit<'_>) -> Result<(), Failure> {
    let cry = Letter::new("escalation", CHILD, PARENT, escalation("emergency", true))?;
    let asked = "an emergency of a child";
    expect(kit, "VX-ACK-5", asked, cry.signed(), "200 accepted").await?;
    let share = Letter::new("context_share", CHILD, PARENT, SHARE)?;
    let asked = "a context_share of the suspended child";
    expect(
        kit,
        "VX-RUN-4",
        asked,
        share.signed(),
        "423 sender_suspended",
    )
    .await?;
    let again = Letter::new("escalation", CHILD, PARENT, escalation("info", false))?;
    let asked = "an escalation of the suspended child";
    expect(kit, "VX-RUN-3", asked, again.signed(), "200 accepted").await?;
    let resume = Letter::new("constraint_propagate", PARENT, CHILD, constrain("1"))?;
    kit.post(&MESSAGES, resume.signed()).await?;
    let share = Letter::new("context_share", CHILD, PARENT, SHARE)?;
    let asked = "a context_share of the child after its parent's constraint_propagate";
    expect(kit, "VX-RUN-6", asked, share.signed(), "200 accepted").await?;
    Ok(())
}
