//! `chancery doctor`: a sound node has no finding; each fault that is planted is found, with its place and what to do.

use std::collections::BTreeMap;
use std::io::{Read as _, Write as _};
use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::time::Duration;

use chancery_core::keys::ed25519::{SigningKey, encode_public_key};
use chancery_core::time::format_millis;
use chancery_store::{Embedded, Options, Store as _};
use chancery_testkit::nats_server::{Build, NatsServer};
use rcgen::{CertificateParams, KeyPair, date_time_ymd};
use serde_json::Value;

use crate::database_faults::Small;
use crate::reserved::Reserved;
use crate::served::{HOSTED, SENDER, now, share, world};
use crate::support::Place;

/// A place whose node recorded something and was stopped.
fn recorded() -> Place {
    let place = Place::for_dev_node();
    record(&place, &[]);
    place
}

pub fn record(place: &Place, arguments: &[&str]) {
    let node = place.serve_with(arguments);
    let sent = share(HOSTED[0]);
    node.wire().share(&sent.bytes).unwrap();
    node.stop_well();
}

/// The findings of a place in which something is wrong.
pub fn findings(place: &Place, arguments: &[&str]) -> Vec<Value> {
    let arguments = [&["doctor", "--json"], arguments].concat();
    let told = place.run(&arguments).exits(1).json();
    assert_eq!(told["ok"], false);
    told["findings"].as_array().unwrap().clone()
}

/// The only finding; it names its place and what to do.
pub fn only(place: &Place, arguments: &[&str]) -> [String; 4] {
    let found = findings(place, arguments);
    assert_eq!(found.len(), 1, "{found:?}");
    let told = ["check", "place", "what", "next"].map(|name| found[0][name].as_str().unwrap());
    assert!(told.iter().all(|text| !text.is_empty()), "{told:?}");
    told.map(str::to_owned)
}

pub fn is_well(place: &Place, arguments: &[&str]) {
    let arguments = [&["doctor"], arguments].concat();
    let told = place.run(&arguments).exits(0).text();
    let is_well = |line: &str| line.starts_with("ok ") || line.starts_with("-- ");
    assert!(told.lines().all(is_well), "{told}");
}

/// Every file below a folder with its bytes.
fn bytes_of(folder: &Path) -> BTreeMap<String, Vec<u8>> {
    let entries = std::fs::read_dir(folder).unwrap();
    let files = entries.map(|entry| entry.unwrap().path());
    files
        .map(|path| (path.display().to_string(), std::fs::read(&path).unwrap()))
        .collect()
}

// CH-CLI-1, CH-CLI-2
#[test]
fn a_sound_node_has_no_finding_and_is_not_touched() {
    let place = recorded();
    let before = bytes_of(&place.path("data"));
    is_well(&place, &[]);
    assert!(before == bytes_of(&place.path("data")), "it changed a file");
    // The same while it runs, and before it ever ran.
    let node = place.serve();
    let told = place.run(&["doctor", "--json"]).exits(0).json();
    assert_eq!(told["fine"]["node"], "it takes envelopes");
    node.stop_well();
    is_well(&Place::for_dev_node(), &[]);
}

// CH-CFG-1
#[test]
fn a_wrong_key_of_the_configuration_is_found() {
    let place = Place::new();
    place.write("chancery.toml", "lisen = \"127.0.0.1:0\"\n");
    let [check, at, what, _] = only(&place, &[]);
    assert_eq!((&*check, &*at), ("configuration", "chancery.toml"));
    assert!(
        what.contains("lisen") && what.contains("chancery.toml"),
        "{what}"
    );
}

// CH-CFG-4
#[test]
fn a_file_that_is_not_there_is_found() {
    let place = Place::new().with("CHANCERY_VIBE_WORLD", "gone.json");
    let [check, _, what, next] = only(&place, &[]);
    assert_eq!(check, "configuration");
    assert!(
        what.contains("gone.json") && next.contains("vibe.world"),
        "{what}"
    );
}

// CH-JRN-9, VX-KEY-8
#[test]
fn a_secret_that_others_may_read_is_found() {
    let place = recorded();
    let log = place.path("data/audit.jsonl");
    let open = |mode| std::fs::Permissions::from_mode(mode);
    std::fs::set_permissions(&log, open(0o644)).unwrap();
    let [check, at, what, next] = only(&place, &[]);
    assert_eq!(check, "secrets");
    assert!(
        at.ends_with("audit.jsonl") && what.contains("0644"),
        "{at} {what}"
    );
    assert!(next.starts_with("chmod 600 "), "{next}");
    std::fs::set_permissions(&log, open(0o600)).unwrap();
    std::fs::set_permissions(place.path("data"), open(0o755)).unwrap();
    assert!(only(&place, &[])[3].starts_with("chmod 700 "));
}

// CH-JRN-9
#[test]
fn a_key_file_that_the_configuration_names_is_looked_at() {
    let place = Place::new();
    place.run(&["vacant", "init", "bob.key"]).exits(0);
    let agent = "[[vacant.agent]]\nname = \"bob\"\nseed = \"bob.key\"\nbehaviour = \"echo\"\n";
    place.write("chancery.toml", agent);
    is_well(&place, &[]);
    let mode = std::fs::Permissions::from_mode(0o640);
    std::fs::set_permissions(place.path("bob.key"), mode).unwrap();
    assert!(only(&place, &[])[1].ends_with("bob.key"));
    std::fs::remove_file(place.path("bob.key")).unwrap();
    assert!(only(&place, &[])[2].contains("cannot be read"));
}

// VX-KEY-3
#[test]
fn a_key_that_ends_soon_is_found() {
    let place = Place::for_dev_node();
    let mut world = world();
    let soon = now().saturating_add(Duration::from_secs(3 * 86_400));
    let key = &mut world["trust"]["trust_anchors"][SENDER]["keys"][0];
    key["valid_until"] = format_millis(soon).as_str().into();
    place.write("world.json", world.to_string());
    record(&place, &[]);
    let [check, at, what, next] = only(&place, &[]);
    assert_eq!((&*check, &*at), ("keys", SENDER));
    assert!(what.contains("k-01 ends at"), "{what}");
    assert!(next.contains("chancery key rotate"), "{next}");
    is_well(&place, &["--expiry-days", "2"]);
}

// VX-KEY-3
#[test]
fn a_key_that_has_ended_is_found_unless_another_goes_on() {
    let place = Place::for_dev_node();
    let ended = now().saturating_sub(Duration::from_secs(86_400));
    let mut world = world();
    let keys = world["trust"]["trust_anchors"][SENDER]["keys"].as_array_mut();
    let keys = keys.unwrap();
    let mut next_key = keys[0].clone();
    keys[0]["valid_until"] = format_millis(ended).as_str().into();
    let ends = format_millis(ended).as_str().to_owned();
    place.write("world.json", world.to_string());
    record(&place, &[]);
    let [check, at, what, next] = only(&place, &["--expiry-days", "0"]);
    assert_eq!((&*check, &*at), ("keys", SENDER));
    assert!(what.contains(&format!("k-01 ended at {ends}")), "{what}");
    assert!(next.contains("chancery key rotate"), "{next}");
    // A key that took its place.
    let other = SigningKey::from_seed(&[0x53; 32]);
    next_key["id"] = "k-02".into();
    next_key["public_key"] = encode_public_key(&other.verifying_key()).into();
    let keys = world["trust"]["trust_anchors"][SENDER]["keys"].as_array_mut();
    keys.unwrap().push(next_key);
    place.write("world.json", world.to_string());
    record(&place, &[]);
    is_well(&place, &[]);
}

// VX-HTTP-5
#[test]
fn a_certificate_that_ends_is_found() {
    let place = Place::new()
        .with("CHANCERY_TLS_CERTIFICATE", "cert.pem")
        .with("CHANCERY_TLS_KEY", "key.pem");
    let certify = |year: i32| {
        let mut params = CertificateParams::new(["localhost".to_owned()]).unwrap();
        params.not_after = date_time_ymd(year, 1, 1);
        let key = KeyPair::generate().unwrap();
        place.write("cert.pem", params.self_signed(&key).unwrap().pem());
        let path = place.write("key.pem", key.serialize_pem());
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o600)).unwrap();
    };
    certify(2024);
    let [check, at, what, _] = only(&place, &[]);
    assert_eq!((&*check, &*at), ("certificate", "cert.pem"));
    assert_eq!(what, "it ended at 2024-01-01T00:00:00.000Z");
    // Beyond 2050 a certificate writes its times in another form (RFC 5280).
    for year in [2045, 2055] {
        certify(year);
        is_well(&place, &[]);
        let what = format!("it ends at {year}-01-01T00:00:00.000Z");
        assert_eq!(only(&place, &["--expiry-days", "20000"])[2], what);
    }
    place.write(
        "cert.pem",
        "-----BEGIN CERTIFICATE-----\nMAA=\n-----END CERTIFICATE-----\n",
    );
    assert!(only(&place, &[])[2].contains("no certificate"));
}

// CH-JRN-14
#[test]
fn a_clock_behind_the_log_is_found() {
    let place = Place::for_dev_node();
    let node = place.serve_with(&["--clock", "offset:+3600s"]);
    node.stop_well();
    // Only a decision moves the journal's time, so somebody who is an hour ahead as well says something.
    let node = place.serve_with(&["--clock", "offset:+3600s"]);
    let ahead = now().saturating_add(Duration::from_secs(3_600));
    let sent = crate::served::share_at(HOSTED[0], ahead);
    assert_eq!(
        node.wire().share(&sent.bytes).unwrap().json()["status"],
        "accepted"
    );
    node.stop_well();
    let [check, _, what, next] = only(&place, &[]);
    assert_eq!(check, "clock");
    assert!(
        what.contains("behind the last decision on the log"),
        "{what}"
    );
    assert!(next.contains("60 s"), "{next}");
}

/// Answers one request, as a node whose clock is wrong or that takes nothing would.
fn node_that_says(head: String, body: &'static str) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        let _ = stream.read(&mut [0; 1024]);
        let length = body.len();
        let told = write!(
            stream,
            "HTTP/1.1 {head}\r\ncontent-length: {length}\r\nconnection: close\r\n\r\n{body}"
        );
        told.unwrap();
    });
    url
}

#[test]
fn a_node_whose_clock_is_another_is_found() {
    let place = Place::new();
    let url = node_that_says(
        "200 OK\r\ndate: Sun, 06 Nov 1994 08:49:37 GMT".to_owned(),
        "",
    );
    let [check, at, what, _] = only(&place, &["--url", &url]);
    assert_eq!((&*check, &*at), ("clock", &*url));
    assert!(what.contains("s apart"), "{what}");
}

#[test]
fn a_node_that_takes_no_envelopes_is_found() {
    let why = r#"{"detail": "the index is too far behind the log"}"#;
    let url = node_that_says("503 Service Unavailable".to_owned(), why);
    let [check, at, what, next] = only(&Place::new(), &["--url", &url]);
    assert_eq!((&*check, &*at), ("node", &*url));
    assert!(what.contains("it takes no envelopes"), "{what}");
    assert!(what.contains("too far behind"), "{what}");
    assert!(next.contains("stderr"), "{next}");
}

#[test]
fn a_node_that_does_not_answer_is_found() {
    let nobody = Reserved::new();
    let url = format!("http://{}", nobody.address());
    let [check, _, what, next] = only(&Place::new(), &["--url", &url]);
    assert_eq!(check, "node");
    assert!(
        what.contains("no node answers") && next.contains("chancery serve"),
        "{what}"
    );
}

// CH-LIM-1
#[test]
fn a_disk_with_too_little_room_is_found() {
    let place = recorded();
    let [check, at, what, _] = only(&place, &["--free-bytes", "9000000000000000000"]);
    assert_eq!((&*check, &*at), ("disk", "data"));
    assert!(what.contains("bytes are free"), "{what}");
}

// CH-LIM-1
#[test]
fn a_small_disk_is_found_by_the_room_that_a_node_wants() {
    let Some(small) = Small::mount("64m") else {
        return;
    };
    let data = small.path().join("data");
    let data = data.to_str().unwrap();
    let place = Place::for_dev_node().with("CHANCERY_DATA", data);
    record(&place, &[]);
    let [check, at, what, next] = only(&place, &[]);
    assert_eq!((&*check, &*at), ("disk", data));
    assert!(what.contains("fewer than 1073741824"), "{what}");
    assert!(next.contains("make room"), "{next}");
    is_well(&place, &["--free-bytes", "1000000"]);
}

// CH-JRN-4
#[test]
fn an_index_that_is_gone_or_damaged_or_of_another_log_is_found() {
    let place = recorded();
    let index = place.path("data/index.db");
    let sound = std::fs::read(&index).unwrap();
    let store = |planted: &str| {
        let [check, at, what, next] = only(&place, &[]);
        assert_eq!(check, "store", "{planted}");
        assert!(at.ends_with("index.db"), "{at}");
        format!("{what}; {next}")
    };
    std::fs::remove_file(&index).unwrap();
    assert!(store("gone").contains("builds it anew"));

    let mut damaged = sound.clone();
    for byte in damaged.iter_mut().skip(4_096) {
        *byte ^= 0x5a;
    }
    private(&place, "data/index.db", &damaged);
    assert!(store("damaged").contains("the index is damaged"));

    private(&place, "data/index.db", &sound);
    let lines = place.log_lines();
    let kept: String = lines[..lines.len() - 1]
        .iter()
        .map(|line| format!("{line}\n"))
        .collect();
    private(&place, "data/audit.jsonl", kept.as_bytes());
    let told = store("the log lost its last line");
    assert!(told.contains("acknowledged lines are missing"), "{told}");
}

pub fn private(place: &Place, name: &str, bytes: &[u8]) {
    let path = place.write(name, bytes);
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o600)).unwrap();
}

// CH-JRN-4
#[test]
fn an_index_of_another_version_is_found() {
    let place = recorded();
    let data = place.path("data");
    let options = Options {
        rows_version: Options::new(&data).rows_version + 1,
        ..Options::new(&data)
    };
    let (store, _) = Embedded::open(&options).unwrap();
    store.close().unwrap();
    drop(store);
    let [check, at, what, next] = only(&place, &[]);
    assert_eq!(check, "store");
    assert!(at.ends_with("index.db"), "{at}");
    assert!(what.contains("another version"), "{what}");
    assert!(next.contains("builds it anew"), "{next}");
}

// CH-JRN-4
#[test]
fn an_index_that_is_behind_is_found() {
    let place = recorded();
    let behind = std::fs::read(place.path("data/index.db")).unwrap();
    record(&place, &[]);
    private(&place, "data/index.db", &behind);
    let [check, _, what, next] = only(&place, &[]);
    assert_eq!(check, "store");
    assert!(what.contains("1 line behind"), "{what}");
    assert!(next.contains("start the node"), "{next}");
}

// CH-JRN-15
#[test]
fn damaged_rows_of_progress_are_found() {
    let place = recorded();
    private(&place, "data/ops.db", &[0x5a; 8_192]);
    let [check, at, _, next] = only(&place, &[]);
    assert_eq!(check, "store");
    assert!(
        at.ends_with("ops.db") && next.contains("nothing on the log is lost"),
        "{at} {next}"
    );
}

// CH-JRN-7
#[test]
fn a_log_that_was_changed_is_found() {
    let place = recorded();
    let mut lines = place.log_lines();
    lines[1] = lines[1].replace("\"seq\":2", "\"seq\":7");
    let text: String = lines.iter().map(|line| format!("{line}\n")).collect();
    private(&place, "data/audit.jsonl", text.as_bytes());
    let found = findings(&place, &[]);
    let of_log = |found: &&Value| found["check"] == "log";
    let first = found.iter().find(of_log).unwrap();
    assert!(
        first["place"].as_str().unwrap().ends_with("audit.jsonl:2"),
        "{first}"
    );
    assert!(
        first["next"].as_str().unwrap().contains("restore the log"),
        "{first}"
    );
}

// AG-NAT-9
#[test]
fn a_broker_that_is_not_reached_is_found() {
    let server = NatsServer::start(Build::Debian, "");
    let place = Place::new().with("CHANCERY_AGH_NATS", &server.url());
    is_well(&place, &[]);
    let url = server.url();
    drop(server);
    let [check, at, what, _] = only(&place, &[]);
    assert_eq!((&*check, &*at), ("broker", &*url));
    assert!(what.contains("not reached"), "{what}");
}

// VX-KEY-1
#[test]
fn a_world_of_agents_that_cannot_be_read_is_found() {
    let place = Place::new().with("CHANCERY_VALUE_CONTEXT_WORLD", "world.json");
    place.write("world.json", "{\"trust\": 7}");
    let [check, at, what, _] = only(&place, &[]);
    assert_eq!((&*check, &*at), ("configuration", "value_context.world"));
    assert!(what.contains("world.json"), "{what}");
}

// CH-JRN-7
#[test]
fn a_log_in_which_no_line_is_one_or_that_cannot_be_read_is_found() {
    let place = recorded();
    private(&place, "data/audit.jsonl", b"one\ntwo\n");
    let found = findings(&place, &[]);
    let of_log: Vec<&Value> = found.iter().filter(|it| it["check"] == "log").collect();
    assert_eq!(of_log.len(), 1, "{found:?}");
    assert_eq!(of_log[0]["what"], "no line of it is a line of a log");

    std::fs::remove_file(place.path("data/audit.jsonl")).unwrap();
    let folder = place.path("data/audit.jsonl");
    std::fs::create_dir(&folder).unwrap();
    std::fs::set_permissions(&folder, std::fs::Permissions::from_mode(0o700)).unwrap();
    let [check, _, what, _] = only(&place, &[]);
    assert_eq!(check, "log");
    assert!(what.contains("audit.jsonl"), "{what}");
}

// AG-NAT-9, CH-JRN-9
#[test]
fn a_token_of_the_broker_that_cannot_be_used_is_found() {
    let place = Place::new()
        .with("CHANCERY_AGH_NATS", "nats://127.0.0.1:1")
        .with("CHANCERY_AGH_NATS_TOKEN_FILE", "broker.token");
    place.write("broker.token", "s3cr3t");
    let open = std::fs::Permissions::from_mode(0o644);
    std::fs::set_permissions(place.path("broker.token"), open).unwrap();
    let found = findings(&place, &[]);
    let checks: Vec<&Value> = found.iter().map(|it| &it["check"]).collect();
    assert_eq!(checks, ["secrets", "broker"]);
    assert_eq!(found[1]["place"], "agh.nats");
    assert!(found[1]["what"].as_str().unwrap().contains("broker.token"));
}

// CH-JRN-9, CH-ID-1
#[test]
fn a_password_and_a_list_of_tokens_are_secrets_too() {
    let place = Place::new()
        .with("CHANCERY_STORE", "postgres://chancery@127.0.0.1:1/none")
        .with("CHANCERY_STORE_PASSWORD_FILE", "password")
        .with("CHANCERY_VIBE_TOKENS", "tokens.toml");
    for name in ["password", "tokens.toml"] {
        place.write(name, "");
        let open = std::fs::Permissions::from_mode(0o640);
        std::fs::set_permissions(place.path(name), open).unwrap();
    }
    let found = findings(&place, &[]);
    let secrets = found.iter().filter(|it| it["check"] == "secrets");
    let places: Vec<&str> = secrets.map(|it| it["place"].as_str().unwrap()).collect();
    assert_eq!(places, ["password", "tokens.toml"]);
}
