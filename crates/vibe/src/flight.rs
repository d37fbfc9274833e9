//! Requests under way (VC-IDEM-6): soft state that a door keeps and asks between step 9 and step 10.
//!
//! It may only refuse. It is lost at a stop, and replay runs without it.

use chancery_core::digest::Sha256Digest;
use chancery_core::protocol::{Authentic, Proof};
use chancery_core::refusal::Refusal;
use hashbrown::HashMap;

use crate::action::Action;
use crate::code::Code;
use crate::message::Message;

/// Whose key: principal, sender, key (VC-IDEM-2).
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct FlightKey(Option<String>, String, String);

/// The requests that wait for their answer.
#[derive(Clone, Debug, Default)]
pub struct Flights(HashMap<FlightKey, Sha256Digest>);

impl Flights {
    /// Notes a mutation that goes to be decided; give the key back to [`Flights::land`] once it is answered. None for
    /// what is never de-duplicated, and for another request under a key that is under way: in its turn the rules know
    /// which of the two has the key. Here it could be refused for one that never gets it.
    ///
    /// # Errors
    /// The same request is under way: 409 with `Retry-After`.
    pub fn take_off(
        &mut self,
        authentic: &Authentic<Message>,
    ) -> Result<Option<FlightKey>, Refusal> {
        let message = &authentic.message;
        let (true, Some(own)) = (
            message.action.is_some_and(Action::is_mutation),
            &message.idempotency_key,
        ) else {
            return Ok(None);
        };
        let principal = match &authentic.proof {
            Proof::Principal(principal) => Some(principal.clone()),
            _ => None,
        };
        let key = FlightKey(principal, message.from_text.clone(), own.clone());
        match self.0.get(&key) {
            Some(known) if *known == message.fingerprint() => {
                let mut refusal = message.refuse(Code::IdempotencyInFlight, "idempotency");
                refusal.retryable = true;
                refusal.retry_after_s = Some(1);
                Err(refusal)
            }
            Some(_) => Ok(None),
            None => {
                self.0.insert(key.clone(), message.fingerprint());
                Ok(Some(key))
            }
        }
    }

    /// Forgets a request that was answered.
    pub fn land(&mut self, key: &FlightKey) {
        self.0.remove(key);
    }

    /// How many are under way: no more than the node lets in at once.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether none is under way.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}
