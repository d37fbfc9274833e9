//! The reader against any input, and against another reader.

use chancery_core::json::{ReadRules, read};
use proptest::prelude::*;

use crate::canonical_support::{PERMISSIVE, any_value, by_serde, same};

/// Bytes that look enough like JSON to get past the first character.
fn near_json() -> impl Strategy<Value = Vec<u8>> {
    let pieces = proptest::sample::select(vec![
        "{",
        "}",
        "[",
        "]",
        ",",
        ":",
        "\"",
        "\"a\"",
        "\"b\"",
        "\\",
        "\\u",
        "\\ud83d",
        "\\ude00",
        "00e9",
        "0",
        "1",
        "-",
        "-0",
        "1.5",
        "e",
        "E+3",
        ".",
        "true",
        "false",
        "null",
        "nul",
        " ",
        "\n",
        "\u{1}",
        "é",
        "😀",
        "\u{feff}",
        "9007199254740993",
        "1e400",
        "{\"a\":",
        "[1,",
        "\"\\n\"",
    ]);
    proptest::collection::vec(pieces, 0..24).prop_map(|pieces| pieces.concat().into_bytes())
}

/// Nothing panics, and what we read another reader reads alike.
fn judge(text: &[u8]) -> Result<(), TestCaseError> {
    for rules in [
        &ReadRules::VALUE_CONTEXT,
        &ReadRules::VIBE,
        &ReadRules::VACANT,
        &ReadRules::AGH,
    ] {
        if let Err(fault) = read(text, rules) {
            prop_assert!(fault.offset <= text.len());
        }
    }
    // A double cannot hold what it overflows to, so the other reader refuses it as vibe's rules do.
    let Ok(ours) = read(
        text,
        &ReadRules {
            max_depth: 120,
            ..ReadRules::VIBE
        },
    ) else {
        return Ok(());
    };
    let theirs = by_serde(text);
    prop_assert!(theirs.is_some_and(|theirs| same(&ours, &theirs)));
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 4096, failure_persistence: None, ..ProptestConfig::default() })]

    // VX-TST-2
    #[test]
    fn any_bytes_are_read_or_refused(text in proptest::collection::vec(any::<u8>(), 0..64)) {
        judge(&text)?;
    }

    #[test]
    fn near_json_is_read_as_others_read_it(text in near_json()) {
        judge(&text)?;
        if let Some(theirs) = by_serde(&text) {
            // What others read and we do not is what our rules refuse, never the grammar.
            let ours = read(&text, &PERMISSIVE);
            prop_assert!(ours.is_ok_and(|ours| same(&ours, &theirs)));
        }
    }

    #[test]
    fn a_valid_document_is_read_as_others_read_it(value in any_value(), cut in any::<prop::sample::Index>()) {
        let text = chancery_core::canonical::to_bytes(&value, chancery_core::canonical::Dialect::Vibe);
        let ours = read(&text, &PERMISSIVE).unwrap();
        prop_assert!(same(&ours, &by_serde(&text).unwrap()));
        prop_assert_eq!(&ours.clone().into_owned(), &ours);
        // A part of a document is refused by both, or read by both.
        let part = &text[..cut.index(text.len())];
        prop_assert_eq!(read(part, &PERMISSIVE).is_ok(), by_serde(part).is_some());
    }
}
