//! A real node, started as people start it: `init`, a world, `serve`. It ends with the test.

use std::io::{BufRead as _, BufReader};
use std::path::PathBuf;
use std::process::{Child, Stdio};

use serde_json::{Value, json};

use crate::served::signal;
use crate::support::{Place, Ran};

pub const LIVING_ROOM: &str = "agent://home.local/living-room";
pub const KITCHEN: &str = "agent://home.local/kitchen";

/// A node with two agents that know each other; the key of each is in `living-room.key` and `kitchen.key`.
pub struct RunningNode {
    pub place: Place,
    pub url: String,
    /// The text of the first token.
    pub admin: String,
    child: Child,
}

impl RunningNode {
    pub fn start() -> Self {
        Self::start_with(&[])
    }

    /// The same with further variables set.
    pub fn start_with(variables: &[(&str, &str)]) -> Self {
        let place = variables
            .iter()
            .fold(Place::new(), |place, (name, value)| place.with(name, value));
        Self::begin(place, |_| {})
    }

    /// The same with files of its own, written after `init`.
    pub fn start_in(prepare: impl FnOnce(&Place)) -> Self {
        Self::begin(Place::new(), prepare)
    }

    fn begin(place: Place, prepare: impl FnOnce(&Place)) -> Self {
        let told = place.run(&["init", "--json"]).exits(0).json();
        let admin = told["admin_token"].as_str().unwrap().to_owned();
        prepare(&place);
        let keys = [("living-room.key", LIVING_ROOM), ("kitchen.key", KITCHEN)];
        let anchors: serde_json::Map<String, Value> = keys
            .into_iter()
            .map(|(file, id)| {
                let entry = place.run(&["key", "new", file, "--json"]).exits(0).json();
                (id.to_owned(), json!({"type": "agent", "keys": [entry]}))
            })
            .collect();
        let agent = |id, peer| json!({"id": id, "parent": null, "children": [], "peers": [peer]});
        let world = json!({
            "trust": {"trust_anchors": anchors},
            "local_agents": [agent(LIVING_ROOM, KITCHEN), agent(KITCHEN, LIVING_ROOM)],
        });
        place.write("agents.json", world.to_string());
        let place = place.with("CHANCERY_VALUE_CONTEXT_WORLD", "agents.json");
        let mut child = place
            .command(&["serve", "--listen", "127.0.0.1:0"])
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap())
            .read_line(&mut line)
            .unwrap();
        let started: Value = serde_json::from_str(&line).unwrap();
        Self {
            url: format!("http://{}", started["http"].as_str().unwrap()),
            place,
            admin,
            child,
        }
    }

    /// Stops it; it has to end well.
    pub fn stop_well(&mut self) {
        signal("TERM", self.pid());
        let status = self.child.wait().unwrap();
        assert!(status.success(), "{status}");
    }

    /// The process.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Runs a command with the first token.
    pub fn run(&self, arguments: &[&str]) -> Ran {
        self.run_as(Some(&self.admin), arguments)
    }

    /// Runs a command with a token in the environment.
    pub fn run_as(&self, token: Option<&str>, arguments: &[&str]) -> Ran {
        let mut command = self.place.command(arguments);
        command.env("CHANCERY_URL", &self.url);
        if let Some(token) = token {
            command.env("CHANCERY_TOKEN", token);
        }
        let output = command.stdin(Stdio::null()).output().unwrap();
        Ran::from(output)
    }

    /// Sends a share from the living room to the kitchen, signed with a key file; no token is needed for that.
    pub fn send_share(&self, key: &str) -> Ran {
        let file = self.share();
        let file = file.to_str().unwrap();
        self.run_as(
            None,
            &["send", "value-context", file, "--key", key, "--json"],
        )
    }

    /// Writes what a caller has to say of a share.
    pub fn share(&self) -> PathBuf {
        let members = json!({
            "type": "context_share",
            "sender": LIVING_ROOM,
            "recipient": KITCHEN,
            "payload": {
                "context": "⏰🌅|📍🏡|👥👶",
                "constitution_ref": "creed://creed.space/family.safe.guide@1.2.0",
            },
        });
        self.place.write("share.json", members.to_string())
    }
}

impl Drop for RunningNode {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
