//! One agent: the envelopes of its inboxes, one turn each.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use chancery_core::admin::RunState;
use chancery_core::inbox::InboxName;
use chancery_core::line::Seq;
use chancery_core::refusal::Refusal;
use chancery_node::Office;
use chancery_store::StoreError;
use chancery_vibe::code::Code;
use chancery_vibe::message::Message;
use chancery_vibe::state::key;
use futures_util::FutureExt as _;
use futures_util::future::select_all;
use tokio::sync::watch;
use tokio::time::Instant;

use super::progress::{self, Intent, Kept, MAX_RECORDS};
use super::{Hosted, MAX_SESSION_TURNS, blocking, told, with_snapshot};
use crate::agent::{Agent, Inbound};
use crate::behaviour::{Behaviour, Request};
use crate::budget::Usage;
use crate::record::{Outcome, TurnRecord};
use crate::turn::{Next, Turn};

/// Entries that are fetched from an inbox at once.
const AT_ONCE: usize = 64;
/// How long a busy node is left alone.
const BUSY: Duration = Duration::from_millis(50);

/// An agent's life in a node.
pub(super) struct Life {
    office: Arc<Office>,
    agent: Arc<Agent>,
    behaviour: Behaviour,
    inboxes: Vec<(InboxName, Seq)>,
    /// The lines whose turns are on record, oldest first.
    recorded: VecDeque<Seq>,
    turns: watch::Sender<u64>,
}

/// An envelope that waits for its turn.
struct Waiting {
    inbox: usize,
    inbound: Arc<Inbound>,
}

/// Whether a turn came to its end.
enum Ended {
    Done(Box<TurnRecord>, Kept),
    /// The agent is suspended: the turn is taken when it goes on.
    Held,
}

impl Life {
    pub(super) fn new(
        office: Arc<Office>,
        hosted: Hosted,
        turns: watch::Sender<u64>,
    ) -> Result<Self, StoreError> {
        let mut inboxes = Vec::new();
        for name in hosted.agent.inboxes() {
            let cursor = progress::cursor(&office, &hosted.agent, &name)?;
            inboxes.push((name, cursor));
        }
        let recorded = progress::recorded(&office, &hosted.agent.name)?.into();
        Ok(Self {
            office,
            agent: Arc::new(hosted.agent),
            behaviour: hosted.behaviour,
            inboxes,
            recorded,
            turns,
        })
    }

    pub(super) async fn live(mut self) {
        if let Err(error) = self.take_turns().await {
            told(&error);
        }
    }

    async fn take_turns(&mut self) -> Result<(), StoreError> {
        loop {
            self.office.duty_begun().await;
            let waiting = self.waiting().await?;
            if waiting.is_empty() {
                self.wait().await?;
                continue;
            }
            for one in waiting {
                loop {
                    self.until_running().await?;
                    if let Ended::Done(record, kept) = self.turn(&one.inbound).await? {
                        self.settle(&one, *record, kept).await?;
                        break;
                    }
                }
            }
        }
    }

    /// What waits in the inboxes, in the journal's order.
    async fn waiting(&self) -> Result<Vec<Waiting>, StoreError> {
        let (office, inboxes) = (Arc::clone(&self.office), self.inboxes.clone());
        let read = move || {
            let mut waiting = Vec::new();
            for (inbox, (name, cursor)) in inboxes.iter().enumerate() {
                for entry in office.inboxes().read(name, *cursor, AT_ONCE)? {
                    let line = chancery_journal::line::parse(&entry.line)
                        .map_err(|fault| StoreError(fault.to_string()))?;
                    let inbound = Inbound::read(entry.seq, &line.envelope).ok_or_else(|| {
                        StoreError(format!("line {} holds no envelope", entry.seq))
                    })?;
                    let inbound = Arc::new(inbound);
                    waiting.push(Waiting { inbox, inbound });
                }
            }
            waiting.sort_by_key(|one| one.inbound.seq);
            // What comes after the last entry of a part that was cut off may belong before it.
            waiting.truncate(AT_ONCE);
            Ok(waiting)
        };
        blocking(read)
            .await
            .unwrap_or_else(|| Err(StoreError("reading an inbox failed".to_owned())))
    }

    /// Returns when something is in an inbox.
    async fn wait(&self) -> Result<(), StoreError> {
        let inboxes = self.office.inboxes();
        let waits = self
            .inboxes
            .iter()
            .map(|(name, cursor)| inboxes.wait(name, *cursor).boxed());
        select_all(waits).await.0
    }

    /// Returns when the agent may begin something (CH-ID-5): neither suspended nor paused.
    async fn until_running(&self) -> Result<(), StoreError> {
        let participant = self.agent.record.participant(&self.agent.name);
        let mut changes = self.office.run_states();
        loop {
            changes.mark_unchanged();
            if self.office.run_state(participant)? == RunState::Running {
                return Ok(());
            }
            if changes.changed().await.is_err() {
                return std::future::pending().await;
            }
        }
    }

    /// Takes the turn of an envelope, or takes up what was left of it.
    async fn turn(&self, inbound: &Arc<Inbound>) -> Result<Ended, StoreError> {
        let (office, agent) = (Arc::clone(&self.office), Arc::clone(&self.agent));
        let kept = progress::kept(&office, &agent, &inbound.session_id)?;
        let turn = Turn::new(Arc::clone(&agent), Arc::clone(inbound), kept.memory.clone());
        if let Some(intent) = progress::intent(&office, &agent, inbound.seq)?
            && let Some(ended) = self.take_up(inbound, &kept, intent).await
        {
            return Ok(ended);
        }
        if self.has_answered(inbound)? {
            return Ok(done(said_before(turn), kept.turns));
        }
        if kept.turns >= MAX_SESSION_TURNS {
            let mut turn = turn;
            turn.end(Outcome::BudgetExhausted, "session_turns", Usage::FREE);
            return Ok(done(turn, kept.turns));
        }
        let deadline = Instant::now() + agent.budget.time;
        match self.drive(turn, inbound, deadline).await? {
            Some(turn) => Ok(done(turn, kept.turns + 1)),
            None => Ok(Ended::Held),
        }
    }

    /// Sends what an earlier run of the turn was about to send; none when the turn is to run anew.
    async fn take_up(&self, inbound: &Arc<Inbound>, kept: &Kept, intent: Intent) -> Option<Ended> {
        let turn = Turn::new(
            Arc::clone(&self.agent),
            Arc::clone(inbound),
            intent.memory.clone(),
        );
        let ended = || done(said_before(turn), kept.turns + 1);
        if self.has_answered(inbound).ok()? {
            return Some(ended());
        }
        let settings = self.office.gate().settings();
        let message = Message::decode(intent.envelope.as_bytes(), &settings.vibe).ok()?;
        match self.send(inbound.seq, &message).await {
            Ok(()) => Some(ended()),
            Err(refusal) if refusal.code == Code::Suspended.as_str() => Some(Ended::Held),
            Err(_) => None,
        }
    }

    fn has_answered(&self, inbound: &Inbound) -> Result<bool, StoreError> {
        let row = key::answered(&self.agent.name, inbound.seq);
        let said: Option<String> = self.office.row(&row)?;
        Ok(said.is_some())
    }

    /// Runs a turn to its end; none when the agent was suspended meanwhile.
    async fn drive(
        &self,
        mut turn: Turn,
        inbound: &Arc<Inbound>,
        deadline: Instant,
    ) -> Result<Option<Turn>, StoreError> {
        let mut next = Next::Infer;
        loop {
            next = match next {
                Next::Infer => match self.step(turn, deadline).await {
                    Some(stepped) => {
                        turn = stepped.0;
                        stepped.1
                    }
                    None => return Ok(Some(self.panicked(inbound)?)),
                },
                Next::Send(outbound) => {
                    let intent = Intent {
                        envelope: String::from_utf8_lossy(&outbound.text).into_owned(),
                        memory: turn.memory().clone(),
                    };
                    progress::intend(&self.office, &self.agent, inbound.seq, &intent)?;
                    let answer = self.send(inbound.seq, &outbound.message).await;
                    match &answer {
                        Err(refusal) if refusal.code == Code::Suspended.as_str() => {
                            return Ok(None);
                        }
                        answer => turn.sent(answer.as_ref().copied()),
                    }
                }
                Next::Ended => return Ok(Some(turn)),
            };
        }
    }

    /// One inference with what comes of it; none when a rule of this process panicked.
    async fn step(&self, turn: Turn, deadline: Instant) -> Option<(Turn, Next)> {
        let (office, agent) = (Arc::clone(&self.office), Arc::clone(&self.agent));
        match &self.behaviour {
            Behaviour::Here(rules) => {
                let rules = Arc::clone(rules);
                let mut turn = turn;
                blocking(move || {
                    let next = with_snapshot(&office, &agent, |snapshot| {
                        let output = rules.infer(&turn.context(snapshot));
                        turn.heard(&output, Usage::FREE, snapshot)
                    });
                    (turn, next)
                })
                .await
            }
            Behaviour::Elsewhere(behaviour) => {
                let (mut turn, request) = blocking(move || {
                    let request = with_snapshot(&office, &agent, |snapshot| {
                        Request::of(&turn.context(snapshot))
                    });
                    (turn, request)
                })
                .await?;
                let answer = tokio::time::timeout_at(deadline, behaviour.infer(request)).await;
                let inferred = match answer {
                    Ok(Ok(inferred)) => inferred,
                    Ok(Err(unanswered)) => {
                        turn.end(Outcome::Failed, unanswered.code, unanswered.usage);
                        return Some((turn, Next::Ended));
                    }
                    Err(_) => {
                        turn.end(Outcome::Timeout, "timeout", Usage::FREE);
                        return Some((turn, Next::Ended));
                    }
                };
                let (office, agent) = (Arc::clone(&self.office), Arc::clone(&self.agent));
                blocking(move || {
                    let next = with_snapshot(&office, &agent, |snapshot| {
                        turn.heard(&inferred.text, inferred.usage, snapshot)
                    });
                    (turn, next)
                })
                .await
            }
        }
    }

    /// The turn of a behaviour that panicked: it failed, and what it kept before stays.
    fn panicked(&self, inbound: &Arc<Inbound>) -> Result<Turn, StoreError> {
        let kept = progress::kept(&self.office, &self.agent, &inbound.session_id)?;
        let mut turn = Turn::new(Arc::clone(&self.agent), Arc::clone(inbound), kept.memory);
        turn.end(Outcome::Failed, "panicked", Usage::FREE);
        Ok(turn)
    }

    /// Takes an envelope to the gate, for as long as the node does not take any.
    async fn send(&self, answers: Seq, message: &Message) -> Result<(), Refusal> {
        loop {
            let sent = self
                .office
                .send_hosted_vibe(&self.agent.name, answers, message.clone());
            match sent.await {
                Err(refusal) if is_not_taken(&refusal) => {
                    tokio::time::sleep(BUSY).await;
                }
                answer => return answer,
            }
        }
    }

    /// Keeps what a turn leaves and goes on after its envelope, in one step.
    async fn settle(
        &mut self,
        one: &Waiting,
        record: TurnRecord,
        kept: Kept,
    ) -> Result<(), StoreError> {
        count(&record);
        let seq = one.inbound.seq;
        let session_id = &one.inbound.session_id;
        let mut changes = progress::finished(&self.agent, seq, session_id, &kept, &record)?;
        self.recorded.push_back(seq);
        while self.recorded.len() > MAX_RECORDS {
            let oldest = self.recorded.pop_front();
            changes.extend(oldest.map(|seq| progress::dropped(&self.agent, seq)));
        }
        let (name, cursor) = &mut self.inboxes[one.inbox];
        *cursor = seq;
        changes.push(progress::moved(&self.agent, name, seq)?);
        let (office, name) = (Arc::clone(&self.office), name.clone());
        let settled = blocking(move || office.inboxes().settle(&name, seq, changes)).await;
        settled.unwrap_or_else(|| Err(StoreError("keeping a turn failed".to_owned())))?;
        self.turns.send_modify(|turns| *turns += 1);
        Ok(())
    }
}

/// Whether a refusal says nothing of the envelope: the node, not the receiver, has no room, or its log cannot be written.
/// Then this process ends, and the next one takes up the turn with what it was about to say.
fn is_not_taken(refusal: &Refusal) -> bool {
    let is_full = refusal.code == Code::Overloaded.as_str() && refusal.check == "capacity";
    is_full || refusal.code == Code::AuditUnavailable.as_str()
}

fn done(turn: Turn, turns: u64) -> Ended {
    let (record, memory) = turn.finish();
    Ended::Done(Box::new(record), Kept { turns, memory })
}

/// The turn of an envelope that was answered before the node stopped.
fn said_before(mut turn: Turn) -> Turn {
    turn.resume_sent();
    turn
}

fn count(record: &TurnRecord) {
    let agent = record.agent.clone();
    let outcome = record.outcome.as_str();
    metrics::counter!("chancery_agent_turns_total", "agent" => agent.clone(), "outcome" => outcome)
        .increment(1);
    for code in record.steps.iter().filter_map(|step| step.code) {
        metrics::counter!("chancery_agent_faults_total", "agent" => agent.clone(), "code" => code)
            .increment(1);
    }
    let usage = record.usage;
    let tokens = usage.prompt_tokens.saturating_add(usage.completion_tokens);
    if tokens > 0 {
        metrics::counter!("chancery_agent_tokens_total", "agent" => agent).increment(tokens);
    }
}
