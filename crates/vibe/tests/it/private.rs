//! The PRIVATE_UTILITY guard (section 6): a private value is refused in every form and place that the section names, and
//! nothing else is.

use chancery_vibe::conformance::Reply;
use chancery_vibe::settings::{Platform, Settings};
use proptest::prelude::*;
use proptest::sample::{Index, select};
use serde_json::{Value, json};

use crate::support::{
    CREATE_PURCHASE_MANDATE, Desk, PROPOSE_OFFER, SEARCH, SET_BUSINESS_GOAL, Way, mandate, offer,
    property, seed, world,
};

/// Currencies of the world, with their exponents (VC-MON-5).
const CURRENCIES: [(&str, u32); 3] = [("USD", 2), ("JPY", 0), ("KWD", 3)];
const SIGNS: [char; 5] = ['$', '€', '£', '¥', '₹'];
const MARKS: [&str; 7] = ["", ",", "_", "'", " ", "\u{a0}", "\u{202f}"];

/// Whose value it is.
#[derive(Clone, Copy, Debug)]
enum Of {
    /// The buyer's: `hard_constraints.budget`.
    Budget,
    /// The buyer's: an integer that `must_not_share_with_merchant` names.
    Named,
    /// The merchant's: `pricing.floor_price`.
    Floor,
}

/// A private value: digits that are 3 or 7, and then zeros.
#[derive(Clone, Copy, Debug)]
struct Secret {
    of: Of,
    value: u64,
    zeros: u32,
    currency: &'static str,
    exponent: u32,
}

impl Secret {
    /// The same amount in whole units, where it is whole.
    fn units(&self) -> Option<u64> {
        let unit = 10_u64.pow(self.exponent);
        (self.value.is_multiple_of(unit) && self.exponent > 0).then_some(self.value / unit)
    }
}

fn secrets() -> impl Strategy<Value = Secret> {
    let of = select(vec![Of::Budget, Of::Named, Of::Floor]);
    (of, "[37]{5,7}", 0_u32..5, select(&CURRENCIES[..])).prop_map(
        |(of, digits, zeros, (currency, exponent))| Secret {
            of,
            value: digits.parse::<u64>().unwrap() * 10_u64.pow(zeros),
            zeros,
            currency,
            exponent,
        },
    )
}

/// Digits in threes.
fn grouped(number: u64, mark: &str) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            text.push_str(mark);
        }
        text.push(digit);
    }
    text
}

/// An amount in units with a decimal point.
fn decimal(value: u64, exponent: u32, mark: &str) -> String {
    let unit = 10_u64.pow(exponent);
    let width = exponent as usize;
    format!("{}.{:0width$}", grouped(value / unit, mark), value % unit)
}

/// Every JSON number that gives a value away (VC-PRIV-6, first row).
fn numbers(secret: &Secret) -> Vec<String> {
    let (value, exponent) = (secret.value, secret.exponent);
    let mut all = vec![
        format!("{value}"),
        format!("{value}.0"),
        format!("{value}.000"),
        format!("{value}e0"),
        format!("{value}0E-1"),
    ];
    if secret.zeros > 0 {
        all.push(format!(
            "{}e{}",
            value / 10_u64.pow(secret.zeros),
            secret.zeros
        ));
        all.push(format!("{}.0E+1", value / 10));
    }
    if exponent > 0 {
        all.push(decimal(value, exponent, ""));
        all.push(format!("{}0", decimal(value, exponent, "")));
        all.push(format!("{value}e-{exponent}"));
    }
    if let Some(units) = secret.units() {
        all.push(format!("{units}.0"));
        all.push(format!("{units}e0"));
    }
    all
}

/// Every text that gives a value away (VC-PRIV-6, second row, and VC-PRIV-7).
fn texts(secret: &Secret) -> Vec<String> {
    let (value, exponent) = (secret.value, secret.exponent);
    let mut all = Vec::new();
    for mark in MARKS {
        all.push(grouped(value, mark));
        all.push(format!("{}.0", grouped(value, mark)));
        if exponent > 0 {
            all.push(decimal(value, exponent, mark));
        }
    }
    for (code, _) in CURRENCIES {
        all.push(format!("{code}{value}"));
        all.push(format!("{value}{code}"));
    }
    if let Some(units) = secret.units() {
        let units = units.to_string();
        let marks = SIGNS.map(String::from).into_iter();
        for mark in marks.chain(CURRENCIES.map(|(code, _)| code.to_owned())) {
            all.extend([
                format!("{mark}{units}"),
                format!("{mark} {units}"),
                format!("{units}{mark}"),
                format!("{units} {mark}"),
            ]);
        }
    }
    all
}

/// What comes near, and is not it: numbers.
fn numbers_beside(secret: &Secret) -> Vec<String> {
    let value = secret.value;
    let mut all = vec![
        format!("-{value}"),
        format!("{value}1"),
        format!("{value}.5"),
        format!("{}", value + 1),
        format!("{}", value - 1),
        format!("{value}e1"),
    ];
    // A plain integer stands for minor units and nothing else.
    all.extend(secret.units().map(|units| units.to_string()));
    all
}

/// What comes near, and is not it: texts.
fn texts_beside(secret: &Secret) -> Vec<String> {
    let value = secret.value;
    let mut all = vec![
        format!("{value}1"),
        format!("{value}.5"),
        // Letters touch it, and they are no currency of this world.
        format!("a{value}"),
        format!("{value}kg"),
        format!("XYZ{value}"),
        format!("{value}XYZ"),
        format!("{value}usd"),
        // Wholly a timestamp or a UUID (VC-PRIV-8).
        "2026-05-15T12:00:00Z".replace("00Z", &format!("00.{:09}Z", value % 1_000_000_000)),
        format!("00000000-0000-4000-8000-{value:012}"),
        "some hundreds".to_owned(),
    ];
    if let Some(units) = secret.units() {
        // No currency stands next to it.
        all.extend([
            format!("{units}"),
            format!("{units} XYZ"),
            format!("$ ({units})"),
        ]);
    }
    all
}

/// The same with other digits: 3 and 7 become 1 and 9, which no private value has.
fn unrelated(forms: Vec<String>) -> Vec<String> {
    let other = |form: String| form.replace('3', "1").replace('7', "9");
    forms.into_iter().map(other).collect()
}

/// Where something stands.
#[derive(Clone, Copy, Debug)]
enum Place {
    Payload,
    Action,
    Top,
}

/// How it is wrapped: what stands before and after a text, digits of full width, arrays and objects around it, as a key.
#[derive(Clone, Debug)]
struct Wrap {
    place: Place,
    before: &'static str,
    after: &'static str,
    is_wide: bool,
    around: Vec<bool>,
    as_key: bool,
}

fn wraps() -> impl Strategy<Value = Wrap> {
    (
        select(vec![Place::Payload, Place::Action, Place::Top]),
        select(vec![
            "", "at most ", "(", "— ", "é: ", "no. ", "[\"", "50 or ",
        ]),
        select(vec!["", ".", " or so", ")", "!", ", then", " –", "é"]),
        any::<bool>(),
        prop::collection::vec(any::<bool>(), 0..4),
        any::<bool>(),
    )
        .prop_map(|(place, before, after, is_wide, around, as_key)| Wrap {
            place,
            before,
            after,
            is_wide,
            around,
            as_key,
        })
}

impl Wrap {
    fn text(&self, text: &str) -> String {
        let wide = |c: char| match c.to_digit(10) {
            Some(digit) => char::from_u32(0xff10 + digit).unwrap(),
            None => c,
        };
        let text = match self.is_wide {
            true => text.chars().map(wide).collect(),
            false => text.to_owned(),
        };
        [self.before, &text, self.after].concat()
    }

    /// Puts JSON text around a leaf.
    fn nest(&self, leaf: String) -> String {
        let wrap = |inner: String, is_array: &bool| match is_array {
            true => format!("[null,{inner}]"),
            false => format!("{{\"x\":{inner}}}"),
        };
        self.around.iter().fold(leaf, wrap)
    }
}

/// A node where one side has a secret and a session to speak in.
struct Table {
    desk: Desk,
    secret: Secret,
    sent: u64,
}

fn table(secret: Secret) -> Table {
    let mut world = world();
    for (code, _) in CURRENCIES {
        let account = json!({"account_id": format!("a_{code}"), "owner": "c1", "currency": code, "balance": 0});
        world["ledger"].as_array_mut().unwrap().push(account);
    }
    let settings = Settings {
        platform: Platform::Manual,
        ..Settings::default()
    };
    let mut desk = Desk::of(&seed(&world), settings);
    let mut wish = mandate("man", "c1", "a_c1", 0);
    match secret.of {
        Of::Budget => {
            wish["hard_constraints"]["budget"] = json!(secret.value);
            wish["hard_constraints"]["currency"] = json!(secret.currency);
        }
        Of::Named => {
            wish["hard_constraints"]["currency"] = json!(secret.currency);
            wish["soft_preferences"] = json!({"walk_away": secret.value});
            wish["authority"]["must_not_share_with_merchant"] = json!(["walk_away"]);
        }
        Of::Floor => {
            let goal = json!({"offer_mandate_id": "om", "merchant_id": "m1", "goal": "sell", "skus": ["s1"],
                "pricing": {"list_price": secret.value + 1, "floor_price": secret.value, "floor_currency": secret.currency},
                "permitted_claims": [], "fulfillment": {"methods": ["courier"]}});
            desk.yes(SET_BUSINESS_GOAL, "g", None, goal);
        }
    }
    desk.yes(CREATE_PURCHASE_MANDATE, "s", None, wish);
    Table {
        desk,
        secret,
        sent: 0,
    }
}

impl Table {
    /// Says something with a leaf of JSON text somewhere in it; `speaker` has the secret, or the other side has.
    fn say(&mut self, wrap: &Wrap, leaf: &str, by_owner: bool) -> Reply {
        self.sent += 1;
        let by_merchant = matches!(self.secret.of, Of::Floor) == by_owner;
        let Way(from, to, kind) = if by_merchant { PROPOSE_OFFER } else { SEARCH };
        let mut payload = json!({"query": "keyboard"});
        if by_merchant {
            payload = offer(
                &format!("off-{}", self.sent),
                "m1",
                self.secret.value * 2 + 1,
                1,
            );
        }
        let id = format!("say-{}", self.sent);
        let mut envelope = json!({
            "protocol": "vcp", "version": "1.0", "msg_id": id, "ts": "2026-05-15T12:30:00Z", "from": from, "to": to,
            "session_id": "s", "in_reply_to": null, "idempotency_key": id, "action": {"kind": kind, "payload": payload}
        });
        let target = match wrap.place {
            Place::Payload => &mut envelope["action"]["payload"],
            Place::Action => &mut envelope["action"],
            Place::Top => &mut envelope,
        };
        target["x_more"] = json!("@");
        let text = envelope
            .to_string()
            .replace("\"@\"", &wrap.nest(leaf.to_owned()));
        self.desk.post_text(text)
    }

    fn say_text(&mut self, wrap: &Wrap, text: &str, by_owner: bool) -> Reply {
        let text = json!(wrap.text(text)).to_string();
        let leaf = match wrap.as_key {
            true => format!("{{{text}:null}}"),
            false => text,
        };
        self.say(wrap, &leaf, by_owner)
    }
}

fn code(reply: &Reply) -> Value {
    let body: Value = serde_json::from_slice(&reply.body).unwrap();
    json!([reply.status, body["code"]])
}

fn pick<'f>(forms: &'f [String], at: &Index) -> &'f str {
    &forms[at.index(forms.len())]
}

proptest! {
    #![proptest_config(property(192))]

    // VC-PRIV-1, VC-PRIV-3, VC-PRIV-5, VC-PRIV-6, VC-PRIV-7, VC-PRIV-10
    #[test]
    fn a_private_value_is_refused_wherever_its_owner_says_it(
        secret in secrets(), wraps in prop::collection::vec(wraps(), 4), at in any::<[Index; 8]>(),
    ) {
        let mut table = table(secret);
        let refused = json!([403, "private_utility_leak"]);
        for (index, wrap) in wraps.iter().enumerate() {
            let (numbers, texts) = (numbers(&secret), texts(&secret));
            let (number, text) = (pick(&numbers, &at[index]), pick(&texts, &at[index + 4]));
            for reply in [table.say(wrap, number, true), table.say_text(wrap, text, true)] {
                prop_assert_eq!(code(&reply), refused.clone(), "{} {}", number, text);
                prop_assert_eq!(reply.lines_added, 0);
                // The refusal says where, and not what.
                let body = String::from_utf8(reply.body.to_vec()).unwrap();
                prop_assert!(!body.contains(&secret.value.to_string()), "{}", body);
                let place = match wrap.place {
                    Place::Payload => "$.action.payload.x_more",
                    Place::Action => "$.action.x_more",
                    Place::Top => "$.x_more",
                };
                prop_assert!(body.contains(&format!("\"param\":\"{place}")), "{}", body);
            }
            // The other side knows nothing of it, and may say it (VC-PRIV-5).
            let other = table.say_text(wrap, text, false);
            prop_assert_eq!(code(&other)[0].clone(), json!(200), "{}", text);
        }
    }

    // VC-PRIV-6, VC-PRIV-7, VC-PRIV-8
    #[test]
    fn what_is_not_the_private_value_passes(
        secret in secrets(), wraps in prop::collection::vec(wraps(), 4), at in any::<[Index; 8]>(),
    ) {
        let mut table = table(secret);
        for (index, wrap) in wraps.iter().enumerate() {
            let numbers = [numbers_beside(&secret), unrelated(numbers(&secret))].concat();
            let number = pick(&numbers, &at[index]);
            let reply = table.say(wrap, number, true);
            prop_assert_eq!(code(&reply)[0].clone(), json!(200), "{}: {:?}", number, code(&reply));
            let texts = [texts_beside(&secret), unrelated(texts(&secret))].concat();
            let text = pick(&texts, &at[index + 4]);
            // What is exempt is exempt as a whole text, and a mark stands next to nothing.
            let bare = Wrap { before: "", after: "", is_wide: false, ..wrap.clone() };
            let reply = table.say_text(&bare, text, true);
            prop_assert_eq!(code(&reply)[0].clone(), json!(200), "{}: {:?}", text, code(&reply));
        }
    }
}

#[test]
fn what_a_mandate_hides_is_hidden_wherever_it_stands() {
    // VC-PRIV-3: every integer in the mandate whose key is listed
    let mut mandate = mandate("man", "c1", "a_c1", 0);
    mandate["authority"]["must_not_share_with_merchant"] = json!(["secret", "tiers"]);
    mandate["taste"] = json!({
        "x": [[{"secret": 77_777}]], "y": {"secret": 66_666}, "tiers": [55_555, [44_444]], "open": [33_333]
    });
    let mut desk = Desk::new(Settings::default());
    desk.yes(CREATE_PURCHASE_MANDATE, "x", None, mandate);
    for hidden in [77_777, 66_666, 55_555, 44_444] {
        let search = json!({"query": "q", "x": hidden});
        assert_eq!(
            desk.no(SEARCH, "x", None, search),
            "private_utility_leak",
            "{hidden}"
        );
    }
    desk.yes(SEARCH, "x", None, json!({"query": "q", "x": 33_333}));
}
