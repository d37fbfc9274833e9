//! The JSON reader takes any bytes under any protocol's rules: it gives a value or a fault, and never panics.
#![no_main]

use chancery_core::json::{ReadRules, read};
use libfuzzer_sys::fuzz_target;

const RULES: [ReadRules; 4] = [
    ReadRules::VALUE_CONTEXT,
    ReadRules::VIBE,
    ReadRules::VACANT,
    ReadRules::AGH,
];

fuzz_target!(|text: &[u8]| {
    for rules in &RULES {
        if read(text, rules).is_ok() {
            assert!(
                std::str::from_utf8(text).is_ok(),
                "accepted what is not UTF-8"
            );
            assert!(
                text.len() <= rules.max_bytes,
                "accepted more than the limit"
            );
        }
    }
});
