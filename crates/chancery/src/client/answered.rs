//! What a node answered: whether it did what it was asked, and if not, why and what to do next.
//!
//! A refusal comes in the form of its protocol or as a problem of HTTP; each of them is read here. What has none of these
//! forms was not said by a node.

use reqwest::header::{HeaderMap, WWW_AUTHENTICATE};
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::commands::explain;
use crate::exit::Failure;
use crate::terminal::plain;

/// Who has codes of their own; the first that knows one says what to do about it.
const PROTOCOLS: [&str; 4] = ["value-context", "vibe", "vacant", "agh"];

/// What a node answered.
#[derive(Clone, Debug)]
pub(crate) struct Answered {
    /// Whose answer it is.
    pub(crate) by: String,
    /// The HTTP status.
    pub(crate) status: u16,
    /// What was told beside the body.
    pub(crate) headers: HeaderMap,
    /// The body as it came.
    pub(crate) body: Vec<u8>,
}

impl Answered {
    /// Whether the node did what it was asked.
    pub(crate) const fn is_yes(&self) -> bool {
        matches!(self.status, 200..=299)
    }

    /// The answer, when the node did what it was asked to do: `about` names that in an error.
    pub(crate) fn done(self, about: &str) -> Result<Self, Failure> {
        if self.is_yes() {
            // Objects, lists and lines of them; a page of a web server is neither.
            let first = self.body.iter().find(|byte| !byte.is_ascii_whitespace());
            return match first {
                None | Some(b'{' | b'[') => Ok(self),
                Some(_) => Err(self.not_of_a_node("no JSON")),
            };
        }
        // A proxy or the door itself may say nothing but a status.
        let told: Value = match self.body.is_empty() {
            true => Value::Null,
            false => self.value()?,
        };
        let reason = Reason::of(&told);
        let detail = plain(reason.detail.unwrap_or("no reason was given"));
        let failure = match (self.status, reason.code) {
            (404, None) => Failure::no(format!("{about}: the node knows no such thing")),
            (_, Some(code)) => Failure::no(format!("{about}: {detail} ({code})")),
            (status, None) => Failure::no(format!("{about}: {detail} ({status})")),
        };
        Err(match self.next(reason.code) {
            Some(next) => failure.next(next),
            None => failure,
        })
    }

    fn next(&self, code: Option<&str>) -> Option<String> {
        let known = |code| {
            let mut protocols = PROTOCOLS.into_iter();
            protocols.find_map(|protocol| explain::next_of(protocol, code))
        };
        match self.status {
            401 => Some("give a token: --token-file FILE, or CHANCERY_TOKEN".to_owned()),
            403 => self.scope().map(|scope| {
                format!(
                    "use a token with the scope {scope}: chancery token new NAME --scope {scope}"
                )
            }),
            503 => Some(
                code.and_then(known)
                    .unwrap_or("try again in a moment")
                    .to_owned(),
            ),
            _ => None,
        }
    }

    /// The scope that the path wants, as a node names it (RFC 6750, section 3).
    fn scope(&self) -> Option<&str> {
        let challenge = self.headers.get(WWW_AUTHENTICATE)?.to_str().ok()?;
        let (_, rest) = challenge.split_once("scope=\"")?;
        Some(rest.split_once('"')?.0)
    }

    /// The body as a value.
    pub(crate) fn value<T: DeserializeOwned>(&self) -> Result<T, Failure> {
        serde_json::from_slice(&self.body).map_err(|error| {
            let what = match serde_json::from_slice::<Value>(&self.body) {
                Ok(_) => error.to_string(),
                // Where in a page of a web server the reader stopped helps nobody.
                Err(_) => "no JSON".to_owned(),
            };
            self.not_of_a_node(&what)
        })
    }

    /// Somebody else answered.
    pub(crate) fn not_of_a_node(&self, what: &str) -> Failure {
        Failure::no(format!(
            "the answer of {} ({}) is not what a node says: {what}",
            self.by, self.status
        ))
        .next("is there a chancery node at that address?")
    }

    /// The body as a text without an end of line.
    pub(crate) fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).trim_end().to_owned()
    }

    /// Why the node refused, as it says so itself; none where what came back is not of a node.
    pub(crate) fn reason(&self) -> Option<String> {
        let told: Value = serde_json::from_slice(&self.body).ok()?;
        let detail = Reason::of(&told).detail;
        detail.map(|detail| plain(detail).into_owned())
    }
}

/// Why a node refused.
#[derive(Debug, Default, PartialEq, Eq)]
struct Reason<'t> {
    code: Option<&'t str>,
    detail: Option<&'t str>,
}

impl<'t> Reason<'t> {
    /// Reads a problem of HTTP, or a refusal of value-context, vibe, vacant or AGH.
    fn of(told: &'t Value) -> Self {
        let error = &told["error"];
        let texts = [
            (&told["code"], &told["detail"]),
            (&told["code"], &told["message"]),
            (&error["code"], &error["message"]),
            (&error["data"][0]["reason"], &error["message"]),
            (error, &told["reason_code"]),
        ];
        let read = texts.map(|(code, detail)| Self {
            code: code.as_str(),
            detail: detail.as_str(),
        });
        // JSON-RPC has a number beside the code, so the form that says most counts.
        let said = |reason: &Self| {
            usize::from(reason.code.is_some()) + usize::from(reason.detail.is_some())
        };
        let mut most = Self::default();
        for reason in read {
            if said(&reason) > said(&most) {
                most = reason;
            }
        }
        most
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answered(status: u16, body: &str) -> Answered {
        Answered {
            by: "http://127.0.0.1:1".to_owned(),
            status,
            headers: HeaderMap::new(),
            body: body.as_bytes().to_vec(),
        }
    }

    // CH-CLI-3, CH-CFG-4
    #[test]
    fn the_reason_of_a_refusal_is_told_in_whichever_form_it_comes() {
        let forms = [
            r#"{"type":"about:blank","detail":"so it is","code":"c"}"#,
            r#"{"code":"c","message":"so it is","param":null}"#,
            r#"{"status":"rejected","error":{"code":"c","message":"so it is"}}"#,
            r#"{"jsonrpc":"2.0","error":{"code":-32001,"message":"so it is","data":[{"reason":"c"}]}}"#,
            r#"{"verdict":"reject","error":"c","reason_code":"so it is"}"#,
        ];
        for form in forms {
            let failure = answered(409, form).done("it").unwrap_err();
            assert_eq!(failure.what, "it: so it is (c)", "{form}");
        }
        let bare = answered(503, "").done("it").unwrap_err();
        assert_eq!(bare.what, "it: no reason was given (503)");
    }

    // CH-CFG-4
    #[test]
    fn what_is_not_configured_is_not_tried_again() {
        let said = |body: &str| answered(503, body).done("it").unwrap_err().next.unwrap();
        let of_vibe = said(r#"{"code":"not_configured","message":"this node has no world"}"#);
        assert!(of_vibe.contains("[vibe] world"), "{of_vibe}");
        let of_vacant = said(r#"{"error":{"code":-31503,"data":[{"reason":"NOT_CONFIGURED"}]}}"#);
        assert!(of_vacant.contains("[[vacant.agent]]"), "{of_vacant}");
        assert!(said(r#"{"detail":"full"}"#).contains("in a moment"));
    }

    // CH-CLI-3
    #[test]
    fn a_page_of_a_web_server_is_not_what_a_node_says() {
        for status in [200, 404, 502] {
            let page = answered(status, "<html><h1>It works!</h1></html>");
            let failure = match page.clone().done("it") {
                Ok(page) => page.value::<Value>().unwrap_err(),
                Err(failure) => failure,
            };
            assert!(failure.what.contains("not what a node says"), "{failure}");
            assert!(failure.next.unwrap().contains("is there a chancery node"));
            assert_eq!(page.reason(), None);
        }
    }

    // CH-ID-2
    #[test]
    fn a_token_that_is_not_enough_is_told_the_scope_that_is() {
        let mut refused = answered(403, r#"{"detail":"the token does not allow this"}"#);
        let challenge = "Bearer error=\"insufficient_scope\", scope=\"read:log\"";
        let challenge = reqwest::header::HeaderValue::from_static(challenge);
        refused.headers.insert(WWW_AUTHENTICATE, challenge);
        let next = refused.clone().done("it").unwrap_err().next.unwrap();
        assert!(next.contains("--scope read:log"), "{next}");
        // Who is kept out for another reason needs no token.
        refused.headers.clear();
        assert_eq!(refused.done("it").unwrap_err().next, None);
    }
}
