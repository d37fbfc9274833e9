//! `chancery vacant call`: discover, check the card, sign, post, verify the answer (VA-DSP-5, VA-DSP-6, VA-A2A-12).

use std::io::Write as _;
use std::path::{Path, PathBuf};

use chancery_core::canonical::{Dialect, to_bytes};
use chancery_core::digest::hex;
use chancery_core::ids::v4;
use chancery_core::keys::ed25519::SigningKey;
use chancery_core::protocol::Failure as Failed;
use chancery_node::Clock;
use chancery_vacant::card::CapabilityCard;
use chancery_vacant::dispatch::{Judged, SearchArgs, check_target, choose, error_of_status, judge};
use chancery_vacant::envelope::{Draft, Envelope, Verified};
use chancery_vacant::error::ProtocolError;
use chancery_vacant::id::VacantId;
use chancery_vacant::payload::{Payload, Profile, Role};
use chancery_vacant::wire::{from_jsonrpc, read_json, to_jsonrpc};
use reqwest::Url;
use reqwest::header::CONTENT_TYPE;
use serde_json::json;

use super::abroad::{self, Answer, NamedBy};
use super::chains::{Chains, Standing};
use super::{search, told};
use crate::client::block_on;
use crate::exit::{Exit, Failure, Outcome};
use crate::secret_file;
use crate::terminal::Terminal;

/// Bytes of an answer.
const MAX_BYTES: usize = 1 << 20;

/// What `call` takes.
#[derive(Debug, clap::Args)]
pub(crate) struct CallArgs {
    /// A node, an agent card, or a vacant's /card; with --capability a registry
    url: String,
    /// Call whom the registry names first for what can do this
    #[arg(long, value_name = "TEXT")]
    capability: Option<String>,
    /// The caller's key file
    #[arg(long, value_name = "FILE")]
    key: PathBuf,
    /// What to say
    #[arg(long, value_name = "TEXT")]
    text: String,
    /// Where the caller's chains are kept [default: the key file with .chains]
    #[arg(long, value_name = "FILE")]
    state: Option<PathBuf>,
    /// Sign as release 0.6.0 does, with a place for a self-evaluation
    #[arg(long)]
    self_eval: bool,
    /// Call an address of this machine or its network although the card named it
    #[arg(long)]
    allow_private: bool,
}

/// Calls, and tells the verified answer.
pub(crate) fn run(args: &CallArgs, terminal: &mut Terminal) -> Outcome {
    let key = secret_file::read_key(&args.key)?;
    let state = args.state.clone().unwrap_or_else(|| state_of(&args.key));
    let chains = Chains::read(&state)?;
    let (card, answer) = block_on(async {
        let card = match &args.capability {
            Some(capability) => discover(args, capability).await?,
            None => find(args).await?,
        };
        let endpoint = check_target(&card).map_err(told)?.to_owned();
        let mut caller = Caller {
            key,
            target: card.vacant_id,
            chains,
            endpoint: abroad::parse(&endpoint)?,
            named_by: named_by(args, &endpoint),
            profile: if args.self_eval {
                Profile::SelfEval
            } else {
                Profile::Base
            },
        };
        caller.settle_pending().await?;
        let answer = caller.call(Payload::text(Role::User, args.text.as_str()), None);
        let answer = answer.await?;
        Ok::<_, Failure>((card, answer))
    })?;
    let says = answer.0.payload.joined();
    if terminal.json {
        terminal.json_line(&json!({
            "vacant_id": card.vacant_id.hex(),
            "text": says,
            "sequence_no": answer.0.sequence_no,
            "hash": answer.1.hash.hex(),
            "profile": answer.1.profile.as_str(),
        }))?;
    } else {
        writeln!(terminal.out, "{says}")?;
    }
    Ok(Exit::Done)
}

/// Where the chains of a caller are kept unless it says otherwise.
pub(super) fn state_of(key: &Path) -> PathBuf {
    let mut name = key.as_os_str().to_owned();
    name.push(".chains");
    name.into()
}

/// What the user typed is the user's; another host is somebody else's word.
fn named_by(args: &CallArgs, endpoint: &str) -> NamedBy {
    let host = |text: &str| {
        let url = Url::parse(text).ok()?;
        Some((url.host_str()?.to_owned(), url.port_or_known_default()))
    };
    if args.allow_private || host(&args.url) == host(endpoint) {
        NamedBy::User
    } else {
        NamedBy::Somebody
    }
}

/// The first of those that a registry names for a capability and that can be called. It is only asked: the call does not
/// go through it (VA-DSP-1, VA-DSP-8).
async fn discover(args: &CallArgs, capability: &str) -> Result<CapabilityCard, Failure> {
    let asked = SearchArgs::new(capability);
    let cards = search::cards(&args.url, asked.query, asked.limit).await?;
    let matches: Vec<_> = cards.into_iter().map(Some).collect();
    choose(&matches, None).cloned().map_err(told)
}

/// The signed card behind the address: from `/card`, or from the extension of an agent card (VA-A2A-12).
async fn find(args: &CallArgs) -> Result<CapabilityCard, Failure> {
    let mut url = abroad::parse(&args.url)?;
    if matches!(url.path(), "" | "/") {
        url.set_path("/card");
    }
    // The endpoint of a call is asked for its card.
    let path = url.path().to_owned();
    if let Some(base) = path.strip_suffix("/a2a/message/send") {
        url.set_path(&format!("{base}/card"));
    }
    let http = abroad::client(&url, NamedBy::User).await?;
    let answer = abroad::read(&url, http.get(url.clone()).send().await).await?;
    if answer.status != 200 {
        return Err(answer.failure());
    }
    let body = answer.json()?;
    let extensions = body["capabilities"]["extensions"].as_array();
    let of_agent_card = extensions
        .into_iter()
        .flatten()
        .find(|extension| extension["uri"] == "urn:vacant:v1:capability")
        .map(|extension| &extension["params"]["capability_card_blob_hex"]);
    let blob = of_agent_card.unwrap_or(&body["capability_card_blob_hex"]);
    let blob = blob.as_str().and_then(|text| hex::decode(text).ok());
    let blob = blob.ok_or_else(|| Failure::no(format!("{url} tells no signed card")))?;
    CapabilityCard::deserialize(&blob).map_err(told)
}

/// Who calls one target, on the chain that the two have.
pub(super) struct Caller {
    pub(super) key: SigningKey,
    pub(super) target: VacantId,
    pub(super) chains: Chains,
    pub(super) endpoint: Url,
    pub(super) named_by: NamedBy,
    pub(super) profile: Profile,
}

impl Caller {
    /// A call that was on its way when the program ended is sent again: its target knows whether it took it.
    pub(super) async fn settle_pending(&mut self) -> Result<(), Failure> {
        let Some(body) = self.chains.pending(&self.target) else {
            return Ok(());
        };
        let value = read_json(&body, MAX_BYTES).map_err(told)?;
        let envelope = from_jsonrpc(&value).map_err(told)?;
        let verified = envelope.verify().map_err(told)?;
        match self.exchange(&body, &envelope, verified).await {
            Ok(_) => Ok(()),
            // Whether it was taken is known, and kept; that it was refused is no reason not to go on.
            Err(_) if self.chains.pending(&self.target).is_none() => Ok(()),
            Err(failure) => Err(failure),
        }
    }

    /// Calls, and gives the verified answer.
    pub(super) async fn call(
        &mut self,
        payload: Payload,
        idempotency_key: Option<String>,
    ) -> Result<(Envelope, Verified), Failure> {
        let idempotency_key = match idempotency_key {
            Some(key) => key,
            None => v4(*secret_file::random::<16>()?).to_string(),
        };
        let standing = self.chains.standing(&self.target)?;
        let draft = Draft {
            from: VacantId::of(&self.key),
            to: self.target,
            payload,
            sequence_no: standing.request.next_sequence_no().map_err(told)?,
            prev: standing.request.chain_tip,
            timestamp: Clock::System.now(),
            idempotency_key,
            profile: self.profile,
        };
        let profile = draft.profile_of_payload();
        let envelope = draft.sign(&self.key).map_err(told)?;
        let verified = Verified {
            profile,
            hash: envelope.hash(profile),
        };
        let body = to_bytes(&to_jsonrpc(&envelope, profile).into(), Dialect::Python);
        self.chains.set_pending(&self.target, Some(&body))?;
        self.exchange(&body, &envelope, verified).await
    }

    /// Sends a call and takes its answer in. The chain goes on when the target has taken it, and not otherwise
    /// (VA-DSP-10).
    async fn exchange(
        &mut self,
        body: &[u8],
        sent: &Envelope,
        verified: Verified,
    ) -> Result<(Envelope, Verified), Failure> {
        let answer = self.post(body).await?;
        let mut standing = self.chains.standing(&self.target)?;
        let judged = judge(answer.status, &answer.body, &verified.hash, MAX_BYTES);
        let outcome = match judged {
            Judged::Answered(message) => self.check(&message.envelope, sent, &mut standing),
            Judged::Ended(Failed::BehaviourTimeout) => Err(ProtocolError::BehaviourTimeout),
            Judged::Ended(_) => Err(ProtocolError::BehaviourFailed),
            // Longer than a behaviour may take: there will be no answer.
            Judged::Taken if is_overdue(sent) => Err(ProtocolError::BehaviourTimeout),
            Judged::Taken | Judged::Again => {
                let error = error_of_status(answer.status, None);
                return Err(told(error).next("call again: the same call is sent first"));
            }
            Judged::Refused(error) => {
                self.chains.set_pending(&self.target, None)?;
                return Err(told(error));
            }
        };
        if standing.request.last_sequence_no < sent.sequence_no {
            let advanced = standing.request.check_and_advance(sent, verified.hash);
            advanced.map_err(told)?;
        }
        self.chains.keep(&self.target, &standing)?;
        self.chains.set_pending(&self.target, None)?;
        outcome.map_err(told)
    }

    /// VA-DSP-6, in its order.
    fn check(
        &self,
        answer: &Envelope,
        sent: &Envelope,
        standing: &mut Standing,
    ) -> Result<(Envelope, Verified), ProtocolError> {
        let verified = answer.verify_under(&self.target)?;
        if answer.from != self.target || answer.to != sent.from {
            return Err(ProtocolError::format("the answer is of another pair"));
        }
        standing.response.check_and_advance(answer, verified.hash)?;
        Ok((answer.clone(), verified))
    }

    async fn post(&self, body: &[u8]) -> Result<Answer, Failure> {
        let url = &self.endpoint;
        let http = abroad::client(url, self.named_by).await?;
        let request = http
            .post(url.clone())
            .header(CONTENT_TYPE, "application/json");
        abroad::read(url, request.body(body.to_vec()).send().await).await
    }
}

fn is_overdue(sent: &Envelope) -> bool {
    let past = Clock::System.now().since(sent.timestamp);
    past.is_some_and(|past| past >= abroad::TIMEOUT)
}
