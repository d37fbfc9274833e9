//! Vibe at the counter: envelopes in, changes of the world, and what callers may read.

use std::sync::PoisonError;
use std::sync::atomic::{AtomicU64, Ordering};

use bytes::Bytes;
use chancery_core::admin::{TokenRecord, agent_key, agents_prefix};
use chancery_core::digest::Sha256Digest;
use chancery_core::ids::v4;
use chancery_core::inbox::InboxName;
use chancery_core::line::{ProtocolName, Seq};
use chancery_core::protocol::{Authentic, Caller, Door, Input, Protocol as _};
use chancery_core::refusal::Refusal;
use chancery_core::rows::{RowKey, RowsDamaged};
use chancery_core::time::format_audit;
use chancery_store::{StoreError, StoreRows};
use chancery_vibe::Answer;
use chancery_vibe::action::Action;
use chancery_vibe::address::{Address, Side, covers};
use chancery_vibe::agent::AgentRecord;
use chancery_vibe::code::{Code, Fault};
use chancery_vibe::flight::FlightKey;
use chancery_vibe::message::{self, Message};
use chancery_vibe::rules::{check_static, inbox};
use chancery_vibe::settings::{Clock, Settings};
use chancery_vibe::state::{Session, key};
use chancery_vibe::world::change::{Act, Change};
use chancery_vibe::world::read::{self, Reader};
use chancery_vibe::world::rows::Table;

use super::Office;
use crate::clock::Entropy;
use crate::passage::{Passage, Verdict};
use crate::reconcile::ReconcileError;
use crate::suite::{AnyAnswer, AnyInput};
use crate::trace::Stage;

/// The scope that lets its holder answer the human gate for anybody (CH-ID-2).
const APPROVE: &str = "approve";
/// The address that answers the gate.
const PERSONA: &str = "consumer:persona";

/// What came of an envelope that was not refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VibeAnswered {
    /// The body, canonical.
    pub body: Bytes,
    /// Whether it is the answer to an earlier request under the same key.
    pub replayed: bool,
    /// The envelope's idempotency key.
    pub key: Option<String>,
}

/// Takes a key out of flight however the request ends.
struct Landing<'o> {
    office: &'o Office,
    key: Option<FlightKey>,
}

impl Drop for Landing<'_> {
    fn drop(&mut self) {
        if let Some(key) = &self.key {
            let flights = self.office.flights.lock();
            flights.unwrap_or_else(PoisonError::into_inner).land(key);
        }
    }
}

impl Office {
    /// An envelope from outside. `token` is what the caller showed; none where no token is asked for.
    pub async fn receive_vibe(
        &self,
        raw: Bytes,
        header: Option<&str>,
        token: Option<&TokenRecord>,
    ) -> Result<VibeAnswered, Refusal> {
        let mut passage = self.passage(ProtocolName::Vibe);
        let result = self.admit_vibe(&mut passage, raw, header, token).await;
        let verdict = Verdict::with(&result, |answered| match answered.replayed {
            true => Verdict::Duplicate,
            false => Verdict::Accepted,
        });
        self.conclude(&passage, verdict);
        result
    }

    async fn admit_vibe(
        &self,
        passage: &mut Passage,
        raw: Bytes,
        header: Option<&str>,
        token: Option<&TokenRecord>,
    ) -> Result<VibeAnswered, Refusal> {
        let protocol = self.gate().suite().vibe();
        let settings = self.gate().settings();
        let permit = self.gate().permit();
        let decoded = protocol.decode(raw, Door::Http, &settings.vibe);
        passage.ends(Stage::Decode);
        let message = decoded?;
        passage.names(|| (message.from_text.clone(), Some(message.msg_id.clone())));
        message.check_header(header)?;
        let id = message.msg_id.clone();
        let key = message.idempotency_key.clone();
        let received = self.gate().clock().now();
        let caller = caller(token, &message);
        let authentic = protocol.authenticate(
            message,
            Door::Http,
            &caller,
            &self.gate().keyring(),
            &settings.vibe,
            received,
        );
        passage.ends(Stage::Authenticate);
        let authentic = authentic?;
        let taken_off = self.take_off(&authentic, &settings.vibe)?;
        let _landing = Landing {
            office: self,
            key: taken_off,
        };
        let permit = permit.map_err(|_| self.not_taken().of_message(id.clone()))?;
        let input = AnyInput::Vibe(Input::Envelope(authentic));
        let decided = self.decide(passage, input, received, Some(permit)).await;
        let decided = decided.map_err(|_| self.not_taken().of_message(id.clone()))?;
        match decided.result {
            Ok(AnyAnswer::Vibe(Answer::Accepted { body, replayed })) => Ok(VibeAnswered {
                body,
                replayed,
                key,
            }),
            Ok(_) => Err(Code::Internal.refuse().of_message(id)),
            Err(refusal) if refusal.message_id.is_none() => Err(refusal.of_message(id)),
            Err(refusal) => Err(refusal),
        }
    }

    /// Puts a mutation's key in flight. One that steps 7 to 9 refuse is decided beside another under its key: in a signed
    /// scenario they come after the freshness, which the rules know.
    fn take_off(
        &self,
        authentic: &Authentic<Message>,
        settings: &Settings,
    ) -> Result<Option<FlightKey>, Refusal> {
        if settings.signed && check_static(&authentic.message).is_err() {
            return Ok(None);
        }
        let flights = self.flights.lock();
        flights
            .unwrap_or_else(PoisonError::into_inner)
            .take_off(authentic)
    }

    /// An envelope without `msg_id` and `ts`: the node adds them. A header `Idempotency-Key` counts as the envelope's
    /// own where it has none.
    pub async fn send_vibe(
        &self,
        body: Bytes,
        header: Option<&str>,
        token: Option<&TokenRecord>,
    ) -> Result<VibeAnswered, Refusal> {
        let whole = match self.completed(&body, header) {
            Ok(whole) => whole,
            Err(refusal) => {
                self.note_rejection(ProtocolName::Vibe, &refusal);
                return Err(refusal);
            }
        };
        self.receive_vibe(whole, header, token).await
    }

    fn completed(&self, body: &Bytes, header: Option<&str>) -> Result<Bytes, Refusal> {
        let refuse = |fault: Fault| fault.into_refusal("envelope");
        let root = message::read(body).map_err(|fault| fault.into_refusal("json"))?;
        let Some(members) = root.as_object() else {
            return Err(refuse(Fault::new(Code::MalformedEnvelope)));
        };
        for made in ["msg_id", "ts"] {
            if members.contains(made) {
                let place = chancery_core::json::Place::ROOT;
                let fault = Fault::at(Code::MalformedEnvelope, &place.child(made));
                return Err(refuse(fault.saying("the node adds msg_id and ts")));
            }
        }
        let mut added = format!(
            "\"msg_id\":\"{}\",\"ts\":\"{}\"",
            self.fresh_id()?,
            format_audit(self.gate().clock().now()).as_str()
        );
        // An empty one agrees with no field, and is found out as that.
        let own = header.filter(|header| !header.is_empty());
        if let (Some(header), false) = (own, members.contains("idempotency_key")) {
            let text = serde_json::to_string(header).map_err(|_| Code::Internal.refuse())?;
            added.push_str(",\"idempotency_key\":");
            added.push_str(&text);
        }
        if !members.is_empty() {
            added.push(',');
        }
        // What was read is an object: its brace is the first byte that is no blank. Numbers stay as they are written.
        let open = body.iter().position(|byte| *byte == b'{').unwrap_or(0) + 1;
        Ok([&body[..open], added.as_bytes(), &body[open..]]
            .concat()
            .into())
    }

    /// An identifier for an envelope; with a seed it follows from the journal's head and the number of requests.
    fn fresh_id(&self) -> Result<String, Refusal> {
        static REQUESTS: AtomicU64 = AtomicU64::new(0);
        let mut entropy = [0; 16];
        match self.gate().entropy() {
            Entropy::System => {
                getrandom::fill(&mut entropy).map_err(|_| Code::Internal.refuse())?;
            }
            Entropy::Seed(seed) => {
                let head = self.gate().store().head().seq;
                let request = REQUESTS.fetch_add(1, Ordering::Relaxed);
                let material = format!("send:{seed}:{head}:{request}");
                entropy.copy_from_slice(&Sha256Digest::of(material.as_bytes()).0[..16]);
            }
        }
        Ok(v4(entropy).to_string())
    }

    /// An envelope of a hosted agent that answers the one on a line, through the same gate as everybody's.
    pub async fn send_hosted_vibe(
        &self,
        agent: &str,
        answers: Seq,
        message: Message,
    ) -> Result<(), Refusal> {
        let id = message.msg_id.clone();
        let mut passage = self.passage(ProtocolName::Vibe);
        passage.names(|| (message.from_text.clone(), Some(id.clone())));
        let input = Input::Outgoing {
            agent: agent.to_owned(),
            answers: Some(answers),
            idempotency: None,
            content: message,
        };
        let result = self.decide_hosted(&mut passage, input).await;
        let result = result.map_err(|refusal| refusal.of_message(id));
        self.conclude(&passage, Verdict::of(&result));
        result
    }

    async fn decide_hosted(
        &self,
        passage: &mut Passage,
        input: Input<chancery_vibe::Vibe>,
    ) -> Result<(), Refusal> {
        let permit = self.gate().permit().map_err(|_| self.not_taken())?;
        let received = self.gate().clock().now();
        let input = AnyInput::Vibe(input);
        let decided = self.decide(passage, input, received, Some(permit)).await;
        match decided.map_err(|_| self.not_taken())?.result? {
            AnyAnswer::Vibe(Answer::Accepted { .. }) => Ok(()),
            _ => Err(Code::Internal.refuse()),
        }
    }

    /// Puts a hosted agent of vibe on record as the configuration describes it; gives whether that changed anything.
    pub async fn reconcile_vibe_agent(
        &self,
        name: &str,
        record: &AgentRecord,
    ) -> Result<bool, ReconcileError> {
        let record = serde_json::to_value(record).map_err(|error| StoreError(error.to_string()))?;
        let on_record: Option<serde_json::Value> =
            self.row(&agent_key(ProtocolName::Vibe, name))?;
        if on_record.as_ref() == Some(&record) {
            return Ok(false);
        }
        let act = chancery_core::admin::Act::Agent {
            protocol: ProtocolName::Vibe,
            id: name.to_owned(),
            record: Some(record),
            run_state: None,
        };
        self.record(act, || format!("agent {name}")).await?;
        Ok(true)
    }

    /// Ends hosted agents of vibe that are configured no more; gives how many.
    pub async fn forget_vibe_agents(
        &self,
        is_configured: impl Fn(&str) -> bool,
    ) -> Result<usize, ReconcileError> {
        let prefix = agents_prefix(ProtocolName::Vibe);
        let rows = self.gate().store().scan(&prefix, None, usize::MAX)?;
        let names = rows
            .iter()
            .filter_map(|(key, _)| String::from_utf8(key.parts().pop()?).ok());
        let gone: Vec<String> = names.filter(|name| !is_configured(name)).collect();
        for name in &gone {
            let act = chancery_core::admin::Act::Agent {
                protocol: ProtocolName::Vibe,
                id: name.clone(),
                record: None,
                run_state: None,
            };
            self.record(act, || format!("agent {name}")).await?;
        }
        Ok(gone.len())
    }

    /// The records of a hosted agent's latest turns, newest first (VC-TURN-12).
    pub fn turn_records(
        &self,
        agent: &str,
        limit: usize,
    ) -> Result<Vec<serde_json::Value>, StoreError> {
        let rows = self.gate().store().ops_scan(&turn_records_prefix(agent))?;
        let newest = rows.iter().rev().take(limit);
        Ok(newest
            .filter_map(|(_, row)| serde_json::from_slice(row).ok())
            .collect())
    }

    /// A change of the world by an operator, on record when this returns.
    pub async fn change_world(&self, change: Change) -> Result<Seq, Refusal> {
        if self.gate().settings().vibe.world.is_none() {
            return Err(Code::NotConfigured.refuse());
        }
        let input = AnyInput::Vibe(Input::Act(Act::World(change)));
        let decided = self.submit(input).await.map_err(|_| self.not_taken())?;
        match decided.result? {
            AnyAnswer::Vibe(Answer::Changed { seq }) => Ok(seq),
            _ => Err(Code::Internal.refuse()),
        }
    }

    /// Why the gate took nothing: its log cannot be written any more (VC-AUD-4), or it is full or closing.
    fn not_taken(&self) -> Refusal {
        let mut refusal = if self.gate().has_failed() {
            Code::AuditUnavailable.refuse().in_check("audit")
        } else {
            let mut busy = Code::Overloaded.refuse().in_check("capacity");
            busy.message = "the node is busy; try again".into();
            busy
        };
        refusal.retryable = true;
        refusal.retry_after_s = Some(1);
        refusal
    }

    /// A table of the world as a caller may see it; none when it may not, or there is no such table.
    pub fn vibe_table(&self, name: &str, reader: &Reader) -> Result<Option<Vec<u8>>, StoreError> {
        let Some(table) = Table::parse(name) else {
            return Ok(None);
        };
        read::table(&self.rows(), table, reader).map_err(damaged)
    }

    /// A part of a table: at most so many rows after an entry.
    pub fn vibe_table_page(
        &self,
        name: &str,
        reader: &Reader,
        after: Option<&str>,
        limit: usize,
    ) -> Result<Option<Vec<u8>>, StoreError> {
        let Some(table) = Table::parse(name) else {
            return Ok(None);
        };
        let store = self.gate().store();
        let fetch = |prefix: &RowKey, after: Option<&RowKey>, limit| {
            let found = store.scan(prefix, after, limit);
            found.map_err(|error| RowsDamaged(error.to_string()))
        };
        read::page(&self.rows(), &fetch, table, reader, after, limit).map_err(damaged)
    }

    /// A session as a caller may see it; none when it may not.
    pub fn vibe_session(&self, id: &str, reader: &Reader) -> Result<Option<Vec<u8>>, StoreError> {
        read::session(&self.rows(), id, reader).map_err(damaged)
    }

    /// Certificates that wait for a caller's word (VC-GATE-5).
    pub fn vibe_approvals(&self, reader: &Reader) -> Result<Vec<u8>, StoreError> {
        let now = match self.gate().settings().vibe.clock {
            Clock::Envelope => None,
            Clock::Wall => Some(self.gate().clock().now()),
        };
        read::approvals(&self.rows(), reader, now).map_err(damaged)
    }

    /// The inbox that a caller means by an address; none when it may not read it or nothing tells whose it is.
    pub fn vibe_inbox(
        &self,
        address: &str,
        token: Option<&TokenRecord>,
        session_id: Option<&str>,
        merchant_id: Option<&str>,
    ) -> Result<Option<InboxName>, StoreError> {
        let Ok(parsed) = Address::receiver(address) else {
            return Ok(None);
        };
        if !may_hear(token, address) {
            return Ok(None);
        }
        let own = |of: fn(&TokenRecord) -> Option<&String>| token.and_then(of).cloned();
        let owner = match parsed.side {
            Side::World => return Ok(None),
            Side::Platform => return Ok(Some(inbox(address, None))),
            Side::Merchant => {
                own(|token| token.merchant_id.as_ref()).or(merchant_id.map(str::to_owned))
            }
            Side::Buyer | Side::Consumer => match own(|token| token.consumer_id.as_ref()) {
                Some(own) => Some(own),
                None => self.owner_of_session(session_id)?,
            },
        };
        Ok(owner.map(|owner| inbox(address, Some(&owner))))
    }

    /// The consumer whose session it is (VC-ADR-9).
    fn owner_of_session(&self, session_id: Option<&str>) -> Result<Option<String>, StoreError> {
        let Some(session_id) = session_id else {
            return Ok(None);
        };
        let session: Option<Session> = self.row(&key::session(session_id))?;
        Ok(session.map(|session| match session.consumer_id {
            Some(consumer) => consumer,
            None => ["c_", session_id].concat(),
        }))
    }

    fn rows(&self) -> StoreRows<'_, dyn chancery_store::Store> {
        StoreRows(&**self.gate().store())
    }
}

/// Where the records of an agent's turns are kept, each under the line that drove it (CH-JRN-15).
pub fn turn_records_prefix(agent: &str) -> RowKey {
    RowKey::text("turn-record", &[agent])
}

/// Who reads: the holder of a token, or on a development node anybody as the payment role (VC-HTTP-5). Who may read the
/// log may read all that is computed from it.
pub fn vibe_reader(token: Option<&TokenRecord>) -> Reader {
    let Some(token) = token else {
        return Reader::Psp;
    };
    if token
        .scopes
        .iter()
        .any(|scope| scope == "read:log" || scope == "admin")
    {
        return Reader::Psp;
    }
    Reader::of_principal(
        &token.addresses,
        token.consumer_id.as_deref(),
        token.merchant_id.as_deref(),
    )
}

/// Who reads approvals: the scope `approve` sees all of them, unless its holder acts for one consumer and could answer that
/// one's alone (VC-ADR-8).
pub fn vibe_approver(token: Option<&TokenRecord>) -> Reader {
    let answers_all = |token: &TokenRecord| {
        token.consumer_id.is_none() && token.scopes.iter().any(|scope| scope == APPROVE)
    };
    match token {
        Some(token) if answers_all(token) => Reader::Psp,
        token => vibe_reader(token),
    }
}

/// Whether a caller may hear what is said to an address.
fn may_hear(token: Option<&TokenRecord>, address: &str) -> bool {
    token.is_none_or(|token| {
        token.addresses.iter().any(|entry| covers(entry, address))
            || token
                .scopes
                .iter()
                .any(|scope| scope == "read:log" || scope == "admin")
    })
}

/// Who sends. The scope `approve` speaks as the persona where it answers the gate, and nowhere else.
fn caller(token: Option<&TokenRecord>, message: &Message) -> Caller {
    let Some(token) = token else {
        return Caller::default();
    };
    let mut speaks_as = token.addresses.clone();
    let answers_gate = matches!(
        message.action,
        Some(Action::ApprovePurchase | Action::RejectPurchase)
    );
    if answers_gate && token.scopes.iter().any(|scope| scope == APPROVE) {
        speaks_as.push(PERSONA.to_owned());
    }
    Caller {
        principal: Some(token.principal.clone()),
        speaks_as: Some(speaks_as),
    }
}

fn damaged(damage: RowsDamaged) -> StoreError {
    StoreError(damage.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whoever_may_approve_sees_what_it_could_answer() {
        // VC-GATE-5, VC-ADR-8
        let token = |consumer_id: Option<&str>| TokenRecord {
            id: "t".to_owned(),
            principal: "p".to_owned(),
            scopes: vec![APPROVE.to_owned()],
            addresses: vec!["consumer:persona".to_owned()],
            consumer_id: consumer_id.map(str::to_owned),
            merchant_id: None,
            agent: None,
            revoked: false,
        };
        assert_eq!(vibe_approver(Some(&token(None))), Reader::Psp);
        let of_one = vibe_approver(Some(&token(Some("c1"))));
        assert_eq!(of_one, Reader::consumer("c1"));
    }
}
