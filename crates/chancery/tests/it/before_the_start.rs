//! What `config check` and `doctor` say of a home whose node would not start: the same as `serve` does.

use std::os::unix::fs::PermissionsExt as _;

use serde_json::{Value, json};

use crate::doctored::{findings, private};
use crate::served::{HOSTED, world};
use crate::support::Place;

/// A file that a start refuses, and how it is named.
struct Planted {
    name: &'static str,
    text: String,
    setting: &'static str,
    variable: Option<(&'static str, &'static str)>,
}

fn planted(
    name: &'static str,
    text: impl Into<String>,
    setting: &'static str,
    variable: &'static str,
) -> Planted {
    Planted {
        name,
        text: text.into(),
        setting,
        variable: Some((variable, name)),
    }
}

fn of_configuration(name: &'static str, text: &str, setting: &'static str) -> Planted {
    Planted {
        name,
        text: text.to_owned(),
        setting,
        variable: None,
    }
}

/// A world whose first agent has a key file.
fn with_key_file() -> String {
    let mut world = world();
    let agents = world["local_agents"].as_array_mut().unwrap();
    let hosted = agents.iter_mut().find(|agent| agent["id"] == HOSTED[0]);
    hosted.unwrap()["key_file"] = json!("agent.key");
    world.to_string()
}

fn all() -> Vec<Planted> {
    let of_context = "CHANCERY_VALUE_CONTEXT_WORLD";
    let whole = world().to_string();
    let cut = &whole[..whole.len() / 2];
    let vacant = "[[vacant.agent]]\nname = \"bob\"\nseed = \"bob.key\"\nbehaviour = \"echo\"\n";
    vec![
        planted("w.json", cut, "value_context.world", of_context),
        planted(
            "w.json",
            r#"{"trust":{}}"#,
            "value_context.world",
            of_context,
        ),
        planted("w.json", with_key_file(), "agent.key", of_context),
        planted(
            "s.json",
            r#"{"seed_id":"#,
            "vibe.world",
            "CHANCERY_VIBE_WORLD",
        ),
        planted(
            "s.json",
            r#"{"seed_id":"a"}"#,
            "vibe.world",
            "CHANCERY_VIBE_WORLD",
        ),
        planted(
            "t.toml",
            "[[token]\n",
            "vibe.tokens",
            "CHANCERY_VIBE_TOKENS",
        ),
        planted(
            "t.toml",
            "[[token]]\nhash = \"7\"\nprincipal = \"a\"\n",
            "vibe.tokens",
            "CHANCERY_VIBE_TOKENS",
        ),
        of_configuration("bob.key", "no key", "bob.key"),
        of_configuration("bob.key", "", "bob.key"),
    ]
    .into_iter()
    .map(|mut planted| {
        if planted.variable.is_none() {
            planted.setting = "vacant bob";
            planted.text = format!("{}\u{0}{vacant}", planted.text);
        }
        planted
    })
    .collect()
}

/// A home with one such file.
fn home(planted: &Planted) -> Place {
    let place = Place::new()
        .with("CHANCERY_LISTEN", "127.0.0.1:0")
        .with("CHANCERY_DATA", "data")
        .with("CHANCERY_DEV", "true");
    match planted.variable {
        Some((variable, value)) => {
            private(&place, planted.name, planted.text.as_bytes());
            place.with(variable, value)
        }
        None => {
            let (key, configuration) = planted.text.split_once('\0').unwrap();
            private(&place, planted.name, key.as_bytes());
            place.write("chancery.toml", configuration);
            place
        }
    }
}

// CH-CLI-1, CH-CLI-3, CH-CFG-4, CH-CFG-5, VX-KEY-8
#[test]
fn a_file_that_stops_a_start_is_found_before_it() {
    for planted in all() {
        let place = home(&planted);
        let refused = place.refuses_to_serve(&[]).exits(2).err;
        let [name, setting] = [planted.name, planted.setting];
        let shown =
            |told: &str| told.contains(setting) && told.contains(".key") | told.contains(name);
        assert!(shown(&refused), "{name}: {refused}");
        assert!(refused.lines().count() > 1, "what to do next: {refused}");
        let checked = place.run(&["config", "check"]).exits(2).err;
        assert_eq!(checked, refused, "{name}: a start says it otherwise");
        let found = findings(&place, &[]);
        let told = |found: &Value| {
            let text = |member: &str| found[member].as_str().unwrap().to_owned();
            !text("next").is_empty()
                && (text("what") + &text("place")).contains(".key")
                    | (text("what") + &text("place")).contains(name)
        };
        assert!(found.iter().any(told), "{name}: {found:?}");
    }
}

// CH-CFG-4
#[test]
fn each_wrong_file_is_told_once() {
    let place = Place::new()
        .with("CHANCERY_VIBE_WORLD", "gone.json")
        .with("CHANCERY_VALUE_CONTEXT_WORLD", "w.json");
    place.write("w.json", "{\"trust\": 7}");
    let found = findings(&place, &[]);
    let places: Vec<&Value> = found.iter().map(|finding| &finding["place"]).collect();
    assert_eq!(places, ["vibe.world", "value_context.world"], "{found:?}");
}

// CH-CFG-4, CH-ID-3
#[test]
fn a_key_that_a_model_has_in_its_environment_is_not_asked_of_ours() {
    let place = Place::new();
    let key = place.run(&["vacant", "init", "bob.key"]);
    key.exits(0);
    place.write(
        "chancery.toml",
        "[[vacant.agent]]\nname = \"bob\"\nseed = \"bob.key\"\nbehaviour = \"model:m\"\n\
         [model.m]\nurl = \"http://127.0.0.1:1/v1\"\nmodel = \"m\"\nkey_env = \"OF_THE_NODE\"\n",
    );
    place.run(&["config", "check"]).exits(0);
}

// CH-CLI-1, CH-CLI-3
#[test]
fn a_folder_that_is_no_home_is_a_finding() {
    let place = Place::new();
    let found = findings(&place, &[]);
    assert_eq!(found.len(), 1, "{found:?}");
    let what = found[0]["what"].as_str().unwrap();
    assert!(
        what.contains("chancery.toml") && what.contains("chancery-data"),
        "{what}"
    );
    // Where there is data, and no file, the defaults count and it says so.
    let place = Place::new();
    std::fs::create_dir(place.path("chancery-data")).unwrap();
    let private = std::fs::Permissions::from_mode(0o700);
    std::fs::set_permissions(place.path("chancery-data"), private).unwrap();
    let told = place.run(&["doctor"]).exits(0).text();
    assert!(told.contains("defaults"), "{told}");
}

// CH-CLI-1
#[test]
fn every_check_has_a_line_also_one_that_was_not_made() {
    let checks = [
        "configuration",
        "secrets",
        "certificate",
        "disk",
        "log",
        "store",
        "clock",
        "keys",
        "broker",
        "bus",
        "node",
    ];
    let place = Place::new();
    place.run(&["init"]).exits(0);
    let homes: [(&Place, &[&str]); 2] = [(&place, &[]), (&Place::new(), &[])];
    for (place, arguments) in homes {
        let told = place.run(&[&["doctor"], arguments].concat()).text();
        for check in checks {
            let is_of = |line: &&str| line.split_whitespace().nth(1) == Some(check);
            assert!(told.lines().any(|line| is_of(&line)), "{check}: {told}");
        }
    }
    let told = place.run(&["doctor"]).exits(0).text();
    assert!(told.contains("it does not run"), "{told}");
    let told = place.run(&["doctor", "--json"]).exits(0).json();
    assert!(told["left_out"]["node"].as_str().unwrap().contains("serve"));
}
