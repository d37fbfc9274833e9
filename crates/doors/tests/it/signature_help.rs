//! A refused signature says in which other dialect or encoding it would verify.

use chancery_core::keys::ed25519::{SigningKey, encode_signature};
use chancery_node::suite::AllSettings;
use chancery_value_context::settings::Settings;
use serde_json::{Value, json};

use crate::support::{CHILD, LIVING_ROOM, PARENT, Running, Setup, envelope, key_of, message_id};

/// The envelope of the support as RFC 8785 writes it, with a state whose one number is `energy`.
fn demanded(energy: &str) -> String {
    let whole = envelope(1);
    let text = |name: &str| whole["payload"][name].as_str().unwrap().to_owned();
    format!(
        r#"{{"message_id":"{}","payload":{{"constitution_ref":"{}","context":"{}","personal_state":{{"energy":{energy}}}}},"recipient":"{}","sender":"{}","timestamp":"{}","type":"context_share","vcp_message":"1.2"}}"#,
        message_id(1),
        text("constitution_ref"),
        text("context"),
        whole["recipient"].as_str().unwrap(),
        whole["sender"].as_str().unwrap(),
        whole["timestamp"].as_str().unwrap(),
    )
}

/// The envelope with its fraction as received, and a signature over other bytes.
fn body(signature: &str) -> String {
    let text = demanded("7.0");
    format!(r#"{},"signature":"{signature}"}}"#, &text[..text.len() - 1])
}

fn signed(bytes: &str) -> String {
    encode_signature(&key_of(LIVING_ROOM).sign(bytes.as_bytes()))
}

async fn strict_node() -> Running {
    let value_context = Settings {
        accept_legacy_canonical: false,
        ..Settings::default()
    };
    let settings = AllSettings {
        value_context,
        ..AllSettings::default()
    };
    Setup {
        settings,
        ..Setup::default()
    }
    .start()
    .await
}

async fn refused(node: &Running, signature: &str) -> (u16, Value) {
    let (status, body) = node.share(body(signature)).await;
    assert_eq!(body["message_id"], message_id(1));
    assert_eq!(body["error"]["path"], "/signature", "{body}");
    (status, body["error"].clone())
}

async fn check(node: &Running, signature: &str, way: &str, difference: usize) {
    let (status, error) = refused(node, signature).await;
    assert_eq!(status, 401, "{way}");
    assert_eq!(error["code"], "signature_invalid");
    assert_eq!(error["would_verify_as"], way);
    assert_eq!(error["first_difference_at"], difference, "{way}");
    let words = error["message"].as_str().unwrap();
    assert!(
        words.contains(&format!("as {way} it would verify")),
        "{words}"
    );
    assert!(words.contains(&format!("byte {difference}")), "{words}");
}

// VX-SIG-4, VX-SIG-5, VX-CAN-4, VX-CAN-5, VX-ERR-2
#[tokio::test(flavor = "multi_thread")]
async fn each_cause_is_told() {
    let node = strict_node().await;
    let demanded_7 = demanded("7");
    let python = demanded("7.0");
    let at = demanded_7.find(":7}").unwrap() + 2;
    check(&node, &signed(&python), "python_numbers", at).await;
    let ascii: String = demanded_7
        .encode_utf16()
        .map(|unit| match u8::try_from(unit) {
            Ok(byte) if byte.is_ascii() => char::from(byte).to_string(),
            _ => format!("\\u{unit:04x}"),
        })
        .collect();
    let at = demanded_7.find('⏰').unwrap();
    check(&node, &signed(&ascii), "ascii_escapes", at).await;
    let start = demanded_7.find("{\"constitution_ref").unwrap();
    let end = demanded_7.find(",\"recipient\"").unwrap();
    check(&node, &signed(&demanded_7[start..end]), "payload_only", 2).await;
    node.stop().await;
}

// VX-CAN-2: only names inside a constraint's value can sort differently.
#[tokio::test(flavor = "multi_thread")]
async fn another_order_of_names_is_told() {
    let node = strict_node().await;
    let text = |value: &str| {
        format!(
            r#"{{"message_id":"{}","payload":{{"constraints":[{{"source_constitution_ref":"creed://creed.space/a@1.0.0","type":"x","value":{value}}}],"propagation_mode":"merge"}},"recipient":"{CHILD}","sender":"{PARENT}","timestamp":"2026-02-15T10:33:00Z","type":"constraint_propagate","vcp_message":"1.2"}}"#,
            message_id(1),
        )
    };
    let demanded = text("{\"𐀀\":1,\"\u{e000}\":2}");
    let signed = key_of(PARENT).sign(text("{\"\u{e000}\":2,\"𐀀\":1}").as_bytes());
    let signature = encode_signature(&signed);
    let body = format!(
        r#"{},"signature":"{signature}"}}"#,
        &demanded[..demanded.len() - 1]
    );
    let (status, body) = node.share(body).await;
    assert_eq!(status, 401, "{body}");
    assert_eq!(body["error"]["would_verify_as"], "code_point_order");
    let at = demanded.find('𐀀').unwrap();
    assert_eq!(body["error"]["first_difference_at"], at);
    node.stop().await;
}

// VX-SIG-5: another alphabet is a fault of the text's shape, and is helped all the same.
#[tokio::test(flavor = "multi_thread")]
async fn another_alphabet_is_told() {
    let node = strict_node().await;
    let standard = signed(&demanded("7"));
    let first = standard[7..].find(['+', '/']).unwrap() + 7;
    let url = standard.replace('+', "-").replace('/', "_");
    let (status, error) = refused(&node, &url).await;
    assert_eq!((status, &error["code"]), (400, &json!("schema_invalid")));
    assert_eq!(error["would_verify_as"], "base64url");
    assert_eq!(error["first_difference_at"], first);
    node.stop().await;
}

// VX-ERR-2
#[tokio::test(flavor = "multi_thread")]
async fn where_none_helps_that_is_told() {
    let node = strict_node().await;
    let other = SigningKey::from_seed(&[9; 32]).sign(demanded("7").as_bytes());
    let (status, error) = refused(&node, &encode_signature(&other)).await;
    assert_eq!(status, 401);
    let members = error.as_object().unwrap();
    assert_eq!(members["would_verify_as"], Value::Null);
    assert_eq!(members["first_difference_at"], Value::Null);
    node.stop().await;
}

// CH-LIM-1: a stranger cannot buy verifications: nothing is tried for a sender without a key, and for the others only
// so often in a second. Here the seconds in which the requests fall have 16 each at most.
#[tokio::test(flavor = "multi_thread")]
async fn help_is_bounded() {
    let limits = chancery_doors::http::HttpLimits {
        failures_per_s: u32::MAX,
        ..Default::default()
    };
    let node = Setup {
        limits,
        ..Setup::default()
    }
    .start()
    .await;
    let unknown = body(&signed("")).replace("living-room-agent", "unknown");
    let (status, body_) = node.share(unknown).await;
    assert_eq!(status, 403);
    assert!(
        !body_["error"]
            .as_object()
            .unwrap()
            .contains_key("would_verify_as")
    );
    let started = std::time::Instant::now();
    let mut helped = 0;
    for _ in 0..200 {
        let (_, error) = refused(&node, &signed("")).await;
        helped += u64::from(error.as_object().unwrap().contains_key("would_verify_as"));
    }
    let seconds = started.elapsed().as_secs() + 2;
    assert!(
        helped >= 1 && helped <= 16 * seconds,
        "{helped} in {seconds} s"
    );
    node.stop().await;
}
