//! The node's own tools over MCP: its log is read and checked, and hosted agents send, at `/mcp/node`.
//!
//! Guarantees: a tool is a path of the table: the same rule asks for the same scope, the same handler answers. A caller
//! sees the tools that its token can use, and no other.
//!
//! Refuses: tools that administer. Who has `admin` may read the log here, and no more.

mod faces;

use std::sync::Arc;

use axum::body::Body;
use chancery_core::line::{ProtocolName, Seq};
use chancery_node::Office;
use chancery_store::StoreError;
use http::{HeaderValue, Method, Request, StatusCode};
use serde_json::{Map, Value, json};

use super::access::{Access, Need, Rule, forbidden};
use super::body::BodyFault;
use super::door::{Call, HttpDoor, Peer, busy, internal};
use super::journal::is_of;
use super::reply::{Reply, problem};
use super::table::{Route, routes};
use crate::mcp::{Told, ToolFace, Toolbox, answer, collect};
pub use faces::node_tools;

/// Bytes of a request.
const BODY_BYTES: usize = 1 << 20;
/// Lines of `log_tail` unless asked otherwise, and at most; and their bytes.
const LINES: u64 = 20;
const LINES_AT_MOST: u64 = 1_000;
const TAIL_BYTES: usize = 1 << 20;
/// Lines that are looked at for those of one protocol, and how many at once.
const LOOKED_AT: u64 = 100_000;
const PORTION: u64 = 64;

/// Reads the whole log: the program's business, which has the rules of every protocol and the files beside the log.
pub trait LogDesk: Send + Sync {
    /// Checks form, sequence, hash chain and signatures, as `chancery log verify --json` tells it.
    fn verify(&self) -> Result<Value, String>;
    /// Tells about one envelope, as `chancery log explain --json` does.
    fn explain(&self, id: &str) -> Result<Value, String>;
}

/// `POST /mcp/node`.
pub(crate) async fn call(door: Arc<HttpDoor>, call: Call) -> Reply {
    let read = door
        .bodies
        .read(&call.parts.headers, call.body, BODY_BYTES)
        .await;
    match read {
        Ok(body) => {
            let tools = NodeTools {
                door,
                access: call.access,
                peer: Peer(call.peer),
            };
            answer(tools, call.parts, body).await
        }
        Err(BodyFault::TooLarge) => problem(StatusCode::PAYLOAD_TOO_LARGE, "the body is too large"),
        Err(BodyFault::Full) => busy(),
        Err(BodyFault::Late | BodyFault::Broken) => {
            problem(StatusCode::BAD_REQUEST, "the body did not come whole")
        }
    }
}

/// The tools of a node, for one caller.
#[derive(Clone)]
pub struct NodeTools {
    door: Arc<HttpDoor>,
    access: Access,
    peer: Peer,
}

impl NodeTools {
    /// For whoever holds the data directory itself: everything.
    pub(crate) fn of_owner(door: &Arc<HttpDoor>) -> Self {
        Self {
            door: Arc::clone(door),
            access: Access::Free,
            peer: Peer(std::net::IpAddr::from([127, 0, 0, 1])),
        }
    }

    /// Whether the caller's token is enough for a tool.
    fn may_use(&self, name: &str) -> bool {
        path_of(name).is_some_and(|route| match (route.rule, &self.access) {
            (_, Access::Free) | (Rule::Public | Rule::Signed(_), _) => true,
            (Rule::Token(need), access) => access.meets(need),
            (Rule::Principal(_), Access::Token(token)) => {
                !token.addresses.is_empty() || token.scopes.iter().any(|scope| scope == "approve")
            }
            (Rule::DevOnly, Access::Token(_)) => false,
        })
    }

    async fn use_tool(&self, name: &str, arguments: Map<String, Value>) -> Told {
        if !self.may_use(name) {
            return of_reply(forbidden(need_of(name))).await;
        }
        match name {
            "log_tail" => self.tail(&arguments).await,
            "log_explain" => match arguments.get("id") {
                Some(Value::String(id)) => {
                    let id = id.clone();
                    self.check(move |desk| desk.explain(&id)).await
                }
                _ => failed("id has to be a text"),
            },
            "log_verify" => self.check(|desk| desk.verify()).await,
            _ => self.send(name, arguments).await,
        }
    }

    /// One check of the log at a time: each takes every core for a while.
    async fn check(
        &self,
        ask: impl FnOnce(&dyn LogDesk) -> Result<Value, String> + Send + 'static,
    ) -> Told {
        let Some(desk) = self.door.log_desk.clone() else {
            return failed("this node does not check its log: use chancery log");
        };
        let Ok(place) = Arc::clone(&self.door.log_checks).try_acquire_owned() else {
            return failed("another check of the log is under way; try again");
        };
        let asked = tokio::task::spawn_blocking(move || {
            let told = ask(&*desk);
            drop(place);
            told
        });
        match asked.await {
            Ok(Ok(structured)) => Told {
                structured,
                is_error: false,
            },
            Ok(Err(why)) => failed(&why),
            Err(_) => of_reply(internal()).await,
        }
    }

    async fn tail(&self, arguments: &Map<String, Value>) -> Told {
        let asked = match Asked::of(arguments) {
            Ok(asked) => asked,
            Err(why) => return failed(why),
        };
        match self.door.read(move |office| asked.lines(office)).await {
            Ok(structured) => Told {
                structured,
                is_error: false,
            },
            Err(reply) => of_reply(reply).await,
        }
    }

    /// The path of the table with the arguments as its body.
    async fn send(&self, name: &str, mut arguments: Map<String, Value>) -> Told {
        let Some(route) = path_of(name) else {
            return of_reply(internal()).await;
        };
        let key = match arguments.remove("idempotency_key").map(as_header) {
            None => None,
            Some(Some(key)) => Some(key),
            Some(None) => return failed("idempotency_key has to be a text that a header can hold"),
        };
        let body = Value::Object(arguments).to_string();
        let mut request = Request::new(Body::from(body));
        *request.method_mut() = route.method.clone();
        let headers = request.headers_mut();
        headers.insert("content-type", HeaderValue::from_static("application/json"));
        if let Some(key) = key {
            headers.insert("idempotency-key", key);
        }
        request.extensions_mut().insert(self.peer);
        let call = Call::new(request, Vec::new(), self.access.clone());
        of_reply((route.handler)(Arc::clone(&self.door), call).await).await
    }
}

fn as_header(key: Value) -> Option<HeaderValue> {
    HeaderValue::from_str(key.as_str()?).ok()
}

/// What a token has to allow for a tool.
fn need_of(name: &str) -> Need {
    match path_of(name).map(|route| route.rule) {
        Some(Rule::Token(need)) => need,
        _ => Need::Tools,
    }
}

/// The path whose rule a tool has.
fn path_of(name: &str) -> Option<&'static Route> {
    let (method, path) = match name {
        "log_tail" | "log_explain" | "log_verify" => (Method::GET, "/log"),
        "send_vibe" => (Method::POST, "/send/vibe"),
        "send_value_context" => (Method::POST, "/send/value-context"),
        "send_vacant" => (Method::POST, "/send/vacant"),
        "send_agh" => (Method::POST, "/send/agh"),
        _ => return None,
    };
    routes()
        .iter()
        .find(|route| route.method == method && route.path == path)
}

/// What a tool tells when it was asked wrongly.
fn failed(why: &str) -> Told {
    Told {
        structured: json!({ "error": why }),
        is_error: true,
    }
}

/// The answer of a path as what a tool tells: its status and its body.
async fn of_reply(reply: Reply) -> Told {
    let (head, body) = reply.into_parts();
    let body = collect(body).await;
    let answer = serde_json::from_slice(&body).unwrap_or(Value::Null);
    Told {
        structured: json!({"status": head.status.as_u16(), "answer": answer}),
        is_error: !head.status.is_success(),
    }
}

/// Which lines `log_tail` is asked for.
struct Asked {
    limit: u64,
    from: Option<Seq>,
    protocol: Option<ProtocolName>,
}

impl Asked {
    fn of(arguments: &Map<String, Value>) -> Result<Self, &'static str> {
        let number = |name: &str| match arguments.get(name) {
            None | Some(Value::Null) => Ok(None),
            Some(value) => value.as_u64().map(Some).ok_or("a number is no number"),
        };
        let protocol = match arguments.get("protocol") {
            None | Some(Value::Null) => None,
            Some(name) => {
                let name = name.as_str().and_then(ProtocolName::parse);
                Some(name.ok_or("there is no protocol of that name")?)
            }
        };
        Ok(Self {
            limit: number("limit")?.unwrap_or(LINES).clamp(1, LINES_AT_MOST),
            from: number("from")?.map(|from| from.max(1)),
            protocol,
        })
    }

    /// The lines byte for byte, and the number to go on from.
    fn lines(&self, office: &Office) -> Result<Value, StoreError> {
        let (lines, next) = match self.from {
            Some(from) => self.onwards(office, from)?,
            None => self.last(office)?,
        };
        Ok(json!({"lines": lines, "next": next}))
    }

    fn onwards(&self, office: &Office, from: Seq) -> Result<(Vec<String>, Seq), StoreError> {
        let mut taken = Taken::default();
        let mut next = from;
        while next - from < LOOKED_AT {
            let lines = office.gate().store().lines(next, PORTION as usize)?;
            if lines.is_empty() {
                break;
            }
            for line in lines {
                if is_of(&line, self.protocol)? && !taken.take(&line, self.limit) {
                    return Ok((taken.lines, next));
                }
                next += 1;
            }
        }
        Ok((taken.lines, next))
    }

    fn last(&self, office: &Office) -> Result<(Vec<String>, Seq), StoreError> {
        let store = office.gate().store();
        let head = store.head().seq;
        let mut taken = Taken::default();
        let mut end = head;
        'back: while end > 0 && head - end < LOOKED_AT {
            let from = end.saturating_sub(PORTION - 1).max(1);
            let lines = store.lines(from, (end - from + 1) as usize)?;
            for line in lines.iter().rev() {
                if is_of(line, self.protocol)? && !taken.take(line, self.limit) {
                    break 'back;
                }
            }
            end = from - 1;
        }
        taken.lines.reverse();
        Ok((taken.lines, head + 1))
    }
}

/// Lines within the bounds of an answer, which always holds one.
#[derive(Default)]
struct Taken {
    lines: Vec<String>,
    bytes: usize,
}

impl Taken {
    fn take(&mut self, line: &[u8], limit: u64) -> bool {
        let is_full = self.lines.len() as u64 >= limit
            || (!self.lines.is_empty() && self.bytes + line.len() > TAIL_BYTES);
        if !is_full {
            self.bytes += line.len();
            self.lines.push(String::from_utf8_lossy(line).into_owned());
        }
        !is_full
    }
}

impl Toolbox for NodeTools {
    fn instructions(&self) -> String {
        "Tools of a chancery node: its log, and sending as the agents that it hosts. A token's scopes say which of \
         them there are."
            .to_owned()
    }

    fn tools(&self) -> Vec<ToolFace> {
        let mut tools = node_tools();
        tools.retain(|tool| self.may_use(tool.name));
        tools
    }

    fn is_for_all(&self) -> bool {
        false
    }

    async fn call(&self, name: &str, arguments: Map<String, Value>) -> Option<Told> {
        path_of(name)?;
        Some(self.use_tool(name, arguments).await)
    }
}

impl Access {
    /// Whether the caller has what a path needs that names no agent.
    fn meets(&self, need: Need) -> bool {
        match self {
            Self::Free => true,
            Self::Token(token) => super::access::allows(&token.scopes, need, None),
        }
    }
}
