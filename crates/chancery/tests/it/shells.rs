//! Completions and manual pages.

use std::process::Command;

use crate::support::Place;

#[test]
fn bash_reads_its_completions() {
    // CH-CLI-2
    let place = Place::new();
    let script = place.run(&["completions", "bash"]).exits(0);
    let path = place.write("chancery.bash", &script.out);
    let status = Command::new("bash").arg("-n").arg(path).status().unwrap();
    assert!(status.success());
    assert!(script.text().contains("conform"));
}

#[test]
fn every_shell_has_completions() {
    // CH-CLI-2
    let place = Place::new();
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        let ran = place.run(&["completions", shell]).exits(0);
        assert!(ran.text().contains("chancery"), "{shell}");
    }
    place.run(&["completions", "tcsh"]).exits(2);
}

#[test]
fn a_manual_page_for_every_command() {
    // CH-CLI-2
    let place = Place::new();
    let first = place.run(&["man"]).exits(0).text();
    assert!(first.contains(".TH chancery 1"), "{first}");
    place.run(&["man", "--out", "pages"]).exits(0);
    for page in ["chancery.1", "chancery-init.1", "chancery-log-verify.1"] {
        assert!(
            place.read(&format!("pages/{page}")).contains(".SH"),
            "{page}"
        );
    }
}
