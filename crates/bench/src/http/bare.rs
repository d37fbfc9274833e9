//! The raw limit of the HTTP benchmark: an axum handler that checks one signature and waits for a grouped fdatasync.

use std::path::Path;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};

use anyhow::Result;
use axum::Router;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::post;
use axum::serve::ListenerExt;
use bytes::Bytes;
use tokio::net::TcpListener;
use tokio::sync::oneshot;

use super::CHECK_HEADER;
use crate::pipeline::Check;
use crate::store::BareLog;

/// One request's signature, where it has one, what it is answered, and what is put on disk for it: its body, where
/// nothing is named.
pub(crate) struct Expected {
    pub(crate) check: Option<Check>,
    pub(crate) answer: Bytes,
    pub(crate) lines: Option<Bytes>,
}

impl Expected {
    /// Checks the signature.
    pub(crate) fn holds(&self) -> bool {
        self.check.as_ref().is_none_or(Check::holds)
    }
}

#[derive(Clone)]
struct Echo {
    expected: Arc<Vec<Expected>>,
    writer: Sender<Line>,
}

/// A line to be made durable, and who waits for it.
pub(crate) struct Line {
    pub(crate) bytes: Bytes,
    pub(crate) durable: oneshot::Sender<()>,
}

/// Serves until the runtime ends.
pub(crate) fn serve(
    listener: TcpListener,
    path: &str,
    expected: Vec<Expected>,
    dir: &Path,
) -> Result<()> {
    let echo = Echo {
        expected: Arc::new(expected),
        writer: grouped_writer(dir)?,
    };
    let app = Router::new().route(path, post(answer)).with_state(echo);
    let listener = listener.tap_io(|stream| {
        let _ = stream.set_nodelay(true);
    });
    tokio::spawn(async move { axum::serve(listener, app).await });
    Ok(())
}

/// A thread that makes lines durable in groups.
pub(crate) fn grouped_writer(dir: &Path) -> Result<Sender<Line>> {
    let log = BareLog::create(dir)?;
    let (writer, lines) = channel();
    std::thread::spawn(move || write(log, &lines));
    Ok(writer)
}

/// Appends what has come in, syncs once, lets the answers go.
fn write(mut log: BareLog, lines: &Receiver<Line>) {
    let mut text = Vec::new();
    while let Ok(first) = lines.recv() {
        let group: Vec<Line> = std::iter::once(first).chain(lines.try_iter()).collect();
        text.clear();
        for line in &group {
            text.extend_from_slice(&line.bytes);
            text.push(b'\n');
        }
        if log.append(&text).is_err() {
            return;
        }
        for line in group {
            let _ = line.durable.send(());
        }
    }
}

async fn answer(State(echo): State<Echo>, headers: HeaderMap, body: Bytes) -> Response {
    let number = headers
        .get(CHECK_HEADER)
        .and_then(|number| number.to_str().ok());
    let number = number.and_then(|number| number.parse::<usize>().ok());
    let Some(expected) = number.and_then(|number| echo.expected.get(number)) else {
        return StatusCode::BAD_REQUEST.into_response();
    };
    if !expected.holds() {
        return StatusCode::UNAUTHORIZED.into_response();
    }
    let (durable, told) = oneshot::channel();
    if echo
        .writer
        .send(Line {
            bytes: expected.lines.clone().unwrap_or(body),
            durable,
        })
        .is_err()
        || told.await.is_err()
    {
        return StatusCode::INTERNAL_SERVER_ERROR.into_response();
    }
    let media_type = [(header::CONTENT_TYPE, "application/json; charset=utf-8")];
    (media_type, expected.answer.clone()).into_response()
}
