//! The table of paths: the router, the tests and every description of this door are made from it.
//!
//! A path cannot be without a rule: there is no other way to add one.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use chancery_core::line::ProtocolName;
use http::Method;

use super::access::{Need, Rule};
use super::door::{Call, HttpDoor};
use super::reply::Reply;
use super::{
    admin, agh, agh_upgrade, inbox, journal, messages, node_tools, openapi, operations, send,
    state, upgrade, vacant, vibe,
};

/// The answer to a call, on its way.
type Answering = Pin<Box<dyn Future<Output = Reply> + Send>>;
/// What answers a call.
pub(crate) type Handler = fn(Arc<HttpDoor>, Call) -> Answering;

/// A path with a method, its rule, and what answers.
#[derive(Clone, Debug)]
pub struct Route {
    /// The method.
    pub method: Method,
    /// The path; `{name}` stands for one percent-encoded segment.
    pub path: &'static str,
    /// Who may use it.
    pub rule: Rule,
    /// What it does, in a few words.
    pub what: &'static str,
    pub(crate) handler: Handler,
}

/// The path that value-context messages come in by.
pub(crate) const MESSAGES: &str = "/.well-known/vcp/messages";

/// The path that vibe envelopes come in by.
pub(crate) const VCP: &str = "/vcp";

/// The path that AGH envelopes come in by.
pub(crate) const AGH: &str = "/agh";

macro_rules! route {
    ($method:ident $path:expr, $rule:expr, $handler:path, $what:literal) => {
        Route {
            method: Method::$method,
            path: $path,
            rule: $rule,
            what: $what,
            handler: |door, call| Box::pin($handler(door, call)),
        }
    };
}

static ROUTES: [Route; 87] = {
    const VX: Rule = Rule::Signed(ProtocolName::ValueContext);
    const VIBE: Rule = Rule::Principal(ProtocolName::Vibe);
    const VA: Rule = Rule::Signed(ProtocolName::Vacant);
    const ADMIN: Rule = Rule::Token(Need::Admin);
    const READ_INBOX: Rule = Rule::Token(Need::ReadInbox);
    const READ_LOG: Rule = Rule::Token(Need::ReadLog);
    [
        route!(POST MESSAGES, VX, messages::call, "takes in one value-context envelope"),
        route!(GET crate::ws::PATH, VX, upgrade::call, "becomes a WebSocket for value-context envelopes"),
        route!(POST "/send/value-context", Rule::Token(Need::Send), send::call, "sends as a hosted agent"),
        route!(GET "/inbox/value-context/{agent}", READ_INBOX, inbox::read, "reads an inbox"),
        route!(POST "/inbox/value-context/{agent}/ack", READ_INBOX, inbox::acknowledge, "moves an inbox's cursor"),
        route!(GET "/state/value-context/{agent}", Rule::Token(Need::ReadState), state::read, "tells an agent's state"),
        route!(POST VCP, Rule::Signed(ProtocolName::Vibe), vibe::receive::call, "takes in one vibe envelope"),
        route!(GET "/vcp/health", Rule::Public, vibe::reads::health, "tells that vibe is served"),
        route!(GET "/vcp/inbox", VIBE, vibe::inbox::entries, "reads what is addressed to the caller"),
        route!(GET "/vcp/sessions/{session}", VIBE, vibe::reads::session, "tells a session"),
        route!(GET "/vcp/approvals", VIBE, vibe::reads::approvals, "lists purchases that wait for a person"),
        route!(GET "/vcp/world/{table}", VIBE, vibe::reads::table, "reads a table of the world"),
        route!(GET "/vcp/audit", VIBE, vibe::reads::audit, "reads vibe's lines of the journal"),
        route!(POST "/send/vibe", VIBE, vibe::receive::send, "sends an envelope that the node completes"),
        route!(GET "/inbox/vibe/{agent}", VIBE, vibe::inbox::read, "reads an inbox"),
        route!(POST "/inbox/vibe/{agent}/ack", VIBE, vibe::inbox::acknowledge, "moves an inbox's cursor"),
        route!(GET "/state/vibe/{session}", VIBE, vibe::reads::session, "tells a session"),
        route!(POST "/admin/world", ADMIN, admin::world::change, "changes catalog, stock and accounts"),
        route!(POST "/a2a/message/send", VA, vacant::native::call, "calls the default vacant"),
        route!(POST "/agents/{vacant}/a2a/message/send", VA, vacant::native::call, "calls a vacant"),
        route!(POST "/a2a", VA, vacant::a2a::call, "speaks A2A with the default vacant over JSON-RPC"),
        route!(POST "/a2a/v1/message:send", VA, vacant::a2a::resource, "sends the default vacant a message"),
        route!(POST "/a2a/v1/message:stream", VA, vacant::a2a::resource, "the same, as a stream"),
        route!(GET "/a2a/v1/tasks", VA, vacant::a2a::resource, "refuses to list tasks"),
        route!(GET "/a2a/v1/tasks/{task}", VA, vacant::a2a::resource, "tells a task"),
        route!(POST "/a2a/v1/tasks/{task}", VA, vacant::a2a::resource, "withdraws or follows a task"),
        route!(GET "/a2a/v1/tasks/{task}/pushNotificationConfigs", VA, vacant::a2a::resource, "refuses push notifications"),
        route!(POST "/a2a/v1/tasks/{task}/pushNotificationConfigs", VA, vacant::a2a::resource, "refuses push notifications"),
        route!(GET "/a2a/v1/tasks/{task}/pushNotificationConfigs/{id}", VA, vacant::a2a::resource, "refuses push notifications"),
        route!(DELETE "/a2a/v1/tasks/{task}/pushNotificationConfigs/{id}", VA, vacant::a2a::resource, "refuses push notifications"),
        route!(GET "/a2a/v1/extendedAgentCard", VA, vacant::a2a::resource, "tells that there is one card"),
        route!(POST "/agents/{vacant}/a2a", VA, vacant::a2a::call, "speaks A2A with a vacant over JSON-RPC"),
        route!(POST "/agents/{vacant}/a2a/v1/message:send", VA, vacant::a2a::resource, "sends a vacant a message"),
        route!(POST "/agents/{vacant}/a2a/v1/message:stream", VA, vacant::a2a::resource, "the same, as a stream"),
        route!(GET "/agents/{vacant}/a2a/v1/tasks", VA, vacant::a2a::resource, "refuses to list tasks"),
        route!(GET "/agents/{vacant}/a2a/v1/tasks/{task}", VA, vacant::a2a::resource, "tells a task"),
        route!(POST "/agents/{vacant}/a2a/v1/tasks/{task}", VA, vacant::a2a::resource, "withdraws or follows a task"),
        route!(GET "/agents/{vacant}/a2a/v1/tasks/{task}/pushNotificationConfigs", VA, vacant::a2a::resource, "refuses push notifications"),
        route!(POST "/agents/{vacant}/a2a/v1/tasks/{task}/pushNotificationConfigs", VA, vacant::a2a::resource, "refuses push notifications"),
        route!(GET "/agents/{vacant}/a2a/v1/tasks/{task}/pushNotificationConfigs/{id}", VA, vacant::a2a::resource, "refuses push notifications"),
        route!(DELETE "/agents/{vacant}/a2a/v1/tasks/{task}/pushNotificationConfigs/{id}", VA, vacant::a2a::resource, "refuses push notifications"),
        route!(GET "/agents/{vacant}/a2a/v1/extendedAgentCard", VA, vacant::a2a::resource, "tells that there is one card"),
        route!(POST "/mcp", VA, vacant::mcp::call, "offers the default vacant's tools over MCP"),
        route!(POST "/mcp/node", Rule::Token(Need::Tools), node_tools::call, "offers the node's own tools over MCP"),
        route!(POST "/agents/{vacant}/mcp", VA, vacant::mcp::call, "offers a vacant's tools over MCP"),
        route!(GET "/card", Rule::Public, vacant::face::card, "tells the default vacant's signed card"),
        route!(GET "/agents/{vacant}/card", Rule::Public, vacant::face::card, "tells a vacant's signed card"),
        route!(GET "/health", Rule::Public, vacant::face::health, "tells the default vacant's state"),
        route!(GET "/agents/{vacant}/health", Rule::Public, vacant::face::health, "tells a vacant's state"),
        route!(GET "/.well-known/agent-card.json", Rule::Public, vacant::face::agent_card, "tells the default vacant's A2A card"),
        route!(GET "/agents/{vacant}/.well-known/agent-card.json", Rule::Public, vacant::face::agent_card, "tells a vacant's A2A card"),
        route!(POST "/v1/query_capability", Rule::Public, vacant::registry::query, "finds vacants, best first"),
        route!(GET "/v1/search_capability", Rule::Public, vacant::registry::search, "finds vacants in order"),
        route!(GET "/v1/capability_card/{id}", Rule::Public, vacant::registry::card, "tells a published card"),
        route!(POST "/send/vacant", Rule::Token(Need::Send), vacant::send::call, "sends as a hosted vacant"),
        route!(GET "/inbox/vacant/{agent}", READ_INBOX, inbox::read, "reads a vacant's inbox"),
        route!(POST "/inbox/vacant/{agent}/ack", READ_INBOX, inbox::acknowledge, "moves that inbox's cursor"),
        route!(GET "/state/vacant/{agent}", Rule::Token(Need::ReadState), vacant::face::state, "tells a vacant's state and chains"),
        route!(POST "/admin/vacant", ADMIN, vacant::admin::act, "sets states, publishes cards, judges"),
        route!(POST AGH, Rule::Token(Need::Send), agh::receive, "takes in one AGH envelope"),
        route!(GET crate::agh_ws::PATH, Rule::Token(Need::Send), agh_upgrade::call, "becomes the WebSocket of an AGH peer"),
        route!(POST "/send/agh", Rule::Token(Need::Send), agh::send, "sends as a hosted peer"),
        route!(GET "/inbox/agh/{channel}/{peer}", READ_INBOX, inbox::read_agh, "reads a peer's inbox"),
        route!(POST "/inbox/agh/{channel}/{peer}/ack", READ_INBOX, inbox::acknowledge_agh, "moves its cursor"),
        route!(GET "/state/agh/{channel}", Rule::Token(Need::ReadState), agh::state, "tells who is in a channel"),
        route!(GET "/log", READ_LOG, journal::list, "reads the journal as JSON lines"),
        route!(GET "/log/{seq}", READ_LOG, journal::show, "reads one line of the journal"),
        route!(GET "/admin/keys", ADMIN, admin::keys::list, "lists keys"),
        route!(POST "/admin/keys", ADMIN, admin::keys::add, "puts a key on record"),
        route!(POST "/admin/keys/short-lived", ADMIN, admin::keys::add_short_lived, "lets a spawned agent sign for a while"),
        route!(POST "/admin/keys/state", ADMIN, admin::keys::set_state, "moves a key to another state"),
        route!(GET "/admin/agents", ADMIN, admin::agents::list, "lists hosted agents"),
        route!(POST "/admin/agents", ADMIN, admin::agents::add, "hosts an agent, or changes it"),
        route!(GET "/admin/agents/{protocol}/{agent}", ADMIN, admin::agents::show, "tells an agent's record"),
        route!(DELETE "/admin/agents/{protocol}/{agent}", ADMIN, admin::agents::remove, "hosts an agent no more"),
        route!(POST "/admin/agents/{protocol}/{agent}/suspend", ADMIN, admin::agents::suspend, "suspends a participant"),
        route!(POST "/admin/agents/{protocol}/{agent}/resume", ADMIN, admin::agents::resume, "lets it run again"),
        route!(GET "/admin/tokens", ADMIN, admin::tokens::list, "lists tokens, never their texts"),
        route!(POST "/admin/tokens", ADMIN, admin::tokens::issue, "issues a token and shows it once"),
        route!(DELETE "/admin/tokens/{id}", ADMIN, admin::tokens::revoke, "revokes a token"),
        route!(POST "/admin/reload", ADMIN, admin::reload, "reads the files again"),
        route!(POST "/dev/clock", Rule::DevOnly, operations::set_clock, "sets a fixed clock"),
        route!(GET "/schema/value-context.json", Rule::Public, operations::schema, "the JSON Schema of a message"),
        route!(GET "/openapi.json", Rule::Public, openapi::call, "the description of all paths"),
        route!(GET "/healthz", Rule::Public, operations::health, "tells that the process answers"),
        route!(GET "/readyz", Rule::Public, operations::ready, "tells whether envelopes are taken"),
        route!(GET "/metrics", Rule::Token(Need::ReadMetrics), operations::metrics, "tells figures for Prometheus"),
    ]
};

/// Every path of this door.
pub fn routes() -> &'static [Route] {
    &ROUTES
}

impl Route {
    /// The same path with its parameters filled in, percent-encoded.
    pub fn filled(&self, value: impl Fn(&str) -> String) -> String {
        let segments = self.path.split('/').map(|segment| {
            match segment
                .strip_prefix('{')
                .and_then(|segment| segment.strip_suffix('}'))
            {
                Some(name) => percent_encoding::utf8_percent_encode(
                    &value(name),
                    percent_encoding::NON_ALPHANUMERIC,
                )
                .to_string(),
                None => segment.to_owned(),
            }
        });
        segments.collect::<Vec<_>>().join("/")
    }
}
