//! The configuration as values of their own types.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use chancery_agh::settings::{Settings as AghSettings, Trust};
use chancery_core::time::{Time, parse_value_context};
use chancery_value_context::message::Kind as MessageKind;
use chancery_vibe::settings::{Clock as VibeClock, Platform, Settings as VibeRules};
use reqwest::Url;

use super::agents::{self, VibeAgent};
use super::agh::{Agh, Nats, servers};
use super::database::Database;
use super::settings::{Setting, Settings, Value};
use super::vacant::{Vacant, vacant};
use crate::exit::Failure;

/// Where the log and its rows are kept.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Store {
    /// Files in the data directory.
    Embedded,
    /// Memory: nothing survives a stop.
    Memory,
    /// A journal in PostgreSQL.
    Postgres(Database),
}

/// The clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Clock {
    /// The machine's.
    System,
    /// One that stands still (CH-CFG-7).
    Fixed(Time),
    /// The machine's, wrong by so much.
    Shifted {
        /// Whether it is ahead; else it is behind.
        ahead: bool,
        /// By how much.
        by: Duration,
    },
}

/// Where identifiers come from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Entropy {
    /// The machine's secure generator.
    System,
    /// A seed (CH-CFG-8).
    Seed(u64),
}

/// The files TLS needs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tls {
    /// The certificate chain in PEM.
    pub certificate: PathBuf,
    /// Its private key in PEM.
    pub key: PathBuf,
}

/// Bounds (CH-LIM-1).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Requests under way at once.
    pub requests_in_flight: u64,
    /// Urgent requests beyond those.
    pub urgent_requests: u64,
    /// Connections open at once.
    pub open_connections: u64,
    /// WebSocket connections open at once.
    pub websockets: u64,
    /// Envelopes a sender may send in a second.
    pub rate_per_sender: u64,
    /// Unauthenticated failures of an address in a second (VX-ERR-4).
    pub failures_per_address: u64,
    /// Identifiers remembered against duplicates (VX-DUP-6).
    pub window_records: u64,
    /// Bytes of log that the node's own tools check.
    pub log_check_bytes: u64,
}

/// The section of value-context.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ValueContext {
    /// The world (CH-CFG-5); without one there are the agents and keys on record alone.
    pub world: Option<PathBuf>,
    /// The largest message.
    pub max_bytes: u64,
    /// Whether the older canonical form counts too (VX-CAN-7).
    pub accept_legacy_canonical: bool,
    /// How long identifiers are remembered (VX-DUP-3).
    pub dedupe_window_s: u64,
    /// Whether hosted agents may send their personal state.
    pub share_personal_state: bool,
    /// Whether they may broadcast it.
    pub share_personal_state_broadcast: bool,
    /// Whether escalations that ask for no acknowledgement get one (VX-ACK-2).
    pub ack_unrequested: bool,
    /// Whether a hosted agent pauses when it sends a critical escalation (VX-RUN-2).
    pub pause_on_critical: bool,
    /// Whether version 2.0 is taken too (VX-V2-1).
    pub accept_vcp_2_0: bool,
    /// Types that are switched off.
    pub disabled_types: Vec<MessageKind>,
    /// The longest life of a key for a spawned agent (VX-KEY-6).
    pub short_lived_key_max_s: u64,
}

/// The section of vibe.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Vibe {
    /// The world seed (VC-WLD-1); without one the protocol is not served.
    pub world: Option<PathBuf>,
    /// Tokens that were made elsewhere.
    pub tokens: Option<PathBuf>,
    /// What the rules go by, but for what the seed says.
    pub rules: VibeRules,
    /// The agents that live in this node, in the order of the file.
    pub agents: Vec<VibeAgent>,
}

/// Where spans go.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Otlp {
    /// The collector.
    pub collector: Url,
    /// Of the traces that begin here, one in so many is recorded.
    pub sample_one_in: u64,
}

/// The configuration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Config {
    /// The address of the listener.
    pub listen: SocketAddr,
    /// The data directory.
    pub data: PathBuf,
    /// Where the log is kept.
    pub store: Store,
    /// What hands deliveries out among nodes, where something does.
    pub bus: Option<Nats>,
    /// The clock.
    pub clock: Clock,
    /// Where identifiers come from.
    pub entropy: Entropy,
    /// Loopback without tokens.
    pub dev: bool,
    /// The address that cards and links carry, when it is not that of the listener.
    pub public_url: Option<String>,
    /// Whether a proxy in front speaks TLS.
    pub tls_terminated_upstream: bool,
    /// TLS of our own.
    pub tls: Option<Tls>,
    /// Whom other nodes may be certified by, beside those the system trusts.
    pub ca_file: Option<PathBuf>,
    /// Where spans go.
    pub otlp: Option<Otlp>,
    /// The size at which the log begins a new file.
    pub segment_bytes: u64,
    /// Memory for rows.
    pub row_cache_bytes: u64,
    /// Lines the index may be behind.
    pub index_lag_entries: u64,
    /// Entries an inbox holds.
    pub inbox_depth: u64,
    /// Bounds.
    pub limits: Limits,
    /// value-context.
    pub value_context: ValueContext,
    /// vibe.
    pub vibe: Vibe,
    /// vacant.
    pub vacant: Vacant,
    /// agh.
    pub agh: Agh,
}

impl Config {
    pub(super) fn of_settings(settings: &Settings) -> Result<Self, Failure> {
        let of = Typed(settings);
        Ok(Self {
            bus: of.bus()?,
            listen: listen(settings.get("listen"))?,
            data: of.path("data").unwrap_or_else(|| PathBuf::from(".")),
            store: store(&of)?,
            clock: clock(settings.get("clock"))?,
            entropy: entropy(settings.get("entropy"))?,
            dev: of.switch("dev"),
            public_url: Some(of.text("public_url").to_owned()).filter(|url| !url.is_empty()),
            tls_terminated_upstream: of.switch("tls_terminated_upstream"),
            tls: of.tls()?,
            ca_file: of.path("tls.ca_file"),
            otlp: of.otlp()?,
            segment_bytes: of.integer("segment_bytes"),
            row_cache_bytes: of.integer("row_cache_bytes"),
            index_lag_entries: of.integer("index_lag_entries"),
            inbox_depth: of.integer("inbox_depth"),
            limits: of.limits(),
            vacant: vacant(settings)?,
            value_context: of.value_context()?,
            vibe: of.vibe()?,
            agh: of.agh()?,
        })
    }
}

/// Settings by the kind that the table says they have.
pub(super) struct Typed<'s>(pub(super) &'s Settings);

impl Typed<'_> {
    pub(super) fn text(&self, name: &'static str) -> &str {
        text(self.0.get(name))
    }

    pub(super) fn path(&self, name: &'static str) -> Option<PathBuf> {
        match &self.0.get(name).value {
            Value::Path(path) => path.clone(),
            _ => None,
        }
    }

    pub(super) fn switch(&self, name: &'static str) -> bool {
        self.0.get(name).value == Value::Switch(true)
    }

    pub(super) fn integer(&self, name: &'static str) -> u64 {
        match self.0.get(name).value {
            Value::Integer(number) => number,
            _ => 0,
        }
    }

    fn tls(&self) -> Result<Option<Tls>, Failure> {
        match (self.path("tls.certificate"), self.path("tls.key")) {
            (Some(certificate), Some(key)) => Ok(Some(Tls { certificate, key })),
            (None, None) => Ok(None),
            (given, _) => {
                let [has, lacks] = match given {
                    Some(_) => ["tls.certificate", "tls.key"],
                    None => ["tls.key", "tls.certificate"],
                };
                let place = self.0.get(has).place();
                Err(
                    Failure::usage(format!("{place}: {has} is set and {lacks} is not"))
                        .next(format!("set {lacks} too, or neither")),
                )
            }
        }
    }

    fn limits(&self) -> Limits {
        Limits {
            requests_in_flight: self.integer("limits.requests_in_flight"),
            urgent_requests: self.integer("limits.urgent_requests"),
            open_connections: self.integer("limits.open_connections"),
            websockets: self.integer("limits.websockets"),
            rate_per_sender: self.integer("limits.rate_per_sender"),
            failures_per_address: self.integer("limits.failures_per_address"),
            window_records: self.integer("limits.window_records"),
            log_check_bytes: self.integer("limits.log_check_bytes"),
        }
    }

    fn otlp(&self) -> Result<Option<Otlp>, Failure> {
        let setting = self.0.get("otlp.url");
        if text(setting).is_empty() {
            return Ok(None);
        }
        let url = Url::parse(text(setting)).ok();
        let url = url.filter(|url| matches!(url.scheme(), "http" | "https") && url.has_host());
        let Some(collector) = url else {
            let wrong = format!("{}: {setting} is no http or https address", setting.place());
            return Err(Failure::usage(wrong)
                .next("name the collector without its path, such as http://127.0.0.1:4318"));
        };
        Ok(Some(Otlp {
            collector,
            sample_one_in: self.integer("otlp.sample_one_in"),
        }))
    }

    fn value_context(&self) -> Result<ValueContext, Failure> {
        Ok(ValueContext {
            world: self.path("value_context.world"),
            max_bytes: self.integer("value_context.max_bytes"),
            accept_legacy_canonical: self.switch("value_context.accept_legacy_canonical"),
            dedupe_window_s: self.integer("value_context.dedupe_window_s"),
            share_personal_state: self.switch("value_context.share_personal_state"),
            share_personal_state_broadcast: self
                .switch("value_context.share_personal_state_broadcast"),
            ack_unrequested: self.switch("value_context.ack_unrequested"),
            pause_on_critical: self.switch("value_context.pause_on_critical"),
            accept_vcp_2_0: self.switch("value_context.accept_vcp_2_0"),
            short_lived_key_max_s: self.integer("value_context.short_lived_key_max_s"),
            disabled_types: self.kinds("value_context.disabled_types")?,
        })
    }

    fn vibe(&self) -> Result<Vibe, Failure> {
        let clock = self.0.get("vibe.clock");
        let platform = self.0.get("vibe.platform");
        let is_fixed = text(self.0.get("clock")).starts_with("fixed:");
        let rules = VibeRules {
            platform: match text(platform) {
                "auto" => Platform::Auto,
                "manual" => Platform::Manual,
                _ => return Err(wrong(platform, "\"auto\" or \"manual\"")),
            },
            clock: match text(clock) {
                // A fixed clock of the node overrides both.
                "envelope" if !is_fixed => VibeClock::Envelope,
                "envelope" | "wall" => VibeClock::Wall,
                _ => return Err(wrong(clock, "\"envelope\" or \"wall\"")),
            },
            signed: self.switch("vibe.signed"),
            strict_uuid: self.switch("vibe.strict_uuid"),
            idempotency_retention_s: self.integer("vibe.idempotency_retention_s"),
            ..VibeRules::default()
        };
        rules.check().map_err(|fault| {
            let setting = self.0.get("vibe.signed");
            Failure::usage(format!("{}: {fault}", setting.place()))
                .next("set vibe.clock = \"wall\", or vibe.signed = false")
        })?;
        Ok(Vibe {
            world: self.path("vibe.world"),
            tokens: self.path("vibe.tokens"),
            rules,
            agents: agents::agents(self.0)?,
        })
    }

    /// Message types, separated by commas.
    fn kinds(&self, name: &'static str) -> Result<Vec<MessageKind>, Failure> {
        let setting = self.0.get(name);
        let names = text(setting).split(',').map(str::trim);
        let kinds = names.filter(|name| !name.is_empty()).map(|name| {
            MessageKind::named(name).ok_or_else(|| wrong(setting, "message types and commas"))
        });
        kinds.collect()
    }

    fn agh(&self) -> Result<Agh, Failure> {
        let count = |name| usize::try_from(self.integer(name)).unwrap_or(usize::MAX);
        let rate = |name| u32::try_from(self.integer(name)).unwrap_or(u32::MAX);
        let settings = AghSettings {
            revision: self.word("agh.revision", &["a", "b", "dual"])?,
            default_send_revision: self.word("agh.default_send_revision", &["a", "b"])?,
            max_payload: count("agh.max_payload"),
            greet_interval_s: self.integer("agh.greet_interval"),
            max_replay_age_s: self.integer("agh.max_replay_age"),
            max_queue_depth: self.integer("agh.max_queue_depth"),
            null_optional: self.word("agh.null_optional", &["strict", "lenient"])?,
            trust: self.agh_trust()?,
            max_dedupe_entries: count("agh.max_dedupe_entries"),
            max_dedupe_retention_s: self.integer("agh.max_dedupe_retention"),
            max_interactions: self.integer("agh.max_interactions"),
            interaction_retention_s: self.integer("agh.interaction_retention"),
            max_conversations: self.integer("agh.max_conversations"),
            max_remote_peers_per_channel: count("agh.max_remote_peers_per_channel"),
            max_remote_peers: count("agh.max_remote_peers"),
            whois_answers_per_second: rate("agh.whois_answers_per_second"),
            auto_receipts_per_second: rate("agh.auto_receipts_per_second"),
            secret_guard_outbound: self.switch("agh.secret_guard_outbound"),
            secret_guard_inbound: self.switch("agh.secret_guard_inbound"),
            bridge: self.0.agh.bridge(),
            tasks: self.0.agh.tasks(),
            ..AghSettings::default()
        };
        self.0.agh.check(&settings)?;
        Ok(Agh {
            models: self.0.models.clone(),
            settings,
            peers: self.0.agh.peers(),
            nats: self.agh_nats()?,
        })
    }

    fn agh_nats(&self) -> Result<Option<Nats>, Failure> {
        let setting = self.0.get("agh.nats");
        let servers = servers(text(setting)).ok_or_else(|| {
            let place = setting.place();
            Failure::usage(format!(
                "{place}: agh.nats must hold addresses such as nats://127.0.0.1:4222 or tls://broker.example, and no password"
            ))
            .next("name a file with the token or user:password in agh.nats_token_file")
        })?;
        Ok((!servers.is_empty()).then(|| self.nats(servers)))
    }

    /// The bus; its broker is spoken with as that of AGH is.
    fn bus(&self) -> Result<Option<Nats>, Failure> {
        let setting = self.0.get("bus");
        let words = text(setting);
        if words == "local" {
            return Ok(None);
        }
        let servers = servers(words).filter(|servers| !servers.is_empty());
        // What was written may hold a password: it is not shown.
        let servers = servers.ok_or_else(|| {
            let place = setting.place();
            Failure::usage(format!(
                "{place}: bus must be \"local\" or hold addresses such as nats://127.0.0.1:4222, and no password"
            ))
            .next("name a file with the token or user:password in agh.nats_token_file")
        })?;
        if !matches!(store(self)?, Store::Postgres(_)) {
            let place = setting.place();
            return Err(Failure::usage(format!(
                "{place}: bus: a journal that is not in PostgreSQL has one node"
            ))
            .next("set bus = \"local\", or store = \"postgres://USER@HOST/DATABASE\""));
        }
        Ok(Some(self.nats(servers)))
    }

    fn nats(&self, servers: Vec<String>) -> Nats {
        Nats {
            servers,
            token_file: self.path("agh.nats_token_file"),
            credentials: self.path("agh.nats_credentials"),
            plaintext: self.switch("agh.nats_plaintext"),
            jetstream: self.switch("agh.jetstream"),
        }
    }

    fn agh_trust(&self) -> Result<Trust, Failure> {
        let list = |name| {
            let names = self.text(name).split(',').map(str::trim);
            names
                .filter(|name| !name.is_empty())
                .map(str::to_owned)
                .collect()
        };
        let switch: String = self.word("agh.trust", &["off", "on"])?;
        Ok(Trust {
            enabled: switch == "on",
            allow: list("agh.trust_allow"),
            deny: list("agh.trust_deny"),
            pins: list("agh.trust_pins"),
            verified_channels: list("agh.trust_verified_channels"),
            verified_kinds: list("agh.trust_verified_kinds"),
            reject_unknown_profiles: self.switch("agh.trust_reject_unknown_profiles"),
        })
    }

    /// A text that is one of a few words.
    fn word<T: serde::de::DeserializeOwned>(
        &self,
        name: &'static str,
        words: &[&str],
    ) -> Result<T, Failure> {
        let setting = self.0.get(name);
        let word = serde_json::from_value(text(setting).into());
        word.ok()
            .filter(|_| words.contains(&text(setting)))
            .ok_or_else(|| wrong(setting, &format!("one of {}", words.join(", "))))
    }
}

pub(super) fn text(setting: &Setting) -> &str {
    match &setting.value {
        Value::Text(text) => text,
        _ => "",
    }
}

pub(super) fn wrong(setting: &Setting, wanted: &str) -> Failure {
    Failure::usage(format!("{}: {setting} is not {wanted}", setting.place()))
        .next(format!("the default is {}", setting.key.default))
}

fn listen(setting: &Setting) -> Result<SocketAddr, Failure> {
    let text = text(setting);
    let numeric = text
        .strip_prefix("localhost:")
        .map_or_else(|| text.to_owned(), |port| format!("127.0.0.1:{port}"));
    numeric
        .parse()
        .map_err(|_| wrong(setting, "an IP address and a port, such as 127.0.0.1:8700"))
}

fn store(of: &Typed<'_>) -> Result<Store, Failure> {
    let setting = of.0.get("store");
    match text(setting) {
        "embedded" => Ok(Store::Embedded),
        "memory" => Ok(Store::Memory),
        url => {
            let place = "\"embedded\", \"memory\" or \"postgres://USER@HOST/DATABASE\"";
            let url = Database::address(url).ok_or_else(|| wrong(setting, place))?;
            let journal = of.0.get("journal");
            let name = text(journal);
            if name.is_empty() || name.len() > 63 || name.contains(char::is_control) {
                return Err(wrong(journal, "a name of 1 to 63 bytes"));
            }
            Ok(Store::Postgres(Database {
                url,
                journal: name.to_owned(),
                password_file: of.path("store_password_file"),
            }))
        }
    }
}

fn clock(setting: &Setting) -> Result<Clock, Failure> {
    let text = text(setting);
    if text == "system" {
        return Ok(Clock::System);
    }
    let read = match text.split_once(':') {
        Some(("fixed", time)) => parse_value_context(time).ok().map(Clock::Fixed),
        Some(("offset", offset)) => shifted(offset),
        _ => None,
    };
    let known = "\"system\", \"fixed:2026-02-15T10:33:30Z\" or \"offset:+20s\"";
    read.ok_or_else(|| wrong(setting, known))
}

/// A sign, whole seconds, `s`: a day at most, since no window of any protocol is longer.
fn shifted(offset: &str) -> Option<Clock> {
    const SECONDS_AT_MOST: u64 = 86_400;
    let (sign, rest) = offset.split_at_checked(1)?;
    let digits = rest.strip_suffix('s')?;
    let only_digits = digits.bytes().all(|byte| byte.is_ascii_digit());
    let seconds: u64 = digits.parse().ok()?;
    let ahead = match sign {
        "+" => true,
        "-" => false,
        _ => return None,
    };
    (only_digits && seconds <= SECONDS_AT_MOST).then_some(Clock::Shifted {
        ahead,
        by: Duration::from_secs(seconds),
    })
}

fn entropy(setting: &Setting) -> Result<Entropy, Failure> {
    let text = text(setting);
    if text == "system" {
        return Ok(Entropy::System);
    }
    text.strip_prefix("seed:")
        .and_then(|seed| seed.parse().ok())
        .map(Entropy::Seed)
        .ok_or_else(|| wrong(setting, "\"system\" or \"seed:N\""))
}
