//! What a benchmark says: one report of fixed members, for people and for machines (CH-BEN-1).

use std::fmt;

use serde::Serialize;

/// The outcome of one benchmark: this build, the raw limit of the same run, and their ratio.
///
/// A member that has no meaning for a benchmark is null; the last two are left out then.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Report {
    /// Which benchmark.
    pub bench: String,
    /// Whose envelopes.
    pub protocol: Option<String>,
    /// Where lines are kept.
    pub store: Option<String>,
    /// What this build did, in a second.
    pub rate_per_s: Option<f64>,
    /// What it is compared with, in words.
    pub limit: String,
    /// What that did, in a second.
    pub limit_per_s: Option<f64>,
    /// The build's rate by the limit's.
    pub ratio: Option<f64>,
    /// Half of the answers came within this time.
    pub p50_ms: Option<f64>,
    /// 99 of 100 did.
    pub p99_ms: Option<f64>,
    /// 999 of 1,000 did.
    pub p999_ms: Option<f64>,
    /// Processor time of this build, all its threads.
    pub cpu_us_per_envelope: Option<f64>,
    /// The most memory the measured process held.
    pub peak_rss_bytes: Option<u64>,
    /// Whole deals in a second, where it takes several envelopes to make one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub deals_per_s: Option<f64>,
    /// How long the slowest answer took, where each one is timed alone.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_ms: Option<f64>,
    /// What else is worth knowing; for people alone.
    #[serde(skip)]
    pub notes: Vec<String>,
}

impl Report {
    /// The report as one line of JSON.
    pub fn to_json(&self) -> serde_json::Result<String> {
        serde_json::to_string(self)
    }

    /// Adds a sentence for people.
    pub fn note(&mut self, note: impl Into<String>) {
        self.notes.push(note.into());
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.bench)?;
        for word in [&self.protocol, &self.store].into_iter().flatten() {
            write!(f, ", {word}")?;
        }
        writeln!(f)?;
        line(f, "this build", self.rate_per_s, "/s", 0)?;
        line(f, "whole deals", self.deals_per_s, "/s", 0)?;
        line(f, &self.limit, self.limit_per_s, "/s", 0)?;
        line(f, "ratio", self.ratio, "", 3)?;
        line(f, "p50", self.p50_ms, " ms", 3)?;
        line(f, "p99", self.p99_ms, " ms", 3)?;
        line(f, "p99.9", self.p999_ms, " ms", 3)?;
        line(f, "slowest", self.max_ms, " ms", 3)?;
        line(
            f,
            "processor time an envelope",
            self.cpu_us_per_envelope,
            " µs",
            1,
        )?;
        let peak_mb = self.peak_rss_bytes.map(megabytes);
        line(f, "peak memory", peak_mb, " MB", 1)?;
        self.notes
            .iter()
            .try_for_each(|note| writeln!(f, "  {note}"))
    }
}

fn line(
    f: &mut fmt::Formatter<'_>,
    name: &str,
    value: Option<f64>,
    unit: &str,
    decimals: usize,
) -> fmt::Result {
    match value {
        Some(value) => writeln!(f, "  {name}: {value:.decimals$}{unit}"),
        None => Ok(()),
    }
}

/// Bytes in units of a million.
pub(crate) fn megabytes(bytes: u64) -> f64 {
    bytes as f64 / 1e6
}
