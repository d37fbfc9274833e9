//! The way to vacants on other nodes: their cards are read, and calls of hosted vacants are carried to them
//! (VA-DSP-5, VA-DSP-9, VA-DSP-10).
//!
//! Guarantees: no redirect is followed; an answer is read up to a bound; an address of this machine or its network is
//! called only where the configuration says so, since it was somebody else who named it.

use std::io;
use std::sync::{Arc, Weak};

use bytes::Bytes;
use chancery_core::delivery::Delivery;
use chancery_node::vacants::{Scout, Scouted, Vacants};
use chancery_node::{Attempt, Carried, Leave};
use chancery_vacant::card::CapabilityCard;
use chancery_vacant::dispatch::error_of_status;
use chancery_vacant::error::ProtocolError;
use serde_json::Value;
use tokio::sync::watch;
use url::Url;

use crate::outgoing_http::Connections;
use crate::outgoing_tls::OutgoingTls;
use crate::public_address::{Reach, public_addresses};

/// Bytes of an answer (VA-DSP-9).
const ANSWER_BYTES: usize = 1 << 20;
/// How long reading a card may take.
const CARD_TIMEOUT: std::time::Duration = std::time::Duration::from_secs(10);
/// The extension of an A2A agent card that holds the signed card (VA-A2A-12).
const CARD_EXTENSION: &str = "urn:vacant:v1:capability";

/// The way to vacants on other nodes.
pub struct VacantsAbroad {
    connections: Connections,
    reach: Reach,
    /// The vacants of this node, once there are any: deliveries of an earlier run may wait for them.
    vacants: watch::Sender<Option<Weak<Vacants>>>,
}

impl VacantsAbroad {
    /// Goes to public addresses, and with `private` to those of this machine and its network too.
    pub fn new(tls: &OutgoingTls, private: bool) -> Self {
        let reach = match private {
            true => Reach::Anywhere,
            false => Reach::PublicOnly,
        };
        Self {
            connections: Connections::abroad(tls.clone(), reach, ANSWER_BYTES),
            reach,
            vacants: watch::Sender::new(None),
        }
    }

    /// Carries the calls of these vacants from here on.
    pub fn begin(&self, vacants: &Arc<Vacants>) {
        self.vacants.send_replace(Some(Arc::downgrade(vacants)));
    }

    /// One attempt to bring a call to its target and its answer back.
    pub(crate) fn carry(
        self: &Arc<Self>,
        delivery: Delivery,
        call: Bytes,
        leave: Leave,
    ) -> Attempt {
        let abroad = Arc::clone(self);
        Box::pin(async move { abroad.attempt(&delivery, call, &leave).await })
    }

    async fn attempt(&self, delivery: &Delivery, call: Bytes, leave: &Leave) -> Carried {
        let failed = Carried::Failed { at_least: None };
        let mut vacants = self.vacants.subscribe();
        let Ok(vacants) = vacants
            .wait_for(Option::is_some)
            .await
            .map(|known| known.clone())
        else {
            return failed;
        };
        let Some(vacants) = vacants.and_then(|vacants| vacants.upgrade()) else {
            return failed;
        };
        // What became of it may be on record since the last attempt.
        let Some(awaited) = vacants.awaited(&call) else {
            return Carried::Delivered;
        };
        let url = match self.may_call(&delivery.to).await {
            Ok(url) => url,
            Err(Away::Never(error)) => {
                return vacants.call_refused(&awaited, error).await;
            }
            Err(Away::Now) => return failed,
        };
        match self.connections.post(&url, framed(&call), leave).await {
            Ok(answer) => match vacants
                .heard_from(&awaited, answer.status, &answer.body)
                .await
            {
                Carried::Failed { .. } => Carried::Failed {
                    at_least: answer.retry_after_s.map(crate::carrier::asked_pause),
                },
                carried => carried,
            },
            Err(error) => {
                tracing::debug!(%error, to = delivery.to, "a call did not get through");
                failed
            }
        }
    }

    /// The address, when it is one that may be called.
    async fn may_call(&self, address: &str) -> Result<Url, Away> {
        let never = |why: String| Away::Never(ProtocolError::Transport(why.into()));
        let url = Url::parse(address).ok();
        let url = url.filter(|url| matches!(url.scheme(), "http" | "https") && url.has_host());
        let url = url.ok_or_else(|| never("an endpoint is no http or https address".to_owned()))?;
        if self.reach == Reach::PublicOnly {
            match public_addresses(&url).await {
                Ok(_) => {}
                Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
                    return Err(never(format!("the endpoint is not called: {error}")));
                }
                Err(_) => return Err(Away::Now),
            }
        }
        Ok(url)
    }

    async fn read_card(&self, address: &str) -> Result<CapabilityCard, ProtocolError> {
        let mut url = self.may_call(address).await?;
        if matches!(url.path(), "" | "/") {
            url.set_path("/card");
        }
        let read = tokio::time::timeout(CARD_TIMEOUT, self.connections.get(&url)).await;
        let away = || ProtocolError::Transport("the card cannot be read".into());
        let answer = read.map_err(|_| away())?.map_err(|_| away())?;
        if answer.status != 200 {
            return Err(error_of_status(answer.status, None));
        }
        let body: Value = serde_json::from_slice(&answer.body).unwrap_or_default();
        let blob = blob_of(&body).and_then(|text| chancery_core::digest::hex::decode(text).ok());
        let blob = blob.ok_or_else(|| ProtocolError::format("the address tells no signed card"))?;
        CapabilityCard::deserialize(&blob)
    }
}

/// Why an address is not called.
enum Away {
    /// It must not be.
    Never(ProtocolError),
    /// Its name leads nowhere at the moment.
    Now,
}

impl From<Away> for ProtocolError {
    fn from(away: Away) -> Self {
        match away {
            Away::Never(error) => error,
            Away::Now => Self::Transport("the name of the address is not known".into()),
        }
    }
}

/// The signed card in hex: of a vacant's `/card`, or from the extension of an agent card (VA-A2A-12).
fn blob_of(body: &Value) -> Option<&str> {
    let extensions = body["capabilities"]["extensions"].as_array();
    let extension = extensions
        .into_iter()
        .flatten()
        .find(|extension| extension["uri"] == CARD_EXTENSION);
    let blob = match extension {
        Some(extension) => &extension["params"]["capability_card_blob_hex"],
        None => &body["capability_card_blob_hex"],
    };
    blob.as_str()
}

/// A recorded message in the frame of the native path.
fn framed(message: &Bytes) -> Bytes {
    let pieces: [&[u8]; 3] = [
        br#"{"jsonrpc":"2.0","id":1,"method":"message/send","params":{"message":"#,
        message,
        b"}}",
    ];
    pieces.concat().into()
}

impl Scout for VacantsAbroad {
    fn card(self: Arc<Self>, url: String) -> Scouted<CapabilityCard> {
        Box::pin(async move { self.read_card(&url).await })
    }

    fn check(self: Arc<Self>, endpoint: String) -> Scouted<()> {
        Box::pin(async move {
            self.may_call(&endpoint).await?;
            Ok(())
        })
    }
}
