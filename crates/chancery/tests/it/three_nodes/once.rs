//! Registers that take one thing once: the identifier of a message, the key of a purchase.

use std::sync::Mutex;

use chancery_testkit::linear::Register;
use serde_json::{Value, json};

use super::clients::{Book, Client, Sent};
use crate::served::{HOSTED, Share, share};
use crate::vibe_storm;
use crate::wire::MESSAGES;

/// How often an envelope without an answer is sent again, at most.
const AGAIN: usize = 5;

/// The first of its kind is taken; whatever is the same again is known, anything else under its name is refused.
pub struct Once;

/// What a caller was told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Taken {
    First,
    Again,
    /// There is another under this name.
    Conflict,
}

impl Register for Once {
    /// Which was taken, if one was.
    type State = Option<u8>;
    /// Which is offered.
    type Op = u8;
    type Told = Taken;

    fn begin(&self) -> Option<u8> {
        None
    }

    fn after(&self, state: &Option<u8>, op: &u8, told: Option<&Taken>) -> Option<Option<u8>> {
        let answer = match state {
            None => Taken::First,
            Some(taken) if taken == op => Taken::Again,
            Some(_) => Taken::Conflict,
        };
        let next = state.or(Some(*op));
        told.is_none_or(|told| *told == answer).then_some(next)
    }
}

/// Rounds that all clients are in at about the same time: who comes late goes on with the newest.
pub struct Rounds<T>(Mutex<Vec<T>>);

impl<T: Clone> Rounds<T> {
    pub fn new() -> Self {
        Self(Mutex::new(Vec::new()))
    }

    fn next(&self, after: Option<usize>, make: impl FnOnce(usize) -> T) -> (usize, T) {
        let mut made = self.0.lock().unwrap();
        let next = after.map_or(0, |after| after + 1);
        let round = next.max(made.len().saturating_sub(1));
        if round == made.len() {
            made.push(make(round));
        }
        (round, made[round].clone())
    }
}

/// Sends messages that other clients send as well (VX-DUP-1).
pub fn send_shares(mut client: Client<'_>, rounds: &Rounds<Share>, book: &Book<Once>) {
    let mut last = None;
    while !client.fleet.is_over() {
        let (round, share) = rounds.next(last, |round| share(HOSTED[round % HOSTED.len()]));
        last = Some(round);
        for _ in 0..AGAIN {
            let (sent, begun) = client.send(MESSAGES, &share.bytes, &share.id);
            let told = match sent {
                Sent::NotTaken => continue,
                Sent::Unknown => None,
                Sent::Told(answer) => match answer.ok()["status"].as_str() {
                    Some("accepted") => Some(Taken::First),
                    Some("duplicate") => Some(Taken::Again),
                    other => panic!("{other:?}"),
                },
            };
            book.note(&share.id, 0, told, begun, client.fleet);
            if told.is_some() || client.chance(2) {
                break;
            }
        }
    }
}

/// Binds keys that other clients bind as well, to one of two envelopes (VC-IDEM-1, VC-IDEM-4).
pub fn bind_keys(mut client: Client<'_>, rounds: &Rounds<()>, book: &Book<Once>) {
    let mut last = None;
    while !client.fleet.is_over() {
        let (round, ()) = rounds.next(last, |_| ());
        last = Some(round);
        let which = u8::from(client.chance(2));
        let envelope = mandate(round, ["one", "other"][usize::from(which)]);
        for _ in 0..AGAIN {
            let told = bind(
                &mut client,
                book,
                &format!("key {round}"),
                (which, &envelope),
            );
            if told.is_some() || client.chance(2) {
                break;
            }
        }
    }
}

fn mandate(round: usize, name: &str) -> Value {
    let hands = (
        "consumer:persona",
        "buyer:intent",
        "delegate.create_purchase_mandate",
    );
    let session = format!("key{round}");
    let payload = vibe_storm::mandate(&format!("{session}-{name}"), 0);
    let mut envelope = vibe_storm::envelope(&session, name, hands, None, &payload);
    envelope["idempotency_key"] = json!(format!("k-{session}"));
    envelope
}

fn bind(
    client: &mut Client<'_>,
    book: &Book<Once>,
    key: &str,
    (which, envelope): (u8, &Value),
) -> Option<Taken> {
    let id = envelope["msg_id"].as_str().unwrap();
    let (sent, begun) = client.send("/vcp", envelope.to_string().as_bytes(), id);
    let told = match sent {
        Sent::NotTaken => return None,
        Sent::Unknown => None,
        Sent::Told(answer) => {
            let said = answer.json();
            match (answer.status, said["code"].as_str()) {
                (200, _) if answer.is_replayed() => Some(Taken::Again),
                (200, _) => Some(Taken::First),
                (422, Some("idempotency_conflict")) => Some(Taken::Conflict),
                // Somebody sends the same at the same node: it says nothing.
                (409, Some("idempotency_in_flight")) => return None,
                _ => panic!("{envelope}: {said}"),
            }
        }
    };
    book.note(key, which, told, begun, client.fleet);
    told
}
