//! Tasks: in memory, for an hour, at most so many (VA-A2A-10, CH-JRN-13).
//!
//! Each task keeps all that happened to it in order, so that everybody who follows it sees the same.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use chancery_core::time::{Time, format_millis};
use hashbrown::HashMap;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};
use tokio::task::AbortHandle;
use tokio::time::Instant;

use super::fault::{Fault, Kind};
use super::model::{Artifact, Event, Message, Status, Task, TaskState};
use super::operations::Cancel;
use super::pushes::PushConfig;

/// How much is kept, and for how long.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TaskLimits {
    /// Tasks at once.
    pub tasks: usize,
    /// How long a task is kept.
    pub life: Duration,
    /// Streams at once.
    pub streams: usize,
    /// What may happen to one task.
    pub events: usize,
    /// Who may be notified of one task.
    pub push_configs: usize,
}

impl Default for TaskLimits {
    fn default() -> Self {
        Self {
            tasks: 10_000,
            life: Duration::from_secs(60 * 60),
            streams: 1_024,
            events: 1_024,
            push_configs: 16,
        }
    }
}

/// The tasks of all agents behind one door.
pub struct Tasks {
    limits: TaskLimits,
    all: Mutex<All>,
    streams: Arc<Semaphore>,
    closing: watch::Sender<bool>,
}

#[derive(Default)]
struct All {
    by_id: HashMap<String, Arc<Entry>>,
    oldest_first: VecDeque<(Instant, String)>,
}

/// A place among the streams; it knows when the server stops.
pub(crate) struct StreamPlace {
    _place: OwnedSemaphorePermit,
    closing: watch::Receiver<bool>,
}

impl StreamPlace {
    /// Returns when the server stops.
    pub(crate) async fn closed(&mut self) {
        // Tasks that are gone are a server that is gone.
        let _ = self.closing.wait_for(|closing| *closing).await;
    }
}

/// One task.
pub(crate) struct Entry {
    /// The agent it belongs to.
    owner: String,
    kept: Mutex<Kept>,
    happened: watch::Sender<usize>,
}

/// What is known about a task.
pub(crate) struct Kept {
    pub(crate) task: Task,
    pub(crate) pushes: Vec<PushConfig>,
    events: Vec<Event>,
    cancel: Option<Cancel>,
    work: Option<AbortHandle>,
}

impl Tasks {
    /// None yet.
    #[must_use]
    pub fn new(limits: TaskLimits) -> Self {
        Self {
            limits,
            all: Mutex::default(),
            streams: Arc::new(Semaphore::new(limits.streams)),
            closing: watch::Sender::new(false),
        }
    }

    /// Ends all streams: the server stops.
    pub fn close(&self) {
        self.closing.send_replace(true);
    }

    pub(crate) fn limits(&self) -> &TaskLimits {
        &self.limits
    }

    /// A place among the streams.
    pub(crate) fn stream(&self) -> Result<StreamPlace, Fault> {
        let place = Arc::clone(&self.streams).try_acquire_owned();
        let full = |_| Fault::overloaded("too many streams are open; try again");
        Ok(StreamPlace {
            _place: place.map_err(full)?,
            closing: self.closing.subscribe(),
        })
    }

    /// Keeps a task.
    pub(crate) fn add(&self, owner: String, task: Task) -> Result<Arc<Entry>, Fault> {
        let mut all = lock(&self.all);
        all.forget_until(Instant::now(), self.limits.life);
        if all.by_id.len() >= self.limits.tasks {
            return Err(Fault::overloaded("too many tasks are kept; try again"));
        }
        let id = task.id.clone();
        let entry = Arc::new(Entry {
            owner,
            kept: Mutex::new(Kept {
                task,
                pushes: Vec::new(),
                events: Vec::new(),
                cancel: None,
                work: None,
            }),
            happened: watch::Sender::new(0),
        });
        all.by_id.insert(id.clone(), Arc::clone(&entry));
        all.oldest_first.push_back((Instant::now(), id));
        Ok(entry)
    }

    /// The task of that identifier below that agent.
    pub(crate) fn find(&self, owner: &str, id: &str) -> Result<Arc<Entry>, Fault> {
        let mut all = lock(&self.all);
        all.forget_until(Instant::now(), self.limits.life);
        let entry = all.by_id.get(id).filter(|entry| entry.owner == owner);
        entry
            .cloned()
            .ok_or_else(|| Fault::new(Kind::TaskNotFound, "there is no such task"))
    }

    /// All tasks of an agent.
    pub(crate) fn of(&self, owner: &str) -> Vec<Task> {
        let mut all = lock(&self.all);
        all.forget_until(Instant::now(), self.limits.life);
        let entries = all.by_id.values().filter(|entry| entry.owner == owner);
        entries.map(|entry| entry.snapshot().0).collect()
    }
}

impl All {
    fn forget_until(&mut self, now: Instant, life: Duration) {
        while let Some((since, _)) = self.oldest_first.front() {
            if now.duration_since(*since) < life {
                return;
            }
            if let Some((_, id)) = self.oldest_first.pop_front() {
                self.by_id.remove(&id);
            }
        }
    }
}

impl Entry {
    pub(crate) fn lock(&self) -> MutexGuard<'_, Kept> {
        lock(&self.kept)
    }

    /// The task as it stands, and how much had happened then.
    pub(crate) fn snapshot(&self) -> (Task, usize) {
        let kept = self.lock();
        (kept.task.clone(), kept.events.len())
    }

    /// What happened after that many events, waiting for it; none when the agent forgot the task.
    pub(crate) async fn after(&self, seen: usize) -> Option<Vec<Event>> {
        let mut happened = self.happened.subscribe();
        happened.wait_for(|count| *count > seen).await.ok()?;
        let kept = self.lock();
        Some(kept.events.get(seen..).unwrap_or_default().to_vec())
    }

    /// Who works on it, and how it is withdrawn.
    pub(crate) fn is_worked_on(&self, work: AbortHandle, cancel: Option<Cancel>) {
        let mut kept = self.lock();
        kept.work = Some(work);
        kept.cancel = cancel;
    }

    /// How it is withdrawn: the agent's way, and the work to break off.
    pub(crate) fn take_cancel(&self) -> (Option<Cancel>, Option<AbortHandle>) {
        let mut kept = self.lock();
        (kept.cancel.take(), kept.work.take())
    }

    fn tell(&self, mut kept: MutexGuard<'_, Kept>, event: Event) {
        kept.events.push(event);
        let count = kept.events.len();
        drop(kept);
        self.happened.send_replace(count);
    }
}

/// Tells what happens to a task. What would happen after its end does not.
#[derive(Clone)]
pub struct Updater {
    entry: Arc<Entry>,
    now: Arc<dyn Fn() -> Time + Send + Sync>,
    at_most: usize,
}

impl Updater {
    pub(crate) fn new(
        entry: Arc<Entry>,
        now: Arc<dyn Fn() -> Time + Send + Sync>,
        limits: &TaskLimits,
    ) -> Self {
        Self {
            entry,
            now,
            at_most: limits.events,
        }
    }

    /// The task and its conversation.
    #[must_use]
    pub fn ids(&self) -> (String, String) {
        let kept = self.entry.lock();
        (kept.task.id.clone(), kept.task.context_id.clone())
    }

    /// Where the task stands.
    #[must_use]
    pub fn state(&self) -> TaskState {
        self.entry.lock().task.status.state
    }

    /// Another status. Whether it was taken: a task that has ended stays as it is.
    pub fn status(&self, state: TaskState, message: Option<Message>) -> bool {
        let mut kept = self.entry.lock();
        let is_full = kept.events.len() >= self.at_most && !state.is_terminal();
        if kept.task.status.state.is_terminal() || is_full {
            return false;
        }
        // What was said with the status before becomes part of the history.
        if let Some(said) = kept.task.status.message.take() {
            kept.task.history.push(said);
        }
        let timestamp = format_millis((self.now)()).as_str().to_owned();
        kept.task.status = Status {
            state,
            message,
            timestamp,
        };
        let event = Event::Status {
            task_id: kept.task.id.clone(),
            context_id: kept.task.context_id.clone(),
            status: kept.task.status.clone(),
        };
        self.entry.tell(kept, event);
        true
    }

    /// Something was produced; `append` goes on the artifact of the same identifier.
    pub fn artifact(&self, artifact: Artifact, append: bool, last_chunk: bool) {
        let mut kept = self.entry.lock();
        if kept.task.status.state.is_terminal() || kept.events.len() >= self.at_most {
            return;
        }
        let id = artifact.artifact_id.as_str();
        let known = kept.task.artifacts.iter_mut().find(|a| a.artifact_id == id);
        match known {
            Some(known) if append => known.parts.extend(artifact.parts.iter().cloned()),
            Some(known) => *known = artifact.clone(),
            None => kept.task.artifacts.push(artifact.clone()),
        }
        let event = Event::Artifact {
            task_id: kept.task.id.clone(),
            context_id: kept.task.context_id.clone(),
            artifact,
            append,
            last_chunk,
        };
        self.entry.tell(kept, event);
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
