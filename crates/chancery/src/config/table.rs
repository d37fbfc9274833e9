//! Every key of the configuration, once.
//!
//! The file that `init` writes, the names of environment variables, the reading of the file and the reference page are
//! all made from this table: a key that is not here does not exist.

/// What a key holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Free text that something else reads more closely.
    Text,
    /// A file or directory, relative to the configuration file; empty for none.
    Path,
    /// `true` or `false`.
    Switch,
    /// An integer of at least `min`.
    Integer {
        /// The least that makes sense.
        min: u64,
    },
}

impl Kind {
    /// The word for people.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Text => "text",
            Self::Path => "path",
            Self::Switch => "true or false",
            Self::Integer { .. } => "integer",
        }
    }
}

/// One key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Key {
    /// Its name, with its section and a dot where it has one.
    pub name: &'static str,
    /// What it holds.
    pub kind: Kind,
    /// The default, as TOML.
    pub default: &'static str,
    /// One line for people.
    pub comment: &'static str,
    /// The flag that sets it, without its dashes.
    pub flag: Option<&'static str>,
}

impl Key {
    /// The section and the name in it.
    pub fn parts(&self) -> (Option<&'static str>, &'static str) {
        match self.name.split_once('.') {
            Some((section, name)) => (Some(section), name),
            None => (None, self.name),
        }
    }

    /// The environment variable that sets it.
    pub fn variable(&self) -> String {
        format!("CHANCERY_{}", self.name.replace('.', "_").to_uppercase())
    }
}

const fn key(name: &'static str, kind: Kind, default: &'static str, comment: &'static str) -> Key {
    Key {
        name,
        kind,
        default,
        comment,
        flag: None,
    }
}

const fn flagged(key: Key) -> Key {
    Key {
        flag: Some(key.name),
        ..key
    }
}

const SOME: Kind = Kind::Integer { min: 1 };

/// All keys: those of the top level first, then section by section.
pub const KEYS: &[Key] = &[
    flagged(key(
        "listen",
        Kind::Text,
        "\"127.0.0.1:8700\"",
        "address of the HTTP listener; port 0 picks a free one; another than loopback needs TLS",
    )),
    flagged(key(
        "data",
        Kind::Path,
        "\"chancery-data\"",
        "directory of the log, its index and keys",
    )),
    flagged(key(
        "store",
        Kind::Text,
        "\"embedded\"",
        "\"embedded\" (log files and an SQLite index) or \"memory\" (nothing survives a stop)",
    )),
    key(
        "bus",
        Kind::Text,
        "\"local\"",
        "what carries deliveries between nodes: \"local\" is this node alone",
    ),
    flagged(key(
        "clock",
        Kind::Text,
        "\"system\"",
        "\"system\", or in dev \"fixed:2026-02-15T10:33:30Z\": a clock that stands still",
    )),
    key(
        "entropy",
        Kind::Text,
        "\"system\"",
        "\"system\", or in dev \"seed:N\": with a fixed clock a run is reproducible",
    ),
    flagged(key(
        "dev",
        Kind::Switch,
        "false",
        "loopback only: no tokens needed, fixed clock and seeds allowed",
    )),
    key(
        "public_url",
        Kind::Text,
        "\"\"",
        "address that cards and links carry, as behind a proxy; empty for http:// and listen",
    ),
    key(
        "tls_terminated_upstream",
        Kind::Switch,
        "false",
        "a proxy in front speaks TLS, so that plain HTTP on another address than loopback is meant",
    ),
    key(
        "segment_bytes",
        Kind::Integer { min: 4096 },
        "268435456",
        "size at which the log begins a new file",
    ),
    key(
        "row_cache_bytes",
        SOME,
        "268435456",
        "memory for rows of the index",
    ),
    key(
        "index_lag_entries",
        SOME,
        "100000",
        "lines the index may be behind the log; at this bound the node answers 503",
    ),
    key(
        "inbox_depth",
        SOME,
        "1000000",
        "unacknowledged envelopes an inbox holds; beyond it new ones are refused",
    ),
    key(
        "tls.certificate",
        Kind::Path,
        "\"\"",
        "certificate chain in PEM; empty for no TLS",
    ),
    key(
        "tls.key",
        Kind::Path,
        "\"\"",
        "private key of the certificate in PEM",
    ),
    key(
        "tls.ca_file",
        Kind::Path,
        "\"\"",
        "certificates in PEM that other nodes may be signed by, beside those the system trusts",
    ),
    key(
        "limits.requests_in_flight",
        SOME,
        "4096",
        "requests under way at once; beyond it the answer is 503",
    ),
    key(
        "limits.urgent_requests",
        SOME,
        "64",
        "escalations and administration under way beyond those",
    ),
    key(
        "limits.open_connections",
        SOME,
        "16384",
        "connections open at once; beyond it the one idle longest is closed, or the new one",
    ),
    key(
        "limits.websockets",
        SOME,
        "1024",
        "WebSocket connections open at once; beyond it the answer is 503",
    ),
    key(
        "limits.rate_per_sender",
        SOME,
        "10000",
        "envelopes a sender may send in a second; beyond it the answer is 429",
    ),
    key(
        "limits.failures_per_address",
        SOME,
        "20",
        "unauthenticated failures of an address in a second; beyond it nothing is parsed",
    ),
    key(
        "limits.window_records",
        SOME,
        "10000000",
        "identifiers remembered against duplicates; when full, new messages are refused",
    ),
    key(
        "value_context.world",
        Kind::Path,
        "\"\"",
        "agents, their relations and trusted keys, such as agents.json; empty: not served",
    ),
    key(
        "value_context.max_bytes",
        Kind::Integer { min: 1024 },
        "65536",
        "size of the largest message",
    ),
    key(
        "value_context.accept_legacy_canonical",
        Kind::Switch,
        "true",
        "also take signatures over the older canonical form",
    ),
    key(
        "value_context.dedupe_window_s",
        Kind::Integer { min: 330 },
        "330",
        "seconds for which identifiers are remembered; at least 330",
    ),
    key(
        "value_context.share_personal_state",
        Kind::Switch,
        "false",
        "let hosted agents send personal_state to a single recipient",
    ),
    key(
        "value_context.share_personal_state_broadcast",
        Kind::Switch,
        "false",
        "let hosted agents broadcast personal_state",
    ),
    key(
        "value_context.ack_unrequested",
        Kind::Switch,
        "true",
        "acknowledge escalations that ask for no acknowledgement as well",
    ),
    key(
        "value_context.pause_on_critical",
        Kind::Switch,
        "true",
        "pause a hosted agent when it sends a critical escalation",
    ),
    key(
        "value_context.accept_vcp_2_0",
        Kind::Switch,
        "false",
        "also take messages of version 2.0, with identifiers of any UUID version",
    ),
    key(
        "value_context.disabled_types",
        Kind::Text,
        "\"\"",
        "message types that are refused as type_disabled, separated by commas",
    ),
    key(
        "value_context.short_lived_key_max_s",
        SOME,
        "86400",
        "longest life of a key that is made for a spawned agent",
    ),
    key(
        "vibe.world",
        Kind::Path,
        "\"\"",
        "world seed: merchants, catalog, stock, accounts, such as world.json; empty: not served",
    ),
    key(
        "vibe.platform",
        Kind::Text,
        "\"auto\"",
        "\"auto\": the node ranks, verifies, certifies, authorizes and refunds; \"manual\": principals do",
    ),
    key(
        "vibe.clock",
        Kind::Text,
        "\"envelope\"",
        "what decides expiry: \"envelope\" (the sender's ts) or \"wall\"; a fixed clock overrides both",
    ),
    key(
        "vibe.signed",
        Kind::Switch,
        "false",
        "envelopes are signed with keys that the world seed pins; needs clock = \"wall\"",
    ),
    key(
        "vibe.tokens",
        Kind::Path,
        "\"\"",
        "bearer tokens by their SHA-256, such as tokens.toml; empty: only those that chancery token made",
    ),
    key(
        "vibe.strict_uuid",
        Kind::Switch,
        "false",
        "msg_id has to be UUID v4",
    ),
    key(
        "vibe.idempotency_retention_s",
        Kind::Integer { min: 86400 },
        "86400",
        "seconds for which an idempotency key stays bound; at least 86400",
    ),
    key(
        "vacant.max_bytes",
        Kind::Integer { min: 1024 },
        "1048576",
        "size of the largest call",
    ),
    key(
        "vacant.max_clock_skew",
        Kind::Integer { min: 0 },
        "0",
        "seconds an envelope's time may be off; 0 asks nothing: order comes from the chain",
    ),
    key(
        "vacant.require_envelope",
        Kind::Switch,
        "true",
        "refuse A2A messages that carry no signed envelope",
    ),
    key(
        "vacant.behaviour_timeout_s",
        SOME,
        "60",
        "seconds a behaviour may take for its answer; beyond it the answer is 504",
    ),
    key(
        "agh.revision",
        Kind::Text,
        "\"dual\"",
        "revisions of AGH that are spoken: \"a\", \"b\" or \"dual\"",
    ),
    key(
        "agh.default_send_revision",
        Kind::Text,
        "\"a\"",
        "revision of a first message to a peer of which none is recorded: \"a\" or \"b\"",
    ),
    key(
        "agh.max_payload",
        SOME,
        "1048576",
        "size of the largest AGH envelope",
    ),
    key(
        "agh.greet_interval",
        SOME,
        "30",
        "seconds between greetings; a peer that is silent for two is gone",
    ),
    key(
        "agh.max_replay_age",
        SOME,
        "300",
        "seconds that an envelope without expires_at may be old",
    ),
    key(
        "agh.max_queue_depth",
        SOME,
        "100",
        "envelopes that a peer's inbox shows; older ones stay in the log",
    ),
    key(
        "agh.null_optional",
        Kind::Text,
        "\"strict\"",
        "null in an optional member: \"strict\" (refused) or \"lenient\" (absent)",
    ),
    key(
        "agh.trust",
        Kind::Text,
        "\"off\"",
        "trust profile for signed envelopes: \"off\" or \"on\"",
    ),
    key(
        "agh.trust_allow",
        Kind::Text,
        "\"\"",
        "the only peers that are heard, separated by commas; empty for all",
    ),
    key(
        "agh.trust_deny",
        Kind::Text,
        "\"\"",
        "peers that are never heard, separated by commas",
    ),
    key(
        "agh.trust_pins",
        Kind::Text,
        "\"\"",
        "peers bound to one key, as peer=sha256:HEX, separated by commas",
    ),
    key(
        "agh.trust_verified_channels",
        Kind::Text,
        "\"\"",
        "channels in which only verified peers are heard",
    ),
    key(
        "agh.trust_verified_kinds",
        Kind::Text,
        "\"\"",
        "kinds that only verified peers may send",
    ),
    key(
        "agh.trust_reject_unknown_profiles",
        Kind::Switch,
        "false",
        "reject proofs of other profiles",
    ),
    key(
        "agh.max_dedupe_entries",
        SOME,
        "1000000",
        "envelopes that left no line, remembered against repetition",
    ),
    key(
        "agh.max_dedupe_retention",
        SOME,
        "86400",
        "seconds for which an envelope is remembered at most",
    ),
    key(
        "agh.max_interactions",
        SOME,
        "100000",
        "interactions on record; beyond it the oldest that ended go first",
    ),
    key(
        "agh.interaction_retention",
        SOME,
        "3600",
        "seconds for which an interaction that ended stays on record",
    ),
    key(
        "agh.max_conversations",
        SOME,
        "10000",
        "threads and rooms on record; beyond it the longest silent goes",
    ),
    key(
        "agh.max_remote_peers_per_channel",
        SOME,
        "10000",
        "remote peers remembered in one channel",
    ),
    key(
        "agh.max_remote_peers",
        SOME,
        "100000",
        "remote peers remembered in all",
    ),
    key(
        "agh.whois_answers_per_second",
        SOME,
        "20",
        "answers to one asker from one local peer",
    ),
    key(
        "agh.auto_receipts_per_second",
        SOME,
        "50",
        "automatic receipts to one sender",
    ),
    key(
        "agh.secret_guard_outbound",
        Kind::Switch,
        "true",
        "refuse to send what looks like a credential",
    ),
    key(
        "agh.secret_guard_inbound",
        Kind::Switch,
        "false",
        "refuse to take in what looks like a credential",
    ),
];

/// A list of tables: `[[section.name]]`, any number of times.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct List {
    /// Its section and name.
    pub name: &'static str,
    /// One line for people.
    pub comment: &'static str,
    /// The keys of one table; their names are those inside it.
    pub keys: &'static [Key],
}

/// All lists.
pub const LISTS: &[List] = &[List {
    name: "vacant.agent",
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
            "what answers its calls: \"echo\", or \"inbox\" for its owner",
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
            "\"rerun\" or \"close\" for calls that a stop interrupted; empty: only echo runs again",
        ),
    ],
}];

/// The list of a name.
pub fn find_list(name: &str) -> Option<&'static List> {
    LISTS.iter().find(|list| list.name == name)
}

/// The key of a name.
pub fn find(name: &str) -> Option<&'static Key> {
    KEYS.iter().find(|key| key.name == name)
}

/// The sections, in the order of the table.
pub fn sections() -> Vec<&'static str> {
    let mut sections = Vec::new();
    for section in KEYS.iter().filter_map(|key| key.parts().0) {
        if !sections.contains(&section) {
            sections.push(section);
        }
    }
    sections
}

/// The name among `names` that `wrong` was most likely meant to be: one it begins, else the one with the fewest changes.
pub fn nearest<'n>(wrong: &str, names: impl Iterator<Item = &'n str>) -> Option<&'n str> {
    names.min_by_key(|name| {
        (
            !name.starts_with(wrong),
            strsim::damerau_levenshtein(wrong, name),
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_variables_are_distinct() {
        // CH-CFG-1
        for (index, key) in KEYS.iter().enumerate() {
            let others = &KEYS[index + 1..];
            assert!(others.iter().all(|other| other.name != key.name));
            assert!(
                others
                    .iter()
                    .all(|other| other.variable() != key.variable())
            );
        }
    }

    #[test]
    fn top_level_keys_come_first() {
        // A key after the first section header of a TOML file would belong to that section.
        assert!(KEYS.iter().is_sorted_by_key(|key| key.parts().0.is_some()));
    }

    #[test]
    fn comments_are_one_short_line() {
        for key in KEYS {
            assert!(
                key.comment.len() <= 100 && !key.comment.contains('\n'),
                "{}",
                key.name
            );
        }
    }
}
