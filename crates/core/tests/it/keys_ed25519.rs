//! Ed25519: strict keys, strict signatures, strict texts.

use chancery_core::digest::hex;
use chancery_core::keys::base64::{self, Base64Error};
use chancery_core::keys::ed25519::{
    PublicKeyError, PublicKeyTextError, SignatureTextError, SigningKey, VerifyingKey,
    decode_public_key, decode_signature, encode_public_key, encode_signature,
};
use proptest::prelude::*;

use crate::keys_vectors::{cases, text};

fn seed(text: &str) -> [u8; 32] {
    hex::decode_array(text).unwrap()
}

// VA-ID-2, VA-ID-3: the public key follows from the seed.
#[test]
fn public_keys_follow_from_the_recorded_seeds() {
    for case in cases("vacant/keys.json", "cases") {
        let key = SigningKey::from_seed(&seed(text(&case, "seed_hex")));
        let public = hex::encode(key.verifying_key().as_bytes());
        assert_eq!(public, text(&case, "vacant_id_hex"), "{}", case["id"]);
    }
}

// VX-SIG-4, VX-SIG-5, VA-ID-3: signing is deterministic, so whole signatures compare.
#[test]
fn recorded_signatures_are_made_again_and_verify() {
    for case in cases("value-context/signed_messages.json", "vectors") {
        let key = SigningKey::from_seed(&seed(text(&case, "signer_seed_hex")));
        let message = hex::decode(text(&case, "signed_bytes_hex")).unwrap();
        let signature = key.sign(&message);
        assert_eq!(encode_signature(&signature), text(&case, "signature"));
        let public = hex::decode(text(&case, "public_key_hex")).unwrap();
        let public = VerifyingKey::from_bytes(&public).unwrap();
        assert!(public.verify(&message, &signature), "{}", case["id"]);
        assert!(!public.verify(&message[1..], &signature), "{}", case["id"]);
    }
}

/// The eight points of small order, in their canonical encodings.
const SMALL_ORDER: [&str; 8] = [
    "0100000000000000000000000000000000000000000000000000000000000000",
    "ecffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f",
    "0000000000000000000000000000000000000000000000000000000000000000",
    "0000000000000000000000000000000000000000000000000000000000000080",
    "26e8958fc2b227b045c3f489f2ef98f0d5dfac05d3c63339b13802886d53fc05",
    "26e8958fc2b227b045c3f489f2ef98f0d5dfac05d3c63339b13802886d53fc85",
    "c7176a703d4dd84fba3c0b760d10670f2a2053fa2c39ccc64ec7fd7792ac037a",
    "c7176a703d4dd84fba3c0b760d10670f2a2053fa2c39ccc64ec7fd7792ac03fa",
];

// VX-SIG-6, VA-ID-4
#[test]
fn keys_of_small_order_are_refused() {
    for text in SMALL_ORDER {
        assert_eq!(
            VerifyingKey::from_bytes(&seed(text)),
            Err(PublicKeyError::SmallOrder),
            "{text}"
        );
    }
}

// VX-SIG-6, VA-ID-4: y written as y + p, and the sign of x = 0 set.
#[test]
fn keys_in_another_encoding_are_refused() {
    // Of y = 0 to 18, the ones that fit below 2^255 a second time, these are on the curve.
    let on_curve = [0, 1, 3, 4, 5, 6, 9, 10, 14, 15, 16, 18];
    for y in 0..=18u8 {
        for sign in [0, 0x80] {
            let mut bytes = [0xff; 32];
            bytes[0] = 0xed + y;
            bytes[31] = 0x7f | sign;
            let expected = if on_curve.contains(&y) {
                PublicKeyError::NotCanonical
            } else {
                PublicKeyError::NotAPoint
            };
            assert_eq!(VerifyingKey::from_bytes(&bytes), Err(expected), "y = {y}");
        }
    }
    for x_is_zero in [SMALL_ORDER[0], SMALL_ORDER[1]] {
        let mut bytes = seed(x_is_zero);
        bytes[31] |= 0x80;
        assert_eq!(
            VerifyingKey::from_bytes(&bytes),
            Err(PublicKeyError::NotCanonical)
        );
    }
}

// VA-ID-5: well-formed as an identity, but no key: y = 2 is not on the curve.
#[test]
fn what_is_no_point_is_refused() {
    let mut bytes = [0; 32];
    bytes[0] = 2;
    assert_eq!(
        VerifyingKey::from_bytes(&bytes),
        Err(PublicKeyError::NotAPoint)
    );
    for length in [0, 31, 33, 64] {
        assert_eq!(
            VerifyingKey::from_bytes(&vec![9; length]),
            Err(PublicKeyError::Length { found: length })
        );
    }
}

/// S + L for the S of a signature; both are below 2^256.
fn with_order_added(signature: &[u8; 64]) -> [u8; 64] {
    // RFC 8032: L = 2^252 + 27742317777372353535851937790883648493, little-endian.
    let order = seed("edd3f55c1a631258d69cf7a2def9de1400000000000000000000000000000010");
    let mut sum = *signature;
    let mut carry = 0;
    for (byte, add) in sum[32..].iter_mut().zip(order) {
        let total = u16::from(*byte) + u16::from(add) + carry;
        *byte = total as u8;
        carry = total >> 8;
    }
    assert_eq!(carry, 0);
    sum
}

// VX-SIG-6, VA-ID-4: S at or above the group order would be a second signature of the same message.
#[test]
fn a_signature_with_s_above_the_order_is_refused() {
    let key = SigningKey::from_seed(&[3; 32]);
    for message in 0..64u8 {
        let signature = key.sign(&[message]);
        assert!(key.verifying_key().verify(&[message], &signature));
        let other = with_order_added(&signature);
        assert!(!key.verifying_key().verify(&[message], &other));
    }
}

// VA-ID-4: R of small order fails, and so does every length but 64.
#[test]
fn degenerate_signatures_are_refused() {
    let key = SigningKey::from_seed(&[4; 32]);
    let public = key.verifying_key();
    for r in SMALL_ORDER {
        let mut signature = [0; 64];
        signature[..32].copy_from_slice(&seed(r));
        assert!(!public.verify(b"", &signature));
    }
    let signature = key.sign(b"hello");
    for length in 0..64 {
        assert!(!public.verify(b"hello", &signature[..length]));
    }
    let longer = [&signature[..], &[0]].concat();
    assert!(!public.verify(b"hello", &longer));
}

// VA-ID-4: R is the neutral point and S = H(R, A, message) times the secret scalar, so that the equation
// holds; only the check of R's order refuses it.
#[test]
fn a_small_r_is_refused_though_the_equation_holds() {
    let s = "e17dc5091366a8e62d90ec1c7c2766090ca5625808b10c58e0012017db822b06";
    let signature = hex::decode(&[SMALL_ORDER[0], s].concat()).unwrap();
    let public = SigningKey::from_seed(&[4; 32]).verifying_key();

    let lax = ed25519_dalek::VerifyingKey::from_bytes(public.as_bytes()).unwrap();
    let parsed = ed25519_dalek::Signature::from_slice(&signature).unwrap();
    assert!(ed25519_dalek::Verifier::verify(&lax, b"hello", &parsed).is_ok());
    assert!(!public.verify(b"hello", &signature));
}

// VX-SIG-5: 95 characters, padding required, no trailing bits, exactly 64 bytes.
#[test]
fn signature_texts_have_one_spelling() {
    let signature = SigningKey::from_seed(&[5; 32]).sign(b"m");
    let text = encode_signature(&signature);
    assert_eq!(text.len(), 95);
    assert_eq!(decode_signature(&text), Ok(signature));

    let value = text.strip_prefix("base64:").unwrap();
    let shape = SignatureTextError::Shape;
    let malformed = SignatureTextError::Value(Base64Error::Malformed);
    let bare = value.trim_end_matches('=');
    // The last character before the padding holds four spare bits, which are zero.
    let (head, last) = bare.split_at(bare.len() - 1);
    let spare = char::from(last.as_bytes()[0] + 1);
    for (bad, error) in [
        (String::new(), shape),
        ("base64:".to_owned(), shape),
        (value.to_owned(), shape),
        (format!("BASE64:{value}"), shape),
        (format!("ed25519:{value}"), shape),
        (format!("{text}\n"), shape),
        (format!("base64: {value}"), shape),
        (format!("base64:{}-_", &value[2..]), shape),
        (format!("base64:{bare}"), malformed),
        (format!("base64:{bare}="), malformed),
        (format!("base64:{bare}==="), malformed),
        (format!("base64:{head}{spare}=="), malformed),
        ("base64:====".to_owned(), malformed),
        (
            "base64:AAAA".to_owned(),
            SignatureTextError::Value(Base64Error::Length {
                expected: 64,
                found: 3,
            }),
        ),
    ] {
        assert_eq!(decode_signature(&bad), Err(error), "{bad:?}");
    }
}

// VX-KEY-2
#[test]
fn public_keys_come_raw_or_as_subject_public_key_info() {
    let key = SigningKey::from_seed(&[6; 32]).verifying_key();
    let spki = [
        &hex::decode("302a300506032b6570032100").unwrap(),
        &key.as_bytes()[..],
    ]
    .concat();
    for bytes in [key.as_bytes().to_vec(), spki.clone()] {
        for prefix in ["base64:", "ed25519:"] {
            let text = format!("{prefix}{}", base64::encode(&bytes));
            assert_eq!(decode_public_key(&text), Ok(key), "{text}");
        }
    }
    assert_eq!(decode_public_key(&encode_public_key(&key)), Ok(key));

    let mut x25519 = spki;
    x25519[8] = 0x6e;
    let private = hex::decode("302e020100300506032b657004220420").unwrap();
    let private = [private, vec![6; 32]].concat();
    let short = PublicKeyTextError::Key(PublicKeyError::Length { found: 31 });
    let small = PublicKeyTextError::Key(PublicKeyError::SmallOrder);
    for (text, error) in [
        (base64::encode(key.as_bytes()), PublicKeyTextError::Prefix),
        ("base64:?".to_owned(), PublicKeyTextError::Base64),
        (
            format!("base64:{}", base64::encode(&private)),
            PublicKeyTextError::PrivateKey,
        ),
        (
            format!("base64:{}", base64::encode(&x25519)),
            PublicKeyTextError::OtherAlgorithm,
        ),
        (format!("base64:{}", base64::encode(&[6; 31])), short),
        (format!("base64:{}", base64::encode(&[0; 32])), small),
    ] {
        assert_eq!(decode_public_key(&text), Err(error), "{text}");
    }
    // A plain message, without the key.
    assert!(
        PublicKeyTextError::PrivateKey
            .to_string()
            .contains("private key")
    );
}

// VA-ID-10: nothing secret in what Debug prints.
#[test]
fn a_secret_is_not_printed() {
    let key = SigningKey::from_seed(&[0x5a; 32]);
    let printed = format!("{key:?}");
    assert!(!printed.contains("5a5a") && !printed.contains("90, 90"));
    assert!(printed.contains(&hex::encode(key.verifying_key().as_bytes())));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn what_is_signed_verifies_and_nothing_else(
        seed in any::<[u8; 32]>(), message in prop::collection::vec(any::<u8>(), 0..200), bit in 0..512usize,
    ) {
        let key = SigningKey::from_seed(&seed);
        let public = VerifyingKey::from_bytes(key.verifying_key().as_bytes()).unwrap();
        let mut signature = key.sign(&message);
        prop_assert_eq!(signature, key.sign(&message));
        prop_assert!(public.verify(&message, &signature));
        signature[bit / 8] ^= 1 << (bit % 8);
        prop_assert!(!public.verify(&message, &signature));
    }

    // VA-ID-4: verification answers true or false and never panics.
    #[test]
    fn nothing_panics(key in any::<[u8; 32]>(), message in any::<[u8; 8]>(), signature in prop::collection::vec(any::<u8>(), 0..130)) {
        if let Ok(key) = VerifyingKey::from_bytes(&key) {
            prop_assert!(!key.verify(&message, &signature));
        }
    }

    // VX-SIG-5
    #[test]
    fn signature_texts_round_trip(bytes in prop::collection::vec(any::<u8>(), 64), junk in "base64:[A-Za-z0-9+/=]{80,95}") {
        let signature = <[u8; 64]>::try_from(bytes).unwrap();
        prop_assert_eq!(decode_signature(&encode_signature(&signature)), Ok(signature));
        if let Ok(read) = decode_signature(&junk) {
            prop_assert_eq!(encode_signature(&read), junk);
        }
    }
}
