//! What the broker lets this connection publish. It says so only after it refused something, and not to whom it
//! belongs: the refusal comes over the same connection, before the proof of what was published after it.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use hashbrown::{HashMap, HashSet};
use tokio::time::Instant;

/// How long a refusal counts before the subject is tried again: permissions may change.
const REFUSED_FOR: Duration = Duration::from_secs(5);
/// How long the first publication on a subject waits for a refusal after its proof: the client library tells of the
/// two in different tasks.
pub(super) const GRACE: Duration = Duration::from_millis(100);
/// Subjects that are remembered; at this number they are learnt anew.
const SUBJECTS: usize = 16_384;

/// What is known of a connection's permissions.
#[derive(Default)]
pub(crate) struct Permissions(Mutex<Known>);

#[derive(Default)]
struct Known {
    refused: HashMap<String, Instant>,
    taken: HashSet<String>,
}

/// What is known of a subject.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Permission {
    Unknown,
    Given,
    Refused,
}

impl Permissions {
    /// Takes in what the broker says is wrong.
    pub(super) fn told(&self, error: &str) {
        if let Some(subject) = refused_subject(error) {
            let mut known = self.lock();
            known.taken.remove(subject);
            if known.refused.len() >= SUBJECTS {
                known.refused.clear();
            }
            known.refused.insert(subject.to_owned(), Instant::now());
        }
    }

    pub(super) fn of(&self, subject: &str) -> Permission {
        let mut known = self.lock();
        if let Some(since) = known.refused.get(subject) {
            if since.elapsed() < REFUSED_FOR {
                return Permission::Refused;
            }
            known.refused.remove(subject);
        }
        match known.taken.contains(subject) {
            true => Permission::Given,
            false => Permission::Unknown,
        }
    }

    /// Something on this subject was taken.
    pub(super) fn took(&self, subject: &str) {
        let mut known = self.lock();
        if known.taken.len() >= SUBJECTS {
            known.taken.clear();
        }
        known.taken.insert(subject.to_owned());
    }

    fn lock(&self) -> MutexGuard<'_, Known> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The subject that a refusal names.
fn refused_subject(error: &str) -> Option<&str> {
    const WORDS: &str = "permissions violation for publish to \"";
    let start = error.get(..WORDS.len())?;
    if !start.eq_ignore_ascii_case(WORDS) {
        return None;
    }
    error[WORDS.len()..].split('"').next()
}

#[cfg(test)]
mod tests {
    use super::*;

    // AG-NAT-7
    #[test]
    fn a_refusal_counts_for_its_subject_until_something_is_taken_there() {
        let permissions = Permissions::default();
        assert_eq!(permissions.of("a.b"), Permission::Unknown);
        permissions.told("Permissions Violation for Publish to \"a.b\"");
        assert_eq!(permissions.of("a.b"), Permission::Refused);
        assert_eq!(permissions.of("a.c"), Permission::Unknown);
        permissions.took("a.c");
        assert_eq!(permissions.of("a.c"), Permission::Given);
        for other in ["", "Permissions Violation for Subscription to \"a.c\"", "é"] {
            permissions.told(other);
        }
        assert_eq!(permissions.of("a.c"), Permission::Given);
        permissions.told("permissions violation for publish to \"a.c\"");
        assert_eq!(permissions.of("a.c"), Permission::Refused);
    }
}
