//! Hosted vacants that call vacants on other nodes: two processes, and `kill -9` on either side in the middle.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::sync::mpsc;

use chancery_testkit::postgres_server::PostgresServer;
use chancery_vacant::wire::{from_jsonrpc, read_json};
use serde_json::{Value, json};

use crate::agh_house::until;
use crate::served::Served;
use crate::support::Place;

/// A place whose node hosts one vacant that is answered for from its inbox.
fn place(name: &str, settings: &str) -> Place {
    let place = Place::new()
        .with("CHANCERY_LISTEN", "127.0.0.1:0")
        .with("CHANCERY_DATA", "data")
        .with("CHANCERY_DEV", "true");
    place.run(&["vacant", "init", "vacant.key"]).exits(0);
    let agent = format!(
        "[vacant]\n{settings}\n[[vacant.agent]]\nname = \"{name}\"\nseed = \"vacant.key\"\n\
         state = \"ACTIVE\"\ncapability = \"answers letters\"\nbehaviour = \"inbox\"\n\
         on_restart = \"rerun\"\n"
    );
    place.write("chancery.toml", agent);
    place
}

/// Starts a node where it was before: its card names that address.
fn serve_again(place: &Place, address: &str) -> Served {
    place.serve_with(&["--listen", address])
}

/// The newest entry of a vacant's inbox after a line, waited for.
fn entry(node: &Served, name: &str, after: u64) -> Value {
    let path = format!("/inbox/vacant/{name}?after={after}&wait=50");
    let page = node.wire().get(&path).unwrap().ok();
    let entries = page["entries"].as_array().unwrap();
    assert_eq!(entries.len(), 1, "{page}");
    entries[0].clone()
}

fn request(card: &str, text: &str) -> Vec<u8> {
    json!({"from": "ann", "to": card, "text": text})
        .to_string()
        .into_bytes()
}

/// How often a text stands on the log of a place.
fn times(place: &Place, text: &str) -> usize {
    let lines = place.log_lines();
    lines.iter().filter(|line| line.contains(text)).count()
}

fn check(place: &Place) {
    place.run(&["log", "verify"]).exits(0);
    place.run(&["log", "replay"]).exits(0);
}

// VA-DSP-5, VA-DSP-6, VA-DSP-10, VA-SRV-12, CH-JRN-16, CH-NET-3
#[test]
fn a_call_abroad_survives_kills_on_both_sides_and_happens_once() {
    let (home, away) = (place("ann", "call_private = true"), place("bob", ""));
    called_abroad(home, away);
}

// VA-DSP-10, CH-JRN-5, CH-JRN-16
#[test]
fn a_call_abroad_survives_kills_on_both_sides_also_with_journals_in_postgresql() {
    let server = PostgresServer::shared();
    let home = place("ann", "call_private = true").on(server, "home");
    called_abroad(home, place("bob", "").on(server, "away"));
}

fn called_abroad(home: Place, away: Place) {
    let (ann, bob) = (home.serve(), away.serve());
    let at = bob.address.to_string();
    let card = format!("http://{at}/card");
    let ask = |node: &Served, key: &str, text: &str| {
        let (mut wire, body) = (node.wire().with_key(key), request(&card, text));
        std::thread::spawn(move || wire.post("/send/vacant", &body))
    };
    let answer = |node: &Served, call: &Value, text: &str| {
        let says = json!({"from": "bob", "answers": call["seq"], "text": text}).to_string();
        node.wire()
            .post("/send/vacant", says.as_bytes())
            .unwrap()
            .ok();
    };

    // Nothing goes wrong: the answer comes back to whoever asked.
    let asked = ask(&ann, "k0", "first letter");
    let call = entry(&bob, "bob", 0);
    answer(&bob, &call, "first reply");
    let told = asked.join().unwrap().unwrap().ok();
    assert_eq!(told["result"]["message"]["parts"][0]["text"], "first reply");
    let heard = entry(&ann, "ann", 0)["seq"].as_u64().unwrap();

    // The caller's node is killed while it waits: after its start it sends the same bytes, and gets what was said.
    let asked = ask(&ann, "k1", "second letter");
    let call = entry(&bob, "bob", call["seq"].as_u64().unwrap());
    ann.kill();
    assert!(asked.join().unwrap().is_err());
    answer(&bob, &call, "second reply");
    let ann = home.serve();
    let heard = entry(&ann, "ann", heard);
    let text = &heard["envelope"]["parts"][0]["text"];
    assert_eq!(text, "second reply");
    let again = ask(&ann, "k1", "second letter")
        .join()
        .unwrap()
        .unwrap()
        .ok();
    assert_eq!(
        again["result"]["message"]["parts"][0]["text"],
        "second reply"
    );

    // The target's node is killed after it took the call: the answer it gives later comes back all the same.
    let asked = ask(&ann, "k2", "third letter");
    let before = call["seq"].as_u64().unwrap();
    let call = entry(&bob, "bob", before);
    bob.kill();
    let bob = serve_again(&away, &at);
    assert_eq!(entry(&bob, "bob", before), call, "it waits again, once");
    answer(&bob, &call, "third reply");
    let told = asked.join().unwrap().unwrap().ok();
    assert_eq!(told["result"]["message"]["parts"][0]["text"], "third reply");

    ann.stop_well();
    bob.stop_well();
    for text in ["first", "second", "third"] {
        for word in ["letter", "reply"] {
            let said = format!("{text} {word}");
            assert_eq!((times(&home, &said), times(&away, &said)), (1, 1), "{said}");
        }
    }
    check(&home);
    check(&away);
}

// VA-DSP-9: an address that a card names is not called when it leads back to this machine.
#[test]
fn a_card_does_not_send_a_node_to_its_own_network() {
    let (home, away) = (place("ann", ""), place("bob", ""));
    let (ann, bob) = (home.serve(), away.serve());
    let before = home.log_lines().len();
    for address in [
        format!("http://{}/card", bob.address),
        format!("http://localhost:{}/card", bob.address.port()),
        "http://169.254.169.254/card".to_owned(),
        "http://[::1]/card".to_owned(),
    ] {
        let told = ann
            .wire()
            .post("/send/vacant", &request(&address, "hi"))
            .unwrap();
        assert_eq!(told.status, 502, "{address}");
        let reason = told.json()["error"]["data"][0]["reason"].clone();
        assert_eq!(reason, "TRANSPORT", "{address}");
    }
    let unknown = request(&"ab".repeat(32), "hi");
    assert_eq!(
        ann.wire().post("/send/vacant", &unknown).unwrap().status,
        404
    );
    assert_eq!(home.log_lines().len(), before, "nothing is on record");
    ann.stop_well();
    bob.stop_well();
}

/// A target that has taken every call it gets and never has an answer; tells the number of each call.
fn silent_target(card_hex: String, listener: std::net::TcpListener) -> mpsc::Receiver<u64> {
    let (tell, told) = mpsc::channel();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = BufReader::new(stream.unwrap());
            let (mut first, mut line, mut length) = (String::new(), String::new(), 0);
            stream.read_line(&mut first).unwrap();
            while line != "\r\n" {
                line.clear();
                stream.read_line(&mut line).unwrap();
                let header = line.to_ascii_lowercase();
                if let Some(value) = header.strip_prefix("content-length:") {
                    length = value.trim().parse().unwrap();
                }
            }
            let mut body = vec![0; length];
            stream.read_exact(&mut body).unwrap();
            let (status, answer) = if first.starts_with("GET") {
                ("200 OK", json!({"capability_card_blob_hex": card_hex}))
            } else {
                let value = read_json(&body, 1 << 20).unwrap();
                let call = from_jsonrpc(&value).unwrap();
                let tip = call.verify().unwrap().hash.hex();
                tell.send(call.sequence_no).unwrap();
                let info = json!({"reason": "REPLAY_DETECTED", "metadata": {"chain_tip": tip}});
                (
                    "409 Conflict",
                    json!({"error": {"code": 1, "data": [info]}}),
                )
            };
            let answer = answer.to_string();
            let head =
                format!("HTTP/1.1 {status}\r\nconnection: close\r\ncontent-type: application/json");
            let length = answer.len();
            write!(
                stream.get_mut(),
                "{head}\r\ncontent-length: {length}\r\n\r\n{answer}"
            )
            .unwrap();
        }
    });
    told
}

// VA-DSP-10, VA-SRV-12: what was taken is never taken back, and its number is used up.
#[test]
fn a_call_that_was_taken_and_never_answered_ends_and_the_next_one_follows_it() {
    let home = place("ann", "call_private = true\nbehaviour_timeout_s = 2");
    home.run(&["vacant", "init", "far.key"]).exits(0);
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let base = format!("http://{}", listener.local_addr().unwrap());
    let endpoint = format!("{base}/a2a/message/send");
    let mut arguments = vec!["vacant", "card", "--key", "far.key", "--json"];
    arguments.extend(["--capability", "says nothing", "--endpoint", &endpoint]);
    let card = home.run(&arguments).exits(0).json();
    let blob = card["capability_card_blob_hex"].as_str().unwrap();
    let numbers = silent_target(blob.to_owned(), listener);
    let ann = home.serve();
    let card = format!("{base}/card");
    for (text, number) in [("one", 1), ("two", 2)] {
        // Nobody waits longer than a behaviour may take, and the same bytes are sent until then.
        let told = ann
            .wire()
            .post("/send/vacant", &request(&card, text))
            .unwrap();
        assert!(matches!(told.status, 503 | 504), "{}", told.text());
        until("the call has ended", || {
            let ended = home
                .log_lines()
                .iter()
                .filter(|line| line.contains("behaviour_timeout"))
                .count();
            (ended == number).then_some(())
        });
    }
    let mut heard: Vec<u64> = numbers.try_iter().collect();
    heard.dedup();
    assert_eq!(heard, [1, 2]);
    let state = ann.wire().get("/state/vacant/ann").unwrap().ok();
    assert_eq!(state["chains"][0]["sequence_no"], 2);
    ann.stop_well();
    check(&home);
}
