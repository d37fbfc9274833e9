//! Detached ES256 signatures.

use chancery_core::digest::hex;
use chancery_core::keys::jws::{Detached, JwsError, sign, signing_input};
use chancery_core::keys::p256::{SigningKey, VerifyingKey};
use proptest::prelude::*;

// VC-SIG-7
const SCALAR: &str = "db7c60e87c8d38a349c21a654c20b84bcb9781ea1b9795ee4d3ee9f5ed099fe5";
const X: &str = "avmlGS3_AwjD8R41Hc37-tidJmZknaymgaExvwwzVW4";
const Y: &str = "VjkOTHm_3FfGT9E6hLzt4oqKKXLoke0_vfx1JqoWueg";
const HEADER: &[u8] = br#"{"alg":"ES256","kid":"k1"}"#;
const BODY: &[u8] = br#"{"action":{"kind":"commerce.search","payload":{"query":"quiet keyboard"}},"from":"buyer:discovery","idempotency_key":null,"in_reply_to":null,"msg_id":"msg_v2","protocol":"vcp","session_id":"sess_v1","to":"platform:aggregator","ts":"2026-05-15T12:00:00Z","version":"1.0"}"#;
const SIGNED: &str = "eyJhbGciOiJFUzI1NiIsImtpZCI6ImsxIn0..T31vtgq5gUhyVrzElJrp03_xUfpdPHccqctbIDbJ1cJmOg1UyJCYnEsED6X36_Essy4p-GU7SALcKLThY-1cKQ";

fn key() -> SigningKey {
    SigningKey::from_scalar(&hex::decode_array(SCALAR).unwrap()).unwrap()
}

// VC-SIG-2, VC-SIG-7: byte for byte.
#[test]
fn the_signature_of_the_specification_comes_out() {
    let public = VerifyingKey::from_jwk(X, Y).unwrap();
    assert_eq!(key().verifying_key(), public);
    assert_eq!(sign(&key(), HEADER, BODY), SIGNED);

    let detached = Detached::parse(SIGNED).unwrap();
    assert_eq!(detached.header, HEADER);
    assert!(detached.verify(&public, BODY));
}

// VC-SIG-2: header and body are both covered.
#[test]
fn a_change_of_header_body_or_signature_shows() {
    let public = key().verifying_key();
    let good = Detached::parse(SIGNED).unwrap();
    assert!(!good.verify(&public, &BODY[1..]));
    let mut other = good.clone();
    other.header[20] ^= 1;
    assert!(!other.verify(&public, BODY));
    let mut other = good;
    other.signature[40] ^= 1;
    assert!(!other.verify(&public, BODY));
}

// VC-SIG-4: wrong shapes.
#[test]
fn other_shapes_are_refused_by_name() {
    let (header, signature) = SIGNED.split_once("..").unwrap();
    for (text, error) in [
        (String::new(), JwsError::Shape),
        (header.to_owned(), JwsError::Shape),
        (format!("{header}.{signature}"), JwsError::Shape),
        (format!("{header}.e30.{signature}"), JwsError::Shape),
        (format!("{header}...{signature}"), JwsError::Shape),
        (format!("..{signature}"), JwsError::Shape),
        (format!("{header}.."), JwsError::Shape),
        (format!("{SIGNED}."), JwsError::Shape),
        (format!("{header}=..{signature}"), JwsError::Header),
        (format!(" {header}..{signature}"), JwsError::Header),
        (format!("{header}..{signature}=="), JwsError::Signature),
        (format!("{header}..{signature}AA"), JwsError::Signature),
        (format!("{header}..AAAA"), JwsError::Signature),
        (SIGNED.replace('_', "/"), JwsError::Signature),
    ] {
        assert_eq!(Detached::parse(&text), Err(error), "{text}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(32))]

    #[test]
    fn every_header_and_body_round_trip(header in prop::collection::vec(any::<u8>(), 1..60), body in prop::collection::vec(any::<u8>(), 0..300)) {
        let detached = Detached::parse(&sign(&key(), &header, &body)).unwrap();
        prop_assert_eq!(&detached.header, &header);
        prop_assert!(detached.verify(&key().verifying_key(), &body));
        prop_assert_eq!(signing_input(&header, &body).matches('.').count(), 1);
    }

    #[test]
    fn nothing_panics(text in "[A-Za-z0-9_.=-]{0,140}") {
        let _ = Detached::parse(&text);
    }
}
