//! From the table to a router, and what answers where the table has nothing.

use std::collections::BTreeMap;
use std::sync::Arc;

use axum::Router;
use axum::extract::{FromRequestParts, RawPathParams, Request};
use axum::routing::{MethodFilter, MethodRouter};
use chancery_agh::fault::ErrorName;
use chancery_core::refusal::Refusal;
use chancery_value_context::code::Code;
use chancery_vibe::code::Code as VibeCode;
use http::request::Parts;
use http::{Method, StatusCode};

use super::access::{Access, Rule, authorize, principal};
use super::agh::told_at_the_door;
use super::door::{Call, HttpDoor, busy, not_found};
use super::guard::is_at_home;
use super::query::Query;
use super::reply::{Reply, problem, with_allow};
use super::table::{AGH, Route, routes};
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
    let agent = agent_of(&params, &parts);
    let access = match route.rule {
        Rule::Public | Rule::Signed(_) => Access::Free,
        Rule::Principal(_) => principal(door, &parts.headers).await?,
        Rule::DevOnly if door.is_dev() => Access::Free,
        Rule::DevOnly => return Err(not_found()),
        // With the trust profile on, envelopes prove themselves (CH-NET-4).
        Rule::Token(_) if route.path == AGH && door.office.gate().settings().agh.trust.enabled => {
            Access::Free
        }
        Rule::Token(need) => authorize(door, need, agent.as_deref(), &parts.headers).await?,
    };
    Ok(Call::new(Request::from_parts(parts, body), params, access))
}

/// The agent that a path names, as scopes name it: for AGH `CHANNEL/PEER`, with the workspace of revision B.
fn agent_of(params: &[(String, String)], parts: &Parts) -> Option<String> {
    let param = |name: &str| {
        let found = params.iter().find(|(param, _)| param == name);
        found.map(|(_, value)| value.as_str())
    };
    if let Some(agent) = param("agent") {
        return Some(agent.to_owned());
    }
    let channel = param("channel")?;
    let Some(peer) = param("peer") else {
        return Some(channel.to_owned());
    };
    let query = Query::of(parts).ok()?;
    let workspace = query.text("workspace").filter(|text| !text.is_empty());
    Some(chancery_agh::peer::address(workspace, channel, peer))
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
    Agh,
    Problem,
}

/// Where each protocol answers; the first that fits.
const PROTOCOL_PATHS: [(Shape, &str); 17] = [
    (Shape::ValueContext, "/.well-known/vcp"),
    (Shape::ValueContext, "/send/value-context"),
    (Shape::ValueContext, "/vcp/ws"),
    (Shape::Vibe, "/vcp"),
    (Shape::Vibe, "/send/vibe"),
    (Shape::Vibe, "/inbox/vibe"),
    (Shape::Vibe, "/state/vibe"),
    (Shape::Vacant, "/a2a"),
    (Shape::Vacant, "/agents"),
    (Shape::Vacant, "/mcp"),
    (Shape::Vacant, "/card"),
    (Shape::Vacant, "/health"),
    (Shape::Vacant, "/.well-known/agent-card.json"),
    (Shape::Vacant, "/send/vacant"),
    (Shape::Vacant, "/v1"),
    (Shape::Agh, AGH),
    (Shape::Agh, "/send/agh"),
];

pub(crate) fn shape(path: &str) -> Shape {
    let is_below = |root: &str| {
        path.strip_prefix(root)
            .is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
    };
    PROTOCOL_PATHS
        .iter()
        .find(|(_, root)| is_below(root))
        .map_or(Shape::Problem, |(shape, _)| *shape)
}

impl Shape {
    fn not_found(self) -> Reply {
        match self {
            Self::ValueContext => refused(Code::NotFound, "there is nothing at this path"),
            Self::Vibe => vibe::answers::not_found(),
            Self::Vacant => vacant_refusal("NOT_FOUND", 404, "there is nothing at this path"),
            Self::Agh => told_at_the_door(ErrorName::NotFound, 404),
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
            Self::Agh => told_at_the_door(ErrorName::NotFound, 405),
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
            Self::Agh => told_at_the_door(ErrorName::Busy, 503),
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
            Self::Agh | Self::Problem => problem(StatusCode::FORBIDDEN, message),
        }
    }
}

fn vacant_refusal(code: &'static str, status: u16, message: &'static str) -> Reply {
    super::vacant::refusal(&Refusal::new(code, status, "CH-NET-1", message))
}

fn refused(code: Code, message: &'static str) -> Reply {
    rejected(&at_the_door(code, message))
}

/// A path that most requests take: they need not go through the router.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Direct {
    ValueContext,
    Vibe,
}

/// Which of them a request takes.
pub(crate) fn direct(method: &Method, path: &str) -> Option<Direct> {
    match path {
        _ if *method != Method::POST => None,
        super::table::MESSAGES => Some(Direct::ValueContext),
        super::table::VCP => Some(Direct::Vibe),
        _ => None,
    }
}
