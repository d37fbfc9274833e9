//! `[[partition]]` rows of another policy: whom they mean, and that they hold for what the platform sends by itself.

use chancery_bench::write_deals;
use serde_json::json;

use crate::market::{MarketNode, envelope};
use crate::support::Place;
use crate::what_if::{REPLAY, WAYS, denied, differs, dispatched, judged, row};

/// A message, and what became of it.
type Became = [&'static str; 2];

const NO_CERT: Became = ["s1-settle", "refused: cert_not_found"];
const NO_ORDER: Became = ["s1-ship", "refused: order_not_found"];

/// What is denied from whom to whom, what becomes of the message that caused it, and of those that rest on that.
const DENIALS: [(&str, [&str; 2], Became, &[Became]); 7] = [
    (
        "platform.rank_offers",
        ["platform:aggregator", "buyer:discovery"],
        [
            "s1-search",
            "accepted without platform.rank_offers (partition_denied)",
        ],
        &[],
    ),
    (
        "platform.verify_claims",
        ["*", "*"],
        [
            "s1-accept",
            "accepted without platform.verify_claims, without platform.create_match_certificate, \
             without platform.authorize_payment (partition_denied)",
        ],
        &[NO_CERT, NO_ORDER],
    ),
    (
        "platform.create_match_certificate",
        ["*", "*"],
        [
            "s1-accept",
            "accepted without platform.create_match_certificate, without platform.authorize_payment (partition_denied)",
        ],
        &[NO_CERT, NO_ORDER],
    ),
    // The certificate stays, and what is not authorized is not settled (VC-ACT-platform.settle_payment-3).
    (
        "platform.authorize_payment",
        ["platform:psp", "buyer"],
        [
            "s1-accept",
            "accepted without platform.authorize_payment (partition_denied)",
        ],
        &[["s1-settle", "refused: payment_not_authorized"], NO_ORDER],
    ),
    (
        "world.update_ledger",
        ["platform:psp", "world"],
        ["s1-settle", "refused: partition_denied"],
        &[NO_ORDER],
    ),
    (
        "world.create_order",
        ["*", "world"],
        ["s1-settle", "refused: partition_denied"],
        &[NO_ORDER],
    ),
    (
        "world.update_order",
        ["platform:aggregator", "*"],
        ["s1-ship", "refused: partition_denied"],
        &[],
    ),
];

#[test]
fn a_row_holds_for_what_the_platform_sends_by_itself() {
    // VC-RPL-2, VC-PART-1, VC-PLAT-1, VC-PLAT-2, VC-SET-1: a follow-up is not made, and ends the chain; a batch is there
    // whole or not at all.
    let node = MarketNode::start();
    let cert = node.certified("s1", 20_000);
    let settled = node.settle("s1", &cert);
    dispatched(&node, "merchant:fulfillment", &settled);
    for (kind, [from, to], [named, would], rest) in DENIALS {
        let rule = format!("partition: deny {kind} from {from} to {to}");
        let mut fallen = vec![differs(named, would, &[&rule])];
        let policy = row(kind, from, to, false);
        assert_eq!(judged(&node, &policy, &[]), (1, fallen.clone()), "{kind}");
        fallen.extend(rest.iter().map(|[named, would]| differs(named, would, &[])));
        assert_eq!(
            judged(&node, &policy, &["--cascade"]),
            (1, fallen),
            "{kind}"
        );
        // The row after it takes it back.
        let back = [policy, row(kind, from, to, true)].concat();
        for way in WAYS {
            assert_eq!(judged(&node, &back, way), (0, vec![]), "{kind}");
        }
    }
    // Of the platform's other writes none is by this role.
    for way in WAYS {
        let policy = row("world.update_ledger", "platform:aggregator", "world", false);
        assert_eq!(judged(&node, &policy, way), (0, vec![]));
    }
}

#[test]
fn a_row_means_the_roles_that_an_address_has() {
    // VC-RPL-2, VC-ADR-4, VC-ADR-5, VC-PART-1: who sends without a role has those of its side, until the last one may not.
    let node = MarketNode::start();
    let cert = node.certified("s1", 20_000);
    let question = json!({"merchant_id": "m_keys", "sku_id": "sku_quiet"});
    let (asker, asked) = ("buyer", "merchant:support");
    node.say(&envelope(
        "s1",
        "ask",
        asker,
        asked,
        "commerce.request_offer",
        question,
    ));
    let settled = node.settle("s1", &cert);
    dispatched(&node, "merchant", &settled);
    let dispatch = |from: &str, to: &str, allow| row("commerce.dispatch", from, to, allow);
    for (from, to) in [
        ("merchant:fulfillment", "buyer:authorization"),
        ("merchant:fulfillment", "*"),
        ("merchant", "buyer"),
        ("merchant:7", "buyer:authorization"),
        ("*", "buyer"),
    ] {
        let rule = format!("partition: deny commerce.dispatch from {from} to {to}");
        let fallen = vec![differs("s1-ship", "refused: partition_denied", &[&rule])];
        for way in WAYS {
            assert_eq!(
                judged(&node, &dispatch(from, to, false), way),
                (1, fallen.clone())
            );
        }
    }
    for (from, to) in [
        ("merchant:pricing", "*"),
        ("*", "buyer:negotiation"),
        ("merchant", "world"),
    ] {
        assert_eq!(judged(&node, &dispatch(from, to, false), &[]), (0, vec![]));
    }
    // Another role of its side is enough.
    let others = [
        denied("commerce.dispatch"),
        dispatch("merchant:catalog", "buyer", true),
    ]
    .concat();
    assert_eq!(judged(&node, &others, &[]), (0, vec![]));
    // And of two that it has only both together are too many.
    let ask = |role: &str| row("commerce.request_offer", role, "merchant:support", false);
    let both = ["buyer:negotiation", "buyer:discovery"];
    for role in both {
        assert_eq!(judged(&node, &ask(role), &[]), (0, vec![]));
    }
    let rules = both.map(|role| {
        format!("partition: deny commerce.request_offer from {role} to merchant:support")
    });
    let fallen = differs(
        "s1-ask",
        "refused: partition_denied",
        &[&rules[0], &rules[1]],
    );
    let told = judged(&node, &both.map(ask).concat(), &[]);
    assert_eq!(told, (1, vec![fallen]));
}

#[test]
fn a_row_that_names_nobody_is_no_policy() {
    // VC-ADR-2, VC-ADR-5, VC-ADR-6, CH-CLI-1, CH-CLI-3
    let place = Place::new();
    write_deals(&place.path("."), 10).unwrap();
    let good = denied("commerce.search");
    for (action, from, to, field) in [
        ("commerce.dispatch", "merhcant:x", "nonsense", "from"),
        ("commerce.nope", "*", "*", "action"),
        ("commerce.dispatch", "merchant:x", "*", "from"),
        ("commerce.dispatch", "world", "*", "from"),
        // It may send nothing, so a row about it would say nothing.
        ("platform.rank_offers", "platform", "*", "from"),
        ("commerce.dispatch", "*", "nonsense", "to"),
        ("commerce.dispatch", "*", "buyer:Authorization", "to"),
        ("commerce.dispatch", "*", "", "to"),
    ] {
        place.write(
            "policy.toml",
            [&good[..], &row(action, from, to, false)].concat(),
        );
        let ran = place.run(&[&REPLAY[..], &["--with-policy", "policy.toml"]].concat());
        let told = ran.exits(2).err;
        assert!(
            told.contains(&format!("partition row 2: {field}: ")),
            "{told}"
        );
    }
}
