//! Shares: which one is kept, what is made of it, and what may be in it.

use std::time::Duration;

use chancery_core::protocol::Door;
use chancery_core::time::format_millis;
use chancery_value_context::Answer;
use chancery_value_context::payload::Payload;
use chancery_value_context::rules::{Share, share_key};
use serde_json::{Value, json};

use crate::stage::{Stage, agent, share};
use crate::support::{decode, envelope, refusal};

const ME: &str = "agent://a.example/me";
const PEER: &str = "agent://b.example/peer";

fn me() -> Stage {
    let mut stage = Stage::default();
    let mut record = agent(None, &[]);
    record.peers = vec![PEER.to_owned()];
    stage.host(ME, record);
    stage
}

fn kept(stage: &Stage) -> Share {
    stage.row(&share_key(ME, PEER)).unwrap()
}

// VX-CS-2, VX-ORD-2
#[test]
fn the_newest_share_is_kept_whatever_came_last() {
    let mut stage = me();
    let mut share_at = |seconds_ago: u64, id: &str, context: &str| {
        let mut envelope = stage.envelope(PEER, ME, "context_share", share(context));
        let at = stage.now.saturating_sub(Duration::from_secs(seconds_ago));
        envelope["timestamp"] = format_millis(at).as_str().into();
        envelope["message_id"] = format!("019502a4-7e5c-7000-9000-0000000000{id}").into();
        stage.receive(&envelope).unwrap();
        kept(&stage)
    };
    assert_eq!(&*share_at(20, "a1", "📍🏡").context, "📍🏡");
    assert_eq!(&*share_at(10, "a0", "📍🏢").context, "📍🏢");
    // Late and older: accepted, and not kept.
    assert_eq!(&*share_at(15, "a9", "📍🏫").context, "📍🏢");
    // At the same time the identifier decides.
    let tie = share_at(10, "ff", "📍🏥");
    assert_eq!(&*tie.context, "📍🏥");
    assert_eq!(
        tie.message_id.to_string(),
        "019502a4-7e5c-7000-9000-0000000000ff"
    );
    assert_eq!(&*share_at(10, "a2", "📍🌳").context, "📍🏥");
}

// VX-RTY-1, VX-RTY-2, VX-RTY-7
#[test]
fn what_goes_elsewhere_is_attempted_at_the_written_times() {
    let mut stage = me();
    stage.send(ME, PEER, "context_share", share("📍🏡"));
    let [leaving] = &stage.leaving[..] else {
        panic!("{:?}", stage.leaving.len());
    };
    assert_eq!(leaving.delivery.pauses_ms, [1_000, 2_000, 4_000]);
    assert_eq!(leaving.delivery.attempt_ms, 5_000);
    assert_eq!(leaving.delivery.within_ms, Some(4 * 60 * 1_000));
}

// VX-CS-3, VX-CTX-12
#[test]
fn the_agent_is_told_how_much_the_context_changed() {
    let mut stage = me();
    let mut change = |context: &str| {
        stage.told(PEER, ME, "context_share", share(context));
        let line = stage.log.last().unwrap();
        line.meta.get("context_change").cloned()
    };
    assert_eq!(change("📍🏡"), None, "there was nothing to compare with");
    assert_eq!(change("📍🏡"), None);
    for (context, severity) in [
        ("📍🏢", "minor"),
        ("📍🏢|👥👶", "major"),
        ("🎭🚨", "emergency"),
    ] {
        let told = change(context).unwrap();
        assert!(
            told.contains(ME) && told.contains(severity),
            "{context}: {told}"
        );
    }
}

fn with_state(context: &str, state: Value) -> Value {
    let mut share = share(context);
    share["personal_state"] = state;
    share
}

fn whole_state() -> Value {
    json!({"cognitive": 5, "emotional": {"valence": 1, "arousal": 8}, "energy": 5, "urgency": 5})
}

// VX-PS-4
#[test]
fn a_personal_state_says_more_than_the_context_beside_it() {
    let mut stage = me();
    stage.told(PEER, ME, "context_share", with_state("🧠😊", whole_state()));
    let both = kept(&stage);
    assert_eq!(
        (&*both.context, both.personal_state.is_some()),
        ("🧠😊", true)
    );
    let values = |payload: Value| {
        let mut stage = me();
        let envelope = stage.envelope(PEER, ME, "context_share", payload);
        let message = decode(envelope.to_string()).unwrap();
        let Payload::ContextShare(share) = message.payload else {
            panic!("a share");
        };
        share.state_values()
    };
    assert_eq!(values(with_state("🧠😊", whole_state())), ["😡"]);
    assert_eq!(values(share("🧠😊😴")), ["😊", "😴"]);
}

// VX-PS-5
#[test]
fn a_personal_state_leaves_with_consent_alone_and_to_everybody_only_with_a_second() {
    for (one, all) in [(false, false), (true, false), (true, true), (false, true)] {
        let mut stage = me();
        stage.settings.share_personal_state = one;
        stage.settings.share_personal_state_broadcast = all;
        let mut sends = |to: &str| {
            let sent = stage.try_send(ME, to, "context_share", with_state("📍🏡", whole_state()));
            sent.map(drop)
                .map_err(|refusal| (refusal.code, refusal.requirement))
        };
        let refused = Err(("not_authorized", "VX-PS-5"));
        assert_eq!(sends(PEER), if one { Ok(()) } else { refused });
        assert_eq!(
            sends("broadcast"),
            if one && all { Ok(()) } else { refused }
        );
    }
    // The node itself never puts one into a message: nothing old can leave.
    let mut stage = me();
    stage.settings.share_personal_state = true;
    stage.send(ME, PEER, "context_share", with_state("📍🏡", whole_state()));
    stage.send(ME, PEER, "context_share", share("📍🏡"));
    assert_eq!(
        stage.log.last().unwrap().envelope["payload"].get("personal_state"),
        None
    );
}

// VX-PS-6
#[test]
fn the_text_of_another_encoding_is_no_personal_state() {
    use chancery_core::json::Object;
    let payload = |state: Object<'static>| crate::support::share().with("personal_state", state);
    for state in [
        Object::new().with("cognitive", "🧠focused:4"),
        Object::new().with("🧠", "focused:4"),
    ] {
        assert_eq!(refusal(envelope(payload(state))).0, "schema_invalid");
    }
    let text = crate::support::share().with("personal_state", "🧠focused:4|💭calm:3");
    assert_eq!(refusal(envelope(text)).0, "schema_invalid");
}

// VX-RPL-3, VX-DUP-7
#[test]
fn the_window_and_the_memory_hold_in_process_too() {
    let mut stage = me();
    let mut stale = stage.envelope(PEER, ME, "context_share", share("📍🏡"));
    let at = stage.now.saturating_sub(Duration::from_secs(301));
    stale["timestamp"] = format_millis(at).as_str().into();
    let early = stage.now.saturating_add(Duration::from_secs(31));
    let mut future = stage.envelope(PEER, ME, "context_share", share("📍🏡"));
    future["timestamp"] = format_millis(early).as_str().into();
    let fresh = stage.envelope(PEER, ME, "context_share", share("📍🏡"));
    for door in [
        Door::Http,
        Door::WebSocket { greeting: false },
        Door::InProcess,
    ] {
        let code = |result: Result<_, chancery_core::refusal::Refusal>| result.unwrap_err().code;
        assert_eq!(code(stage.receive_by(&stale, door)), "timestamp_stale");
        assert_eq!(code(stage.receive_by(&future, door)), "timestamp_future");
        stage.receive_by(&fresh, door).unwrap();
    }
    assert_eq!(stage.log.len(), 2, "the agent and one share");
    assert_eq!(stage.events_named("duplicate"), 2);
}

// VX-CAN-6
#[test]
fn a_message_whose_canonical_forms_differ_is_counted() {
    let mut stage = Stage::default();
    stage.host(ME, agent(None, &[PEER]));
    for (value, counted) in [(json!(7.0), 0), (json!(1e-7), 1), (json!("x"), 1)] {
        let payload = crate::stage::constraints("merge", &[("x-scale", value)]);
        stage.send(ME, PEER, "constraint_propagate", payload);
        assert_eq!(stage.events_named("canonical_divergence"), counted);
    }
}

// VX-DUP-3
#[test]
fn a_message_is_remembered_for_as_long_as_it_is_fresh() {
    let mut stage = me();
    let begun = stage.now;
    let mut ahead = stage.envelope(PEER, ME, "context_share", share("📍🏡"));
    let stamp = begun.saturating_add(Duration::from_secs(30));
    ahead["timestamp"] = format_millis(stamp).as_str().into();
    stage.receive(&ahead).unwrap();
    // 300 s after its timestamp it is fresh for the last time.
    for later in [1, 299, 329, 330] {
        stage.now = begun.saturating_add(Duration::from_secs(later));
        let again = stage.receive(&ahead).unwrap();
        assert!(
            matches!(again, Answer::Duplicate(_)),
            "after {later} s: {again:?}"
        );
    }
    stage.now = begun.saturating_add(Duration::from_millis(330_001));
    assert_eq!(stage.receive(&ahead).unwrap_err().code, "timestamp_stale");
}
