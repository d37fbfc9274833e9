//! What people are told of the codes of a turn and of what answers for an agent: when they come and what to do.

use chancery_core::guide::Guide;

use crate::behaviour::NO_LINE;
use crate::behaviour::http::{HTTP_ANSWER, HTTP_FAILED, HTTP_STATUS};
use crate::behaviour::mcp::{MCP_ANSWER, MCP_ERROR, MCP_FAILED, MCP_TIMEOUT};
use crate::behaviour::model::{MODEL_ANSWER, MODEL_BUSY, MODEL_FAILED, MODEL_STATUS};
use crate::turn::{MEMORY_FULL, MEMORY_TYPE, UNDECODABLE, UNKNOWN_SKILL};

/// Every one of them.
pub fn guides() -> Vec<Guide> {
    TEXTS.map(guide).to_vec()
}

fn guide((code, requirement, when, next): Text) -> Guide {
    Guide {
        group: "turns of agents",
        code,
        status: None,
        wire: None,
        again: false,
        requirement,
        when,
        next,
    }
}

/// A code, the requirement, when it comes, and what to do next.
type Text = (&'static str, &'static str, &'static str, &'static str);

static TEXTS: [Text; 16] = [
    (
        UNDECODABLE,
        "VC-TURN-6",
        "An output holds no decision, two envelopes, or more than it may. It counts as a step, and the agent is told.",
        "Let the behaviour write decisions as VC-TURN-4 has them; a model may need clearer instructions.",
    ),
    (
        UNKNOWN_SKILL,
        "VC-TURN-6",
        "The agent asked for a skill that its side does not have.",
        "Put `SKILL.md` where VC-TURN-9 says, in the folder that `skills` names, or name one that is there.",
    ),
    (
        MEMORY_TYPE,
        "VC-TURN-6",
        "A value for the agent's memory is not of the type that the decision says.",
        "Write `int`, `string`, `bool` or `json`, and a value of that type; a private one is an amount in minor units.",
    ),
    (
        MEMORY_FULL,
        "VC-TURN-6",
        "The agent's memory of this session has no room for the value.",
        "Keep less: a value that replaces another one takes its place. The bounds are in `docs/limits.md`.",
    ),
    (
        NO_LINE,
        "VC-TURN-11",
        "The script has nothing to say to this.",
        "Add a line for it to the script; `docs/behaviours.md` says how lines are chosen.",
    ),
    (
        HTTP_FAILED,
        "VC-TURN-12",
        "The web service could not be reached, or did not answer in the form it has to.",
        "Ask it from the node's machine; `docs/behaviours.md` has the form of the answer.",
    ),
    (
        HTTP_STATUS,
        "VC-TURN-12",
        "The web service answered with another status than 200.",
        "Its own log says why. A service that checks signatures needs the public half of the agent's `key`.",
    ),
    (
        HTTP_ANSWER,
        "VC-TURN-12",
        "The answer of the web service is too large, no text, or no words where words are wanted.",
        "Let it answer as `docs/behaviours.md` says.",
    ),
    (
        MODEL_FAILED,
        "VC-TURN-12",
        "The model could not be reached, or its stream was cut off.",
        "Ask it from the node's machine under the URL that `[model.NAME]` has.",
    ),
    (
        MODEL_STATUS,
        "VC-TURN-12",
        "The model's server refused, and asking again cannot help.",
        "Look at the key and the name of the model in `[model.NAME]`.",
    ),
    (
        MODEL_BUSY,
        "VC-TURN-12",
        "The model's server asked for more patience than the turn has time.",
        "Ask less often, give turns more time, or raise the limit at its provider.",
    ),
    (
        MODEL_ANSWER,
        "VC-TURN-12",
        "The model's answer is too large, or not in the form of the interface.",
        "Name a server in `[model.NAME]` that speaks the interface of `docs/behaviours.md`.",
    ),
    (
        MCP_FAILED,
        "VA-SUB-6",
        "The MCP server cannot be reached, or broke off.",
        "Start the command, or ask the URL, that the agent's `behaviour` names.",
    ),
    (
        MCP_ERROR,
        "VA-SUB-6",
        "The MCP server, or its tool, answered with an error.",
        "Look at the server's own log, and whether `tool` names one that it has.",
    ),
    (
        MCP_ANSWER,
        "VA-SUB-6",
        "The answer of the MCP server is larger than it may be.",
        "Let the tool answer with less; the bound is in `docs/limits.md`.",
    ),
    (
        MCP_TIMEOUT,
        "VA-SUB-6",
        "The answer of the MCP server did not come in time.",
        "Make the tool faster; the question was given up, and the next opens another connection.",
    ),
];
