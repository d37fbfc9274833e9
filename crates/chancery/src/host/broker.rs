//! The broker of AGH as the configuration names it, and the peers that answer by themselves.

use std::sync::Arc;

use chancery_agents::behaviour::Words;
use chancery_agh::peer::PeerRecord;
use chancery_core::digest::{Sha256Digest, hex};
use chancery_doors::OutgoingTls;
use chancery_doors::http::keep_figures;
use chancery_doors::nats::{Broker, BrokerOptions, BusDoor, NatsBus, NatsDoor, Secret};
use chancery_node::respond::Responder;
use chancery_node::{Office, agh_answers, agh_bridge};
use tokio::task::JoinSet;

use super::agents;
use crate::config::{AnsweringPeer, Config, Nats, Store};
use crate::exit::Failure;
use crate::secret_file::read_secret;

/// What is published through, when there is a broker.
pub(super) fn broker(config: &Config) -> Option<Arc<Broker>> {
    config.agh.nats.as_ref().map(|_| Arc::default())
}

/// Nobody is connected yet, and the keys of hosted peers are at hand. Gives whose keys were held before.
pub(super) async fn prepare(office: &Office, config: &Config) -> Result<Vec<String>, Failure> {
    let held = office.gate().vault().owners();
    // Where others share the journal their peers stay; whoever has the duties sees out those that are gone.
    if !matches!(config.store, Store::Postgres(_)) {
        office
            .agh_nobody_connected()
            .await
            .map_err(|error| Failure::damaged(error.to_string()))?;
    }
    for (peer, key) in config.agh.keys()? {
        office.gate().vault().hold(peer, key);
    }
    Ok(held)
}

/// Joins the subjects of the hosted peers.
pub(super) fn join(
    office: &Arc<Office>,
    config: &Config,
    broker: Option<Arc<Broker>>,
    tls: &OutgoingTls,
) -> Result<Option<NatsDoor>, Failure> {
    // This broker and that of the bus may be reached before the door is open, and tell it once.
    keep_figures();
    let (Some(options), Some(broker)) = (broker_options(config)?, broker) else {
        return Ok(None);
    };
    let office = Arc::clone(office);
    Ok(Some(NatsDoor::open(office, broker, options, tls.clone())))
}

/// How the broker is reached, when there is one.
pub(crate) fn broker_options(config: &Config) -> Result<Option<BrokerOptions>, Failure> {
    config.agh.nats.as_ref().map(options_of).transpose()
}

/// How the broker of the bus is reached, when there is one.
pub(crate) fn bus_options(config: &Config) -> Result<Option<BrokerOptions>, Failure> {
    config.bus.as_ref().map(options_of).transpose()
}

fn options_of(nats: &Nats) -> Result<BrokerOptions, Failure> {
    Ok(BrokerOptions {
        servers: nats.servers.clone(),
        secret: secret(nats)?,
        plaintext: nats.plaintext,
        jetstream: nats.jetstream,
    })
}

/// Hands deliveries out among the nodes of the journal, where the configuration says so. Over the connection of AGH where
/// that is to the same broker.
pub(super) fn hand_out(
    office: &Arc<Office>,
    config: &Config,
    agh: Option<&NatsDoor>,
    tls: &OutgoingTls,
) -> Result<Option<BusDoor>, Failure> {
    let Some(nats) = &config.bus else {
        return Ok(None);
    };
    let bus = NatsBus::new(name_of_journal(office)?);
    office.hand_out_through(Arc::clone(&bus) as Arc<_>);
    let of = Arc::clone(office);
    let shares = config.agh.nats.as_ref();
    Ok(Some(match agh {
        Some(agh) if shares.is_some_and(|agh| agh.servers == nats.servers) => {
            BusDoor::share(of, bus, agh.connected())
        }
        _ => BusDoor::open(of, bus, options_of(nats)?, tls.clone()),
    }))
}

/// A name that no other journal has: of its first line, which is the same for all its nodes.
fn name_of_journal(office: &Office) -> Result<String, Failure> {
    let first = office.gate().store().lines(1, 1);
    let first = first.map_err(|error| Failure::damaged(error.to_string()))?;
    let digest = Sha256Digest::of(first.first().map_or(b"", |line| line));
    Ok(hex::encode(&digest.0[..8]))
}

/// A peer works on one thing after another.
const AT_ONCE: usize = 1;

/// Starts the peers that answer by themselves. Dropping them ends them.
pub(super) fn echoes(office: &Arc<Office>, config: &Config) -> Result<JoinSet<()>, Failure> {
    let mut echoes = JoinSet::new();
    for (peer, words) in answering(config)? {
        let responder = words.map(|words| Responder::new(Arc::new(words), AT_ONCE));
        echoes.spawn(agh_answers(Arc::clone(office), peer, responder));
    }
    if let Some(bridge) = &config.agh.settings.bridge {
        echoes.spawn(agh_bridge(Arc::clone(office), bridge.clone()));
    }
    Ok(echoes)
}

/// The peers that answer by themselves, and what answers in words.
pub(super) fn answering(config: &Config) -> Result<Vec<(PeerRecord, Option<Words>)>, Failure> {
    let peers = config.agh.answering()?.into_iter();
    let with_words = |peer: AnsweringPeer| {
        let id = &peer.record.card.peer_id;
        let wrong = |reason: String| Failure::usage(format!("peer {id}: {reason}"));
        let words = agents::in_words(&peer.behaviour, peer.instructions.as_deref(), &wrong)?;
        Ok((peer.record, words))
    };
    peers.map(with_words).collect()
}

fn secret(nats: &Nats) -> Result<Option<Secret>, Failure> {
    if let Some(path) = &nats.credentials {
        let text = read_secret(path, "credentials of the broker")?;
        return Ok(Some(Secret::Credentials(text.to_string())));
    }
    let Some(path) = &nats.token_file else {
        return Ok(None);
    };
    let text = read_secret(path, "the broker's token")?;
    let text = text.trim();
    Ok(Some(match text.split_once(':') {
        Some((user, password)) => Secret::User(user.to_owned(), password.to_owned()),
        None => Secret::Token(text.to_owned()),
    }))
}
