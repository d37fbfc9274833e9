//! The bindings as a router of their own, for a server that is no node.

use std::sync::Arc;

use axum::Router;
use axum::body::{Body, to_bytes};
use axum::extract::Request;
use axum::routing::{any, post};
use http::Response;
use http::header::CONTENT_TYPE;

use super::binding::{Version, version_of};
use super::fault::{Fault, Kind};
use super::operations::{Agent, Service};
use super::rest::{self, RestRequest};
use super::rpc;
use super::tasks::Tasks;

/// The largest body.
const MAX_BYTES: usize = 1 << 20;

/// `POST path` for JSON-RPC, and everything below `path/v1` for HTTP+JSON.
pub fn router<A>(path: &str, agent: A, tasks: Arc<Tasks>) -> Router
where
    A: Agent + 'static,
{
    let service = Arc::new(Service { agent, tasks });
    let for_rest = Arc::clone(&service);
    let prefix = format!("{path}/v1");
    let stripped = prefix.clone();
    Router::new()
        .route(
            path,
            post(move |request: Request| call(Arc::clone(&service), request)),
        )
        .route(
            &format!("{prefix}/{{*rest}}"),
            any(move |request: Request| resource(Arc::clone(&for_rest), stripped.clone(), request)),
        )
}

async fn call<A: Agent>(service: Arc<Service<A>>, request: Request) -> Response<Body> {
    let version = version_of(request.headers(), request.uri(), Version::Old);
    let (parts, body) = request.into_parts();
    let body = match media_type(&parts.headers, &["application/json"]) {
        Ok(()) => read(body).await,
        Err(fault) => Err(fault),
    };
    let reply = rpc::answer(&*service, version, body, MAX_BYTES).await;
    reply.map(Body::new)
}

async fn resource<A: Agent>(
    service: Arc<Service<A>>,
    prefix: String,
    request: Request,
) -> Response<Body> {
    let version = version_of(request.headers(), request.uri(), Version::New);
    let (parts, body) = request.into_parts();
    let allowed = ["application/json", "application/a2a+json"];
    let body = match media_type(&parts.headers, &allowed) {
        Ok(()) => read(body).await,
        Err(fault) => Err(fault),
    };
    let request = RestRequest {
        method: &parts.method,
        path: parts.uri.path().trim_start_matches(&prefix),
        query: parts.uri.query().unwrap_or_default(),
        version,
        body,
    };
    rest::answer(&*service, request).await.map(Body::new)
}

async fn read(body: Body) -> Result<bytes::Bytes, Fault> {
    to_bytes(body, MAX_BYTES)
        .await
        .map_err(|_| Fault::new(Kind::InvalidRequest, "the body is too large or broke off"))
}

/// Whether a request's media type is one of these, or none at all.
pub(crate) fn media_type(headers: &http::HeaderMap, allowed: &[&str]) -> Result<(), Fault> {
    let Some(found) = headers.get(CONTENT_TYPE) else {
        return Ok(());
    };
    let essence = found.to_str().unwrap_or_default().split(';').next();
    let essence = essence.unwrap_or_default().trim();
    if allowed
        .iter()
        .any(|name| essence.eq_ignore_ascii_case(name))
    {
        return Ok(());
    }
    Err(Fault::new(
        Kind::ContentTypeNotSupported,
        "the media type of the body has to be JSON",
    ))
}
