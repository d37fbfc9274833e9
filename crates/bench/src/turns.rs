//! `bench pipeline --protocol vibe`: whole turns of a rule-based agent on one core, without the log.
//!
//! A turn is its context, its inference, the decision read back, the envelope made and the outbound checks on committed
//! rows; what would go to the gate is thrown away. The limit is what the checks alone take.

use std::hint::black_box;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use bytes::Bytes;
use chancery_agents::behaviour::Infer;
use chancery_agents::behaviour::roles::Merchant;
use chancery_agents::budget::Usage;
use chancery_agents::host::with_snapshot;
use chancery_agents::{Agent, Inbound, Memory, Next, Outbound, Turn};
use chancery_node::Office;
use chancery_node::suite::{AllSettings, Chancery};
use chancery_vibe::agent::AgentRecord;
use chancery_vibe::settings::Settings;
use chancery_vibe::world::seed::Seed;
use serde_json::{Value, json};

use crate::deals::seed;
use crate::measure::{Race, micros_each, peak_rss_bytes, thread_cpu, timed};
use crate::node::start_node_of;
use crate::report::Report;
use crate::store::open;

/// Turns of one slice.
const SLICE: u64 = 512;

/// Measures for about `duration`.
pub(crate) fn run(dir: &Path, duration: Duration) -> Result<Report> {
    let dir = tempfile::tempdir_in(dir)?;
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()?;
    let seed = Arc::new(seed()?);
    let store = Arc::new(open(&dir.path().join("data"), None)?);
    let inside = runtime.enter();
    let office = start_node_of(store, Chancery::with_seed(Arc::clone(&seed)))?;
    drop(inside);
    let agent = Arc::new(merchant());
    runtime.block_on(prepare(&office, &seed, &agent))?;
    let inbound = asked(&office, &agent)?;
    let report = measure(&office, &agent, &inbound, duration);
    runtime.block_on(office.stop())?;
    report
}

fn measure(
    office: &Office,
    agent: &Arc<Agent>,
    inbound: &Arc<Inbound>,
    duration: Duration,
) -> Result<Report> {
    let said = turn(office, agent, inbound)?;
    let mut race = Race::default();
    let mut cpu = Duration::ZERO;
    let start = Instant::now();
    while start.elapsed() < duration {
        let (checked, bare) = timed(|| {
            with_snapshot(office, agent, |snapshot| {
                let memory = Memory::default();
                (0..SLICE).all(|_| {
                    let checked = snapshot.check(inbound.seq, black_box(&said), &memory);
                    checked.is_ok()
                })
            })
        });
        ensure!(checked, "an envelope is refused");
        let cpu_before = thread_cpu()?;
        let (spoken, build) =
            timed(|| (0..SLICE).all(|_| turn(office, agent, black_box(inbound)).is_ok()));
        ensure!(spoken, "a turn says nothing");
        cpu += thread_cpu()?.saturating_sub(cpu_before);
        race.round(SLICE, build, bare);
    }
    let mut report = Report {
        bench: "turns".to_owned(),
        protocol: Some("vibe".to_owned()),
        limit: "the rules alone, on the envelope that a turn makes".to_owned(),
        cpu_us_per_envelope: micros_each(cpu, race.build_count()),
        peak_rss_bytes: Some(peak_rss_bytes()?),
        ..Report::default()
    };
    race.tell(&mut report);
    report.note("one core, a rule-based merchant that makes an offer; nothing is written");
    Ok(report)
}

/// One turn, as far as the gate.
fn turn(office: &Office, agent: &Arc<Agent>, inbound: &Arc<Inbound>) -> Result<Outbound> {
    with_snapshot(office, agent, |snapshot| {
        let mut turn = Turn::new(Arc::clone(agent), Arc::clone(inbound), Memory::default());
        let output = Merchant.infer(&turn.context(snapshot));
        match turn.heard(&output, Usage::FREE, snapshot) {
            Next::Send(outbound) => Ok(*outbound),
            _ => anyhow::bail!("the merchant makes no offer: {output}"),
        }
    })
}

fn merchant() -> Agent {
    let record = AgentRecord {
        address: "merchant".to_owned(),
        consumer_id: None,
        merchant_id: Some("m".to_owned()),
        agent: None,
    };
    Agent::new("keys", record)
}

/// Puts the agent, its goal, a wish and a question on record.
async fn prepare(office: &Office, seed: &Seed, agent: &Agent) -> Result<()> {
    let settings = AllSettings {
        vibe: seed.in_settings(Settings::default()),
        ..AllSettings::default()
    };
    office.reconcile_settings(&settings).await?;
    office
        .reconcile_vibe_agent(&agent.name, &agent.record)
        .await?;
    let goal = json!({"offer_mandate_id": "g", "merchant_id": "m", "goal": "sell", "skus": ["sku0"],
        "pricing": {"list_price": 12_900, "floor_price": 9_000, "floor_currency": "USD"},
        "permitted_claims": ["quiet"], "fulfillment": {"methods": ["courier"]}, "valid_until": null});
    let mandate = json!({"mandate_id": "w", "consumer_id": "c0",
        "ap2_intent_mandate": {"goal": "keyboard", "requires_refundability": false,
            "intent_expiry": "2100-01-01T00:00:00Z"},
        "authority": {"can_buy_without_confirmation": false, "max_spend_without_confirmation": 0,
            "can_negotiate": true, "can_accept_substitutes": false, "can_share_with_merchant": [],
            "must_not_share_with_merchant": []},
        "hard_constraints": {"budget": 47_113}});
    let question = json!({"merchant_id": "m", "sku_id": "sku0", "qty": 2});
    let steps = [
        (
            [
                "merchant:owner",
                "merchant:pricing",
                "delegate.set_business_goal",
            ],
            "g",
            goal,
        ),
        (
            [
                "consumer:persona",
                "buyer:intent",
                "delegate.create_purchase_mandate",
            ],
            "s",
            mandate,
        ),
        (
            [
                "buyer:negotiation",
                "merchant:pricing",
                "commerce.request_offer",
            ],
            "s",
            question,
        ),
    ];
    for (number, ([from, to, kind], session, payload)) in steps.into_iter().enumerate() {
        let envelope = envelope(number, [from, to, kind], session, &payload);
        let received = office.receive_vibe(Bytes::from(envelope), None, None).await;
        received.map_err(|refusal| anyhow::anyhow!("{kind}: {refusal}"))?;
    }
    Ok(())
}

fn envelope(number: usize, [from, to, kind]: [&str; 3], session: &str, payload: &Value) -> String {
    json!({
        "protocol": "vcp", "version": "1.0", "msg_id": format!("m{number}"), "ts": "2026-05-15T12:00:00Z",
        "from": from, "to": to, "session_id": session, "in_reply_to": null,
        "idempotency_key": format!("k{number}"), "signature": null,
        "action": {"kind": kind, "payload": payload},
    })
    .to_string()
}

/// The question in the agent's inbox.
fn asked(office: &Office, agent: &Agent) -> Result<Arc<Inbound>> {
    let mut entries = Vec::new();
    for name in agent.inboxes() {
        entries.extend(office.inboxes().read(&name, 0, 16)?);
    }
    let latest = entries.into_iter().max_by_key(|entry| entry.seq);
    let latest = latest.context("nothing was asked")?;
    let line = chancery_journal::line::parse(&latest.line)?;
    let inbound = Inbound::read(latest.seq, &line.envelope);
    inbound.map(Arc::new).context("the line is no envelope")
}
