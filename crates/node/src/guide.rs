//! What people are told of the codes that come from the node itself, whatever the protocol.

use chancery_core::guide::{Guide, of_administration};

/// Every one of them.
pub fn guides() -> Vec<Guide> {
    let busy = Guide {
        again: true,
        ..of_administration(
            "overloaded",
            503,
            "CH-LIM-2",
            "The node takes no further requests at the moment.",
            "Wait as long as `Retry-After` says, then ask again.",
        )
    };
    let failed = Guide {
        again: true,
        ..of_administration(
            "internal",
            500,
            "CH-ID-1",
            "A token's hash could not be read or written.",
            "Run `chancery doctor` where the node's data is; the node's log on stderr says what happened.",
        )
    };
    let differs = of_administration(
        "world_seed_differs",
        409,
        "CH-JRN-12",
        "The log began with another world seed.",
        "Give `vibe.world` the seed that the log began with (a copy lies in the data directory), or begin a new data directory. A running world is changed with `chancery world apply`.",
    );
    vec![differs, busy, failed]
}
