//! `chancery conform --url`: the test kit passes against ourselves, and finds what is broken on purpose.

use std::collections::BTreeSet;

use chancery_testkit::postgres_server::PostgresServer;

use crate::served::Served;
use crate::support::Place;

const PROTOCOLS: [&str; 4] = ["value-context", "vibe", "vacant", "agh"];

/// A place with the node that the kit wants to see.
fn under_test() -> Place {
    let place = Place::new().with("CHANCERY_LISTEN", "127.0.0.1:0");
    place.run(&["conform", "--setup", "."]).exits(0);
    place
}

fn url(node: &Served) -> String {
    format!("http://{}", node.address)
}

// CH-CLI-2, CH-CLI-1
#[test]
fn a_node_of_ours_passes_in_every_protocol_and_more_than_once() {
    passes(&under_test(), 2);
}

// CH-CLI-2, CH-JRN-5
#[test]
fn a_node_of_ours_passes_in_every_protocol_also_on_postgresql() {
    passes(&under_test().on(PostgresServer::shared(), "kit"), 1);
}

fn passes(place: &Place, times: usize) {
    let node = place.serve();
    let protocols = PROTOCOLS.iter().cycle();
    for protocol in protocols.take(times * PROTOCOLS.len()) {
        let asked = ["conform", "--url", &url(&node), "--protocol", protocol];
        let ran = place.run(&asked);
        assert_eq!(ran.code, 0, "{}", ran.text());
        let text = ran.text();
        let lines: Vec<&str> = text.lines().collect();
        let (sum, checks) = lines.split_last().unwrap();
        assert!(checks.len() >= 25, "{text}");
        assert!(checks.iter().all(|line| line.starts_with("ok  ")), "{text}");
        assert_eq!(*sum, format!("{} passed, 0 failed", checks.len()));
    }
    node.stop_well();
    // What the kit did is on the log, and the log is sound.
    place.run(&["log", "verify"]).exits(0);
    let replay = ["log", "replay", "--world", "world.json"];
    place.run(&replay).exits(0);
}

/// The node of the same place where envelopes are signed.
const WHERE_SIGNED: [&str; 2] = ["--config", "signed.toml"];

// CH-CLI-2, VC-SIG-2, VC-SIG-4, VC-SIG-5, AG-TRU-4, AG-TRU-5, AG-TRU-6, AG-TRU-7
#[test]
fn a_node_of_ours_passes_where_envelopes_are_signed() {
    let place = under_test();
    let node = place.serve_with(&WHERE_SIGNED);
    for protocol in ["vibe", "agh", "vibe"] {
        let url = url(&node);
        let asked = ["conform", "--signed", "--url", &url, "--protocol", protocol];
        let text = place.run(&asked).exits(0).text();
        assert!(text.lines().count() >= 7, "{text}");
    }
    node.stop_well();
    place.run(&["log", "verify", "signed-data"]).exits(0);
    // What is always signed has no questions of its own about that.
    let asked = ["conform", "--signed", "--url", "http://127.0.0.1:1"];
    let refused = place.run(&[&asked[..], &["--protocol", "vacant"]].concat());
    let refused = refused.exits(2).err;
    assert!(refused.contains("always signed"), "{refused}");
}

// CH-CLI-1, CH-CLI-3
#[test]
fn a_server_that_is_set_up_otherwise_fails_with_what_came_back() {
    let place = Place::for_dev_node();
    let node = place.serve();
    let asked = [
        "conform",
        "--url",
        &url(&node),
        "--protocol",
        "vibe",
        "--json",
    ];
    let told = place.run(&asked).exits(1).json();
    assert!(told["failed"].as_u64() > told["passed"].as_u64(), "{told}");
    let first = &told["checks"][0];
    assert_eq!(first["requirement"], "VC-ENV-1");
    assert_eq!(first["came_back"], "503 not_configured");
    assert_eq!(first["expected"], "400 unsupported_protocol");
    let asked = [
        "conform",
        "--url",
        "http://127.0.0.1:1",
        "--protocol",
        "agh",
    ];
    let nobody = place.run(&asked).exits(2);
    assert!(nobody.err.contains("no node answers"), "{}", nobody.err);
    place.run(&["conform"]).exits(2);
    place.run(&["conform", "--setup", "there"]).exits(0);
    place.run(&["conform", "--setup", "there"]).exits(2);
}

/// A fault by its name, and the requirements that the kit has to name for it.
type Seeded = (&'static str, &'static [&'static str]);

const FAULTS: &[Seeded] = &[
    ("ag-anybody-is-target", &["AG-RTE-1"]),
    ("ag-anybody-moves", &["AG-LIF-4"]),
    ("ag-body-before-freshness", &["AG-VAL-3"]),
    ("ag-closed-reopened", &["AG-LIF-7"]),
    ("ag-digest-unchecked", &["AG-CAP-5"]),
    ("ag-duplicate-by-id-alone", &["AG-DUP-1"]),
    ("ag-duplicate-processed", &["AG-DUP-5"]),
    ("ag-expired-accepted", &["AG-FRS-2"]),
    ("ag-null-is-absent", &["AG-ENV-17"]),
    ("ag-own-envelope-back", &["AG-RTE-3"]),
    ("ag-receipt-to-a-receipt", &["AG-RCT-1"]),
    ("ag-repeated-names", &["AG-JSON-3"]),
    ("ag-say-to-somebody", &["AG-SAY-2"]),
    ("ag-signature-unchecked", &["AG-TRU-6"]),
    ("ag-submitted-again", &["AG-LIF-2"]),
    ("ag-too-old-accepted", &["AG-FRS-4"]),
    ("ag-unknown-member", &["AG-ENV-16"]),
    ("ag-version-is-malformed", &["AG-VAL-5"]),
    ("ag-whois-by-prefix", &["AG-WHO-3"]),
    ("va-answers-in-base", &["VA-MSG-8"]),
    ("va-answers-start-anew", &["VA-RSP-1"]),
    ("va-any-frame", &["VA-SRV-3"]),
    ("va-any-media-type", &["VA-SRV-2"]),
    ("va-fork-accepted", &["VA-ENV-7"]),
    ("va-gap-accepted", &["VA-REP-3"]),
    ("va-html-escapes", &["VA-CJ-3"]),
    ("va-lost-answer-stays-lost", &["VA-SRV-12"]),
    ("va-no-role-aliases", &["VA-WIRE-8"]),
    ("va-number-as-text", &["VA-WIRE-5"]),
    ("va-numbers-normalised", &["VA-MSG-3"]),
    ("va-one-profile", &["VA-MSG-7"]),
    ("va-other-parts", &["VA-WIRE-7"]),
    ("va-replay-accepted", &["VA-REP-2"]),
    ("va-signature-before-address", &["VA-SRV-4"]),
    ("va-signature-unchecked", &["VA-ENV-6"]),
    ("va-zone-ignored", &["VA-TS-2"]),
    ("vc-answers-nothing", &["VC-ENV-9"]),
    ("vc-below-floor", &["VC-ACT-commerce.propose_offer-3"]),
    ("vc-buyer-ranks", &["VC-PART-3"]),
    (
        "vc-certificate-unchecked",
        &["VC-ACT-platform.create_match_certificate-3"],
    ),
    (
        "vc-claims-vouched-for",
        &["VC-ACT-platform.verify_claims-2"],
    ),
    ("vc-floor-leaked", &["VC-PRIV-1"]),
    ("vc-gate-left-open", &["VC-GATE-3"]),
    ("vc-key-before-partition", &["VC-PIPE-1"]),
    ("vc-key-conflict-runs", &["VC-IDEM-2"]),
    ("vc-money-as-float", &["VC-MON-1"]),
    ("vc-msg-id-twice", &["VC-ENV-3"]),
    ("vc-own-offer-accepted", &["VC-ACT-commerce.accept_offer-2"]),
    (
        "vc-refund-above-total",
        &["VC-ACT-commerce.respond_return-1"],
    ),
    ("vc-repeat-runs-again", &["VC-IDEM-1"]),
    ("vc-repeated-names", &["VC-ENV-18"]),
    ("vc-signature-unchecked", &["VC-SIG-4"]),
    ("vc-valid-at-its-end", &["VC-PIPE-5"]),
    ("vx-any-uuid", &["VX-ID-1"]),
    ("vx-anybody-constrains", &["VX-CP-9"]),
    ("vx-anybody-escalates", &["VX-ES-4"]),
    ("vx-context-unchecked", &["VX-CTX-4"]),
    ("vx-duplicate-processed", &["VX-DUP-1"]),
    ("vx-grave-without-ack", &["VX-ES-2"]),
    ("vx-number-as-written", &["VX-CAN-3"]),
    ("vx-order-by-utf8", &["VX-CAN-2"]),
    ("vx-repeated-names", &["VX-ENV-6"]),
    ("vx-retired-key-accepted", &["VX-KEY-5"]),
    ("vx-signature-before-time", &["VX-RCV-1"]),
    ("vx-signature-unchecked", &["VX-SIG-4"]),
    ("vx-stale-accepted", &["VX-RPL-1"]),
    ("vx-suspended-let-through", &["VX-RUN-4"]),
    ("vx-unknown-member", &["VX-ENV-2"]),
    ("vx-unsigned-accepted", &["VX-SIG-2"]),
];

/// Faults that show only where envelopes of vibe and AGH are signed.
#[cfg(feature = "seeded-faults")]
const SIGNED: [&str; 2] = ["ag-signature-unchecked", "vc-signature-unchecked"];

/// The protocol that a fault is of.
fn protocol_of(fault: &str) -> &'static str {
    match &fault[..2] {
        "vx" => "value-context",
        "vc" => "vibe",
        "va" => "vacant",
        _ => "agh",
    }
}

#[test]
fn every_fault_in_the_code_is_in_the_table_and_there_are_twelve_a_protocol() {
    let crates = crate::support::workspace().join("crates");
    let mut folders = vec![crates];
    let mut found = BTreeSet::new();
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            let is_test = path.file_name().is_some_and(|name| name == "tests");
            if path.is_dir() && !is_test {
                folders.push(path);
            } else if path.extension().is_some_and(|end| end == "rs") {
                let text = std::fs::read_to_string(path).unwrap();
                let hooks = text.split("fault::on(\"").skip(1);
                found.extend(hooks.filter_map(|rest| Some(rest.split_once('"')?.0.to_owned())));
            }
        }
    }
    let listed: BTreeSet<String> = FAULTS.iter().map(|(name, _)| (*name).to_owned()).collect();
    assert_eq!(found, listed);
    for protocol in PROTOCOLS {
        let of_it = FAULTS
            .iter()
            .filter(|(name, _)| protocol_of(name) == protocol);
        assert!(of_it.count() >= 12, "{protocol}");
    }
}

/// Only a build that was made for it can be told to be wrong.
#[cfg(not(feature = "seeded-faults"))]
#[test]
fn an_ordinary_build_takes_no_fault() {
    let place = under_test();
    let refused = place
        .refuses_to_serve(&["--fault", "vx-stale-accepted"])
        .exits(2);
    assert!(refused.err.contains("--fault"), "{}", refused.err);
    let demo = place
        .run(&["demo", "--fault", "vx-stale-accepted"])
        .exits(2);
    assert!(demo.err.contains("--fault"), "{}", demo.err);
}

// CH-CLI-2, CH-CLI-1, CH-CLI-3
#[cfg(feature = "seeded-faults")]
#[test]
fn the_story_of_a_node_that_is_wrong_ends_at_the_step_that_shows_it() {
    let steps = [
        (
            "vx-signature-unchecked",
            "the kitchen signs in the living room's name: refused",
        ),
        (
            "vx-suspended-let-through",
            "it speaks while suspended: refused",
        ),
        (
            "va-fork-accepted",
            "a call that leaves out what was said before: refused",
        ),
        (
            "va-signature-unchecked",
            "a call whose text was changed on the way: refused",
        ),
    ];
    for (fault, step) in steps {
        let told = Place::new().run(&["demo", "--fault", fault]).exits(1);
        let text = told.text();
        let last = text.lines().next_back().unwrap();
        assert!(last.starts_with("NO  ") && last.ends_with(step), "{text}");
        assert_eq!(text.matches("\nNO  ").count(), 1, "{text}");
        assert!(!text.contains("gave what they should"), "{text}");
        let named = format!("({step}) did not give what it should");
        assert!(told.err.contains(&named), "{}", told.err);
    }
}

#[cfg(feature = "seeded-faults")]
#[test]
fn the_kit_finds_every_seeded_fault_and_names_its_requirement() {
    for (fault, expected) in FAULTS {
        let place = under_test();
        let signed = SIGNED.contains(fault);
        let (serve, ask): (&[&str], &[&str]) = match signed {
            true => (&WHERE_SIGNED, &["--signed"]),
            false => (&[], &[]),
        };
        let node = place.serve_with(&[&["--fault", fault], serve].concat());
        let protocol = protocol_of(fault);
        let asked = [
            "conform",
            "--url",
            &url(&node),
            "--protocol",
            protocol,
            "--json",
        ];
        let told = place.run(&[&asked, ask].concat()).exits(1).json();
        let failing: BTreeSet<&str> = told["checks"]
            .as_array()
            .unwrap()
            .iter()
            .filter(|check| check["passed"] == false)
            .filter_map(|check| check["requirement"].as_str())
            .collect();
        let expected: BTreeSet<&str> = expected.iter().copied().collect();
        assert_eq!(failing, expected, "{fault}: {told}");
        node.kill();
    }
}
