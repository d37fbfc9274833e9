//! The commands as a page: `docs/commands.md`.

use clap::{Arg, Command};

const HEAD: &str = "\
# Commands

Written by `chancery man --markdown`; `chancery COMMAND --help` tells the same of one.

Every command takes `--config <FILE>`, the configuration file (`CHANCERY_CONFIG`, else `./chancery.toml`), and `--json`, which writes for machines.
Exit codes: 0 done; 1 the answer is no (rejected, diverged, not valid); 2 wrong usage or configuration; 3 damaged data.
";

/// Every command that does something, with its arguments, options and an example.
pub(super) fn page(command: &Command) -> String {
    let mut page = HEAD.to_owned();
    add(command, command.get_name(), &mut page);
    page
}

fn add(command: &Command, path: &str, page: &mut String) {
    if !command.has_subcommands() {
        describe(command, path, page);
    }
    for sub in command.get_subcommands().filter(|sub| !sub.is_hide_set()) {
        add(sub, &format!("{path} {}", sub.get_name()), page);
    }
}

fn describe(command: &Command, path: &str, page: &mut String) {
    let about = command
        .get_about()
        .map(ToString::to_string)
        .unwrap_or_default();
    page.push_str(&format!("\n## `{path}`\n\n{about}.\n"));
    let own = |arg: &&Arg| !arg.is_global_set() && !arg.is_hide_set() && arg.get_id() != "help";
    let rows: Vec<String> = command.get_arguments().filter(own).map(row).collect();
    if !rows.is_empty() {
        page.push_str("\n| argument | |\n|---|---|\n");
        page.extend(rows);
    }
    let example = command
        .get_after_help()
        .map(ToString::to_string)
        .unwrap_or_default();
    let example = example.trim_start_matches("Example:\n");
    let lines = example
        .lines()
        .map(|line| line.strip_prefix("  ").unwrap_or(line));
    let lines: Vec<&str> = lines.collect();
    page.push_str(&format!("\n```text\n{}\n```\n", lines.join("\n")));
}

fn row(arg: &Arg) -> String {
    let mut told = arg.get_help().map(ToString::to_string).unwrap_or_default();
    let values = arg.get_possible_values();
    let values: Vec<&str> = values
        .iter()
        .map(clap::builder::PossibleValue::get_name)
        .collect();
    if arg.get_action().takes_values() && !values.is_empty() {
        told.push_str(&format!(" (one of {})", values.join(", ")));
    }
    let defaults: Vec<_> = arg
        .get_default_values()
        .iter()
        .map(|it| it.to_string_lossy())
        .collect();
    if arg.get_action().takes_values() && !defaults.is_empty() {
        told.push_str(&format!(" [default: {}]", defaults.join(", ")));
    }
    format!("| `{arg}` | {} |\n", told.replace('|', "\\|"))
}
