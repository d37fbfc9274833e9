//! Cases about identifiers, references and contexts.

use super::{Run, expect};
use crate::context::{self, Context, Dimension};
use crate::message::{DEFAULT_MAX_BYTES, read_json};
use crate::message_id::MessageId;
use crate::personal_state::PersonalState;
use chancery_core::conformance::{Case, into_texts};
use chancery_core::json::Place;
use std::collections::BTreeMap;

/// The fields of a version 7 UUID to its text.
pub(super) fn uuid7(case: &mut Case, run: &Run<'_>) -> Result<(), String> {
    let unix_ms = case.number("unix_ms")?;
    let rand_a = u16::try_from(case.number("rand_a")?).map_err(|error| error.to_string())?;
    let rand_b = u64::from_be_bytes(case.array("rand_b_hex")?);
    let text = case.text("uuid")?;
    expect(
        "uuid",
        run.subject.uuid7(unix_ms, rand_a, rand_b),
        text.clone(),
    )?;
    let read_back = MessageId::parse(&text).map(|id| id.to_string());
    expect("uuid read back", read_back, Some(text))
}

/// A constitution reference and its parts.
pub(super) fn creed_uri(case: &mut Case, run: &Run<'_>) -> Result<(), String> {
    let uri = case.text("uri")?;
    let parsed = run.subject.creed(&uri);
    expect("valid", parsed.is_ok(), case.bool("valid")?)?;
    let Ok(creed) = parsed else { return Ok(()) };
    expect("issuer", creed.issuer, &case.text("issuer")?)?;
    expect("path", creed.path, &case.text("path")?)?;
    expect(
        "version",
        creed.version,
        case.text_or_null("version")?.as_deref(),
    )
}

/// A context string, its parts, canonical form and flags.
pub(super) fn context_string(case: &mut Case, run: &Run<'_>) -> Result<(), String> {
    let text = case.text("context")?;
    expect("code_points", code_points(&text), case.text("code_points")?)?;
    let parsed = run.subject.parse_context(&text);
    let valid = case.bool("valid")?;
    expect("valid", parsed.is_ok(), valid)?;
    expect(
        "valid for the check",
        run.subject.validate_context(&text).is_ok(),
        valid,
    )?;
    match parsed {
        Ok(context) => check_parts(case, &context, run),
        Err(_) => Ok(()),
    }
}

fn check_parts(case: &mut Case, context: &Context<'_>, run: &Run<'_>) -> Result<(), String> {
    let expected = case
        .object("dims")?
        .into_iter()
        .map(|(name, values)| Ok((name.clone(), into_texts(values, &name)?)))
        .collect::<Result<BTreeMap<_, _>, String>>()?;
    expect("dims", dimensions_of(context), expected)?;
    expect(
        "extensions",
        owned(context.opaque_segments()),
        case.texts("extensions")?,
    )?;
    let band = case.text_or_null("personal_band")?;
    expect("personal_band", context.personal_band(), band.as_deref())?;
    let unknown = case.texts("unknown_values")?;
    expect("unknown_values", owned(context.unknown_values()), unknown)?;
    let canonical = context.canonical();
    expect("canonical", &canonical, &case.text("canonical")?)?;
    let again = run
        .subject
        .parse_context(&canonical)
        .map(|again| again.canonical());
    expect(
        "canonical form of the canonical form",
        again.as_ref(),
        Ok(&canonical),
    )?;
    expect(
        "has_emergency",
        context.has_emergency(),
        case.bool("has_emergency")?,
    )?;
    expect(
        "has_children",
        context.has_children(),
        case.bool("has_children")?,
    )?;
    expect(
        "is_professional",
        context.is_professional(),
        case.bool("is_professional")?,
    )?;
    expect(
        "risk_level",
        context.risk_level().as_str(),
        &case.text("risk_level")?,
    )
}

/// Two contexts and the weight of the change between them.
pub(super) fn context_transition(case: &mut Case, run: &Run<'_>) -> Result<(), String> {
    let (from, to) = (case.text("from")?, case.text("to")?);
    let parse = |text| {
        run.subject
            .parse_context(text)
            .map_err(|fault| fault.to_string())
    };
    let change = context::change(&parse(&from)?, &parse(&to)?);
    let severity = change.as_ref().map(|change| change.severity.as_str());
    expect(
        "severity",
        severity,
        case.text_or_null("severity")?.as_deref(),
    )?;
    let changed: Vec<String> = change
        .iter()
        .flat_map(|change| &change.dimensions)
        .map(|dimension| dimension.name().to_owned())
        .collect();
    expect("changed", changed, case.texts("changed")?)
}

/// A personal state and the values of STATE that follow from it.
pub(super) fn state_mapping(case: &mut Case, _: &Run<'_>) -> Result<(), String> {
    let text = case.take("personal_state")?.to_string();
    let value = read_json(text.as_bytes(), DEFAULT_MAX_BYTES).map_err(|fault| fault.to_string())?;
    let state = PersonalState::read(&value, &Place::ROOT).map_err(|fault| fault.to_string())?;
    expect(
        "state_values",
        owned(&state.state_values()),
        case.texts("state_values")?,
    )
}

fn code_points(text: &str) -> String {
    let points: Vec<String> = text
        .chars()
        .map(|c| format!("{:X}", u32::from(c)))
        .collect();
    points.join(" ")
}

fn dimensions_of(context: &Context<'_>) -> BTreeMap<String, Vec<String>> {
    Dimension::ALL
        .into_iter()
        .map(|dimension| (dimension, context.values(dimension)))
        .filter(|(_, values)| !values.is_empty())
        .map(|(dimension, values)| {
            let texts = values.iter().map(|value| value.text.to_owned()).collect();
            (dimension.name().to_owned(), texts)
        })
        .collect()
}

fn owned(texts: &[&str]) -> Vec<String> {
    texts.iter().map(|text| (*text).to_owned()).collect()
}
