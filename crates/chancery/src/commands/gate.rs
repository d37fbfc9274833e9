//! The human gate: purchases that wait for a person, and the person's word (VC-GATE-1, VC-GATE-5).

use std::io::Write as _;

use serde::Deserialize;
use serde_json::{Value, json};

use super::vibe;
use crate::client::{self, Answered, NodeArgs, NodeClient};
use crate::config::{Flags, Sources};
use crate::exit::{Exit, Failure, Outcome};
use crate::terminal::Terminal;

/// What `approvals` is asked.
#[derive(Debug, clap::Args)]
pub(crate) struct ApprovalsArgs {
    #[command(flatten)]
    node: NodeArgs,
}

/// What `approve` is asked.
#[derive(Debug, clap::Args)]
pub(crate) struct ApproveArgs {
    /// The certificate, as chancery approvals shows it
    cert: String,
    /// A word to go with it
    #[arg(long)]
    note: Option<String>,
    #[command(flatten)]
    node: NodeArgs,
}

/// What `reject` is asked.
#[derive(Debug, clap::Args)]
pub(crate) struct RejectArgs {
    /// The certificate
    cert: String,
    /// Why not
    #[arg(long)]
    reason: String,
    /// Its session, when the purchase was approved before and is not listed any more
    #[arg(long, value_name = "ID")]
    session: Option<String>,
    #[command(flatten)]
    node: NodeArgs,
}

const APPROVALS: [&str; 2] = ["vcp", "approvals"];

#[derive(Deserialize)]
struct Waiting {
    approvals: Vec<Approval>,
}

#[derive(Deserialize)]
struct Approval {
    cert: Cert,
    session_id: String,
    goal: String,
}

#[derive(Deserialize)]
struct Cert {
    cert_id: String,
    merchant_id: String,
    sku_id: String,
    qty: u64,
    total: u64,
    currency: String,
    expires_at: String,
}

/// Lists what waits.
pub(crate) fn list(
    args: &ApprovalsArgs,
    sources: &dyn Fn(Flags) -> Sources,
    terminal: &mut Terminal,
) -> Outcome {
    let node = args.node.client(sources)?;
    let answered = done(client::block_on(node.get(&APPROVALS))?)?;
    if terminal.json {
        writeln!(terminal.out, "{}", answered.text())?;
        return Ok(Exit::Done);
    }
    let waiting: Waiting = answered.value()?;
    if waiting.approvals.is_empty() {
        writeln!(terminal.out, "nothing waits")?;
        return Ok(Exit::Done);
    }
    let rows = waiting.approvals.into_iter().map(|approval| {
        let cert = approval.cert;
        [
            cert.cert_id,
            money(cert.total, &cert.currency),
            format!("{} × {}", cert.qty, cert.sku_id),
            cert.merchant_id,
            cert.expires_at,
            approval.goal,
        ]
    });
    terminal.table(
        ["CERTIFICATE", "TOTAL", "WHAT", "MERCHANT", "UNTIL", "FOR"],
        rows,
    )?;
    Ok(Exit::Done)
}

/// An amount as people write it (VC-MON-5).
pub(crate) fn money(minor: u64, currency: &str) -> String {
    let digits = chancery_vibe::money::exponent(currency);
    let unit = 10_u64.pow(digits);
    let width = digits as usize;
    match digits {
        0 => format!("{minor} {currency}"),
        _ => format!("{}.{:0width$} {currency}", minor / unit, minor % unit),
    }
}

/// Lets a purchase go on.
pub(crate) fn approve(
    args: &ApproveArgs,
    sources: &dyn Fn(Flags) -> Sources,
    terminal: &mut Terminal,
) -> Outcome {
    let node = args.node.client(sources)?;
    let session = client::block_on(session_of(&node, &args.cert))?;
    let session = session.ok_or_else(|| not_waiting(&args.cert))?;
    let mut payload = json!({"cert_id": args.cert});
    if let Some(note) = &args.note {
        payload["note"] = json!(note);
    }
    answer(&node, &session, "approve_purchase", payload, terminal)
}

/// Stops a purchase, also one that was approved and is not settled.
pub(crate) fn reject(
    args: &RejectArgs,
    sources: &dyn Fn(Flags) -> Sources,
    terminal: &mut Terminal,
) -> Outcome {
    let node = args.node.client(sources)?;
    let session = match &args.session {
        Some(session) => session.clone(),
        None => client::block_on(session_of(&node, &args.cert))?
            .ok_or_else(|| not_waiting(&args.cert))?,
    };
    let payload = json!({"cert_id": args.cert, "reason": args.reason});
    answer(&node, &session, "reject_purchase", payload, terminal)
}

async fn session_of(node: &NodeClient, cert: &str) -> Result<Option<String>, Failure> {
    let waiting: Waiting = done(node.get(&APPROVALS).await?)?.value()?;
    let found = waiting
        .approvals
        .into_iter()
        .find(|one| one.cert.cert_id == cert);
    Ok(found.map(|approval| approval.session_id))
}

fn not_waiting(cert: &str) -> Failure {
    Failure::no(format!("{cert} does not wait for you"))
        .next("see what does: chancery approvals; an approved purchase is rejected with --session")
}

/// The word of the person behind a mandate. Its key follows from what it says, so that saying it twice is saying it once.
fn answer(
    node: &NodeClient,
    session: &str,
    verb: &str,
    payload: Value,
    terminal: &mut Terminal,
) -> Outcome {
    let cert = payload["cert_id"].as_str().unwrap_or_default();
    let envelope = json!({
        "protocol": "vcp",
        "version": "1.0",
        "from": "consumer:persona",
        "to": "buyer:authorization",
        "session_id": session,
        "in_reply_to": null,
        "idempotency_key": format!("{verb}:{cert}"),
        "signature": null,
        "action": {"kind": format!("delegate.{verb}"), "payload": payload},
    });
    client::block_on(vibe::send(node, envelope.to_string().into()))?.tell(terminal)
}

/// The answer of a read, when it is one.
fn done(answered: Answered) -> Result<Answered, Failure> {
    if answered.is_yes() {
        return Ok(answered);
    }
    let told: Value = answered.value()?;
    let text = |name: &str| told[name].as_str().unwrap_or("?").to_owned();
    let failure = Failure::no(format!("approvals: {} ({})", text("message"), text("code")));
    Err(match answered.status {
        401 => failure.next("give a token: --token-file FILE, or CHANCERY_TOKEN"),
        503 => failure.next("set vibe.world in the configuration of the node"),
        _ => failure,
    })
}

#[cfg(test)]
mod tests {
    use super::money;

    // VC-MON-5
    #[test]
    fn an_amount_has_the_places_of_its_currency() {
        assert_eq!(money(11_905, "USD"), "119.05 USD");
        assert_eq!(money(500, "JPY"), "500 JPY");
        assert_eq!(money(5, "KWD"), "0.005 KWD");
    }
}
