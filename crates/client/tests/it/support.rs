//! A node in this process with a grandparent, a parent and a child, and both ways to it.

use chancery_client::{Agent, Embedded, Place, Remote};
use serde_json::json;

pub const GRANDPARENT: &str = "agent://home.local/house";
pub const PARENT: &str = "agent://home.local/parent";
pub const CHILD: &str = "agent://home.local/child";
/// A parent that is nowhere.
pub const ABSENT: &str = "agent://127.0.0.1:9/absent";
/// The child of that one.
pub const ORPHAN: &str = "agent://home.local/orphan";

pub fn world() -> String {
    let agent = |id: &str, parent: Option<&str>, children: &[&str]| json!({"id": id, "parent": parent, "children": children, "peers": []});
    json!({
        "trust": {"trust_anchors": {}},
        "local_agents": [
            agent(GRANDPARENT, None, &[PARENT]),
            agent(PARENT, Some(GRANDPARENT), &[CHILD]),
            agent(CHILD, Some(PARENT), &[]),
            agent(ORPHAN, Some(ABSENT), &[]),
        ],
        "secret_seeds_hex": {ORPHAN: "03".repeat(32)},
    })
    .to_string()
}

/// How the agents of a test reach their node.
#[derive(Clone, Copy, Debug)]
pub enum By {
    TheProcess,
    Http,
}

pub struct Stage {
    pub node: Embedded,
    remote: Option<Remote>,
}

impl Stage {
    pub async fn set(by: By) -> Self {
        let listen = Some(([127, 0, 0, 1], 0).into());
        let node = Embedded::start(&world(), Place::Memory, listen)
            .await
            .unwrap();
        let mut remote = None;
        if let By::Http = by {
            let agents = [GRANDPARENT, PARENT, CHILD, ORPHAN];
            let scopes = agents.iter().flat_map(|agent| {
                ["send", "read:inbox", "read:state"].map(|what| format!("{what}:{agent}"))
            });
            let issued = node.office().issue_token("tester", scopes.collect()).await;
            let token = issued.unwrap().1;
            let address = node.address().unwrap();
            let base = address.strip_suffix("/.well-known/vcp/messages").unwrap();
            remote = Some(Remote::new(base, Some(&token)).unwrap());
        }
        Self { node, remote }
    }

    pub fn agent(&self, id: &str) -> Agent {
        match &self.remote {
            Some(remote) => remote.agent(id),
            None => self.node.agent(id),
        }
    }
}
