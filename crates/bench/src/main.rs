//! Runs the benchmarks: `cargo run --release -p chancery-bench -- pipeline --seconds 5 [--json]`.
#![allow(clippy::print_stdout, reason = "a command says what it found")]

use std::time::Duration;

use anyhow::{Context, Result, bail};
use chancery_bench::{Bench, Options, helper, run};

/// As the program has it.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> Result<()> {
    let mut words = Vec::new();
    let mut options = Options {
        duration: Duration::from_secs(5),
        dir: std::env::temp_dir(),
        lines: None,
        database: None,
        lead: vec!["helper".to_owned()],
    };
    let mut json = false;
    let mut args = std::env::args().skip(1);
    while let Some(arg) = args.next() {
        let mut value = || args.next().with_context(|| format!("{arg} needs a value"));
        match arg.as_str() {
            "--json" => json = true,
            "--seconds" => options.duration = Duration::from_secs_f64(value()?.parse()?),
            "--dir" => options.dir = value()?.into(),
            "--database" => options.database = Some(value()?),
            "--lines" => options.lines = Some(value()?.parse()?),
            _ => words.push(arg),
        }
    }
    if words.first().is_some_and(|word| word == "helper") {
        return helper(&words[1..]);
    }
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let bench = match words[..] {
        ["pipeline"] => Bench::Pipeline,
        ["pipeline", "agh"] => Bench::AghValidation,
        ["pipeline", "vibe"] => Bench::Turns,
        ["store", "append"] => Bench::StoreAppend,
        ["store", "sustained"] => Bench::StoreSustained,
        ["replay"] => Bench::Replay,
        ["replay", "vibe"] => Bench::VibeReplay,
        ["http"] => Bench::Http,
        ["http", "vibe"] => Bench::HttpVibe,
        ["http", "vacant"] => Bench::HttpVacant,
        ["search"] => Bench::Search,
        ["ws"] => Bench::Ws,
        ["nats"] => Bench::Nats,
        ["postgres"] => Bench::Postgres,
        ["emergency"] => Bench::Emergency,
        ["memory"] => Bench::Memory,
        ["quick"] => Bench::Quick,
        _ => bail!(
            "which benchmark? pipeline, pipeline agh, pipeline vibe, store append, store sustained, replay, replay vibe, http, http vibe, http vacant, search, ws, nats, postgres, emergency, memory, quick"
        ),
    };
    for report in run(bench, &options)? {
        if json {
            println!("{}", report.to_json()?);
        } else {
            print!("{report}");
        }
    }
    Ok(())
}
