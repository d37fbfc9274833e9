//! The bounds and waits of WebSocket connections (VX-WS-3, VX-WS-6, VX-WS-9, CH-LIM-1).

use std::time::Duration;

/// How much a connection takes, and for how long it waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WsLimits {
    /// Open connections to this node.
    pub connections: usize,
    /// Frames of one connection that are decided at once; the next is read when one is answered.
    pub frames_in_flight: usize,
    /// Frames that wait to be written to one connection.
    pub outgoing_frames: usize,
    /// Bytes that wait to be written to one connection.
    pub outgoing_bytes: usize,
    /// Remote agents that one connection is known to carry.
    pub agents: usize,
    /// Dropped frames within `dropped_span` that close a connection.
    pub dropped_frames: usize,
    /// The span in which dropped frames count.
    pub dropped_span: Duration,
    /// After how long without a Ping of ours we send one.
    pub ping_after: Duration,
    /// After how long without any frame of the other side a connection ends.
    pub silence: Duration,
    /// How long the other side may leave frames unread.
    pub write_timeout: Duration,
    /// How long a connection that we close is read on, so that the other side gets our reason.
    pub linger: Duration,
    /// How long other messages wait for the greeting to go first.
    pub greeting: Duration,
}

impl Default for WsLimits {
    fn default() -> Self {
        Self {
            connections: 1_024,
            frames_in_flight: 128,
            outgoing_frames: 128,
            outgoing_bytes: 2 << 20,
            agents: 1_024,
            dropped_frames: 10,
            dropped_span: Duration::from_secs(60),
            ping_after: Duration::from_secs(20),
            silence: Duration::from_secs(45),
            write_timeout: Duration::from_secs(30),
            linger: Duration::from_secs(2),
            greeting: Duration::from_secs(1),
        }
    }
}
