//! Calls that a stop left without an outcome (CH-JRN-16).

use std::sync::Arc;

use chancery_core::protocol::Failure;
use chancery_store::StoreError;
use chancery_vacant::answer::Accepted;
use chancery_vacant::rules::{OpenCall, line_of_call, open_calls_prefix};

use super::behaviour::Behaviour;
use super::bindings::{Binding, Open};
use super::{HostedVacant, OnRestart, Vacants};

impl Vacants {
    /// Carries every call without an outcome to one: a pure behaviour runs again, any other is closed as interrupted
    /// unless the vacant is configured otherwise. Gives how many there were.
    pub async fn resume(self: &Arc<Self>) -> Result<usize, StoreError> {
        let store = self.office.gate().store();
        let rows = store.scan(&open_calls_prefix(), None, usize::MAX)?;
        for (key, row) in &rows {
            let call: OpenCall = serde_json::from_slice(row)
                .map_err(|error| StoreError(format!("{key:?}: {error}")))?;
            let line =
                line_of_call(key).ok_or_else(|| StoreError(format!("{key:?} names no line")))?;
            let accepted = Accepted {
                call: line,
                name: call.name,
                caller: call.from,
                profile: call.profile,
            };
            self.resume_one(accepted).await;
        }
        Ok(rows.len())
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
