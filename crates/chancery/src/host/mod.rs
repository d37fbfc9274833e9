//! A node as the configuration describes it: opened, recovered, brought in line with its files, and served.

mod agents;
mod apply;
mod broker;
mod check;
mod database;
mod files;
mod log_desk;
mod opened;
mod reload;
mod spans;
mod start_line;
mod tokens;
mod vacants;
mod vibe_tokens;
mod world_seed;

use std::sync::Arc;
use std::time::Duration;

use chancery_agents::host::Agents;
use chancery_doors::http::{
    HttpLimits, NodeTools, Reload, ServeError, ServeOptions, Server, TlsKeeper, serve,
};
use chancery_doors::nats::{BusDoor, NatsDoor};
use chancery_doors::otlp::Exporter;
use chancery_doors::ws::{Dialer, Switchboard, WsLimits};
use chancery_doors::{HttpCarrier, OutgoingTls};
use chancery_node::suite::{AllSettings, Chancery};
use chancery_node::trace::Spans;
use chancery_node::vacants::Vacants;
use chancery_node::{
    Clock, Entropy, GateLimits, Node, Office, Options, ReconcileError, SoftLimits, StartError,
};
use chancery_store::{Postgres, StoreError};
use chancery_value_context::settings::Settings;
use tokio::task::{JoinHandle, JoinSet};

use crate::config::{self, Config, Settings as Keys, Sources};
use crate::exit::Failure;
use files::WorldFile;
use log_desk::Desk;
use opened::Opened;
use reload::Reloading;
use world_seed::WorldSeed;

pub(crate) use apply::apply_settings;
pub(crate) use broker::{broker_options, bus_options};
pub(crate) use check::{WrongFile, wrong_files};
pub(crate) use database::{
    look_at as look_at_database, open as open_database, to_read as database_to_read,
};
pub(crate) use files::{key_files, outgoing_tls};
pub(crate) use start_line::StartLine;
pub(crate) use world_seed::{
    SeedText, keep_in as keep_seed_in, kept_in as seed_kept_in, read as read_seed,
    read_kept as read_kept_seed,
};

/// A node that is served.
pub(crate) struct Host {
    /// The node.
    pub(crate) office: Arc<Office>,
    /// Its vacants, where it has any.
    pub(crate) vacants: Option<Arc<Vacants>>,
    server: Server,
    dialer: Arc<Dialer>,
    nats: Option<NatsDoor>,
    bus: Option<BusDoor>,
    echoes: JoinSet<()>,
    opened: Opened,
    reload: Reload,
    watch: Option<JoinHandle<()>>,
    agents: Agents,
    exporter: Option<Exporter>,
}

impl Host {
    /// Opens the store, recovers it, starts the node and its door. Needs a tokio runtime.
    pub(crate) async fn start(config: &Config) -> Result<Self, Failure> {
        config.check_files()?;
        let database = database::of(config)?;
        Self::start_on(database, config, None).await
    }

    /// The same for a node that is left to itself: a database that is not there yet is waited for. A reload compares what the
    /// configuration was read from with what it says then.
    pub(crate) async fn start_to_serve(
        config: &Config,
        read_from: Option<(Sources, Keys)>,
    ) -> Result<Self, Failure> {
        config.check_files()?;
        let database = database::awaited(config).await?;
        Self::start_on(database, config, read_from).await
    }

    async fn start_on(
        database: Option<Arc<Postgres>>,
        config: &Config,
        read_from: Option<(Sources, Keys)>,
    ) -> Result<Self, Failure> {
        let mut world = files::world_file(config)?;
        let seed = WorldSeed::of(config, database.as_deref())?;
        let opened = Opened::open(config, &seed.suite(), database.clone())?;
        seed.keep(config, database.as_deref())?;
        let addresses = world.as_ref().map(WorldFile::addresses).unwrap_or_default();
        let outgoing_tls = Arc::new(files::outgoing_tls(config.ca_file.as_deref())?);
        let (spans, exporter) = spans::begin(config, &outgoing_tls)?.unzip();
        let broker = broker::broker(config);
        let abroad = vacants::abroad(config, &outgoing_tls);
        let carrier = HttpCarrier::with_tls(addresses.clone(), &outgoing_tls);
        let carrier = carrier.with_broker(broker.clone());
        let carrier = Arc::new(carrier.with_vacants(Arc::clone(&abroad)));
        let (suite, by) = (seed.suite(), Arc::clone(&carrier));
        let office = start_node(config, &opened, suite, world.as_mut(), by, spans)?;
        let of_world = broker::prepare(&office, config).await?;
        begin_in_line(&office, config, world.as_ref()).await?;
        let echoes = broker::echoes(&office, config)?;
        let nats = broker::join(&office, config, broker, &outgoing_tls)?;
        let bus = broker::hand_out(&office, config, nats.as_ref(), &outgoing_tls)?;
        let vacants = vacants::vacants(Arc::clone(&office), &abroad, config)?;
        let tls = files::tls_keeper(config)?;
        let switchboard = Arc::clone(carrier.switchboard());
        let dialer = connections(&office, &switchboard, outgoing_tls, config);
        let reloads = reload::of(Reloading {
            office: Arc::clone(&office),
            config: config.clone(),
            read_from,
            carrier,
            dialer: Arc::clone(&dialer),
            tls: tls.clone(),
            others: others(&office, &of_world),
        });
        let server = open_door(
            Arc::clone(&office),
            config,
            tls,
            switchboard,
            Arc::clone(&reloads.asked),
            vacants.clone(),
        )?;
        if let Some(vacants) = &vacants {
            vacants::begin(vacants, config, server.listening().address).await?;
        }
        let agents = agents::begin(&office, config).await?;
        office.join_others().map_err(unreadable)?;
        dialer.call(&addresses);
        let watch = reload::watch(config, &reloads.seen);
        opened.tell_address(&server.listening().address.to_string());
        opened.scrub_in_background(&office);
        Ok(Self {
            office,
            vacants,
            server,
            dialer,
            nats,
            bus,
            echoes,
            opened,
            reload: reloads.asked,
            watch,
            agents,
            exporter,
        })
    }

    /// What the start line tells.
    pub(crate) fn start_line(&self) -> StartLine {
        StartLine::of(self.server.listening())
    }

    /// Where its door is.
    pub(crate) fn address(&self) -> std::net::SocketAddr {
        self.server.listening().address
    }

    /// The node's own tools, for whoever started it.
    pub(crate) fn tools(&self) -> NodeTools {
        self.server.tools()
    }

    /// Reads the files again; what came of it is in the log of the process.
    pub(crate) async fn reload(&self) {
        (self.reload)().await;
    }

    /// Stops the door, then the node; everything acknowledged is on disk when this returns.
    pub(crate) async fn stop(mut self) -> Result<(), Failure> {
        if let Some(watch) = &self.watch {
            watch.abort();
        }
        self.echoes.shutdown().await;
        let calls = self.dialer.stop();
        if let Some(bus) = self.bus {
            bus.stop().await;
        }
        let nats = async {
            if let Some(nats) = self.nats {
                nats.stop().await;
            }
        };
        tokio::join!(self.server.stop(), calls, nats);
        if let Some(vacants) = &self.vacants {
            vacants.stop();
        }
        self.agents.stop().await;
        self.opened.stop_scrubbing();
        let stopped = self.office.stop().await;
        // What the last envelopes left behind leaves with them.
        if let Some(exporter) = self.exporter {
            exporter.stop().await;
        }
        stopped.map_err(|error| Failure::damaged(error.to_string()))
    }
}

/// What calls agents elsewhere; from here on other nodes of the journal reach who is connected here.
fn connections(
    office: &Arc<Office>,
    switchboard: &Arc<Switchboard>,
    tls: Arc<OutgoingTls>,
    config: &Config,
) -> Arc<Dialer> {
    switchboard.join_others(office);
    let (office, switchboard) = (Arc::clone(office), Arc::clone(switchboard));
    Arc::new(Dialer::new(office, switchboard, tls, ws_limits(config)))
}

/// Whose keys the node holds besides those of a world file.
fn others(office: &Office, of_world: &[String]) -> Vec<String> {
    let mut owners = office.gate().vault().owners();
    owners.retain(|owner| !of_world.contains(owner));
    owners
}

fn start_node(
    config: &Config,
    opened: &Opened,
    suite: Chancery,
    world: Option<&mut WorldFile>,
    carrier: Arc<HttpCarrier>,
    spans: Option<Arc<Spans>>,
) -> Result<Arc<Office>, Failure> {
    let limits = &config.limits;
    let options = Options {
        suite: Arc::new(suite),
        store: opened.store(),
        vault: files::vault(world)?,
        clock: match config.clock {
            config::Clock::System => Clock::System,
            config::Clock::Fixed(now) => Clock::fixed(now),
            config::Clock::Shifted { ahead, by } => Clock::Shifted { ahead, by },
        },
        entropy: match config.entropy {
            config::Entropy::System => Entropy::System,
            config::Entropy::Seed(seed) => Entropy::Seed(seed),
        },
        gate_limits: GateLimits {
            requests: count(limits.requests_in_flight),
            urgent_requests: count(limits.urgent_requests),
            index_lag_entries: config.index_lag_entries,
        },
        soft_limits: SoftLimits {
            inbox_depth: config.inbox_depth,
            rate_per_sender: u32::try_from(limits.rate_per_sender).unwrap_or(u32::MAX),
            window_records: count(limits.window_records),
            short_lived_key_max_s: config.value_context.short_lived_key_max_s,
        },
        carrier,
        side_logs: opened.side_logs(config)?,
        hands: chancery_node::Hands::Own,
        spans,
    };
    Node::start(options)
        .map(Arc::new)
        .map_err(|error| match error {
            StartError::ClockBehind { .. } => Failure::usage(error.to_string()),
            error => Failure::damaged(error.to_string()),
        })
}

/// A bound as this machine counts.
fn count(bound: u64) -> usize {
    usize::try_from(bound).unwrap_or(usize::MAX)
}

/// What is on record before the first request: the configuration's rules and people, and their tokens.
async fn begin_in_line(
    office: &Office,
    config: &Config,
    world: Option<&WorldFile>,
) -> Result<(), Failure> {
    bring_in_line(office, config, world).await?;
    tokens::adopt_first(office, config).await?;
    vibe_tokens::adopt(office, config).await?;
    Ok(())
}

/// The rule settings that the configuration asks for.
fn all_settings(office: &Office, config: &Config) -> AllSettings {
    let vibe = config.vibe.rules.clone();
    let seed = office.gate().suite().seed();
    AllSettings {
        value_context: rule_settings(config),
        vibe: match (seed, &config.vibe.world) {
            (Some(seed), Some(_)) => seed.in_settings(vibe),
            _ => vibe,
        },
        vacant: vacants::rule_settings(config),
        agh: config.agh.settings.clone(),
    }
}

/// Refuses to go by other rule settings than the nodes that share the journal (CH-JRN-5).
fn check_settings(office: &Office, settings: &AllSettings) -> Result<(), Failure> {
    if !office.gate().store().is_shared() {
        return Ok(());
    }
    let differ = office.settings_that_differ(settings).map_err(unreadable)?;
    if differ.is_empty() {
        return Ok(());
    }
    Err(Failure::usage(format!(
        "the journal goes by other rule settings than this configuration: {}",
        differ.join(", ")
    ))
    .next("correct the configuration, or change the record for all nodes: chancery config apply"))
}

fn unreadable(error: StoreError) -> Failure {
    Failure::damaged(error.to_string())
}

/// Writes what differs between the files and the record (CH-JRN-1, CH-JRN-12).
async fn bring_in_line(
    office: &Office,
    config: &Config,
    world: Option<&WorldFile>,
) -> Result<usize, Failure> {
    let settings = all_settings(office, config);
    check_settings(office, &settings)?;
    let mut written = usize::from(
        office
            .reconcile_settings(&settings)
            .await
            .map_err(not_in_line)?,
    );
    if let Some(world) = world {
        written += office
            .reconcile_world(&world.world)
            .await
            .map_err(not_in_line)?;
    }
    let peers = config.agh.peers()?;
    written += office.reconcile_peers(&peers).await.map_err(not_in_line)?;
    Ok(written)
}

fn not_in_line(error: ReconcileError) -> Failure {
    match error {
        ReconcileError::Refused { .. } => Failure::usage(format!(
            "the files do not fit the record: {error}"
        ))
        .next(
            "the record wins: change the file, or the record with chancery key and chancery agent",
        ),
        ReconcileError::Store(error) => Failure::damaged(error.to_string()),
    }
}

fn rule_settings(config: &Config) -> Settings {
    let section = &config.value_context;
    Settings {
        max_bytes: count(section.max_bytes),
        accept_legacy_canonical: section.accept_legacy_canonical,
        dedupe_window_s: section.dedupe_window_s,
        share_personal_state: section.share_personal_state,
        share_personal_state_broadcast: section.share_personal_state_broadcast,
        ack_unrequested: section.ack_unrequested,
        pause_on_critical: section.pause_on_critical,
        accept_vcp_2_0: section.accept_vcp_2_0,
        disabled_types: section.disabled_types.clone(),
        ..Settings::default()
    }
}

fn ws_limits(config: &Config) -> WsLimits {
    WsLimits {
        connections: count(config.limits.websockets),
        ..WsLimits::default()
    }
}

fn open_door(
    office: Arc<Office>,
    config: &Config,
    tls: Option<Arc<TlsKeeper>>,
    switchboard: Arc<Switchboard>,
    reload: Reload,
    vacants: Option<Arc<Vacants>>,
) -> Result<Server, Failure> {
    let limits = HttpLimits {
        connections: count(config.limits.open_connections),
        failures_per_s: u32::try_from(config.limits.failures_per_address).unwrap_or(u32::MAX),
        stop_timeout: Duration::from_secs(8),
        ..HttpLimits::default()
    };
    let options = ServeOptions {
        listen: config.listen,
        tls,
        tls_terminated_upstream: config.tls_terminated_upstream,
        dev: config.dev,
        limits,
        ws_limits: ws_limits(config),
        switchboard,
        reload: Some(reload),
        vacants,
        log_desk: Some(Arc::new(Desk::new(&office, config))),
    };
    serve(office, options).map_err(|error| {
        let failure = Failure::usage(error.to_string());
        match error {
            ServeError::Bind(..) => {
                failure.next("choose another address with --listen, or port 0 for a free one")
            }
            _ => failure,
        }
    })
}
