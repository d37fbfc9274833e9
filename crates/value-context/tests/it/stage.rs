//! A node without I/O: rules over rows in memory, a clock that the test moves, and everything that would leave kept
//! for the test to look at.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use chancery_core::admin::{self, Act, RunState};
use chancery_core::decision::{Audit, Before, Cx, Open, Stop, Unit, Verdict};
use chancery_core::delivery::Delivery;
use chancery_core::line::{Draft, Origin, ProtocolName, Seq};
use chancery_core::protocol::{Authentic, Door, Failure, Input, Proof, Protocol};
use chancery_core::refusal::Refusal;
use chancery_core::rows::{Lookup, MapRows, Row, RowKey, Rows, RowsDamaged};
use chancery_core::time::{Time, format_millis};
use chancery_core::timer::{TIMERS, parse_timer_key};
use chancery_core::window::Windows;
use chancery_value_context::agent::AgentRecord;
use chancery_value_context::message::{Accept, decode_accepting};
use chancery_value_context::outgoing::Outgoing;
use chancery_value_context::rules::{self, ChildView, Timer};
use chancery_value_context::settings::Settings;
use chancery_value_context::{Answer, ValueContext};
use serde_json::{Value, json};

use crate::support::now;

pub const CONSTITUTION: &str = "creed://creed.space/family.safe.guide@1.2.0";

/// A line of the stage's log.
#[derive(Clone, Debug)]
pub struct Written {
    pub seq: Seq,
    pub origin: Origin,
    pub envelope: Value,
    pub meta: BTreeMap<&'static str, String>,
}

impl Written {
    pub fn reason(&self) -> &str {
        self.envelope["payload"]["reason"].as_str().unwrap_or("")
    }

    pub fn id(&self) -> &str {
        self.envelope["message_id"].as_str().unwrap_or("")
    }

    pub fn to(&self) -> &str {
        self.envelope["recipient"].as_str().unwrap_or("")
    }

    pub fn from(&self) -> &str {
        self.envelope["sender"].as_str().unwrap_or("")
    }
}

/// A delivery that waits for the test to say what becomes of it.
#[derive(Clone, Debug)]
pub struct Leaving {
    pub seq: Seq,
    pub delivery: Delivery,
    pub envelope: Value,
}

pub struct Stage {
    pub settings: Settings,
    pub now: Time,
    rows: MapRows,
    windows: Windows,
    pub log: Vec<Written>,
    pub leaving: Vec<Leaving>,
    pub repeated: Vec<(Seq, Delivery)>,
    pub events: Vec<(&'static str, String)>,
    pub audits: Vec<Audit>,
    asks: Vec<(Time, String)>,
    made: u64,
}

impl Default for Stage {
    fn default() -> Self {
        Self {
            settings: Settings::default(),
            now: now(),
            rows: MapRows::default(),
            windows: Windows::default(),
            log: Vec::new(),
            leaving: Vec::new(),
            repeated: Vec::new(),
            events: Vec::new(),
            audits: Vec::new(),
            asks: Vec::new(),
            made: 0,
        }
    }
}

/// An agent that is hosted, as a builder.
pub fn agent(parent: Option<&str>, children: &[&str]) -> AgentRecord {
    AgentRecord {
        parent: parent.map(str::to_owned),
        children: children.iter().map(|child| (*child).to_owned()).collect(),
        signs: true,
        ..AgentRecord::default()
    }
}

impl Stage {
    pub fn host(&mut self, id: &str, record: AgentRecord) {
        let act = Act::Agent {
            protocol: ProtocolName::ValueContext,
            id: id.to_owned(),
            record: Some(serde_json::to_value(record).unwrap()),
            run_state: None,
        };
        let hook =
            |_: ProtocolName,
             id: &str,
             before: Option<&Value>,
             after: Option<&Value>,
             cx: &mut Cx<'_>| ValueContext.agent_changed(id, before, after, cx);
        self.decide(|cx| {
            admin::decide(&act, &hook, cx).map(|_| Verdict::Record {
                answer: Answer::Noted,
            })
        })
        .unwrap();
    }

    /// A hosted agent sends; gives the identifier.
    pub fn send(&mut self, from: &str, to: &str, kind: &str, payload: Value) -> String {
        match self.try_send(from, to, kind, payload) {
            Ok(Answer::Accepted(id)) => id.to_string(),
            other => panic!("not sent: {other:?}"),
        }
    }

    pub fn try_send(
        &mut self,
        from: &str,
        to: &str,
        kind: &str,
        payload: Value,
    ) -> Result<Answer, Refusal> {
        let body = json!({"sender": from, "recipient": to, "type": kind, "payload": payload});
        let body = body.to_string();
        let content = Outgoing::decode(body.as_bytes(), 65_536, &[], true)
            .map_err(|undecodable| undecodable.fault.into_refusal("schema"))?;
        self.take(Input::Outgoing {
            agent: from.to_owned(),
            answers: None,
            idempotency: None,
            content,
        })
    }

    /// An envelope as somebody elsewhere makes it now.
    pub fn envelope(&mut self, from: &str, to: &str, kind: &str, payload: Value) -> Value {
        self.made += 1;
        json!({
            "vcp_message": "1.2",
            "type": kind,
            "message_id": format!("019502a4-7e5c-7000-9000-{:012x}", self.made),
            "sender": from,
            "recipient": to,
            "timestamp": format_millis(self.now).as_str(),
            "payload": payload,
        })
    }

    pub fn receive(&mut self, envelope: &Value) -> Result<Answer, Refusal> {
        self.receive_by(envelope, Door::Http)
    }

    pub fn receive_by(&mut self, envelope: &Value, door: Door) -> Result<Answer, Refusal> {
        let accept = Accept {
            vcp_2_0: self.settings.accept_vcp_2_0,
            ..Accept::RECORDED
        };
        let message = decode_accepting(envelope.to_string().into(), accept)
            .map_err(|undecodable| undecodable.fault.into_refusal("schema"))?;
        self.take(Input::Envelope(Authentic {
            message,
            proof: Proof::InProcess,
            door,
        }))
    }

    /// Makes an envelope and takes it; gives its identifier.
    pub fn told(&mut self, from: &str, to: &str, kind: &str, payload: Value) -> String {
        let envelope = self.envelope(from, to, kind, payload);
        let answer = self.receive(&envelope).unwrap();
        assert!(matches!(answer, Answer::Accepted(_)), "{answer:?}");
        envelope["message_id"].as_str().unwrap().to_owned()
    }

    /// What leaves for `to` arrives there now: rules that asked are asked later.
    pub fn deliver(&mut self, to: &str) -> Vec<Value> {
        let (arrived, others) = std::mem::take(&mut self.leaving)
            .into_iter()
            .partition(|leaving: &Leaving| leaving.delivery.to == to);
        self.leaving = others;
        let mut envelopes = Vec::new();
        for leaving in arrived {
            if let Some(ask) = leaving.delivery.then_ask {
                let due = self.now.saturating_add(millis(u64::from(ask.after_ms)));
                self.asks.push((due, ask.timer));
            }
            envelopes.push(leaving.envelope);
        }
        envelopes
    }

    /// What leaves for `to` never arrives.
    pub fn lose(&mut self, to: &str) {
        let (lost, others): (Vec<_>, Vec<_>) = std::mem::take(&mut self.leaving)
            .into_iter()
            .partition(|leaving| leaving.delivery.to == to);
        self.leaving = others;
        for leaving in lost {
            self.take(Input::Failed {
                of: leaving.seq,
                about: to.to_owned(),
                why: Failure::Undeliverable,
            })
            .unwrap();
        }
    }

    /// Moves the clock; every timer fires at its own instant.
    pub fn wait(&mut self, span: Duration) {
        let end = self.now.saturating_add(span);
        while let Some((due, timer)) = self.next_timer(end) {
            self.now = due;
            self.take(Input::Timer(timer)).unwrap();
        }
        self.now = end;
    }

    fn next_timer(&mut self, end: Time) -> Option<(Time, Timer)> {
        let rows = self.rows.scan(&RowKey::text(TIMERS, &[])).unwrap();
        let first_row = rows.first().map(|(key, bytes)| {
            let (due, _) = parse_timer_key(key).unwrap();
            (
                due,
                Some(key.clone()),
                String::from_utf8(bytes.to_vec()).unwrap(),
            )
        });
        self.asks.sort();
        let first_ask = self
            .asks
            .first()
            .map(|(due, timer)| (*due, None, timer.clone()));
        let (due, key, timer) = [first_row, first_ask]
            .into_iter()
            .flatten()
            .filter(|(due, ..)| *due <= end)
            .min_by_key(|(due, ..)| *due)?;
        match key {
            Some(key) => self.rows.apply(vec![(key, None)]),
            None => drop(self.asks.remove(0)),
        }
        Some((due, serde_json::from_str(&timer).unwrap()))
    }

    fn take(&mut self, input: Input<ValueContext>) -> Result<Answer, Refusal> {
        let settings = self.settings.clone();
        self.decide(|cx| ValueContext.decide(&input, &settings, cx))
    }

    /// Decides as a node does whose rows are not in memory: what is missing is fetched, and the decision is made again
    /// from another nonce.
    fn decide(
        &mut self,
        rules: impl Fn(&mut Cx<'_>) -> Result<Verdict<Answer>, Stop>,
    ) -> Result<Answer, Refusal> {
        let mut fetched = BTreeSet::new();
        for attempt in 0..64 {
            match self.decide_once(&rules, &fetched, attempt) {
                Err(Stop::Missing(keys)) => fetched.extend(keys),
                Err(Stop::Refused(refusal)) => return Err(refusal),
                Err(stop) => panic!("{stop:?}"),
                Ok(answer) => return Ok(answer),
            }
        }
        panic!("the decision keeps asking for other rows: {fetched:?}");
    }

    fn decide_once(
        &mut self,
        rules: &impl Fn(&mut Cx<'_>) -> Result<Verdict<Answer>, Stop>,
        fetched: &BTreeSet<RowKey>,
        attempt: u8,
    ) -> Result<Answer, Stop> {
        let seq = self.log.len() as u64 + 1;
        let mut nonce = [attempt; 16];
        nonce[..8].copy_from_slice(&seq.to_be_bytes());
        let mut open = Open;
        let rows = Fetched {
            rows: &self.rows,
            fetched,
        };
        let mut cx = Cx::new(Before {
            now: self.now,
            seq,
            rows: &rows,
            windows: &self.windows,
            guards: &mut open,
            nonce,
            keeps_agenda: true,
        });
        match rules(&mut cx)? {
            Verdict::Record { answer } => {
                let (unit, aside) = cx.into_unit()?;
                self.keep_aside(aside);
                self.record(unit, seq);
                Ok(answer)
            }
            Verdict::Pass { answer, repeat } => {
                self.keep_aside(cx.into_aside());
                self.repeated.extend(repeat);
                Ok(answer)
            }
        }
    }

    fn keep_aside(&mut self, aside: chancery_core::decision::Aside) {
        let events = aside
            .events
            .into_iter()
            .map(|event| (event.name, event.message_id.unwrap_or_default()));
        self.events.extend(events);
        self.audits.extend(aside.audits);
    }

    fn record(&mut self, unit: Unit, first: Seq) {
        for (index, draft) in unit.drafts.iter().enumerate() {
            self.log.push(written(draft, first + index as u64));
        }
        for (key, delivery) in unit.deliveries {
            let (seq, _) = chancery_core::delivery::parse_outbox_key(&key).unwrap();
            let envelope = self.log[seq as usize - 1].envelope.clone();
            self.leaving.push(Leaving {
                seq,
                delivery,
                envelope,
            });
        }
        self.rows.apply(unit.rows);
        for record in &unit.remembered {
            self.windows.remember(record);
        }
    }

    pub fn row<T: serde::de::DeserializeOwned>(&self, key: &RowKey) -> Option<T> {
        match self.rows.get(key) {
            Lookup::Found(bytes) => Some(serde_json::from_slice(&bytes).unwrap()),
            _ => None,
        }
    }

    pub fn scan(&self, prefix: &RowKey) -> Vec<(RowKey, Row)> {
        self.rows.scan(prefix).unwrap()
    }

    pub fn state(&self, agent: &str) -> RunState {
        self.row(&admin::run_state_key(agent)).unwrap_or_default()
    }

    /// What a parent holds its child to.
    pub fn view(&self, parent: &str, child: &str) -> RunState {
        let view: Option<ChildView> = self.row(&rules::child_key(parent, child));
        view.unwrap_or_default().state
    }

    /// The identifiers of an agent's open escalations.
    pub fn open(&self, agent: &str) -> Vec<String> {
        let rows = self.scan(&rules::open_prefix(agent, agent));
        let id = |key: &RowKey| String::from_utf8(key.parts().pop().unwrap()).unwrap();
        rows.iter().map(|(key, _)| id(key)).collect()
    }

    /// Lines after `seq`.
    pub fn since(&self, seq: usize) -> &[Written] {
        &self.log[seq..]
    }

    pub fn events_named(&self, name: &str) -> usize {
        self.events
            .iter()
            .filter(|(event, _)| *event == name)
            .count()
    }
}

/// Rows of which only those are in memory that were fetched.
struct Fetched<'a> {
    rows: &'a MapRows,
    fetched: &'a BTreeSet<RowKey>,
}

impl Rows for Fetched<'_> {
    fn get(&self, key: &RowKey) -> Lookup {
        if self.fetched.contains(key) {
            self.rows.get(key)
        } else {
            Lookup::NotLoaded
        }
    }

    fn scan(&self, prefix: &RowKey) -> Result<Vec<(RowKey, Row)>, RowsDamaged> {
        self.rows.scan(prefix)
    }
}

fn written(draft: &Draft, seq: Seq) -> Written {
    Written {
        seq,
        origin: draft.origin,
        envelope: serde_json::from_slice(draft.envelope.bytes()).unwrap(),
        meta: draft
            .meta
            .iter()
            .map(|(name, value)| (*name, format!("{value:?}")))
            .collect(),
    }
}

pub fn share(context: &str) -> Value {
    json!({"context": context, "constitution_ref": CONSTITUTION})
}

pub fn escalation(severity: &str, reason: &str) -> Value {
    let grave = matches!(severity, "critical" | "emergency");
    json!({
        "severity": severity,
        "reason": reason,
        "context": "📍💻",
        "requires_ack": grave,
    })
}

pub fn constraints(mode: &str, entries: &[(&str, Value)]) -> Value {
    let entries: Vec<Value> = entries
        .iter()
        .map(|(kind, value)| {
            json!({"type": kind, "value": value, "source_constitution_ref": CONSTITUTION})
        })
        .collect();
    json!({"constraints": entries, "propagation_mode": mode})
}

pub fn seconds(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

pub fn millis(millis: u64) -> Duration {
    Duration::from_millis(millis)
}
