//! The files in `deploy/` say what the program knows: commands, variables, ports, paths.

use std::process::Command;

use chancery_testkit::postgres_server::PostgresServer;

use crate::doctored::private;
use crate::served::Served;
use crate::support::{Place, workspace};
use crate::two_nodes_bus::broker;

fn deployed(name: &str) -> String {
    std::fs::read_to_string(workspace().join("deploy").join(name)).unwrap()
}

/// The command lines of the page that have these words.
fn typed(words: &str) -> Vec<String> {
    let page = std::fs::read_to_string(workspace().join("docs/operations/deployment.md")).unwrap();
    let lines = page.lines().filter_map(|line| line.strip_prefix("$ "));
    let found = lines.filter(|line| line.contains(words));
    found.map(str::to_owned).collect()
}

/// The variables of the nodes in the compose file.
fn variables(compose: &str) -> Vec<(&str, &str)> {
    compose
        .lines()
        .map(str::trim)
        .filter(|line| line.starts_with("CHANCERY_"))
        .filter_map(|line| line.split_once(": "))
        .map(|(name, value)| (name, value.trim_matches('"')))
        .collect()
}

/// The token that `init` printed lets its holder administer this node.
fn is_let_in(node: &Served, printed: &str) {
    let mut lines = printed.lines();
    let token = lines.find_map(|line| line.strip_prefix("admin token"));
    let token = token.unwrap_or_else(|| panic!("{printed}")).trim();
    for path in ["/metrics", "/log"] {
        let asked = node.wire().with_token(token).get(path).unwrap();
        assert_eq!(asked.status, 200, "{path}: {}", asked.text());
        assert_eq!(node.wire().get(path).unwrap().status, 401, "{path}");
    }
}

/// What follows a word at the beginning of a line, without quotes.
fn after<'t>(text: &'t str, word: &str) -> Vec<&'t str> {
    let lines = text.lines().map(str::trim);
    let found = lines.filter_map(|line| line.strip_prefix(word));
    found.map(|rest| rest.trim().trim_matches('"')).collect()
}

/// The words of a list in brackets.
fn words(list: &str) -> Vec<&str> {
    let inner = list.trim_start_matches('[').trim_end_matches(']');
    inner
        .split(", ")
        .map(|word| word.trim_matches('"'))
        .collect()
}

#[test]
fn systemd_takes_the_unit() {
    let place = Place::new();
    // It looks whether the program is there: here it is where this build has put it.
    let unit =
        deployed("chancery.service").replace("/usr/bin/chancery", env!("CARGO_BIN_EXE_chancery"));
    let file = place.write("chancery.service", unit);
    let told = Command::new("systemd-analyze")
        .args(["verify", "--man=no"])
        .arg(file)
        .output()
        .expect("systemd-analyze is installed by cargo xtask setup");
    let said = String::from_utf8_lossy(&told.stderr);
    assert!(told.status.success() && said.is_empty(), "{said}");
}

#[test]
fn the_command_of_the_unit_serves_and_stops_in_its_time() {
    // CH-NET-1, CH-NET-3
    let unit = deployed("chancery.service");
    let command = after(&unit, "ExecStart=")[0];
    let mut words: Vec<&str> = command.split(' ').collect();
    let place = Place::new();
    let state = after(&unit, "StateDirectory=")[0];
    assert_eq!(
        after(&unit, "WorkingDirectory="),
        [format!("/var/lib/{state}")]
    );
    let file = place.write(
        "etc/chancery.toml",
        "listen = \"127.0.0.1:0\"\ndata = \"../state\"\n",
    );
    assert_eq!(words.remove(0), "/usr/bin/chancery");
    let config = words
        .iter_mut()
        .find(|word| **word == "/etc/chancery/chancery.toml");
    *config.unwrap() = file.to_str().unwrap();
    let node = place.start(place.command(&words));
    assert!(place.path("state/audit.jsonl").exists());
    node.stop_well();
    let seconds: u64 = after(&unit, "TimeoutStopSec=")[0].parse().unwrap();
    assert!(seconds > 10, "a node may take 10 s to stop");
    // A node ends while its database is away, as often as it is started: systemd must not give up on it.
    assert_eq!(after(&unit, "Restart="), ["on-failure"]);
    assert_eq!(after(&unit, "StartLimitIntervalSec="), ["0"]);
    // A configuration that is wrong does not become right by trying (CH-CLI-1).
    assert_eq!(after(&unit, "RestartPreventExitStatus="), ["2"]);
}

#[test]
fn the_token_that_the_page_of_systemd_prints_is_good() {
    // CH-ID-1, CH-NET-4: its commands as they stand, but for who types them and where the directories are.
    let unit = deployed("chancery.service");
    let state = after(&unit, "WorkingDirectory=")[0];
    let user = after(&unit, "User=")[0];
    let [init] = &typed("chancery init")[..] else {
        panic!("one line makes the configuration");
    };
    let init = init
        .strip_prefix(&format!("runuser -u {user} -- chancery "))
        .expect("it is typed as the user of the unit");
    let made = typed(&format!("install -d -o {user} "));
    let folders: Vec<&str> = made[0].rsplit(' ').take(2).collect();
    assert_eq!(folders, [state, "/etc/chancery"]);

    let place = Place::new();
    let here = |word: &str| {
        let path = match folders.iter().position(|folder| word.starts_with(folder)) {
            Some(_) => place.path(word.trim_start_matches('/')),
            None => word.into(),
        };
        path.to_str().unwrap().to_owned()
    };
    for folder in &folders {
        std::fs::create_dir_all(here(folder)).unwrap();
    }
    let words: Vec<String> = init.split(' ').map(here).collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let printed = place.run(&words).exits(0).text();
    let serve = after(&unit, "ExecStart=/usr/bin/chancery ")[0];
    let serve: Vec<String> = serve.split(' ').map(here).collect();
    let serve: Vec<&str> = serve.iter().map(String::as_str).collect();
    let mut command = place.command(&serve);
    command
        .args(["--listen", "127.0.0.1:0"])
        .current_dir(here(state));
    let node = place.start(command);
    is_let_in(&node, &printed);
    node.stop_well();
    assert!(place.path("var/lib/chancery/audit.jsonl").exists());
}

#[test]
fn the_token_that_the_page_of_compose_prints_is_good_at_both_nodes() {
    // CH-ID-1, CH-JRN-5: what the containers run, with their variables, and volumes that are directories.
    let (server, broker) = (PostgresServer::start(), broker());
    let compose = deployed("compose.yaml");
    let [run] = &typed("docker compose run")[..] else {
        panic!("one line makes the token");
    };
    let (_, init) = run.split_once(" node-1 ").unwrap();
    let mut nodes = Vec::new();
    let mut printed = String::new();
    for number in 1..=2 {
        let mut place = Place::new();
        for (name, value) in variables(&compose) {
            let data = place.path("volume").display().to_string();
            let value = match name {
                "CHANCERY_LISTEN" => "127.0.0.1:0".to_owned(),
                "CHANCERY_STORE_PASSWORD_FILE" => continue,
                "CHANCERY_DATA" => data,
                "CHANCERY_STORE" => server.url().to_owned(),
                "CHANCERY_BUS" | "CHANCERY_AGH_NATS" => broker.url(),
                _ => value.to_owned(),
            };
            place = place.with(name, &value);
        }
        if number == 1 {
            let data = place.variable("CHANCERY_DATA").unwrap();
            let config = place.path("config");
            let here = |word: &str| match word {
                "/tmp" => config.display().to_string(),
                "/var/lib/chancery" => data.to_owned(),
                word => word.to_owned(),
            };
            let words: Vec<String> = init.split(' ').map(here).collect();
            let words: Vec<&str> = words.iter().map(String::as_str).collect();
            printed = place.run(&words).exits(0).text();
        }
        let node = place.serve();
        // The first has put it on record before it takes anybody in.
        is_let_in(&node, &printed);
        nodes.push((place, node));
    }
    for (_, node) in nodes {
        node.stop_well();
    }
}

#[test]
fn the_compose_file_says_what_the_program_knows() {
    // CH-CFG-1
    let (compose, image) = (deployed("compose.yaml"), deployed("Dockerfile"));
    let variables = variables(&compose);
    let value = |name: &str| variables.iter().find(|(set, _)| *set == name).unwrap().1;
    assert!(variables.len() >= 9);

    let secret = value("CHANCERY_STORE_PASSWORD_FILE")
        .strip_prefix("/run/secrets/")
        .unwrap();
    assert!(compose.contains(&format!("\nsecrets:\n  {secret}:\n")));
    let store = value("CHANCERY_STORE").strip_prefix("postgres://").unwrap();
    let (user, place) = store.split_once('@').unwrap();
    let (host, database) = place.split_once(":5432/").unwrap();
    assert_eq!(
        (
            after(&compose, "POSTGRES_USER:"),
            after(&compose, "POSTGRES_DB:")
        ),
        (vec![user], vec![database])
    );
    let broker = value("CHANCERY_AGH_NATS").strip_prefix("nats://").unwrap();
    // It keeps streams for the bus, which is why the nodes have one.
    assert_eq!(value("CHANCERY_BUS"), value("CHANCERY_AGH_NATS"));
    let of_broker = compose.split("\n  broker:\n").nth(1).unwrap();
    assert_eq!(words(after(of_broker, "command:")[0]), ["--jetstream"]);
    for service in [host, broker.strip_suffix(":4222").unwrap()] {
        assert!(
            compose.contains(&format!("\n  {service}:\n    image: ")),
            "{service}"
        );
    }

    let (_, port) = value("CHANCERY_LISTEN").split_once(':').unwrap();
    assert_eq!(after(&image, "EXPOSE"), [port]);
    for published in after(&compose, "ports:") {
        assert!(
            words(published)[0].ends_with(&format!(":{port}")),
            "{published}"
        );
    }
    let data = value("CHANCERY_DATA");
    let volumes = after(&compose, "volumes:");
    let of_nodes = volumes.iter().filter(|volume| volume.contains("node-"));
    assert_eq!(
        of_nodes
            .filter(|volume| words(volume)[0].ends_with(&format!(":{data}")))
            .count(),
        2
    );
    assert_eq!(after(&image, "WORKDIR").last(), Some(&data));

    let runs = words(after(&compose, "command:")[0]);
    assert_eq!(words(after(&image, "CMD")[0]), runs);
    let mut here = Place::new();
    here.run(&[&runs[..], &["--help"]].concat()).exits(0);
    private(&here, "password", b"secret");
    for (name, value) in &variables {
        let is_file = *name == "CHANCERY_STORE_PASSWORD_FILE";
        here = here.with(name, if is_file { "password" } else { value });
    }
    here.run(&["config", "check"]).exits(0);
}

#[test]
fn a_container_that_is_stopped_has_the_time_that_a_node_may_take() {
    // CH-NET-3: docker kills after 10 s where nothing is said, which is when a node gives up.
    let compose = deployed("compose.yaml");
    let of_nodes = compose.split("\nservices:\n").next().unwrap();
    let period = after(of_nodes, "stop_grace_period:")[0];
    let seconds: u64 = period.strip_suffix('s').unwrap().parse().unwrap();
    assert!(seconds > 10, "a node may take 10 s to stop");
}

#[test]
fn what_the_dockerfile_copies_is_there_or_is_built() {
    let image = deployed("Dockerfile");
    let copied = after(&image, "COPY");
    assert_eq!(copied.len(), 2);
    let folder = after(&image, "WORKDIR")[0];
    let built = after(&image, "RUN")[0];
    assert!(built.starts_with("cargo build --release "), "{built}");
    let program = built.split(" -p ").nth(1).unwrap();
    let manifest = format!("crates/{program}/Cargo.toml");
    assert!(workspace().join(manifest).is_file(), "{program}");
    for line in copied {
        let parts: Vec<&str> = line.split(' ').collect();
        match parts[..] {
            [from, _] => assert!(workspace().join(from).exists(), "{from}"),
            ["--from=build", from, to] => {
                assert_eq!(from, format!("{folder}/target/release/{program}"));
                assert_eq!(words(after(&image, "ENTRYPOINT")[0]), [to]);
            }
            _ => panic!("{line}"),
        }
    }
    // Not as root: who serves owns its data directory, and the password that the page speaks of.
    let user = after(&image, "USER");
    let made = after(&image, "RUN useradd --uid ")[0];
    let (uid, _) = made.split_once(' ').unwrap();
    assert!(made.contains(&format!(" {} ", user[0])), "{made}");
    let data = after(&image, "WORKDIR")[1];
    let owned = format!("install --directory --owner={} --mode=0700 {data}", user[0]);
    assert!(image.contains(&owned), "{image}");
    let page = std::fs::read_to_string(workspace().join("docs/operations/deployment.md")).unwrap();
    assert!(page.contains(&format!("owned by user {uid}")));
    let ignored = std::fs::read_to_string(workspace().join(".dockerignore")).unwrap();
    assert!(ignored.lines().any(|line| line == "target"));
}

#[test]
fn the_page_says_that_compose_was_not_started() {
    let page = std::fs::read_to_string(workspace().join("docs/operations/deployment.md")).unwrap();
    assert!(page.contains("This file has not been started here"));
}
