//! Cases about attempts: when a message is tried again, when a connection is.

use super::{Run, expect};
use crate::attempts::{Answered, judge, pause_ms, reconnect_ms};
use chancery_core::conformance::Case;

const ID: &str = "019502a4-7e5c-7000-8000-000000000001";
const OTHER_ID: &str = "019502a4-7e5c-7000-8000-000000000002";

/// What a recipient answers, as a case says it.
struct Response {
    status: u16,
    body: String,
    retry_after_s: Option<u64>,
    /// Whether there was an answer at all.
    arrived: bool,
}

impl Response {
    fn parse(text: &str) -> Result<Self, String> {
        let unknown = || format!("no check knows the response {text:?}");
        let mut response = Self {
            status: 0,
            body: String::new(),
            retry_after_s: None,
            arrived: true,
        };
        let mut words = text.split_whitespace().peekable();
        let first = words.next().ok_or_else(unknown)?;
        match first.parse() {
            Ok(status) => response.status = status,
            Err(_) if matches!(first, "refused" | "timeout" | "reset" | "unreachable") => {
                response.arrived = false;
            }
            Err(_) => return Err(unknown()),
        }
        let mut id = ID;
        let mut status = "";
        let mut retryable = None;
        while let Some(word) = words.next() {
            match word.trim_matches([',', ':', '=']) {
                "accepted" | "duplicate" | "rejected" => status = word.trim_matches(','),
                "other-id" => id = OTHER_ID,
                "Retry-After" => {
                    let seconds = words.next().and_then(|word| word.parse().ok());
                    response.retry_after_s = Some(seconds.ok_or_else(unknown)?);
                }
                "retryable" => {
                    let value = words.next().and_then(|word| word.parse().ok());
                    retryable = Some(value.ok_or_else(unknown)?);
                }
                "retryable=false" | "retryable:false" => retryable = Some(false),
                "retryable=true" | "retryable:true" => retryable = Some(true),
                "not-retryable" | "non-retryable" => retryable = Some(false),
                // The name of a code, or a word that joins the others.
                other if is_word(other) => {}
                _ => return Err(unknown()),
            }
        }
        response.body = body(response.status, status, id, retryable);
        Ok(response)
    }
}

fn is_word(word: &str) -> bool {
    word.bytes()
        .all(|byte| byte.is_ascii_alphabetic() || matches!(byte, b'_' | b'-' | b'(' | b')'))
}

fn body(http: u16, status: &str, id: &str, retryable: Option<bool>) -> String {
    if let Some(retryable) = retryable {
        return format!(
            r#"{{"status":"rejected","message_id":"{id}","error":{{"code":"internal","message":"","retryable":{retryable}}}}}"#
        );
    }
    match status {
        "" if http == 200 => "{}".to_owned(),
        "" => String::new(),
        status => format!(r#"{{"status":"{status}","message_id":"{id}"}}"#),
    }
}

/// Answers one after another, and when each was asked for.
pub(super) fn retry(case: &mut Case, _: &Run<'_>) -> Result<(), String> {
    let responses = case.texts("responses")?;
    let mut times_ms = Vec::new();
    let mut now_ms = 0_u64;
    let mut result = "failed";
    for text in responses {
        let response = Response::parse(&text)?;
        times_ms.push(now_ms);
        let answered = if response.arrived {
            judge(response.status, response.body.as_bytes(), ID)
        } else {
            Answered::Again
        };
        match answered {
            Answered::Delivered => {
                result = "delivered";
                break;
            }
            Answered::Final => break,
            Answered::Again => match pause_ms(times_ms.len(), response.retry_after_s) {
                Some(pause) => now_ms += u64::from(pause),
                None => break,
            },
        }
    }
    let expected = numbers(case, "attempt_times_ms")?;
    expect("attempt_times_ms", times_ms, expected)?;
    expect("result", result, &case.text("result")?)
}

/// Connections that failed one after another.
pub(super) fn reconnect(case: &mut Case, _: &Run<'_>) -> Result<(), String> {
    let failures = u32::try_from(case.number("failures")?).map_err(|error| error.to_string())?;
    let delays: Vec<u64> = (1..=failures)
        .map(|failures| u64::from(reconnect_ms(failures)))
        .collect();
    expect("delays_ms", delays, numbers(case, "delays_ms")?)
}

fn numbers(case: &mut Case, name: &str) -> Result<Vec<u64>, String> {
    let value = case.take(name)?;
    let items = value.as_array().ok_or(format!("{name} is no array"))?;
    items
        .iter()
        .map(|item| item.as_u64().ok_or(format!("{name} has no numbers")))
        .collect()
}
