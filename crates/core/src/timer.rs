//! Timers: rows that say what is due and when. The host fires them; the rules decide whether they are still wanted.

use crate::line::ProtocolName;
use crate::rows::RowKey;
use crate::time::Time;

/// The space of timer rows.
pub const TIMERS: &str = "timer";

/// What a timer is called: whose rules it belongs to and a name that those rules choose.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct TimerName {
    /// Whose rules.
    pub protocol: ProtocolName,
    /// The name, unique for a due time within those rules.
    pub name: String,
}

/// The row of a timer: rows sort by due time.
pub fn timer_key(due: Time, name: &TimerName) -> RowKey {
    // The sign bit is flipped so that instants before 1970 sort first.
    let micros = (due.unix_micros() as u64) ^ (1 << 63);
    RowKey::new(
        TIMERS,
        &[
            &micros.to_be_bytes(),
            name.protocol.as_str().as_bytes(),
            name.name.as_bytes(),
        ],
    )
}

/// The due time and name that a timer's key holds.
pub fn parse_timer_key(key: &RowKey) -> Option<(Time, TimerName)> {
    let parts = key.parts();
    let [space, due, protocol, name] = parts.as_slice() else {
        return None;
    };
    if space != TIMERS.as_bytes() {
        return None;
    }
    let micros = u64::from_be_bytes(due.as_slice().try_into().ok()?) ^ (1 << 63);
    let protocol = ProtocolName::parse(std::str::from_utf8(protocol).ok()?)?;
    let name = String::from_utf8(name.clone()).ok()?;
    Some((
        Time::from_unix_micros(micros as i64)?,
        TimerName { protocol, name },
    ))
}
