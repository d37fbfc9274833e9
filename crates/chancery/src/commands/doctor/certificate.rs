//! The certificate of the listener: when it ends.

use std::fs;
use std::path::Path;
use std::time::Duration;

use chancery_core::time::{Time, format_millis, parse_value_context};
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject as _;

use super::{Round, clock};
use crate::config::Config;
use crate::exit::Failure;

const CHECK: &str = "certificate";

/// Looks at the first certificate of the chain.
pub(super) fn look(
    config: &Config,
    expiry_days: u32,
    unusable: Option<Failure>,
    round: &mut Round,
) {
    let Some(tls) = &config.tls else {
        return round.leave_out(&[CHECK], "tls.certificate is not set");
    };
    let path = tls.certificate.display();
    let Some(ends) = ends(&tls.certificate) else {
        let next = "put the chain into tls.certificate as PEM, the server's own first";
        return round.find(CHECK, path, "no certificate can be read from it", next);
    };
    if let Some(failure) = unusable {
        return round.find_failure(CHECK, path, failure);
    }
    let now = clock(config).now();
    let soon = now.saturating_add(Duration::from_secs(u64::from(expiry_days) * 86_400));
    let when = format_millis(ends);
    let next = "put a new chain and key in place: a running node takes them by itself";
    if ends < now {
        round.find(CHECK, path, format!("it ended at {when}"), next);
    } else if ends < soon {
        round.find(CHECK, path, format!("it ends at {when}"), next);
    }
    round.done(CHECK, format!("ends at {when}"));
}

fn ends(path: &Path) -> Option<Time> {
    let pem = fs::read(path).ok()?;
    let certificate = CertificateDer::from_pem_slice(&pem).ok()?;
    not_after(&certificate)
}

/// `notAfter` of a certificate (RFC 5280, section 4.1): the second time of the validity, which is the fourth element
/// after the optional version.
fn not_after(certificate: &[u8]) -> Option<Time> {
    let (_, body, _) = element(certificate)?;
    let (_, mut to_be_signed, _) = element(body)?;
    if let (VERSION, _, rest) = element(to_be_signed)? {
        to_be_signed = rest;
    }
    for _serial_algorithm_issuer in 0..3 {
        to_be_signed = element(to_be_signed)?.2;
    }
    let (_, validity, _) = element(to_be_signed)?;
    let (_, _, after_first) = element(validity)?;
    let (tag, text, _) = element(after_first)?;
    time(tag, std::str::from_utf8(text).ok()?)
}

const VERSION: u8 = 0xa0;
const UTC_TIME: u8 = 0x17;
const GENERALIZED_TIME: u8 = 0x18;

/// Tag, content and what follows of a DER element.
fn element(bytes: &[u8]) -> Option<(u8, &[u8], &[u8])> {
    let (&tag, rest) = bytes.split_first()?;
    let (&first, rest) = rest.split_first()?;
    let (length, rest) = match first {
        0..=0x7f => (usize::from(first), rest),
        0x81..=0x84 => {
            let (digits, rest) = rest.split_at_checked(usize::from(first & 0x7f))?;
            let length = digits.iter().fold(0, |sum, &d| sum << 8 | usize::from(d));
            (length, rest)
        }
        _ => return None,
    };
    let (content, rest) = rest.split_at_checked(length)?;
    Some((tag, content, rest))
}

/// `YYMMDDhhmmssZ` of this century or the last, or `YYYYMMDDhhmmssZ`.
fn time(tag: u8, text: &str) -> Option<Time> {
    let text = match tag {
        UTC_TIME if text.get(..2)?.parse::<u8>().ok()? < 50 => format!("20{text}"),
        UTC_TIME => format!("19{text}"),
        GENERALIZED_TIME => text.to_owned(),
        _ => return None,
    };
    let part = |from: usize, to: usize| text.get(from..to);
    let (year, month, day) = (part(0, 4)?, part(4, 6)?, part(6, 8)?);
    let (hour, minute, second) = (part(8, 10)?, part(10, 12)?, part(12, 14)?);
    parse_value_context(&format!("{year}-{month}-{day}T{hour}:{minute}:{second}Z")).ok()
}
