//! From the table to a router, and what answers where the table has nothing.

use std::collections::BTreeMap;
use std::sync::Arc;

use axum::Router;
use axum::extract::{FromRequestParts, RawPathParams, Request};
use axum::routing::{MethodFilter, MethodRouter};
use chancery_core::refusal::Refusal;
use chancery_value_context::code::Code;
use chancery_vibe::code::Code as VibeCode;
use http::{Method, StatusCode};

use super::access::{Access, Rule, authorize, principal};
use super::door::{Call, HttpDoor, busy, not_found};
use super::guard::is_at_home;
use super::reply::{Reply, problem, with_allow};
use super::table::{Route, routes};
use super::value_context::{at_the_door, rejected};
use super::vibe;

/// The router of all paths.
pub(crate) fn router(door: &Arc<HttpDoor>) -> Router {
    let mut by_path: BTreeMap<&str, Vec<&'static Route>> = BTreeMap::new();
    for route in routes() {
        by_path.entry(route.path).or_default().push(route);
    }
    let mut router = Router::new();
    for (path, routes) in by_path {
        router = router.route(path, methods(door, &routes));
    }
    let door = Arc::clone(door);
    router.fallback(move |request: Request| {
        let path = request.uri().path().to_owned();
        let reply = entered(&door, request)
            .err()
            .unwrap_or_else(|| shape(&path).not_found());
        std::future::ready(reply)
    })
}

fn methods(door: &Arc<HttpDoor>, routes: &[&'static Route]) -> MethodRouter {
    let mut methods = MethodRouter::new();
    for route in routes {
        let (door, route) = (Arc::clone(door), *route);
        let Ok(filter) = MethodFilter::try_from(route.method.clone()) else {
            continue;
        };
        methods = methods.on(filter, move |request: Request| {
            answer(Arc::clone(&door), route, request)
        });
    }
    let allow = routes
        .iter()
        .map(|route| route.method.as_str())
        .collect::<Vec<_>>()
        .join(", ");
    let is_dev_only = routes.iter().all(|route| route.rule == Rule::DevOnly);
    let door = Arc::clone(door);
    methods.fallback(move |request: Request| {
        let shape = shape(request.uri().path());
        let reply = match entered(&door, request) {
            Err(reply) => reply,
            Ok(_) if is_dev_only && !door.is_dev() => shape.not_found(),
            Ok(_) => with_allow(shape.method_not_allowed(), &allow),
        };
        std::future::ready(reply)
    })
}

async fn answer(door: Arc<HttpDoor>, route: &'static Route, request: Request) -> Reply {
    match admitted(&door, route, request).await {
        Ok(call) => (route.handler)(door, call).await,
        Err(reply) => reply,
    }
}

async fn admitted(door: &HttpDoor, route: &Route, request: Request) -> Result<Call, Reply> {
    let request = entered(door, request)?;
    let (mut parts, body) = request.into_parts();
    let params = match RawPathParams::from_request_parts(&mut parts, &()).await {
        Ok(params) => params
            .iter()
            .map(|(name, value)| (name.to_owned(), value.to_owned()))
            .collect(),
        Err(_) => Vec::new(),
    };
    let agent = |params: &[(String, String)]| {
        params
            .iter()
            .find(|(name, _)| name == "agent")
            .map(|(_, agent)| agent.clone())
    };
    let access = match route.rule {
        Rule::Public | Rule::Signed(_) => Access::Free,
        Rule::Principal(_) => principal(door, &parts.headers).await?,
        Rule::DevOnly if door.is_dev() => Access::Free,
        Rule::DevOnly => return Err(not_found()),
        Rule::Token(need) => {
            authorize(door, need, agent(&params).as_deref(), &parts.headers).await?
        }
    };
    Ok(Call::new(Request::from_parts(parts, body), params, access))
}

/// A request that may go on to its rule.
fn entered(door: &HttpDoor, request: Request) -> Result<Request, Reply> {
    if door.is_stopping() {
        return Err(shape(request.uri().path()).stopping());
    }
    let (parts, body) = request.into_parts();
    if door.is_dev() && !is_at_home(&parts) {
        return Err(shape(parts.uri.path()).foreign());
    }
    Ok(Request::from_parts(parts, body))
}

/// The shape of the errors below a path (CH-NET-1).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Shape {
    ValueContext,
    Vibe,
    Vacant,
    Problem,
}

/// Where each protocol answers; the first that fits.
const PROTOCOL_PATHS: [(Shape, &str); 7] = [
    (Shape::ValueContext, "/.well-known/vcp"),
    (Shape::ValueContext, "/send/value-context"),
    (Shape::ValueContext, "/vcp/ws"),
    (Shape::Vibe, "/vcp"),
    (Shape::Vibe, "/send/vibe"),
    (Shape::Vibe, "/inbox/vibe"),
    (Shape::Vibe, "/state/vibe"),
];

/// Where vacant answers.
const VACANT_PATHS: [&str; 7] = [
    "/a2a",
    "/agents",
    "/card",
    "/health",
    "/.well-known/agent-card.json",
    "/send/vacant",
    "/v1",
];

pub(crate) fn shape(path: &str) -> Shape {
    let is_below = |root: &str| {
        path.strip_prefix(root)
            .is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
    };
    if let Some((shape, _)) = PROTOCOL_PATHS.iter().find(|(_, root)| is_below(root)) {
        return *shape;
    }
    match VACANT_PATHS.iter().any(|root| is_below(root)) {
        true => Shape::Vacant,
        false => Shape::Problem,
    }
}

impl Shape {
    fn not_found(self) -> Reply {
        match self {
            Self::ValueContext => refused(Code::NotFound, "there is nothing at this path"),
            Self::Vibe => vibe::answers::not_found(),
            Self::Vacant => vacant_refusal("NOT_FOUND", 404, "there is nothing at this path"),
            Self::Problem => not_found(),
        }
    }

    fn method_not_allowed(self) -> Reply {
        match self {
            Self::ValueContext => refused(Code::MethodNotAllowed, "this path has other methods"),
            Self::Vibe => vibe::answers::refused(&VibeCode::MethodNotAllowed.refuse()),
            Self::Vacant => {
                vacant_refusal("METHOD_NOT_ALLOWED", 405, "this path has other methods")
            }
            Self::Problem => problem(
                StatusCode::METHOD_NOT_ALLOWED,
                "this path has other methods",
            ),
        }
    }

    pub(crate) fn stopping(self) -> Reply {
        match self {
            Self::ValueContext => refused(Code::Overloaded, "the node is shutting down"),
            Self::Vibe => vibe::answers::saying(VibeCode::Overloaded, "the node is shutting down"),
            Self::Vacant => vacant_refusal("OVERLOADED", 503, "the node is shutting down"),
            Self::Problem => busy(),
        }
    }

    pub(crate) fn foreign(self) -> Reply {
        let message =
            "in dev a request names this machine as its host and comes from no other page";
        match self {
            Self::ValueContext => refused(Code::NotAuthorized, message),
            Self::Vibe => vibe::answers::saying(VibeCode::SenderNotAuthorized, message),
            Self::Vacant => vacant_refusal("FORBIDDEN", 403, message),
            Self::Problem => problem(StatusCode::FORBIDDEN, message),
        }
    }
}

fn vacant_refusal(code: &'static str, status: u16, message: &'static str) -> Reply {
    super::vacant::refusal(&Refusal::new(code, status, "CH-NET-1", message))
}

fn refused(code: Code, message: &'static str) -> Reply {
    rejected(&at_the_door(code, message))
}

/// Whether a request is the one that most requests are: it need not go through the router.
pub(crate) fn is_message(method: &Method, path: &str) -> bool {
    *method == Method::POST && path == super::table::MESSAGES
}
