//! Reputation: updates to means, variances and scores, within 1e-9.

use chancery_core::json::Value;

use super::{Case, File};
use crate::reputation::{Attestation, Dimension, Reputation, Weights, call_score};

const TOLERANCE: f64 = 1e-9;

/// Updates give everything that is computed from them.
pub(super) fn ucb(case: &mut Case, _: &mut File) -> Result<(), String> {
    let mut reputation = Reputation::default();
    for mut update in case.cases("updates")? {
        let dim = dimension(&update.text("dim")?)?;
        let (signal, weight) = (update.float("signal")?, update.float("weight")?);
        let at = update.float("at")?;
        update.finish()?;
        let updated = reputation.update(dim, signal, weight, at);
        updated.map_err(|error| error.to_string())?;
    }
    let known = case.number("n_global")?;
    let weights = match case.take("weights")? {
        Value::Null => Weights::default(),
        weights => weights_of(Case::of(weights)?)?,
    };
    let level = Attestation::parse(&case.text("level")?).ok_or("no such level")?;
    let stake = case.float("stake")?;
    of_each(case, "means", |dim| reputation.of(dim).mean())?;
    of_each(case, "variances", |dim| reputation.of(dim).variance())?;
    of_each(case, "n_effs", |dim| reputation.of(dim).n)?;
    near(
        "mean",
        reputation.mean(&Dimension::ALL),
        case.float("mean_score_all_dims")?,
    )?;
    let score = reputation.ucb(&weights, known);
    near("ucb_score", score, case.float("ucb_score")?)?;
    let call = call_score(score, stake, level, 0.0);
    near("call_score", call, case.float("call_score")?)
}

fn weights_of(weights: Case) -> Result<Weights, String> {
    let mut given = Vec::new();
    for (name, weight) in weights.into_members() {
        let weight = weight.as_number().ok_or("a weight is no number")?;
        given.push((dimension(&name)?, weight.as_f64()));
    }
    Weights::new(given).map_err(|error| error.to_string())
}

fn of_each(case: &mut Case, what: &str, found: impl Fn(Dimension) -> f64) -> Result<(), String> {
    let mut expected = case.object(what)?;
    for dim in Dimension::ALL {
        near(what, found(dim), expected.float(dim.as_str())?)?;
    }
    expected.finish()
}

fn near(what: &str, found: f64, expected: f64) -> Result<(), String> {
    if (found - expected).abs() <= TOLERANCE {
        return Ok(());
    }
    Err(format!("{what} is {found}, expected {expected}"))
}

fn dimension(name: &str) -> Result<Dimension, String> {
    Dimension::parse(name).ok_or_else(|| format!("no dimension is called {name}"))
}
