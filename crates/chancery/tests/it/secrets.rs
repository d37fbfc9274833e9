//! Canary secrets go through a node (CH-ID-3, CH-JRN-6, CH-JRN-11): where they must not come out again, they do not.

use std::os::unix::fs::PermissionsExt as _;

use chancery_core::digest::hex;
use chancery_core::json::{Object, ReadRules, Value as Json, read};
use chancery_core::keys::base64;
use chancery_core::keys::ed25519::SigningKey;
use chancery_value_context::message::decode;
use serde_json::{Value, json};

use crate::served::{HOSTED, Served, Share, now, payload, share_with, trusted, world};
use crate::support::Place;
use crate::wire::{Answer, Wire, segment};

/// The secret seed of a hosted agent.
const SEED: [u8; 32] = *b"canary seed of the kitchen agent";
/// Values of `personal_state` in a message that is accepted, and in ones that are refused.
const ACCEPTED_STATE: [&str; 2] = ["4.2736459182", "6.1908273645"];
const REFUSED_STATE: &str = "canary-state-of-a-refused-share";
const REFUSED_NUMBER: &str = "77.4519283746";

/// A node as operators run it: tokens, a key file, and the most talkative log.
fn place() -> (Place, String) {
    let place = Place::new()
        .with("CHANCERY_LISTEN", "127.0.0.1:0")
        .with("CHANCERY_VALUE_CONTEXT_WORLD", "world.json")
        .with("CHANCERY_LOG", "trace");
    let made = place.run(&["init", ".", "--json"]).exits(0).json();
    let token = made["admin_token"].as_str().unwrap().to_owned();
    let key = place.write("kitchen.key", hex::encode(&SEED));
    std::fs::set_permissions(&key, std::fs::Permissions::from_mode(0o600)).unwrap();
    let mut world = world();
    world["local_agents"][0]["key_file"] = json!("kitchen.key");
    let anchor = json!({"type": "agent", "keys": [trusted("k-01", &SigningKey::from_seed(&SEED))]});
    world["trust"]["trust_anchors"][HOSTED[0]] = anchor;
    place.write("world.json", world.to_string());
    (place, token)
}

/// Every way a seed or a token could be written.
fn secrets(token: &str) -> Vec<Vec<u8>> {
    let (_, half) = token.split_once('.').unwrap();
    vec![
        SEED.to_vec(),
        hex::encode(&SEED).into_bytes(),
        hex::encode(&SEED).to_uppercase().into_bytes(),
        base64::encode_url(&SEED).into_bytes(),
        base64::encode_url(&SEED)
            .replace('-', "+")
            .replace('_', "/")
            .into_bytes(),
        format!("{:?}", &SEED[..8])
            .trim_end_matches(']')
            .as_bytes()
            .to_vec(),
        token.as_bytes().to_vec(),
        half.as_bytes().to_vec(),
    ]
}

fn states() -> Vec<Vec<u8>> {
    let all = [
        ACCEPTED_STATE[0],
        ACCEPTED_STATE[1],
        REFUSED_STATE,
        REFUSED_NUMBER,
    ];
    all.iter().map(|text| text.as_bytes().to_vec()).collect()
}

fn holds(text: &[u8], secret: &[u8]) -> bool {
    text.windows(secret.len()).any(|window| window == secret)
}

/// Fails when one of the secrets is in the text.
fn free_of(name: &str, text: &[u8], secrets: &[Vec<u8>]) {
    for secret in secrets {
        let shown = String::from_utf8_lossy(secret);
        assert!(
            !holds(text, secret),
            "{name} holds {shown}: {}",
            String::from_utf8_lossy(text)
        );
    }
}

fn number(text: &'static str) -> Json<'static> {
    read(text.as_bytes(), &ReadRules::VALUE_CONTEXT).unwrap()
}

fn with_state(state: Object<'static>) -> Share {
    share_with(HOSTED[0], now(), payload().with("personal_state", state))
}

fn accepted_share() -> Share {
    let energy = number(ACCEPTED_STATE[0]);
    let urgency = number(ACCEPTED_STATE[1]);
    with_state(
        Object::default()
            .with("energy", energy)
            .with("urgency", urgency),
    )
}

/// Shares that are refused at each check that comes before the record.
fn refused_shares() -> Vec<Vec<u8>> {
    let text = with_state(Object::default().with("energy", REFUSED_STATE)).bytes;
    let range = with_state(Object::default().with("energy", number(REFUSED_NUMBER))).bytes;
    let mut forged: Value = serde_json::from_slice(&accepted_share().bytes).unwrap();
    forged["timestamp"] = json!(forged["timestamp"].as_str().unwrap().replace('Z', "1Z"));
    let mut stranger = forged.clone();
    stranger["sender"] = json!("agent://nowhere.test/stranger");
    let broken = accepted_share().bytes;
    let broken = broken[..broken.len() - 20].to_vec();
    vec![
        text,
        range,
        forged.to_string().into_bytes(),
        stranger.to_string().into_bytes(),
        broken,
    ]
}

/// A token that may do all that this test does. The answer that issues it is the one place that shows it.
fn working_token(admin: &mut Wire) -> String {
    let agent = HOSTED[0];
    let scopes = json!([
        "admin",
        "read:log",
        format!("send:{agent}"),
        format!("read:inbox:{agent}"),
        format!("read:state:{agent}")
    ]);
    let asked = json!({"principal": "canary", "scopes": scopes}).to_string();
    let issued = admin.post("/admin/tokens", asked.as_bytes()).unwrap();
    assert!(issued.status < 300, "{}", issued.text());
    issued.json()["token"].as_str().unwrap().to_owned()
}

/// Everything one can ask a node; the answers by name.
fn everything_asked(wire: &mut Wire) -> Vec<(String, Answer)> {
    let agent = segment(HOSTED[0]);
    let paths = [
        "/metrics".to_owned(),
        "/healthz".to_owned(),
        "/readyz".to_owned(),
        "/admin/keys".to_owned(),
        "/admin/agents".to_owned(),
        "/admin/tokens".to_owned(),
        format!("/admin/agents/value-context/{agent}"),
        format!("/state/value-context/{agent}"),
        format!("/inbox/value-context/{agent}?after=0"),
        "/log?limit=1000".to_owned(),
    ];
    let ask = |path: String| {
        let answer = wire.get(&path).unwrap();
        assert_eq!(answer.status, 200, "{path}: {}", answer.text());
        (path, answer)
    };
    paths.into_iter().map(ask).collect()
}

/// Uses the secrets in every way that answers something; no answer may hold any of them.
fn quiet_answers(node: &Served, wire: &mut Wire, token: &str) -> Vec<(String, Answer)> {
    let mut answers = Vec::new();
    let accepted = accepted_share();
    for _ in ["accepted", "duplicate"] {
        let answer = wire.share(&accepted.bytes).unwrap();
        assert_eq!(answer.status, 200, "{}", answer.text());
        answers.push(("an accepted share".to_owned(), answer));
    }
    for body in refused_shares() {
        let answer = wire.share(&body).unwrap();
        assert!((400..500).contains(&answer.status), "{}", answer.text());
        answers.push(("a refused share".to_owned(), answer));
    }
    // The hosted agent sends, so that its key is used.
    let send = json!({"sender": HOSTED[0], "recipient": HOSTED[1], "type": "context_share", "payload": {
        "context": "⏰🌅|📍🏡", "constitution_ref": "creed://creed.space/family.safe.guide@1.2.0"}});
    let send = send.to_string();
    let sent = wire.post("/send/value-context", send.as_bytes()).unwrap();
    assert_eq!(sent.status, 200, "{}", sent.text());
    answers.push(("/send".to_owned(), sent));
    // A token that is nearly right, and ones in the wrong places.
    let nearly = format!("{token}x");
    let answer = node.wire().with_token(&nearly).get("/log").unwrap();
    assert_eq!(answer.status, 401);
    answers.push(("a wrong token".to_owned(), answer));
    let path = format!("/log/{token}?token={token}");
    let answer = node.wire().get(&path).unwrap();
    answers.push(("a token in a path".to_owned(), answer));
    let body = json!({"principal": "x", "scopes": [token]}).to_string();
    let answer = wire.post("/admin/tokens", body.as_bytes()).unwrap();
    assert_eq!(answer.status, 400);
    answers.push(("a token in a body".to_owned(), answer));
    answers
}

#[test]
fn canaries_are_found_where_they_belong_and_nowhere_else() {
    // CH-ID-3, CH-JRN-1, CH-JRN-6, CH-JRN-11, VX-CTX-13, VX-ERR-2
    let (place, token) = place();
    let node = place.serve();
    let working = working_token(&mut node.wire().with_token(&token));
    let mut wire = node.wire().with_token(&working);
    let (secrets, states) = ([secrets(&token), secrets(&working)].concat(), states());
    let mut answers = quiet_answers(&node, &mut wire, &token);
    answers.extend(everything_asked(&mut wire));
    for (name, answer) in &answers {
        let text = [answer.head.as_bytes(), &answer.body].concat();
        free_of(name, &text, &secrets);
        // The journal is the evidence and holds envelopes verbatim, and inboxes show them (CH-JRN-11).
        let shows_envelopes = ["/log", "/inbox", "/state"]
            .iter()
            .any(|held| name.starts_with(held));
        if !shows_envelopes {
            free_of(name, &text, &states);
        }
    }
    let start_line = node.start_line.clone();
    let (status, rest) = node.stop();
    assert!(status.success());
    let stderr = place.read("stderr.log");
    assert!(
        stderr.contains("chancery::decision"),
        "a log at trace tells decisions"
    );
    for (name, text) in [
        ("stdout", start_line),
        ("stdout", rest),
        ("stderr", stderr.clone()),
    ] {
        free_of(name, text.as_bytes(), &secrets);
        free_of(name, text.as_bytes(), &states);
    }
    let files = files_are_free_of(&place, &secrets, &states);
    println!(
        "secrets: {} answers, {} bytes of log at trace, {files} files searched",
        answers.len(),
        stderr.len()
    );
}

/// Searches every file of the data directory; gives how many.
fn files_are_free_of(place: &Place, secrets: &[Vec<u8>], states: &[Vec<u8>]) -> usize {
    let mut searched = Vec::new();
    for entry in std::fs::read_dir(place.path("chancery-data")).unwrap() {
        let entry = entry.unwrap();
        let name = entry.file_name().into_string().unwrap();
        let text = std::fs::read(entry.path()).unwrap();
        // The node's own key has another seed; it is a secret file all the same.
        free_of(&name, &text, secrets);
        if name.starts_with("rejections") || name.starts_with("events") || name == "lock" {
            free_of(&name, &text, states);
        }
        if name.starts_with("rejections") || name.starts_with("audit") {
            assert!(!text.is_empty(), "{name}");
        }
        if name == "audit.jsonl" {
            assert!(
                holds(&text, ACCEPTED_STATE[0].as_bytes()),
                "the search finds what is there"
            );
            free_of(&name, &text, &states[2..]);
        }
        searched.push(name);
    }
    for name in [
        "audit.jsonl",
        "index.db",
        "ops.db",
        "rejections.jsonl",
        "events.jsonl",
    ] {
        assert!(
            searched.iter().any(|found| found == name),
            "{name}: {searched:?}"
        );
    }
    searched.len()
}

#[test]
fn a_start_that_fails_over_a_secret_does_not_show_it() {
    // CH-ID-3, CH-CFG-2, CH-CLI-3
    let (place, token) = place();
    let secrets = secrets(&token);
    let broken = format!("{}zz", &hex::encode(&SEED)[..62]);
    let mut canaries = secrets.clone();
    canaries.push(hex::encode(&SEED).as_bytes()[..62].to_vec());
    place.write("kitchen.key", &broken);
    let refused = place.refuses_to_serve(&[]).exits(2);
    assert!(refused.err.contains("kitchen.key"), "{}", refused.err);
    free_of("stderr", refused.err.as_bytes(), &canaries);
    // Seeds in the world itself, outside of development.
    let mut world = world();
    world["secret_seeds_hex"] = json!({HOSTED[0]: hex::encode(&SEED)});
    place.write("world.json", world.to_string());
    let refused = place.refuses_to_serve(&[]).exits(2);
    assert!(refused.err.contains("secret_seeds_hex"), "{}", refused.err);
    free_of("stderr", refused.err.as_bytes(), &canaries);
    // And in development a seed that is none.
    world["secret_seeds_hex"] = json!({HOSTED[0]: broken});
    place.write("world.json", world.to_string());
    let refused = place.refuses_to_serve(&["--dev"]).exits(2);
    free_of("stderr", refused.err.as_bytes(), &canaries);
}

#[test]
fn panic_text_shows_no_key_and_no_personal_state() {
    // CH-ID-3: a panic prints the Debug form of an error that nobody expected, or of what holds a key.
    let vault = chancery_node::Vault::new();
    vault.hold(HOSTED[0], SigningKey::from_seed(&SEED));
    let mut world = world();
    world["secret_seeds_hex"] = json!({HOSTED[0]: hex::encode(&SEED)});
    let world = chancery_value_context::world::World::parse(world.to_string().as_bytes()).unwrap();
    assert_eq!(world.secret_keys.len(), 1);
    let shown = format!("{:?} {vault:?} {world:?}", SigningKey::from_seed(&SEED));
    free_of("Debug", shown.as_bytes(), &secrets("cht_a.canary"));
    let refused = refused_shares()
        .into_iter()
        .filter_map(|body| decode(body.into(), 65_536).err());
    let shown: Vec<String> = refused.map(|error| format!("{error:?} {error}")).collect();
    assert!(shown.len() >= 3, "{shown:?}");
    free_of("Debug", shown.concat().as_bytes(), &states());
}
