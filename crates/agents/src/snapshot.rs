//! What a turn sees: committed rows and lines, through the eyes of one agent (VC-TURN-10, VC-WLD-3).
//!
//! Guarantees: nothing that is not visible to the agent is told. Sending is tried on the same rows by the same rules
//! that the gate runs, and nothing of the trial stays (VC-TURN-7).

use chancery_core::admin::{PrincipalRecord, principal_key};
use chancery_core::decision::{Before, Cx, Open, Stop, Verdict};
use chancery_core::inbox::InboxName;
use chancery_core::line::{Line, ProtocolName, Seq};
use chancery_core::protocol::{Input, Protocol as _};
use chancery_core::refusal::Refusal;
use chancery_core::rows::{Lookup, RowKey, Rows};
use chancery_core::time::Time;
use chancery_core::window::Windows;
use chancery_vibe::Vibe;
use chancery_vibe::code::Code;
use chancery_vibe::message::{Message, gives_away};
use chancery_vibe::settings::Settings;
use chancery_vibe::state::{GoalRow, MandateRow, MsgRow, OfferRow, Session, key};
use chancery_vibe::world::read::{self, Reader};
use chancery_vibe::world::rows::{CatalogRow, OrderRow, Table, currencies_key, item};
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};

use crate::agent::{Agent, Inbound};
use crate::memory::Memory;

/// Envelopes of a thread that are shown at most.
const MAX_THREAD: usize = 32;
/// Rows of one table that are shown at most.
const MAX_ROWS: usize = 32;

/// Where committed lines are.
pub trait Lines {
    /// A line of the log.
    fn line(&self, seq: Seq) -> Option<Line>;
    /// Whether a line was put into an inbox.
    fn was_delivered(&self, name: &InboxName, seq: Seq) -> bool;
}

/// Committed state as one agent may see it.
pub struct Snapshot<'s> {
    /// The rows.
    pub rows: &'s dyn Rows,
    /// The log.
    pub lines: &'s dyn Lines,
    /// The rules' settings in force.
    pub settings: &'s Settings,
    /// The time.
    pub now: Time,
    /// Who looks.
    pub agent: &'s Agent,
}

impl Snapshot<'_> {
    /// A row; none when it is not there or cannot be read.
    fn row<T: DeserializeOwned>(&self, row_key: &RowKey) -> Option<T> {
        let bytes = match self.rows.get(row_key) {
            Lookup::Found(bytes) => bytes,
            _ => return None,
        };
        serde_json::from_slice(&bytes).ok()
    }

    fn table<T: DeserializeOwned>(&self, table: Table, entry: &str) -> Option<T> {
        let row = read::row(self.rows, table, entry, &self.agent.reader());
        serde_json::from_slice(&row.ok()??).ok()
    }

    /// What a merchant lists.
    pub fn catalog(&self, merchant_id: &str, sku_id: &str) -> Option<CatalogRow> {
        self.table(Table::Catalog, &item(merchant_id, sku_id))
    }

    /// An order, if it is the agent's own or the agent is of the platform.
    pub fn order(&self, order_id: &str) -> Option<OrderRow> {
        self.table(Table::Orders, order_id)
    }

    /// The order of a transaction.
    pub fn order_of(&self, tx_id: &str) -> Option<OrderRow> {
        let order_id: String = self.row(&key::transaction(tx_id))?;
        self.order(&order_id)
    }

    /// The agent's own goal for a sku, where one is in force.
    pub fn goal(&self, sku_id: &str) -> Option<GoalRow> {
        let merchant_id = self.agent.record.merchant_id.as_deref()?;
        let goal: GoalRow = self.row(&key::goal(merchant_id, sku_id))?;
        goal.in_force(self.now).then_some(goal)
    }

    /// The mandate of a session, if the agent acts for its consumer.
    pub fn mandate(&self, session_id: &str) -> Option<MandateRow> {
        let session: Session = self.row(&key::session(session_id))?;
        let mandate: MandateRow = self.row(&key::mandate(&session.mandate_id?))?;
        let own = self.agent.record.consumer_id.as_deref();
        (own == Some(&*mandate.consumer_id)).then_some(mandate)
    }

    /// An offer, if the agent's side is a party to it or it is of the platform.
    pub fn offer(&self, offer_id: &str) -> Option<OfferRow> {
        let offer: OfferRow = self.row(&key::offer(offer_id))?;
        let seen = match self.agent.reader() {
            Reader::Psp | Reader::Platform => true,
            Reader::Party(_) => self.is_party_to(&offer),
            Reader::Nobody => false,
        };
        seen.then_some(offer)
    }

    fn is_party_to(&self, offer: &OfferRow) -> bool {
        let record = &self.agent.record;
        if record.merchant_id.as_ref() == Some(&offer.merchant_id) {
            return true;
        }
        let session: Option<Session> = self.row(&key::session(&offer.session_id));
        let consumer = session.and_then(|session| session.consumer_id);
        consumer.is_some() && consumer == record.consumer_id
    }

    /// An accepted envelope, if it is visible to the agent: one that its side sent or that was put into an inbox of
    /// its own. Roles of the platform see the log.
    pub fn envelope(&self, msg_id: &str) -> Option<Value> {
        let row: MsgRow = self.row(&key::msg(msg_id))?;
        let line = self.lines.line(row.seq)?;
        if line.protocol != ProtocolName::Vibe || !self.is_visible(&line) {
            return None;
        }
        serde_json::from_slice(&line.envelope).ok()
    }

    fn is_visible(&self, line: &Line) -> bool {
        if matches!(self.agent.reader(), Reader::Psp | Reader::Platform) {
            return true;
        }
        let delivered = |name: &InboxName| self.lines.was_delivered(name, line.seq);
        self.agent.inboxes().iter().any(delivered) || self.sent_by_own_side(line)
    }

    /// Whether the agent, or another principal that acts for the same consumer or merchant, sent a line.
    fn sent_by_own_side(&self, line: &Line) -> bool {
        let Some(principal) = line.meta_text("principal") else {
            return false;
        };
        if principal == self.agent.name {
            return true;
        }
        let sender: Option<PrincipalRecord> = self.row(&principal_key(&principal));
        let own = &self.agent.record;
        self.agent.owner().is_some()
            && sender.is_some_and(|sender| {
                sender.consumer_id == own.consumer_id && sender.merchant_id == own.merchant_id
            })
    }

    /// The envelopes that the inbound one answers, oldest first; it ends where one is not visible.
    pub fn thread(&self, inbound: &Inbound) -> Vec<Value> {
        let replied = |envelope: &Value| {
            let replied = envelope.get("in_reply_to")?.as_str()?;
            self.envelope(replied)
        };
        let mut thread = Vec::new();
        let mut next = replied(&inbound.envelope);
        while let Some(envelope) = next {
            next = replied(&envelope);
            thread.push(envelope);
            if thread.len() == MAX_THREAD {
                break;
            }
        }
        thread.reverse();
        thread
    }

    /// What the agent may see of the world that has to do with this envelope: the items, merchants, orders, disputes
    /// and rulings that it, its thread or its session names, the agent's own accounts, mandate and goals.
    pub fn world(&self, inbound: &Inbound) -> Value {
        let mut names = Names::default();
        names.walk(inbound.payload());
        for envelope in self.thread(inbound) {
            names.walk(&envelope["action"]["payload"]);
        }
        if let Some(session) = self.row::<Session>(&key::session(&inbound.session_id)) {
            let offers = session.offers.iter().rev().take(MAX_ROWS);
            for offer in offers.filter_map(|offer| self.offer(offer)) {
                names.add("merchant_id", &offer.merchant_id);
                names.items.push((offer.merchant_id, offer.sku_id));
            }
            names.add_all("order_id", &session.orders);
        }
        let items = names
            .items
            .iter()
            .map(|(merchant, sku)| item(merchant, sku));
        let items: Vec<String> = items.collect();
        let mut world = Map::new();
        let mut put = |table: Table, entries: &[String]| {
            world.insert(table.as_str().to_owned(), self.seen(table, entries));
        };
        put(Table::Catalog, &items);
        put(Table::Inventory, &items);
        put(Table::Reputation, &names.of("merchant_id"));
        put(Table::Orders, &names.of("order_id"));
        put(Table::Disputes, &names.of("dispute_id"));
        put(Table::Rulings, &names.of("ruling_id"));
        put(Table::Ledger, &names.of("account_id"));
        let to_value = |value: Result<Value, serde_json::Error>| value.unwrap_or_default();
        if let Some(mandate) = self.mandate(&inbound.session_id) {
            world.insert(
                "mandate".to_owned(),
                to_value(serde_json::to_value(mandate)),
            );
        }
        let goals = names.items.iter().filter_map(|(_, sku)| {
            let goal = self.goal(sku)?;
            Some((sku.clone(), to_value(serde_json::to_value(goal))))
        });
        let goals: Map<String, Value> = goals.collect();
        if !goals.is_empty() {
            world.insert("goals".to_owned(), Value::Object(goals));
        }
        Value::Object(world)
    }

    fn seen(&self, table: Table, entries: &[String]) -> Value {
        let rows = entries.iter().take(MAX_ROWS).filter_map(|entry| {
            let row: Value = self.table(table, entry)?;
            Some((entry.clone(), row))
        });
        Value::Object(rows.collect())
    }

    /// Tries an envelope out: the checks of VC-TURN-7, by the rules themselves on these rows, and the agent's own
    /// private values (CH-JRN-11).
    ///
    /// # Errors
    /// Why it would be refused.
    pub fn check(&self, answers: Seq, outbound: &Outbound, memory: &Memory) -> Result<(), Refusal> {
        let privates = memory.privates(&self.currency(&outbound.message.session_id));
        if !privates.is_empty() {
            let currencies: Vec<String> = self.row(&currencies_key()).unwrap_or_default();
            if let Some(place) = gives_away(&outbound.text, &privates, &currencies) {
                return Err(Code::PrivateUtilityLeak
                    .refuse()
                    .in_check("guard")
                    .at(place));
            }
        }
        let input = Input::<Vibe>::Outgoing {
            agent: self.agent.name.clone(),
            answers: Some(answers),
            idempotency: None,
            content: outbound.message.clone(),
        };
        let (windows, mut guards) = (Windows::default(), Open);
        let mut cx = Cx::new(Before {
            now: self.now,
            seq: Seq::MAX / 2,
            rows: self.rows,
            windows: &windows,
            guards: &mut guards,
            nonce: [0; 16],
            keeps_agenda: false,
        });
        match Vibe.decide(&input, self.settings, &mut cx) {
            Ok(Verdict::Record { .. }) => Ok(()),
            // The same was said before under that key: there is nothing to say.
            Ok(Verdict::Pass { .. }) => Err(Code::AlreadyAnswered.refuse()),
            Err(Stop::Refused(refusal)) => Err(refusal),
            Err(Stop::Missing(_) | Stop::Damaged(_)) => Err(Code::Internal.refuse()),
        }
    }

    /// The currency of amounts in a session.
    fn currency(&self, session_id: &str) -> String {
        let session: Option<Session> = self.row(&key::session(session_id));
        let own = session.map(|session| session.currency);
        own.filter(|currency| !currency.is_empty())
            .unwrap_or_else(|| self.settings.currency.clone())
    }
}

/// An envelope that an agent wants to send, complete.
#[derive(Clone, Debug)]
pub struct Outbound {
    /// Its text, numbers as the agent wrote them.
    pub text: Vec<u8>,
    /// What the rules make of it.
    pub message: Message,
}

/// Identifiers that payloads name, in the order in which they are found.
#[derive(Default)]
struct Names {
    found: Vec<(&'static str, String)>,
    items: Vec<(String, String)>,
}

impl Names {
    const MEMBERS: [&'static str; 5] = [
        "merchant_id",
        "order_id",
        "dispute_id",
        "ruling_id",
        "account_id",
    ];

    fn add(&mut self, member: &'static str, id: &str) {
        if !self
            .found
            .iter()
            .any(|(of, known)| *of == member && known == id)
        {
            self.found.push((member, id.to_owned()));
        }
    }

    fn add_all(&mut self, member: &'static str, ids: &[String]) {
        for id in ids.iter().rev().take(MAX_ROWS) {
            self.add(member, id);
        }
    }

    fn of(&self, member: &str) -> Vec<String> {
        let found = self.found.iter().filter(|(of, _)| *of == member);
        found.map(|(_, id)| id.clone()).collect()
    }

    fn walk(&mut self, value: &Value) {
        match value {
            Value::Array(items) => items.iter().for_each(|item| self.walk(item)),
            Value::Object(members) => {
                let text = |name: &str| members.get(name).and_then(Value::as_str);
                if let (Some(merchant), Some(sku)) = (text("merchant_id"), text("sku_id")) {
                    let pair = (merchant.to_owned(), sku.to_owned());
                    if self.items.len() < MAX_ROWS && !self.items.contains(&pair) {
                        self.items.push(pair);
                    }
                }
                for member in Self::MEMBERS {
                    if let Some(id) = text(member) {
                        self.add(member, id);
                    }
                }
                members.values().for_each(|member| self.walk(member));
            }
            _ => {}
        }
    }
}
