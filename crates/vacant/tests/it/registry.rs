//! The registry, and the score that dispatch chooses by.

use chancery_core::admin::Act as Admin;
use chancery_core::line::ProtocolName;
use chancery_core::protocol::Input;
use chancery_core::refusal::Refusal;
use chancery_core::rows::Rows as _;
use chancery_core::time::Time;
use chancery_vacant::act::{Act, Change, Review};
use chancery_vacant::agent::AgentRecord;
use chancery_vacant::card::CapabilityCard;
use chancery_vacant::dispatch::choose;
use chancery_vacant::id::VacantId;
use chancery_vacant::registry::{Entry, Search, Visibility, search};
use chancery_vacant::reputation::{Dimension, Known, Oracle, Reputation, UcbOracle};
use chancery_vacant::rules::judge::reputation_key;
use chancery_vacant::rules::registry::entries_prefix;
use chancery_vacant::state::State;

use crate::host::{AnyInput, Host, id, key};

fn card(of: &str) -> CapabilityCard {
    let endpoint = format!("https://{of}.example/a2a/message/send");
    CapabilityCard::new(id(of), format!("{of} counts"), Some(endpoint)).signed(&key(of))
}

fn act(host: &mut Host, change: Change) -> Result<(), Refusal> {
    let act = AnyInput::Vacant(Input::Act(Act::new(change)));
    host.decide(&act).map(drop)
}

fn host_with_card(host: &mut Host, card: &CapabilityCard, state: State) -> Result<(), Refusal> {
    let record = AgentRecord {
        id: id("ann"),
        state,
        card: Some(String::from_utf8(card.serialize()).unwrap()),
        inbox: false,
        agent: None,
    };
    let act = Admin::Agent {
        protocol: ProtocolName::Vacant,
        id: "ann".to_owned(),
        record: Some(serde_json::to_value(record).unwrap()),
        run_state: None,
    };
    host.decide(&AnyInput::Act(act)).map(drop)
}

/// What a search for some words finds.
fn found(host: &Host, query: &str) -> Vec<VacantId> {
    let rows = host.rows().scan(&entries_prefix()).unwrap();
    let entries = rows
        .iter()
        .map(|(_, row)| serde_json::from_slice(row).unwrap());
    let asked = Search {
        query: Some(query),
        family: None,
        limit: 20,
        include_local: false,
    };
    let found = search(entries, &asked, Time::UNIX_EPOCH);
    found.iter().map(|found| found.card.vacant_id).collect()
}

// VA-ID-9
#[test]
fn a_card_that_is_attached_is_the_vacants_own_and_verifies() {
    let mut host = Host::default();
    let of_another = host_with_card(&mut host, &card("bob"), State::Active).unwrap_err();
    assert_eq!(
        (of_another.code, of_another.requirement),
        ("agent_not_allowed", "VA-ID-9")
    );
    let unsigned = CapabilityCard::new(id("ann"), "counts", None);
    let unsigned = host_with_card(&mut host, &unsigned, State::Active).unwrap_err();
    assert_eq!(unsigned.code, "ENVELOPE_SIGNATURE");
    host_with_card(&mut host, &card("ann"), State::Active).unwrap();
}

// VA-REG-3, VA-REG-1
#[test]
fn a_local_vacant_is_found_by_nobody() {
    let mut host = Host::default();
    for (state, is_found) in [
        (State::Local, false),
        (State::Active, true),
        (State::Local, false),
    ] {
        host_with_card(&mut host, &card("ann"), state).unwrap();
        assert_eq!(
            found(&host, "ann counts").len(),
            usize::from(is_found),
            "{state:?}"
        );
    }
    // What is not public is not found either.
    for (visibility, is_found) in [
        (Visibility::None, false),
        (Visibility::Restricted, false),
        (Visibility::Public, true),
    ] {
        let entry = Entry {
            visibility,
            ..Entry::of_card(&card("far"))
        };
        act(&mut host, Change::Publish(entry)).unwrap();
        assert_eq!(
            found(&host, "far").len(),
            usize::from(is_found),
            "{visibility:?}"
        );
    }
    assert_eq!(host.replayed().divergence, None);
}

// VA-REG-4
#[test]
fn a_published_card_verifies_and_keeps_its_parent() {
    let mut host = Host::default();
    let unsigned = Entry::of_card(&CapabilityCard::new(id("far"), "counts", None));
    let refused = act(&mut host, Change::Publish(unsigned)).unwrap_err();
    assert_eq!(refused.code, "ENVELOPE_SIGNATURE");
    let child = Entry {
        parent: Some(id("bob")),
        ..Entry::of_card(&card("far"))
    };
    act(&mut host, Change::Publish(child.clone())).unwrap();
    let orphan = Entry::of_card(&card("far"));
    let refused = act(&mut host, Change::Publish(orphan)).unwrap_err();
    assert_eq!(
        (refused.code, refused.status),
        ("REGISTRY_NOT_ALLOWED", 409)
    );
    act(&mut host, Change::Publish(child)).unwrap();
    // Without words of its own an entry declares those of its card.
    assert_eq!(found(&host, "[\"far counts\"]"), [id("far")]);
}

struct OnRecord<'h>(&'h Host);

impl Known for OnRecord<'_> {
    fn reputation(&self, vacant: &VacantId) -> Option<Reputation> {
        self.0.row(&reputation_key(vacant))
    }

    fn count(&self) -> u64 {
        3
    }
}

// VA-UCB-7
#[test]
fn what_a_parent_earned_is_not_its_childs() {
    let mut host = Host::default();
    let child = Entry {
        parent: Some(id("bob")),
        ..Entry::of_card(&card("far"))
    };
    act(&mut host, Change::Publish(child)).unwrap();
    let score = |host: &Host, of: &str| UcbOracle(OnRecord(host)).score(&id(of), &Dimension::ALL);
    let (parent, child) = (score(&host, "bob"), score(&host, "far"));
    for dim in Dimension::ALL {
        let review = Review {
            of: id("bob"),
            dim,
            signal: 0.0,
            weight: 50.0,
        };
        act(&mut host, Change::Review(review)).unwrap();
    }
    assert!(score(&host, "bob") < parent);
    assert!((score(&host, "far") - child).abs() < 1e-12);
    assert!((score(&host, "far") - score(&host, "never heard of")).abs() < 1e-12);
}

// VA-UCB-1, VA-DSP-4
#[test]
fn dispatch_asks_an_oracle_for_nothing_but_a_score() {
    struct Alphabet;
    impl Oracle for Alphabet {
        fn score(&self, vacant: &VacantId, dims: &[Dimension]) -> f64 {
            assert_eq!(dims, Dimension::ALL);
            let likes = [id("bob"), id("far")];
            likes
                .iter()
                .position(|liked| liked == vacant)
                .map_or(f64::NAN, |place| place as f64)
        }
    }
    let matches = ["ann", "bob", "far"].map(|of| Some(card(of)));
    let chosen = choose(&matches, Some(&Alphabet)).unwrap();
    assert_eq!(chosen.vacant_id, id("far"));
}
