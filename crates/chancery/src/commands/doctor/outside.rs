//! What the node needs of others, and the node itself while it runs: its answers, its clock, its broker.

use chancery_core::time::{Time, parse_value_context};
use chancery_doors::nats::{BrokerOptions, reach, reach_streams};
use reqwest::header::DATE;
use serde::de::IgnoredAny;

use std::time::Duration;

use super::data::CLOCK_TOLERANCE;
use super::{DoctorArgs, Round, clock};
use crate::client::{Answered, NodeClient, block_on};
use crate::config::{Clock, Config, Flags, Sources, Store};
use crate::exit::{Exit, Failure};
use crate::host::{broker_options, bus_options, outgoing_tls};

/// A node that serves answers at once.
const PATIENCE: Duration = Duration::from_secs(5);

/// Looks at the node: the one that is named, else the one that has the data open.
pub(super) fn look(
    config: &Config,
    args: &DoctorArgs,
    holder: Option<&str>,
    sources: &dyn Fn(Flags) -> Sources,
    round: &mut Round,
) {
    let is_local = holder.is_some() || args.node.is_named();
    if !is_local {
        let why = match config.store {
            Store::Embedded => "it does not run: start it with chancery serve",
            Store::Memory | Store::Postgres(_) => "name it with --url",
        };
        return round.leave_out(&["node"], why);
    }
    let client = match holder.and_then(|holder| holder.split_once(" at ")) {
        Some((_, address)) if !args.node.is_named() && config.tls.is_none() => {
            NodeClient::at(&format!("http://{address}"))
        }
        _ => args.node.client(sources),
    };
    let client = client.map(|client| client.within(PATIENCE));
    if let Err(failure) = client.and_then(|client| look_at_node(config, &client, round)) {
        round.find_failure("node", holder.unwrap_or("the node that is named"), failure);
    }
    round.done("node", "it takes envelopes");
}

/// Looks at the brokers that the node uses.
pub(super) fn look_at_brokers(config: &Config, round: &mut Round) {
    match broker_options(config) {
        Ok(Some(options)) => {
            let next = "start it, or mend agh.nats and its secret; until then sends to other nodes are answered busy";
            ask("broker", config, &options, options.jetstream, next, round);
        }
        Ok(None) => round.leave_out(&["broker"], "agh.nats is not set"),
        Err(failure) => round.find_failure("broker", "agh.nats", failure),
    }
    match bus_options(config) {
        Ok(Some(options)) => {
            let next = "start it with JetStream, or mend bus; until then whoever has the duty makes all deliveries";
            ask("bus", config, &options, true, next, round);
        }
        Ok(None) => round.leave_out(&["bus"], "bus = \"local\""),
        Err(failure) => round.find_failure("bus", "bus", failure),
    }
}

/// Asks a broker whether it lets us in, and keeps streams where they are wanted.
fn ask(
    check: &'static str,
    config: &Config,
    options: &BrokerOptions,
    streams: bool,
    next: &str,
    round: &mut Round,
) {
    let reached = outgoing_tls(config.ca_file.as_deref()).and_then(|tls| {
        block_on(async {
            let asked = if streams {
                reach_streams(options, &tls).await
            } else {
                reach(options, &tls).await
            };
            asked.map_err(Failure::no)
        })
    });
    let servers = options.servers.join(", ");
    if let Err(failure) = reached {
        let what = format!("the broker is not reached: {}", failure.what);
        round.find(check, &servers, what, next);
    }
    round.done(check, format!("reached at {servers}"));
}

fn look_at_node(config: &Config, client: &NodeClient, round: &mut Round) -> Result<(), Failure> {
    let told = match block_on(client.get(&["readyz"])) {
        // It took the connection and says nothing.
        Err(failure) if failure.exit == Exit::No => {
            let next = "its process may be stopped, or its machine too busy: look at it (ps), and at its log on stderr";
            round.find("node", client.place(), failure.what, next);
            return Ok(());
        }
        told => told?,
    };
    // What is no answer of a node is not shown.
    if !told.body.is_empty() && told.value::<IgnoredAny>().is_err() {
        return Err(told.not_of_a_node("no JSON"));
    }
    if !told.is_yes() {
        let reason = told.reason().unwrap_or_default();
        let what = format!("it takes no envelopes: {} {reason}", told.status);
        let next = "its log on stderr says why; a damaged log or a full disk ends it";
        round.find("node", client.place(), what.trim_end(), next);
    }
    if !matches!(config.clock, Clock::System) {
        return Ok(());
    }
    let Some(theirs) = told_time(&told) else {
        return Ok(());
    };
    let apart = theirs.distance(clock(config).now());
    if apart > CLOCK_TOLERANCE {
        let what = format!(
            "the clocks of this machine and of the node are {} s apart",
            apart.as_secs()
        );
        round.find("clock", client.place(), what, "set the wrong one");
    }
    Ok(())
}

/// The time of the answer, from its header: `Sun, 06 Nov 1994 08:49:37 GMT`.
fn told_time(told: &Answered) -> Option<Time> {
    let mut words = told.headers.get(DATE)?.to_str().ok()?.split(' ').skip(1);
    let (day, month, year, time) = (words.next()?, words.next()?, words.next()?, words.next()?);
    let months = "JanFebMarAprMayJunJulAugSepOctNovDec";
    let month = months.find(month)? / 3 + 1;
    parse_value_context(&format!("{year}-{month:02}-{day}T{time}Z")).ok()
}
