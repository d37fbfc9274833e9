//! What each verb does, and what becomes of timers and failed deliveries.

use std::time::Duration;

use chancery_core::decision::{Cx, Guard, Stop, Verdict};
use chancery_core::delivery::Delivery;
use chancery_core::inbox::InboxName;
use chancery_core::line::{Draft, DraftEnvelope, Origin, ProtocolName, Seq};
use chancery_core::protocol::Failure;
use chancery_core::refusal::Refusal;
use chancery_core::time::Time;
use chancery_core::timer::TimerName;
use serde::{Deserialize, Serialize};

use super::{
    Rules, TestAnswer, TestTimer, chain_key, failed_act, later_key, node_line, sent_key, thing_key,
    whisper,
};
use crate::message::{TestOutgoing, envelope};

/// The longest `later`.
const LONGEST_MS: u64 = 86_400_000;

#[derive(Clone, Serialize, Deserialize)]
struct Later {
    due: Time,
}

/// A `timer` line.
#[derive(Serialize)]
struct TimerLine<'t> {
    kind: &'static str,
    protocol: ProtocolName,
    timer: &'t TestTimer,
}

impl Rules<'_> {
    /// Writes the envelope's line and does what its verb says.
    pub(super) fn verb(
        &self,
        id: &str,
        from: &str,
        content: &TestOutgoing,
        draft: Draft,
        cx: &mut Cx<'_>,
    ) -> Result<Verdict<TestAnswer>, Stop> {
        let value = content.value.as_deref();
        match content.verb.as_str() {
            "whisper" => {
                cx.whisper(whisper(&content.to));
                return Ok(Verdict::Pass {
                    answer: TestAnswer::Nothing,
                    repeat: Vec::new(),
                });
            }
            "refuse" => {
                if value.is_some() {
                    cx.whisper(whisper(from));
                }
                return Err(refused("refused", "this verb is always refused"));
            }
            "guarded" => {
                let shut =
                    || Refusal::new("too_fast", 429, "CH-LIM-1", "too many from this sender");
                cx.guard(Guard::Rate { sender: from }, shut)?;
            }
            "chain" => next_of_chain(from, &content.to, value, cx)?,
            "lookup" => {
                let key = thing_key(value.unwrap_or_default());
                let count: u64 = cx.row(&key)?.unwrap_or_default();
                cx.put(key, &(count + 1));
            }
            "name" => {
                let key = thing_key(&cx.uuid4().to_string());
                let count: u64 = cx.row(&key)?.unwrap_or_default();
                cx.put(key, &(count + 1));
            }
            "cancel" => cancel(value.unwrap_or_default(), cx)?,
            "note" | "urgent" | "batch" | "follow" | "later" | "send" => {}
            _ => return Err(refused("unknown_verb", "no such verb")),
        }
        let seq = cx.line(draft);
        match content.verb.as_str() {
            "batch" => self.batch(from, &content.to, cx),
            "follow" => derived(&content.to, from, "followed", Some(id), cx),
            "later" => later(id, from, &content.to, value, cx)?,
            "send" => self.send(from, &content.to, seq, cx),
            _ => {}
        }
        cx.inbox(inbox(&content.to), seq);
        Ok(Verdict::Record {
            answer: TestAnswer::Accepted {
                id: id.to_owned(),
                seq,
            },
        })
    }

    fn batch(&self, from: &str, to: &str, cx: &mut Cx<'_>) {
        for index in 1..=3 {
            let text = if self.altered && index == 2 {
                "two"
            } else {
                ["1", "2", "3"][index - 1]
            };
            derived(from, to, "part", Some(text), cx);
        }
    }

    fn send(&self, from: &str, to: &str, seq: Seq, cx: &mut Cx<'_>) {
        cx.put(sent_key(seq), &from);
        cx.deliver(seq, self.delivery(from, to));
    }

    pub(super) fn delivery(&self, from: &str, to: &str) -> Delivery {
        Delivery {
            protocol: ProtocolName::Test,
            from: from.to_owned(),
            to: to.to_owned(),
            exempt: false,
            pauses_ms: self.settings.pauses_ms.clone(),
            attempt_ms: self.settings.attempt_ms,
            within_ms: None,
            then_ask: None,
        }
    }

    pub(super) fn timer(
        &self,
        timer: &TestTimer,
        cx: &mut Cx<'_>,
    ) -> Result<Verdict<TestAnswer>, Stop> {
        let key = later_key(&timer.id);
        let Some(Later { due }) = cx.row(&key)? else {
            return Ok(Verdict::Pass {
                answer: TestAnswer::Nothing,
                repeat: Vec::new(),
            });
        };
        cx.remove(key);
        cx.cancel_timer(&timer_name(&timer.id), due);
        let line = TimerLine {
            kind: "timer",
            protocol: ProtocolName::Test,
            timer,
        };
        let seq = cx.line(node_line(&line, Some(cx.now())));
        derived(&timer.from, &timer.to, "due", Some(&timer.id), cx);
        Ok(Verdict::Record {
            answer: TestAnswer::Acted { seq },
        })
    }

    pub(super) fn failed(
        &self,
        of: Seq,
        about: &str,
        why: Failure,
        cx: &mut Cx<'_>,
    ) -> Result<Verdict<TestAnswer>, Stop> {
        let Some(from) = cx.row::<String>(&sent_key(of))? else {
            return Ok(Verdict::Pass {
                answer: TestAnswer::Nothing,
                repeat: Vec::new(),
            });
        };
        cx.remove(sent_key(of));
        let seq = cx.line(node_line(&failed_act(of, about, why), Some(cx.now())));
        derived(about, &from, "undelivered", None, cx);
        Ok(Verdict::Record {
            answer: TestAnswer::Acted { seq },
        })
    }
}

fn next_of_chain(from: &str, to: &str, value: Option<&str>, cx: &mut Cx<'_>) -> Result<(), Stop> {
    let key = chain_key(from, to);
    let last: u64 = cx.row(&key)?.unwrap_or_default();
    if value.and_then(|value| value.parse().ok()) != Some(last + 1) {
        return Err(refused("out_of_turn", "not the next of this pair"));
    }
    cx.put(key, &(last + 1));
    Ok(())
}

fn later(id: &str, from: &str, to: &str, value: Option<&str>, cx: &mut Cx<'_>) -> Result<(), Stop> {
    let delay_ms = value
        .and_then(|value| value.parse().ok())
        .filter(|delay| *delay <= LONGEST_MS);
    let Some(delay_ms) = delay_ms else {
        return Err(refused("malformed", "value is no delay"));
    };
    let due = cx
        .now()
        .saturating_add(Duration::from_millis(delay_ms))
        .truncate_to_micros();
    let timer = TestTimer {
        id: id.to_owned(),
        from: from.to_owned(),
        to: to.to_owned(),
    };
    cx.put(later_key(id), &Later { due });
    cx.set_timer(&timer_name(id), due, &timer);
    Ok(())
}

fn cancel(id: &str, cx: &mut Cx<'_>) -> Result<(), Stop> {
    let Some(Later { due }) = cx.row(&later_key(id))? else {
        return Err(refused("unknown_timer", "no such timer"));
    };
    cx.remove(later_key(id));
    cx.cancel_timer(&timer_name(id), due);
    Ok(())
}

/// Adds a line that the rules derive, with a fresh identifier, and puts it into the recipient's inbox.
fn derived(from: &str, to: &str, verb: &'static str, value: Option<&str>, cx: &mut Cx<'_>) {
    let id = cx.uuid4().to_string();
    let bytes = envelope(&[
        ("id", Some(&id)),
        ("from", Some(from)),
        ("to", Some(to)),
        ("verb", Some(verb)),
        ("value", value),
    ]);
    let seq = cx.line(Draft {
        protocol: ProtocolName::Test,
        origin: Origin::Runtime,
        envelope: DraftEnvelope::Whole(bytes),
        raw: None,
        signature: None,
        eval_ts: Some(cx.now()),
        meta: Vec::new(),
    });
    cx.inbox(inbox(to), seq);
}

fn timer_name(id: &str) -> TimerName {
    TimerName {
        protocol: ProtocolName::Test,
        name: id.to_owned(),
    }
}

fn inbox(agent: &str) -> InboxName {
    InboxName {
        protocol: ProtocolName::Test,
        agent: agent.to_owned(),
    }
}

fn refused(code: &'static str, message: &'static str) -> Stop {
    Refusal::new(code, 409, "CH-JRN-1", message)
        .in_check(code)
        .into()
}
