//! `bench pipeline`: from bytes to a decision on one core, against nothing but the signature check.

use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use chancery_core::time::Time;
use ed25519_dalek::{Signature, VerifyingKey};

use crate::host::Host;
use crate::measure::{Latencies, Race, micros_each, peak_rss_bytes, thread_cpu, timed};
use crate::now;
use crate::report::Report;
use crate::traffic::{Envelope, FEW_AGENTS_EACH, World};

const SENDERS: usize = 1_000;
const AGENTS: usize = 64;
/// Envelopes of one slice: some hundredths of a second.
const SLICE: usize = 512;
/// After so many slices the rules forget and the same envelopes come again.
const SLICES_A_PASS: usize = 40;

/// What one signature check needs.
pub(crate) struct Check {
    pub(crate) key: VerifyingKey,
    pub(crate) signed: Vec<u8>,
    pub(crate) signature: Signature,
}

impl Check {
    /// The check of an envelope, taken apart before the clock starts.
    pub(crate) fn of(envelope: &Envelope, world: &World, host: &Host) -> Result<Self> {
        let message = host.decode(envelope.bytes.clone())?;
        let signature = message
            .signature
            .as_ref()
            .and_then(|text| text.bytes().copied());
        let signature =
            signature.ok_or_else(|| anyhow::anyhow!("an envelope without signature"))?;
        Ok(Self {
            key: world.bare_key(envelope.sender)?,
            signed: message.signed.jcs().to_vec(),
            signature: Signature::from_bytes(&signature),
        })
    }

    /// Whether it holds.
    pub(crate) fn holds(&self) -> bool {
        self.key
            .verify_strict(&self.signed, &self.signature)
            .is_ok()
    }
}

/// Measures for about `duration`.
pub(crate) fn run(duration: Duration) -> Result<Report> {
    let world = World::new(SENDERS, AGENTS, FEW_AGENTS_EACH)?;
    let (fresh, _) = Host::new(&world)?;
    let at = now();
    let slices = SLICES_A_PASS.min(1 + duration.as_millis() as usize / 50);
    let envelopes = world.signed_many(0, SLICE * slices, at);
    let checks = envelopes
        .iter()
        .map(|envelope| Check::of(envelope, &world, &fresh));
    let checks = checks.collect::<Result<Vec<_>>>()?;
    let mut host = fresh.clone();
    let mut race = Race::default();
    let mut latencies = Latencies::default();
    let (mut cpu, mut bare_cpu) = (Duration::ZERO, Duration::ZERO);
    let start = Instant::now();
    for slice in (0..slices).cycle() {
        if start.elapsed() >= duration {
            break;
        }
        if slice == 0 {
            host = fresh.clone();
        }
        let part = slice * SLICE..(slice + 1) * SLICE;
        let bare_before = thread_cpu()?;
        let (held, bare) = timed(|| checks[part.clone()].iter().all(Check::holds));
        ensure!(held, "a signature does not hold");
        let cpu_before = thread_cpu()?;
        let (done, build) = timed(|| receive(&mut host, &envelopes[part], at, &mut latencies));
        done?;
        cpu += thread_cpu()?.saturating_sub(cpu_before);
        bare_cpu += cpu_before.saturating_sub(bare_before);
        race.round(SLICE as u64, build, bare);
    }
    let mut report = Report {
        bench: "pipeline".to_owned(),
        protocol: Some("value-context".to_owned()),
        limit: "bare Ed25519 verification of the same bytes on one core".to_owned(),
        cpu_us_per_envelope: micros_each(cpu, race.build_count()),
        peak_rss_bytes: Some(peak_rss_bytes()?),
        ..Report::default()
    };
    latencies.tell(&mut report);
    race.tell(&mut report);
    report.note(format!(
        "ratio by processor time, whatever else runs: {:.3}",
        bare_cpu.as_secs_f64() / cpu.as_secs_f64()
    ));
    Ok(report)
}

fn receive(
    host: &mut Host,
    envelopes: &[Envelope],
    at: Time,
    latencies: &mut Latencies,
) -> Result<()> {
    let mut last = Instant::now();
    for envelope in envelopes {
        host.receive(envelope.bytes.clone(), at)?;
        let now = Instant::now();
        latencies.add(now - last);
        last = now;
    }
    Ok(())
}
