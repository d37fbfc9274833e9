//! Commands against an address where something else answers, nothing does, or a node does that has not what is asked for.

use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::time::Duration;

use crate::running_node::RunningNode;
use crate::served::signal;
use crate::support::{Place, Ran};

/// A web server that has the same page for everybody.
fn web_server(status: &'static str) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            std::thread::spawn(move || show_page(stream, status));
        }
    });
    url
}

fn show_page(mut stream: TcpStream, status: &str) {
    let page = "<html><body>It works!</body></html>";
    let _ = stream.set_read_timeout(Some(Duration::from_secs(5)));
    // Whatever was asked is read, so that closing does not reset the answer.
    let mut asked = Vec::new();
    let mut part = [0; 4_096];
    while !is_whole(&asked) {
        match stream.read(&mut part) {
            Ok(0) | Err(_) => break,
            Ok(read) => asked.extend_from_slice(&part[..read]),
        }
    }
    let length = page.len();
    let _ = write!(
        stream,
        "HTTP/1.1 {status}\r\ncontent-type: text/html\r\ncontent-length: {length}\r\nconnection: close\r\n\r\n{page}"
    );
}

/// A request with its body; what is no HTTP is as long as it is.
fn is_whole(asked: &[u8]) -> bool {
    let text = String::from_utf8_lossy(asked).to_ascii_lowercase();
    if !asked.is_empty() && !text.starts_with("get ") && !text.starts_with("post ") {
        return true;
    }
    let Some((head, body)) = text.split_once("\r\n\r\n") else {
        return false;
    };
    let length = head.split("content-length: ").nth(1);
    let length = length.and_then(|rest| rest.lines().next()?.trim().parse::<usize>().ok());
    body.len() >= length.unwrap_or_default()
}

const COMMANDS: [&[&str]; 14] = [
    &["agent", "list"],
    &["token", "list"],
    &["key", "list"],
    &["reload"],
    &["send", "value-context", "it.json"],
    &["send", "vibe", "it.json"],
    &["send", "agh", "it.json"],
    &["send", "vacant", "it.json"],
    &["agh", "peers", "builders"],
    &["agh", "whois", "builders", "--from", "a"],
    &["world", "hash"],
    &["approvals"],
    &[
        "vacant", "call", "URL", "--key", "it.key", "--text", "hello",
    ],
    &["vacant", "search", "URL", "echo"],
];

fn run(place: &Place, url: &str, arguments: &[&str]) -> Ran {
    let arguments: Vec<&str> = arguments
        .iter()
        .map(|argument| if *argument == "URL" { url } else { *argument })
        .collect();
    place.run(&arguments)
}

// CH-CLI-3
#[test]
fn a_web_server_is_not_taken_for_a_node() {
    for status in ["200 OK", "404 Not Found"] {
        let url = web_server(status);
        let place = Place::new().with("CHANCERY_URL", &url);
        place.write("it.json", "{}");
        place.run(&["vacant", "init", "it.key"]).exits(0);
        for arguments in COMMANDS {
            let told = run(&place, &url, arguments).exits(1);
            let all = format!("{}{}", told.text(), told.err);
            assert!(
                all.contains("is there a chancery node at that address?"),
                "{arguments:?} {status}: {all}"
            );
            assert!(
                !all.contains("<html") && !all.contains("It works"),
                "{arguments:?}: {all}"
            );
        }
        let told = place.run(&["doctor"]).exits(1).text();
        assert!(
            told.contains("is there a chancery node at that address?"),
            "{told}"
        );
        assert!(!told.contains("<html"), "{told}");
    }
}

// CH-CLI-3
#[test]
fn an_address_that_does_not_speak_tls_is_told_as_that() {
    let url = web_server("200 OK").replace("http://", "https://");
    let place = Place::new().with("CHANCERY_URL", &url);
    let told = place.run(&["agent", "list"]).exits(2).err;
    assert!(told.contains("does not speak TLS"), "{told}");
}

// CH-CFG-4, CH-CLI-3
#[test]
fn what_a_node_has_not_configured_is_told_with_what_to_configure() {
    let node = RunningNode::start();
    let told = node.run(&["world", "hash"]).exits(1).err;
    assert!(
        told.contains("not_configured") && told.contains("[vibe] world"),
        "{told}"
    );
    assert!(
        !told.contains("in a moment") && !told.contains("no reason"),
        "{told}"
    );
    node.run(&["vacant", "init", "ada.key"]).exits(0);
    let call = [
        "vacant", "call", &node.url, "--key", "ada.key", "--text", "hello",
    ];
    let told = node.run(&call).exits(1).err;
    assert!(
        told.contains("NOT_CONFIGURED") && told.contains("[[vacant.agent]]"),
        "{told}"
    );
}

// CH-ID-2, CH-CLI-3
#[test]
fn a_token_that_is_not_enough_is_told_the_scope_that_is() {
    let node = RunningNode::start();
    node.run(&["agh", "join", "builders", "planner"]).exits(0);
    let say = ["agh", "say", "builders", "hello", "--from", "planner"];
    for arguments in [&["agh", "whois", "builders", "--from", "planner"][..], &say] {
        let told = node.run(arguments).exits(1).err;
        assert!(
            told.contains("--scope send:AGENT") && !told.contains("scope admin"),
            "{told}"
        );
    }
    let issued = ["token", "new", "nobody", "--scope", "send:nobody", "--json"];
    let issued = node.run(&issued).exits(0).json();
    let token = issued["token"].as_str();
    let told = node
        .run_as(token, &["agh", "peers", "builders"])
        .exits(1)
        .err;
    assert!(told.contains("--scope read:state:AGENT"), "{told}");
    let told = node.run_as(token, &["agent", "list"]).exits(1).err;
    assert!(told.contains("--scope admin"), "{told}");
}

// CH-CLI-3
#[test]
fn a_node_that_stands_still_does_not_hold_the_doctor() {
    let node = RunningNode::start();
    signal("STOP", node.pid());
    let told = node.run(&["doctor"]);
    signal("CONT", node.pid());
    let told = told.exits(1).text();
    assert!(told.contains("did not answer within 5 s"), "{told}");
    let at = |check: &str| {
        told.lines()
            .position(|line| line.split_whitespace().nth(1) == Some(check))
    };
    assert!(at("disk").unwrap() < at("node").unwrap(), "{told}");
}
