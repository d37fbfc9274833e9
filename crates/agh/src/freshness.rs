//! Freshness: step 3 (chapter 4).

use chancery_core::fault;

use crate::fault::{ErrorName, Fault, Stage};

/// Whether an envelope made at `ts`, ending at `expires_at`, is fresh at `now` (whole Unix seconds).
pub fn check(
    ts: u64,
    expires_at: Option<u64>,
    now: i64,
    max_replay_age_s: u64,
) -> Result<(), Fault> {
    let age = i128::from(now) - i128::from(ts);
    let bound = i128::from(max_replay_age_s);
    let stale = |error, member| Err(Fault::new(error, Stage::Freshness).at(member));
    if -age > bound {
        return stale(ErrorName::FromFuture, "ts");
    }
    match expires_at {
        Some(end) if i128::from(end) <= i128::from(now) && !fault::on("ag-expired-accepted") => {
            stale(ErrorName::Expired, "expires_at")
        }
        Some(_) => Ok(()),
        None if age > bound && !fault::on("ag-too-old-accepted") => stale(ErrorName::TooOld, "ts"),
        None => Ok(()),
    }
}
