//! One buffer for all dialects: when it may be used, and what is cut from it.

use chancery_core::canonical::{Canonical, Dialect, canonical_cutting, to_bytes};

use crate::canonical_support::permissive;

const DIALECTS: [Dialect; 3] = [Dialect::Rfc8785, Dialect::Python, Dialect::Vibe];

fn cutting(text: &str) -> Canonical {
    canonical_cutting(&permissive(text.as_bytes()), "signature", Dialect::Rfc8785)
}

#[test]
fn agreement_is_said_exactly_when_the_bytes_are_the_same() {
    let table = [
        (
            r#"{"b":[1,-7,0,9007199254740991,-9007199254740991],"a":"é"}"#,
            true,
        ),
        (r#"{"n":-0}"#, true),
        (r#"{"n":0.75}"#, true),
        (r#"{"n":1.50}"#, true),
        (r#"{"n":7.0}"#, false),
        (r#"{"n":-0.0}"#, false),
        (r#"{"n":[[{"x":1e-7}]]}"#, false),
        (r#"{"n":1e-10}"#, true),
        (r#"{"n":0.00001}"#, false),
        (r#"{"n":1e16}"#, false),
        (r#"{"n":1e21}"#, true),
        (r#"{"n":9007199254740992}"#, true),
        (r#"{"n":9007199254740993}"#, false),
        (r#"{"n":1000000000000000000000}"#, false),
        // Names: a supplementary character before, against and beside one from U+E000 up.
        ("{\"\u{10000}\":1}", true),
        ("{\"\u{10000}\":1,\"a\":2}", true),
        ("{\"\u{e000}\":1,\"\u{10000}\":2}", false),
        ("{\"x\u{ffff}\":1,\"x\u{1f600}\":2}", false),
        ("{\"x\u{ffff}\":1,\"y\u{1f600}\":2}", true),
        ("{\"a\":{\"\u{e000}\":1},\"b\":{\"\u{10000}\":2}}", true),
        ("{\"s\":\"\u{e000}\u{10000}\"}", true),
    ];
    for (text, expected) in table {
        let value = permissive(text.as_bytes());
        let forms = DIALECTS.map(|dialect| to_bytes(&value, dialect));
        assert_eq!(
            forms[0] == forms[1] && forms[1] == forms[2],
            expected,
            "{text}"
        );
        for dialect in DIALECTS {
            assert_eq!(
                canonical_cutting(&value, "", dialect).agree(),
                expected,
                "{text}"
            );
        }
    }
}

#[test]
fn a_rewritten_token_is_told() {
    // CH-JRN-3, AG-ENV-19
    for (text, expected) in [
        (r#"{"b":1,"a":[0.5,-3,1e+30]}"#, true),
        (r#"{"a":1.0}"#, false),
        (r#"{"a":-0}"#, false),
        (r#"{"a":[{"b":1e30}]}"#, false),
        (r#"{"a":"1.0"}"#, true),
    ] {
        assert_eq!(cutting(text).verbatim(), expected, "{text}");
    }
}

#[test]
fn the_named_member_is_cut_with_its_comma() {
    // VX-CAN-1
    let table = [
        (r#"{"signature":"s"}"#, "{}"),
        (r#"{"signature":"s","z":1}"#, r#"{"z":1}"#),
        (r#"{"signature":"s","a":1}"#, r#"{"a":1}"#),
        (
            r#"{"z":1,"signature":{"x":[1,2]},"a":1}"#,
            r#"{"a":1,"z":1}"#,
        ),
        (
            r#"{"a":{"signature":1},"b":[{"signature":2}]}"#,
            r#"{"a":{"signature":1},"b":[{"signature":2}]}"#,
        ),
        (
            r#"{"signature2":1,"Signature":2}"#,
            r#"{"Signature":2,"signature2":1}"#,
        ),
        ("{}", "{}"),
        (r#"[{"signature":1}]"#, r#"[{"signature":1}]"#),
        (r#""signature""#, r#""signature""#),
    ];
    for (text, expected) in table {
        let canonical = cutting(text);
        assert_eq!(
            str::from_utf8(&canonical.signed_bytes()).unwrap(),
            expected,
            "{text}"
        );
        let whole = to_bytes(&permissive(text.as_bytes()), Dialect::Rfc8785);
        assert_eq!(canonical.bytes(), whole, "{text}");
        assert_eq!(
            canonical.cut().is_some(),
            whole != expected.as_bytes(),
            "{text}"
        );
    }
}
