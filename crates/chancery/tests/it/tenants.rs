//! Several tenants in one process on one database: journals, keys, tokens and limits apart (CH-JRN-5, CH-ID-1).

use std::io::{BufRead as _, BufReader};
use std::net::{SocketAddr, TcpListener};
use std::process::{Child, Stdio};

use chancery_core::keys::ed25519::SigningKey;
use chancery_testkit::postgres_server::PostgresServer;
use serde_json::{Value, json};

use crate::served::{HOSTED, SENDER, Share, share_from, trusted, world};
use crate::support::Place;
use crate::wire::{Wire, segment};

const NAMES: [&str; 2] = ["acme", "zenith"];
/// The same sender has another key with each of them.
const SEEDS: [[u8; 32]; 2] = [[0x61; 32], [0x62; 32]];

/// Messages of one sender that each takes in a second.
const RATES: [u32; 2] = [3, 1_000];

/// A place with two tenants on one database, and the tokens of their administrators.
fn place(server: &PostgresServer) -> (Place, [String; 2]) {
    let place = Place::new();
    let tokens = [0, 1].map(|n| {
        let (name, key) = (NAMES[n], SigningKey::from_seed(&SEEDS[n]));
        let made = place.run(&["init", name, "--json"]).exits(0).json();
        let mut world = world();
        world["trust"]["trust_anchors"][SENDER]["keys"] = json!([trusted("k-01", &key)]);
        place.write(&format!("{name}.json"), world.to_string());
        let text = format!(
            "listen = \"127.0.0.1:0\"\ndata = \"{name}/chancery-data\"\nstore = \"{}\"\njournal = \"{name}\"\n\
             [limits]\nrate_per_sender = {}\n[value_context]\nworld = \"{name}.json\"\n",
            server.url(),
            RATES[n]
        );
        place.write(&format!("{name}.toml"), text);
        made["admin_token"].as_str().unwrap().to_owned()
    });
    (place, tokens)
}

/// Both tenants, serving in one process.
struct Tenants {
    child: Child,
    addresses: [SocketAddr; 2],
}

const SERVE: [&str; 5] = ["serve", "--config", "acme.toml", "--tenant", "zenith.toml"];

impl Tenants {
    fn serve(place: &Place) -> Self {
        let mut child = place
            .command(&SERVE)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let addresses = NAMES.map(|name| {
            let line = lines.next().expect("it serves").unwrap();
            let line: Value = serde_json::from_str(&line).unwrap();
            assert_eq!(line["tenant"], name);
            line["http"].as_str().unwrap().parse().unwrap()
        });
        Self { child, addresses }
    }

    fn wire(&self, tenant: usize) -> Wire {
        Wire::connect(self.addresses[tenant]).unwrap()
    }

    /// `kill -9`.
    fn kill(mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }
}

impl Drop for Tenants {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A share that one of the tenants takes.
fn share_for(tenant: usize) -> Share {
    share_from(SENDER, SEEDS[tenant], HOSTED[0])
}

#[test]
fn two_tenants_in_one_process_share_nothing() {
    // CH-JRN-5, CH-ID-1, CH-ID-2, CH-LIM-1
    let server = PostgresServer::start();
    let (place, tokens) = place(&server);
    let tenants = Tenants::serve(&place);
    for (own, token) in tokens.iter().enumerate() {
        let other = 1 - own;
        // A token of one is none for the other.
        let log = |tenant: usize| tenants.wire(tenant).with_token(token).get("/log/1");
        log(own).unwrap().ok();
        assert_eq!(log(other).unwrap().status, 401);
        // A key of one proves nothing to the other.
        let share = share_for(own);
        let refused = tenants.wire(other).share(&share.bytes).unwrap();
        assert_ne!(refused.status, 200, "{}", refused.text());
        tenants.wire(own).share(&share.bytes).unwrap().ok();
    }
    // A sender that has used its allowance with one has all of it with the other, and there it is another one.
    let mut wire = tenants.wire(0);
    while wire.share(&share_for(0).bytes).unwrap().status != 429 {}
    let mut wire = tenants.wire(1);
    for _ in 0..RATES[0] * 20 {
        wire.share(&share_for(1).bytes).unwrap().ok();
    }
    // Each is shown its own figures, by its name.
    for (own, token) in tokens.iter().enumerate() {
        let mut wire = tenants.wire(own).with_token(token);
        let figures = wire.get("/metrics").unwrap().text();
        let of = |name: &str| figures.contains(&format!("tenant=\"{name}\""));
        assert!(of(NAMES[own]) && !of(NAMES[1 - own]), "{figures}");
    }
}

#[test]
fn what_two_tenants_acknowledged_is_there_after_a_kill() {
    // CH-NET-3, CH-JRN-5, CH-JRN-7, CH-JRN-8
    let server = PostgresServer::start();
    let (place, tokens) = place(&server);
    let tenants = Tenants::serve(&place);
    let shares = [0, 1].map(|tenant| {
        let share = share_for(tenant);
        tenants.wire(tenant).share(&share.bytes).unwrap().ok();
        share
    });
    tenants.kill();
    let tenants = Tenants::serve(&place);
    for (tenant, name) in NAMES.into_iter().enumerate() {
        let mut wire = tenants.wire(tenant).with_token(&tokens[tenant]);
        let path = format!("/inbox/value-context/{}?after=0", segment(HOSTED[0]));
        let page = wire.get(&path).unwrap().ok();
        let entries = page["entries"].as_array().unwrap();
        assert_eq!(entries.len(), 1, "{name} has its own alone");
        assert_eq!(
            entries[0]["envelope"]["message_id"],
            shares[tenant].id.as_str()
        );
    }
    tenants.kill();
    for name in NAMES {
        let file = format!("{name}.toml");
        place.run(&["log", "verify", "--config", &file]).exits(0);
        let replayed = place.run(&["log", "replay", "--json", "--config", &file]);
        assert_eq!(replayed.exits(0).json()["identical"], true);
    }
}

#[test]
fn a_tenant_that_does_not_start_is_named_and_none_serves() {
    // CH-CLI-3
    let server = PostgresServer::start();
    let (place, _) = place(&server);
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let listen = format!("listen = \"{}\"", taken.local_addr().unwrap());
    let text = place.read("zenith.toml");
    place.write(
        "zenith.toml",
        text.replace("listen = \"127.0.0.1:0\"", &listen),
    );
    let told = place.run(&SERVE).exits(2);
    assert!(told.err.contains("tenant zenith: "), "{}", told.err);
    // A configuration that is wrong is told of before anything is started.
    place.write("zenith.toml", text.replace("\"zenith\"", "\"acme\""));
    let told = place.run(&SERVE).exits(2);
    assert!(
        told.err.contains("acme and zenith have the same journal"),
        "{}",
        told.err
    );
    assert_eq!(told.text(), "", "nothing was started");
}
