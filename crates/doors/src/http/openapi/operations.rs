//! What goes into each path and what comes out of it. Names are those of `components.json`.

use super::super::table::Route;
use super::refusals::Refusals;

/// What a path takes and gives.
#[derive(Clone, Copy, Debug)]
pub(super) struct Operation {
    /// Parameters of the query.
    pub(super) query: &'static [&'static str],
    /// Headers that it reads.
    pub(super) headers: &'static [&'static str],
    /// The schema of its body.
    pub(super) body: Option<&'static str>,
    /// What it answers when it does what it was asked: status and schema.
    pub(super) answers: &'static [(u16, Option<&'static str>)],
    /// What it may refuse.
    pub(super) refusals: Refusals,
}

impl Operation {
    /// The operation of a path. Those of a vacant are the same under its name and without it.
    pub(super) fn of(route: &Route) -> Option<Self> {
        let path = route.path;
        let path = path.strip_prefix("/agents/{vacant}").unwrap_or(path);
        let method = route.method.as_str();
        let find = |table: &[Row]| {
            let found = table.iter().find(|row| row.0 == method && row.1 == path);
            found.map(|row| row.2)
        };
        find(ENVELOPES)
            .or_else(|| find(READS))
            .or_else(|| find(VACANTS))
            .or_else(|| find(ADMINISTRATION))
    }

    const fn asking(mut self, query: &'static [&'static str]) -> Self {
        self.query = query;
        self
    }

    const fn once(mut self) -> Self {
        self.headers = &["Idempotency-Key"];
        self
    }

    const fn refusing(mut self, refusals: Refusals) -> Self {
        self.refusals = refusals;
        self
    }
}

/// Gives something for nothing but its path.
const fn tells(answers: &'static [(u16, Option<&'static str>)]) -> Operation {
    Operation {
        query: &[],
        headers: &[],
        body: None,
        answers,
        refusals: Refusals::Read,
    }
}

/// Takes a body.
const fn takes(
    body: &'static str,
    answers: &'static [(u16, Option<&'static str>)],
    refusals: Refusals,
) -> Operation {
    Operation {
        query: &[],
        headers: &[],
        body: Some(body),
        answers,
        refusals,
    }
}

type Row = (&'static str, &'static str, Operation);

const INBOX: Operation = tells(&[(200, Some("InboxPage")), (200, Some("Stream"))]);
const PAGE: &[&str] = &["after", "limit", "wait"];
const CURSOR: Operation = takes("Cursor", &[(200, Some("Cursor"))], Refusals::Act);
const SEQ: &[(u16, Option<&str>)] = &[(200, Some("OnRecord"))];
const VERDICT: &[(u16, Option<&str>)] = &[(200, Some("AghVerdict"))];

/// Where envelopes come in, and where hosted agents send.
static ENVELOPES: &[Row] = &[
    (
        "POST",
        "/.well-known/vcp/messages",
        takes(
            "ValueContextMessage",
            &[(200, Some("ValueContextAnswer"))],
            Refusals::Envelope,
        ),
    ),
    (
        "GET",
        "/vcp/ws",
        tells(&[(101, None)]).refusing(Refusals::Upgrade),
    ),
    (
        "POST",
        "/send/value-context",
        takes(
            "ValueContextSend",
            &[(200, Some("ValueContextAnswer"))],
            Refusals::Envelope,
        )
        .once(),
    ),
    (
        "POST",
        "/vcp",
        takes(
            "VibeEnvelope",
            &[(200, Some("VibeAnswer"))],
            Refusals::Envelope,
        )
        .once(),
    ),
    (
        "POST",
        "/send/vibe",
        takes("VibeSend", &[(200, Some("VibeAnswer"))], Refusals::Envelope).once(),
    ),
    (
        "POST",
        "/send/vacant",
        takes(
            "VacantSend",
            &[(200, Some("RpcAnswer"))],
            Refusals::Envelope,
        )
        .once(),
    ),
    (
        "POST",
        "/agh",
        takes("AghEnvelope", VERDICT, Refusals::Envelope),
    ),
    (
        "POST",
        "/send/agh",
        takes("AghSend", VERDICT, Refusals::Envelope).once(),
    ),
    (
        "GET",
        "/agh/ws",
        tells(&[(101, None)])
            .asking(&["channel", "peer", "workspace"])
            .refusing(Refusals::Upgrade),
    ),
];

/// What can be read.
static READS: &[Row] = &[
    ("GET", "/inbox/value-context/{agent}", INBOX.asking(PAGE)),
    ("POST", "/inbox/value-context/{agent}/ack", CURSOR),
    ("GET", "/inbox/vacant/{agent}", INBOX.asking(PAGE)),
    ("POST", "/inbox/vacant/{agent}/ack", CURSOR),
    (
        "GET",
        "/inbox/agh/{channel}/{peer}",
        INBOX.asking(&["after", "limit", "wait", "workspace"]),
    ),
    (
        "POST",
        "/inbox/agh/{channel}/{peer}/ack",
        CURSOR.asking(&["workspace"]),
    ),
    (
        "GET",
        "/inbox/vibe/{agent}",
        INBOX.asking(&["after", "limit", "wait", "session_id", "merchant_id"]),
    ),
    (
        "POST",
        "/inbox/vibe/{agent}/ack",
        CURSOR.asking(&["session_id", "merchant_id"]),
    ),
    (
        "GET",
        "/state/value-context/{agent}",
        tells(&[(200, Some("ValueContextState"))]),
    ),
    (
        "GET",
        "/state/vacant/{agent}",
        tells(&[(200, Some("VacantState"))]),
    ),
    (
        "GET",
        "/state/agh/{channel}",
        tells(&[(200, Some("AghState"))]).asking(&["workspace"]),
    ),
    (
        "GET",
        "/state/vibe/{session}",
        tells(&[(200, Some("Anything"))]),
    ),
    (
        "GET",
        "/vcp/health",
        tells(&[(200, Some("VibeHealth"))]).refusing(Refusals::None),
    ),
    (
        "GET",
        "/vcp/inbox",
        tells(&[(200, Some("VibeInbox"))]).asking(&[
            "address",
            "after_seq",
            "limit",
            "session_id",
            "merchant_id",
        ]),
    ),
    (
        "GET",
        "/vcp/sessions/{session}",
        tells(&[(200, Some("Anything"))]),
    ),
    ("GET", "/vcp/approvals", tells(&[(200, Some("Anything"))])),
    (
        "GET",
        "/vcp/world/{table}",
        tells(&[(200, Some("Anything"))]).asking(&["after_entry", "limit"]),
    ),
    (
        "GET",
        "/vcp/audit",
        tells(&[(200, Some("Lines"))]).asking(&["from_seq", "limit"]),
    ),
    (
        "GET",
        "/log",
        tells(&[(200, Some("Lines"))]).asking(&["from", "limit", "protocol"]),
    ),
    ("GET", "/log/{seq}", tells(&[(200, Some("Line"))])),
    (
        "GET",
        "/schema/value-context.json",
        tells(&[(200, Some("JsonSchema"))]).refusing(Refusals::None),
    ),
    (
        "GET",
        "/openapi.json",
        tells(&[(200, Some("Anything"))]).refusing(Refusals::None),
    ),
    (
        "GET",
        "/healthz",
        tells(&[(200, Some("Status"))]).refusing(Refusals::None),
    ),
    (
        "GET",
        "/readyz",
        tells(&[(200, Some("Status"))]).refusing(Refusals::None),
    ),
    (
        "GET",
        "/metrics",
        tells(&[(200, Some("Figures"))]).refusing(Refusals::None),
    ),
];

const RPC: Operation = takes(
    "RpcRequest",
    &[(200, Some("RpcAnswer")), (200, Some("Stream"))],
    Refusals::Frame,
);
const MCP: Operation = takes(
    "RpcRequest",
    &[(200, Some("RpcAnswer")), (202, None)],
    Refusals::Frame,
);
const RESOURCE: Operation = tells(&[(200, Some("A2aAnswer"))]).refusing(Refusals::Resource);

/// The paths of each vacant, and the registry.
static VACANTS: &[Row] = &[
    (
        "POST",
        "/a2a/message/send",
        takes(
            "RpcRequest",
            &[(200, Some("RpcAnswer"))],
            Refusals::Envelope,
        ),
    ),
    ("POST", "/a2a", RPC),
    (
        "POST",
        "/a2a/v1/message:send",
        takes(
            "A2aMessage",
            &[(200, Some("A2aAnswer"))],
            Refusals::Resource,
        ),
    ),
    (
        "POST",
        "/a2a/v1/message:stream",
        takes(
            "A2aMessage",
            &[(200, Some("A2aAnswer")), (200, Some("Stream"))],
            Refusals::Resource,
        ),
    ),
    ("GET", "/a2a/v1/tasks", RESOURCE),
    (
        "GET",
        "/a2a/v1/tasks/{task}",
        tells(&[(200, Some("A2aAnswer")), (200, Some("Stream"))]).refusing(Refusals::Resource),
    ),
    (
        "POST",
        "/a2a/v1/tasks/{task}",
        tells(&[(200, Some("A2aAnswer")), (200, Some("Stream"))]).refusing(Refusals::Resource),
    ),
    (
        "GET",
        "/a2a/v1/tasks/{task}/pushNotificationConfigs",
        RESOURCE,
    ),
    (
        "POST",
        "/a2a/v1/tasks/{task}/pushNotificationConfigs",
        RESOURCE,
    ),
    (
        "GET",
        "/a2a/v1/tasks/{task}/pushNotificationConfigs/{id}",
        RESOURCE,
    ),
    (
        "DELETE",
        "/a2a/v1/tasks/{task}/pushNotificationConfigs/{id}",
        RESOURCE,
    ),
    ("GET", "/a2a/v1/extendedAgentCard", RESOURCE),
    ("POST", "/mcp", MCP),
    ("POST", "/mcp/node", MCP),
    (
        "GET",
        "/card",
        tells(&[(200, Some("VacantCard"))]).refusing(Refusals::Face),
    ),
    (
        "GET",
        "/health",
        tells(&[(200, Some("VacantHealth"))]).refusing(Refusals::Face),
    ),
    (
        "GET",
        "/.well-known/agent-card.json",
        tells(&[(200, Some("AgentCard")), (304, None)]).refusing(Refusals::Face),
    ),
    (
        "POST",
        "/v1/query_capability",
        tells(&[(200, Some("Matches"))])
            .asking(&["capability", "family", "matches"])
            .refusing(Refusals::Face),
    ),
    (
        "GET",
        "/v1/search_capability",
        tells(&[(200, Some("Cards"))])
            .asking(&["q", "family", "matches", "include_local"])
            .refusing(Refusals::Face),
    ),
    (
        "GET",
        "/v1/capability_card/{id}",
        tells(&[(200, Some("Anything"))]).refusing(Refusals::Face),
    ),
];

/// Administration.
static ADMINISTRATION: &[Row] = &[
    (
        "POST",
        "/admin/world",
        takes("WorldChange", SEQ, Refusals::Act),
    ),
    (
        "POST",
        "/admin/vacant",
        takes("VacantAct", SEQ, Refusals::VacantAct),
    ),
    (
        "GET",
        "/admin/keys",
        tells(&[(200, Some("Keys"))]).asking(&["owner"]),
    ),
    ("POST", "/admin/keys", takes("Key", SEQ, Refusals::Act)),
    (
        "POST",
        "/admin/keys/short-lived",
        takes(
            "ShortLivedKey",
            &[(200, Some("KeyOnRecord"))],
            Refusals::Act,
        ),
    ),
    (
        "POST",
        "/admin/keys/state",
        takes("KeyState", SEQ, Refusals::Act),
    ),
    ("GET", "/admin/agents", tells(&[(200, Some("Agents"))])),
    (
        "POST",
        "/admin/agents",
        takes("NewAgent", SEQ, Refusals::Act),
    ),
    (
        "GET",
        "/admin/agents/{protocol}/{agent}",
        tells(&[(200, Some("Agent"))]),
    ),
    (
        "DELETE",
        "/admin/agents/{protocol}/{agent}",
        tells(SEQ).refusing(Refusals::Act),
    ),
    (
        "POST",
        "/admin/agents/{protocol}/{agent}/suspend",
        tells(SEQ).refusing(Refusals::Act),
    ),
    (
        "POST",
        "/admin/agents/{protocol}/{agent}/resume",
        tells(SEQ).refusing(Refusals::Act),
    ),
    ("GET", "/admin/tokens", tells(&[(200, Some("Tokens"))])),
    (
        "POST",
        "/admin/tokens",
        takes("NewToken", &[(201, Some("IssuedToken"))], Refusals::Act),
    ),
    (
        "DELETE",
        "/admin/tokens/{id}",
        tells(&[(204, None)]).refusing(Refusals::Act),
    ),
    (
        "POST",
        "/admin/reload",
        tells(&[(200, Some("Reloaded"))]).refusing(Refusals::Act),
    ),
    (
        "POST",
        "/dev/clock",
        takes("SetClock", &[(204, None)], Refusals::Act),
    ),
];
