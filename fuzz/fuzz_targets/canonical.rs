//! Canonical bytes are JSON, and a fixed point: read and written again they do not change, in any dialect.
#![no_main]

use chancery_core::canonical::{Dialect, to_bytes};
use chancery_core::json::{DuplicateNames, Integers, MAX_DEPTH, Overflow, ReadRules, read};
use libfuzzer_sys::fuzz_target;

const DIALECTS: [Dialect; 3] = [Dialect::Rfc8785, Dialect::Python, Dialect::Vibe];

/// The canonical form may be longer than the text it came from, and write a large double as an integer.
const AGAIN: ReadRules = ReadRules {
    max_bytes: usize::MAX,
    max_depth: MAX_DEPTH,
    duplicate_names: DuplicateNames::Refuse,
    integers: Integers::Any,
    overflow: Overflow::Keep,
};

fuzz_target!(|text: &[u8]| {
    for rules in [
        ReadRules::VALUE_CONTEXT,
        ReadRules::VIBE,
        ReadRules::VACANT,
        ReadRules::AGH,
    ] {
        let Ok(value) = read(text, &rules) else {
            continue;
        };
        for dialect in DIALECTS {
            let once = to_bytes(&value, dialect);
            let again = read(&once, &AGAIN).expect("canonical bytes are JSON");
            assert_eq!(
                to_bytes(&again, dialect),
                once,
                "{dialect:?} is not a fixed point"
            );
        }
    }
});
