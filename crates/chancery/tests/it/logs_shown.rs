//! `chancery log show`, `export` and `tail`.

use std::io::{BufRead as _, BufReader, Write as _};
use std::process::Stdio;

use crate::sample;
use crate::support::Place;

fn data(notes: usize) -> (Place, Vec<bytes::Bytes>) {
    let place = Place::new();
    let lines = sample::conversation(notes);
    place.write("data/audit.jsonl", sample::text(&lines));
    (place, lines)
}

#[test]
fn lines_in_words_and_for_machines() {
    // CH-CLI-1
    let (place, lines) = data(2);
    let words = place.run(&["log", "show", "data"]).exits(0).text();
    assert_eq!(words.lines().count(), lines.len());
    assert!(words.contains("note ann → bob n-0-0"), "{words}");
    assert!(
        !words.contains("hello"),
        "a payload is not for the screen: {words}"
    );
    let raw = place.run(&["log", "show", "data", "--json"]).exits(0);
    assert_eq!(raw.out, sample::text(&lines));
}

#[test]
fn a_part_of_it() {
    let (place, lines) = data(2);
    let ran = place
        .run(&[
            "log", "show", "data", "--json", "--from", "3", "--limit", "2",
        ])
        .exits(0);
    assert_eq!(ran.out, sample::text(&lines[2..4]));
    let ran = place
        .run(&["log", "show", "data", "--protocol", "node"])
        .exits(0)
        .text();
    assert_eq!(ran.lines().count(), 5);
    place
        .run(&["log", "show", "data", "--protocol", "vcp"])
        .exits(2);
}

#[test]
fn the_configured_data_directory_is_the_default() {
    // CH-CFG-1
    let (place, lines) = data(1);
    place.write("chancery.toml", "data = \"data\"\n");
    let ran = place.run(&["log", "export"]).exits(0);
    assert_eq!(ran.out, sample::text(&lines));
}

#[test]
fn an_export_is_byte_for_byte_and_never_overwrites() {
    // CH-JRN-8
    let (place, lines) = data(3);
    place
        .run(&["log", "export", "data", "--out", "x.jsonl"])
        .exits(0);
    assert_eq!(place.read("x.jsonl").as_bytes(), sample::text(&lines));
    place
        .run(&["log", "export", "data", "--out", "x.jsonl"])
        .exits(2);
    let part = place
        .run(&["log", "export", "data", "--from", "2", "--to", "4"])
        .exits(0);
    assert_eq!(part.out, sample::text(&lines[1..4]));
    let damaged = [&sample::text(&lines[..2])[..], b"{\"torn"].concat();
    place.write("data/audit.jsonl", &damaged);
    assert_eq!(place.run(&["log", "export", "data"]).exits(0).out, damaged);
    place
        .run(&["log", "export", "data", "--from", "2"])
        .exits(3);
}

#[test]
fn the_last_lines() {
    let (place, lines) = data(40);
    let tail = |count: &str| {
        place
            .run(&["log", "tail", "data", "--json", "-n", count])
            .exits(0)
            .out
    };
    assert_eq!(tail("3"), sample::text(&lines[lines.len() - 3..]));
    assert_eq!(tail("0"), b"");
    assert_eq!(tail("100000"), sample::text(&lines));
    let ran = place.run_with_input(
        &["log", "tail", "-", "--json", "-n", "2"],
        &sample::text(&lines),
    );
    assert_eq!(ran.exits(0).out, sample::text(&lines[lines.len() - 2..]));
}

#[test]
fn lines_to_come_over_a_new_segment() {
    // CH-JRN-2
    let (place, lines) = data(40);
    let log = place.write("data/audit.jsonl", sample::text(&lines[..10]));
    let mut child = place
        .command(&["log", "tail", "data", "--json", "-n", "1", "-f"])
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut out = BufReader::new(child.stdout.take().unwrap()).lines();
    let mut next = || out.next().unwrap().unwrap();
    let expected = |index: usize| String::from_utf8(lines[index].to_vec()).unwrap();
    assert_eq!(next(), expected(9));
    let append = |index: usize| {
        let mut file = std::fs::File::options().append(true).open(&log).unwrap();
        file.write_all(&sample::text(&lines[index..=index]))
            .unwrap();
    };
    append(10);
    assert_eq!(next(), expected(10));
    append(11);
    std::fs::rename(&log, place.path("data/audit-00000000000000000001.jsonl")).unwrap();
    std::fs::write(&log, sample::text(&lines[12..14])).unwrap();
    for index in 11..14 {
        assert_eq!(next(), expected(index));
    }
    child.kill().unwrap();
    child.wait().unwrap();
}
