//! The secret guard: what looks like a credential does not leave (AG-SND-4).

use chancery_core::json::{Object, Value};

use crate::fault::{ErrorName, Fault, Stage};

/// Names under which a value is a credential, without case and separators.
const KEYS: [&str; 15] = [
    "apikey",
    "accesstoken",
    "refreshtoken",
    "oauthcode",
    "authorizationcode",
    "codeverifier",
    "pkceverifier",
    "secretbinding",
    "mcpauthtoken",
    "clientsecret",
    "authorization",
    "password",
    "secret",
    "token",
    "claimtoken",
];

/// Longest name that can be one of them, separators included.
const KEY_CHARACTERS: usize = 64;

/// Refuses a body, proof or extension that holds an obvious credential.
pub fn check(
    body: &Object<'_>,
    proof: Option<&Object<'_>>,
    ext: Option<&Object<'_>>,
) -> Result<(), Fault> {
    let parts = [("body", Some(body)), ("proof", proof), ("ext", ext)];
    for (name, part) in parts {
        if part.is_some_and(object_has) {
            return Err(Fault::new(ErrorName::SecretFound, Stage::Body).at(name));
        }
    }
    Ok(())
}

fn object_has(object: &Object<'_>) -> bool {
    object
        .iter()
        .any(|(name, value)| (is_key(name) && is_something(value)) || value_has(value))
}

fn value_has(value: &Value<'_>) -> bool {
    match value {
        Value::String(text) => text_has(text),
        Value::Array(items) => items.iter().any(value_has),
        Value::Object(object) => object_has(object),
        _ => false,
    }
}

fn is_something(value: &Value<'_>) -> bool {
    match value {
        Value::Null => false,
        Value::String(text) => !text.trim().is_empty(),
        Value::Array(items) => !items.is_empty(),
        Value::Object(object) => !object.is_empty(),
        _ => true,
    }
}

/// Whether a name reads as one of the keys; one that speaks of a hash does not.
fn is_key(name: &str) -> bool {
    if name.len() > KEY_CHARACTERS {
        return false;
    }
    let folded: String = name
        .chars()
        .filter(|c| !matches!(c, '_' | '-' | '.'))
        .flat_map(char::to_lowercase)
        .collect();
    !folded.contains("hash") && KEYS.contains(&folded.as_str())
}

/// `Bearer <token>`, `agh_claim_<token>`, `<key> = value`.
fn text_has(text: &str) -> bool {
    let words: Vec<&str> = text.split_whitespace().collect();
    let bearer = words.windows(2).any(|pair| {
        let word = pair[0].trim_start_matches(|c: char| !c.is_ascii_alphanumeric());
        word.eq_ignore_ascii_case("bearer") && is_token(pair[1])
    });
    bearer || has_claim(text) || has_assignment(text)
}

/// Something that could be a token rather than the next word of a sentence.
fn is_token(word: &str) -> bool {
    let word = word.trim_matches(|c: char| !c.is_ascii_alphanumeric());
    word.len() >= 8 || word.contains(|c: char| c.is_ascii_digit())
}

fn has_claim(text: &str) -> bool {
    text.match_indices("agh_claim_").any(|(at, prefix)| {
        let rest = &text[at + prefix.len()..];
        rest.starts_with(|c: char| c.is_ascii_alphanumeric())
    })
}

fn has_assignment(text: &str) -> bool {
    text.match_indices('=').any(|(at, _)| {
        let name = text[..at].trim_end();
        let start = name
            .rfind(|c: char| !(c.is_alphanumeric() || matches!(c, '_' | '-' | '.')))
            .map_or(0, |index| {
                index + name[index..].chars().next().map_or(1, char::len_utf8)
            });
        let value = text[at + 1..].trim_start_matches([' ', '\t']);
        is_key(&name[start..]) && value.starts_with(|c: char| !c.is_whitespace() && c != '=')
    })
}
