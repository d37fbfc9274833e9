//! README and the pages under docs/, typed word by word: what is printed there is what the program prints.
//!
//! The `console` blocks of a section are one session, in an empty folder of its own. A block that cannot be run here has the
//! mark `<!-- not run: reason -->` above it, and there are few of them.

#[allow(dead_code, reason = "the chores use all of it")]
#[path = "../../../../xtask/src/pages.rs"]
mod pages;

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use chancery_testkit::postgres_server::PostgresServer;
use chancery_testkit::process::bound_by;
use pages::{Block, Printed, Typed};

use crate::support::{Place, Ran, workspace};

fn read(page: &str) -> String {
    std::fs::read_to_string(workspace().join(page)).unwrap()
}

/// The pages that a reader types from. The specification is read, not typed.
fn all_pages() -> Vec<String> {
    fn below(folder: &Path, found: &mut Vec<PathBuf>) {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                below(&path, found);
            } else if path.extension().is_some_and(|end| end == "md") {
                found.push(path);
            }
        }
    }
    let root = workspace();
    let mut found = Vec::new();
    below(&root.join("docs"), &mut found);
    found.retain(|path| !path.starts_with(root.join("docs/spec")));
    let from_root = |path: &PathBuf| path.strip_prefix(&root).unwrap().display().to_string();
    let mut pages: Vec<String> = found.iter().map(from_root).collect();
    pages.sort();
    pages
}

/// The fenced blocks of a page.
fn blocks(page: &str) -> Vec<Block> {
    pages::blocks(&read(page)).unwrap_or_else(|fault| panic!("{page}: {fault}"))
}

#[test]
fn every_command_of_the_readme_prints_what_it_says() {
    // CH-CLI-1, CH-CLI-2, VX-RUN-2, VX-RUN-4, VX-RUN-6, VC-PRIV-1, VC-GATE-1, VC-GEN-6, VA-CLI-2, VA-REP-3
    let blocks = blocks("README.md");
    let sessions = pages::sessions(&blocks);
    assert_eq!(sessions.len(), 4, "one for each protocol");
    for (section, session) in sessions {
        assert!(session.len() >= 8, "{section}");
        type_all(section, &session, None);
    }
}

#[test]
fn every_command_of_the_pages_prints_what_they_say() {
    // CH-CLI-1, CH-CLI-3, CH-ID-1, CH-ID-2, CH-NET-2, CH-NET-4, CH-JRN-2, CH-JRN-5, CH-JRN-7, VX-KEY-4, VX-KEY-5, VC-GATE-1, VC-ADR-7
    let mut typed = 0;
    for page in all_pages() {
        for (section, session) in pages::sessions(&blocks(&page)) {
            let wants_database = session.iter().any(|it| it.command.contains("$DATABASE"));
            let server = wants_database.then(PostgresServer::start);
            type_all(&format!("{page} {section}"), &session, server.as_ref());
            typed += 1;
        }
    }
    assert!(typed >= 12, "{typed} sessions");
}

/// All that a page has to type, as somebody does who stays in one shell.
fn in_one_shell(blocks: &[Block]) -> Vec<Typed> {
    let sessions = pages::sessions(blocks);
    sessions.into_iter().flat_map(|(_, typed)| typed).collect()
}

// CH-CLI-1
#[test]
fn the_readme_can_be_typed_from_top_to_bottom_in_one_shell() {
    let mut typed = in_one_shell(&blocks("README.md"));
    // What a session exports would reach into what is typed afterwards.
    typed.push(Typed {
        command: "env | grep ^CHANCERY_".to_owned(),
        expected: Vec::new(),
    });
    type_all("README.md", &typed, None);
}

// CH-CLI-1
#[test]
fn a_page_of_several_sessions_can_be_typed_in_one_shell() {
    let mut typed = 0;
    for page in all_pages() {
        let blocks = blocks(&page);
        if pages::sessions(&blocks).len() > 1 {
            type_all(&page, &in_one_shell(&blocks), None);
            typed += 1;
        }
    }
    assert!(typed >= 2, "{typed} pages");
}

// CH-CLI-3
#[test]
fn whoever_waits_for_a_node_that_does_not_start_gets_the_shell_back() {
    let mut waits = 0;
    for page in all_pages().into_iter().chain(["README.md".to_owned()]) {
        for typed in in_one_shell(&blocks(&page)) {
            if !typed.command.starts_with("until [ -s ") {
                continue;
            }
            let words = [
                "chancery serve --listen nowhere > started.json 2> said.txt &",
                &typed.command,
                "wc -l < started.json",
            ];
            let session = words.map(|command| Typed {
                command: command.to_owned(),
                expected: Vec::new(),
            });
            let printed = print_all(&session, None, 10);
            let last = printed.get(session.len() - 1);
            let is_through = last.is_some_and(|last| last.lines == ["0"]);
            assert!(is_through, "{page}: it waits for ever: {}", typed.command);
            waits += 1;
        }
    }
    assert!(waits >= 12, "{waits}");
}

/// A line of a block of plain text that a reader would type: it belongs into a `console` block.
fn typed_in_text(text: &str) -> Option<&str> {
    let begins = ["chancery ", "cargo ", "$ "];
    text.lines()
        .find(|line| begins.iter().any(|begin| line.starts_with(begin)))
}

/// What `config check` says of a snippet, where the keys are that it names.
fn checked(text: &str) -> Ran {
    let place = Place::new();
    for key in text.split('"').filter(|word| word.ends_with(".key")) {
        place.run(&["vacant", "init", key]).exits(0);
    }
    place.write("chancery.toml", text);
    place.run(&["config", "check"])
}

// CH-CFG-1
#[test]
fn a_snippet_with_a_key_that_does_not_exist_is_found() {
    let refused = checked("[[vacant.agent]]\nbehavior = \"echo\"\n").exits(2);
    assert!(refused.err.contains("behavior"), "{}", refused.err);
}

#[test]
fn what_is_not_run_is_marked_and_rare() {
    let all: Vec<String> = all_pages()
        .into_iter()
        .chain(["README.md".to_owned()])
        .collect();
    let texts: Vec<String> = all.iter().map(|page| read(page)).collect();
    let named = all.iter().zip(&texts);
    let marks = pages::marks(named.map(|(page, text)| (page.as_str(), text.as_str()))).unwrap();
    println!(
        "not run: {} of {}\n{marks:#?}",
        marks.len(),
        pages::MOST_NOT_RUN
    );
    for page in &all {
        for block in blocks(page) {
            if block.not_run.is_some() {
                continue;
            }
            let text = &block.text;
            match block.language.as_str() {
                // The examples of this page are those of the help texts, and each is parsed there.
                "text" if page == "docs/commands.md" => {}
                "text" => assert_eq!(typed_in_text(text), None, "{page}"),
                "console" => {}
                "json" => drop(serde_json::from_str::<serde_json::Value>(text).unwrap()),
                "toml" => drop(checked(text).exits(0)),
                other => panic!("{page}: a block of {other:?} is neither run nor marked:\n{text}"),
            }
        }
    }
}

#[test]
fn every_link_between_pages_leads_somewhere() {
    for page in all_pages().into_iter().chain(["README.md".to_owned()]) {
        let text = read(&page);
        let folder = workspace().join(&page).parent().unwrap().to_owned();
        let targets = text
            .split("](")
            .skip(1)
            .filter_map(|rest| rest.split(')').next());
        for target in targets.filter(|target| !target.contains("://")) {
            let file = target.split('#').next().unwrap();
            assert!(folder.join(file).exists(), "{page}: {target}");
        }
    }
}

fn type_all(what: &str, session: &[Typed], database: Option<&PostgresServer>) {
    // Two minutes are plenty; a node that does not come up must not keep a reader waiting, nor this test.
    let printed = print_all(session, database, 120);
    let difference = pages::difference(session, &printed);
    assert!(
        difference.is_none(),
        "{what}: {}\n{}",
        difference.unwrap_or_default(),
        as_text(session, &printed)
    );
}

/// What was typed and what came back.
fn as_text(session: &[Typed], printed: &[Printed]) -> String {
    let commands = session.iter().map(|typed| typed.command.as_str());
    let told = commands.zip(printed).map(|(command, printed)| {
        let lines = printed.lines.join("\n");
        format!("$ {command}\n{lines}\n")
    });
    told.collect()
}

/// What a session prints that has so many seconds.
fn print_all(session: &[Typed], database: Option<&PostgresServer>, most_s: u32) -> Vec<Printed> {
    let place = Place::new();
    let program = Path::new(env!("CARGO_BIN_EXE_chancery"));
    let path = std::env::var("PATH").unwrap();
    let folder = program.parent().unwrap().display();
    let mut bounded = Command::new("timeout");
    let script = pages::script(session);
    bounded.args([&most_s.to_string(), "bash", "-c", &script]);
    // Told to end, it ends all that was started in it.
    let mut command = bound_by("TERM", &bounded);
    command
        .current_dir(place.path("."))
        .env("PATH", format!("{folder}:{path}"))
        // What `mktemp` makes goes with the place.
        .env("TMPDIR", place.path("."))
        .stdin(Stdio::null());
    // A reader has none of the variables that tests are told things with.
    for (name, _) in std::env::vars().filter(|(name, _)| name.starts_with("CHANCERY_")) {
        command.env_remove(name);
    }
    if let Some(server) = database {
        command.env("DATABASE", server.url());
    }
    let out = command.output().unwrap();
    pages::printed(&String::from_utf8(out.stdout).unwrap())
}
