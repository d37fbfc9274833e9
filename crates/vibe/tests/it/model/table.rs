//! The table of section 4, and what every payload must have (section 5), as the model reads them.

/// An action: kind, senders with their receivers, whether it needs a key, whether only the runtime makes it, and the
/// members that its payload must have.
pub struct Row {
    pub kind: &'static str,
    pub ways: &'static [(&'static str, &'static [&'static str])],
    pub mutation: bool,
    pub runtime: bool,
    pub needs: &'static [&'static str],
}

const fn row(
    kind: &'static str,
    ways: &'static [(&'static str, &'static [&'static str])],
    mutation: bool,
    needs: &'static [&'static str],
) -> Row {
    Row {
        kind,
        ways,
        mutation,
        runtime: false,
        needs,
    }
}

const fn write(
    kind: &'static str,
    ways: &'static [(&'static str, &'static [&'static str])],
) -> Row {
    Row {
        kind,
        ways,
        mutation: true,
        runtime: true,
        needs: &[],
    }
}

const P: &str = "merchant:pricing";
const N: &str = "buyer:negotiation";
const A: &str = "buyer:authorization";
const S: &str = "merchant:support";
const OFFER: &[&str] = &[
    "offer_id",
    "merchant_id",
    "sku_id",
    "qty",
    "unit_price",
    "fulfillment",
    "claims",
    "expires_at",
];

/// The 34 actions.
pub static TABLE: [Row; 34] = [
    row(
        "delegate.create_purchase_mandate",
        &[("consumer:persona", &["buyer:intent"])],
        true,
        &[
            "mandate_id",
            "ap2_intent_mandate",
            "authority",
            "hard_constraints",
        ],
    ),
    row(
        "delegate.approve_purchase",
        &[("consumer:persona", &[A])],
        true,
        &["cert_id"],
    ),
    row(
        "delegate.reject_purchase",
        &[("consumer:persona", &[A])],
        true,
        &["cert_id", "reason"],
    ),
    row(
        "delegate.set_business_goal",
        &[("merchant:owner", &[P])],
        true,
        &[
            "offer_mandate_id",
            "merchant_id",
            "goal",
            "skus",
            "pricing",
            "permitted_claims",
            "fulfillment",
        ],
    ),
    row(
        "commerce.search",
        &[("buyer:discovery", &["platform:aggregator"])],
        false,
        &["query"],
    ),
    row(
        "commerce.request_offer",
        &[
            (N, &[P, "merchant:retrieval", S]),
            ("buyer:discovery", &[P, "merchant:retrieval", S]),
        ],
        false,
        &["sku_id", "merchant_id"],
    ),
    row(
        "commerce.propose_offer",
        &[(P, &[N]), (N, &[P])],
        true,
        OFFER,
    ),
    row(
        "commerce.counter_offer",
        &[(P, &[N]), (N, &[P])],
        true,
        OFFER,
    ),
    row(
        "commerce.accept_offer",
        &[(N, &[P, "platform:aggregator"]), (P, &[N])],
        true,
        &["offer_id"],
    ),
    row(
        "commerce.reject_offer",
        &[(P, &[N]), (N, &[P])],
        true,
        &["offer_id"],
    ),
    row(
        "commerce.create_cart",
        &[(A, &[P, "platform:aggregator"])],
        true,
        &["cart_id", "offer_id", "contents"],
    ),
    row(
        "commerce.dispatch",
        &[("merchant:fulfillment", &[A])],
        true,
        &["order_id"],
    ),
    row(
        "commerce.request_return",
        &[(A, &[S])],
        true,
        &["tx_id", "reason"],
    ),
    row(
        "commerce.respond_return",
        &[(S, &[A])],
        true,
        &["return_id", "decision"],
    ),
    row(
        "commerce.respond_inquiry",
        &[
            (S, &[N, "buyer:discovery"]),
            ("merchant:retrieval", &[N, "buyer:discovery"]),
        ],
        false,
        &["answer"],
    ),
    row(
        "platform.rank_offers",
        &[("platform:aggregator", &["buyer:discovery"])],
        false,
        &["policy_version", "query_msg_id", "candidates"],
    ),
    row(
        "platform.verify_claims",
        &[("platform:aggregator", &[A, P])],
        true,
        &["offer_id", "policy_version", "results"],
    ),
    row(
        "platform.create_match_certificate",
        &[("platform:aggregator", &[A])],
        true,
        &[
            "cert_id",
            "mandate_id",
            "offer_id",
            "merchant_id",
            "sku_id",
            "qty",
            "unit_price",
            "total",
            "currency",
            "checks",
            "policy_version",
            "issued_at",
            "expires_at",
        ],
    ),
    row(
        "platform.authorize_payment",
        &[("platform:psp", &[A])],
        true,
        &["cert_id", "payment_instrument", "payment_mandate"],
    ),
    row(
        "platform.settle_payment",
        &[(A, &["platform:psp"]), ("platform:psp", &[A])],
        true,
        &["cert_id"],
    ),
    row(
        "platform.refund_payment",
        &[("platform:psp", &[A])],
        true,
        &["tx_id", "amount", "basis"],
    ),
    row(
        "platform.open_dispute",
        &[(A, &["platform:adjudicator"])],
        true,
        &["tx_id", "reason"],
    ),
    row(
        "platform.request_evidence",
        &[("platform:adjudicator", &[A, S])],
        true,
        &["dispute_id", "question"],
    ),
    row(
        "platform.submit_evidence",
        &[
            (A, &["platform:adjudicator"]),
            (S, &["platform:adjudicator"]),
        ],
        true,
        &["dispute_id", "evidence"],
    ),
    row(
        "platform.rule_dispute",
        &[("platform:adjudicator", &[A, S])],
        true,
        &["dispute_id", "ruling", "evidence", "rationale"],
    ),
    write("world.create_order", &[("platform:psp", &["world"])]),
    write("world.reserve_inventory", &[("platform:psp", &["world"])]),
    write("world.update_ledger", &[("platform:psp", &["world"])]),
    write(
        "world.update_inventory",
        &[("platform:aggregator", &["world"])],
    ),
    write(
        "world.update_order",
        &[
            ("platform:psp", &["world"]),
            ("platform:aggregator", &["world"]),
        ],
    ),
    write(
        "world.record_dispute",
        &[("platform:adjudicator", &["world"])],
    ),
    write(
        "world.update_dispute",
        &[("platform:adjudicator", &["world"])],
    ),
    write(
        "world.record_ruling",
        &[("platform:adjudicator", &["world"])],
    ),
    row(
        "world.update_reputation",
        &[("platform:reputation", &["world"])],
        true,
        &["subject", "delta", "reason", "evidence"],
    ),
];

impl Row {
    /// The row of a kind.
    pub fn of(kind: &str) -> Option<&'static Self> {
        TABLE.iter().find(|row| row.kind == kind)
    }

    /// Whether a pair is in the table.
    pub fn allows(&self, from: &str, to: &str) -> bool {
        self.ways
            .iter()
            .any(|(sender, receivers)| *sender == from && receivers.contains(&to))
    }
}

/// Actions that answer and must say what (VC-ENV-9).
pub const ANSWERS: [&str; 6] = [
    "commerce.counter_offer",
    "commerce.accept_offer",
    "commerce.reject_offer",
    "commerce.respond_inquiry",
    "commerce.respond_return",
    "platform.submit_evidence",
];
