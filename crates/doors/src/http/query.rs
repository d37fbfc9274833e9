//! Query parameters: few, numeric, bounded.

use http::StatusCode;
use http::request::Parts;
use percent_encoding::percent_decode_str;

use super::reply::{Reply, problem};

/// The parameters of a request. Ones that a path does not know are ignored.
pub(crate) struct Query(Vec<(String, String)>);

/// Parameters of one request.
const AT_MOST: usize = 16;

impl Query {
    pub(crate) fn of(parts: &Parts) -> Result<Self, Reply> {
        let mut pairs = Vec::new();
        for pair in parts
            .uri
            .query()
            .unwrap_or_default()
            .split('&')
            .filter(|pair| !pair.is_empty())
        {
            let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
            let (Some(name), Some(value)) = (decoded(name), decoded(value)) else {
                return Err(bad("a query parameter is not UTF-8"));
            };
            if pairs.len() == AT_MOST || pairs.iter().any(|(known, _)| *known == name) {
                return Err(bad(
                    "a query parameter is given twice, or there are too many",
                ));
            }
            pairs.push((name, value));
        }
        Ok(Self(pairs))
    }

    /// A parameter as text.
    pub(crate) fn text(&self, name: &str) -> Option<&str> {
        self.0
            .iter()
            .find(|(known, _)| known == name)
            .map(|(_, value)| value.as_str())
    }

    /// A parameter that is a whole number.
    pub(crate) fn number(&self, name: &str) -> Result<Option<u64>, Reply> {
        let Some(text) = self.text(name) else {
            return Ok(None);
        };
        let is_plain = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
        match text.parse() {
            Ok(number) if is_plain => Ok(Some(number)),
            _ => Err(bad("a query parameter is not a whole number")),
        }
    }
}

fn decoded(text: &str) -> Option<String> {
    let text = text.replace('+', " ");
    percent_decode_str(&text)
        .decode_utf8()
        .ok()
        .map(std::borrow::Cow::into_owned)
}

fn bad(detail: &str) -> Reply {
    problem(StatusCode::BAD_REQUEST, detail)
}
