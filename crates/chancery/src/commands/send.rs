//! `chancery send`: signs where a key is given, posts, prints the answer.

use std::io::Write as _;
use std::path::PathBuf;

use bytes::Bytes;
use chancery_core::ids::Uuid7Sequence;
use chancery_core::json::{self, Object, ReadRules, Value};
use chancery_core::keys::ed25519::SigningKey;
use chancery_core::protocol::{Door, Protocol as _};
use chancery_core::time::{Time, format_millis};
use chancery_node::Clock;
use chancery_node::suite::Chancery;
use chancery_value_context::code::Code;
use chancery_value_context::message::VERSION;
use chancery_value_context::settings::Settings;
use chancery_value_context::sign::seal;
use serde::Deserialize;

use super::{agh_send, explain, vacant, vibe};
use crate::client::{self, Answered, NodeArgs};
use crate::config::{Flags, Sources};
use crate::exit::{Exit, Failed, Failure, Outcome};
use crate::input;
use crate::secret_file;
use crate::terminal::Terminal;

/// The path that envelopes come in by.
pub(crate) const MESSAGES: [&str; 3] = [".well-known", "vcp", "messages"];

/// What `send` is asked.
#[derive(Debug, clap::Args)]
pub(crate) struct SendArgs {
    /// Whose envelope it is
    #[arg(value_parser = ["value-context", "vibe", "vacant", "agh"])]
    protocol: String,
    /// The envelope; - for standard input
    file: PathBuf,
    /// Key file to sign with; what the protocol asks of a sender is added where it is missing
    #[arg(long, value_name = "FILE")]
    key: Option<PathBuf>,
    #[command(flatten)]
    node: NodeArgs,
}

/// Sends an envelope.
pub(crate) fn run(
    args: &SendArgs,
    sources: &dyn Fn(Flags) -> Sources,
    terminal: &mut Terminal,
) -> Outcome {
    let text = input::read(&args.file)?;
    let key = args.key.as_deref();
    match args.protocol.as_str() {
        "vibe" if key.is_some() => Err(Failure::usage("envelopes of vibe are not signed here")
            .next("leave --key out; a signature that is in the file is sent as it stands")
            .into()),
        "vibe" => {
            let node = args.node.client(sources)?;
            client::block_on(vibe::send(&node, text.into()))?.tell(terminal)
        }
        "vacant" => vacant::send::run(&text, key, &args.node.client(sources)?, terminal),
        "agh" => agh_send::run(&text, key, &args.node.client(sources)?, terminal),
        _ => send_value_context(args, text, sources, terminal),
    }
}

fn send_value_context(
    args: &SendArgs,
    text: Vec<u8>,
    sources: &dyn Fn(Flags) -> Sources,
    terminal: &mut Terminal,
) -> Outcome {
    let envelope: Bytes = match &args.key {
        Some(path) => {
            let key = secret_file::read_key(path)?;
            let whole = completed(&text, Clock::System.now())
                .map_err(|what| Failure::no(format!("{}: {what}", input::name(&args.file))))?;
            seal(whole, &key).bytes
        }
        None => text.into(),
    };
    let node = args.node.client(sources)?;
    let answered = client::block_on(node.post(&MESSAGES, envelope.clone()))?;
    if terminal.json {
        writeln!(terminal.out, "{}", answered.text())?;
    } else {
        tell(&answered, &envelope, args.key.is_some(), terminal)?;
    }
    Ok(if answered.is_yes() {
        Exit::Done
    } else {
        Exit::No
    })
}

/// The envelope with what the caller left to us (VX-ID-1, VX-TS-3).
pub(crate) fn completed(text: &[u8], now: Time) -> Result<Object<'_>, String> {
    let rules = ReadRules {
        max_bytes: usize::MAX,
        ..ReadRules::VALUE_CONTEXT
    };
    let value = json::read(text, &rules).map_err(|fault| fault.to_string())?;
    let Value::Object(mut envelope) = value else {
        return Err("an envelope is a JSON object".to_owned());
    };
    if !envelope.contains("vcp_message") {
        envelope.insert("vcp_message", VERSION);
    }
    if !envelope.contains("message_id") {
        let entropy = secret_file::random::<10>().map_err(|failure| failure.what)?;
        let unix_ms = u64::try_from(now.unix_millis()).unwrap_or_default();
        let id = Uuid7Sequence::new().next(unix_ms, *entropy);
        envelope.insert("message_id", id.hyphenated().to_string());
    }
    if !envelope.contains("timestamp") {
        envelope.insert("timestamp", format_millis(now).as_str().to_owned());
    }
    Ok(envelope)
}

/// An envelope of these members, complete and signed.
pub(crate) fn signed(text: &str, key: &SigningKey, now: Time) -> Result<Bytes, String> {
    Ok(seal(completed(text.as_bytes(), now)?, key).bytes)
}

#[derive(Deserialize)]
struct Told {
    status: String,
    message_id: Option<String>,
    error: Option<Refused>,
}

#[derive(Deserialize)]
struct Refused {
    code: String,
    message: String,
    path: Option<String>,
    retryable: bool,
    would_verify_as: Option<String>,
    first_difference_at: Option<u64>,
}

fn tell(
    answered: &Answered,
    envelope: &Bytes,
    is_completed: bool,
    terminal: &mut Terminal,
) -> Result<(), Failed> {
    let told: Told = answered.value()?;
    let id = told.message_id.as_deref().unwrap_or("without message_id");
    let Some(refused) = told.error else {
        let status = terminal.good(&told.status);
        writeln!(terminal.out, "{status}  {id}")?;
        return Ok(());
    };
    let status = terminal.bad(&told.status);
    writeln!(terminal.out, "{status}  {id}")?;
    writeln!(
        terminal.out,
        "  reason       {}: {}",
        refused.code, refused.message
    )?;
    let (check, requirement) = found_by(&refused.code, envelope);
    let verifies_as = signature_in_words(
        refused.would_verify_as.as_deref(),
        refused.first_difference_at,
    );
    let next = match explain::next_of("value-context", &refused.code) {
        _ if !is_completed && is_left_out(refused.path.as_deref(), envelope) => WITH_A_KEY,
        known => known.unwrap_or_default(),
    };
    let lines = [
        ("check", check),
        ("path", refused.path.as_deref()),
        ("requirement", requirement),
        ("verifies as", verifies_as.as_deref()),
        (
            "try again",
            refused.retryable.then_some("it may be taken later"),
        ),
        ("next", Some(next)),
    ];
    for (name, text) in lines {
        if let Some(text) = text.filter(|text| !text.is_empty()) {
            writeln!(terminal.out, "  {name:<12} {text}")?;
        }
    }
    Ok(())
}

const WITH_A_KEY: &str =
    "Give --key FILE: it adds what is missing of vcp_message, message_id and timestamp, and signs.";

/// Whether what is missing is something that we add for whoever gives a key.
fn is_left_out(path: Option<&str>, envelope: &[u8]) -> bool {
    let added = ["vcp_message", "message_id", "timestamp", "signature"];
    let name = path.and_then(|path| path.strip_prefix('/'));
    let Some(name) = name.filter(|name| added.contains(name)) else {
        return false;
    };
    let read = serde_json::from_slice::<serde_json::Value>(envelope);
    read.is_ok_and(|envelope| envelope.get(name).is_none())
}

/// In which other way a signature would verify, and where the bytes first differ.
pub(crate) fn signature_in_words(way: Option<&str>, difference: Option<u64>) -> Option<String> {
    let way = way?;
    Some(match difference {
        Some(at) => format!("{way}, first difference at byte {at}"),
        None => way.to_owned(),
    })
}

/// The check that failed and its requirement. The answer names neither: what this build finds in the same bytes is
/// closest, else the code alone tells.
fn found_by(code: &str, envelope: &Bytes) -> (Option<&'static str>, Option<&'static str>) {
    let suite = Chancery::default();
    let here = suite
        .value_context()
        .decode(envelope.clone(), Door::Http, &Settings::default());
    if let Err(refusal) = here
        && refusal.code == code
    {
        return (Some(refusal.check), Some(refusal.requirement));
    }
    let known = Code::ALL.into_iter().find(|known| known.as_str() == code);
    (known.and_then(check_of), known.map(Code::requirement))
}

/// The check of the pipeline that gives a code.
const fn check_of(code: Code) -> Option<&'static str> {
    Some(match code {
        Code::MalformedJson => "parse",
        Code::SchemaInvalid
        | Code::UnsupportedVersion
        | Code::ContextInvalid
        | Code::ConstraintInvalid => "schema",
        Code::TimestampStale | Code::TimestampFuture => "temporal",
        Code::SignatureMissing
        | Code::SignatureInvalid
        | Code::KeyNotValid
        | Code::SenderUnknown => "signature",
        Code::NotAuthorized | Code::SenderSuspended => "direction",
        Code::RecipientUnknown => "recipient",
        Code::RateLimited | Code::Overloaded => "capacity",
        Code::NotFound
        | Code::MethodNotAllowed
        | Code::Timeout
        | Code::PayloadTooLarge
        | Code::UnsupportedMediaType => "transport",
        Code::Internal | Code::TypeDisabled => return None,
    })
}
