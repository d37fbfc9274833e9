//! JSONTestSuite: `y_` files are read, `n_` files are refused, and for each `i_` file, where the grammar
//! leaves the choice to the reader, the choice is written here.

use std::path::Path;

use chancery_core::json::{FaultKind, read};

use crate::canonical_support::{PERMISSIVE, foreign};

/// What becomes of the files that are the reader's choice, under rules that allow what rules can allow. No
/// rule allows invalid UTF-8, a byte order mark or an unpaired surrogate.
const CHOICES: &[(&str, Result<(), FaultKind>)] = &[
    // Numbers keep their token, whatever its size.
    ("i_number_double_huge_neg_exp", Ok(())),
    ("i_number_huge_exp", Ok(())),
    ("i_number_neg_int_huge_exp", Ok(())),
    ("i_number_pos_double_huge_exp", Ok(())),
    ("i_number_real_neg_overflow", Ok(())),
    ("i_number_real_pos_overflow", Ok(())),
    ("i_number_real_underflow", Ok(())),
    ("i_number_too_big_neg_int", Ok(())),
    ("i_number_too_big_pos_int", Ok(())),
    ("i_number_very_big_negative_int", Ok(())),
    // An escaped surrogate needs its other half.
    (
        "i_object_key_lone_2nd_surrogate",
        Err(FaultKind::LoneSurrogate),
    ),
    (
        "i_string_1st_surrogate_but_2nd_missing",
        Err(FaultKind::LoneSurrogate),
    ),
    (
        "i_string_1st_valid_surrogate_2nd_invalid",
        Err(FaultKind::LoneSurrogate),
    ),
    (
        "i_string_incomplete_surrogate_and_escape_valid",
        Err(FaultKind::LoneSurrogate),
    ),
    (
        "i_string_incomplete_surrogate_pair",
        Err(FaultKind::LoneSurrogate),
    ),
    (
        "i_string_incomplete_surrogates_escape_valid",
        Err(FaultKind::LoneSurrogate),
    ),
    (
        "i_string_invalid_lonely_surrogate",
        Err(FaultKind::LoneSurrogate),
    ),
    ("i_string_invalid_surrogate", Err(FaultKind::LoneSurrogate)),
    (
        "i_string_inverted_surrogates_U+1D11E",
        Err(FaultKind::LoneSurrogate),
    ),
    (
        "i_string_lone_second_surrogate",
        Err(FaultKind::LoneSurrogate),
    ),
    // The text is UTF-8.
    ("i_string_UTF-16LE_with_BOM", Err(FaultKind::InvalidUtf8)),
    (
        "i_string_UTF-8_invalid_sequence",
        Err(FaultKind::InvalidUtf8),
    ),
    (
        "i_string_UTF8_surrogate_U+D800",
        Err(FaultKind::InvalidUtf8),
    ),
    ("i_string_invalid_utf-8", Err(FaultKind::InvalidUtf8)),
    ("i_string_iso_latin_1", Err(FaultKind::InvalidUtf8)),
    (
        "i_string_lone_utf8_continuation_byte",
        Err(FaultKind::InvalidUtf8),
    ),
    ("i_string_not_in_unicode_range", Err(FaultKind::InvalidUtf8)),
    (
        "i_string_overlong_sequence_2_bytes",
        Err(FaultKind::InvalidUtf8),
    ),
    (
        "i_string_overlong_sequence_6_bytes",
        Err(FaultKind::InvalidUtf8),
    ),
    (
        "i_string_overlong_sequence_6_bytes_null",
        Err(FaultKind::InvalidUtf8),
    ),
    ("i_string_truncated-utf-8", Err(FaultKind::InvalidUtf8)),
    ("i_string_utf16BE_no_BOM", Err(FaultKind::InvalidUtf8)),
    ("i_string_utf16LE_no_BOM", Err(FaultKind::InvalidUtf8)),
    // Deep, and within what rules may allow.
    ("i_structure_500_nested_arrays", Ok(())),
    (
        "i_structure_UTF-8_BOM_empty_object",
        Err(FaultKind::ByteOrderMark),
    ),
];

const FILES: usize = 318;

#[test]
fn every_file_of_the_suite_is_read_or_refused_as_it_says() {
    let Some(folder) = foreign("json/parsing", "318 files of JSONTestSuite") else {
        return;
    };
    let mut names: Vec<String> = std::fs::read_dir(&folder).unwrap().map(file_stem).collect();
    names.sort();
    assert_eq!(names.len(), FILES);
    for name in &names {
        judge(&folder, name);
    }
    for (choice, _) in CHOICES {
        assert!(names.iter().any(|name| name == choice), "no file {choice}");
    }
}

fn file_stem(entry: std::io::Result<std::fs::DirEntry>) -> String {
    let path = entry.unwrap().path();
    path.file_stem().unwrap().to_str().unwrap().to_owned()
}

fn judge(folder: &Path, name: &str) {
    let text = std::fs::read(folder.join(format!("{name}.json"))).unwrap();
    let outcome = read(&text, &PERMISSIVE)
        .map(|_| ())
        .map_err(|fault| fault.kind);
    match name.as_bytes()[0] {
        b'y' => assert_eq!(outcome, Ok(()), "{name}"),
        b'n' => assert!(outcome.is_err(), "{name}"),
        _ => {
            let choice = CHOICES.iter().find(|(file, _)| *file == name);
            let (_, expected) =
                choice.unwrap_or_else(|| panic!("{name} has no choice written down"));
            assert_eq!(outcome, *expected, "{name}");
        }
    }
}
