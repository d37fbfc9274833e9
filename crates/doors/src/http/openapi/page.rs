//! The paths as a page: `docs/endpoints.md`.

use super::super::access::Rule;
use super::super::table::{Route, routes};
use super::operations::Operation;
use super::{scope, tag};

const HEAD: &str = "\
# Paths

Written by `chancery schema openapi --markdown`. Bodies, answers and refusals are in [`openapi.json`](openapi.json), which a node
also gives at `GET /openapi.json`.

With `dev = true` no path needs a token. A `{name}` is one percent-encoded segment. What `/agents/{vacant}/…` says of a vacant, the same
path without it says of the default one.
";

/// The groups in the order of the page.
const GROUPS: [&str; 6] = [
    "value-context",
    "vibe",
    "vacant",
    "agh",
    "administration",
    "operations",
];

/// All paths with what they do and what they need, as Markdown.
pub fn page() -> String {
    let mut page = HEAD.to_owned();
    for group in GROUPS {
        page.push_str(&format!(
            "\n## {group}\n\n| path | does | needs | asks |\n|---|---|---|---|\n"
        ));
        let of_group = routes().iter().filter(|route| tag(route.path) == group);
        page.extend(of_group.map(row));
    }
    page
}

fn row(route: &Route) -> String {
    let query = Operation::of(route).map_or(&[][..], |operation| operation.query);
    let query: Vec<String> = query.iter().map(|name| format!("`{name}`")).collect();
    format!(
        "| `{} {}` | {} | {} | {} |\n",
        route.method,
        route.path,
        route.what,
        need(route.rule),
        query.join(", "),
    )
}

/// What a caller has to bring.
fn need(rule: Rule) -> String {
    match rule {
        Rule::Public => String::new(),
        Rule::Signed(_) => "what the protocol asks of a sender".to_owned(),
        Rule::Principal(_) => "a token in force".to_owned(),
        Rule::DevOnly => "`dev = true`".to_owned(),
        Rule::Token(_) => format!("a token with {}", scope(rule).unwrap_or_default()),
    }
}
