//! Bodies: what each kind asks of the envelope around it and of what it says (chapters 6 to 11).

pub mod capability;
pub mod card;
mod report;

use chancery_core::fault;
use chancery_core::json::{Object, Value};

use crate::envelope::Envelope;
use crate::fault::{ErrorName, Fault, Stage};
use crate::grammar::is_blank;
use crate::kind::Kind;
use crate::revision::Revision;
use crate::settings::Settings;

pub use capability::Capability;
pub use card::Card;
pub use report::{ReceiptStatus, State};

/// A body that fits its kind.
#[derive(Clone, Debug)]
pub enum Content<'v> {
    /// `greet`
    Greet(Card<'v>),
    /// `whois` of type `request`
    Request {
        /// What is asked for.
        query: Option<&'v str>,
    },
    /// `whois` of type `response`
    Response(Card<'v>),
    /// `say` and `direct`
    Talk {
        /// What is said.
        text: &'v str,
    },
    /// `capability`
    Capability(Capability<'v>),
    /// `receipt`
    Receipt(ReceiptStatus),
    /// `trace`
    Trace(State),
}

/// Checks body and envelope against the kind.
pub fn check<'v>(
    envelope: &Envelope<'v>,
    kind: Kind,
    settings: &Settings,
) -> Result<Content<'v>, Fault> {
    check_target(envelope, kind)?;
    match kind {
        Kind::Greet => greet(envelope, settings),
        Kind::Whois => whois(envelope, settings),
        Kind::Say | Kind::Direct => talk(envelope.body),
        Kind::Capability => Ok(Content::Capability(Capability::check(envelope.body)?)),
        Kind::Receipt => report::receipt(envelope).map(Content::Receipt),
        Kind::Trace => report::trace(envelope.body).map(Content::Trace),
    }
}

/// What a kind asks of `to` and of the unit of work (chapter 6; of work in revision B, the conversation's check).
fn check_target(envelope: &Envelope<'_>, kind: Kind) -> Result<(), Fault> {
    let in_a = envelope.revision == Revision::A;
    let fault = |error, member| Err(Fault::new(error, Stage::Body).at(member));
    let directed = envelope.to.is_some();
    match kind {
        Kind::Greet if directed => fault(ErrorName::ToForbidden, "to"),
        Kind::Say if directed && in_a && !fault::on("ag-say-to-somebody") => {
            fault(ErrorName::ToForbidden, "to")
        }
        Kind::Direct if !directed => fault(ErrorName::ToRequired, "to"),
        Kind::Direct | Kind::Receipt | Kind::Trace if in_a && envelope.interaction_id.is_none() => {
            fault(ErrorName::InteractionIdRequired, "interaction_id")
        }
        // AG-CAP-4; and in revision B nothing else opens or continues work without a target (AG-B-21).
        Kind::Capability if !directed && envelope.work().is_some() => {
            fault(ErrorName::ToRequired, "to")
        }
        Kind::Say if !in_a && !directed && envelope.work().is_some() => {
            fault(ErrorName::ToRequired, "to")
        }
        _ => Ok(()),
    }
}

fn greet<'v>(envelope: &Envelope<'v>, settings: &Settings) -> Result<Content<'v>, Fault> {
    let card = Card::check(envelope, settings)?;
    text(envelope.body, "summary")?;
    Ok(Content::Greet(card))
}

fn whois<'v>(envelope: &Envelope<'v>, settings: &Settings) -> Result<Content<'v>, Fault> {
    let body = envelope.body;
    match required_text(body, "type")? {
        "request" => {
            if member(body, "peer_card").is_some() {
                return Err(Fault::body("body.peer_card"));
            }
            Ok(Content::Request {
                query: text(body, "query")?,
            })
        }
        "response" => {
            if envelope.reply_to.is_none() {
                return Err(Fault::new(ErrorName::ReplyToRequired, Stage::Body).at("reply_to"));
            }
            text(body, "query")?;
            Ok(Content::Response(Card::check(envelope, settings)?))
        }
        _ => Err(Fault::body("body.type")),
    }
}

fn talk<'v>(body: &'v Object<'v>) -> Result<Content<'v>, Fault> {
    let said = required_text(body, "text")?;
    text(body, "intent")?;
    array(body, "artifacts")?;
    Ok(Content::Talk { text: said })
}

/// A member of a body; null is absent (AG-KND-2).
fn member<'v>(object: &'v Object<'v>, name: &str) -> Option<&'v Value<'v>> {
    object.get(name).filter(|value| !value.is_null())
}

/// An optional text.
fn text<'v>(object: &'v Object<'v>, name: &'static str) -> Result<Option<&'v str>, Fault> {
    match member(object, name) {
        None => Ok(None),
        Some(Value::String(text)) => Ok(Some(text)),
        Some(_) => Err(Fault::body(format!("body.{name}"))),
    }
}

/// A text that must be there and not blank.
fn required_text<'v>(object: &'v Object<'v>, name: &'static str) -> Result<&'v str, Fault> {
    match text(object, name)? {
        Some(text) if !is_blank(text) => Ok(text),
        _ => Err(Fault::body(format!("body.{name}"))),
    }
}

/// An optional array of anything.
fn array<'v>(object: &'v Object<'v>, name: &'static str) -> Result<Option<&'v [Value<'v>]>, Fault> {
    match member(object, name) {
        None => Ok(None),
        Some(Value::Array(items)) => Ok(Some(items)),
        Some(_) => Err(Fault::body(format!("body.{name}"))),
    }
}
