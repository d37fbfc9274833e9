//! Every cell of the permission table, written down a second time from the specification.

use chancery_vibe::action::Action;
use chancery_vibe::address::{Address, covers};
use chancery_vibe::partition::{Denied, TABLE};

use crate::replay::tell;

const SENDERS: [&str; 20] = [
    "consumer",
    "consumer:persona",
    "buyer",
    "buyer:intent",
    "buyer:discovery",
    "buyer:negotiation",
    "buyer:authorization",
    "merchant",
    "merchant:7",
    "merchant:catalog",
    "merchant:retrieval",
    "merchant:pricing",
    "merchant:fulfillment",
    "merchant:support",
    "merchant:owner",
    "platform",
    "platform:aggregator",
    "platform:psp",
    "platform:reputation",
    "platform:adjudicator",
];

/// The table of section 4 as it is printed there: action, senders, receivers.
const PRINTED: &str = "\
delegate.create_purchase_mandate | consumer:persona | buyer:intent
delegate.approve_purchase | consumer:persona | buyer:authorization
delegate.reject_purchase | consumer:persona | buyer:authorization
delegate.set_business_goal | merchant:owner | merchant:pricing
commerce.search | buyer:discovery | platform:aggregator
commerce.request_offer | buyer:negotiation buyer:discovery | merchant:pricing merchant:retrieval merchant:support
commerce.propose_offer | merchant:pricing | buyer:negotiation
commerce.propose_offer | buyer:negotiation | merchant:pricing
commerce.counter_offer | merchant:pricing | buyer:negotiation
commerce.counter_offer | buyer:negotiation | merchant:pricing
commerce.accept_offer | buyer:negotiation | merchant:pricing platform:aggregator
commerce.accept_offer | merchant:pricing | buyer:negotiation
commerce.reject_offer | merchant:pricing | buyer:negotiation
commerce.reject_offer | buyer:negotiation | merchant:pricing
commerce.create_cart | buyer:authorization | merchant:pricing platform:aggregator
commerce.dispatch | merchant:fulfillment | buyer:authorization
commerce.request_return | buyer:authorization | merchant:support
commerce.respond_return | merchant:support | buyer:authorization
commerce.respond_inquiry | merchant:support merchant:retrieval | buyer:negotiation buyer:discovery
platform.rank_offers | platform:aggregator | buyer:discovery
platform.verify_claims | platform:aggregator | buyer:authorization merchant:pricing
platform.create_match_certificate | platform:aggregator | buyer:authorization
platform.authorize_payment | platform:psp | buyer:authorization
platform.settle_payment | buyer:authorization | platform:psp
platform.settle_payment | platform:psp | buyer:authorization
platform.refund_payment | platform:psp | buyer:authorization
platform.open_dispute | buyer:authorization | platform:adjudicator
platform.request_evidence | platform:adjudicator | buyer:authorization merchant:support
platform.submit_evidence | buyer:authorization merchant:support | platform:adjudicator
platform.rule_dispute | platform:adjudicator | buyer:authorization merchant:support
world.create_order | platform:psp | world
world.reserve_inventory | platform:psp | world
world.update_ledger | platform:psp | world
world.update_inventory | platform:aggregator | world
world.update_order | platform:psp platform:aggregator | world
world.record_dispute | platform:adjudicator | world
world.update_dispute | platform:adjudicator | world
world.record_ruling | platform:adjudicator | world
world.update_reputation | platform:reputation | world";

fn side(address: &str) -> &str {
    address.split(':').next().unwrap()
}

/// A bare side or a numbered merchant (VC-ADR-4, VC-ADR-5).
fn is_bare(address: &str) -> bool {
    !address.contains(':') || address == "merchant:7"
}

fn sends_as(sender: &str, role: &str) -> bool {
    sender == role
        || (is_bare(sender)
            && side(sender) == side(role)
            && side(sender) != "platform"
            && role != "merchant:owner")
}

fn receives_as(receiver: &str, role: &str) -> bool {
    receiver == role || (is_bare(receiver) && side(receiver) == side(role))
}

#[test]
fn every_cell_is_as_the_specification_says() {
    // VC-PART-1, VC-PART-2, VC-PART-3, VC-PART-4, VC-PART-5, VC-PART-6, VC-ADR-4, VC-ADR-5, VC-REP-1, VC-GEN-1
    let rows: Vec<(&str, Vec<&str>, Vec<&str>)> = PRINTED
        .lines()
        .map(|line| {
            let mut cells = line.split(" | ");
            let kind = cells.next().unwrap();
            let mut list = || cells.next().unwrap().split(' ').collect();
            (kind, list(), list())
        })
        .collect();
    let (mut cells, mut allowed) = (0, 0);
    for action in Action::ALL {
        let of_action: Vec<_> = rows
            .iter()
            .filter(|(kind, ..)| *kind == action.kind())
            .collect();
        assert!(!of_action.is_empty(), "{}", action.kind());
        for from in SENDERS {
            for to in SENDERS.into_iter().chain(["world"]) {
                let sending: Vec<_> = of_action
                    .iter()
                    .filter(|(_, senders, _)| senders.iter().any(|role| sends_as(from, role)))
                    .collect();
                let expected = if sending.is_empty() {
                    Err(Denied::Sender)
                } else if sending
                    .iter()
                    .any(|(_, _, receivers)| receivers.iter().any(|role| receives_as(to, role)))
                {
                    Ok(())
                } else {
                    Err(Denied::Receiver)
                };
                let found = TABLE.check(
                    *action,
                    Address::sender(from).unwrap(),
                    Address::receiver(to).unwrap(),
                );
                assert_eq!(found, expected, "{from} {} {to}", action.kind());
                cells += 1;
                allowed += usize::from(found.is_ok());
            }
        }
    }
    tell(&format!(
        "{cells} cells of the permission table, {allowed} allowed"
    ));
    assert_eq!(cells, 34 * 20 * 21);
}

#[test]
fn the_actions_are_those_of_the_specification() {
    // VC-GEN-1, VC-ENV-10, VC-ENV-13
    assert_eq!(Action::ALL.len(), 34);
    let reads: Vec<_> = Action::ALL
        .iter()
        .filter(|action| !action.is_mutation())
        .map(|action| action.kind())
        .collect();
    let expected = [
        "commerce.search",
        "commerce.request_offer",
        "commerce.respond_inquiry",
        "platform.rank_offers",
    ];
    assert_eq!(reads, expected);
    let inside = Action::ALL.iter().filter(|action| action.is_runtime_only());
    assert_eq!(inside.count(), 8);
    assert_eq!(Action::parse("commerce.search.v2"), None);
}

#[test]
fn a_token_covers_what_its_entries_say() {
    // VC-ADR-7
    let cases = [
        ("buyer", "buyer", true),
        ("buyer", "buyer:discovery", true),
        ("buyer:discovery", "buyer", false),
        ("buyer:discovery", "buyer:discovery", true),
        ("merchant", "merchant:pricing", true),
        ("merchant", "merchant:7", true),
        ("merchant", "merchant:owner", false),
        ("merchant:owner", "merchant:owner", true),
        ("platform", "platform:psp", false),
        ("platform:psp", "platform:psp", true),
        ("consumer", "consumer:persona", false),
        ("consumer:persona", "consumer:persona", true),
        ("buy", "buyer", false),
    ];
    for (entry, sender, expected) in cases {
        assert_eq!(covers(entry, sender), expected, "{entry} {sender}");
    }
}
