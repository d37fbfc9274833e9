//! `bench emergency`: how soon an emergency is acknowledged and its sender held, while 256 connections always have a
//! request open.
//!
//! A second process makes the load, a third one is the children: it sends each emergency over a connection that is open,
//! then a share of the same child, and listens for the acknowledgement.

mod probe;

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result, anyhow};
use chancery_core::digest::{Sha256Digest, hex};
use chancery_core::ids::v7;
use chancery_core::json::Object;
use chancery_core::keys::ed25519::{SigningKey, encode_public_key};
use chancery_doors::HttpCarrier;
use chancery_node::Vault;
use chancery_store::Store as _;
use chancery_value_context::agent_id::AgentId;
use chancery_value_context::message::{Kind, Recipient};
use chancery_value_context::message_id::MessageId;
use chancery_value_context::sign::{envelope, seal};
use chancery_value_context::world::World as Family;
use serde_json::json;

use self::probe::{Listening, Probed, Times};
use crate::helper::Helper;
use crate::http::{Ask, CONNECTIONS, Told, post, requests_of, write_request};
use crate::measure::{micros_each, peak_rss_bytes, process_cpu};
use crate::node::{serve_node, start_node_with};
use crate::now;
use crate::report::Report;
use crate::store::{AGENTS, Maker, SENDERS, open};
use crate::traffic::{FEW_AGENTS_EACH, World};

pub(crate) use self::probe::{Probe, help};

/// What 99 of 100 may take.
const ALLOWED_MS: f64 = 50.0;
/// More requests than are answered in a second.
const REQUESTS_A_SECOND: f64 = 30_000.0;
/// Emergencies at most, each of a child of its own; and one in so many milliseconds where there is less time.
const SAMPLES: usize = 1_000;
const MILLIS_EACH: u64 = 5;
const FEWEST_SAMPLES: usize = 20;
/// A parent has few children, as parents do.
const CHILDREN_EACH: usize = 10;
/// The load goes on for so long after the last emergency.
const AFTERWARDS: Duration = Duration::from_secs(1);

/// Measures for about `duration`.
pub(crate) fn run(dir: &Path, lead: &[String], duration: Duration) -> Result<Vec<Report>> {
    let dir = tempfile::tempdir_in(dir)?;
    let dir = dir.path();
    let millis = u64::try_from(duration.as_millis())?;
    let samples = samples_within(millis)?;
    let requests = dir.join("requests");
    let count = ((duration + AFTERWARDS).as_secs_f64() * REQUESTS_A_SECOND) as usize;
    let world = World::new(SENDERS, AGENTS, FEW_AGENTS_EACH)?;
    std::fs::write(&requests, requests_of(&world.signed_many(0, count, now())))?;
    let children = children(samples)?;
    let (mut probe, Listening { address }) = start_probe(dir, lead, &children)?;
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()?;
    let store = Arc::new(open(&dir.join("data"), None)?);
    store.commit(Maker::new(FEW_AGENTS_EACH)?.1)?;
    let (family, vault) = family_of(&children)?;
    let url = format!("http://{address}/");
    let addresses: BTreeMap<_, _> = children
        .iter()
        .map(|child| (child.id.as_str().to_owned(), url.clone()))
        .collect();
    let carrier = HttpCarrier::new(addresses)?;
    let inside = runtime.enter();
    let office = Arc::new(start_node_with(store, vault, Arc::new(carrier))?);
    runtime
        .block_on(office.reconcile_world(&family))
        .map_err(|error| anyhow!("{error}"))?;
    let door = serve_node(office.clone())?;
    drop(inside);
    let to = door.listening().address;
    let mut load = Helper::start(lead, &["load", text(&requests)?])?;
    load.ask::<_, Told>(&Ask::Connect {
        to,
        connections: CONNECTIONS,
        together: 1,
    })?;

    let cpu = process_cpu()?;
    let asked = Probe {
        to,
        then: None,
        millis,
    };
    let (told, probed) = under_load(&mut load, &mut probe, &asked)?;
    let cpu = process_cpu()?.saturating_sub(cpu);
    load.end()?;
    probe.end()?;
    runtime.block_on(door.stop());
    runtime.block_on(office.stop())?;
    runtime.shutdown_timeout(Duration::from_secs(1));
    let envelopes = told.answers + 2 * samples as u64;
    let costs = (micros_each(cpu, envelopes), Some(peak_rss_bytes()?));
    let told_of = |name, times| report(name, times, &told, &probed, costs);
    let acknowledged = probed.acknowledged.context("nobody acknowledged")?;
    Ok(vec![
        told_of("emergency acknowledged", &acknowledged),
        told_of("emergency held", &probed.held),
    ])
}

/// How many emergencies there are in this time.
pub(crate) fn samples_within(millis: u64) -> Result<usize> {
    Ok(usize::try_from(millis / MILLIS_EACH)?.clamp(FEWEST_SAMPLES, SAMPLES))
}

/// So many children, the same ones whoever asks.
pub(crate) fn children(count: usize) -> Result<Vec<Child>> {
    (0..count).map(Child::new).collect()
}

/// The helper that sends what children say.
pub(crate) fn start_probe(
    dir: &Path,
    lead: &[String],
    children: &[Child],
) -> Result<(Helper, Listening)> {
    let probes = dir.join("probes");
    std::fs::write(&probes, probes_of(children))?;
    let mut probe = Helper::start(lead, &["emergency", text(&probes)?])?;
    let listening = probe.answer()?;
    Ok((probe, listening))
}

/// The family of children, and the keys of its parents.
pub(crate) fn family_of(children: &[Child]) -> Result<(Family, Arc<Vault>)> {
    let mut family = family(children)?;
    let vault = Arc::new(Vault::new());
    for (agent, key) in std::mem::take(&mut family.secret_keys) {
        vault.hold(agent.as_str(), key);
    }
    Ok((family, vault))
}

/// Sends the emergencies while the first side of a load is loaded, a moment longer than they take.
pub(crate) fn under_load(
    load: &mut Helper,
    probe: &mut Helper,
    asked: &Probe,
) -> Result<(Told, Probed)> {
    let millis = asked.millis + u64::try_from(AFTERWARDS.as_millis())?;
    std::thread::scope(|scope| {
        let loading = scope.spawn(move || load.ask(&Ask::Load { side: 0, millis }));
        let probed = probe.ask(asked)?;
        let told = loading.join().map_err(|_| anyhow!("the load failed"))??;
        Ok((told, probed))
    })
}

pub(crate) fn report(
    name: &str,
    times: &Times,
    told: &Told,
    probed: &Probed,
    (each, peak): (Option<f64>, Option<u64>),
) -> Report {
    let mut report = Report {
        bench: name.to_owned(),
        protocol: Some("value-context".to_owned()),
        store: Some("embedded".to_owned()),
        rate_per_s: Some(1e3 / times.p99_ms),
        limit: format!("{ALLOWED_MS} ms for 99 of 100"),
        limit_per_s: Some(1e3 / ALLOWED_MS),
        ratio: Some(ALLOWED_MS / times.p99_ms),
        p50_ms: Some(times.p50_ms),
        p99_ms: Some(times.p99_ms),
        p999_ms: Some(times.p999_ms),
        cpu_us_per_envelope: each,
        peak_rss_bytes: peak,
        ..Report::default()
    };
    let loaded_s = Duration::from_nanos(told.elapsed_ns).as_secs_f64();
    let probed_s = Duration::from_nanos(probed.elapsed_ns).as_secs_f64();
    report.note(format!(
        "{} emergencies in {probed_s:.1} s, most {:.3} ms; {CONNECTIONS} connections with a request open for {loaded_s:.1} s, {:.0} answers a second",
        probed.samples,
        times.most_ms,
        told.answers as f64 / loaded_s
    ));
    if loaded_s < probed_s {
        report.note("THE LOAD ENDED BEFORE THE LAST EMERGENCY: these figures do not count");
    }
    report
}

fn text(path: &Path) -> Result<&str> {
    path.to_str().context("the directory's name is no text")
}

/// A child elsewhere.
pub(crate) struct Child {
    id: AgentId,
    key: SigningKey,
    seed: [u8; 32],
    parent: AgentId,
    number: usize,
}

impl Child {
    fn new(number: usize) -> Result<Self> {
        let name = |kind: &str, number: usize| {
            AgentId::parse(&format!("agent://cluster-7.example.net/{kind}-{number:05}"))
                .with_context(|| format!("{kind} {number} cannot be named"))
        };
        let seed = Sha256Digest::of(format!("benchmark child {number}").as_bytes()).0;
        Ok(Self {
            id: name("child", number)?,
            key: SigningKey::from_seed(&seed),
            seed,
            parent: name("parent", number / CHILDREN_EACH)?,
            number,
        })
    }

    /// A signed message of this child for its parent; the n-th of it.
    fn says(&self, kind: Kind, n: u64, payload: Object<'static>) -> Vec<u8> {
        let at = now();
        let unix_ms = u64::try_from(at.unix_millis()).unwrap_or_default();
        let id = MessageId::made(v7(
            unix_ms,
            (self.number & 0xfff) as u16,
            n << 32 | self.number as u64,
        ));
        let to = Recipient::Directed(self.parent.clone());
        let members = envelope(kind, id, &self.id, &to, at, payload);
        seal(members, &self.key).bytes.to_vec()
    }

    fn emergency(&self) -> Vec<u8> {
        let payload = Object::new()
            .with("severity", "emergency")
            .with("reason", "smoke in the living room")
            .with("context", "📍🏡|🎭🚨")
            .with("requires_ack", true);
        self.says(Kind::Escalation, 1, payload)
    }

    fn share(&self) -> Vec<u8> {
        let payload = Object::new().with("context", "📍🏡|🎭🚨").with(
            "constitution_ref",
            "creed://creed.space/family.safe.guide@1.2.0",
        );
        self.says(Kind::ContextShare, 2, payload)
    }
}

/// Of each child the emergency, then the share that has to be refused.
fn probes_of(children: &[Child]) -> Vec<u8> {
    let mut file = Vec::new();
    for child in children {
        write_request(&mut file, &post(&child.emergency()), &post(&child.share()));
    }
    file
}

/// The parents, hosted here with their keys, and the keys of the children.
fn family(children: &[Child]) -> Result<Family> {
    let mut anchors = serde_json::Map::new();
    let mut seeds = serde_json::Map::new();
    let mut parents: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    let trusted = |key: &SigningKey| {
        let public_key = encode_public_key(&key.verifying_key());
        json!({"type": "agent", "keys": [{
            "id": "key-1", "algorithm": "ed25519", "public_key": public_key, "state": "active",
            "valid_from": "2020-01-01T00:00:00Z", "valid_until": "9999-12-31T23:59:59Z",
        }]})
    };
    for child in children {
        anchors.insert(child.id.as_str().to_owned(), trusted(&child.key));
        let parent = child.parent.as_str();
        parents.entry(parent).or_default().push(child.id.as_str());
        // The first child's number makes the parent's seed: no other has it.
        seeds.entry(parent).or_insert_with(|| {
            let seed = Sha256Digest::of(&child.seed).0;
            hex::encode(&seed).into()
        });
    }
    for (parent, seed) in &seeds {
        let seed = seed.as_str().unwrap_or_default();
        let seed = hex::decode_array(seed).map_err(|_| anyhow!("a seed is no hex"))?;
        anchors.insert(parent.clone(), trusted(&SigningKey::from_seed(&seed)));
    }
    let agents: Vec<_> = parents
        .iter()
        .map(|(id, children)| json!({"id": id, "parent": null, "children": children, "peers": []}))
        .collect();
    let world = json!({
        "trust": {"trust_anchors": anchors}, "local_agents": agents, "secret_seeds_hex": seeds,
    });
    Family::parse(world.to_string().as_bytes()).map_err(|error| anyhow!("{error}"))
}
