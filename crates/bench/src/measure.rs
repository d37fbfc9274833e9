//! Measuring: rates of two sides that take turns, percentiles, processor time and memory of a process.

use std::time::{Duration, Instant};

use anyhow::{Context, Result};

use crate::report::Report;

/// Ticks of `/proc/PID/stat` in a second; Linux shows 100 on every architecture.
const TICKS_PER_SECOND: f64 = 100.0;

/// This build and its limit, measured in alternating slices so that whatever disturbs the machine hits both.
#[derive(Clone, Debug, Default)]
pub(crate) struct Race {
    build: Side,
    limit: Side,
    ratios: Vec<f64>,
}

#[derive(Clone, Copy, Debug, Default)]
struct Side {
    count: u64,
    elapsed: Duration,
}

impl Side {
    fn add(&mut self, count: u64, elapsed: Duration) {
        self.count += count;
        self.elapsed += elapsed;
    }

    fn rate_per_s(&self) -> f64 {
        self.count as f64 / self.elapsed.as_secs_f64().max(f64::MIN_POSITIVE)
    }
}

impl Race {
    /// One slice of each, over the same work.
    pub(crate) fn round(&mut self, count: u64, build: Duration, limit: Duration) {
        self.round_of((count, build), (count, limit));
    }

    /// One slice of each, by the time they had.
    pub(crate) fn round_of(&mut self, build: (u64, Duration), limit: (u64, Duration)) {
        let rate = |(count, elapsed)| Side { count, elapsed }.rate_per_s();
        self.ratios.push(rate(build) / rate(limit));
        self.build.add(build.0, build.1);
        self.limit.add(limit.0, limit.1);
    }

    /// What this build did so far.
    pub(crate) fn build_count(&self) -> u64 {
        self.build.count
    }

    /// Writes rates, ratio and how far the slices differ.
    pub(crate) fn tell(mut self, report: &mut Report) {
        report.rate_per_s = Some(self.build.rate_per_s());
        report.limit_per_s = Some(self.limit.rate_per_s());
        report.ratio = Some(self.build.rate_per_s() / self.limit.rate_per_s());
        self.ratios.sort_unstable_by(f64::total_cmp);
        let at = |part: f64| self.ratios[((self.ratios.len() - 1) as f64 * part) as usize];
        if !self.ratios.is_empty() {
            report.note(format!(
                "ratio of {} slices: median {:.3}, from {:.3} to {:.3}",
                self.ratios.len(),
                at(0.5),
                at(0.0),
                at(1.0)
            ));
        }
    }
}

/// Times of single answers.
#[derive(Clone, Debug, Default)]
pub(crate) struct Latencies(Vec<u64>);

impl Latencies {
    pub(crate) fn add(&mut self, took: Duration) {
        self.0
            .push(u64::try_from(took.as_nanos()).unwrap_or(u64::MAX));
    }

    /// The time within which `part` of the answers came, in milliseconds.
    pub(crate) fn percentile_ms(&mut self, part: f64) -> Option<f64> {
        self.0.sort_unstable();
        let last = self.0.len().checked_sub(1)?;
        Some(self.0[(last as f64 * part).round() as usize] as f64 / 1e6)
    }

    /// Writes the three percentiles of a report.
    pub(crate) fn tell(&mut self, report: &mut Report) {
        report.p50_ms = self.percentile_ms(0.5);
        report.p99_ms = self.percentile_ms(0.99);
        report.p999_ms = self.percentile_ms(0.999);
    }
}

/// Runs something and says how long it took.
pub(crate) fn timed<T>(work: impl FnOnce() -> T) -> (T, Duration) {
    let start = Instant::now();
    let result = work();
    (result, start.elapsed())
}

/// Processor time that this thread has used.
pub(crate) fn thread_cpu() -> Result<Duration> {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat")?;
    let nanos = text
        .split_whitespace()
        .next()
        .context("schedstat is empty")?;
    Ok(Duration::from_nanos(nanos.parse()?))
}

/// Processor time that this process has used, all its threads, ended ones included.
pub(crate) fn process_cpu() -> Result<Duration> {
    cpu_of("self")
}

/// The same of another process, by its number.
pub(crate) fn cpu_of(process: &str) -> Result<Duration> {
    let text = std::fs::read_to_string(format!("/proc/{process}/stat"))?;
    // The name in parentheses may hold spaces; user and system time are the 12th and 13th field behind it.
    let (_, fields) = text.rsplit_once(')').context("stat has no name")?;
    let ticks: u64 = fields
        .split_whitespace()
        .skip(11)
        .take(2)
        .map(str::parse::<u64>)
        .sum::<Result<u64, _>>()?;
    Ok(Duration::from_secs_f64(ticks as f64 / TICKS_PER_SECOND))
}

/// The memory that this process holds.
pub(crate) fn rss_bytes() -> Result<u64> {
    status_bytes("VmRSS:")
}

/// The most memory that this process has held.
pub(crate) fn peak_rss_bytes() -> Result<u64> {
    status_bytes("VmHWM:")
}

fn status_bytes(member: &str) -> Result<u64> {
    let text = std::fs::read_to_string("/proc/self/status")?;
    let line = text.lines().find_map(|line| line.strip_prefix(member));
    let kilobytes = line.and_then(|line| line.split_whitespace().next());
    let kilobytes: u64 = kilobytes.context("status has no such member")?.parse()?;
    Ok(kilobytes * 1024)
}

/// Microseconds for each of `count`.
pub(crate) fn micros_each(total: Duration, count: u64) -> Option<f64> {
    (count > 0).then(|| total.as_secs_f64() * 1e6 / count as f64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_are_those_of_the_sorted_times() {
        let mut latencies = Latencies::default();
        (0..=1_000)
            .rev()
            .for_each(|ms| latencies.add(Duration::from_millis(ms)));
        assert_eq!(latencies.percentile_ms(0.5), Some(500.0));
        assert_eq!(latencies.percentile_ms(0.99), Some(990.0));
        assert_eq!(latencies.percentile_ms(0.999), Some(999.0));
        assert_eq!(Latencies::default().percentile_ms(0.5), None);
    }

    #[test]
    fn a_race_compares_the_sums_and_names_the_spread() {
        let mut race = Race::default();
        race.round(100, Duration::from_secs(2), Duration::from_secs(1));
        race.round(100, Duration::from_secs(1), Duration::from_secs(1));
        let mut report = Report::default();
        race.tell(&mut report);
        assert_eq!(report.limit_per_s, Some(100.0));
        assert!((report.ratio.unwrap() - 2.0 / 3.0).abs() < 1e-9);
        assert_eq!(
            report.notes,
            ["ratio of 2 slices: median 0.500, from 0.500 to 1.000"]
        );
    }

    #[test]
    fn the_process_files_can_be_read() {
        assert!(rss_bytes().unwrap() > 0);
        assert!(peak_rss_bytes().unwrap() >= rss_bytes().unwrap() / 2);
        thread_cpu().unwrap();
        process_cpu().unwrap();
    }
}
