//! `docs/limits.md`: each bound without a key is that of a constant in the sources, named here (CH-LIM-1).
//!
//! A row without a key that is not in the table fails, a constant that is not there fails, and so does one with another
//! value than the row.

use crate::limits_listed::quantities;
use crate::support::workspace;

/// How a row begins, and where its quantities stand: a file below `crates/`, and constants or members of defaults in it.
const BOUNDS: &[(&str, &[(&str, &str)])] = &[
    ("senders whose rate", &[("node/src/rates.rs", "SENDERS")]),
    (
        "time a PostgreSQL that is gone",
        &[("store/src/postgres/mod.rs", "PATIENCE")],
    ),
    (
        "time a session may stand",
        &[("store/src/postgres/link.rs", "IDLE_IN_TRANSACTION")],
    ),
    (
        "lines whose changes are kept",
        &[("store/src/postgres/writes.rs", "KEPT_LINES")],
    ),
    (
        "remote AGH peers that a node that has just started",
        &[("node/src/node.rs", "PRESENT_TOLD")],
    ),
    (
        "parts of a vacant call",
        &[("vacant/src/settings.rs", "max_parts")],
    ),
    (
        "identifiers, keys and signature",
        &[("vacant/src/settings.rs", "max_id_bytes")],
    ),
    (
        "bytes of a capability card",
        &[("vacant/src/card.rs", "MAX_CARD_BYTES")],
    ),
    (
        "entries of the registry",
        &[("vacant/src/rules/registry.rs", "MAX_ENTRIES")],
    ),
    (
        "matches of one search",
        &[("doors/src/http/vacant/registry.rs", "LIMIT_AT_MOST")],
    ),
    ("A2A tasks kept", &[("doors/src/a2a/tasks.rs", "tasks")]),
    (
        "what happens to one A2A task",
        &[("doors/src/a2a/tasks.rs", "events")],
    ),
    ("A2A streams open", &[("doors/src/a2a/tasks.rs", "streams")]),
    (
        "tokens kept at hand",
        &[("node/src/tokens.rs", "MOST_SHOWN")],
    ),
    (
        "levels of nesting",
        &[("core/src/json/rules.rs", "max_depth")],
    ),
    (
        "code points of an agent",
        &[("value-context/src/agent_id.rs", "MAX_CODE_POINTS")],
    ),
    (
        "code points of a context string",
        &[
            ("value-context/src/context/validate.rs", "MAX_CODE_POINTS"),
            ("value-context/src/context/validate.rs", "MAX_VALUES"),
        ],
    ),
    (
        "characters of a creed",
        &[("value-context/src/creed.rs", "MAX_LENGTH")],
    ),
    (
        "constraints of a message",
        &[
            ("value-context/src/payload/constraint.rs", "MAX_CONSTRAINTS"),
            ("value-context/src/payload/constraint.rs", "MAX_TYPE"),
        ],
    ),
    (
        "code points of a reason",
        &[
            ("value-context/src/payload/escalation.rs", "MAX_REASON"),
            (
                "value-context/src/payload/escalation.rs",
                "MAX_BLOCKED_ACTION",
            ),
        ],
    ),
    (
        "constraint types an agent",
        &[
            ("value-context/src/rules/constrained.rs", "MAX_TYPES"),
            ("value-context/src/rules/constrained.rs", "MAX_TYPE_BYTES"),
        ],
    ),
    (
        "constitutions kept",
        &[(
            "value-context/src/rules/announcements.rs",
            "MAX_ANNOUNCEMENTS",
        )],
    ),
    (
        "open escalations kept",
        &[
            ("value-context/src/rules/open.rs", "MAX_OPEN"),
            ("value-context/src/rules/children.rs", "MAX_OPEN_OF_CHILD"),
        ],
    ),
    (
        "messages on their way",
        &[("value-context/src/rules/unacknowledged.rs", "MAX_UNDER_WAY")],
    ),
    (
        "keys of a sender",
        &[
            ("core/src/keys/keyring/mod.rs", "MAX_USABLE_TRIED"),
            ("core/src/keys/keyring/mod.rs", "MAX_UNUSABLE_TRIED"),
        ],
    ),
    (
        "failed signatures that are explained",
        &[("node/src/node.rs", "HINTS_PER_S")],
    ),
    ("amounts, quantities", &[]),
    (
        "bytes of an envelope; levels",
        &[("core/src/json/rules.rs", "max_depth")],
    ),
    (
        "bytes of an identifier",
        &[("vibe/src/message.rs", "MAX_ID_BYTES")],
    ),
    (
        "rounds of a negotiation",
        &[("vibe/src/rules/negotiate.rs", "DEFAULT_ROUNDS")],
    ),
    (
        "listings that a search looks at",
        &[("vibe/src/world/index.rs", "MAX_CANDIDATES")],
    ),
    (
        "entries of a change of the world",
        &[
            ("vibe/src/world/change.rs", "MAX_ENTRIES"),
            ("doors/src/http/admin/world.rs", "BODY_BYTES"),
            ("chancery/src/commands/world.rs", "PART_BYTES"),
        ],
    ),
    (
        "bytes of a world seed",
        &[("vibe/src/world/seed.rs", "MAX_SEED_BYTES")],
    ),
    (
        "addresses of a token",
        &[("doors/src/http/admin/tokens.rs", "ADDRESSES")],
    ),
    (
        "rows of a table of the world",
        &[
            ("doors/src/http/vibe/reads.rs", "ROWS"),
            ("doors/src/http/vibe/reads.rs", "ROWS_AT_MOST"),
        ],
    ),
    (
        "bytes of their cards",
        &[("agh/src/soft/presence.rs", "BYTES")],
    ),
    (
        "bytes of envelopes from the broker",
        &[("doors/src/nats/intake.rs", "WAITING_BYTES")],
    ),
    (
        "such envelopes that are read",
        &[("doors/src/nats/intake.rs", "AT_ONCE")],
    ),
    (
        "messages of one subscription",
        &[("doors/src/nats/connect.rs", "SUBSCRIPTION_CAPACITY")],
    ),
    (
        "publications that wait",
        &[("doors/src/nats/door.rs", "QUEUED")],
    ),
    (
        "own broadcasts recognised",
        &[("doors/src/nats/broker.rs", "OWN")],
    ),
    (
        "the stream under JetStream",
        &[
            ("doors/src/nats/jetstream.rs", "KEPT_BYTES"),
            ("doors/src/nats/jetstream.rs", "KEPT_FOR"),
        ],
    ),
    ("envelopes on record, remembered", &[]),
    (
        "participants; latest messages",
        &[
            ("agh/src/rules/conversations.rs", "PARTICIPANTS"),
            ("agh/src/rules/conversations.rs", "MESSAGES"),
        ],
    ),
    (
        "askers and senders counted",
        &[("agh/src/soft/mod.rs", "QUOTAS")],
    ),
    (
        "interactions that `GET /state/agh`",
        &[("node/src/office_agh.rs", "LISTED")],
    ),
    ("connected peers", &[]),
    (
        "frames of a connected peer",
        &[("doors/src/ws/limits.rs", "frames_in_flight")],
    ),
    (
        "bytes that wait to be written to it",
        &[
            ("doors/src/ws/limits.rs", "outgoing_bytes"),
            ("doors/src/agh_ws/connected.rs", "WAITING"),
            ("doors/src/ws/limits.rs", "write_timeout"),
        ],
    ),
    (
        "its frames that are not its own",
        &[("doors/src/ws/limits.rs", "dropped_frames")],
    ),
    (
        "its silence; Pings",
        &[
            ("doors/src/ws/limits.rs", "silence"),
            ("doors/src/ws/limits.rs", "ping_after"),
        ],
    ),
    (
        "subjects that the broker",
        &[
            ("doors/src/nats/permissions.rs", "SUBJECTS"),
            ("doors/src/nats/permissions.rs", "REFUSED_FOR"),
        ],
    ),
    (
        "names of interactions",
        &[("node/src/agh_bridge.rs", "RENAMED")],
    ),
    (
        "envelopes that `chancery agh --ws`",
        &[("doors/src/visitor.rs", "HEARD")],
    ),
    (
        "bytes of a word to the others",
        &[
            ("store/src/postgres/notes.rs", "NOTE_BYTES"),
            ("store/src/postgres/notes.rs", "WAITING"),
        ],
    ),
    ("envelopes of a sender, on all nodes", &[]),
    ("answers, receipts and failures", &[]),
    (
        "connected agents that a node tells",
        &[
            ("doors/src/ws/elsewhere.rs", "TOLD"),
            ("doors/src/ws/elsewhere.rs", "KNOWN"),
        ],
    ),
    (
        "orders in the bus's stream",
        &[("doors/src/nats/bus.rs", "ORDERS")],
    ),
    (
        "orders in one node's hands",
        &[("doors/src/nats/bus.rs", "IN_HAND")],
    ),
    (
        "how long an order waits",
        &[("node/src/outbox/handing.rs", "TURN_WITHIN")],
    ),
    (
        "answer of a target",
        &[
            ("doors/src/vacants_abroad.rs", "ANSWER_BYTES"),
            ("doors/src/vacants_abroad.rs", "CARD_TIMEOUT"),
        ],
    ),
    ("calls of one vacant to one target", &[]),
    (
        "head of a request",
        &[
            ("doors/src/http/limits.rs", "header_bytes"),
            ("doors/src/http/limits.rs", "headers"),
            ("doors/src/http/limits.rs", "header_timeout"),
        ],
    ),
    (
        "idle connection",
        &[("doors/src/http/limits.rs", "idle_timeout")],
    ),
    (
        "answer left unread",
        &[("doors/src/http/limits.rs", "write_timeout")],
    ),
    (
        "body of an envelope",
        &[("doors/src/http/limits.rs", "body_timeout")],
    ),
    (
        "body of an administrative request",
        &[("doors/src/http/limits.rs", "admin_body_bytes")],
    ),
    (
        "unfinished bodies together",
        &[("doors/src/http/limits.rs", "body_bytes")],
    ),
    (
        "addresses with failures",
        &[("doors/src/http/limits.rs", "failure_addresses")],
    ),
    (
        "reads of log, inboxes",
        &[
            ("doors/src/http/limits.rs", "reads"),
            ("doors/src/http/journal.rs", "ANSWER_BYTES"),
        ],
    ),
    (
        "how long a request waits",
        &[("doors/src/http/door.rs", "WAIT_FOR_A_PLACE")],
    ),
    (
        "long-polls and event streams",
        &[
            ("doors/src/http/limits.rs", "watchers"),
            ("doors/src/http/inbox.rs", "WAIT_S_AT_MOST"),
        ],
    ),
    (
        "escalations of an address",
        &[("doors/src/http/failures.rs", "BODIES_PER_S")],
    ),
    (
        "frames of a WebSocket",
        &[("doors/src/ws/limits.rs", "frames_in_flight")],
    ),
    (
        "frames; bytes that wait",
        &[
            ("doors/src/ws/limits.rs", "outgoing_frames"),
            ("doors/src/ws/limits.rs", "outgoing_bytes"),
        ],
    ),
    (
        "remote agents known",
        &[("doors/src/ws/limits.rs", "agents")],
    ),
    (
        "refused frames",
        &[("doors/src/ws/limits.rs", "dropped_frames")],
    ),
    (
        "silence of a WebSocket",
        &[("doors/src/ws/limits.rs", "silence")],
    ),
    (
        "request to the node's tools",
        &[("doors/src/http/node_tools/mod.rs", "BODY_BYTES")],
    ),
    (
        "lines of `log_tail`",
        &[
            ("doors/src/http/node_tools/mod.rs", "LINES_AT_MOST"),
            ("doors/src/http/node_tools/mod.rs", "TAIL_BYTES"),
            ("doors/src/http/node_tools/mod.rs", "LOOKED_AT"),
        ],
    ),
    ("checks of the whole log", &[]),
    (
        "HTTP/2 requests at once",
        &[("doors/src/http/limits.rs", "streams")],
    ),
    (
        "decisions in one output",
        &[("agents/src/decision.rs", "MAX_DECISIONS")],
    ),
    (
        "values in the memory",
        &[
            ("agents/src/memory.rs", "MAX_KEYS"),
            ("agents/src/memory.rs", "MAX_BYTES"),
        ],
    ),
    (
        "turns of an agent in one session",
        &[("agents/src/host/mod.rs", "MAX_SESSION_TURNS")],
    ),
    (
        "turn records of an agent",
        &[("agents/src/host/progress.rs", "MAX_RECORDS")],
    ),
    (
        "skills of a side",
        &[
            ("agents/src/skill.rs", "MAX_SKILLS"),
            ("agents/src/skill.rs", "MAX_BYTES"),
            ("chancery/src/host/agents.rs", "MAX_INSTRUCTIONS"),
            ("agents/src/behaviour/script.rs", "MAX_BYTES"),
        ],
    ),
    (
        "answer of a service or model",
        &[
            ("agents/src/behaviour/http.rs", "MAX_ANSWER"),
            ("agents/src/behaviour/model.rs", "MAX_ANSWER"),
        ],
    ),
    (
        "answer of an MCP server",
        &[
            ("agents/src/behaviour/mcp/mod.rs", "MAX_ANSWER"),
            ("agents/src/behaviour/mcp/mod.rs", "TIMEOUT"),
        ],
    ),
    (
        "attempts at a service",
        &[
            ("agents/src/behaviour/http.rs", "ATTEMPTS"),
            ("agents/src/behaviour/model.rs", "ATTEMPTS"),
            ("agents/src/behaviour/model.rs", "LONGEST_PAUSE"),
        ],
    ),
    (
        "envelopes of a thread",
        &[
            ("agents/src/snapshot.rs", "MAX_THREAD"),
            ("agents/src/snapshot.rs", "MAX_ROWS"),
        ],
    ),
    (
        "inputs decided in one batch",
        &[("node/src/sequencer.rs", "BATCH_INPUTS")],
    ),
    (
        "idle connections kept",
        &[
            ("doors/src/outgoing_http.rs", "IDLE_AT_ONE_PLACE"),
            ("doors/src/outgoing_http.rs", "IDLE_FOR"),
        ],
    ),
    (
        "answer to a delivery",
        &[("doors/src/outgoing_http.rs", "ANSWER_BYTES")],
    ),
    (
        "attempts under way",
        &[
            ("node/src/outbox/mod.rs", "ATTEMPTS_AT_ONCE"),
            ("node/src/outbox/mod.rs", "EXEMPT_ATTEMPTS_AT_ONCE"),
        ],
    ),
    (
        "time between the line",
        &[("value-context/src/attempts.rs", "WITHIN_MS")],
    ),
    (
        "recipients that were not reached",
        &[("node/src/outbox/unreached.rs", "RECIPIENTS")],
    ),
    (
        "spans that wait",
        &[("doors/src/otlp/mod.rs", "QUEUE_SPANS")],
    ),
    (
        "`tracestate` that is passed on",
        &[("node/src/trace/context.rs", "STATE_BYTES")],
    ),
    (
        "lines of a unit",
        &[
            ("journal/src/units.rs", "MAX_UNIT_LINES"),
            ("journal/src/line/read.rs", "MAX_LINE_BYTES"),
        ],
    ),
];

/// Rows whose quantity is no constant of ours: how the code is built, or a sum of others.
const NO_CONSTANT: [&str; 4] = [
    "verifications for one such explanation",
    "attempts to bring a call",
    "attempts to deliver one message",
    "bytes of a side log",
];

/// Every value that a name has in a text, as a constant or as a member of a literal.
fn values(text: &str, name: &str) -> Vec<u64> {
    let declared = format!("const {name}: ");
    let constant = text.split(&declared).skip(1);
    let constants = constant.filter_map(|rest| rest.split(';').next()?.split_once(" = "));
    let constants = constants.map(|(_, value)| value);
    let member = format!("{name}: ");
    let members = text
        .lines()
        .filter_map(|line| line.trim().strip_prefix(&member));
    let members = members.map(|value| value.trim_end_matches(','));
    let all = constants.chain(members);
    all.flat_map(|value| {
        value
            .trim_matches(['(', ')'])
            .split(", ")
            .filter_map(evaluated)
            .collect::<Vec<_>>()
    })
    .collect()
}

/// A number as Rust writes it: `1_024`, `64 << 20`, `24 * 60 * 60`, `Duration::from_secs(30)`.
fn evaluated(text: &str) -> Option<u64> {
    let text = text.trim().trim_end_matches(')');
    if let Some((unit, count)) = text
        .split_once("Duration::from_")
        .and_then(|(_, it)| it.split_once('('))
    {
        let seconds = match unit {
            "secs" => 1,
            "mins" => 60,
            "hours" => 3_600,
            _ => return None,
        };
        return Some(evaluated(count)? * seconds);
    }
    if let Some((number, by)) = text.split_once(" << ") {
        return Some(evaluated(number)? << evaluated(by)?);
    }
    if let Some((a, b)) = text.split_once(" * ") {
        return Some(evaluated(a)? * evaluated(b)?);
    }
    text.replace('_', "").parse().ok()
}

#[test]
fn every_bound_without_a_key_is_that_of_a_constant() {
    // CH-LIM-1
    let page = std::fs::read_to_string(workspace().join("docs/limits.md")).unwrap();
    let mut compared = 0;
    for line in page
        .lines()
        .filter(|line| line.starts_with("| ") && !line.starts_with("| bound"))
    {
        let cells: Vec<&str> = line
            .split(" |")
            .map(|cell| cell.trim_start_matches("| ").trim())
            .collect();
        let [name, default, key, ..] = cells[..] else {
            panic!("a row has four cells: {line}");
        };
        let is_known = NO_CONSTANT.iter().any(|begin| name.starts_with(begin));
        if key.contains('`') || is_known {
            continue;
        }
        let of_row = |(begin, _): &&(&str, &[(&str, &str)])| name.starts_with(begin);
        // The longest beginning is the row's own.
        let bound = BOUNDS
            .iter()
            .filter(of_row)
            .max_by_key(|(begin, _)| begin.len());
        let (_, places) = bound.unwrap_or_else(|| panic!("no constant is named for: {line}"));
        let told = quantities(default);
        assert!(!places.is_empty() || told.len() <= 3, "{line}");
        for (file, constant) in *places {
            let path = workspace().join("crates").join(file);
            let text = std::fs::read_to_string(&path).unwrap();
            let found = values(&text, constant);
            // Milliseconds say so in their name.
            let unit = if constant.ends_with("_MS") { 1_000 } else { 1 };
            let found: Vec<u64> = found.iter().map(|value| value / unit).collect();
            let at = quantities(line);
            assert!(
                found
                    .iter()
                    .any(|value| told.contains(value) || at.contains(value)),
                "{file} {constant} = {found:?}: {line}"
            );
            compared += 1;
        }
    }
    assert!(compared >= 110, "{compared} constants");
}

#[test]
fn every_row_that_is_named_is_on_the_page() {
    let page = std::fs::read_to_string(workspace().join("docs/limits.md")).unwrap();
    let names = BOUNDS.iter().map(|(begin, _)| *begin).chain(NO_CONSTANT);
    for name in names {
        assert!(page.contains(&format!("\n| {name}")), "{name}");
    }
}
