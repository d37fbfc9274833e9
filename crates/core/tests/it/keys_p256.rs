//! P-256: keys, signatures.

use chancery_core::digest::hex;
use chancery_core::keys::base64::{self, Base64Error};
use chancery_core::keys::p256::{P256Error, SigningKey, VerifyingKey};
use proptest::prelude::*;

/// RFC 6979, appendix A.2.5.
const SCALAR: &str = "c9afa9d845ba75166b5c215767b1d6934e50c3db36e89b127b8a622b120f6721";
const X: &str = "60fed4ba255a9d31c961eb74c6356d68c049b8923b61fa6ce669622e60f29fb6";
const Y: &str = "7903fe1008b8bc99a41ae9e95628bc64f2f1b20c2d7e9f5177a3c294d4462299";
const ORDER: &str = "ffffffff00000000ffffffffffffffffbce6faada7179e84f3b9cac2fc632551";

fn key() -> SigningKey {
    SigningKey::from_scalar(&hex::decode_array(SCALAR).unwrap()).unwrap()
}

fn point() -> Vec<u8> {
    hex::decode(&format!("04{X}{Y}")).unwrap()
}

#[test]
fn signing_is_that_of_rfc_6979() {
    for (message, r, s) in [
        (
            "sample",
            "efd48b2aacb6a8fd1140dd9cd45e81d69d2c877b56aaf991c34d0ea84eaf3716",
            "f7cb1c942d657c41d436c7a1b6e29f65f3e900dbb9aff4064dc4ab2f843acda8",
        ),
        (
            "test",
            "f1abb023518351cd71d881567b1ea663ed3efcf6c5132b354f28d3b0b7d38367",
            "019f4113742a2b14bd25926b49c649155f267e60d3814b4c0cc84250e46f0083",
        ),
    ] {
        let signature = key().sign(message.as_bytes());
        assert_eq!(hex::encode(&signature), format!("{r}{s}"));
        assert!(key().verifying_key().verify(message.as_bytes(), &signature));
    }
    assert_eq!(key().verifying_key().as_bytes()[..], point());
}

#[test]
fn keys_come_as_points_or_jwk_coordinates() {
    let parsed = VerifyingKey::from_uncompressed(&point()).unwrap();
    let (x, y) = parsed.to_jwk();
    assert_eq!(VerifyingKey::from_jwk(&x, &y).unwrap(), parsed);

    let bad_y = |y: &str| VerifyingKey::from_jwk(&x, y).unwrap_err();
    let coordinate = |why| P256Error::Coordinate { member: "y", why };
    assert_eq!(bad_y(&format!("{y}=")), coordinate(Base64Error::Malformed));
    assert_eq!(
        bad_y(&base64::encode_url(&[1; 31])),
        coordinate(Base64Error::Length {
            expected: 32,
            found: 31
        })
    );
    assert_eq!(bad_y(&x), P256Error::NotAPoint);
}

#[test]
fn other_forms_of_a_point_are_refused() {
    let mut hybrid = point();
    hybrid[0] = 7;
    let compressed = [&[3][..], &point()[1..33]].concat();
    for bytes in [vec![], vec![0], hybrid, compressed, point()[..64].to_vec()] {
        assert_eq!(
            VerifyingKey::from_uncompressed(&bytes).unwrap_err(),
            P256Error::Form
        );
    }
    let mut off_curve = point();
    off_curve[64] ^= 1;
    let mut origin = vec![0; 65];
    origin[0] = 4;
    for bytes in [off_curve, origin] {
        assert_eq!(
            VerifyingKey::from_uncompressed(&bytes).unwrap_err(),
            P256Error::NotAPoint
        );
    }
}

#[test]
fn a_secret_scalar_is_between_one_and_the_order() {
    let order: [u8; 32] = hex::decode_array(ORDER).unwrap();
    for bad in [[0; 32], order, [0xff; 32]] {
        assert_eq!(
            SigningKey::from_scalar(&bad).unwrap_err(),
            P256Error::Scalar
        );
    }
    let mut largest = order;
    largest[31] -= 1;
    assert!(SigningKey::from_scalar(&largest).is_ok());
}

#[test]
fn a_secret_is_not_printed() {
    let printed = format!("{:?}", key());
    assert!(!printed.contains(SCALAR));
    assert!(printed.contains(X));
}

#[test]
fn signatures_of_another_length_are_refused() {
    let signature = key().sign(b"m");
    let public = key().verifying_key();
    for length in 0..64 {
        assert!(!public.verify(b"m", &signature[..length]));
    }
    assert!(!public.verify(b"m", &[&signature[..], &[0]].concat()));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn what_is_signed_verifies_and_nothing_else(
        scalar in any::<[u8; 32]>(), message in prop::collection::vec(any::<u8>(), 0..200), bit in 0..512usize,
    ) {
        let Ok(key) = SigningKey::from_scalar(&scalar) else { return Ok(()) };
        let public = key.verifying_key();
        let mut signature = key.sign(&message);
        prop_assert_eq!(signature, key.sign(&message));
        prop_assert!(public.verify(&message, &signature));
        signature[bit / 8] ^= 1 << (bit % 8);
        prop_assert!(!public.verify(&message, &signature));
    }
}
