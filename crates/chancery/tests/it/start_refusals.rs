//! A start that fails says what, where, and what to do next (CH-CLI-3).

use crate::support::Place;

fn home() -> Place {
    Place::new()
        .with("CHANCERY_LISTEN", "127.0.0.1:0")
        .with("CHANCERY_DATA", "data")
        .with("CHANCERY_DEV", "true")
}

/// What is told: the fault, and behind it what to do.
fn two_lines(told: &str) -> (&str, &str) {
    let lines: Vec<&str> = told.lines().collect();
    assert_eq!(lines.len(), 2, "{told}");
    (lines[0], lines[1])
}

// CH-CLI-3, CH-NET-5
#[test]
fn a_directory_in_use_is_named_with_its_holder() {
    let place = home();
    let node = place.serve();
    let refused = place.refuses_to_serve(&[]).exits(2).err;
    let (what, next) = two_lines(&refused);
    assert!(
        what.contains("data directory data is in use by process"),
        "{what}"
    );
    assert!(what.contains(&node.pid().to_string()), "{what}");
    assert!(next.contains("--data"), "{next}");
    node.stop_well();
}

// CH-CLI-3
#[test]
fn a_directory_that_cannot_be_used_is_named() {
    // Root may write everywhere, but nobody into a folder as if it were a file.
    let place = home();
    std::fs::create_dir_all(place.path("data/lock")).unwrap();
    let refused = place.refuses_to_serve(&[]).exits(2).err;
    let (what, next) = two_lines(&refused);
    assert!(what.contains("data/lock"), "{what}");
    assert!(next.contains("write in data"), "{next}");
    let place = home();
    place.write("data", "a file");
    let refused = place.refuses_to_serve(&[]).exits(2).err;
    let (what, next) = two_lines(&refused);
    assert!(
        what.contains("data directory data cannot be used"),
        "{what}"
    );
    assert!(next.contains("--data"), "{next}");
}

// CH-CLI-3, VX-KEY-8
#[test]
fn a_key_that_is_missing_is_told_with_what_wants_it() {
    let place = home();
    place.write(
        "chancery.toml",
        "[[vacant.agent]]\nname = \"bob\"\nseed = \"nope.key\"\nbehaviour = \"echo\"\n",
    );
    let refused = place.refuses_to_serve(&[]).exits(2).err;
    let (what, next) = two_lines(&refused);
    assert!(
        what.contains("seed of vacant bob") && what.contains("nope.key"),
        "{what}"
    );
    assert!(next.contains("chancery key new"), "{next}");
    place.write("share.json", "{}");
    let sent = ["send", "value-context", "share.json", "--key", "no.key"];
    let refused = place.run(&sent).exits(2).err;
    let (what, next) = two_lines(&refused);
    assert!(
        what.contains("no.key") && next.contains("chancery key new"),
        "{refused}"
    );
}

// CH-CLI-3, CH-CFG-5
#[test]
fn a_world_that_was_cut_short_is_told_as_that() {
    for variable in ["CHANCERY_VALUE_CONTEXT_WORLD", "CHANCERY_VIBE_WORLD"] {
        let place = home().with(variable, "world.json");
        place.write("world.json", "{\"trust\": {\n \"a\": [");
        let refused = place.refuses_to_serve(&[]).exits(2).err;
        let (what, next) = two_lines(&refused);
        assert!(
            what.contains("world.json:2: the JSON ends too early"),
            "{what}"
        );
        assert!(next.contains("whole file"), "{next}");
    }
}

// CH-CLI-1, CH-CLI-3
#[test]
fn a_mistyped_wish_for_logs_is_refused() {
    for (asked, part) in [
        ("warn,chancery::decision=inof", "chancery::decision=inof"),
        ("wran", "wran"),
        ("info,wran", "wran"),
    ] {
        let place = home().with("CHANCERY_LOG", asked);
        let refused = place.refuses_to_serve(&[]).exits(2).err;
        assert!(
            refused.contains(&format!("CHANCERY_LOG: {part} ")),
            "{refused}"
        );
        assert!(refused.contains("debug"), "{refused}");
    }
    for asked in [
        "",
        "info",
        "WARN, chancery::decision=info",
        "chancery=debug,hyper=off",
    ] {
        home().with("CHANCERY_LOG", asked).serve().stop_well();
    }
}
