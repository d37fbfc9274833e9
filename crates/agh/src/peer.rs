//! Local peers: the record of each, and which of them are in a channel.

use chancery_core::admin::agent_key;
use chancery_core::decision::{Cx, Stop};
use chancery_core::digest::hex;
use chancery_core::inbox::InboxName;
use chancery_core::line::ProtocolName;
use chancery_core::refusal::Refusal;
use chancery_core::rows::{RowKey, RowsDamaged};
use serde::{Deserialize, Serialize};

use crate::body::card::PeerCard;
use crate::grammar::{is_channel, is_peer_id, is_workspace, split_handle};
use crate::settings::Settings;
use crate::trust::{PROFILE, handle};
use crate::whois::{Catalog, Wanted, card_with};

/// All that rules read about a local peer (CH-JRN-1).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PeerRecord {
    /// The channel it is in.
    pub channel: String,
    /// The workspace of that channel (revision B).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub workspace_id: Option<String>,
    /// What it says about itself.
    pub card: PeerCard,
    /// What it can do.
    #[serde(default, skip_serializing_if = "Catalog::is_empty")]
    pub catalog: Catalog,
    /// The public key behind its verified handle, in hex, when it has one (AG-TRU-3).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub public_key: Option<String>,
    /// Its participant, when it is not its own (CH-ID-5).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agent: Option<String>,
    /// Whether it is hosted for as long as its connection lasts.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub connected: bool,
}

/// What the node may say in the name of a peer by itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Voice {
    /// Everything, without a proof.
    Plain,
    /// Everything, with a proof under this key.
    Signed([u8; 32]),
    /// Nothing: its name is a verified handle, and only the peer has the key.
    Mute,
}

impl Voice {
    /// The key that proofs name.
    pub(crate) const fn public(&self) -> Option<&[u8; 32]> {
        match self {
            Self::Signed(public) => Some(public),
            Self::Plain | Self::Mute => None,
        }
    }

    /// Whose key signs.
    pub(crate) fn signer(&self, peer: &str) -> Option<String> {
        self.public().map(|_| peer.to_owned())
    }
}

impl PeerRecord {
    /// The record of a peer with nothing but its name and what it can do.
    pub fn new(
        peer_id: &str,
        channel: &str,
        workspace_id: Option<&str>,
        display_name: Option<&str>,
        capabilities: Vec<String>,
        catalog: Catalog,
    ) -> Self {
        let card = PeerCard {
            peer_id: peer_id.to_owned(),
            display_name: display_name.map(str::to_owned),
            profiles_supported: vec![crate::envelope::PROTOCOL.to_owned()],
            capabilities,
            artifacts_supported: vec!["capability".to_owned()],
            trust_modes_supported: vec!["unverified".to_owned()],
            ext: None,
        };
        Self {
            channel: channel.to_owned(),
            workspace_id: workspace_id.map(str::to_owned),
            card,
            catalog,
            public_key: None,
            agent: None,
            connected: false,
        }
    }

    /// The same under a key: the Peer ID is the verified handle of the nickname, and the card says so (AG-TRU-3,
    /// AG-TRU-11). None when the Peer ID is neither a nickname nor the handle of this key.
    #[must_use]
    pub fn with_key(mut self, public: &[u8; 32]) -> Option<Self> {
        let nickname = self.card.peer_id.split('@').next().unwrap_or_default();
        let handle = handle(nickname, public)?;
        if self.card.peer_id.contains('@') && self.card.peer_id != handle {
            return None;
        }
        self.card.peer_id = handle;
        self.card.profiles_supported.push(PROFILE.to_owned());
        self.card.trust_modes_supported = vec!["verified".to_owned()];
        self.public_key = Some(hex::encode(public));
        Some(self)
    }

    /// How the node speaks for it: a verified handle without its proof is rejected everywhere (AG-TRU-7).
    pub(crate) fn voice(&self, settings: &Settings) -> Voice {
        if !settings.trust.enabled || split_handle(&self.card.peer_id).is_none() {
            return Voice::Plain;
        }
        let public = self.public_key.as_deref();
        match public.and_then(|key| hex::decode_array(key).ok()) {
            Some(public) => Voice::Signed(public),
            None => Voice::Mute,
        }
    }

    /// Where it is reached.
    pub fn address(&self) -> String {
        address(
            self.workspace_id.as_deref(),
            &self.channel,
            &self.card.peer_id,
        )
    }

    /// The card with its catalog's names and short list (AG-CARD-10).
    pub fn shown_card(&self) -> PeerCard {
        card_with(&self.card, &self.catalog, &Wanted::Card)
    }

    /// The participant behind it.
    pub fn participant<'a>(&'a self, address: &'a str) -> &'a str {
        self.agent.as_deref().unwrap_or(address)
    }

    fn fault(&self) -> Option<&'static str> {
        let id = &self.card.peer_id;
        if !is_channel(&self.channel) {
            Some("not the name of a channel")
        } else if !is_peer_id(id) && split_handle(id).is_none() {
            Some("not a Peer ID")
        } else if self
            .workspace_id
            .as_deref()
            .is_some_and(|workspace| !is_workspace(workspace))
        {
            Some("not a workspace")
        } else {
            None
        }
    }
}

/// A local peer's name on record and as an inbox: `CHANNEL/PEER`, with `/WORKSPACE` for revision B. Neither of the
/// first two can hold a slash.
pub fn address(workspace: Option<&str>, channel: &str, peer: &str) -> String {
    match workspace {
        None => format!("{channel}/{peer}"),
        Some(workspace) => format!("{channel}/{peer}/{workspace}"),
    }
}

/// The channel, peer and workspace of an address.
pub fn parse_address(address: &str) -> Option<(&str, &str, Option<&str>)> {
    let (channel, rest) = address.split_once('/')?;
    Some(match rest.split_once('/') {
        None => (channel, rest, None),
        Some((peer, workspace)) => (channel, peer, Some(workspace)),
    })
}

/// The inbox of a local peer.
pub fn inbox(workspace: Option<&str>, channel: &str, peer: &str) -> InboxName {
    InboxName {
        protocol: ProtocolName::Agh,
        agent: address(workspace, channel, peer),
    }
}

/// The row of the local peers of a channel, in the order in which they joined. Channels of revision A belong to no
/// workspace, and no workspace is empty.
pub fn channel_key(workspace: Option<&str>, channel: &str) -> RowKey {
    RowKey::text("agh-peers", &[workspace.unwrap_or_default(), channel])
}

/// The local peers of a channel.
pub fn in_channel(
    cx: &Cx<'_>,
    workspace: Option<&str>,
    channel: &str,
) -> Result<Vec<String>, Stop> {
    Ok(cx
        .row(&channel_key(workspace, channel))?
        .unwrap_or_default())
}

/// The record of a local peer.
pub fn local(
    cx: &Cx<'_>,
    workspace: Option<&str>,
    channel: &str,
    peer: &str,
) -> Result<Option<PeerRecord>, Stop> {
    cx.row(&agent_key(
        ProtocolName::Agh,
        &address(workspace, channel, peer),
    ))
}

/// Keeps the list of a channel when a record changes.
pub fn changed(
    id: &str,
    before: Option<&serde_json::Value>,
    after: Option<&serde_json::Value>,
    cx: &mut Cx<'_>,
) -> Result<(), Stop> {
    if let Some(after) = after {
        let record: PeerRecord = serde_json::from_value(after.clone())
            .map_err(|_| refuse("the record of a peer cannot be read"))?;
        if let Some(reason) = record.fault() {
            return Err(refuse(reason).into());
        }
        if record.address() != id {
            return Err(refuse("a peer is named by its channel, Peer ID and workspace").into());
        }
    }
    let (channel, peer, workspace) =
        parse_address(id).ok_or_else(|| RowsDamaged(format!("{id} is no address of a peer")))?;
    let key = channel_key(workspace, channel);
    let mut peers: Vec<String> = cx.row(&key)?.unwrap_or_default();
    match (before, after) {
        (None, Some(_)) => peers.push(peer.to_owned()),
        (Some(_), None) => peers.retain(|name| name != peer),
        _ => return Ok(()),
    }
    if peers.is_empty() {
        cx.remove(key);
    } else {
        cx.put(key, &peers);
    }
    Ok(())
}

fn refuse(message: &'static str) -> Refusal {
    Refusal::new("peer_invalid", 400, "AG-ENV-5", message)
}
