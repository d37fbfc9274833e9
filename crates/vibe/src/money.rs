//! The money rule (section 8): integer minor units, judged by the literal.

use chancery_core::fault;
use chancery_core::json::{Number, Object, Place, Value};

use crate::code::{Code, Fault};

/// The largest amount: what every reader keeps exact.
pub const MAX: u64 = (1 << 53) - 1;

/// How many decimal places a currency's minor unit has (VC-MON-5).
pub fn exponent(currency: &str) -> u32 {
    match currency {
        "JPY" | "KRW" | "VND" | "CLP" => 0,
        "KWD" | "BHD" | "OMR" | "TND" | "JOD" => 3,
        _ => 2,
    }
}

/// Whether a text is a currency code: three capital letters (VC-CLR-20).
pub fn is_currency(text: &str) -> bool {
    text.len() == 3 && text.bytes().all(|byte| byte.is_ascii_uppercase())
}

/// `qty × unit_price + fee`, none above [`MAX`] (VC-OBJ-GroundedOffer-1).
pub fn total(qty: u64, unit_price: u64, fee: u64) -> Option<u64> {
    let total = qty.checked_mul(unit_price)?.checked_add(fee)?;
    (total <= MAX).then_some(total)
}

/// What a walk over a payload found.
#[derive(Debug, Default)]
pub struct Scan {
    /// The first fault of a money field, keys in code point order (VC-CLR-5).
    pub fault: Option<Fault>,
    /// Whether an integer that is no money is out of range: no JSON that may be read (VC-MON-4).
    pub out_of_range: bool,
}

/// Walks over a payload at `place`.
pub fn scan(payload: &Object<'_>, place: &Place<'_>) -> Scan {
    let mut scan = Scan::default();
    scan.object(payload, None, place);
    scan
}

/// Whether a value holds an integer out of range, where nothing is money.
pub fn out_of_range(value: &Value<'_>) -> bool {
    match value {
        Value::Number(number) => is_out_of_range(number),
        Value::Array(items) => items.iter().any(out_of_range),
        Value::Object(object) => object.iter().any(|(_, value)| out_of_range(value)),
        _ => false,
    }
}

fn is_out_of_range(number: &Number<'_>) -> bool {
    number.is_integer_token() && !number.is_safe_integer()
}

/// What a member's name says about its value.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Sort {
    Other,
    Money,
    Signed,
}

/// Whether a member of that name is money, wherever it stands (VC-MON-2).
fn is_money(name: &str) -> bool {
    const NAMES: [&str; 8] = [
        "budget",
        "amount",
        "total",
        "subtotal",
        "tax",
        "fee",
        "max_spend_without_confirmation",
        "max_budget",
    ];
    const ENDINGS: [&str; 5] = ["_price", "_amount", "_total", "_budget", "_fee"];
    NAMES.contains(&name) || ENDINGS.iter().any(|end| name.ends_with(end))
}

/// The sort of the member `name` of an object that is itself held by `parent` (VC-MON-2).
fn sort_of(name: &str, parent: Option<&str>) -> Sort {
    match (name, parent) {
        ("delta", Some("entries" | "ledger_deltas")) => Sort::Signed,
        // Where an object stands for an amount of money, this is the amount.
        ("value", Some(parent)) if is_money(parent) => Sort::Money,
        _ if is_money(name) => Sort::Money,
        _ => Sort::Other,
    }
}

impl Scan {
    fn object(&mut self, object: &Object<'_>, parent: Option<&str>, place: &Place<'_>) {
        let mut members: Vec<_> = object.iter().collect();
        if !members.is_sorted_by_key(|(name, _)| *name) {
            members.sort_unstable_by_key(|(name, _)| *name);
        }
        for (name, value) in members {
            self.value(value, name, sort_of(name, parent), &place.child(name));
        }
    }

    fn value(&mut self, value: &Value<'_>, name: &str, sort: Sort, place: &Place<'_>) {
        match value {
            Value::Object(object) => self.object(object, Some(name), place),
            Value::Array(items) => {
                for (index, item) in items.iter().enumerate() {
                    self.value(item, name, sort, &place.item(index));
                }
            }
            Value::Number(number) if sort == Sort::Other => {
                self.out_of_range |= is_out_of_range(number);
            }
            _ if sort == Sort::Other => {}
            scalar => {
                if self.fault.is_none() {
                    self.fault = amount_fault(scalar, sort).map(|code| Fault::at(code, place));
                }
            }
        }
    }
}

/// What is wrong with the literal of an amount (VC-MON-3, VC-MON-4).
fn amount_fault(value: &Value<'_>, sort: Sort) -> Option<Code> {
    let Some(number) = value.as_number().filter(|number| number.is_integer_token()) else {
        if fault::on("vc-money-as-float") {
            return None;
        }
        return Some(Code::MoneyNotInteger);
    };
    let negative = number.token().starts_with('-') && number.token() != "-0";
    let fits = number.is_safe_integer() && (sort == Sort::Signed || !negative);
    (!fits).then_some(Code::MoneyOverflow)
}
