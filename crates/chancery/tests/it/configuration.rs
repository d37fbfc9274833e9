//! One file, environment and flags (CH-CFG-1 to CH-CFG-9).

use chancery::config::{Clock, Config, Entropy, Sources, Store, reference_page, table};
use rcgen::{CertificateParams, KeyPair};

use crate::served::world;
use crate::support::{Place, workspace};

fn value(shown: &serde_json::Value, key: &str) -> (serde_json::Value, String) {
    let entry = &shown[key];
    (
        entry["value"].clone(),
        entry["from"].as_str().unwrap().to_owned(),
    )
}

#[test]
fn a_flag_beats_the_environment_and_that_the_file_and_that_the_default() {
    // CH-CFG-1
    let show = ["config", "show", "--json"];
    let place = Place::new();
    let shown = place.run(&show).exits(0).json();
    assert_eq!(
        value(&shown, "listen"),
        ("127.0.0.1:8700".into(), "default".to_owned())
    );
    place.write("chancery.toml", "dev = true\n\nlisten = \"127.0.0.1:1\"\n");
    let shown = place.run(&show).exits(0).json();
    assert_eq!(
        value(&shown, "listen"),
        ("127.0.0.1:1".into(), "chancery.toml:3".to_owned())
    );
    let place = place.with("CHANCERY_LISTEN", "127.0.0.1:2");
    let shown = place.run(&show).exits(0).json();
    assert_eq!(
        value(&shown, "listen"),
        ("127.0.0.1:2".into(), "CHANCERY_LISTEN".to_owned())
    );
    let flagged = [&show[..], &["--listen", "127.0.0.1:3"]].concat();
    let shown = place.run(&flagged).exits(0).json();
    assert_eq!(
        value(&shown, "listen"),
        ("127.0.0.1:3".into(), "--listen".to_owned())
    );
    assert_eq!(
        value(&shown, "dev"),
        (true.into(), "chancery.toml:1".to_owned())
    );
}

#[test]
fn every_key_is_an_environment_variable() {
    // CH-CFG-1
    for key in table::KEYS {
        let text = key.default.trim_matches('"');
        let place = Place::new().with(&key.variable(), text);
        let shown = place.run(&["config", "show", "--json"]).exits(0).json();
        assert_eq!(shown[key.name]["from"], key.variable());
    }
    let nested = table::find("value_context.world").unwrap();
    assert_eq!(nested.variable(), "CHANCERY_VALUE_CONTEXT_WORLD");
}

#[test]
fn common_keys_are_flags() {
    // CH-CFG-1
    let arguments = [
        "config",
        "show",
        "--json",
        "--listen",
        "127.0.0.1:0",
        "--data",
        "d",
        "--store",
        "memory",
        "--dev",
        "--clock",
        "fixed:2026-02-15T10:33:30Z",
    ];
    let shown = Place::new().run(&arguments).exits(0).json();
    for key in ["listen", "data", "store", "dev", "clock"] {
        assert_eq!(shown[key]["from"], format!("--{key}"));
        assert_eq!(table::find(key).unwrap().flag, Some(key));
    }
}

#[test]
fn an_unknown_key_is_refused_with_the_nearest_one() {
    // CH-CFG-1
    let cases = [
        (
            "dev = true\nlistn = \"127.0.0.1:1\"\n",
            "chancery.toml:2: unknown key listn",
            "listen",
        ),
        (
            "[value_context]\nwrold = \"a\"\n",
            "chancery.toml:2: unknown key value_context.wrold",
            "value_context.world",
        ),
        (
            "[value_contxt]\nworld = \"a\"\n",
            "chancery.toml:1: unknown key value_contxt",
            "value_context",
        ),
        (
            "[tls]\n\n\ncert = \"a\"\n",
            "chancery.toml:4: unknown key tls.cert",
            "tls.certificate",
        ),
    ];
    for (text, what, nearest) in cases {
        let place = Place::new();
        place.write("chancery.toml", text);
        let ran = place.run(&["config", "check"]).exits(2);
        assert!(ran.err.contains(what), "{}", ran.err);
        assert!(
            ran.err
                .contains(&format!("nearest known key is {nearest}\n")),
            "{}",
            ran.err
        );
    }
    let place = Place::new().with("CHANCERY_LISTN", "127.0.0.1:1");
    let ran = place.run(&["config", "check"]).exits(2);
    assert!(
        ran.err.contains("nearest known key is CHANCERY_LISTEN\n"),
        "{}",
        ran.err
    );
}

#[test]
fn agh_peers_are_read_and_faults_named() {
    // CH-CFG-1, CH-CFG-6, AG-CFG-1, AG-B-40
    let place = Place::new();
    let peer = "[[agh.peer]]\nid = \"echo.demo\"\nchannel = \"builders\"\n";
    place.write(
        "chancery.toml",
        format!("[agh]\nrevision = \"a\"\nmax_replay_age = 60\n{peer}"),
    );
    place.run(&["config", "check"]).exits(0);
    for (text, named) in [
        ("[agh]\nrevision = \"c\"\n".to_owned(), "agh.revision"),
        (
            "[agh]\nmax_replay_age = 0\n".to_owned(),
            "agh.max_replay_age",
        ),
        (
            "[agh]\nmax_replay_ages = 1\n".to_owned(),
            "agh.max_replay_age",
        ),
        (
            format!("{peer}colour = \"red\"\n"),
            "chancery.toml:4: unknown key agh.peer.colour",
        ),
        (
            format!("{peer}behavior = \"echo\"\n"),
            "nearest known key is behaviour\n",
        ),
        (
            "[agh.bridge]\nchannel_c = \"x\"\n".to_owned(),
            "chancery.toml:2: unknown key agh.bridge.channel_c",
        ),
        (
            "[agh.tasks]\nwriter = []\n".to_owned(),
            "nearest known key is writers\n",
        ),
        (
            "[[agh.pear]]\nid = \"x\"\n".to_owned(),
            "nearest known key is agh.peer\n",
        ),
        ("[[agh.peer]]\nid = \"echo.demo\"\n".to_owned(), "channel"),
    ] {
        place.write("chancery.toml", &text);
        let ran = place.run(&["config", "check"]).exits(2);
        assert!(ran.err.contains(named), "{}", ran.err);
    }
}

#[test]
fn a_bus_needs_a_journal_that_nodes_share_and_an_address_without_a_secret() {
    // CH-CFG-1, CH-ID-3
    let shared = "store = \"postgres://u@127.0.0.1/d\"\n";
    for (text, says) in [
        (
            "bus = \"nats://127.0.0.1:4222\"\n".to_owned(),
            "has one node",
        ),
        (format!("bus = \"kafka://k\"\n{shared}"), "and no password"),
        (
            format!("bus = \"nats://u:s3cret@n\"\n{shared}"),
            "and no password",
        ),
    ] {
        let place = Place::new();
        place.write("chancery.toml", &text);
        let ran = place.run(&["config", "check"]).exits(2);
        assert!(ran.err.contains(says), "{}", ran.err);
        assert!(!ran.err.contains("s3cret"), "{}", ran.err);
    }
    let place = Place::new();
    place.write(
        "chancery.toml",
        format!("bus = \"nats://127.0.0.1:4222\"\n{shared}"),
    );
    place.run(&["config", "check"]).exits(0);
}

#[test]
fn a_list_of_tables_is_read_with_its_own_keys() {
    // CH-CFG-1, CH-CFG-6
    for (text, what) in [
        (
            "[[vacant.agent]]\nnam = \"bob\"\n",
            "nearest known key is name\n",
        ),
        (
            "[[vacant.agent]]\nname = \"b b\"\nseed = \"k\"\n",
            "letters, digits",
        ),
        ("[[vacant.agent]]\nname = \"bob\"\n", "seed"),
        (
            "[[vacant.agent]]\nname = \"bob\"\nseed = \"k\"\nstate = \"AWAKE\"\n",
            "six states",
        ),
    ] {
        let place = Place::new();
        place.write("chancery.toml", text);
        let ran = place.run(&["config", "check"]).exits(2);
        assert!(ran.err.contains(what), "{}", ran.err);
    }
}

#[test]
fn values_of_another_kind_are_refused_with_their_line() {
    // CH-CFG-1, CH-CLI-3
    let cases = [
        ("listen = 8700", "listen must be a text"),
        ("listen = \"nowhere\"", "IP address"),
        ("dev = \"yes\"", "dev must be true or false"),
        ("inbox_depth = 0", "at least 1"),
        ("inbox_depth = -5", "at least 1"),
        ("inbox_depth = 1.5", "at least 1"),
        ("value_context.dedupe_window_s = 329", "at least 330"),
        ("store = \"postgre\"", "\"memory\""),
        ("clock = \"fixed:yesterday\"", "fixed:2026"),
        ("clock = \"offset:20s\"", "offset:+20s"),
        ("clock = \"offset:+20\"", "offset:+20s"),
        ("clock = \"offset:++2s\"", "offset:+20s"),
        ("clock = \"offset:+86401s\"", "offset:+20s"),
        ("entropy = \"seed:x\"", "seed:N"),
        ("tls.certificate = \"c.pem\"", "tls.key"),
        ("listen = ", "not TOML"),
        ("dev = true\ndev = true", "not TOML"),
    ];
    for (text, what) in cases {
        let place = Place::new();
        place.write("chancery.toml", text);
        let ran = place.run(&["config", "check"]).exits(2);
        assert!(ran.err.contains(what), "{text}: {}", ran.err);
        assert!(ran.err.contains("chancery.toml:"), "{text}: {}", ran.err);
    }
}

#[test]
fn a_public_address_needs_tls() {
    // CH-NET-2
    let place = Place::new();
    let ran = place
        .run(&["config", "check", "--listen", "0.0.0.0:8700"])
        .exits(2);
    assert!(ran.err.contains("tls_terminated_upstream"), "{}", ran.err);
    place
        .run(&["config", "check", "--listen", "[::1]:8700"])
        .exits(0);
    place.write(
        "chancery.toml",
        "listen = \"0.0.0.0:8700\"\ntls_terminated_upstream = true\n",
    );
    place.run(&["config", "check"]).exits(0);
    let key = KeyPair::generate().unwrap();
    let certificate = CertificateParams::new(["localhost".to_owned()]).unwrap();
    let certificate = certificate.self_signed(&key).unwrap();
    place.write("c.pem", certificate.pem());
    place.write("k.pem", key.serialize_pem());
    place.write(
        "chancery.toml",
        "listen = \"0.0.0.0:8700\"\n[tls]\ncertificate = \"c.pem\"\nkey = \"k.pem\"\n",
    );
    place.run(&["config", "check"]).exits(0);
}

#[test]
fn what_is_for_tests_needs_dev_on_loopback() {
    // CH-CFG-7, CH-CFG-8
    let place = Place::new();
    let fixed = ["config", "check", "--clock", "fixed:2026-02-15T10:33:30Z"];
    place.run(&fixed).exits(2);
    place.run(&[&fixed[..], &["--dev"]].concat()).exits(0);
    let shifted = ["config", "check", "--clock", "offset:+20s"];
    place.run(&shifted).exits(2);
    place.run(&[&shifted[..], &["--dev"]].concat()).exits(0);
    place.write("chancery.toml", "entropy = \"seed:7\"\n");
    place.run(&["config", "check"]).exits(2);
    place.run(&["config", "check", "--dev"]).exits(0);
    place.write(
        "chancery.toml",
        "listen = \"192.0.2.1:1\"\ntls_terminated_upstream = true\n",
    );
    let ran = place.run(&["config", "check", "--dev"]).exits(2);
    assert!(ran.err.contains("loopback"), "{}", ran.err);
}

#[test]
fn a_named_file_that_is_missing_is_an_error() {
    // CH-CFG-4
    let place = Place::new();
    let ran = place
        .run(&["--config", "other.toml", "config", "check"])
        .exits(2);
    assert!(ran.err.contains("other.toml"), "{}", ran.err);
    place.write(
        "node/chancery.toml",
        "[value_context]\nworld = \"agents.json\"\n",
    );
    let check = ["--config", "node/chancery.toml", "config", "check"];
    let ran = place.run(&check).exits(2);
    assert!(ran.err.contains("value_context.world"), "{}", ran.err);
    place.write("node/agents.json", world().to_string());
    place.run(&check).exits(0);
}

#[test]
fn paths_are_relative_to_the_file() {
    // CH-CFG-1
    let place = Place::new();
    place.write("node/chancery.toml", "data = \"here\"\n");
    let show = ["--config", "node/chancery.toml", "config", "show", "--json"];
    assert_eq!(
        place.run(&show).exits(0).json()["data"]["value"],
        "node/here"
    );
    let flagged = [&show[..], &["--data", "there"]].concat();
    assert_eq!(
        place.run(&flagged).exits(0).json()["data"]["value"],
        "there"
    );
}

#[test]
fn keys_have_types_of_their_own() {
    // CH-CFG-7, CH-CFG-8, CH-CFG-9
    let place = Place::new();
    let text = "clock = \"fixed:2026-02-15T10:33:30Z\"\nentropy = \"seed:7\"\ndev = true\nstore = \"memory\"\n\
                segment_bytes = 8192\nlisten = \"localhost:0\"\n[limits]\nrate_per_sender = 5\n";
    let file = place.write("chancery.toml", text);
    let config = Config::load(&Sources {
        file: Some(file),
        ..Sources::default()
    })
    .unwrap();
    assert!(matches!(config.clock, Clock::Fixed(_)));
    assert_eq!(config.entropy, Entropy::Seed(7));
    assert_eq!(config.store, Store::Memory);
    assert_eq!(config.segment_bytes, 8192);
    assert_eq!(config.limits.rate_per_sender, 5);
    assert_eq!(config.listen.to_string(), "127.0.0.1:0");
    assert_eq!(config.value_context.dedupe_window_s, 330);
}

#[test]
fn a_clock_may_be_wrong_by_so_much() {
    // CH-CFG-7, VX-GEN-2
    let place = Place::new();
    for (offset, ahead, seconds) in [("+20s", true, 20), ("-7s", false, 7), ("+0s", true, 0)] {
        let text = format!("clock = \"offset:{offset}\"\ndev = true\n");
        let file = place.write("chancery.toml", text);
        let sources = Sources {
            file: Some(file),
            ..Sources::default()
        };
        let config = Config::load(&sources).unwrap();
        let by = std::time::Duration::from_secs(seconds);
        assert_eq!(config.clock, Clock::Shifted { ahead, by }, "{offset}");
    }
}

#[test]
fn what_an_orchestrator_sets_is_no_key() {
    let place = Place::new()
        .with("CHANCERY_PORT", "tcp://10.0.0.1:8700")
        .with("CHANCERY_SERVICE_HOST", "10.0.0.1")
        .with("CHANCERY_PORT_8700_TCP_ADDR", "10.0.0.1");
    place.run(&["config", "check"]).exits(0);
}

#[test]
fn the_reference_page_is_the_table() {
    // CH-CFG-1
    let path = workspace().join("docs/configuration.md");
    let page = std::fs::read_to_string(path).unwrap();
    assert_eq!(
        page,
        reference_page(),
        "run: chancery config reference > docs/configuration.md"
    );
    assert_eq!(
        Place::new().run(&["config", "reference"]).exits(0).text(),
        page
    );
}

#[test]
fn the_settings_of_value_context_are_keys_with_its_defaults() {
    // VX-CFG-1, CH-CFG-6
    let shown = Place::new().run(&["config", "show", "--json"]);
    let shown = shown.exits(0).json();
    for (key, default) in [
        ("max_bytes", 65_536.into()),
        ("dedupe_window_s", 330.into()),
        ("accept_legacy_canonical", true.into()),
        ("ack_unrequested", true.into()),
        ("pause_on_critical", true.into()),
        ("share_personal_state", false.into()),
        ("share_personal_state_broadcast", false.into()),
        ("accept_vcp_2_0", false.into()),
        ("short_lived_key_max_s", 86_400.into()),
    ] {
        let key = format!("value_context.{key}");
        assert_eq!(
            value(&shown, &key),
            (default, "default".to_owned()),
            "{key}"
        );
    }
}
