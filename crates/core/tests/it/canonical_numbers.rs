//! Numbers in each dialect.

use chancery_core::canonical::{Dialect, to_bytes, write_f64};
use chancery_core::json::{Number, Value};

use crate::canonical_support::permissive;

fn of_double(value: f64, dialect: Dialect) -> String {
    let mut out = Vec::new();
    write_f64(value, dialect, &mut out);
    String::from_utf8(out).unwrap()
}

fn of_token(token: &str, dialect: Dialect) -> String {
    String::from_utf8(to_bytes(&permissive(token.as_bytes()), dialect)).unwrap()
}

#[test]
fn the_table_of_rfc_8785() {
    // VX-CAN-3: appendix B
    let table: &[(u64, &str)] = &[
        (0x0000_0000_0000_0000, "0"),
        (0x8000_0000_0000_0000, "0"),
        (0x0000_0000_0000_0001, "5e-324"),
        (0x8000_0000_0000_0001, "-5e-324"),
        (0x7fef_ffff_ffff_ffff, "1.7976931348623157e+308"),
        (0xffef_ffff_ffff_ffff, "-1.7976931348623157e+308"),
        (0x4340_0000_0000_0000, "9007199254740992"),
        (0xc340_0000_0000_0000, "-9007199254740992"),
        (0x4430_0000_0000_0000, "295147905179352830000"),
        (0x44b5_2d02_c7e1_4af5, "9.999999999999997e+22"),
        (0x44b5_2d02_c7e1_4af6, "1e+23"),
        (0x44b5_2d02_c7e1_4af7, "1.0000000000000001e+23"),
        (0x444b_1ae4_d6e2_ef4e, "999999999999999700000"),
        (0x444b_1ae4_d6e2_ef4f, "999999999999999900000"),
        (0x444b_1ae4_d6e2_ef50, "1e+21"),
        (0x3eb0_c6f7_a0b5_ed8c, "9.999999999999997e-7"),
        (0x3eb0_c6f7_a0b5_ed8d, "0.000001"),
        (0x41b3_de43_5555_5553, "333333333.3333332"),
        (0x41b3_de43_5555_5554, "333333333.33333325"),
        (0x41b3_de43_5555_5555, "333333333.3333333"),
        (0x41b3_de43_5555_5556, "333333333.3333334"),
        (0x41b3_de43_5555_5557, "333333333.33333343"),
        (0xbecb_f647_612f_3696, "-0.0000033333333333333333"),
        (0x4314_3ff3_c1cb_0959, "1424953923781206.2"),
    ];
    for (bits, expected) in table {
        let value = f64::from_bits(*bits);
        assert_eq!(of_double(value, Dialect::Rfc8785), *expected);
        assert_eq!(of_double(value, Dialect::Vibe), *expected);
    }
    for bits in [0x7fff_ffff_ffff_ffff, 0x7ff0_0000_0000_0000] {
        assert_eq!(Number::from_f64(f64::from_bits(bits)), None);
    }
}

/// A token, and what RFC 8785, Python and vibe make of it: VX-CAN-3, VX-CAN-5, VX-CAN-7; VA-CJ-4, VA-CJ-5; VC-CAN-4.
const TOKENS: &[(&str, &str, &str, &str)] = &[
    ("0", "0", "0", "0"),
    ("-0", "0", "0", "0"),
    ("-0.0", "0", "-0.0", "0"),
    ("0.0", "0", "0.0", "0"),
    ("-0e5", "0", "-0.0", "0"),
    ("7", "7", "7", "7"),
    ("-7", "-7", "-7", "-7"),
    ("7.0", "7", "7.0", "7"),
    ("1.50", "1.5", "1.5", "1.5"),
    ("1e5", "100000", "100000.0", "100000"),
    ("123.456e1", "1234.56", "1234.56", "1234.56"),
    ("1e-7", "1e-7", "1e-07", "1e-7"),
    ("1.25e-7", "1.25e-7", "1.25e-07", "1.25e-7"),
    ("0.00001", "0.00001", "1e-05", "0.00001"),
    ("-0.000012", "-0.000012", "-1.2e-05", "-0.000012"),
    ("0.0001", "0.0001", "0.0001", "0.0001"),
    ("0.00012", "0.00012", "0.00012", "0.00012"),
    ("1e-10", "1e-10", "1e-10", "1e-10"),
    (
        "1e15",
        "1000000000000000",
        "1000000000000000.0",
        "1000000000000000",
    ),
    (
        "9999999999999998.0",
        "9999999999999998",
        "9999999999999998.0",
        "9999999999999998",
    ),
    ("1e16", "10000000000000000", "1e+16", "10000000000000000"),
    (
        "12345678901234567000.0",
        "12345678901234567000",
        "1.2345678901234567e+19",
        "12345678901234567000",
    ),
    (
        "1e20",
        "100000000000000000000",
        "1e+20",
        "100000000000000000000",
    ),
    ("1e21", "1e+21", "1e+21", "1e+21"),
    ("1e100", "1e+100", "1e+100", "1e+100"),
    ("5e-324", "5e-324", "5e-324", "5e-324"),
    ("1e-999", "0", "0.0", "0"),
    (
        "9007199254740991",
        "9007199254740991",
        "9007199254740991",
        "9007199254740991",
    ),
    (
        "9007199254740993",
        "9007199254740992",
        "9007199254740993",
        "9007199254740993",
    ),
    (
        "-1000000000000000000000",
        "-1e+21",
        "-1000000000000000000000",
        "-1000000000000000000000",
    ),
    // Beyond a double there is no canonical form: the token stays.
    ("1E400", "1E400", "1E400", "1E400"),
];

#[test]
fn one_token_in_three_dialects() {
    for &(token, rfc8785, python, vibe) in TOKENS {
        assert_eq!(of_token(token, Dialect::Rfc8785), rfc8785, "{token}");
        assert_eq!(of_token(token, Dialect::Python), python, "{token}");
        assert_eq!(of_token(token, Dialect::Vibe), vibe, "{token}");
    }
}

/// A fixed sequence of bit patterns that covers all exponents (SplitMix64).
struct Doubles(u64);

impl Iterator for Doubles {
    type Item = f64;

    fn next(&mut self) -> Option<f64> {
        loop {
            self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
            let mut z = self.0;
            z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
            z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
            z ^= z >> 31;
            // Every other one near 1, where the dialects lay out digits differently.
            let near_one = (z & !(0x7ff << 52)) | ((0x3ff - 64 + ((z >> 52) & 127)) << 52);
            let value = f64::from_bits(if z & 1 == 0 { z } else { near_one });
            if value.is_finite() {
                return Some(value);
            }
        }
    }
}

#[test]
fn a_million_doubles_as_the_oracle_writes_them() {
    // VX-CAN-3
    let mut ours = Vec::new();
    for value in Doubles(8785).take(1_000_000) {
        ours.clear();
        write_f64(value, Dialect::Rfc8785, &mut ours);
        let theirs = serde_json_canonicalizer::to_vec(&value).unwrap();
        assert_eq!(ours, theirs, "{:016x}", value.to_bits());
    }
}

#[test]
fn a_million_doubles_laid_out_as_python_does() {
    // VA-CJ-5
    let mut ours = Vec::new();
    for value in Doubles(20_260_215).take(1_000_000) {
        ours.clear();
        write_f64(value, Dialect::Python, &mut ours);
        assert_eq!(
            str::from_utf8(&ours).unwrap(),
            python_repr(value),
            "{:016x}",
            value.to_bits()
        );
    }
}

/// The rule of VA-CJ-5, slowly. The digits are serde_json's: those of the standard library's formatting are
/// another choice where two are equally near.
fn python_repr(value: f64) -> String {
    let shortest = serde_json::to_string(&value.abs()).unwrap();
    let (mantissa, exponent) = shortest.split_once('e').unwrap_or((&shortest, "0"));
    let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    let all = format!("{whole}{fraction}");
    let leading_zeros = all.len() - all.trim_start_matches('0').len();
    let digits = all.trim_matches('0');
    let exponent =
        exponent.parse::<i32>().unwrap() + (whole.len() as i32 - 1) - leading_zeros as i32;
    let sign = if value.is_sign_negative() { "-" } else { "" };
    if (-4..0).contains(&exponent) {
        return format!("{sign}0.{}{digits}", "0".repeat(-exponent as usize - 1));
    }
    if (0..16).contains(&exponent) {
        let padded = format!("{digits:0<17}");
        let (before, after) = padded.split_at(exponent as usize + 1);
        let after = after.trim_end_matches('0');
        let after = if after.is_empty() { "0" } else { after };
        return format!("{sign}{before}.{after}");
    }
    let (first, rest) = digits.split_at(1);
    let point = if rest.is_empty() { "" } else { "." };
    let exponent_sign = if exponent < 0 { '-' } else { '+' };
    format!(
        "{sign}{first}{point}{rest}e{exponent_sign}{:02}",
        exponent.abs()
    )
}

#[test]
fn a_double_that_is_not_finite_is_null() {
    for dialect in [Dialect::Rfc8785, Dialect::Python, Dialect::Vibe] {
        assert_eq!(of_double(f64::NAN, dialect), "null");
        assert_eq!(of_double(f64::NEG_INFINITY, dialect), "null");
    }
}

#[test]
fn numbers_of_rules_are_written_as_they_are() {
    let built = Value::Array(vec![
        i64::MIN.into(),
        u64::MAX.into(),
        Number::from_f64(0.5).unwrap().into(),
    ]);
    let expected = b"[-9223372036854775808,18446744073709551615,0.5]";
    assert_eq!(to_bytes(&built, Dialect::Vibe), expected);
    assert_eq!(to_bytes(&built, Dialect::Python), expected);
}
