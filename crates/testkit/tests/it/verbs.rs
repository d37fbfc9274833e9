//! Every verb once, and what is refused.

use std::time::Duration;

use chancery_core::admin::RunState;
use chancery_core::decision::{Guard, Guards, Shut};
use chancery_core::inbox::{InboxName, Page, open_page_key};
use chancery_core::keys::KeyState;
use chancery_core::line::{Line, Origin, ProtocolName};
use chancery_core::protocol::{Authentic, Protocol};
use chancery_core::protocol::{Door, Failure, Input, Proof, Suite};
use chancery_core::rows::RowKey;
use chancery_core::time::Time;
use chancery_journal::line;
use chancery_testkit::{
    Decided, TestAnswer, TestHost, TestInput, TestMessage, TestSettings, TestSuite, inputs,
};

fn now() -> Time {
    Time::from_unix_seconds(1_800_000_000).unwrap()
}

fn host() -> TestHost {
    let mut host = TestHost::default();
    host.decide(&inputs::config_act(&TestSettings::default()), now());
    host
}

fn receive(host: &mut TestHost, id: &str, verb: &str, value: Option<&str>) -> Decided {
    host.receive(inputs::unsigned(id, "ann", "bob", verb, value), now())
}

fn refusal_code(decided: Decided) -> &'static str {
    match decided {
        Decided::Refused(refusal) => refusal.code,
        other => panic!("not refused: {other:?}"),
    }
}

fn lines(host: &TestHost) -> Vec<Line> {
    host.lines()
        .iter()
        .map(|text| line::parse(text).unwrap())
        .collect()
}

fn inbox(host: &TestHost, agent: &str) -> Vec<u64> {
    let name = InboxName {
        protocol: ProtocolName::Test,
        agent: agent.to_owned(),
    };
    host.rows()
        .find(&open_page_key(&name))
        .map_or_else(Vec::new, |page| Page::parse(page).unwrap().entries)
}

#[test]
fn a_note_is_one_line_in_one_inbox() {
    let mut host = host();
    assert_eq!(
        receive(&mut host, "1", "note", None),
        Decided::Recorded(TestAnswer::Accepted {
            id: "1".to_owned(),
            seq: 2
        })
    );
    assert_eq!(host.head().seq, 2);
    assert_eq!(inbox(&host, "bob"), [2]);
}

#[test]
fn a_batch_is_four_lines_of_one_unit() {
    let mut host = host();
    receive(&mut host, "1", "batch", None);
    let unit: Vec<_> = lines(&host)[1..]
        .iter()
        .map(|line| (line.origin, line.more))
        .collect();
    let runtime = Origin::Runtime;
    assert_eq!(
        unit,
        [
            (Origin::External, true),
            (runtime, true),
            (runtime, true),
            (runtime, false)
        ]
    );
    // The identifiers of the derived lines follow from the nonce, which stands on the first line alone.
    let nonces: Vec<_> = lines(&host)
        .iter()
        .map(|line| line.meta_text("nonce").is_some())
        .collect();
    assert_eq!(nonces, [false, true, false, false, false]);
}

#[test]
fn a_follow_up_answers_the_sender() {
    let mut host = host();
    receive(&mut host, "1", "follow", None);
    assert_eq!(
        (inbox(&host, "bob"), inbox(&host, "ann")),
        (vec![2], vec![3])
    );
}

#[test]
fn a_timer_fires_once_when_it_is_due_unless_it_was_cancelled() {
    let mut host = host();
    receive(&mut host, "1", "later", Some("1000"));
    receive(&mut host, "2", "later", Some("1000"));
    receive(&mut host, "3", "cancel", Some("2"));
    assert_eq!(host.fire_due(now()), 0);
    let due = now().saturating_add(Duration::from_secs(1));
    assert_eq!(host.fire_due(due), 1);
    assert_eq!(host.fire_due(due), 0);
    let last: Vec<_> = lines(&host)
        .iter()
        .rev()
        .take(2)
        .map(|line| line.protocol)
        .collect();
    assert_eq!(last, [ProtocolName::Test, ProtocolName::Node]);
    assert_eq!(
        refusal_code(receive(&mut host, "4", "cancel", Some("2"))),
        "unknown_timer"
    );
}

#[test]
fn a_chain_takes_only_the_next_of_its_pair() {
    let mut host = host();
    assert_eq!(
        refusal_code(receive(&mut host, "1", "chain", Some("2"))),
        "out_of_turn"
    );
    assert!(matches!(
        receive(&mut host, "2", "chain", Some("1")),
        Decided::Recorded(_)
    ));
    assert!(matches!(
        receive(&mut host, "3", "chain", Some("2")),
        Decided::Recorded(_)
    ));
    assert_eq!(
        refusal_code(receive(&mut host, "4", "chain", Some("2"))),
        "out_of_turn"
    );
}

#[test]
fn a_lookup_reads_a_row_that_it_does_not_announce() {
    let mut wants = Vec::new();
    let raw = inputs::unsigned("1", "ann", "bob", "lookup", Some("thing"));
    let message = TestMessage::decode(&raw).unwrap();
    let input = Input::Envelope(Authentic {
        message,
        proof: Proof::Unverified,
        door: Door::InProcess,
    });
    let suite = TestSuite::default();
    suite.protocol().wants(&input, &mut wants);
    assert!(!wants.contains(&RowKey::text("test-thing", &["thing"])));
    let mut host = host();
    host.decide(&TestInput::Test(input), now());
    assert_eq!(
        host.rows()
            .find(&RowKey::text("test-thing", &["thing"]))
            .unwrap()
            .as_ref(),
        b"1"
    );
}

#[test]
fn a_send_is_delivered_and_given_up_once() {
    let mut host = host();
    receive(&mut host, "1", "send", None);
    assert_eq!(host.deliveries[0].1.pauses_ms, [1, 2, 4]);
    let failed = || {
        TestSuite::default().failed(
            ProtocolName::Test,
            2,
            "bob".to_owned(),
            Failure::Undeliverable,
        )
    };
    assert_eq!(
        host.decide(&failed(), now()),
        Decided::Recorded(TestAnswer::Acted { seq: 3 })
    );
    assert_eq!(inbox(&host, "ann"), [4]);
    assert_eq!(
        host.decide(&failed(), now()),
        Decided::Passed(TestAnswer::Nothing, Vec::new())
    );
}

#[test]
fn a_duplicate_is_answered_again_until_its_window_ends() {
    let mut host = host();
    receive(&mut host, "1", "send", None);
    let Decided::Passed(answer, repeat) = receive(&mut host, "1", "send", None) else {
        panic!("not passed")
    };
    assert_eq!(
        (answer, repeat.len()),
        (TestAnswer::Duplicate { seq: 2 }, 1)
    );
    let later = now().saturating_add(Duration::from_secs(601));
    let again = host.receive(inputs::unsigned("1", "ann", "bob", "send", None), later);
    assert!(matches!(again, Decided::Recorded(_)));
}

#[test]
fn a_whisper_leaves_nothing_and_a_refusal_may_whisper() {
    let mut host = host();
    assert_eq!(
        receive(&mut host, "1", "whisper", None),
        Decided::Passed(TestAnswer::Nothing, Vec::new())
    );
    assert_eq!(
        refusal_code(receive(&mut host, "2", "refuse", Some("loudly"))),
        "refused"
    );
    let to: Vec<_> = host
        .aside
        .whispers
        .iter()
        .map(|whisper| whisper.to.as_str())
        .collect();
    assert_eq!(to, ["bob", "ann"]);
    assert_eq!(host.head().seq, 1);
}

struct AllShut;

impl Guards for AllShut {
    fn pass(&mut self, _: Guard<'_>) -> Result<(), Shut> {
        Err(Shut { retry_after_s: 7 })
    }
}

#[test]
fn a_guarded_note_waits_until_soft_state_lets_it_pass() {
    let mut host = host();
    let raw = inputs::unsigned("1", "ann", "bob", "guarded", None);
    let input = || {
        let message = TestMessage::decode(&raw).unwrap();
        TestInput::Test(Input::Envelope(Authentic {
            message,
            proof: Proof::Unverified,
            door: Door::Http,
        }))
    };
    let Decided::Refused(refusal) = host.decide_guarded(&input(), now(), &mut AllShut) else {
        panic!("not refused")
    };
    assert_eq!((refusal.code, refusal.retry_after_s), ("too_fast", Some(7)));
    assert!(matches!(host.decide(&input(), now()), Decided::Recorded(_)));
}

#[test]
fn a_sender_with_a_key_must_sign_under_it_while_it_is_valid() {
    let mut host = host();
    let key = inputs::key_of("ann");
    host.decide(&inputs::key_act("ann", "k1", &key, KeyState::Active), now());
    let signed = |id: &str| inputs::signed(&key, &inputs::unsigned(id, "ann", "bob", "note", None));
    assert_eq!(
        refusal_code(receive(&mut host, "1", "note", None)),
        "unproven"
    );
    assert!(matches!(
        host.receive(signed("2"), now()),
        Decided::Recorded(_)
    ));
    assert_eq!(
        lines(&host).last().unwrap().meta_text("key").as_deref(),
        Some("k1")
    );
    host.decide(
        &inputs::key_act("ann", "k1", &key, KeyState::Compromised),
        now(),
    );
    assert_eq!(refusal_code(host.receive(signed("3"), now())), "unproven");
}

#[test]
fn a_hosted_agent_gets_identifier_time_and_signature_from_the_node() {
    let mut host = host();
    let key = inputs::key_of("cat");
    assert_eq!(
        refusal_code(host.decide(&inputs::outgoing("cat", "bob", "note", None), now())),
        "not_hosted"
    );
    host.decide(&inputs::key_act("cat", "k1", &key, KeyState::Active), now());
    host.decide(&inputs::host_act("cat", Some("k1")), now());
    host.hold_key("cat", key);
    host.decide(&inputs::outgoing("cat", "bob", "note", None), now());
    let last = lines(&host).pop().unwrap();
    assert_eq!(last.origin, Origin::Agent);
    let message = TestMessage::decode(&last.envelope).unwrap();
    assert!(message.signature.is_some());
    assert_eq!(message.from, "cat");

    host.decide(
        &inputs::run_state_act("cat", Some("k1"), RunState::Suspended),
        now(),
    );
    assert_eq!(
        refusal_code(host.decide(&inputs::outgoing("cat", "bob", "note", None), now())),
        "suspended"
    );
}

#[test]
fn an_agent_answers_a_line_once_and_a_repeated_request_is_safe() {
    // CH-JRN-16
    let mut host = host();
    host.decide(&inputs::host_act("cat", None), now());
    let answer = |answers, idempotency: Option<&str>| {
        let TestInput::Test(Input::Outgoing { agent, content, .. }) =
            inputs::outgoing("cat", "bob", "note", None)
        else {
            panic!("not outgoing")
        };
        let idempotency = idempotency.map(str::to_owned);
        TestInput::Test(Input::Outgoing {
            agent,
            answers,
            idempotency,
            content,
        })
    };
    assert!(matches!(
        host.decide(&answer(Some(1), None), now()),
        Decided::Recorded(_)
    ));
    assert_eq!(
        refusal_code(host.decide(&answer(Some(1), None), now())),
        "answered"
    );
    assert!(matches!(
        host.decide(&answer(None, Some("k")), now()),
        Decided::Recorded(_)
    ));
    let Decided::Passed(answer, _) = host.decide(&answer(None, Some("k")), now()) else {
        panic!("not passed")
    };
    assert_eq!(answer, TestAnswer::Duplicate { seq: 4 });
}

#[test]
fn urgent_envelopes_and_administration_go_first() {
    let suite = TestSuite::default();
    let input = |verb| {
        let message =
            TestMessage::decode(&inputs::unsigned("1", "ann", "bob", verb, None)).unwrap();
        TestInput::Test(Input::Envelope(Authentic {
            message,
            proof: Proof::Unverified,
            door: Door::Http,
        }))
    };
    assert!(suite.urgent(&input("urgent")));
    assert!(!suite.urgent(&input("note")));
    assert!(suite.urgent(&inputs::host_act("cat", None)));
}
