//! `examples/vacants.rs`: a caller and a callee.

use std::process::Command;

// VA-DSP-5, VA-DSP-6, VA-SRV-1
#[test]
fn the_example_calls_answers_and_ends() {
    let me = std::env::current_exe().unwrap();
    let path = me.ancestors().nth(2).unwrap().join("examples/vacants");
    assert!(path.exists(), "cargo build -p chancery-client --examples");
    let ran = Command::new(path).output().unwrap();
    let complained = String::from_utf8_lossy(&ran.stderr);
    assert!(ran.status.success(), "{complained}");
    let said = String::from_utf8(ran.stdout).unwrap();
    assert_eq!(said, "hello → 5 letters\nwhat is a vacant? → 13 letters\n");
    let text = include_str!("../../examples/vacants.rs");
    assert!(text.lines().count() < 50, "a short example is a short one");
}
