//! Administration leaves the same rows live and in replay, and nothing that the log's readers could not follow.

use chancery_core::admin::{Act, agent_key};
use chancery_core::keys::{KeyRecord, KeyState};
use chancery_core::line::ProtocolName;
use chancery_testkit::{Decided, TestInput, TestSuite, inputs};
use serde_json::json;

use crate::scenario::{Story, replay, without_agenda};

#[test]
fn a_number_in_another_form_leaves_the_rows_that_its_line_gives() {
    // VC-CAN-4: the line says 1 where the act said 1.0.
    let mut story = Story::begin();
    let record = Some(json!({ "weight": 1.0, "key": null }));
    let id = "eve".to_owned();
    story.act(&TestInput::Admin(Act::Agent {
        protocol: ProtocolName::Test,
        id,
        record,
        run_state: None,
    }));
    let row = story
        .host
        .rows()
        .find(&agent_key(ProtocolName::Test, "eve"))
        .unwrap();
    assert_eq!(row.as_ref(), br#"{"key":null,"weight":1}"#);
    let (report, rows) = replay(TestSuite::default(), story.host.lines());
    assert_eq!(report.divergence, None);
    assert_eq!(rows, without_agenda(story.host.rows()));
}

#[test]
fn a_key_that_the_keyring_cannot_take_is_refused_and_not_recorded() {
    let mut story = Story::begin();
    let head = story.host.head();
    let TestInput::Admin(Act::Key(good)) =
        inputs::key_act("eve", "k1", &inputs::key_of("eve"), KeyState::Active)
    else {
        panic!("not a key")
    };
    let bad = [
        KeyRecord {
            public: vec![0; 32],
            ..good.clone()
        },
        KeyRecord {
            public: vec![1],
            ..good.clone()
        },
        // ann has that id for another key, and her key under another id.
        KeyRecord {
            owner: "ann".to_owned(),
            ..good.clone()
        },
        KeyRecord {
            owner: "ann".to_owned(),
            id: "k2".to_owned(),
            public: inputs::key_of("ann").verifying_key().as_bytes().to_vec(),
            ..good
        },
    ];
    for record in bad {
        let decided = story
            .host
            .decide(&TestInput::Admin(Act::Key(record)), story.now);
        assert!(matches!(decided, Decided::Refused(refusal) if refusal.code == "key_not_allowed"));
    }
    assert_eq!(story.host.head(), head);
}
