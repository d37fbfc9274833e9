//! The keys of an agent of vibe that lives in the node.

use super::keys::SOME;
use super::table::{Kind, List, key};

pub(super) const VIBE_AGENT: List = List {
    name: "vibe.agent",
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
            "\"echo\", \"script:FILE\", \"rules:ROLE\", \"http:URL\" or \"model:NAME\"",
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
