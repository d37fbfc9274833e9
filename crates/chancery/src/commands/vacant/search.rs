//! `chancery vacant search`: asks a registry, and trusts none of its cards unseen (VA-REG-5, VA-REG-7).

use chancery_core::digest::hex;
use chancery_vacant::card::CapabilityCard;
use serde_json::json;

use super::abroad::{self, NamedBy};
use crate::client::block_on;
use crate::exit::{Exit, Failure, Outcome};
use crate::terminal::Terminal;

/// What `search` takes.
#[derive(Debug, clap::Args)]
pub(crate) struct SearchArgs {
    /// The registry
    url: String,
    /// A text that the declared capabilities contain
    query: String,
    /// How many, at most
    #[arg(long, default_value_t = 20, value_parser = clap::value_parser!(u16).range(1..=100))]
    limit: u16,
}

/// Tells the matches whose cards verify.
pub(crate) fn run(args: &SearchArgs, terminal: &mut Terminal) -> Outcome {
    let cards = block_on(cards(&args.url, &args.query, args.limit.into()))?;
    if terminal.json {
        for card in &cards {
            terminal.json_line(&json!({
                "vacant_id": card.vacant_id.hex(), "capability": card.capability_text,
                "endpoint": card.endpoint,
            }))?;
        }
    } else {
        let rows = cards.iter().map(|card| {
            let endpoint = card.endpoint.clone().unwrap_or_default();
            [card.vacant_id.hex(), card.capability_text.clone(), endpoint]
        });
        terminal.table(["vacant", "capability", "endpoint"], rows)?;
    }
    Ok(if cards.is_empty() {
        Exit::No
    } else {
        Exit::Done
    })
}

/// The cards that a registry names and that verify, in its order.
pub(super) async fn cards(
    registry: &str,
    query: &str,
    limit: usize,
) -> Result<Vec<CapabilityCard>, Failure> {
    let blobs = ask(registry, query, limit).await?;
    let blobs = blobs.iter().filter_map(|blob| hex::decode(blob).ok());
    let cards = blobs.filter_map(|blob| CapabilityCard::deserialize(&blob).ok());
    Ok(cards.filter(CapabilityCard::verify).collect())
}

async fn ask(registry: &str, query: &str, limit: usize) -> Result<Vec<String>, Failure> {
    let mut url = abroad::parse(registry)?;
    let http = abroad::client(&url, NamedBy::User).await?;
    let limit = limit.to_string();
    url.set_path("/v1/query_capability");
    url.query_pairs_mut()
        .append_pair("capability", query)
        .append_pair("limit", &limit);
    let answer = abroad::read(&url, http.post(url.clone()).send().await).await?;
    let (answer, name) = if answer.status == 404 {
        // Another registry has the other form alone.
        url.set_path("/v1/search_capability");
        url.query_pairs_mut()
            .clear()
            .append_pair("q", query)
            .append_pair("limit", &limit)
            .append_pair("include_local", "false");
        let answer = abroad::read(&url, http.get(url.clone()).send().await).await?;
        (answer, "capability_card")
    } else {
        (answer, "capability_card_blob_hex")
    };
    if answer.status != 200 {
        return Err(answer.failure());
    }
    let body = answer.json()?;
    let matches = body.get("matches").unwrap_or(&body).as_array();
    let blobs = matches.into_iter().flatten();
    Ok(blobs
        .filter_map(|found| found[name].as_str().map(str::to_owned))
        .collect())
}
