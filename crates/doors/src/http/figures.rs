//! Every figure that `GET /metrics` can show: what it counts, and by what. Help texts and `docs/metrics.md` are made
//! from this list.

use std::fmt::Write as _;

/// How a figure moves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Moves {
    /// It only grows.
    Counter,
    /// It goes up and down.
    Gauge,
}

impl Moves {
    /// The word of Prometheus.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Counter => "counter",
            Self::Gauge => "gauge",
        }
    }
}

/// A figure.
#[derive(Clone, Copy, Debug)]
pub struct Figure {
    /// Its name.
    pub name: &'static str,
    /// How it moves.
    pub moves: Moves,
    /// The names of its labels.
    pub labels: &'static [&'static str],
    /// What it tells.
    pub meaning: &'static str,
}

const fn figure(
    moves: Moves,
    name: &'static str,
    labels: &'static [&'static str],
    meaning: &'static str,
) -> Figure {
    Figure {
        name,
        moves,
        labels,
        meaning,
    }
}

/// All figures, by name. No label has a value that a stranger can choose.
pub static FIGURES: &[Figure] = &[
    figure(
        Moves::Counter,
        "chancery_agent_faults_total",
        &["agent", "code"],
        "Turns of hosted agents that failed, by the code of the behaviour.",
    ),
    figure(
        Moves::Counter,
        "chancery_agent_tokens_total",
        &["agent"],
        "Tokens of a language model that a hosted agent used.",
    ),
    figure(
        Moves::Counter,
        "chancery_agent_turns_total",
        &["agent", "outcome"],
        "Turns of hosted agents, by how they ended.",
    ),
    figure(
        Moves::Counter,
        "chancery_agh_envelopes_total",
        &["direction", "kind"],
        "AGH envelopes that were not rejected: sent, received, and delivered to inboxes here.",
    ),
    figure(
        Moves::Counter,
        "chancery_agh_nats_dropped_total",
        &["why"],
        "AGH envelopes from the broker that were lost: no room (full), no permit (busy), read too slowly (slow).",
    ),
    figure(
        Moves::Counter,
        "chancery_agh_nats_errors_total",
        &[],
        "Errors that the broker told.",
    ),
    figure(
        Moves::Counter,
        "chancery_agh_nats_unsaid_total",
        &[],
        "Soft AGH envelopes that did not reach the broker.",
    ),
    figure(
        Moves::Gauge,
        "chancery_agh_nats_up",
        &[],
        "1 while the broker is connected.",
    ),
    figure(
        Moves::Counter,
        "chancery_agh_ws_unsaid_total",
        &[],
        "Soft AGH envelopes for connected peers that were not written.",
    ),
    figure(
        Moves::Gauge,
        "chancery_bound_limit",
        &["bound"],
        "The most that a bound allows.",
    ),
    figure(
        Moves::Gauge,
        "chancery_bound_used",
        &["bound"],
        "How much of a bound is used.",
    ),
    figure(
        Moves::Gauge,
        "chancery_bus_up",
        &[],
        "1 while the bus that hands deliveries out is connected.",
    ),
    figure(
        Moves::Counter,
        "chancery_envelopes_total",
        &["protocol", "verdict", "reason"],
        "Envelopes by what became of them: accepted, duplicate, ignored or rejected. The reason is the protocol's own code, `none` where there is none.",
    ),
    figure(
        Moves::Counter,
        "chancery_events_total",
        &["event"],
        "Lines of events.jsonl, by the name of the event.",
    ),
    figure(
        Moves::Gauge,
        "chancery_log_lines",
        &[],
        "The number of the last line.",
    ),
    figure(
        Moves::Gauge,
        "chancery_outbox",
        &[],
        "Deliveries that are not settled yet.",
    ),
    figure(
        Moves::Gauge,
        "chancery_row_cache_bytes",
        &[],
        "Memory that the cache of rows takes.",
    ),
    figure(
        Moves::Counter,
        "chancery_spans_dropped_total",
        &["why"],
        "Spans that were lost: no room in the queue (full), or the collector did not take them (export).",
    ),
    figure(
        Moves::Counter,
        "chancery_spans_exported_total",
        &[],
        "Spans that the collector took.",
    ),
    figure(Moves::Gauge, "chancery_timers", &[], "Timers that wait."),
    figure(
        Moves::Counter,
        "chancery_warnings_total",
        &["warning"],
        "Envelopes that were accepted although something about them is odd.",
    ),
];

/// Gives every figure its help text in what the recorder renders.
pub(crate) fn describe() {
    for figure in FIGURES {
        match figure.moves {
            Moves::Counter => metrics::describe_counter!(figure.name, figure.meaning),
            Moves::Gauge => metrics::describe_gauge!(figure.name, figure.meaning),
        }
    }
}

/// The head of a figure that the recorder does not render.
pub(crate) fn write_head(name: &str, text: &mut String) {
    let Some(figure) = FIGURES.iter().find(|figure| figure.name == name) else {
        return;
    };
    // Writing to a string cannot fail.
    let _ = writeln!(text, "# HELP {name} {}", figure.meaning);
    let _ = writeln!(text, "# TYPE {name} {}", figure.moves.as_str());
}

/// The page `docs/metrics.md`.
#[must_use]
pub fn page() -> String {
    let mut page = String::from(
        "# Metrics\n\n`GET /metrics` shows them in the text format of Prometheus, to a token with `admin` or `read:log`.\n\
         A counter is there once it has counted. Reasons and codes are those of `chancery explain`.\n\n\
         | name | type | labels | meaning |\n|---|---|---|---|\n",
    );
    for figure in FIGURES {
        let labels: Vec<String> = figure
            .labels
            .iter()
            .map(|label| format!("`{label}`"))
            .collect();
        let _ = writeln!(
            page,
            "| `{}` | {} | {} | {} |",
            figure.name,
            figure.moves.as_str(),
            labels.join(", "),
            figure.meaning
        );
    }
    page
}
