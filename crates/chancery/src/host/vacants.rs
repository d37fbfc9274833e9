//! The vacants that the configuration describes: their keys, their cards, and the calls a stop left open.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use chancery_core::keys::ed25519::SigningKey;
use chancery_doors::{OutgoingTls, VacantsAbroad};
use chancery_node::Office;
use chancery_node::respond::Responder;
use chancery_node::vacants::{Behaviour, HostedVacant, Vacants};
use chancery_vacant::id::VacantId;
use chancery_vacant::settings::Settings;

use super::check::of_key;
use super::{agents, count, not_in_line};
use crate::config::{AgentBehaviour, Config, Store, VacantAgent};
use crate::exit::Failure;
use crate::secret_file;

/// What the rules go by.
pub(super) fn rule_settings(config: &Config) -> Settings {
    Settings {
        max_bytes: count(config.vacant.max_bytes),
        max_clock_skew_s: config.vacant.max_clock_skew_s,
        require_envelope: config.vacant.require_envelope,
        ..Settings::default()
    }
}

/// The way to vacants on other nodes.
pub(super) fn abroad(config: &Config, tls: &OutgoingTls) -> Arc<VacantsAbroad> {
    Arc::new(VacantsAbroad::new(tls, config.vacant.call_private))
}

/// Reads the keys of the vacants and holds them; none when there are no vacants.
pub(super) fn vacants(
    office: Arc<Office>,
    abroad: &Arc<VacantsAbroad>,
    config: &Config,
) -> Result<Option<Arc<Vacants>>, Failure> {
    let section = &config.vacant;
    if section.agents.is_empty() {
        return Ok(None);
    }
    let mut hosted = Vec::new();
    for agent in &section.agents {
        let key = key_of(agent)?;
        let id = VacantId::of(&key);
        office.gate().vault().hold(id.hex(), key);
        hosted.push(HostedVacant {
            name: agent.name.clone(),
            id,
            first_state: agent.state,
            capability: agent.capability.clone(),
            behaviour: behaviour(agent, section.behaviour_calls)?,
            on_restart: agent.on_restart,
            participant: agent.agent.clone(),
        });
    }
    let default = section.agents.iter().position(|agent| agent.default);
    let vacants = Vacants::new(office, hosted, Some(default.unwrap_or(0)));
    let timeout = Duration::from_secs(section.behaviour_timeout_s);
    let mut vacants = vacants.with_timeout(timeout);
    if config.public_url.is_none() && matches!(config.store, Store::Postgres(_)) {
        // Every node of the journal would name itself otherwise, and write the others' cards anew at each start.
        vacants = vacants.keeping_addresses();
    }
    let vacants = Arc::new(vacants.with_scout(Arc::clone(abroad) as Arc<_>));
    abroad.begin(&vacants);
    Ok(Some(vacants))
}

/// The key of a vacant.
pub(super) fn key_of(agent: &VacantAgent) -> Result<SigningKey, Failure> {
    let key = secret_file::read_key(&agent.seed);
    key.map_err(of_key(&format!("seed of vacant {}", agent.name)))
}

/// What answers its calls.
pub(super) fn behaviour(agent: &VacantAgent, at_once: u64) -> Result<Behaviour, Failure> {
    let wrong = |reason: String| Failure::usage(format!("vacant {}: {reason}", agent.name));
    let words = agents::in_words(&agent.behaviour, agent.instructions.as_deref(), &wrong)?;
    Ok(match words {
        Some(words) => Behaviour::Asks(Responder::new(Arc::new(words), count(at_once))),
        None if agent.behaviour == AgentBehaviour::Inbox => Behaviour::Inbox,
        None => Behaviour::Echo,
    })
}

/// Puts the vacants on record with cards that name this listener, and carries on what a stop left open.
pub(super) async fn begin(
    vacants: &Arc<Vacants>,
    config: &Config,
    address: SocketAddr,
) -> Result<(), Failure> {
    let base_url = match &config.public_url {
        Some(url) => url.clone(),
        None if config.tls.is_some() => format!("https://{address}"),
        None => format!("http://{address}"),
    };
    vacants.reconcile(&base_url).await.map_err(not_in_line)?;
    if matches!(config.store, Store::Postgres(_)) {
        // Other nodes may be at work on calls that have no outcome yet.
        tokio::spawn(Arc::clone(vacants).resume_those_left_behind());
        return Ok(());
    }
    let resumed = vacants.resume().await;
    let resumed = resumed.map_err(|error| Failure::damaged(error.to_string()))?;
    tracing::debug!(resumed, "calls that a stop left open have an outcome");
    Ok(())
}
