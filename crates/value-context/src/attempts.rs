//! When a message is tried again, and what an answer means for it (VX-RTY-1 to 5, VX-WS-7).

use serde::Deserialize;

/// The pauses before the second, third and fourth attempt (VX-RTY-1).
pub const PAUSES_MS: [u32; 3] = [1_000, 2_000, 4_000];
/// How long one attempt may take (VX-RTY-2).
pub const ATTEMPT_MS: u32 = 5_000;
/// How long after it was signed a message may still be attempted (VX-RTY-7).
pub const WITHIN_MS: u32 = 240_000;
/// The longest pause that a recipient may ask for (VX-RTY-5).
pub const RETRY_AFTER_AT_MOST_MS: u32 = 30_000;
/// The longest pause between attempts to connect (VX-WS-7).
const RECONNECT_AT_MOST_MS: u32 = 30_000;
/// A connection that lasted so long starts the pauses again from the first (VX-WS-7).
pub const STABLE_CONNECTION_MS: u32 = 60_000;

/// What an answer means for the message it answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answered {
    /// The recipient has it.
    Delivered,
    /// It will never take it: repeating is pointless.
    Final,
    /// A later attempt may succeed.
    Again,
}

#[derive(Deserialize)]
struct Body {
    status: String,
    message_id: Option<String>,
    error: Option<ErrorBody>,
}

#[derive(Deserialize)]
struct ErrorBody {
    #[serde(rename = "code")]
    _code: String,
    retryable: bool,
}

/// Judges an answer to the message `id`: delivered only when it is 200 and echoes the identifier (VX-RTY-3); final only
/// when it says so in our format (VX-RTY-4); a redirect is a failure like any other (VX-RTY-5).
pub fn judge(status: u16, body: &[u8], id: &str) -> Answered {
    let Ok(body) = serde_json::from_slice::<Body>(body) else {
        return Answered::Again;
    };
    let retryable = body.error.map(|error| error.retryable);
    match meaning(&body.status, retryable) {
        Answered::Delivered if status == 200 && body.message_id.as_deref() == Some(id) => {
            Answered::Delivered
        }
        Answered::Final if (400..600).contains(&status) => Answered::Final,
        _ => Answered::Again,
    }
}

/// What the words of an answer mean for the message they are about, on any transport.
pub fn meaning(status: &str, retryable: Option<bool>) -> Answered {
    match (status, retryable) {
        ("accepted" | "duplicate", _) => Answered::Delivered,
        ("rejected", Some(false)) => Answered::Final,
        _ => Answered::Again,
    }
}

/// The pause before the next attempt after `made` attempts; none after the last. A recipient may lengthen it, within
/// bounds, and never shorten it.
pub fn pause_ms(made: usize, retry_after_s: Option<u64>) -> Option<u32> {
    let pause = *PAUSES_MS.get(made.checked_sub(1)?)?;
    let asked = retry_after_s.map_or(0, |seconds| {
        u32::try_from(seconds.saturating_mul(1_000)).unwrap_or(u32::MAX)
    });
    Some(pause.max(asked.min(RETRY_AFTER_AT_MOST_MS)))
}

/// The pause before connecting again after so many failures in a row: 1, 2, 4, … seconds, at most 30. No end to the
/// attempts.
pub fn reconnect_ms(failures: u32) -> u32 {
    let doubled = failures.saturating_sub(1);
    1_000_u32
        .checked_shl(doubled.min(16))
        .map_or(RECONNECT_AT_MOST_MS, |pause| {
            pause.min(RECONNECT_AT_MOST_MS)
        })
}
