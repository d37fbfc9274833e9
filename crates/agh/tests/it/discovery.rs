//! Presence, questions and catalogs.

use chancery_agh::body::card::PeerCard;
use chancery_agh::peer::PeerRecord;
use chancery_agh::settings::Settings;
use chancery_agh::soft::{Presence, PresenceLimits, Seen, Standing};
use chancery_agh::whois::Catalog;
use serde_json::{Value, json};

use crate::support::{
    CHANNEL, ECHO, NOW, OPS, WORKER, card, emitted, envelope, error, greet, host, receive, send,
};

fn seen(peer: &str, capabilities: &[&str], catalog: Option<Catalog>) -> Seen {
    let card = PeerCard {
        peer_id: peer.to_owned(),
        capabilities: capabilities.iter().map(ToString::to_string).collect(),
        ..PeerCard::default()
    };
    Seen {
        workspace: None,
        channel: CHANNEL.to_owned(),
        card,
        catalog,
    }
}

fn catalog(ids: &[&str]) -> Catalog {
    let entry = |id: &&str| json!({"id": id, "summary": "s", "outcome": "o", "version": "", "examples": [], "constraints": ["c"]});
    Catalog::new(ids.iter().map(entry).collect()).unwrap()
}

// AG-PRS-1, AG-PRS-2, AG-PRS-4, AG-B-26
#[test]
fn presence_lasts_two_intervals_after_the_last_greeting() {
    let mut presence = Presence::new(PresenceLimits::of(&Settings::default()));
    assert!(presence.see(seen(OPS, &[], None), 1_000), "it joined");
    assert!(!presence.see(seen(OPS, &[], None), 1_010), "it was there");
    for (now, standing) in [
        (1_040, Standing::Active),
        (1_041, Standing::Inactive),
        (1_069, Standing::Inactive),
    ] {
        let there = presence.list(None, CHANNEL, now);
        assert_eq!(there[0].0, standing, "{now}");
    }
    assert!(presence.list(None, CHANNEL, 1_070).is_empty());
    assert!(presence.find(None, CHANNEL, OPS, 1_070).is_none());
    let gone = presence.forget_expired(1_070);
    assert_eq!(&*gone[0].1, OPS);
    assert!(presence.see(seen(OPS, &[], None), 1_080), "it joined again");
}

// AG-WHO-11
#[test]
fn a_catalog_is_remembered_while_the_card_lists_the_same_names() {
    let mut presence = Presence::new(PresenceLimits::of(&Settings::default()));
    let has = |presence: &Presence| {
        presence
            .find(None, CHANNEL, OPS, 1_000)
            .unwrap()
            .catalog
            .is_some()
    };
    presence.see(seen(OPS, &["a", "b"], Some(catalog(&["b", "a"]))), 1_000);
    assert!(has(&presence));
    presence.see(seen(OPS, &["a", "b"], None), 1_000);
    assert!(has(&presence), "the same sequence keeps it");
    presence.see(seen(OPS, &["b", "a"], None), 1_000);
    assert!(!has(&presence), "another sequence forgets it");
    presence.see(seen(OPS, &["a", "b"], Some(catalog(&["a", "a"]))), 1_000);
    assert!(!has(&presence), "other names are not remembered");
}

// AG-GRT-3
#[test]
fn a_greeting_says_who_is_ready_for_what() {
    let mut card = seen("reviewer.x", &[], None).card;
    assert_eq!(card.greeting(), "reviewer.x is present");
    card.display_name = Some("Reviewer".to_owned());
    card.capabilities = vec!["review".to_owned(), "b".to_owned(), "c".to_owned()];
    assert_eq!(card.greeting(), "Reviewer ready for review +2 more");
    card.ext =
        Some(json!({"agh.capabilities_brief": [{"id": "review", "summary": "Review copy."}]}));
    assert_eq!(card.greeting(), "Reviewer ready for Review copy. +2 more");
    card.display_name = Some("R".repeat(200));
    assert_eq!(card.greeting().chars().count(), 160);
}

// AG-GRT-4, AG-PRS-3, AG-CARD-8
#[test]
fn a_greeting_refreshes_presence_and_reaches_no_inbox() {
    let mut host = host();
    let mut hello = greet("g1", OPS);
    hello["body"]["peer_card"]["capabilities"] = json!([" a ", " ", "b"]);
    hello["body"]["peer_card"]["display_name"] = " ".into();
    let outcome = receive(&mut host, &hello);
    assert!(outcome.deliver_to.is_empty());
    let known = host.soft().presence.find(None, CHANNEL, OPS, NOW).unwrap();
    assert_eq!(known.card.capabilities, ["a", "b"]);
    assert_eq!(known.card.display_name, None);
    // A local peer wins: an announcement of its name is ignored, and hosting it removes the remote entry.
    assert!(receive(&mut host, &greet("g2", WORKER)).seen.is_none());
    assert!(
        host.soft()
            .presence
            .find(None, CHANNEL, WORKER, NOW)
            .is_none()
    );
    host.host_named(None, CHANNEL, OPS).unwrap();
    assert!(host.soft().presence.find(None, CHANNEL, OPS, NOW).is_none());
}

fn ask(members: Value) -> Value {
    let mut ask = envelope("q1", json!({"kind": "whois", "body": {"type": "request"}}));
    for (name, value) in members.as_object().unwrap() {
        ask[name] = value.clone();
    }
    ask
}

// AG-WHO-5, AG-WHO-6, AG-WHO-9, AG-CARD-10, AG-CARD-11, AG-B-45
#[test]
fn an_answer_is_directed_and_carries_the_catalog_only_when_asked() {
    let mut host = host();
    let mut record = PeerRecord::new(
        "designer.x",
        CHANNEL,
        None,
        None,
        Vec::new(),
        catalog(&["a", "b"]),
    );
    record.card.display_name = Some("Designer".to_owned());
    host.host(&record).unwrap();
    let asked = ask(
        json!({"to": "designer.x", "trace_id": "t", "ext": {"agh.include": ["capability_catalog"], "agh.capability_ids": ["b"]}}),
    );
    let outcome = receive(&mut host, &asked);
    assert!(outcome.deliver_to.is_empty(), "a question reaches no inbox");
    let answer = &emitted(&outcome)[0];
    assert_eq!(
        (&answer["kind"], &answer["to"], &answer["reply_to"]),
        (&json!("whois"), &json!(OPS), &json!("q1"))
    );
    assert_eq!(
        (&answer["trace_id"], &answer["proof"], &answer["ts"]),
        (&json!("t"), &Value::Null, &json!(NOW))
    );
    let shown = &answer["ext"]["agh.capability_catalog"]["capabilities"];
    assert_eq!(
        *shown,
        json!([{"id": "b", "summary": "s", "outcome": "o", "constraints": ["c"]}])
    );
    let card = &answer["body"]["peer_card"];
    assert_eq!(card["capabilities"], json!(["b"]));
    assert_eq!(
        card["ext"]["agh.capabilities_brief"],
        json!([{"id": "b", "summary": "s"}])
    );
    // It went to the asker's subject, and is a good envelope there.
    let whisper = &host.take_whispers()[0];
    assert_eq!(
        whisper.to,
        chancery_agh::subject::direct(None, CHANNEL, OPS)
    );
    let mut asker = chancery_agh::conformance::host::Host::new(Settings::default());
    asker.host_named(None, CHANNEL, OPS).unwrap();
    let heard = asker.receive(whisper.bytes.clone(), NOW);
    assert_eq!(heard.deliver_to, [OPS]);
    assert!(
        asker
            .soft()
            .presence
            .find(None, CHANNEL, "designer.x", NOW)
            .is_some()
    );
}

// AG-WHO-10
#[test]
fn an_answer_that_is_too_large_leaves_the_catalog_out() {
    let settings = Settings {
        max_payload: 4_096,
        ..Settings::default()
    };
    let mut host = crate::support::host_with(settings);
    let outcome = "o".repeat(5_000);
    let entries = vec![json!({"id": "a", "summary": "s", "outcome": outcome})];
    let record = PeerRecord::new(
        "big.x",
        CHANNEL,
        None,
        None,
        Vec::new(),
        Catalog::new(entries).unwrap(),
    );
    host.host(&record).unwrap();
    let asked = ask(json!({"to": "big.x", "ext": {"agh.include": ["capability_catalog"]}}));
    let answers = emitted(&receive(&mut host, &asked));
    assert_eq!(
        answers[0]["body"]["peer_card"]["capabilities"],
        json!(["a"])
    );
    assert!(answers[0].get("ext").is_none());
    let mut huge = card("huge.x");
    huge["display_name"] = "d".repeat(5_000).into();
    let record = PeerRecord {
        card: serde_json::from_value(huge).unwrap(),
        ..record
    };
    let record = PeerRecord {
        catalog: Catalog::default(),
        ..record
    };
    host.host(&record).unwrap();
    let mut asked = ask(json!({"to": "huge.x"}));
    asked["id"] = "q2".into();
    assert!(receive(&mut host, &asked).emitted.is_empty());
}

// AG-WHO-4
#[test]
fn a_peer_that_asks_itself_is_not_answered() {
    let mut host = host();
    let question = |id: &str, members: Value| {
        let mut question = envelope(
            id,
            json!({"kind": "whois", "from": WORKER, "body": {"type": "request"}}),
        );
        for (name, value) in members.as_object().unwrap() {
            question[name] = value.clone();
        }
        question
    };
    let to_itself = receive(&mut host, &question("q1", json!({"to": WORKER})));
    assert!(to_itself.emitted.is_empty() && host.take_whispers().is_empty());
    // Of a question to all it is answered by all others.
    let to_all = receive(&mut host, &question("q2", json!({})));
    let answers = emitted(&to_all);
    let from: Vec<_> = answers.iter().map(|answer| &answer["from"]).collect();
    assert_eq!(from, [ECHO]);
    // The same when it sends the question from here.
    host.take_whispers();
    let sent = json!({"kind": "whois", "from": WORKER, "to": WORKER, "channel": CHANNEL,
        "body": {"type": "request"}});
    if let Ok(outcome) = send(&mut host, &sent) {
        assert!(outcome.emitted.is_empty());
    }
    assert!(host.take_whispers().is_empty());
}

// AG-WHO-2, AG-WHO-4, AG-PRS-2
#[test]
fn a_response_to_nobody_in_particular_still_refreshes_presence() {
    let mut host = host();
    let members = json!({"kind": "whois", "reply_to": "q", "body": {"type": "response", "peer_card": card(OPS)}});
    let outcome = receive(&mut host, &envelope("r1", members));
    assert!(outcome.deliver_to.is_empty());
    assert!(host.soft().presence.find(None, CHANNEL, OPS, NOW).is_some());
    let other = json!({"kind": "whois", "reply_to": "q", "body": {"type": "response", "peer_card": card(ECHO)}});
    assert_eq!(
        error(&receive(&mut host, &envelope("r2", other))),
        "peer_card_mismatch"
    );
}
