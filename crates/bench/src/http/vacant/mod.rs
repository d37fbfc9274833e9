//! `bench http --protocol vacant`: signed calls on 64 chains, each answer verified, durable, against a bare server that
//! checks, signs and syncs as often.

mod bare;
mod load;
mod shapes;

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Result;
use chancery_core::digest::Sha256Digest;
use chancery_core::keys::ed25519::SigningKey;
use chancery_doors::http::{ServeOptions, serve};
use chancery_node::suite::AllSettings;
use chancery_node::vacants::{Behaviour, HostedVacant, OnRestart, Vacants};
use chancery_node::{NoCarrier, Vault};
use chancery_vacant::id::VacantId;
use chancery_vacant::state::State;
use tokio::net::TcpListener;

use super::load::{Ask, Told};
use super::{BARE, NODE, SLICES, local};
use crate::helper::Helper;
use crate::measure::{Race, micros_each, peak_rss_bytes, process_cpu};
use crate::node::start_node_with;
use crate::report::Report;
use crate::store::open;

pub(crate) use load::help;

/// Chains, each with one call under way.
const PAIRS: usize = 64;
/// Calls of one pair that are timed while others send what is slow to refuse.
const BESIDE_LARGE: usize = 500;
/// Names the signature of a request to the bare server.
const SIGNATURE_HEADER: &str = "x-signature";
/// Names its signer.
const SIGNER_HEADER: &str = "x-signer";
const PATH: &str = "/a2a/message/send";

/// A key that both processes know.
fn key(name: &str) -> SigningKey {
    SigningKey::from_seed(&Sha256Digest::of(format!("benchmark {name}").as_bytes()).0)
}

/// The vacant that is called, and the bare server in its place.
fn target() -> SigningKey {
    key("target")
}

/// Measures for about `duration`, half of it each side.
pub(crate) fn run(dir: &Path, lead: &[String], duration: Duration) -> Result<Vec<Report>> {
    let dir = tempfile::tempdir_in(dir)?;
    let dir = dir.path();
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()?;
    let store = Arc::new(open(&dir.join("data"), None)?);
    let inside = runtime.enter();
    let (vault, id) = (Arc::new(Vault::new()), VacantId::of(&target()));
    vault.hold(id.hex(), target());
    let office = start_node_with(store.clone(), vault, Arc::new(NoCarrier))?;
    let office = Arc::new(office);
    let hosted = HostedVacant {
        name: "target".to_owned(),
        id,
        first_state: State::Active,
        capability: "echoes".to_owned(),
        behaviour: Behaviour::Echo,
        on_restart: OnRestart::Rerun,
        participant: None,
    };
    let vacants = Arc::new(Vacants::new(Arc::clone(&office), vec![hosted], Some(0)));
    let mut options = ServeOptions::new(local());
    options.vacants = Some(Arc::clone(&vacants));
    let door = serve(Arc::clone(&office), options)?;
    let to = door.listening().address;
    runtime.block_on(async {
        office.reconcile_settings(&AllSettings::default()).await?;
        vacants.reconcile(&format!("http://{to}")).await
    })?;
    let listener = runtime.block_on(TcpListener::bind(local()))?;
    let bare_to = listener.local_addr()?;
    bare::serve(listener, dir)?;
    drop(inside);
    let mut load = Helper::start(lead, &["vacant-load"])?;
    for to in [to, bare_to] {
        load.ask::<_, Told>(&Ask::Connect {
            to,
            connections: PAIRS,
            together: 1,
        })?;
    }
    let report = measure(&mut load, duration / 2 / SLICES, || store.flush_index());
    load.end()?;
    runtime.block_on(door.stop());
    runtime.block_on(office.stop())?;
    runtime.shutdown_timeout(Duration::from_secs(1));
    Ok(vec![report?])
}

fn measure<E>(
    load: &mut Helper,
    slice: Duration,
    flush: impl Fn() -> Result<(), E>,
) -> Result<Report>
where
    anyhow::Error: From<E>,
{
    let mut race = Race::default();
    let (mut cpu, mut bare_cpu, mut bare_answers) = (Duration::ZERO, Duration::ZERO, 0);
    let millis = u64::try_from(slice.as_millis())?.max(1);
    for _ in 0..SLICES {
        let bare_before = process_cpu()?;
        let limit: Told = load.ask(&Ask::Load { side: BARE, millis })?;
        let before = process_cpu()?;
        let build: Told = load.ask(&Ask::Load { side: NODE, millis })?;
        cpu += process_cpu()?.saturating_sub(before);
        bare_cpu += before.saturating_sub(bare_before);
        bare_answers += limit.answers;
        let of = |told: Told| (told.answers, Duration::from_nanos(told.elapsed_ns));
        race.round_of(of(build), of(limit));
        // What is written behind must not disturb the other side's turn.
        flush()?;
    }
    let mut report = Report {
        bench: "http".to_owned(),
        protocol: Some("vacant".to_owned()),
        store: Some("embedded".to_owned()),
        limit: "bare axum echo that verifies, signs, and appends and syncs twice in groups"
            .to_owned(),
        cpu_us_per_envelope: micros_each(cpu, race.build_count()),
        peak_rss_bytes: Some(peak_rss_bytes()?),
        ..Report::default()
    };
    race.tell(&mut report);
    let told: Told = load.ask(&Ask::Percentiles {
        side: NODE,
        idle: false,
    })?;
    (report.p50_ms, report.p99_ms, report.p999_ms) = (told.p50_ms, told.p99_ms, told.p999_ms);
    let beside: Told = load.ask(&Ask::Idle {
        side: NODE,
        requests: BESIDE_LARGE,
    })?;
    report.note(format!(
        "{BESIDE_LARGE} calls of one pair beside refused bodies of 1 MiB in every shape: p50 {:.1} ms, p99 {:.1} ms",
        beside.p50_ms.unwrap_or_default(),
        beside.p99_ms.unwrap_or_default()
    ));
    report.note(format!(
        "{PAIRS} chains, one call of each under way, every answer verified; processor time a call is the server's, \
         {:.1} µs of the bare one",
        micros_each(bare_cpu, bare_answers).unwrap_or_default()
    ));
    Ok(report)
}
