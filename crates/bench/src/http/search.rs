//! `bench search`: searches over a large catalog, one at a time over HTTP, durable; and what the rules alone take of one
//! core, which is what every other envelope waits for.

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use bytes::Bytes;
use chancery_core::time::Time;
use chancery_node::suite::Chancery;
use chancery_vibe::conformance::{Host, Request};
use chancery_vibe::settings::Settings;
use chancery_vibe::world::seed::Seed;
use serde_json::json;

use super::load::{Ask, Told, write_request};
use super::vibe::{PATH, prepare, token};
use super::{CHECK_HEADER, NODE};
use crate::helper::Helper;
use crate::measure::{Latencies, peak_rss_bytes};
use crate::node::{serve_node, start_node_of};
use crate::report::Report;
use crate::store::open;

/// What 99 of 100 searches may take.
const ALLOWED_MS: f64 = 5.0;
/// Searches that are timed.
const SEARCHES: usize = 2_000;
const MERCHANTS: usize = 100;
/// What titles are made of: the first words stand in many of them, the last in few.
const WORDS: usize = 2_000;

/// Measures over a catalog of so many items.
pub(crate) fn run(dir: &Path, lead: &[String], items: usize) -> Result<Vec<Report>> {
    let dir = tempfile::tempdir_in(dir)?;
    let dir = dir.path();
    let seed = Arc::new(seed(items)?);
    let mut report = over_http(dir, lead, &seed)?;
    let mut alone = rules_alone(&seed)?;
    report.note(format!(
        "{items} items; the rules alone, with reading the envelope, on one core: p50 {:.0} µs, p99 {:.0} µs, \
         at most {:.0} µs",
        alone.percentile_ms(0.5).unwrap_or_default() * 1e3,
        alone.percentile_ms(0.99).unwrap_or_default() * 1e3,
        alone.percentile_ms(1.0).unwrap_or_default() * 1e3,
    ));
    Ok(vec![report])
}

fn over_http(dir: &Path, lead: &[String], seed: &Arc<Seed>) -> Result<Report> {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()?;
    let requests = dir.join("requests");
    std::fs::write(&requests, requests_of())?;
    let store = Arc::new(open(&dir.join("data"), None)?);
    let inside = runtime.enter();
    let office = start_node_of(store, Chancery::with_seed(Arc::clone(seed)))?;
    let office = Arc::new(office);
    runtime.block_on(prepare(&office, seed))?;
    let door = serve_node(office.clone())?;
    drop(inside);
    let requests = requests
        .to_str()
        .context("the directory's name is no text")?;
    let mut load = Helper::start(lead, &["load", requests])?;
    load.ask::<_, Told>(&Ask::Connect {
        to: door.listening().address,
        connections: 1,
        together: 1,
    })?;
    let took: Told = load.ask(&Ask::Idle {
        side: NODE,
        requests: SEARCHES,
    })?;
    let told: Told = load.ask(&Ask::Percentiles {
        side: NODE,
        idle: true,
    })?;
    load.end()?;
    runtime.block_on(door.stop());
    runtime.block_on(office.stop())?;
    runtime.shutdown_timeout(Duration::from_secs(1));
    let elapsed = Duration::from_nanos(took.elapsed_ns);
    Ok(Report {
        bench: "search".to_owned(),
        protocol: Some("vibe".to_owned()),
        store: Some("embedded".to_owned()),
        rate_per_s: Some(took.answers as f64 / elapsed.as_secs_f64()),
        limit: format!("{ALLOWED_MS} ms for 99 of 100"),
        limit_per_s: Some(1e3 / ALLOWED_MS),
        ratio: told.p99_ms.map(|p99| ALLOWED_MS / p99),
        p50_ms: told.p50_ms,
        p99_ms: told.p99_ms,
        p999_ms: told.p999_ms,
        max_ms: told.max_ms,
        peak_rss_bytes: Some(peak_rss_bytes()?),
        ..Report::default()
    })
}

/// What a search takes of the thread that decides, in memory.
fn rules_alone(seed: &Seed) -> Result<Latencies> {
    let mut host = Host::new(seed, Settings::default(), None).map_err(anyhow::Error::msg)?;
    let mut times = Latencies::default();
    for n in 0..SEARCHES {
        let request = Request {
            body: Bytes::from(search(n)),
            ..Request::default()
        };
        let began = Instant::now();
        let reply = host.receive(&request, Time::UNIX_EPOCH);
        times.add(began.elapsed());
        let told = String::from_utf8_lossy(&reply.body);
        ensure!(reply.status == 200, "a search is refused: {told}");
    }
    Ok(times)
}

/// A number that looks like chance and is the same in every run.
fn mixed(n: usize) -> usize {
    let n = (n as u64).wrapping_mul(0x9E37_79B9_7F4A_7C15);
    (n ^ (n >> 29)) as usize
}

/// The word at a place of the list; chosen so that early words come often.
fn word(n: usize) -> String {
    let uniform = (mixed(n) % 1_000_000) as f64 / 1e6;
    format!("word{}", (uniform * uniform * WORDS as f64) as usize)
}

fn seed(items: usize) -> Result<Seed> {
    let merchant = |n: usize| format!("m{}", n % MERCHANTS);
    let listing = |n: usize| {
        let title = [4 * n, 4 * n + 1, 4 * n + 2].map(word).join(" ");
        json!({"merchant_id": merchant(n), "sku_id": format!("sku{n}"), "title": title, "attributes": [],
            "list_price": 1_000 + mixed(n) % 50_000, "eta_days": 1 + n % 7, "refundable": true})
    };
    let stock = |n: usize| json!({"merchant_id": merchant(n), "sku_id": format!("sku{n}"), "on_hand": n % 3, "reserved": 0});
    let of_merchant = |n: usize| json!({"merchant_id": merchant(n), "name": format!("Shop {n}"), "account_id": format!("acc{n}")});
    let account = |n: usize| json!({"account_id": format!("acc{n}"), "owner": merchant(n), "currency": "USD", "balance": 0});
    let world = json!({
        "seed_id": "bench", "currency": "USD", "policy": {},
        "merchants": (0..MERCHANTS).map(of_merchant).collect::<Vec<_>>(),
        "catalog": (0..items).map(listing).collect::<Vec<_>>(),
        "inventory": (0..items).map(stock).collect::<Vec<_>>(),
        "ledger": (0..MERCHANTS).map(account).collect::<Vec<_>>(),
    });
    let parsed = Seed::parse(world.to_string().as_bytes());
    parsed.map_err(|fault| anyhow::anyhow!("the world of the benchmark: {fault}"))
}

/// A search for two words of the vocabulary.
fn search(n: usize) -> String {
    let query = [7 * n + 3, 7 * n + 5].map(word).join(" ");
    json!({
        "protocol": "vcp", "version": "1.0", "msg_id": format!("q{n}"), "ts": "2026-05-15T12:00:00Z",
        "from": "buyer:discovery", "to": "platform:aggregator", "session_id": format!("s{n}"), "in_reply_to": null,
        "idempotency_key": null, "signature": null,
        "action": {"kind": "commerce.search", "payload": {"query": query}},
    })
    .to_string()
}

fn requests_of() -> Vec<u8> {
    let mut file = Vec::new();
    for n in 0..SEARCHES {
        let body = search(n);
        let head = format!(
            "POST {PATH} HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n\
             authorization: Bearer {}\r\ncontent-length: {}\r\n{CHECK_HEADER}: 0\r\n\r\n",
            token(n),
            body.len()
        );
        write_request(&mut file, &[head.as_bytes(), body.as_bytes()].concat(), b"");
    }
    file
}
