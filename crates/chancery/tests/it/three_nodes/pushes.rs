//! Messages of a hosted agent to somebody elsewhere, who takes them all: what a node acknowledged arrives at least once, by
//! whichever node is there.

use std::collections::{BTreeSet, VecDeque};
use std::net::TcpListener;
use std::sync::{Arc, Condvar, Mutex};
use std::time::{Duration, Instant};

use chancery_core::keys::ed25519::SigningKey;
use serde_json::{Value, json};

use super::clients::{Client, Sent};
use crate::served::{trusted, world};
use crate::two_nodes_duties::{ELSEWHERE, ELSEWHERE_SEED, SPEAKER, take};

/// Secret of the speaker.
const SPEAKER_SEED: [u8; 32] = [0x43; 32];
/// Messages of one client under way: a fault finds some of them.
const UNDER_WAY: usize = 8;
/// How long a client waits for the oldest of them.
const WAITS: Duration = Duration::from_secs(2);
/// How long the last may take when nothing goes wrong any more.
const PATIENCE: Duration = Duration::from_secs(120);

/// What has arrived elsewhere.
#[derive(Default)]
struct Arrived {
    ids: Mutex<BTreeSet<String>>,
    more: Condvar,
}

impl Arrived {
    /// Waits until this is there; whether it is.
    fn has(&self, id: &str, patience: Duration) -> bool {
        let ids = self.ids.lock().unwrap();
        let lacks = |ids: &mut BTreeSet<String>| !ids.contains(id);
        let (ids, _) = self.more.wait_timeout_while(ids, patience, lacks).unwrap();
        ids.contains(id)
    }
}

/// What was acknowledged, and what arrived.
pub struct Pushes {
    acknowledged: Mutex<Vec<String>>,
    arrived: Arc<Arrived>,
    pub address: String,
}

impl Pushes {
    /// Somebody elsewhere listens from here on.
    pub fn begin() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = format!("http://{}", listener.local_addr().unwrap());
        let arrived = Arc::<Arrived>::default();
        let taking = Arc::clone(&arrived);
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let arrived = Arc::clone(&taking);
                // A node that is paused in the middle of a message keeps nobody waiting.
                std::thread::spawn(move || {
                    if let Some(id) = take(stream) {
                        arrived.ids.lock().unwrap().insert(id);
                        arrived.more.notify_all();
                    }
                });
            }
        });
        Self {
            acknowledged: Mutex::default(),
            arrived,
            address,
        }
    }

    /// The world of the other clients with a speaker in it, who knows somebody elsewhere.
    pub fn world(&self) -> Value {
        let mut world = world();
        for (id, seed) in [(SPEAKER, SPEAKER_SEED), (ELSEWHERE, ELSEWHERE_SEED)] {
            let key = SigningKey::from_seed(&seed);
            world["trust"]["trust_anchors"][id] =
                json!({"type": "agent", "keys": [trusted("k-01", &key)]});
        }
        let speaker = json!({"id": SPEAKER, "parent": null, "children": [], "peers": [ELSEWHERE]});
        world["local_agents"].as_array_mut().unwrap().push(speaker);
        world["addresses"] = json!({ELSEWHERE: self.address});
        world["secret_seeds_hex"] = json!({SPEAKER: "43".repeat(32)});
        world
    }

    /// Waits for everything that was acknowledged; tells how much that was.
    pub fn all_arrived(&self) {
        let acknowledged = self.acknowledged.lock().unwrap();
        let begun = Instant::now();
        for id in &*acknowledged {
            let left = PATIENCE.saturating_sub(begun.elapsed());
            assert!(
                self.arrived.has(id, left),
                "acknowledged, never delivered: {id}"
            );
        }
        println!(
            "{} deliveries acknowledged, the last one arrived after {:?}",
            acknowledged.len(),
            begun.elapsed()
        );
        assert!(!acknowledged.is_empty(), "nobody said anything");
    }
}

/// Says one thing after the other, with a few of them under way.
pub fn push(mut client: Client<'_>, pushes: &Pushes) {
    let says = json!({
        "sender": SPEAKER, "recipient": ELSEWHERE, "type": "context_share",
        "payload": {"context": "📍🏡", "constitution_ref": "creed://creed.space/home@1.0.0"},
    });
    let says = says.to_string();
    let mut under_way = VecDeque::new();
    while !client.fleet.is_over() {
        if let (Sent::Told(answer), _) = client.ask("/send/value-context", says.as_bytes()) {
            let told = answer.ok();
            let id = told["message_id"].as_str().unwrap().to_owned();
            pushes.acknowledged.lock().unwrap().push(id.clone());
            under_way.push_back(id);
        }
        if under_way.len() >= UNDER_WAY
            && let Some(oldest) = under_way.pop_front()
        {
            // Some other time, if not now.
            let _ = pushes.arrived.has(&oldest, WAITS);
        }
    }
}
