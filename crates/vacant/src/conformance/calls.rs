//! Dispatch: whom a search's matches and their scores make the one to call.

use chancery_core::digest::hex;
use chancery_core::json::Value;

use super::{Case, File, expect};
use crate::card::CapabilityCard;
use crate::dispatch::{SearchArgs, check_target, choose};
use crate::error::ProtocolError;
use crate::id::VacantId;
use crate::reputation::{Dimension, Oracle};

/// The scores that a case gives to its matches.
struct Scores(Vec<(VacantId, f64)>);

impl Oracle for Scores {
    fn score(&self, vacant: &VacantId, _: &[Dimension]) -> f64 {
        let found = self.0.iter().find(|(id, _)| id == vacant);
        found.map_or(0.0, |(_, score)| *score)
    }
}

/// Matches and scores give the endpoint that is called, or an error.
pub(super) fn dispatch(case: &mut Case, _: &mut File) -> Result<(), String> {
    let mut args = case.object("search_args")?;
    let query = args.text("query")?;
    let wanted = SearchArgs::new(&query);
    expect(
        "include_local",
        wanted.include_local,
        args.bool("include_local")?,
    )?;
    expect("limit", wanted.limit as u64, args.number("limit")?)?;
    args.finish()?;
    let mut scores = Scores(Vec::new());
    let mut matches = Vec::new();
    for found in case.cases("matches")? {
        matches.push(read_match(found, &mut scores)?);
    }
    let oracle = case.bool("oracle")?.then_some(&scores as &dyn Oracle);
    let found = matches
        .into_iter()
        .collect::<Result<Vec<_>, _>>()
        .and_then(|matches| {
            let card = choose(&matches, oracle)?;
            check_target(card).map(str::to_owned)
        });
    let mut expected = case.object("expect")?;
    match expected.optional_text("error")? {
        Some(error) => {
            let found = found.err().map(|error| error.type_name().to_owned());
            expect("error", found, Some(error))?;
        }
        None => expect(
            "endpoint",
            found.map_err(|error| error.to_string())?,
            expected.text("winner_endpoint")?,
        )?,
    }
    expected.finish()
}

/// A match: its card, or why its blob is none. The id and the endpoint beside it repeat what the card says.
fn read_match(
    mut found: Case,
    scores: &mut Scores,
) -> Result<Result<Option<CapabilityCard>, ProtocolError>, String> {
    let id = found.text("vacant_id")?;
    let endpoint = found.optional_text("endpoint")?;
    let score = match found.take("score")? {
        Value::Number(number) => number.as_f64(),
        Value::String(word) if word == "NaN" => f64::NAN,
        _ => return Err("a score is no number".to_owned()),
    };
    let id = VacantId::from_hex(&id).map_err(|error| error.to_string())?;
    scores.0.push((id, score));
    let blob = found.optional_text("card_blob_hex")?;
    found.finish()?;
    let Some(blob) = blob else {
        return Ok(Ok(None));
    };
    let blob = hex::decode(&blob).map_err(|error| error.to_string())?;
    let card = CapabilityCard::deserialize(&blob);
    if let Ok(card) = &card {
        expect("id of the card", card.vacant_id, id)?;
        expect("endpoint of the card", &card.endpoint, &endpoint)?;
    }
    Ok(card.map(Some))
}
