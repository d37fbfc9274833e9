//! One WebSocket connection, from its first frame to its last; the same on both sides.
//!
//! Guarantees: frames go through the same gate as HTTP bodies; no more than a bounded number is under way, the rest stays
//! in the socket; nothing of a suspended agent is written. Pongs are the WebSocket layer's own.

use std::collections::VecDeque;
use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use futures_util::stream::FuturesUnordered;
use futures_util::{FutureExt as _, Sink as _, SinkExt as _, Stream as _, StreamExt as _};
use hashbrown::HashSet;
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite};
use tokio::sync::mpsc;
use tokio::time::Instant;
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::protocol::frame::coding::CloseCode;
use tokio_tungstenite::tungstenite::protocol::{CloseFrame, Role, WebSocketConfig};
use tokio_tungstenite::tungstenite::{Bytes, Error, Message, Utf8Bytes};

use super::ears::{Ears, Heard, Hearing};
use super::limits::WsLimits;
use super::outstanding::{Outstanding, Status};
use super::switchboard::Outgoing;
use crate::guarded::{Guarded, Leaves};

/// Bytes that one read takes from the socket.
const READ_BYTES: usize = 16 << 10;
/// Bytes read and thrown away after our close.
const LINGER_BYTES: usize = 256 << 10;

/// How a connection is begun.
pub(crate) struct Terms {
    pub(crate) role: Role,
    /// Whether both sides speak the status subprotocol (VX-WS-4).
    pub(crate) status: bool,
    pub(crate) limits: WsLimits,
    /// Bytes of the largest envelope.
    pub(crate) max_bytes: usize,
    /// Identifiers of the shares that go first (VX-WS-5).
    pub(crate) greetings: HashSet<String>,
}

/// A connection.
pub(crate) struct Conversation<T> {
    socket: WebSocketStream<Guarded<T>>,
    leaves: Arc<Leaves>,
    ears: Ears,
    outgoing: mpsc::Receiver<Outgoing>,
    outstanding: Outstanding,
    terms: Terms,
    /// What waits for the greetings to go first.
    held: VecDeque<Outgoing>,
    opened: Instant,
    /// When frames were dropped.
    dropped: VecDeque<Instant>,
    last_ping: Instant,
    last_heard: Instant,
    /// Since when written frames wait for the socket.
    unflushed: Option<Instant>,
    unflushed_frames: usize,
}

/// What happens next.
enum Event {
    Frame(Option<Result<Message, Error>>),
    Flushed(Result<(), Error>),
    Answered(Heard),
    Send(Outgoing),
    Time,
    Stop,
}

/// What to do about it.
enum Next {
    GoOn,
    Hear(Hearing),
    /// We end it, with a code.
    Close(CloseCode),
    /// The other side ended it.
    Closed,
    /// It is gone, or as good as.
    Gone,
}

impl<T: AsyncRead + AsyncWrite + Unpin> Conversation<T> {
    pub(crate) async fn new(
        stream: T,
        ears: Ears,
        outgoing: mpsc::Receiver<Outgoing>,
        terms: Terms,
    ) -> Self {
        let leaves = Arc::new(Leaves::default());
        let stream = Guarded {
            stream,
            leaves: Arc::clone(&leaves),
        };
        let config = WebSocketConfig::default()
            .read_buffer_size(READ_BYTES)
            .write_buffer_size(terms.limits.outgoing_bytes / 2)
            .max_write_buffer_size(terms.limits.outgoing_bytes)
            .max_message_size(Some(terms.max_bytes))
            .max_frame_size(Some(terms.max_bytes));
        let socket = WebSocketStream::from_raw_socket(stream, terms.role, Some(config)).await;
        let now = Instant::now();
        Self {
            socket,
            leaves,
            ears,
            outgoing,
            outstanding: Outstanding::default(),
            terms,
            held: VecDeque::new(),
            opened: now,
            dropped: VecDeque::new(),
            last_ping: now,
            last_heard: now,
            unflushed: None,
            unflushed_frames: 0,
        }
    }

    /// Talks until the connection ends or `stop` returns.
    pub(crate) async fn run(mut self, stop: impl Future<Output = ()>) {
        let mut stop = std::pin::pin!(stop);
        let mut under_way = FuturesUnordered::new();
        loop {
            let event = self.event(&mut under_way, stop.as_mut()).await;
            let mut next = self.react(event);
            // What is decided already is answered with it, in one write.
            while let Next::GoOn = next
                && let Some(Some(heard)) = under_way.next().now_or_never()
            {
                next = self.answer(&heard);
            }
            match next {
                Next::GoOn => {}
                Next::Hear(hearing) => under_way.push(hearing),
                Next::Close(code) => return self.close(code).await,
                Next::Closed => {
                    // The reply to its close is in the buffer.
                    let reply = self.socket.flush();
                    let _ = tokio::time::timeout(self.terms.limits.linger, reply).await;
                    return;
                }
                Next::Gone => return,
            }
        }
    }

    async fn event(
        &mut self,
        under_way: &mut FuturesUnordered<Hearing>,
        stop: Pin<&mut impl Future<Output = ()>>,
    ) -> Event {
        let limits = &self.terms.limits;
        let alarm = self.alarm();
        if Instant::now() >= alarm {
            return Event::Time;
        }
        let reads = under_way.len() < limits.frames_in_flight
            && self.unflushed_frames < limits.outgoing_frames;
        let writes = self.unflushed_frames < limits.outgoing_frames;
        let (socket, unflushed) = (&mut self.socket, self.unflushed.is_some());
        let frame_or_flushed = poll_fn(|cx| poll_socket(socket, unflushed, reads, cx));
        tokio::select! {
            biased;
            () = stop => Event::Stop,
            // Before the socket: on a busy connection that always has something.
            Some(outgoing) = self.outgoing.recv(), if writes => Event::Send(outgoing),
            Some(heard) = under_way.next(), if !under_way.is_empty() => Event::Answered(heard),
            event = frame_or_flushed => event,
            () = tokio::time::sleep_until(alarm) => Event::Time,
        }
    }

    /// When to look at the time again.
    fn alarm(&self) -> Instant {
        let limits = &self.terms.limits;
        let mut alarm = (self.last_ping + limits.ping_after).min(self.last_heard + limits.silence);
        if let Some(since) = self.unflushed {
            alarm = alarm.min(since + limits.write_timeout);
        }
        if !self.held.is_empty() {
            alarm = alarm.min(self.opened + limits.greeting);
        }
        alarm
    }

    fn react(&mut self, event: Event) -> Next {
        match event {
            Event::Frame(frame) => self.on_frame(frame),
            Event::Flushed(Ok(())) => {
                self.unflushed = None;
                self.unflushed_frames = 0;
                self.leaves.clear();
                Next::GoOn
            }
            Event::Flushed(Err(_)) => Next::Gone,
            Event::Answered(heard) => self.answer(&heard),
            Event::Send(outgoing) => self.send(outgoing),
            Event::Time => self.on_time(),
            Event::Stop => Next::Close(CloseCode::Away),
        }
    }

    fn on_frame(&mut self, frame: Option<Result<Message, Error>>) -> Next {
        self.last_heard = Instant::now();
        match frame {
            Some(Ok(Message::Text(text))) => self.on_text(text),
            Some(Ok(Message::Binary(_))) => Next::Close(CloseCode::Unsupported),
            Some(Ok(Message::Ping(_))) => {
                // The Pong is in the buffer.
                self.written();
                Next::GoOn
            }
            Some(Ok(Message::Pong(id))) => {
                if !self.terms.status {
                    self.outstanding.confirm(&id);
                }
                Next::GoOn
            }
            Some(Ok(Message::Frame(_))) => Next::GoOn,
            Some(Ok(Message::Close(_))) => Next::Closed,
            None => Next::Gone,
            Some(Err(Error::Capacity(_))) => Next::Close(CloseCode::Size),
            Some(Err(Error::Utf8(_))) => Next::Close(CloseCode::Invalid),
            Some(Err(Error::Protocol(_))) => Next::Close(CloseCode::Protocol),
            Some(Err(_)) => Next::Gone,
        }
    }

    fn on_text(&mut self, text: Utf8Bytes) -> Next {
        if self.terms.status
            && let Some(status) = Status::read(text.as_bytes())
        {
            self.outstanding.answer(&status);
            return Next::GoOn;
        }
        match self.ears.hear(Bytes::from(text)) {
            Ok(hearing) => Next::Hear(hearing),
            Err(heard) => self.answer(&heard),
        }
    }

    /// Tells the other side what became of its frame, where it wants to know, and counts what was dropped (VX-WS-9).
    fn answer(&mut self, heard: &Heard) -> Next {
        if heard.is_no_object() {
            return Next::Close(CloseCode::Invalid);
        }
        if self.terms.status {
            let body = String::from_utf8(heard.body()).unwrap_or_default();
            if let Gone(true) = self.write(Message::Text(body.into())) {
                return Next::Gone;
            }
        }
        if heard.counts_as_dropped() && self.has_dropped_enough() {
            return Next::Close(CloseCode::Policy);
        }
        Next::GoOn
    }

    fn has_dropped_enough(&mut self) -> bool {
        let limits = &self.terms.limits;
        let now = Instant::now();
        self.dropped.push_back(now);
        while self
            .dropped
            .pop_front_if(|at| now.duration_since(*at) >= limits.dropped_span)
            .is_some()
        {}
        self.dropped.len() >= limits.dropped_frames
    }

    /// Writes a message, unless it has to wait for the greetings.
    fn send(&mut self, outgoing: Outgoing) -> Next {
        if !self.terms.greetings.is_empty()
            && self.opened.elapsed() < self.terms.limits.greeting
            && !self.terms.greetings.remove(&outgoing.id)
        {
            self.held.push_back(outgoing);
            return Next::GoOn;
        }
        if let Gone(true) = self.say(outgoing) {
            return Next::Gone;
        }
        if self.terms.greetings.is_empty() {
            return self.release();
        }
        Next::GoOn
    }

    fn release(&mut self) -> Next {
        while let Some(outgoing) = self.held.pop_front() {
            if let Gone(true) = self.say(outgoing) {
                return Next::Gone;
            }
        }
        Next::GoOn
    }

    fn say(&mut self, outgoing: Outgoing) -> Gone {
        let Outgoing {
            envelope,
            id,
            leave,
            done,
        } = outgoing;
        if done.is_closed() || !leave.is_given() {
            return Gone(false);
        }
        let Ok(text) = Utf8Bytes::try_from(envelope) else {
            return Gone(false);
        };
        self.leaves.add(leave);
        if let Gone(true) = self.write(Message::Text(text)) {
            return Gone(true);
        }
        let ping = Bytes::copy_from_slice(id.as_bytes());
        self.outstanding.add(id, done);
        if self.terms.status {
            return Gone(false);
        }
        self.last_ping = Instant::now();
        self.write(Message::Ping(ping))
    }

    fn on_time(&mut self) -> Next {
        let limits = self.terms.limits;
        let now = Instant::now();
        let is_stalled = self
            .unflushed
            .is_some_and(|since| now >= since + limits.write_timeout);
        if is_stalled || now >= self.last_heard + limits.silence {
            return Next::Gone;
        }
        if now >= self.opened + limits.greeting {
            self.terms.greetings.clear();
            if let Next::Gone = self.release() {
                return Next::Gone;
            }
        }
        if now >= self.last_ping + limits.ping_after {
            self.last_ping = now;
            if let Gone(true) = self.write(Message::Ping(Bytes::new())) {
                return Next::Gone;
            }
        }
        Next::GoOn
    }

    /// Puts a frame into the buffer; the socket gets it when it is flushed.
    fn write(&mut self, message: Message) -> Gone {
        let written = Pin::new(&mut self.socket).start_send(message);
        self.written();
        Gone(written.is_err())
    }

    fn written(&mut self) {
        self.unflushed.get_or_insert_with(Instant::now);
        self.unflushed_frames += 1;
    }

    /// Says why and reads on for a moment: closing at once would make the other side's system drop the reason.
    async fn close(mut self, code: CloseCode) {
        let reason = CloseFrame {
            code,
            reason: Utf8Bytes::default(),
        };
        let limits = self.terms.limits;
        let closing = async {
            if self.socket.close(Some(reason)).await.is_err() {
                return;
            }
            let stream = self.socket.get_mut();
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
        let _ = tokio::time::timeout(limits.linger, closing).await;
    }
}

/// Whether the connection is gone.
struct Gone(bool);

/// Reads a frame, and flushes meanwhile: whoever only read, or only wrote, could wait for the other side for ever.
fn poll_socket<T: AsyncRead + AsyncWrite + Unpin>(
    socket: &mut WebSocketStream<Guarded<T>>,
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
