//! The bounds of the HTTP door (CH-LIM-1).

use std::time::Duration;

/// How much the door takes, and for how long it waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HttpLimits {
    /// Open connections. At the bound the one that has been idle longest is closed; when none is idle the new one is.
    pub connections: usize,
    /// How long a client may take for the head of a request, or for a TLS handshake.
    pub header_timeout: Duration,
    /// How long a client may take for a body.
    pub body_timeout: Duration,
    /// How long a connection without a request is kept.
    pub idle_timeout: Duration,
    /// How long a client may leave an answer unread.
    pub write_timeout: Duration,
    /// Bytes of the head of a request.
    pub header_bytes: usize,
    /// Header fields of a request.
    pub headers: usize,
    /// Bytes of a body of an administrative request.
    pub admin_body_bytes: usize,
    /// Bytes of unfinished bodies in memory, beyond the first 4 KiB of each.
    pub body_bytes: usize,
    /// Requests at once on one HTTP/2 connection.
    pub streams: u32,
    /// Reads of log, inboxes and states under way; each holds at most 4 MiB of answer.
    pub reads: usize,
    /// Long-polls and event streams that wait.
    pub watchers: usize,
    /// Failures before authentication that one source address may have in a second (VX-ERR-4).
    pub failures_per_s: u32,
    /// Source addresses with failures that are remembered.
    pub failure_addresses: usize,
    /// How long a stop waits for requests under way; the program has 10 s in all (CH-NET-3).
    pub stop_timeout: Duration,
}

impl Default for HttpLimits {
    fn default() -> Self {
        Self {
            connections: 12_000,
            header_timeout: Duration::from_secs(10),
            body_timeout: Duration::from_secs(10),
            idle_timeout: Duration::from_secs(75),
            write_timeout: Duration::from_secs(30),
            header_bytes: 16 << 10,
            headers: 64,
            admin_body_bytes: 64 << 10,
            body_bytes: 64 << 20,
            streams: 128,
            reads: 32,
            watchers: 1_024,
            failures_per_s: 20,
            failure_addresses: 65_536,
            stop_timeout: Duration::from_secs(8),
        }
    }
}
