//! Somebody else's program makes requests from the description of the paths: nothing that it thinks of is a fault of the
//! node, and every answer is one that is described.
//!
//! `cargo xtask setup` installs schemathesis, in the version of its lock file.

use std::process::{Command, Stdio};

use chancery_doors::http::{Route, routes};
use chancery_testkit::installed::official_client;
use chancery_testkit::process::bound_by;
use serde_json::{Value, json};

use crate::running_node::{KITCHEN, RunningNode};
use crate::support::Place;

/// What is asked of every answer. The others are about what a service accepts, where protocols have rules that no schema says.
const CHECKS: &str = "not_a_server_error,status_code_conformance,content_type_conformance,\
    response_schema_conformance,response_headers_conformance,unsupported_method,allow_header_conformance,ignored_auth";

/// A node that serves all four protocols, so that no path answers that it is not configured.
fn node() -> RunningNode {
    RunningNode::start_in(|place: &Place| {
        place.run(&["vacant", "init", "bob.key"]).exits(0);
        place.write("world.json", world().to_string());
        let configuration = "[vibe]\nworld = \"world.json\"\n\
            [[vacant.agent]]\nname = \"bob\"\nseed = \"bob.key\"\nstate = \"ACTIVE\"\n\
            capability = \"echoes what it hears\"\nbehaviour = \"echo\"\n\
            [[agh.peer]]\nid = \"worker.session-19\"\nchannel = \"builders\"\n";
        place.write("chancery.toml", configuration);
    })
}

fn world() -> Value {
    let account = |id: &str, owner: &str, balance: u64| json!({"account_id": id, "owner": owner, "currency": "USD", "balance": balance});
    json!({
        "seed_id": "first", "currency": "USD", "policy": {},
        "merchants": [{"merchant_id": "m_keys", "name": "Keys & Co", "account_id": "acc_keys"}],
        "catalog": [{"merchant_id": "m_keys", "sku_id": "sku_quiet", "title": "Quiet keyboard",
            "attributes": [], "list_price": 12900, "eta_days": 2, "refundable": true}],
        "inventory": [{"merchant_id": "m_keys", "sku_id": "sku_quiet", "on_hand": 5, "reserved": 0}],
        "ledger": [account("acc_ada", "c_ada", 100_000), account("acc_keys", "m_keys", 0)],
    })
}

/// A token for everything that there is on this node.
fn token(node: &RunningNode) -> String {
    let agents = [KITCHEN, "bob", "builders/worker.session-19"];
    let of_agents = agents.iter().flat_map(|agent| {
        ["send:", "read:inbox:", "read:state:"].map(|scope| format!("{scope}{agent}"))
    });
    let scopes = of_agents.chain(["admin", "approve", "read:log"].map(str::to_owned));
    let scopes: Vec<String> = scopes.collect();
    let mut arguments = vec!["token", "new", "tester", "--json"];
    for scope in &scopes {
        arguments.extend(["--scope", scope]);
    }
    let issued = node.run(&arguments).exits(0).json();
    issued["token"].as_str().unwrap().to_owned()
}

/// Without dev the first is not there, whatever the method. The second would be called with the identifiers that answers
/// tell, also that of the run's own token, and shut out the rest. The last is where the description itself was read from.
const LEFT_OUT: [&str; 3] = ["/dev/clock", "DELETE /admin/tokens/{id}", "/openapi.json"];

fn is_left_out(route: &Route) -> bool {
    let operation = format!("{} {}", route.method, route.path);
    LEFT_OUT.contains(&route.path) || LEFT_OUT.contains(&&*operation)
}

/// How many operations the summary says were tested.
fn tested(summary: &str) -> usize {
    let told = summary.lines().map(str::trim);
    let told = told.filter_map(|line| line.strip_prefix("Tested: "));
    let told: Vec<usize> = told.map(|count| count.parse().unwrap()).collect();
    let [count] = told[..] else {
        panic!("the summary tells one count of operations: {summary}");
    };
    count
}

/// How long one run may go on, however slow the machine is: beyond it the program or the node hangs.
const HANGS_AFTER_S: u64 = 20 * 60;

/// One run of the program, for this long; gives its summary. Whatever it finds is a fault.
fn run_for(node: &RunningNode, token: &str, seconds: u64, seed: &str) -> String {
    let mut program = Command::new("timeout");
    // Interrupted, it still tells what it found until then.
    program
        .args(["--signal=INT", "--kill-after=60"])
        .arg((seconds + HANGS_AFTER_S).to_string())
        .arg(official_client("schemathesis").join("bin/schemathesis"))
        .args(["run", &format!("{}/openapi.json", node.url)])
        .args(["--header", &format!("Authorization: Bearer {token}")])
        .args(["--checks", CHECKS, "--phases", "examples,coverage,fuzzing"])
        .args(["--max-time", &seconds.to_string()])
        .args(["--request-timeout", "70", "--seed", seed])
        .args(["--exclude-path", LEFT_OUT[0]])
        .args(["--exclude-name", LEFT_OUT[1]])
        // How fast and how wastefully it makes up its requests is no matter of the node.
        .args(["--suppress-health-check", "all"])
        .args(["--continue-on-failure", "--warnings", "off", "--no-color"])
        .current_dir(node.place.path("."))
        .env_remove("http_proxy")
        .env("NO_PROXY", "127.0.0.1")
        .env("PYTHONUNBUFFERED", "1");
    let mut command = bound_by("TERM", &program);
    let output = command.stdin(Stdio::null()).output().unwrap();
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(
        output.status.success(),
        "CHANCERY_PATHS_SEED={seed}, {seconds} s, {}: {said}\n{}",
        output.status,
        String::from_utf8_lossy(&output.stderr)
    );
    let summary = said.find("SUMMARY").map_or("", |at| &said[at..]);
    println!("CHANCERY_PATHS_SEED={seed}, {seconds} s: {summary}");
    summary.to_owned()
}

// CH-NET-1, CH-NET-4, interface 2
#[test]
fn requests_made_from_the_description_find_no_fault() {
    let seconds = std::env::var("CHANCERY_PATHS_S").map_or(180, |seconds| seconds.parse().unwrap());
    // Every run begins with the same requests. It goes on with others, each round with the next seed, until its time is
    // over: how far it comes is the machine's doing, and a fault that only a far round finds is one all the same.
    let seed = std::env::var("CHANCERY_PATHS_SEED").unwrap_or_else(|_| "1".to_owned());
    let mut node = node();
    let token = token(&node);
    // Nobody waits for what does not come.
    node.place
        .write("schemathesis.toml", "[parameters]\n\"query.wait\" = 0\n");
    // A run whose time was over before it came to all of them has found nothing about the rest: a slow machine gets more.
    let asked = routes().iter().filter(|route| !is_left_out(route)).count();
    let mut times = [1, 2, 4].map(|more| seconds * more).into_iter();
    let all_tested = times.any(|seconds| {
        let summary = run_for(&node, &token, seconds, &seed);
        let tested = tested(&summary);
        assert!(tested <= asked, "{tested} of {asked}: {summary}");
        tested == asked
    });
    assert!(all_tested, "not all of the {asked} operations were tested");
    // Whoever is shut out finds no fault either.
    node.run_as(Some(&token), &["token", "list"]).exits(0);
    // What it did to the node is on a log that holds.
    node.stop_well();
    node.place.run(&["log", "verify", "chancery-data"]).exits(0);
    node.place.run(&["log", "replay", "chancery-data"]).exits(0);
}
