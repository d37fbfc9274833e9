//! A carrier that does to each recipient what a script says, and keeps what it was asked.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use chancery_core::delivery::{Delivery, Whisper};
use chancery_node::{Attempt, Carried, Carrier, Leave};
use tokio::sync::{Semaphore, watch};
use tokio::time::Instant;

/// What becomes of one attempt.
#[derive(Clone)]
pub enum Step {
    Deliver,
    Refuse,
    Fail,
    /// Fails and asks for a longer pause.
    FailFor(Duration),
    /// Never ends by itself.
    Hang,
    /// Fails once the semaphore has a permit.
    FailWhenAllowed(Arc<Semaphore>),
}

/// An attempt that was made.
#[derive(Clone, Debug)]
pub struct Made {
    pub to: String,
    pub envelope: Bytes,
    pub at: Instant,
}

/// The carrier. Without a script, or at its end, everything is delivered.
#[derive(Default)]
pub struct Scripted {
    scripts: Mutex<HashMap<String, Vec<Step>>>,
    places: Mutex<HashMap<String, String>>,
    made: watch::Sender<Vec<Made>>,
    whispers: watch::Sender<Vec<Whisper>>,
}

impl Scripted {
    /// What is done to the next attempts to reach `to`.
    pub fn script(&self, to: &str, steps: impl IntoIterator<Item = Step>) {
        let mut steps: Vec<Step> = steps.into_iter().collect();
        steps.reverse();
        self.scripts.lock().unwrap().insert(to.to_owned(), steps);
    }

    /// Where `to` is reached.
    pub fn is_at(&self, to: &str, place: &str) {
        let mut places = self.places.lock().unwrap();
        places.insert(to.to_owned(), place.to_owned());
    }

    /// All attempts so far.
    pub fn made(&self) -> Vec<Made> {
        self.made.borrow().clone()
    }

    /// Returns once so many attempts were made.
    pub async fn made_at_least(&self, attempts: usize) -> Vec<Made> {
        let mut made = self.made.subscribe();
        made.wait_for(|made| made.len() >= attempts)
            .await
            .unwrap()
            .clone()
    }

    /// Returns once so many whispers were sent.
    pub async fn whispered(&self, whispers: usize) -> Vec<Whisper> {
        let mut sent = self.whispers.subscribe();
        sent.wait_for(|sent| sent.len() >= whispers)
            .await
            .unwrap()
            .clone()
    }
}

impl Carrier for Scripted {
    fn carry(&self, delivery: Delivery, envelope: Bytes, _: Leave) -> Attempt {
        let step = self
            .scripts
            .lock()
            .unwrap()
            .get_mut(&delivery.to)
            .and_then(Vec::pop)
            .unwrap_or(Step::Deliver);
        let made = Made {
            to: delivery.to,
            envelope,
            at: Instant::now(),
        };
        self.made.send_modify(|all| all.push(made));
        Box::pin(async move {
            match step {
                Step::Deliver => Carried::Delivered,
                Step::Refuse => Carried::Refused,
                Step::Fail => Carried::Failed { at_least: None },
                Step::FailFor(pause) => Carried::Failed {
                    at_least: Some(pause),
                },
                Step::Hang => std::future::pending().await,
                Step::FailWhenAllowed(leave) => {
                    leave.acquire().await.unwrap().forget();
                    Carried::Failed { at_least: None }
                }
            }
        })
    }

    fn place(&self, delivery: &Delivery) -> Option<String> {
        self.places.lock().unwrap().get(&delivery.to).cloned()
    }

    fn whisper(&self, whisper: Whisper) {
        self.whispers.send_modify(|all| all.push(whisper));
    }
}
