//! The raw limit of vacant calls: verify one signature, make the call durable, sign, make the answer durable.

use std::path::Path;
use std::sync::Arc;
use std::sync::mpsc::Sender;

use anyhow::Result;
use axum::Router;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Response};
use axum::routing::post;
use axum::serve::ListenerExt;
use bytes::Bytes;
use chancery_core::digest::hex;
use chancery_core::keys::ed25519::SigningKey;
use chancery_vacant::id::VacantId;
use tokio::net::TcpListener;
use tokio::sync::oneshot;

use super::super::bare::{Line, grouped_writer};
use super::{PATH, SIGNATURE_HEADER, SIGNER_HEADER, target};

#[derive(Clone)]
struct Echo {
    key: Arc<SigningKey>,
    writer: Sender<Line>,
}

/// Serves until the runtime ends.
pub(super) fn serve(listener: TcpListener, dir: &Path) -> Result<()> {
    let echo = Echo {
        key: Arc::new(target()),
        writer: grouped_writer(dir)?,
    };
    let app = Router::new().route(PATH, post(answer)).with_state(echo);
    let listener = listener.tap_io(|stream| {
        let _ = stream.set_nodelay(true);
    });
    tokio::spawn(async move { axum::serve(listener, app).await });
    Ok(())
}

async fn answer(State(echo): State<Echo>, headers: HeaderMap, body: Bytes) -> Response {
    let text = |name: &str| headers.get(name).and_then(|value| value.to_str().ok());
    let signer = text(SIGNER_HEADER).and_then(|text| VacantId::from_hex(text).ok());
    let signature = text(SIGNATURE_HEADER).and_then(|text| hex::decode(text).ok());
    let (Some(signer), Some(signature)) = (signer, signature) else {
        return StatusCode::BAD_REQUEST.into_response();
    };
    if !signer.verifies(&body, &signature) {
        return StatusCode::UNAUTHORIZED.into_response();
    }
    if !echo.is_durable(body.clone()).await {
        return StatusCode::INTERNAL_SERVER_ERROR.into_response();
    }
    let mut answer = hex::encode(&echo.key.sign(&body)).into_bytes();
    answer.extend_from_slice(&body);
    let answer = Bytes::from(answer);
    if !echo.is_durable(answer.clone()).await {
        return StatusCode::INTERNAL_SERVER_ERROR.into_response();
    }
    answer.into_response()
}

impl Echo {
    async fn is_durable(&self, bytes: Bytes) -> bool {
        let (durable, told) = oneshot::channel();
        self.writer.send(Line { bytes, durable }).is_ok() && told.await.is_ok()
    }
}
