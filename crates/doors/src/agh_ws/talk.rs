//! One connection of an AGH peer, from its first frame to its last.

use std::collections::VecDeque;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::Bytes;
use chancery_agh::answer::Outcome;
use chancery_agh::peer::PeerRecord;
use chancery_core::line::Seq;
use chancery_node::Office;
use futures_util::{Sink as _, Stream as _};
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite};
use tokio::task::JoinHandle;
use tokio::time::Instant;
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::protocol::frame::coding::CloseCode;
use tokio_tungstenite::tungstenite::protocol::{CloseFrame, Role, WebSocketConfig};
use tokio_tungstenite::tungstenite::{Error, Message, Utf8Bytes};

use super::connected::Place;
use super::feeder::{self, Entries, Entry};
use super::frames::{Frames, is_bad, told};
use crate::ws::WsLimits;

/// Bytes that one read takes from the socket.
const READ_BYTES: usize = 16 << 10;
/// Bytes read and thrown away after our close.
const LINGER_BYTES: usize = 256 << 10;

/// A connection.
pub(crate) struct Talk<T> {
    socket: WebSocketStream<T>,
    office: Arc<Office>,
    record: Arc<PeerRecord>,
    place: Place,
    entries: Entries,
    feeder: JoinHandle<()>,
    frames: Frames,
    limits: WsLimits,
    /// Whether every frame is answered.
    status: bool,
    bad: VecDeque<Instant>,
    last_ping: Instant,
    last_heard: Instant,
    /// Since when written frames wait for the socket, how many bytes, and the last inbox entry among them.
    unflushed: Option<Instant>,
    unflushed_bytes: usize,
    unflushed_entry: Option<Seq>,
}

/// What happens next.
enum Event {
    Frame(Option<Result<Message, Error>>),
    Flushed(Result<(), Error>),
    Decided(Box<Outcome>),
    Soft(Bytes),
    Entry(Entry),
    Time,
    /// The node stops, or the peer may not be here any more.
    End(CloseCode),
}

/// Whether the connection goes on.
enum Next {
    GoOn,
    /// We end it, with a code.
    Close(CloseCode),
    /// The other side ended it, or it is gone.
    Gone,
}

impl<T: AsyncRead + AsyncWrite + Unpin> Talk<T> {
    pub(crate) async fn new(
        stream: T,
        office: Arc<Office>,
        record: PeerRecord,
        place: Place,
        (limits, status): (WsLimits, bool),
    ) -> Self {
        let max_bytes = office.gate().settings().agh.max_payload;
        let config = WebSocketConfig::default()
            .read_buffer_size(READ_BYTES)
            // What is let into the buffer is bounded below; one envelope may come on top of the bound.
            .max_write_buffer_size(limits.outgoing_bytes + 2 * max_bytes)
            .max_message_size(Some(max_bytes))
            .max_frame_size(Some(max_bytes));
        let socket = WebSocketStream::from_raw_socket(stream, Role::Server, Some(config)).await;
        let (feed, entries) = feeder::channel();
        let name = feeder::name_of(&record);
        let feeder = tokio::spawn(feeder::feed(Arc::clone(&office), name, feed));
        let record = Arc::new(record);
        let now = Instant::now();
        Self {
            socket,
            frames: Frames::new(Arc::clone(&office), Arc::clone(&record)),
            office,
            record,
            place,
            entries,
            feeder,
            limits,
            status,
            bad: VecDeque::new(),
            last_ping: now,
            last_heard: now,
            unflushed: None,
            unflushed_bytes: 0,
            unflushed_entry: None,
        }
    }

    /// Talks until the connection ends, or `end` says with which code it has to. Gives the place back: the peer leaves
    /// before another connection may have it.
    pub(crate) async fn run(mut self, end: impl Future<Output = CloseCode>) -> Place {
        let mut end = std::pin::pin!(end);
        loop {
            let event = self.event(end.as_mut()).await;
            match self.react(event).await {
                Next::GoOn => {}
                Next::Close(code) => {
                    self.close(code).await;
                    break;
                }
                Next::Gone => break,
            }
        }
        self.feeder.abort();
        self.place
    }

    async fn event(&mut self, end: Pin<&mut impl Future<Output = CloseCode>>) -> Event {
        let alarm = self.alarm();
        if Instant::now() >= alarm {
            return Event::Time;
        }
        let has_room = self.unflushed_bytes < self.limits.outgoing_bytes;
        let reads = has_room && self.frames.len() < self.limits.frames_in_flight;
        let (socket, unflushed) = (&mut self.socket, self.unflushed.is_some());
        let frame_or_flushed = std::future::poll_fn(|cx| poll_socket(socket, unflushed, reads, cx));
        tokio::select! {
            biased;
            code = end => Event::End(code),
            // Before the socket: on a busy connection that always has something.
            Some(bytes) = self.place.soft.recv(), if has_room => Event::Soft(bytes),
            outcome = self.frames.next() => Event::Decided(Box::new(outcome)),
            Some(entry) = self.entries.recv(), if has_room => Event::Entry(entry),
            event = frame_or_flushed => event,
            () = tokio::time::sleep_until(alarm) => Event::Time,
        }
    }

    /// When to look at the time again.
    fn alarm(&self) -> Instant {
        let limits = &self.limits;
        let alarm = (self.last_ping + limits.ping_after).min(self.last_heard + limits.silence);
        match self.unflushed {
            Some(since) => alarm.min(since + limits.write_timeout),
            None => alarm,
        }
    }

    async fn react(&mut self, event: Event) -> Next {
        match event {
            Event::Frame(frame) => self.on_frame(frame),
            Event::Flushed(Ok(())) => {
                self.flushed().await;
                Next::GoOn
            }
            Event::Flushed(Err(_)) => Next::Gone,
            Event::Decided(outcome) => self.on_decided(&outcome),
            Event::Soft(bytes) => self.say(bytes),
            Event::Entry(entry) => {
                self.unflushed_entry = Some(entry.seq);
                self.say(entry.envelope)
            }
            Event::Time => self.on_time(),
            Event::End(code) => Next::Close(code),
        }
    }

    fn on_frame(&mut self, frame: Option<Result<Message, Error>>) -> Next {
        self.last_heard = Instant::now();
        match frame {
            Some(Ok(Message::Text(text))) => {
                self.frames.push(Bytes::from(text));
                Next::GoOn
            }
            Some(Ok(Message::Binary(_))) => Next::Close(CloseCode::Unsupported),
            Some(Ok(Message::Ping(payload))) => {
                // The Pong is in the buffer.
                self.written(payload.len());
                Next::GoOn
            }
            Some(Ok(Message::Pong(_) | Message::Frame(_))) => Next::GoOn,
            Some(Ok(Message::Close(_))) | None => Next::Gone,
            Some(Err(Error::Capacity(_))) => Next::Close(CloseCode::Size),
            Some(Err(Error::Utf8(_))) => Next::Close(CloseCode::Invalid),
            Some(Err(Error::Protocol(_))) => Next::Close(CloseCode::Protocol),
            Some(Err(_)) => Next::Gone,
        }
    }

    /// Tells the peer what became of its frame, where it needs to know, and counts the bad ones.
    fn on_decided(&mut self, outcome: &Outcome) -> Next {
        if let Some(text) = told(outcome, self.status)
            && let Next::Gone = self.write(Message::text(text))
        {
            return Next::Gone;
        }
        if is_bad(outcome) && self.has_enough() {
            return Next::Close(CloseCode::Policy);
        }
        Next::GoOn
    }

    fn has_enough(&mut self) -> bool {
        let now = Instant::now();
        self.bad.push_back(now);
        let span = self.limits.dropped_span;
        while self
            .bad
            .pop_front_if(|at| now.duration_since(*at) >= span)
            .is_some()
        {}
        self.bad.len() >= self.limits.dropped_frames
    }

    fn say(&mut self, envelope: Bytes) -> Next {
        match Utf8Bytes::try_from(envelope) {
            Ok(text) => self.write(Message::Text(text)),
            // An envelope is UTF-8, or it would not be here.
            Err(_) => Next::GoOn,
        }
    }

    fn on_time(&mut self) -> Next {
        let now = Instant::now();
        let is_stalled = self
            .unflushed
            .is_some_and(|since| now >= since + self.limits.write_timeout);
        if is_stalled || now >= self.last_heard + self.limits.silence {
            return Next::Gone;
        }
        if now >= self.last_ping + self.limits.ping_after {
            self.last_ping = now;
            return self.write(Message::Ping(Bytes::new()));
        }
        Next::GoOn
    }

    /// Puts a frame into the buffer; the socket gets it when it is flushed.
    fn write(&mut self, message: Message) -> Next {
        let bytes = message.len();
        let written = Pin::new(&mut self.socket).start_send(message);
        self.written(bytes);
        match written {
            Ok(()) => Next::GoOn,
            Err(_) => Next::Gone,
        }
    }

    fn written(&mut self, bytes: usize) {
        self.unflushed.get_or_insert_with(Instant::now);
        self.unflushed_bytes += bytes;
    }

    /// Everything is with the system: what came from the inbox is handed over (AG-DLV-4).
    async fn flushed(&mut self) {
        self.unflushed = None;
        self.unflushed_bytes = 0;
        let Some(through) = self.unflushed_entry.take() else {
            return;
        };
        let (office, name) = (Arc::clone(&self.office), feeder::name_of(&self.record));
        let settle = move || office.inboxes().settle(&name, through, Vec::new());
        // Lost, it is handed over again after the next connection.
        if let Ok(Err(error)) = tokio::task::spawn_blocking(settle).await {
            tracing::warn!(%error, "a cursor could not be moved");
        }
    }

    /// Says why and reads on for a moment: closing at once would make the other side's system drop the reason.
    async fn close(&mut self, code: CloseCode) {
        let reason = CloseFrame {
            code,
            reason: Utf8Bytes::default(),
        };
        let socket = &mut self.socket;
        let closing = async {
            if socket.close(Some(reason)).await.is_err() {
                return;
            }
            let stream = socket.get_mut();
            let mut scratch = vec![0; READ_BYTES];
            let mut left = LINGER_BYTES;
            while let Ok(read @ 1..) = stream.read(&mut scratch).await {
                // A close frame of the other side is the last thing it sends.
                let is_close = read <= 16 && scratch[0] & 0x0f == 8;
                if is_close || read > left {
                    return;
                }
                left -= read;
            }
        };
        let _ = tokio::time::timeout(self.limits.linger, closing).await;
    }
}

/// Reads a frame, and flushes meanwhile: whoever only read, or only wrote, could wait for the other side for ever.
fn poll_socket<T: AsyncRead + AsyncWrite + Unpin>(
    socket: &mut WebSocketStream<T>,
    unflushed: bool,
    reads: bool,
    cx: &mut Context<'_>,
) -> Poll<Event> {
    if unflushed && let Poll::Ready(result) = Pin::new(&mut *socket).poll_flush(cx) {
        return Poll::Ready(Event::Flushed(result));
    }
    if !reads {
        return Poll::Pending;
    }
    Pin::new(socket).poll_next(cx).map(Event::Frame)
}
