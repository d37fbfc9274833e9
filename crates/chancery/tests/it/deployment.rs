//! The files in `deploy/` say what the program knows: commands, variables, ports, paths.

use std::process::Command;

use crate::support::{Place, workspace};

fn deployed(name: &str) -> String {
    std::fs::read_to_string(workspace().join("deploy").join(name)).unwrap()
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
}

#[test]
fn the_compose_file_says_what_the_program_knows() {
    // CH-CFG-1
    let (compose, image) = (deployed("compose.yaml"), deployed("Dockerfile"));
    let variables: Vec<(&str, &str)> = compose
        .lines()
        .map(str::trim)
        .filter(|line| line.starts_with("CHANCERY_"))
        .filter_map(|line| line.split_once(": "))
        .map(|(name, value)| (name, value.trim_matches('"')))
        .collect();
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
    here.write("password", "secret");
    for (name, value) in &variables {
        let is_file = *name == "CHANCERY_STORE_PASSWORD_FILE";
        here = here.with(name, if is_file { "password" } else { value });
    }
    here.run(&["config", "check"]).exits(0);
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
    let ignored = std::fs::read_to_string(workspace().join(".dockerignore")).unwrap();
    assert!(ignored.lines().any(|line| line == "target"));
}

#[test]
fn the_page_says_that_compose_was_not_started() {
    let page = std::fs::read_to_string(workspace().join("docs/operations/deployment.md")).unwrap();
    assert!(page.contains("This file has not been started here"));
}
