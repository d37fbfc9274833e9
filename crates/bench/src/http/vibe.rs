//! `bench http --protocol vibe`: whole deals over HTTP with tokens, durable, against a bare server that syncs as often.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use bytes::Bytes;
use chancery_agents::Agent;
use chancery_agents::behaviour::{Behaviour, Script};
use chancery_agents::host::{Agents, Hosted};
use chancery_core::admin::TokenRecord;
use chancery_core::digest::Sha256Digest;
use chancery_core::line::DraftEnvelope;
use chancery_core::time::Time;
use chancery_journal::{Chain, Head, Lines};
use chancery_node::suite::{AllSettings, Chancery};
use chancery_vibe::agent::AgentRecord;
use chancery_vibe::conformance::{Host, Request};
use chancery_vibe::settings::Settings;
use chancery_vibe::world::seed::Seed;
use tokio::net::TcpListener;

use super::bare::{self, Expected};
use super::load::{Ask, Told, write_request};
use super::{BARE, CHECK_HEADER, CONNECTIONS, NODE, SLICES, local};
use crate::deals::{BUYERS, STEPS, deal, seed};
use crate::helper::Helper;
use crate::measure::{Race, micros_each, peak_rss_bytes, process_cpu};
use crate::node::{serve_node, start_node_of};
use crate::report::Report;
use crate::store::open;

pub(super) const PATH: &str = "/vcp";
/// More deals than one side makes in a second.
const DEALS_A_SECOND: f64 = 20_000.0;
const TOKENS: usize = 8;

/// Measures for about `duration`, once without and once with an agent that lives in the node.
pub(crate) fn run(dir: &Path, lead: &[String], duration: Duration) -> Result<Vec<Report>> {
    let without = run_with(dir, lead, duration / 2, false)?;
    let mut with = run_with(dir, lead, duration / 2, true)?;
    let cost = without.cpu_us_per_envelope.zip(with.cpu_us_per_envelope);
    if let Some((without, with_agent)) = cost {
        with.note(format!(
            "one scripted agent takes a turn for every envelope of one buyer of {BUYERS}: {:+.1} % of processor time an envelope",
            (with_agent / without - 1.0) * 100.0
        ));
    }
    Ok(vec![without, with])
}

/// An agent of one buyer that takes its turns and says nothing.
fn scripted() -> Result<Hosted> {
    let record = AgentRecord {
        address: "buyer".to_owned(),
        consumer_id: Some("c0".to_owned()),
        merchant_id: None,
        agent: None,
    };
    let script = Script::parse(b"[]").map_err(|error| anyhow::anyhow!("{error}"))?;
    Ok(Hosted {
        agent: Agent::new("scripted", record),
        behaviour: Behaviour::Here(Arc::new(script)),
    })
}

/// Half of the time each side.
fn run_with(dir: &Path, lead: &[String], duration: Duration, agent: bool) -> Result<Report> {
    let dir = tempfile::tempdir_in(dir)?;
    let dir = dir.path();
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()?;
    let seed = Arc::new(seed()?);
    let deals = (duration.as_secs_f64() / 2.0 * DEALS_A_SECOND) as usize + 2 * CONNECTIONS;
    let requests = dir.join("requests");
    std::fs::write(&requests, requests_of(deals))?;
    let store = Arc::new(open(&dir.join("data"), None)?);
    let inside = runtime.enter();
    let office = start_node_of(store.clone(), Chancery::with_seed(Arc::clone(&seed)))?;
    let office = Arc::new(office);
    runtime.block_on(prepare(&office, &seed))?;
    let agents = if agent { vec![scripted()?] } else { Vec::new() };
    let agents = runtime.block_on(Agents::start(&office, agents))?;
    let listener = runtime.block_on(TcpListener::bind(local()))?;
    let bare_address = listener.local_addr()?;
    bare::serve(listener, PATH, answers(&seed)?, dir)?;
    let door = serve_node(office.clone())?;
    drop(inside);
    let requests = requests
        .to_str()
        .context("the directory's name is no text")?;
    let mut load = Helper::start(lead, &["load", requests])?;
    for to in [door.listening().address, bare_address] {
        load.ask::<_, Told>(&Ask::Connect {
            to,
            connections: CONNECTIONS,
            together: STEPS,
        })?;
    }
    let report = measure(&mut load, duration / 2 / SLICES, || store.flush_index());
    load.end()?;
    runtime.block_on(agents.stop());
    runtime.block_on(door.stop());
    runtime.block_on(office.stop())?;
    runtime.shutdown_timeout(Duration::from_secs(1));
    report.map(|mut report| {
        if agent {
            report.bench = "http, one scripted agent".to_owned();
        }
        report
    })
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
    let mut cpu = Duration::ZERO;
    let millis = u64::try_from(slice.as_millis())?.max(1);
    for _ in 0..SLICES {
        let limit: Told = load.ask(&Ask::Load { side: BARE, millis })?;
        let before = process_cpu()?;
        let build: Told = load.ask(&Ask::Load { side: NODE, millis })?;
        cpu += process_cpu()?.saturating_sub(before);
        let of = |told: Told| (told.answers, Duration::from_nanos(told.elapsed_ns));
        race.round_of(of(build), of(limit));
        // What is written behind must not disturb the other side's turn.
        flush()?;
    }
    let mut report = Report {
        bench: "http".to_owned(),
        protocol: Some("vibe".to_owned()),
        store: Some("embedded".to_owned()),
        limit: "bare axum echo with grouped append and fdatasync of the same lines".to_owned(),
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
    report.deals_per_s = report.rate_per_s.map(|rate| rate / STEPS as f64);
    report.note(format!(
        "{CONNECTIONS} connections, tokens, no signatures; a deal is {STEPS} envelopes"
    ));
    Ok(report)
}

/// Puts the settings and the tokens on record.
pub(super) async fn prepare(office: &chancery_node::Office, seed: &Seed) -> Result<()> {
    let settings = AllSettings {
        vibe: seed.in_settings(Settings::default()),
        ..AllSettings::default()
    };
    office.reconcile_settings(&settings).await?;
    for number in 0..TOKENS {
        let record = TokenRecord {
            id: format!("t{number}"),
            principal: format!("p{number}"),
            scopes: Vec::new(),
            addresses: ["consumer:persona", "buyer", "merchant"]
                .map(str::to_owned)
                .into(),
            consumer_id: None,
            merchant_id: None,
            agent: None,
            revoked: false,
        };
        let hash = Sha256Digest::of(token(number).as_bytes());
        let adopted = office.adopt_token(record, hash).await;
        adopted.map_err(|refusal| anyhow::anyhow!("{refusal}"))?;
    }
    Ok(())
}

pub(super) fn token(deal: usize) -> String {
    format!("benchmark-token-{}", deal % TOKENS)
}

fn requests_of(deals: usize) -> Vec<u8> {
    let mut file = Vec::new();
    for n in 0..deals {
        for (step, body) in deal(n).iter().enumerate() {
            let head = format!(
                "POST {PATH} HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n\
                 authorization: Bearer {}\r\ncontent-length: {}\r\n{CHECK_HEADER}: {step}\r\n\r\n",
                token(n),
                body.len()
            );
            // Answers tell their line's number, which nobody knows beforehand: no answer is all that is accepted.
            write_request(&mut file, &[head.as_bytes(), body.as_bytes()].concat(), b"");
        }
    }
    file
}

/// What the bare server answers and writes: the real answers to one deal and the lines it leaves, by step.
fn answers(seed: &Seed) -> Result<Vec<Expected>> {
    let mut host = Host::new(seed, Settings::default(), None).map_err(anyhow::Error::msg)?;
    let mut chain = Chain::after(Head::EMPTY);
    let mut answers = Vec::new();
    for body in deal(0) {
        let request = Request {
            body: Bytes::from(body),
            ..Request::default()
        };
        let reply = host.receive(&request, Time::UNIX_EPOCH);
        let told = String::from_utf8_lossy(&reply.body);
        ensure!(
            reply.status == 200,
            "a deal of the benchmark is refused: {told}"
        );
        let mut lines = Lines::with_capacity(reply.body.len());
        let unit = host.units().last().context("a step leaves no line")?;
        let unit = unit.iter().map(|draft| match &draft.envelope {
            DraftEnvelope::Whole(bytes) | DraftEnvelope::Unsealed { bytes, .. } => (draft, bytes),
        });
        chain.append_unit(unit, &mut lines);
        // The writer ends what it is given with a newline of its own.
        let text = lines.text().trim_ascii_end();
        answers.push(Expected {
            check: None,
            answer: reply.body,
            lines: Some(Bytes::copy_from_slice(text)),
        });
    }
    Ok(answers)
}
