//! `chancery market`: rule-based buyers and merchants trade on a node of their own, the same way for the same seed.

use std::io::Write as _;
use std::num::NonZeroUsize;
use std::path::PathBuf;

use chancery_agents::market::{Report, Size, hold};
use serde_json::json;

use crate::exit::{Exit, Failure, Outcome};
use crate::secret_file;
use crate::terminal::{Progress, Terminal};

/// What `market` is asked.
#[derive(Debug, clap::Args)]
pub(crate) struct MarketArgs {
    /// Consumers, each with a buyer's agent
    #[arg(long, default_value_t = 10, value_parser = clap::value_parser!(u64).range(1..=10_000))]
    buyers: u64,
    /// Merchants, each with an agent
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u64).range(1..=10_000))]
    merchants: u64,
    /// Wishes in all
    #[arg(long, default_value_t = 100, value_parser = clap::value_parser!(u64).range(1..=1_000_000))]
    deals: u64,
    /// What everything follows from: the same seed gives the same log
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Leave the log in a new directory, which is then the data directory of a node
    #[arg(long, value_name = "DIR")]
    keep: Option<PathBuf>,
    /// Threads that decide turns side by side; the log does not depend on it [default: all cores]
    #[arg(long, value_name = "N")]
    threads: Option<NonZeroUsize>,
}

/// Runs `market`.
pub(crate) fn run(args: &MarketArgs, terminal: &mut Terminal) -> Outcome {
    if let Some(dir) = &args.keep {
        if dir.exists() {
            return Err(secret_file::exists(dir).into());
        }
        secret_file::make_private_folder(dir)?;
    }
    let size = Size {
        buyers: args.buyers,
        merchants: args.merchants,
        deals: args.deals,
        seed: args.seed,
    };
    let cores = std::thread::available_parallelism().map_or(1, NonZeroUsize::get);
    let threads = args.threads.map_or(cores, NonZeroUsize::get);
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .map_err(|error| Failure::damaged(format!("cannot start: {error}")))?;
    let mut progress = Progress::of_steps(args.deals, terminal);
    let mut shown = 0;
    let held = hold(size, threads, args.keep.as_deref(), |ended| {
        progress.advance(ended.saturating_sub(shown));
        shown = ended;
    });
    let report = runtime.block_on(held);
    progress.finish();
    let report = report.map_err(|error| Failure::damaged(error.to_string()))?;
    show(&report, args, terminal)?;
    let kept_limits = report.below_floor == 0 && report.above_budget == 0;
    Ok(if kept_limits { Exit::Done } else { Exit::No })
}

fn show(
    report: &Report,
    args: &MarketArgs,
    terminal: &mut Terminal,
) -> Result<(), crate::exit::Failed> {
    let seconds = report.elapsed.as_secs_f64();
    if terminal.json {
        let mut told = json!(report);
        told["seconds"] = json!(seconds);
        return terminal.json_line(&told);
    }
    let percent = report.settled * 100 / report.deals.max(1);
    let rows = [
        (
            "deals",
            format!(
                "{} of {} settled ({percent} %)",
                report.settled, report.deals
            ),
        ),
        (
            "prices",
            format!(
                "{} % of list on average; {} below floor, {} above budget",
                report.percent_of_list, report.below_floor, report.above_budget
            ),
        ),
        (
            "turnover",
            format!(
                "{}, of which {} refunded",
                money(report.turnover),
                money(report.refunded)
            ),
        ),
        ("refused by people", report.rejected_by_people.to_string()),
        ("rejected by agents", report.rejected_by_agents.to_string()),
        (
            "disputes",
            format!(
                "{} for the buyer, {} for the merchant",
                report.rulings_for_buyers, report.rulings_for_merchants
            ),
        ),
        ("turns", listed(&report.turns)),
        ("refusals", listed(&report.refusals)),
        ("log", format!("{} lines in {seconds:.1} s", report.lines)),
    ];
    terminal.table(
        ["market", ""],
        rows.into_iter()
            .map(|(name, value)| [name.to_owned(), value]),
    )?;
    if let Some(dir) = &args.keep {
        let dir = dir.display();
        writeln!(terminal.out, "\nCheck it with: chancery log replay {dir}")?;
    }
    Ok(())
}

fn money(minor: u64) -> String {
    format!("{}.{:02} USD", minor / 100, minor % 100)
}

fn listed(counts: &std::collections::BTreeMap<&'static str, u64>) -> String {
    if counts.is_empty() {
        return "none".to_owned();
    }
    let each = counts.iter().map(|(name, count)| format!("{count} {name}"));
    each.collect::<Vec<_>>().join(", ")
}
