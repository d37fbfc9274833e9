//! A failed signature, as `chancery send` and `chancery log explain` tell it.

use chancery_core::keys::ed25519::{SigningKey, encode_signature, parse_secret};
use chancery_core::time::format_millis;
use chancery_node::Clock;
use serde_json::Value;

use crate::running_node::{KITCHEN, LIVING_ROOM, RunningNode};
use crate::support::Ran;

const ID: &str = "019c60dc-5b60-7000-8000-00000000000";

/// A node that accepts no legacy form, and the key of its living room.
struct Strict {
    node: RunningNode,
    key: SigningKey,
    stamp: String,
}

impl Strict {
    fn start() -> Self {
        let off = ("CHANCERY_VALUE_CONTEXT_ACCEPT_LEGACY_CANONICAL", "false");
        let node = RunningNode::start_with(&[off]);
        let key = parse_secret(&node.place.read("living-room.key")).unwrap();
        let stamp = format_millis(Clock::System.now()).as_str().to_owned();
        Self { node, key, stamp }
    }

    fn text(&self, number: u8, payload: &str) -> String {
        self.message(number, "context_share", payload)
    }

    fn message(&self, number: u8, kind: &str, payload: &str) -> String {
        let stamp = &self.stamp;
        format!(
            r#"{{"message_id":"{ID}{number}","payload":{payload},"recipient":"{KITCHEN}","sender":"{LIVING_ROOM}","timestamp":"{stamp}","type":"{kind}","vcp_message":"1.2"}}"#
        )
    }

    fn sign(&self, bytes: &str) -> String {
        encode_signature(&self.key.sign(bytes.as_bytes()))
    }

    /// Sends the text with a signature, for people and for machines, and asks the log about it.
    fn refused(&self, number: u8, text: &str, signature: &str) -> (String, Value, String, Value) {
        let body = format!(r#"{},"signature":"{signature}"}}"#, &text[..text.len() - 1]);
        self.node.place.write("whole.json", body);
        let send = ["send", "value-context", "whole.json"];
        let words = self.node.run_as(None, &send).exits(1).text();
        let send = ["send", "value-context", "whole.json", "--json"];
        let told = self.node.run_as(None, &send).exits(1).json();
        let id = format!("{ID}{number}");
        // The note is written in groups, a moment after the answer.
        let noted_twice = |ran: &Ran| ran.text().matches("refused at ").count() == 2;
        let explained = (0..10_000)
            .map(|_| self.node.run(&["log", "explain", &id]))
            .find(noted_twice)
            .unwrap()
            .exits(1)
            .text();
        let machine = self.node.run(&["log", "explain", &id, "--json"]);
        let noted = machine.exits(1).json()["refused"][0].clone();
        (words, told["error"].clone(), explained, noted)
    }

    fn check(&self, number: u8, text: &str, signature: &str, way: &str, difference: usize) {
        let (words, told, explained, noted) = self.refused(number, text, signature);
        let line = format!("verifies as  {way}, first difference at byte {difference}");
        assert!(words.contains(&line), "{words}");
        let line =
            format!("the signature would verify as {way}, first difference at byte {difference}");
        assert!(explained.contains(&line), "{explained}");
        for members in [told, noted] {
            assert_eq!(members["would_verify_as"], way, "{members}");
            assert_eq!(members["first_difference_at"], difference, "{members}");
        }
    }
}

const PAYLOAD: &str = r#"{"constitution_ref":"creed://creed.space/a@1.2.0","context":"⏰🌅","personal_state":{"energy":7.0}}"#;

#[test]
fn the_cause_is_told_where_there_is_one() {
    // VX-SIG-4, VX-SIG-5, VX-CAN-4, VX-CAN-5, CH-CLI-3
    let strict = Strict::start();
    let normal = PAYLOAD.replace("7.0", "7");

    let text = strict.text(1, PAYLOAD);
    let at = text.find("7.0").unwrap() + 1;
    strict.check(1, &text, &strict.sign(&text), "python_numbers", at);

    let (text, demanded) = (strict.text(2, PAYLOAD), strict.text(2, &normal));
    let at = demanded.find('⏰').unwrap();
    let escaped = demanded.replace("⏰🌅", "\\u23f0\\ud83c\\udf05");
    strict.check(2, &text, &strict.sign(&escaped), "ascii_escapes", at);

    let text = strict.text(3, PAYLOAD);
    strict.check(3, &text, &strict.sign(&normal), "payload_only", 2);

    let constraint = |value: &str| {
        format!(
            r#"{{"constraints":[{{"source_constitution_ref":"creed://creed.space/a@1.0.0","type":"x","value":{value}}}],"propagation_mode":"merge"}}"#
        )
    };
    let message = |value: &str| strict.message(6, "constraint_propagate", &constraint(value));
    let demanded = message("{\"𐀀\":1,\"\u{e000}\":2}");
    let signature = strict.sign(&message("{\"\u{e000}\":2,\"𐀀\":1}"));
    let at = demanded.find('𐀀').unwrap();
    strict.check(6, &demanded, &signature, "code_point_order", at);

    // Which characters a signature has depends on the time; unpadded it is wrong in any case.
    let (text, demanded) = (strict.text(4, PAYLOAD), strict.text(4, &normal));
    let standard = strict.sign(&demanded);
    let url = standard.replace('+', "-").replace('/', "_");
    let at = standard[7..].find(['+', '/', '=']).unwrap() + 7;
    strict.check(4, &text, url.trim_end_matches('='), "base64url", at);
}

#[test]
fn where_none_helps_that_is_told() {
    // CH-CLI-3
    let strict = Strict::start();
    let text = strict.text(5, PAYLOAD);
    let other = SigningKey::from_seed(&[9; 32]).sign(text.as_bytes());
    let (words, told, explained, noted) = strict.refused(5, &text, &encode_signature(&other));
    assert!(
        words.contains("no other dialect or encoding helps"),
        "{words}"
    );
    assert!(!words.contains("verifies as"), "{words}");
    let line = "the signature verifies in no other dialect or encoding either";
    assert!(explained.contains(line), "{explained}");
    for members in [told, noted] {
        assert_eq!(members.get("would_verify_as"), Some(&Value::Null));
        assert_eq!(members.get("first_difference_at"), Some(&Value::Null));
    }
}
