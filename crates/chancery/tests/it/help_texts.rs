//! Help: one screen, groups, an example with every command (CH-CLI-1).

use crate::support::Place;

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
    "token",
    "token new",
    "token list",
    "token revoke",
    "approvals",
    "approve",
    "reject",
    "world",
    "world apply",
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
