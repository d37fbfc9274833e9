//! The rules of the four protocols, at their edges.

use chancery_core::canonical::{Dialect, to_bytes};
use chancery_core::json::{
    DuplicateNames, FaultKind, MAX_DEPTH, Number, Object, ReadRules, Value, read,
};

use crate::canonical_support::PERMISSIVE;

const ALL: [&ReadRules; 4] = [
    &ReadRules::VALUE_CONTEXT,
    &ReadRules::VIBE,
    &ReadRules::VACANT,
    &ReadRules::AGH,
];

fn outcome(text: &str, rules: &ReadRules) -> Result<(), FaultKind> {
    read(text.as_bytes(), rules)
        .map(|_| ())
        .map_err(|fault| fault.kind)
}

fn nested(depth: usize) -> String {
    format!("{}{}", "[".repeat(depth), "]".repeat(depth))
}

#[test]
fn what_no_protocol_accepts() {
    // VX-ENV-6, VC-ENV-18, VA-CJ-6, VA-CJ-7, AG-JSON-2
    let refused: &[(&[u8], FaultKind)] = &[
        (b"", FaultKind::UnexpectedEnd),
        (b" \n", FaultKind::UnexpectedEnd),
        (b"\xef\xbb\xbf{}", FaultKind::ByteOrderMark),
        (b"{\"s\":\"\xff\"}", FaultKind::InvalidUtf8),
        (b"{} {}", FaultKind::TrailingContent),
        (b"{}\0", FaultKind::TrailingContent),
        (b"// c\n{}", FaultKind::Syntax),
        (b"{} // c", FaultKind::TrailingContent),
        (b"{\"a\":1,}", FaultKind::Syntax),
        (b"[1,]", FaultKind::Syntax),
        (b"[1 2]", FaultKind::Syntax),
        (b"{\"a\" 1}", FaultKind::Syntax),
        (b"{'a':1}", FaultKind::Syntax),
        (b"[", FaultKind::UnexpectedEnd),
        (b"{\"a\":1", FaultKind::UnexpectedEnd),
        (b"\"a", FaultKind::UnexpectedEnd),
        (b"\"a\\", FaultKind::UnexpectedEnd),
        (b"\"a\\u00", FaultKind::UnexpectedEnd),
        (b"[tru]", FaultKind::Syntax),
        (b"nul", FaultKind::UnexpectedEnd),
        (b"[truee]", FaultKind::Syntax),
        (b"NaN", FaultKind::Syntax),
        (b"Infinity", FaultKind::Syntax),
        (b"-Infinity", FaultKind::InvalidNumber),
        (b"01", FaultKind::InvalidNumber),
        (b"-", FaultKind::InvalidNumber),
        (b"-01", FaultKind::InvalidNumber),
        (b"+1", FaultKind::Syntax),
        (b".5", FaultKind::Syntax),
        (b"1.", FaultKind::InvalidNumber),
        (b"1.e3", FaultKind::InvalidNumber),
        (b"1e", FaultKind::InvalidNumber),
        (b"1e+", FaultKind::InvalidNumber),
        (b"0x10", FaultKind::InvalidNumber),
        (b"1_000", FaultKind::TrailingContent),
        (b"\"a\nb\"", FaultKind::ControlCharacter),
        (b"\"\x1f\"", FaultKind::ControlCharacter),
        (b"\"\\n\x00\"", FaultKind::ControlCharacter),
        (b"\"\\x\"", FaultKind::InvalidEscape),
        (b"\"\\u12g4\"", FaultKind::InvalidEscape),
        (b"\"\\u+123\"", FaultKind::InvalidEscape),
        (b"\"\\ud83d\"", FaultKind::LoneSurrogate),
        (b"\"\\ude00\"", FaultKind::LoneSurrogate),
        (b"\"\\ude00\\ud83d\"", FaultKind::LoneSurrogate),
        (b"\"\\ud83d\\ud83d\\ude00\"", FaultKind::LoneSurrogate),
        (b"\"\\ud83dx\"", FaultKind::LoneSurrogate),
        (b"{\"\\ud83d\":1}", FaultKind::LoneSurrogate),
    ];
    for (text, kind) in refused {
        for rules in ALL.into_iter().chain([&PERMISSIVE]) {
            let fault = read(text, rules).expect_err("refused");
            assert_eq!(fault.kind, *kind, "{}", String::from_utf8_lossy(text));
        }
    }
}

#[test]
fn white_space_and_escapes_are_free() {
    // VX-ENV-6, VX-CAN-8, AG-JSON-2
    let text = b" \t\r\n{ \"a\\u0062\" : [ 1 , \"\\ud83d\\ude00\\/\\b\\f\\n\\r\\t\\\"\\\\\" , { } , [ ] ] }\n";
    for rules in ALL {
        let value = read(text, rules).unwrap();
        let items = value.get("ab").unwrap().as_array().unwrap();
        assert_eq!(items[1].as_str(), Some("😀/\u{8}\u{c}\n\r\t\"\\"));
        assert_eq!(items[2], Value::Object(Object::new()));
        assert_eq!(items[3], Value::Array(Vec::new()));
    }
}

#[test]
fn size_is_limited_to_the_byte_and_before_reading() {
    // VX-ENV-7, VC-ENV-18, AG-JSON-6
    for (rules, limit) in ALL.into_iter().zip([65_536, 262_144, 1_048_576, 1_048_576]) {
        let fits = format!("\"{}\"", "x".repeat(limit - 2));
        assert_eq!(outcome(&fits, rules), Ok(()));
        let too_large = "x".repeat(limit + 1);
        assert_eq!(outcome(&too_large, rules), Err(FaultKind::TooLarge));
    }
}

#[test]
fn depth_is_limited_and_the_outermost_is_level_one() {
    // VX-ENV-6, VC-ENV-18, VA-CJ-7, AG-JSON-5
    for (rules, limit) in ALL.into_iter().zip([32, 64, 64, 128]) {
        assert_eq!(outcome(&nested(limit), rules), Ok(()));
        assert_eq!(outcome(&nested(limit + 1), rules), Err(FaultKind::TooDeep));
        let objects = format!(
            "{}{{}}{}",
            "{\"a\":".repeat(limit - 1),
            "}".repeat(limit - 1)
        );
        assert_eq!(outcome(&objects, rules), Ok(()));
        assert_eq!(
            outcome(&format!("[{objects}]"), rules),
            Err(FaultKind::TooDeep)
        );
    }
}

#[test]
fn no_rules_allow_more_than_the_stack_bears() {
    let rules = ReadRules {
        max_depth: usize::MAX,
        ..PERMISSIVE
    };
    assert_eq!(
        outcome(&nested(MAX_DEPTH + 1), &rules),
        Err(FaultKind::TooDeep)
    );
    assert_eq!(
        outcome(&"[".repeat(1_000_000), &rules),
        Err(FaultKind::TooDeep)
    );
    let small_stack = std::thread::Builder::new().stack_size(1 << 20);
    let walk = move || {
        let text = nested(MAX_DEPTH);
        let value = read(text.as_bytes(), &rules).unwrap();
        assert_eq!(value.clone(), value);
        assert_eq!(
            to_bytes(&value.into_owned(), Dialect::Vibe),
            text.as_bytes()
        );
    };
    small_stack.spawn(walk).unwrap().join().unwrap();
}

#[test]
fn repeated_names_are_refused_after_unescaping() {
    // VX-ENV-6, VC-ENV-18, AG-JSON-3, AG-JSON-4
    for rules in [&ReadRules::VALUE_CONTEXT, &ReadRules::VIBE, &ReadRules::AGH] {
        for text in [
            r#"{"a":1,"a":1}"#,
            r#"{"a":1,"b":2,"\u0061":3}"#,
            r#"{"x":[{"a":{"b":1,"b":2}}]}"#,
        ] {
            assert_eq!(
                outcome(text, rules),
                Err(FaultKind::DuplicateName),
                "{text}"
            );
        }
        assert_eq!(
            outcome(r#"{"a":{"a":1},"A":[{"a":1},{"a":2}]}"#, rules),
            Ok(())
        );
    }
}

#[test]
fn the_last_of_repeated_names_wins_where_the_rules_say_so() {
    // VA-CJ-7
    let text = br#"{"a":1,"b":{"a":0},"\u0061":{"x":[1,2]},"c":3}"#;
    let value = read(text, &ReadRules::VACANT).unwrap();
    let expected = Object::new()
        .with(
            "a",
            Object::new().with("x", vec![Value::from(1_u64), Value::from(2_u64)]),
        )
        .with("b", Object::new().with("a", 0_u64))
        .with("c", 3_u64);
    assert_eq!(value, Value::Object(expected));
}

#[test]
fn repeated_names_are_found_among_very_many() {
    // Quadratic work would take minutes here.
    let count = 200_000;
    let mut text = String::from("{");
    for i in 0..count {
        text.push_str(&format!("\"name {i}\":{i},"));
    }
    let distinct = format!("{text}\"last\":0}}");
    let rules = ReadRules {
        duplicate_names: DuplicateNames::Refuse,
        ..PERMISSIVE
    };
    let value = read(distinct.as_bytes(), &rules).unwrap();
    assert_eq!(value.as_object().unwrap().len(), count + 1);
    for repeated in [
        "name 0",
        "name 15",
        "name 16",
        "name 17",
        "name 18",
        "name 199999",
    ] {
        let text = format!("{text}\"{repeated}\":\"again\"}}");
        let fault = read(text.as_bytes(), &rules).expect_err("refused");
        assert_eq!(fault.kind, FaultKind::DuplicateName);
        assert_eq!(fault.path.to_pointer(), format!("/{repeated}"));
        let value = read(text.as_bytes(), &PERMISSIVE).unwrap();
        assert_eq!(value.as_object().unwrap().len(), count);
        assert_eq!(value.get(repeated).unwrap().as_str(), Some("again"));
    }
}

#[test]
fn integers_and_overflow_are_judged_by_the_token() {
    use FaultKind::{IntegerOutOfRange, NumberOverflow};
    let digits_309 = format!("1{}", "0".repeat(308));
    let digits_310 = format!("1{}", "0".repeat(309));
    let long_fraction = format!("1.{}", "9".repeat(1000));
    let out_of_range = Err(IntegerOutOfRange);
    let overflow = Err(NumberOverflow);
    // VX-ENV-6; VC-MON-4, VC-CLR-7; VA-CJ-4, VA-CJ-6; AG-JSON-7, AG-ENV-19
    let expected = [
        ("9007199254740991", [Ok(()); 4]),
        ("-9007199254740991", [Ok(()); 4]),
        ("-0", [Ok(()); 4]),
        ("9007199254740992", [out_of_range, Ok(()), Ok(()), Ok(())]),
        ("-9007199254740992", [out_of_range, Ok(()), Ok(()), Ok(())]),
        ("10000000000000000", [out_of_range, Ok(()), Ok(()), Ok(())]),
        ("9007199254740992.0", [Ok(()); 4]),
        ("1.7976931348623157e308", [Ok(()); 4]),
        ("1e-999", [Ok(()); 4]),
        (long_fraction.as_str(), [Ok(()); 4]),
        ("1e309", [overflow, overflow, overflow, Ok(())]),
        ("-1e309", [overflow, overflow, overflow, Ok(())]),
        (digits_309.as_str(), [out_of_range, Ok(()), Ok(()), Ok(())]),
        (digits_310.as_str(), [overflow, overflow, Ok(()), Ok(())]),
    ];
    for (token, outcomes) in expected {
        for (rules, expected) in ALL.into_iter().zip(outcomes) {
            assert_eq!(
                outcome(&format!("{{\"n\":[{token}]}}"), rules),
                expected,
                "{token}"
            );
        }
    }
}

#[test]
fn a_number_keeps_its_token() {
    // VC-MON-3, VX-ENV-8
    let value = read(
        b"[3, 3.0, 3e2, -0, 18446744073709551615, -9223372036854775808]",
        &PERMISSIVE,
    )
    .unwrap();
    let numbers: Vec<&Number<'_>> = value
        .as_array()
        .unwrap()
        .iter()
        .filter_map(Value::as_number)
        .collect();
    let tokens: Vec<&str> = numbers.iter().map(|n| n.token()).collect();
    assert_eq!(
        tokens,
        [
            "3",
            "3.0",
            "3e2",
            "-0",
            "18446744073709551615",
            "-9223372036854775808"
        ]
    );
    let integer: Vec<bool> = numbers.iter().map(|n| n.is_integer_token()).collect();
    assert_eq!(integer, [true, false, false, true, true, true]);
    let safe: Vec<bool> = numbers.iter().map(|n| n.is_safe_integer()).collect();
    assert_eq!(safe, [true, false, false, true, false, false]);
    let signed: Vec<Option<i64>> = numbers.iter().map(|n| n.as_i64()).collect();
    assert_eq!(signed, [Some(3), None, None, Some(0), None, Some(i64::MIN)]);
    let unsigned: Vec<Option<u64>> = numbers.iter().map(|n| n.as_u64()).collect();
    assert_eq!(
        unsigned,
        [Some(3), None, None, Some(0), Some(u64::MAX), None]
    );
    assert_eq!(numbers[2].as_f64(), 300.0);
}

#[test]
fn only_a_number_token_makes_a_number() {
    for token in [
        "", " 1", "1 ", "01", "1.", "+1", "NaN", "inf", "1e", "--1", "1x",
    ] {
        assert_eq!(Number::from_token(token), None, "{token}");
    }
    assert_eq!(Number::from_token("-1.50E+3").unwrap().as_f64(), -1500.0);
    assert_eq!(Number::from_f64(7.0).unwrap().token(), "7");
    assert_eq!(Number::from_f64(f64::INFINITY), None);
}
