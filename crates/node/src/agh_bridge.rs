//! The bridge between the revisions (AG-B-46), as a hosted peer: what it gets on one side it sends on the other.

use std::sync::{Arc, Mutex, PoisonError};

use chancery_agh::bridge::{Crossing, OtherSide, work};
use chancery_agh::fault::{ErrorName, Reason};
use chancery_agh::peer::inbox;
use chancery_agh::revision::Revision;
use chancery_agh::rules::{StoredInteraction, interaction_key, interactions_prefix};
use chancery_agh::settings::Bridge;
use chancery_core::line::Seq;
use chancery_store::StoreError;
use hashbrown::HashMap;
use serde_json::Value;

use crate::agh_hosted::{Hosted, blocking, follow, send};
use crate::office::Office;

/// Names of interactions that are another in revision B; beyond it those on record are looked up anew.
const RENAMED: usize = 200_000;

/// A bridge at work.
struct Ferry {
    office: Arc<Office>,
    bridge: Bridge,
    /// By the name in revision B, that in A.
    renamed: Mutex<HashMap<String, String>>,
}

/// Brings what the bridge gets on each side to the other, until the node stops.
pub async fn bridge(office: Arc<Office>, bridge: Bridge) {
    let ferry = Arc::new(Ferry {
        office,
        bridge,
        renamed: Mutex::default(),
    });
    let looked = Arc::clone(&ferry);
    if let Err(error) = blocking(move || looked.look_up()).await {
        tracing::warn!(%error, "the bridge does not know older interactions");
    }
    tokio::join!(carry(&ferry, Revision::A), carry(&ferry, Revision::B));
}

async fn carry(ferry: &Arc<Ferry>, from: Revision) {
    let (workspace, channel) = ferry.bridge.place(from);
    let name = inbox(workspace, channel, &ferry.bridge.peer);
    let side = Side {
        ferry: Arc::clone(ferry),
        from,
    };
    follow(&ferry.office, name, &side).await;
}

/// The bridge as a peer on one side.
struct Side {
    ferry: Arc<Ferry>,
    from: Revision,
}

impl Hosted for Side {
    async fn deal_with(&self, seq: Seq, envelope: &Value) {
        self.ferry.cross(self.from, seq, envelope).await;
    }
}

impl Ferry {
    async fn cross(self: &Arc<Self>, from: Revision, seq: Seq, envelope: &Value) {
        let known = match self.other_side(from, envelope).await {
            Ok(known) => known,
            Err(error) => {
                tracing::warn!(%error, seq, "what is on the other side could not be read");
                return;
            }
        };
        let reason = match self.bridge.across(envelope, from, known.as_ref()) {
            Crossing::Stays => return,
            Crossing::Nobody => Reason::NotFound,
            Crossing::Over(body) => {
                match send(&self.office, format!("bridge-{seq}"), &body).await {
                    Ok(_) => return,
                    Err(refusal) => {
                        tracing::debug!(%refusal, seq, "the other side does not take an envelope");
                        let error = ErrorName::parse(refusal.code);
                        error.map_or(Reason::Internal, ErrorName::reason)
                    }
                }
            }
        };
        let asks = matches!(
            envelope["kind"].as_str(),
            Some("direct" | "say" | "capability")
        );
        if asks && envelope["to"].is_string() && work(envelope, from).is_some() {
            let receipt = self.bridge.refusal(envelope, from, reason);
            // Where the work has ended meanwhile, its end was told.
            let _ = send(&self.office, format!("bridge-{seq}-refused"), &receipt).await;
        }
    }

    /// The work of an envelope as it is on record on the other side.
    async fn other_side(
        self: &Arc<Self>,
        from: Revision,
        envelope: &Value,
    ) -> Result<Option<OtherSide>, StoreError> {
        let Some(work) = work(envelope, from).map(str::to_owned) else {
            return Ok(None);
        };
        let ferry = Arc::clone(self);
        blocking(move || {
            let (side, work) = match from {
                Revision::A => (Revision::B, ferry.named_in_b(&work)?),
                Revision::B => (Revision::A, ferry.named_in_a(work)),
            };
            Ok(ferry.stored(side, &work)?.map(|stored| {
                let interaction = stored.interaction;
                let is_ours = interaction.initiator == ferry.bridge.peer;
                OtherSide {
                    work,
                    peer: match is_ours {
                        true => interaction.target,
                        false => interaction.initiator,
                    },
                    container: interaction.container,
                }
            }))
        })
        .await
    }

    fn named_in_b(&self, interaction: &str) -> Result<String, StoreError> {
        let work = self.bridge.work_of(interaction);
        if work != interaction {
            let mut renamed = self.renamed.lock().unwrap_or_else(PoisonError::into_inner);
            let is_full = renamed.len() >= RENAMED;
            renamed.insert(work.clone(), interaction.to_owned());
            drop(renamed);
            if is_full {
                self.look_up()?;
            }
        }
        Ok(work)
    }

    fn named_in_a(&self, work: String) -> String {
        let renamed = self.renamed.lock().unwrap_or_else(PoisonError::into_inner);
        renamed.get(&work).cloned().unwrap_or(work)
    }

    /// Knows the names of the interactions on record, and no others.
    fn look_up(&self) -> Result<(), StoreError> {
        let prefix = interactions_prefix(None, &self.bridge.channel_a);
        let rows = self
            .office
            .gate()
            .store()
            .scan(&prefix, None, RENAMED / 2)?;
        let names = rows.into_iter().filter_map(|(key, _)| {
            let name = String::from_utf8(key.parts().pop()?).ok()?;
            let work = self.bridge.work_of(&name);
            (work != name).then_some((work, name))
        });
        *self.renamed.lock().unwrap_or_else(PoisonError::into_inner) = names.collect();
        Ok(())
    }

    /// A work that the bridge takes part in.
    fn stored(&self, side: Revision, work: &str) -> Result<Option<StoredInteraction>, StoreError> {
        let (workspace, channel) = self.bridge.place(side);
        let key = interaction_key(workspace, channel, work);
        let found: Option<StoredInteraction> = self.office.row(&key)?;
        Ok(found.filter(|stored| {
            let interaction = &stored.interaction;
            let peer = &self.bridge.peer;
            interaction.initiator == *peer || interaction.target == *peer
        }))
    }
}
