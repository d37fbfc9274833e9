//! The stop button over two nodes: how soon after an emergency is on record at one node its sender is refused at the other.

use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, Result, anyhow, bail};
use chancery_node::NoCarrier;

use super::server::Server;
use super::{answer_until_asked_no_more, connect, store};
use crate::emergency::{self, Probe};
use crate::helper::Helper;
use crate::http::{CONNECTIONS, REQUESTS_A_SECOND, requests_of};
use crate::node::start_node_with;
use crate::now;
use crate::report::Report;
use crate::store::{AGENTS, Maker, SENDERS};
use crate::traffic::{FEW_AGENTS_EACH, World};

/// Measures for about `duration`, with both nodes under load.
pub(super) fn run(
    dir: &Path,
    lead: &[String],
    server: &Server,
    duration: Duration,
) -> Result<Report> {
    let millis = u64::try_from(duration.as_millis())?;
    let samples = emergency::samples_within(millis)?;
    let children = emergency::children(samples)?;
    let journal = format!("bench-{}-stop", std::process::id());
    begin(&server.url, &journal, &children)?;
    let requests = dir.join("stop-requests");
    let count = ((duration.as_secs_f64() + 1.0) * REQUESTS_A_SECOND) as usize;
    let world = World::new(SENDERS, AGENTS, FEW_AGENTS_EACH)?;
    std::fs::write(&requests, requests_of(&world.signed_many(0, count, now())))?;
    let requests = requests.to_str().context("the directory is no text")?;
    let mut load = Helper::start(lead, &["load", requests])?;
    let (mut nodes, mut addresses) = (Vec::new(), Vec::new());
    for node in 0..2 {
        let count = samples.to_string();
        let mut helper = Helper::start(lead, &["family-node", &server.url, &journal, &count])?;
        let to: SocketAddr = helper.answer()?;
        nodes.push(helper);
        addresses.push(to);
        connect(&mut load, 0, node, to, CONNECTIONS / 2)?;
    }
    let (mut probe, _) = emergency::start_probe(dir, lead, &children)?;
    let asked = Probe {
        to: addresses[0],
        then: Some(addresses[1]),
        millis,
    };
    let (told, probed) = emergency::under_load(&mut load, &mut probe, &asked)?;
    let mut report = emergency::report(
        "stopped on another node",
        &probed.held,
        &told,
        &probed,
        (None, None),
    );
    report.store = Some("postgres".to_owned());
    report.note(
        "from the answer to the emergency on one node to the refusal of its sender on the other",
    );
    probe.end()?;
    load.end()?;
    for node in nodes {
        node.end()?;
    }
    Ok(report)
}

/// Begins the journal with the senders of the load and the family.
fn begin(place: &str, journal: &str, children: &[emergency::Child]) -> Result<()> {
    let store = store(place, journal)?;
    if let Err(error) = store.commit(Maker::new(FEW_AGENTS_EACH)?.1) {
        bail!("{error}");
    }
    let (family, vault) = emergency::family_of(children)?;
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()?;
    let inside = runtime.enter();
    let office = start_node_with(store, vault, Arc::new(NoCarrier))?;
    drop(inside);
    runtime
        .block_on(office.reconcile_world(&family))
        .map_err(|error| anyhow!("{error}"))?;
    runtime.block_on(office.stop())?;
    runtime.shutdown_timeout(Duration::from_secs(1));
    Ok(())
}

/// The helper: a node that has the keys of the family's parents.
pub(crate) fn help(place: &str, journal: &str, children: usize) -> Result<()> {
    let (_, vault) = emergency::family_of(&emergency::children(children)?)?;
    answer_until_asked_no_more(|| {
        start_node_with(store(place, journal)?, vault, Arc::new(NoCarrier))
    })
}
