//! One round of a market: the turns of all envelopes that wait, decided side by side on the same committed state.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use chancery_core::inbox::InboxName;
use chancery_core::line::Seq;
use chancery_core::refusal::Refusal;
use chancery_node::Office;
use chancery_store::StoreError;
use chancery_vibe::message::Message;

use crate::agent::{Agent, Inbound};
use crate::behaviour::Infer;
use crate::budget::Usage;
use crate::host::with_snapshot;
use crate::memory::Memory;
use crate::record::TurnRecord;
use crate::snapshot::Outbound;
use crate::turn::{Next, Turn};

/// An agent of the market with its memory.
pub(super) struct Player {
    pub(super) agent: Arc<Agent>,
    behaviour: Arc<dyn Infer>,
    inboxes: Vec<(InboxName, Seq)>,
    memory: HashMap<String, Memory>,
}

impl Player {
    pub(super) fn new(agent: Agent, behaviour: Arc<dyn Infer>) -> Self {
        Self {
            inboxes: agent.inboxes().into_iter().map(|name| (name, 0)).collect(),
            agent: Arc::new(agent),
            behaviour,
            memory: HashMap::new(),
        }
    }

    /// What waits for it, in the journal's order.
    fn waiting(&self, office: &Office) -> Result<Vec<(usize, Arc<Inbound>)>, StoreError> {
        let mut waiting = Vec::new();
        for (index, (name, cursor)) in self.inboxes.iter().enumerate() {
            for entry in office.inboxes().read(name, *cursor, usize::MAX)? {
                let line = chancery_journal::line::parse(&entry.line)
                    .map_err(|fault| StoreError(fault.to_string()))?;
                let inbound = Inbound::read(entry.seq, &line.envelope)
                    .ok_or_else(|| StoreError(format!("line {} is no envelope", entry.seq)))?;
                waiting.push((index, Arc::new(inbound)));
            }
        }
        waiting.sort_by_key(|(_, inbound)| inbound.seq);
        Ok(waiting)
    }
}

/// A turn that was decided, and waits to be heard by the gate.
pub(super) struct Move {
    pub(super) player: usize,
    inbox: usize,
    pub(super) inbound: Arc<Inbound>,
    turn: Turn,
    /// What it wants to say next.
    pub(super) outbound: Option<Outbound>,
    /// What it has said.
    pub(super) sent: Option<Outbound>,
}

/// What a turn came to.
pub(super) struct Said {
    pub(super) record: TurnRecord,
    /// The kind and envelope that was sent.
    pub(super) sent: Option<(String, Message)>,
}

impl Move {
    /// Takes the gate's answer in and goes on until the turn speaks again or ends.
    pub(super) fn go_on(&mut self, office: &Office, player: &Player, refusal: Option<&Refusal>) {
        let next = self.turn.sent(refusal.map_or(Ok(()), Err));
        self.outbound = drive(&mut self.turn, next, office, player);
    }

    /// The end of the turn: its memory is kept, its envelope is done with.
    pub(super) fn end(self, players: &mut [Player]) -> Said {
        let player = &mut players[self.player];
        let (record, memory) = self.turn.finish();
        let session = self.inbound.session_id.clone();
        player.memory.insert(session, memory);
        player.inboxes[self.inbox].1 = self.inbound.seq;
        let sent = self.sent.map(|outbound| {
            let action = outbound.message.action;
            let kind = action.map_or("", |action| action.kind()).to_owned();
            (kind, outbound.message)
        });
        Said { record, sent }
    }
}

/// Asks a behaviour until it wants to say something, or the turn is over.
fn drive(turn: &mut Turn, mut next: Next, office: &Office, player: &Player) -> Option<Outbound> {
    with_snapshot(office, &player.agent, |snapshot| {
        loop {
            next = match next {
                Next::Infer => {
                    let output = player.behaviour.infer(&turn.context(snapshot));
                    turn.heard(&output, Usage::FREE, snapshot)
                }
                Next::Send(outbound) => return Some(*outbound),
                Next::Ended => return None,
            };
        }
    })
}

/// One envelope of each inbox a round, and one of each session: so a turn sees all that came before it.
fn of_this_round(waiting: Vec<(usize, Arc<Inbound>)>) -> Vec<(usize, Arc<Inbound>)> {
    let mut sessions: BTreeMap<String, Seq> = BTreeMap::new();
    let mut blocked: Vec<usize> = Vec::new();
    let mut chosen = Vec::new();
    for (inbox, inbound) in waiting {
        // What is left behind in an inbox keeps its place there.
        if blocked.contains(&inbox) {
            continue;
        }
        if sessions.contains_key(&inbound.session_id) {
            blocked.push(inbox);
            continue;
        }
        sessions.insert(inbound.session_id.clone(), inbound.seq);
        chosen.push((inbox, inbound));
    }
    chosen
}

/// Decides the turns of a round on so many threads; the result does not depend on how many.
pub(super) fn decide(
    office: &Arc<Office>,
    players: &mut [Player],
    threads: usize,
) -> Result<Vec<Move>, StoreError> {
    let mut waiting = Vec::new();
    for (index, player) in players.iter().enumerate() {
        let chosen = of_this_round(player.waiting(office)?);
        waiting.extend(
            chosen
                .into_iter()
                .map(|(inbox, inbound)| (index, inbox, inbound)),
        );
    }
    waiting.sort_by_key(|(player, _, inbound)| (inbound.seq, *player));
    let share = waiting.len().div_ceil(threads).max(1);
    let players = &*players;
    let decided = std::thread::scope(|scope| {
        let parts: Vec<_> = waiting
            .chunks(share)
            .map(|part| {
                scope.spawn(move || {
                    let moves = part.iter().map(|(player, inbox, inbound)| {
                        take(office, players, *player, *inbox, inbound)
                    });
                    moves.collect::<Vec<_>>()
                })
            })
            .collect();
        let mut moves = Vec::new();
        for part in parts {
            match part.join() {
                Ok(part) => moves.extend(part),
                Err(_) => return Err(StoreError("a behaviour panicked".to_owned())),
            }
        }
        Ok(moves)
    })?;
    Ok(decided)
}

fn take(
    office: &Office,
    players: &[Player],
    index: usize,
    inbox: usize,
    inbound: &Arc<Inbound>,
) -> Move {
    let player = &players[index];
    let memory = player.memory.get(&inbound.session_id).cloned();
    let mut turn = Turn::new(
        Arc::clone(&player.agent),
        Arc::clone(inbound),
        memory.unwrap_or_default(),
    );
    let outbound = drive(&mut turn, Next::Infer, office, player);
    Move {
        player: index,
        inbox,
        inbound: Arc::clone(inbound),
        turn,
        outbound,
        sent: None,
    }
}
