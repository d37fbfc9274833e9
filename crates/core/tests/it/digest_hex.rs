//! Digests and their hex text.

use chancery_core::digest::hex::{self, HexError};
use chancery_core::digest::{Blake2b256, Sha256, Sha256Digest};
use proptest::prelude::*;

use crate::keys_vectors::{cases, text};

/// FIPS 180-2 example.
const SHA256_ABC: &str = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";

#[test]
fn sha256_of_the_standard_example() {
    assert_eq!(Sha256Digest::of(b"abc").hex(), SHA256_ABC);
    assert_eq!(Sha256Digest::of(b"abc").to_string(), SHA256_ABC);
}

// VA-ID-6: the digest length is a parameter of the hash; cutting BLAKE2b-512 gives other bytes.
#[test]
fn blake2b_256_is_not_a_cut_blake2b_512() {
    let abc = Blake2b256::of(b"abc");
    assert_eq!(
        abc.hex(),
        "bddd813c634239723171ef3fee98579b94964e3bb1cb3e427262c8c068d52319"
    );
    // RFC 7693 appendix A, the first half.
    let cut = "ba80a53f981c4d0d6a2797b69f12f6e94c212f14685ac4b74b12bb6fdbffa2d1";
    assert_ne!(abc.hex(), cut);
}

// VA-ID-6: the hash of an envelope is over its signing payload.
#[test]
fn blake2b_256_of_the_recorded_envelopes() {
    for case in cases("vacant/envelopes_base.json", "cases") {
        let payload = hex::decode(text(&case, "signing_payload_hex")).unwrap();
        assert_eq!(
            Blake2b256::of(&payload).hex(),
            text(&case, "hash_hex"),
            "{}",
            case["id"]
        );
    }
}

// VA-ID-7
#[test]
fn zero_is_sixty_four_zeros() {
    assert_eq!(Blake2b256::ZERO.hex(), "0".repeat(64));
    assert_eq!(Sha256Digest::ZERO.hex(), "0".repeat(64));
}

// VA-ID-8: both cases in, lower case out; blanks, odd lengths and other characters refused.
#[test]
fn hex_is_read_in_both_cases_and_written_in_one() {
    let upper = SHA256_ABC.to_ascii_uppercase();
    assert_eq!(Sha256Digest::from_hex(&upper).unwrap().hex(), SHA256_ABC);
    assert_eq!(
        Sha256Digest::from_lower_hex(&upper),
        Err(HexError::Digit { at: 0 })
    );
    assert_eq!(hex::decode("aB0"), Err(HexError::OddLength));
    assert_eq!(hex::decode("ab 0"), Err(HexError::Digit { at: 2 }));
    assert_eq!(hex::decode("0xab"), Err(HexError::Digit { at: 1 }));
    assert_eq!(hex::decode("aé0"), Err(HexError::Digit { at: 1 }));
    assert_eq!(hex::decode(""), Ok(Vec::new()));
    assert_eq!(
        Sha256Digest::from_hex("ab"),
        Err(HexError::Length {
            expected: 64,
            found: 2
        })
    );
}

#[test]
fn a_digest_is_its_hex_text_in_json() {
    let digest = Sha256Digest::of(b"abc");
    let json = serde_json::to_string(&digest).unwrap();
    assert_eq!(json, format!("\"{SHA256_ABC}\""));
    assert_eq!(serde_json::from_str::<Sha256Digest>(&json).unwrap(), digest);
    assert!(serde_json::from_str::<Sha256Digest>(&json.to_ascii_uppercase()).is_err());
}

proptest! {
    #[test]
    fn hex_round_trips(bytes in prop::collection::vec(any::<u8>(), 0..100)) {
        let lower = hex::encode(&bytes);
        prop_assert!(!lower.bytes().any(|byte| byte.is_ascii_uppercase()));
        prop_assert_eq!(hex::decode(&lower), Ok(bytes.clone()));
        prop_assert_eq!(hex::decode(&lower.to_ascii_uppercase()), Ok(bytes));
    }

    #[test]
    fn hex_never_panics(text in "\\PC{0,80}") {
        let is_hex = text.len() % 2 == 0 && text.bytes().all(|byte| byte.is_ascii_hexdigit());
        prop_assert_eq!(hex::decode(&text).is_ok(), is_hex);
    }

    #[test]
    fn pieces_hash_like_the_whole(pieces in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..90), 0..6)) {
        let mut hash = Sha256::new();
        for piece in &pieces {
            hash.update(piece);
        }
        prop_assert_eq!(hash.finish(), Sha256Digest::of(&pieces.concat()));
    }
}
