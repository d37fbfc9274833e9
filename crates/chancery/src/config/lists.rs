//! The tables of a configuration that have keys of their own, most of them any number of times: no logic.

use super::table::{Form, Kind, List, key};

const SOME: Kind = Kind::Integer { min: 1 };

/// Those that are read by their keys alone.
pub const LISTS: &[List] = &[VIBE_AGENT, VACANT_AGENT];

const VIBE_AGENT: List = List {
    name: "vibe.agent",
    form: Form::Listed,
    comment: "an agent of vibe that lives in this node: each envelope for it starts a turn",
    keys: &[
        key(
            "name",
            Kind::Text,
            "\"\"",
            "its name: the principal of what it sends",
        ),
        key(
            "address",
            Kind::Text,
            "\"\"",
            "what it speaks as: buyer, merchant, or one role such as platform:adjudicator",
        ),
        key(
            "consumer_id",
            Kind::Text,
            "\"\"",
            "the consumer it acts for, on the buyer's side",
        ),
        key(
            "merchant_id",
            Kind::Text,
            "\"\"",
            "the merchant it acts for, on the merchant's side",
        ),
        key(
            "behaviour",
            Kind::Text,
            "\"echo\"",
            "\"echo\", \"script:FILE\", \"rules:ROLE\", \"http:URL\", \"model:NAME\" or \"mcp:URL or command\"",
        ),
        key(
            "tool",
            Kind::Text,
            "\"\"",
            "the tool of an MCP server that mcp:… asks",
        ),
        key(
            "key",
            Kind::Path,
            "\"\"",
            "its key, which signs what is asked of http:URL: 64 hex characters, mode 0600",
        ),
        key(
            "instructions",
            Kind::Path,
            "\"\"",
            "what its role asks of it, in words: a text file",
        ),
        key(
            "skills",
            Kind::Path,
            "\"\"",
            "directory of skills: SIDE/NAME/SKILL.md below it",
        ),
        key(
            "agent",
            Kind::Text,
            "\"\"",
            "its participant, when it is one with an agent of another protocol",
        ),
        key(
            "max_steps",
            SOME,
            "8",
            "steps of a turn, each with one inference; then it ends in silence",
        ),
        key(
            "turn_timeout_s",
            SOME,
            "60",
            "seconds that a turn may take; then it ends as timeout",
        ),
        key(
            "max_tokens",
            Kind::Integer { min: 0 },
            "0",
            "tokens that a turn may take; 0 for no bound",
        ),
        key(
            "max_cost_micros",
            Kind::Integer { min: 0 },
            "0",
            "money that a turn may take, in millionths of the price's currency; 0 for no bound",
        ),
    ],
};

const VACANT_AGENT: List = List {
    name: "vacant.agent",
    form: Form::Listed,
    comment: "a hosted vacant; the first is the default, unless one says default = true",
    keys: &[
        key(
            "name",
            Kind::Text,
            "\"\"",
            "its name in paths: letters, digits, - and _",
        ),
        key(
            "seed",
            Kind::Path,
            "\"\"",
            "its key: a file of 64 hex characters, mode 0600",
        ),
        key(
            "state",
            Kind::Text,
            "\"LOCAL\"",
            "its state at first, such as ACTIVE; later the state on record holds",
        ),
        key("capability", Kind::Text, "\"\"", "what it can do, in words"),
        key(
            "behaviour",
            Kind::Text,
            "\"echo\"",
            "\"echo\", \"inbox\", \"script:FILE\", \"http:URL\", \"model:NAME\" or \"mcp:URL or command\"",
        ),
        key(
            "tool",
            Kind::Text,
            "\"\"",
            "the tool of an MCP server that mcp:… asks",
        ),
        key(
            "instructions",
            Kind::Path,
            "\"\"",
            "what its role asks of it, in words: a text file for http:, model: and mcp:",
        ),
        key(
            "default",
            Kind::Switch,
            "false",
            "whether the short paths mean it",
        ),
        key(
            "agent",
            Kind::Text,
            "\"\"",
            "its participant, when it is one with an agent of another protocol",
        ),
        key(
            "on_restart",
            Kind::Text,
            "\"\"",
            "\"rerun\" or \"close\" for calls that a stop interrupted; empty: only echo and script run again",
        ),
    ],
};

/// Tables that have a name of their own: `[model.NAME]`.
pub const NAMED: &[List] = &[MODEL];

const MODEL: List = List {
    name: "model",
    form: Form::Named,
    comment: "a language model behind an OpenAI-compatible chat interface, for behaviours \"model:NAME\"",
    keys: &[
        key(
            "url",
            Kind::Text,
            "\"\"",
            "the interface, such as https://api.example/v1; /chat/completions below it is asked",
        ),
        key("model", Kind::Text, "\"\"", "the model's name there"),
        key(
            "key_env",
            Kind::Text,
            "\"\"",
            "the environment variable that holds the key; none for a server that asks for none",
        ),
        key(
            "key_file",
            Kind::Path,
            "\"\"",
            "the file that holds the key, instead",
        ),
        key(
            "price_in",
            Kind::Text,
            "\"\"",
            "price of a million tokens taken in, such as \"0.15\"; without it the cost is unknown",
        ),
        key(
            "price_out",
            Kind::Text,
            "\"\"",
            "price of a million tokens given out",
        ),
    ],
};

/// The tables below `[agh]`.
pub const AGH: &[List] = &[AGH_PEER, AGH_BRIDGE, AGH_TASKS];

const AGH_PEER: List = List {
    name: "agh.peer",
    form: Form::Listed,
    comment: "a peer that this node hosts",
    keys: &[
        key(
            "id",
            Kind::Text,
            "\"\"",
            "its Peer ID, or a nickname when it has a key",
        ),
        key("channel", Kind::Text, "\"\"", "the channel it is in"),
        key(
            "workspace_id",
            Kind::Text,
            "\"\"",
            "the workspace, for revision B",
        ),
        key(
            "display_name",
            Kind::Text,
            "\"\"",
            "what its card calls it, for people",
        ),
        key(
            "capabilities",
            Kind::Texts,
            "[]",
            "what its card says it can do, by name",
        ),
        key(
            "catalog",
            Kind::Path,
            "\"\"",
            "a file with capability entries, for its card",
        ),
        key(
            "behaviour",
            Kind::Text,
            "\"inbox\"",
            "\"inbox\", \"echo\", \"script:FILE\", \"http:URL\", \"model:NAME\" or \"mcp:URL or command\"",
        ),
        key(
            "tool",
            Kind::Text,
            "\"\"",
            "the tool of an MCP server that mcp:… asks",
        ),
        key(
            "instructions",
            Kind::Path,
            "\"\"",
            "what its role asks of it, in words: a text file",
        ),
        key(
            "agent",
            Kind::Text,
            "\"\"",
            "its participant, when it is one with an agent of another protocol",
        ),
        key(
            "key",
            Kind::Path,
            "\"\"",
            "its key: with agh.trust it is a verified handle and signs; it also signs asks of http:URL",
        ),
    ],
};

const AGH_BRIDGE: List = List {
    name: "agh.bridge",
    form: Form::Once,
    comment: "a bridge between a channel of revision A and one of B, with agh.revision = \"dual\"",
    keys: &[
        key(
            "peer",
            Kind::Text,
            "\"\"",
            "the peer that the bridge speaks as, on both sides",
        ),
        key("channel_a", Kind::Text, "\"\"", "the channel of revision A"),
        key(
            "workspace_id",
            Kind::Text,
            "\"\"",
            "the workspace of revision B",
        ),
        key("channel_b", Kind::Text, "\"\"", "the channel of revision B"),
    ],
};

const AGH_TASKS: List = List {
    name: "agh.tasks",
    form: Form::Once,
    comment: "work that is handed to one hosted peer counts as a task write and is asked for more",
    keys: &[
        key(
            "keeper",
            Kind::Text,
            "\"\"",
            "the hosted peer that keeps tasks",
        ),
        key(
            "writers",
            Kind::Texts,
            "[]",
            "peers that may write without a proof of who they are",
        ),
    ],
};
