//! Bodies of 1 MiB, each slow to take apart in another way: what a stranger may send while a pair calls (VA-PERF-2).

/// Bytes of a body.
const BYTES: usize = 1 << 20;

/// The bodies.
pub(super) fn bodies() -> Vec<Vec<u8>> {
    let filled = |open: &str, unit: &str, close: &str| {
        let times = (BYTES - open.len() - close.len()) / unit.len();
        format!("{open}{}{close}", unit.repeat(times)).into_bytes()
    };
    let message = |open: &str, unit: &str, close: &str| {
        let head = r#"{"jsonrpc":"2.0","id":1,"method":"message/send","params":{"message":"#;
        filled(&format!("{head}{open}"), unit, &format!("{close}}}}}"))
    };
    vec![
        // One text, plain and in escapes.
        message(r#"{"role":"ROLE_USER","parts":[{"text":""#, "a", r#""}]}"#),
        message(
            r#"{"role":"ROLE_USER","parts":[{"text":""#,
            r"\u0041",
            r#""}]}"#,
        ),
        // Too many parts.
        message(r#"{"parts":[{"text":"a"}"#, r#",{"text":"a"}"#, "]}"),
        // Members, and the same member again and again.
        message(r#"{"metadata":{"a":0"#, r#","bb":[{}]"#, "}}"),
        // Deep, and one long number.
        filled("", "[", ""),
        filled(r#"{"params":"#, "9", "}"),
        // No JSON at all.
        vec![0xff; BYTES],
    ]
}
