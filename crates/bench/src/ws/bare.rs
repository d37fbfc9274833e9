//! The raw limit: a WebSocket server that checks one signature and waits for a grouped fdatasync, and nothing else.

use std::collections::HashMap;
use std::path::Path;
use std::sync::Arc;
use std::sync::mpsc::Sender;

use anyhow::{Context as _, Result};
use bytes::Bytes;
use chancery_value_context::message_id::MessageId;
use futures_util::stream::FuturesUnordered;
use futures_util::{FutureExt as _, SinkExt as _, StreamExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::oneshot;
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::tungstenite::handshake::server::{Request, Response};

use super::PROTOCOL;
use crate::http::{Expected, Line, grouped_writer};

const MEMBER: &[u8] = b"\"message_id\":\"";
const ID_BYTES: usize = 36;

struct Echo {
    expected: HashMap<[u8; ID_BYTES], Expected>,
    writer: Sender<Line>,
}

/// Serves until the runtime ends.
pub(super) fn serve(
    listener: TcpListener,
    expected: Vec<(MessageId, Expected)>,
    dir: &Path,
) -> Result<()> {
    let mut by_id = HashMap::with_capacity(expected.len());
    for (id, expected) in expected {
        let id: [u8; ID_BYTES] = id.to_string().as_bytes().try_into()?;
        by_id.insert(id, expected);
    }
    let echo = Arc::new(Echo {
        expected: by_id,
        writer: grouped_writer(dir)?,
    });
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            let _ = stream.set_nodelay(true);
            tokio::spawn(talk(Arc::clone(&echo), stream));
        }
    });
    Ok(())
}

#[expect(
    clippy::result_large_err,
    reason = "the shape that the WebSocket library asks for"
)]
async fn talk(echo: Arc<Echo>, stream: TcpStream) -> Result<()> {
    let choose = |_: &Request, mut response: Response| {
        let protocol = http::HeaderValue::from_static(PROTOCOL);
        response
            .headers_mut()
            .insert("sec-websocket-protocol", protocol);
        Ok(response)
    };
    let mut socket = tokio_tungstenite::accept_hdr_async(stream, choose).await?;
    let mut under_way = FuturesUnordered::new();
    loop {
        tokio::select! {
            biased;
            Some(answer) = under_way.next(), if !under_way.is_empty() => {
                socket.feed(text(answer)?).await?;
                while let Some(Some(answer)) = under_way.next().now_or_never() {
                    socket.feed(text(answer)?).await?;
                }
                socket.flush().await?;
            }
            frame = socket.next() => match frame {
                Some(Ok(Message::Text(frame))) => under_way.push(echo.take(frame.into())?),
                Some(Ok(_)) => {}
                _ => return Ok(()),
            },
        }
    }
}

fn text(answer: Option<Bytes>) -> Result<Message> {
    let answer = answer.context("the log is gone")?;
    Ok(Message::Text(answer.try_into()?))
}

impl Echo {
    fn take(&self, frame: Bytes) -> Result<impl Future<Output = Option<Bytes>> + use<>> {
        let at = memchr::memmem::find(&frame, MEMBER).context("a frame without an identifier")?;
        let id = frame
            .get(at + MEMBER.len()..)
            .and_then(|rest| rest.first_chunk());
        let expected = id.and_then(|id| self.expected.get(id));
        let expected = expected.context("a frame that nobody made")?;
        anyhow::ensure!(expected.holds(), "a signature does not hold");
        let (durable, told) = oneshot::channel();
        let line = Line {
            bytes: frame,
            durable,
        };
        self.writer.send(line).ok().context("the log is gone")?;
        let answer = expected.answer.clone();
        Ok(async move { told.await.ok().map(|()| answer) })
    }
}
