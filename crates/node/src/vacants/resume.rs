//! Calls that a stop left without an outcome (CH-JRN-16).

use std::sync::Arc;
use std::time::Duration;

use chancery_core::line::Seq;
use chancery_core::protocol::Failure;
use chancery_journal::line::parse;
use chancery_store::StoreError;
use chancery_vacant::answer::Accepted;
use chancery_vacant::rules::{OpenCall, line_of_call, open_calls_prefix};

use super::behaviour::Behaviour;
use super::bindings::{Binding, Open};
use super::{HostedVacant, OnRestart, Vacants};

/// What a process is given beyond the time of a behaviour, and between two looks at what was left behind.
const LEEWAY: Duration = Duration::from_secs(5);

impl Vacants {
    /// Carries every call without an outcome to one: a pure behaviour runs again, any other is closed as interrupted
    /// unless the vacant is configured otherwise. Gives how many there were.
    pub async fn resume(self: &Arc<Self>) -> Result<usize, StoreError> {
        self.resume_older(Duration::ZERO).await
    }

    /// Where the journal is shared: carries calls that another process left behind to an outcome, for ever, while the
    /// duties are this process's. One that lives gives each call an outcome in the time that a behaviour has.
    pub async fn resume_those_left_behind(self: Arc<Self>) {
        loop {
            self.office.duty_begun().await;
            if let Err(error) = self.resume_older(self.timeout + LEEWAY).await {
                tracing::warn!(%error, "calls that were left behind cannot be read");
            }
            tokio::time::sleep(LEEWAY).await;
        }
    }

    async fn resume_older(self: &Arc<Self>, age: Duration) -> Result<usize, StoreError> {
        let gate = self.office.gate();
        let rows = gate.store().scan(&open_calls_prefix(), None, usize::MAX)?;
        let mut resumed = 0;
        for (key, row) in &rows {
            let call: OpenCall = serde_json::from_slice(row)
                .map_err(|error| StoreError(format!("{key:?}: {error}")))?;
            let line =
                line_of_call(key).ok_or_else(|| StoreError(format!("{key:?} names no line")))?;
            if self.age(line) < age {
                continue;
            }
            let accepted = Accepted {
                call: line,
                name: call.name,
                caller: call.from,
                profile: call.profile,
            };
            self.resume_one(accepted).await;
            resumed += 1;
        }
        Ok(resumed)
    }

    /// How long ago a line was written; one that cannot be read is new.
    fn age(&self, line: Seq) -> Duration {
        let gate = self.office.gate();
        let text = gate
            .store()
            .lines(line, 1)
            .ok()
            .and_then(|mut lines| lines.pop());
        let read = text.and_then(|text| parse(&text).ok());
        let written = read.and_then(|line| line.eval_ts);
        let age = written.and_then(|at| gate.clock().now().since(at));
        age.unwrap_or_default()
    }

    async fn resume_one(self: &Arc<Self>, accepted: Accepted) {
        let vacant = self.find(&accepted.name).cloned();
        let heard = self.heard_at(accepted.call);
        match (vacant, heard) {
            // Its owner answers when it comes to it.
            (Some(vacant), Some(_)) if runs_again(&vacant) && is_inbox(&vacant) => {}
            (Some(vacant), Some(heard)) if runs_again(&vacant) => {
                // The outcome is on record either way; nobody waits for it.
                let is_slow = matches!(vacant.behaviour, Behaviour::Asks(_));
                let call = Open {
                    at: vacant,
                    accepted,
                    heard,
                    binding: Binding::Native,
                    slot: None,
                    // Told before the node stopped.
                    passage: None,
                };
                if is_slow {
                    // It may take its whole time: the node does not wait for it to start.
                    let vacants = Arc::clone(self);
                    tokio::spawn(async move { vacants.run(call).await });
                } else {
                    let _ = self.carry_through(call).await;
                }
            }
            _ => {
                self.fail(accepted.call, &accepted.caller, Failure::Interrupted)
                    .await;
            }
        }
    }
}

fn runs_again(vacant: &HostedVacant) -> bool {
    vacant.on_restart == OnRestart::Rerun || vacant.behaviour.is_pure()
}

fn is_inbox(vacant: &HostedVacant) -> bool {
    matches!(vacant.behaviour, Behaviour::Inbox)
}
