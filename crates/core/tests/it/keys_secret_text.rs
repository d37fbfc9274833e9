//! Secret seeds from text.

use chancery_core::digest::hex;
use chancery_core::keys::base64;
use chancery_core::keys::ed25519::{SecretError, SigningKey, parse_secret};
use proptest::prelude::*;

const SEED: [u8; 32] = [0x42; 32];

fn pem(der: &[u8]) -> String {
    let body = base64::encode(der);
    let lines: Vec<&str> = (0..body.len())
        .step_by(64)
        .map(|at| &body[at..body.len().min(at + 64)])
        .collect();
    format!(
        "-----BEGIN PRIVATE KEY-----\n{}\n-----END PRIVATE KEY-----\n",
        lines.join("\n")
    )
}

fn pkcs8() -> Vec<u8> {
    let prefix = hex::decode("302e020100300506032b657004220420").unwrap();
    [prefix, SEED.to_vec()].concat()
}

fn pkcs8_with_public(public: &[u8]) -> Vec<u8> {
    let prefix = hex::decode("3051020101300506032b657004220420").unwrap();
    [
        prefix,
        SEED.to_vec(),
        vec![0x81, 0x21, 0x00],
        public.to_vec(),
    ]
    .concat()
}

fn error_of(text: &str) -> SecretError {
    parse_secret(text).unwrap_err()
}

// VX-KEY-8, VA-ID-10
#[test]
fn a_seed_comes_in_hex_or_pem() {
    let expected = SigningKey::from_seed(&SEED).verifying_key();
    let hex_text = hex::encode(&SEED);
    for text in [
        hex_text.clone(),
        hex_text.to_ascii_uppercase(),
        format!("{hex_text}\n"),
        format!("  {hex_text}\r\n"),
        pem(&pkcs8()),
        pem(&pkcs8()).replace('\n', "\r\n"),
        pem(&pkcs8_with_public(expected.as_bytes())),
    ] {
        assert_eq!(parse_secret(&text).unwrap().verifying_key(), expected);
    }
}

// RFC 8410, section 7 and 10.3: the same secret without and with its public key.
#[test]
fn the_keys_of_the_standard_are_read() {
    let seed =
        hex::decode_array("d4ee72dbf913584ad5b6d8f1f769f8ad3afe7c28cbf1d4fbe097a88f44755842");
    let expected = SigningKey::from_seed(&seed.unwrap()).verifying_key();
    let text = "-----BEGIN PRIVATE KEY-----\n\
        MC4CAQAwBQYDK2VwBCIEINTuctv5E1hK1bbY8fdp+K06/nwoy/HU++CXqI9EdVhC\n\
        -----END PRIVATE KEY-----\n";
    assert_eq!(parse_secret(text).unwrap().verifying_key(), expected);
    assert_eq!(
        base64::encode(expected.as_bytes()),
        "Gb9ECWmEzf6FQbrBZ9w7lshQhqowtrbLDFw4rXAxZuE="
    );
}

// VX-KEY-8
#[test]
fn everything_else_is_refused_by_name() {
    let mut x25519 = pkcs8();
    x25519[11] = 0x6e;
    let trailing = [pkcs8(), vec![0]].concat();
    let good = pem(&pkcs8());
    for (text, error) in [
        (String::new(), SecretError::Form),
        ("42".repeat(31), SecretError::Form),
        ("42".repeat(33), SecretError::Form),
        ("4g".repeat(32), SecretError::Form),
        (format!("0x{}", "42".repeat(32)), SecretError::Form),
        (" ".repeat(2_000), SecretError::Form),
        (good.replace("PRIVATE", "PUBLIC"), SecretError::OtherPem),
        (
            good.replace("PRIVATE", "ENCRYPTED PRIVATE"),
            SecretError::OtherPem,
        ),
        (good.replace("-----END", "----END"), SecretError::Pem),
        (good.replace("MC4C", "MC4"), SecretError::Pem),
        (good.replace("MC4C", "MC4?"), SecretError::Pem),
        (pem(&[]), SecretError::Pem),
        (pem(&pkcs8()[..47]), SecretError::OtherAlgorithm),
        (pem(&x25519), SecretError::OtherAlgorithm),
        (pem(&trailing), SecretError::OtherAlgorithm),
        (
            pem(&pkcs8_with_public(&[1; 32])),
            SecretError::PublicMismatch,
        ),
        (pem(&pkcs8_with_public(&[])), SecretError::PublicMismatch),
    ] {
        assert_eq!(error_of(&text), error, "{text}");
    }
}

proptest! {
    // VX-KEY-8: never logged, so an error repeats nothing of the text.
    #[test]
    fn errors_do_not_repeat_the_text(seed in any::<[u8; 31]>()) {
        let text = hex::encode(&seed);
        let error = error_of(&text);
        let printed = format!("{error} {error:?}");
        prop_assert!(!printed.contains(&text[..8]));
    }

    #[test]
    fn nothing_panics(text in "(-----BEGIN PRIVATE KEY-----)?[A-Za-z0-9+/=\n]{0,150}(-----END PRIVATE KEY-----)?") {
        let _ = parse_secret(&text);
    }
}
