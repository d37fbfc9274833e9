//! HTTP message signatures (RFC 9421) with Ed25519: what a service checks before it believes who asks.

use std::fmt::Write as _;

use chancery_core::digest::Sha256Digest;
use chancery_core::keys::base64;
use chancery_core::keys::ed25519::SigningKey;

/// The components that a request of ours covers, in this order.
const COVERED: &str = "(\"@method\" \"@target-uri\" \"content-digest\" \"content-type\")";

/// The headers that sign a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Headers {
    /// `Content-Digest` (RFC 9530).
    pub content_digest: String,
    /// `Signature-Input`.
    pub signature_input: String,
    /// `Signature`.
    pub signature: String,
}

/// The signature base: one line a component, the parameters last, without a newline at its end (RFC 9421, 2.5).
pub fn signature_base(components: &[(&str, &str)], params: &str) -> String {
    let mut base = String::new();
    for (name, value) in components {
        let _ = writeln!(base, "\"{name}\": {value}");
    }
    base.push_str("\"@signature-params\": ");
    base.push_str(params);
    base
}

/// Signs a POST of JSON at an instant (seconds since 1970).
pub fn sign(key: &SigningKey, target_uri: &str, body: &[u8], created: i64) -> Headers {
    let content_digest = format!("sha-256=:{}:", base64::encode(&Sha256Digest::of(body).0));
    let keyid = base64::encode_url(key.verifying_key().as_bytes());
    let params = format!("{COVERED};created={created};keyid=\"{keyid}\";alg=\"ed25519\"");
    let components = [
        ("@method", "POST"),
        ("@target-uri", target_uri),
        ("content-digest", &content_digest),
        ("content-type", "application/json"),
    ];
    let base = signature_base(&components, &params);
    let signature = base64::encode(&key.sign(base.as_bytes()));
    Headers {
        signature_input: format!("sig1={params}"),
        signature: format!("sig1=:{signature}:"),
        content_digest,
    }
}
