//! Whole deals of vibe commerce on rows in memory, and the log that they leave.

use std::sync::Arc;

use anyhow::{Context as _, Result, anyhow, bail};
use bytes::Bytes;
use chancery_core::admin::{Act, Config};
use chancery_core::decision::{Before, Open, Unit};
use chancery_core::keys::Keyring;
use chancery_core::protocol::{Caller, Door, Input, Protocol as _, Suite as _};
use chancery_core::rows::MapRows;
use chancery_core::time::Time;
use chancery_core::window::Windows;
use chancery_journal::{Chain, Outcome, decide_input};
use chancery_node::suite::{AllSettings, AnyInput, Chancery, WORLD_DIGEST};
use chancery_vibe::settings::Settings;
use chancery_vibe::world::seed::Seed;
use serde_json::{Value, json};

use crate::host::{new_chain, stored};

const MERCHANTS: usize = 20;
const SKUS_EACH: usize = 10;
const BUYERS: usize = 50;
const THINGS: [&str; 10] = [
    "keyboard", "lamp", "chair", "kettle", "notebook", "pencil", "shelf", "bottle", "blanket",
    "clock",
];
const COLOURS: [&str; 5] = ["green", "blue", "red", "white", "black"];

/// A world with enough stock and money for every deal of a benchmark.
pub(crate) fn world() -> Value {
    let pairs = || (0..MERCHANTS).flat_map(|m| (0..SKUS_EACH).map(move |s| (m, s)));
    json!({
        "seed_id": "bench", "currency": "USD", "policy": {},
        "merchants": (0..MERCHANTS).map(|m| json!({
            "merchant_id": merchant(m), "name": format!("Merchant {m}"), "account_id": format!("acc_m{m}"),
        })).collect::<Vec<_>>(),
        "catalog": pairs().map(|(m, s)| json!({
            "merchant_id": merchant(m), "sku_id": sku(s), "title": format!("{} {}", THINGS[s % THINGS.len()], COLOURS[m % COLOURS.len()]),
            "attributes": ["wireless"], "list_price": 12_900, "eta_days": 2, "refundable": true,
        })).collect::<Vec<_>>(),
        "inventory": pairs().map(|(m, s)| json!({
            "merchant_id": merchant(m), "sku_id": sku(s), "on_hand": 1_000_000, "reserved": 0,
        })).collect::<Vec<_>>(),
        "ledger": (0..BUYERS).map(|b| json!({
            "account_id": format!("acc_b{b}"), "owner": buyer(b), "currency": "USD",
            "balance": 100_000_000_000_u64,
        })).chain((0..MERCHANTS).map(|m| json!({
            "account_id": format!("acc_m{m}"), "owner": merchant(m), "currency": "USD", "balance": 0,
        }))).collect::<Vec<_>>(),
        "reputation": (0..MERCHANTS).map(|m| json!({"merchant_id": merchant(m), "score": 800})).collect::<Vec<_>>(),
    })
}

fn merchant(number: usize) -> String {
    format!("m_{number}")
}

fn buyer(number: usize) -> String {
    format!("c_{number}")
}

fn sku(number: usize) -> String {
    format!("sku_{number}")
}

/// A market without a node: decisions one after the other, and the lines they leave.
pub(crate) struct Market {
    pub(crate) suite: Chancery,
    pub(crate) lines: Vec<Bytes>,
    settings: AllSettings,
    rows: MapRows,
    windows: Windows,
    chain: Chain,
    time: Time,
    now: Time,
    deals: usize,
}

impl Market {
    /// A market that opens at `now`.
    pub(crate) fn open(now: Time) -> Result<Self> {
        let file = world().to_string();
        let seed = Seed::parse(file.as_bytes()).map_err(|fault| anyhow!("{fault:?}"))?;
        let vibe = seed.in_settings(Settings::default());
        let config = Config {
            protocols: [("vibe".to_owned(), serde_json::to_value(&vibe)?)].into(),
            digests: [(WORLD_DIGEST.to_owned(), seed.digest.hex())].into(),
        };
        let mut market = Self {
            suite: Chancery::with_seed(Arc::new(seed)),
            lines: Vec::new(),
            settings: AllSettings::default(),
            rows: MapRows::default(),
            windows: Windows::default(),
            chain: new_chain(),
            time: Time::UNIX_EPOCH,
            now,
            deals: 0,
        };
        market.decide(&AnyInput::Act(Act::Config(config)))?;
        market.settings = market.suite.settings(&market.rows)?;
        Ok(market)
    }

    /// One deal: mandate, search, inquiry, offer, acceptance with what the platform adds, settlement, dispatch.
    pub(crate) fn deal(&mut self) -> Result<()> {
        let number = self.deals;
        self.deals += 1;
        let (seller, item) = (
            merchant(number % MERCHANTS),
            sku(number / MERCHANTS % SKUS_EACH),
        );
        let session = format!("s{number}");
        let deal = Deal {
            session: &session,
            seller: &seller,
            item: &item,
            number,
        };
        self.say(&deal.mandate())?;
        self.say(&deal.search())?;
        self.say(&deal.inquiry())?;
        self.say(&deal.offer())?;
        let made = self.say(&deal.acceptance())?;
        let cert = named(&made, "cert_id").context("no certificate was made")?;
        let made = self.say(&deal.settlement(&cert))?;
        let order = named(&made, "order_id").context("no order was made")?;
        self.say(&deal.dispatch(&order))?;
        Ok(())
    }

    /// Takes an envelope in as a door does; gives the envelopes of its unit.
    fn say(&mut self, envelope: &Value) -> Result<Vec<Value>> {
        let raw = Bytes::from(envelope.to_string());
        let protocol = self.suite.vibe();
        let settings = &self.settings.vibe;
        let refused = |refusal| anyhow!("{envelope}: {refusal}");
        let message = protocol
            .decode(raw, Door::Http, settings)
            .map_err(refused)?;
        let (caller, keys) = (Caller::default(), Keyring::new());
        let authentic = protocol
            .authenticate(message, Door::Http, &caller, &keys, settings, self.now)
            .map_err(refused)?;
        let input = AnyInput::Vibe(Input::Envelope(authentic));
        let from = self.lines.len();
        self.decide(&input).with_context(|| envelope.to_string())?;
        let read = |line: &Bytes| -> Result<Value> {
            let line: Value = serde_json::from_slice(line)?;
            Ok(line["envelope"].clone())
        };
        self.lines[from..].iter().map(read).collect()
    }

    fn decide(&mut self, input: &AnyInput) -> Result<()> {
        let before = Before {
            now: self.now,
            seq: self.lines.len() as u64 + 1,
            rows: &self.rows,
            windows: &self.windows,
            guards: &mut Open,
            nonce: [0; 16],
            keeps_agenda: true,
        };
        let unit: Unit = match decide_input(&self.suite, input, &self.settings, self.time, before) {
            Outcome::Recorded { unit, .. } => unit,
            Outcome::Refused { refusal, .. } => bail!("refused: {refusal}"),
            Outcome::Passed { .. } => bail!("an envelope came twice"),
            Outcome::Missing(_) => bail!("a row in memory is missing"),
            Outcome::Damaged(damage) => bail!(damage),
        };
        if unit.drafts.iter().any(|draft| draft.eval_ts.is_some()) {
            self.time = self.time.max(self.now);
        }
        unit.remembered
            .iter()
            .for_each(|record| self.windows.remember(record));
        let stored = stored(unit, &mut self.chain);
        self.rows.apply(stored.rows);
        self.lines.extend(stored.lines);
        Ok(())
    }
}

/// The first value of that name in the payloads of some envelopes.
fn named(envelopes: &[Value], name: &str) -> Option<String> {
    envelopes
        .iter()
        .find_map(|one| one["action"]["payload"][name].as_str())
        .map(str::to_owned)
}

struct Deal<'d> {
    session: &'d str,
    seller: &'d str,
    item: &'d str,
    number: usize,
}

impl Deal<'_> {
    fn envelope(&self, name: &str, from: &str, to: &str, kind: &str, payload: Value) -> Value {
        json!({
            "protocol": "vcp", "version": "1.0", "msg_id": format!("{}-{name}", self.session),
            "ts": "2026-05-15T12:00:00Z", "from": from, "to": to, "session_id": self.session, "in_reply_to": null,
            "idempotency_key": format!("k-{}-{name}", self.session), "signature": null,
            "action": {"kind": kind, "payload": payload},
        })
    }

    fn mandate(&self) -> Value {
        let kind = "delegate.create_purchase_mandate";
        let buyer_number = self.number % BUYERS;
        self.envelope("mandate", "consumer:persona", "buyer:intent", kind, json!({
            "mandate_id": format!("man_{}", self.session), "consumer_id": buyer(buyer_number),
            "ap2_intent_mandate": {"goal": "a quiet keyboard", "merchants": null, "skus": null,
                "requires_refundability": true, "intent_expiry": "2026-06-01T00:00:00Z"},
            "ap2_cart_mandate": null,
            "authority": {"can_buy_without_confirmation": true, "max_spend_without_confirmation": 20_000,
                "can_negotiate": true, "can_accept_substitutes": false,
                "can_share_with_merchant": [], "must_not_share_with_merchant": []},
            "hard_constraints": {"budget": 47_113, "must_have": []},
            "payment_instrument": {"type": "account", "account_id": format!("acc_b{buyer_number}")},
        }))
    }

    fn search(&self) -> Value {
        let query = json!({"query": format!("quiet {}", THINGS[self.number % THINGS.len()])});
        self.envelope(
            "search",
            "buyer:discovery",
            "platform:aggregator",
            "commerce.search",
            query,
        )
    }

    fn inquiry(&self) -> Value {
        let payload =
            json!({"merchant_id": self.seller, "sku_id": self.item, "inquiry": "is it quiet?"});
        self.envelope(
            "inquiry",
            "buyer:negotiation",
            "merchant:pricing",
            "commerce.request_offer",
            payload,
        )
    }

    fn offer(&self) -> Value {
        self.envelope("offer", "merchant:pricing", "buyer:negotiation", "commerce.propose_offer", json!({
            "offer_id": format!("off_{}", self.session), "merchant_id": self.seller, "sku_id": self.item, "qty": 1,
            "unit_price": 11_900, "fulfillment": {"method": "courier", "eta_days": 2}, "claims": [],
            "expires_at": "2026-05-20T00:00:00Z",
        }))
    }

    fn acceptance(&self) -> Value {
        let payload = json!({"offer_id": format!("off_{}", self.session)});
        let kind = "commerce.accept_offer";
        let mut accept = self.envelope(
            "accept",
            "buyer:negotiation",
            "platform:aggregator",
            kind,
            payload,
        );
        accept["in_reply_to"] = json!(format!("{}-offer", self.session));
        accept
    }

    fn settlement(&self, cert: &str) -> Value {
        let kind = "platform.settle_payment";
        self.envelope(
            "settle",
            "buyer:authorization",
            "platform:psp",
            kind,
            json!({"cert_id": cert}),
        )
    }

    fn dispatch(&self, order: &str) -> Value {
        let payload = json!({"order_id": order});
        self.envelope(
            "dispatch",
            "merchant:fulfillment",
            "buyer:authorization",
            "commerce.dispatch",
            payload,
        )
    }
}
