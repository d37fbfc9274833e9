//! A fault names its place.

use chancery_core::json::{FaultKind, ReadRules, read};

fn fault_of(text: &str) -> (FaultKind, String, usize) {
    let fault = read(text.as_bytes(), &ReadRules::VALUE_CONTEXT).expect_err("refused");
    (fault.kind, fault.path.to_jsonpath(), fault.offset)
}

#[test]
fn a_fault_in_a_value_names_that_value() {
    let cases = [
        (
            r#"{"a":{"b":[1,{"c":nil}]}}"#,
            FaultKind::Syntax,
            "$.a.b[1].c",
            19,
        ),
        (
            r#"[[0,1],[{"x":[]},[2,01]]]"#,
            FaultKind::InvalidNumber,
            "$[1][1][1]",
            20,
        ),
        (r#"[1,]"#, FaultKind::Syntax, "$[1]", 3),
        (r#"{"a":"#, FaultKind::UnexpectedEnd, "$.a", 5),
        (
            r#"{"a b":{"n":9007199254740992}}"#,
            FaultKind::IntegerOutOfRange,
            "$['a b'].n",
            12,
        ),
        (r#"{"n":[1e999]}"#, FaultKind::NumberOverflow, "$.n[0]", 6),
        (r#"{"s":"x\ud800"}"#, FaultKind::LoneSurrogate, "$.s", 7),
        (r#"x"#, FaultKind::Syntax, "$", 0),
    ];
    for (text, kind, path, offset) in cases {
        assert_eq!(fault_of(text), (kind, path.to_owned(), offset), "{text}");
    }
}

#[test]
fn a_fault_between_values_names_what_is_around_it() {
    let cases = [
        (r#"{"a":{"b":1 "c":2}}"#, FaultKind::Syntax, "$.a", 12),
        (r#"{"a":[1,[2}]}"#, FaultKind::Syntax, "$.a[1]", 10),
        (r#"{"a":{"b":1,}}"#, FaultKind::Syntax, "$.a", 12),
        (r#"{"a":{"b":1,"c"}}"#, FaultKind::Syntax, "$.a", 15),
        (r#"{"a":{b:1}}"#, FaultKind::Syntax, "$.a", 6),
        (r#"{"a":1} {"#, FaultKind::TrailingContent, "$", 8),
        (r#"{"a":[1"#, FaultKind::UnexpectedEnd, "$.a", 7),
    ];
    for (text, kind, path, offset) in cases {
        assert_eq!(fault_of(text), (kind, path.to_owned(), offset), "{text}");
    }
}

#[test]
fn a_repeated_name_is_named() {
    let text = r#"{"list":[{},{"a":1,"b":2,"a":3}]}"#;
    let expected = (FaultKind::DuplicateName, "$.list[1].a".to_owned(), 25);
    assert_eq!(fault_of(text), expected);
}

#[test]
fn what_is_too_deep_is_named() {
    let (kind, path, offset) = fault_of(&format!("{{\"v\":{}", "[".repeat(40)));
    assert_eq!(kind, FaultKind::TooDeep);
    assert_eq!(path, format!("$.v{}", "[0]".repeat(31)));
    assert_eq!(offset, 5 + 31);
}

#[test]
fn a_fault_of_the_encoding_is_of_the_whole_text() {
    let fault = read(b"{\"a\":\"\xff\"}", &ReadRules::AGH).expect_err("refused");
    assert_eq!(
        fault.to_string(),
        "the text is not valid UTF-8 at $ (byte 6)"
    );
}
