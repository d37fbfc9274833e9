//! An offer as a router of its own, for a server that is no node.

use std::sync::Arc;

use axum::Router;
use rmcp::transport::streamable_http_server::session::local::LocalSessionManager;
use rmcp::transport::{StreamableHttpServerConfig, StreamableHttpService};

use super::Offer;
use super::over_http::ORIGINS;
use super::server::Server;

/// The largest body.
const MAX_BYTES: usize = 1 << 20;

/// Streamable HTTP at `path`, for clients of this machine alone. Older revisions have sessions, which end after five
/// minutes without a request; a server that says something before its answer streams it.
pub fn router<O: Offer>(path: &str, offer: O) -> Router {
    // Whom a browser may call is checked by host and by origin: the default hosts are those of this machine.
    let config = StreamableHttpServerConfig::default()
        .with_json_response(true)
        .with_allowed_origins(ORIGINS)
        .with_max_request_body_bytes(MAX_BYTES);
    let sessions = Arc::new(LocalSessionManager::default());
    let server = move || Ok(Server::new(offer.clone()));
    Router::new().route_service(path, StreamableHttpService::new(server, sessions, config))
}
