//! The HTTP binding of vibe (section 18): envelopes in, and what callers may read.
//!
//! A token is a principal: it says who speaks, and what it may see. With `dev` on loopback a caller without one
//! speaks as anybody and sees everything (VC-HTTP-5).

pub(super) mod answers;
pub(super) mod inbox;
pub(super) mod reads;
pub(super) mod receive;

use chancery_core::admin::TokenRecord;

use super::access::Access;

/// The token that a caller showed; none where none is asked for.
fn token_of(access: &Access) -> Option<&TokenRecord> {
    match access {
        Access::Free => None,
        Access::Token(token) => Some(token),
    }
}
