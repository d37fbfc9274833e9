//! Help: one screen, groups, an example with every command (CH-CLI-1).

use std::collections::BTreeSet;

use crate::support::{Place, workspace};

fn help(arguments: &[&str]) -> String {
    Place::new().run(arguments).exits(0).text()
}

#[test]
fn the_first_help_fits_one_screen() {
    // CH-CLI-1
    let text = help(&["--help"]);
    assert!(text.lines().count() <= 24, "{text}");
    assert!(
        text.lines().all(|line| line.chars().count() <= 100),
        "{text}"
    );
    insta::assert_snapshot!("chancery", text);
}

/// Every command that is not hidden.
const COMMANDS: &[&str] = &[
    "demo",
    "market",
    "init",
    "serve",
    "mcp",
    "send",
    "config",
    "config show",
    "config check",
    "config apply",
    "config reference",
    "key",
    "key new",
    "key show",
    "key list",
    "key add",
    "key rotate",
    "key revoke",
    "agent",
    "agent add",
    "agent list",
    "agent show",
    "agent suspend",
    "agent resume",
    "agent remove",
    "agh",
    "agh join",
    "agh say",
    "agh direct",
    "agh whois",
    "agh peers",
    "agh interactions",
    "agh trace",
    "agh cancel",
    "agh watch",
    "reload",
    "token",
    "token new",
    "token list",
    "token revoke",
    "approvals",
    "approve",
    "reject",
    "world",
    "world apply",
    "world hash",
    "vibe",
    "vibe ap2",
    "vibe ap2 export",
    "vibe ap2 import",
    "vacant",
    "vacant init",
    "vacant card",
    "vacant call",
    "vacant verify",
    "vacant search",
    "vacant serve",
    "vacant prune",
    "store",
    "store migrate",
    "store backup",
    "store restore",
    "store check",
    "log",
    "log tail",
    "log show",
    "log export",
    "log verify",
    "log replay",
    "log explain",
    "log timeline",
    "doctor",
    "explain",
    "canon",
    "schema",
    "conform",
    "bench",
    "bench pipeline",
    "bench http",
    "bench search",
    "bench ws",
    "bench nats",
    "bench postgres",
    "bench emergency",
    "bench store",
    "bench replay",
    "bench memory",
    "completions",
    "man",
];

#[test]
fn help_of_every_command() {
    // CH-CLI-1
    for command in COMMANDS {
        let mut arguments: Vec<&str> = command.split(' ').collect();
        arguments.push("--help");
        let text = help(&arguments);
        assert!(text.contains("Example:\n  "), "{command}");
        insta::assert_snapshot!(command.replace(' ', "_"), text);
    }
}

#[test]
fn the_manual_has_a_page_for_each_of_them() {
    // CH-CLI-1
    let place = Place::new();
    place.run(&["man", "--out", "man"]).exits(0);
    let written = std::fs::read_dir(place.path("man")).unwrap();
    let written = written.map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let of_command = |command: &&str| format!("chancery-{}.1", command.replace(' ', "-"));
    let expected = COMMANDS.iter().map(of_command);
    let expected: BTreeSet<String> = expected.chain(["chancery.1".to_owned()]).collect();
    assert_eq!(written.collect::<BTreeSet<_>>(), expected);
}

#[test]
fn the_page_of_commands_is_what_the_program_writes() {
    // CH-CLI-1
    let told = help(&["man", "--markdown"]);
    let with_own = |command: &&&str| {
        COMMANDS
            .iter()
            .any(|it| it.starts_with(&format!("{command} ")))
    };
    let (groups, commands): (Vec<&&str>, Vec<&&str>) = COMMANDS.iter().partition(with_own);
    for command in &commands {
        assert!(
            told.contains(&format!("\n## `chancery {command}`\n")),
            "{command}"
        );
    }
    assert_eq!(told.matches("\n## ").count(), COMMANDS.len() - groups.len());
    let page = std::fs::read_to_string(workspace().join("docs/commands.md")).unwrap();
    assert!(page == told, "chancery man --markdown > docs/commands.md");
}
