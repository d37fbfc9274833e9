//! The operations of A2A, in the spelling of 1.0: what both bindings and both versions come down to.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use bytes::Bytes;
use chancery_core::time::{Time, format_millis};
use serde_json::Value;

use super::events::{Following, Until};
use super::fault::{Fault, Kind};
use super::model::{Event, Message, Status, Task, TaskState};
use super::pushes::Notify;
use super::tasks::{Entry, StreamPlace, Tasks, Updater};

/// What an agent offers beside messages and tasks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Features {
    /// Whether it lists tasks.
    pub list_tasks: bool,
    /// Whether it keeps push configurations.
    pub push: bool,
    /// Whether a message may go on with a task.
    pub multi_turn: bool,
    /// Whether it asks for all members that A2A asks for.
    pub strict: bool,
    /// Whether it says of the extended card that it is not configured, or that there is none such.
    pub extended_card_is_known: bool,
    /// The extension that its answers make use of.
    pub extension: Option<&'static str>,
}

/// How a message wants to be answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// When there is an answer.
    Blocking,
    /// At once, with a task.
    Immediate,
    /// With all that happens.
    Streaming,
}

/// A message that came in.
#[derive(Clone, Debug)]
pub struct Incoming {
    /// The message, in the spelling of 1.0.
    pub message: Value,
    /// The body that it came in.
    pub body: Bytes,
    /// Where it stands in the body, member by member.
    pub place: &'static [&'static str],
    /// How it wants to be answered.
    pub mode: Mode,
    /// The task that it goes on with.
    pub task: Option<Task>,
}

impl Incoming {
    /// The message as A2A asks for it: with an identifier, a role, and parts of one kind of content each.
    pub fn strict_message(&self) -> Result<Message, Fault> {
        let wrong = |reason: &'static str| Fault::new(Kind::InvalidParams, reason);
        let is_text = |name: &str| self.message.get(name).is_some_and(Value::is_string);
        if !is_text("role") {
            return Err(wrong("a message has a role"));
        }
        let message: Message = serde_json::from_value(self.message.clone())
            .map_err(|_| wrong("the message has a member of the wrong type"))?;
        if message.message_id.is_empty() {
            return Err(wrong("a message has a messageId"));
        }
        if message.parts.is_empty() || message.parts.iter().any(|part| part.contents() != 1) {
            return Err(wrong("a message has parts, each with one content"));
        }
        Ok(message)
    }
}

/// Works on a task, and tells what happens.
pub type Work = Box<dyn FnOnce(Updater) -> Pin<Box<dyn Future<Output = ()> + Send>> + Send>;
/// Withdraws a task; whether it did.
pub type Cancel = Box<dyn FnOnce() -> Pin<Box<dyn Future<Output = bool> + Send>> + Send>;

/// What an agent makes of a message.
pub enum Taken {
    /// It has answered.
    Message(Message),
    /// It works on it.
    Task {
        /// The work.
        work: Work,
        /// How the task is withdrawn; without it the work is broken off.
        cancel: Option<Cancel>,
        /// The message as the task's history has it.
        history: Option<Message>,
        /// The state at first.
        state: TaskState,
    },
}

/// An agent behind the bindings.
pub trait Agent: Send + Sync {
    /// Its name: tasks belong to it.
    fn owner(&self) -> String;
    /// What it offers.
    fn features(&self) -> Features;
    /// The time.
    fn clock(&self) -> Arc<dyn Fn() -> Time + Send + Sync>;
    /// A fresh identifier that nobody can guess.
    fn fresh_id(&self) -> String;
    /// How it notifies whoever wants to know of a task; none where it notifies nobody.
    fn notifier(&self) -> Option<Notify> {
        None
    }
    /// Takes a message in: whatever it refuses it refuses here.
    fn take(&self, incoming: Incoming) -> impl Future<Output = Result<Taken, Fault>> + Send;
}

/// An agent with its tasks.
pub(crate) struct Service<A> {
    pub(crate) agent: A,
    pub(crate) tasks: Arc<Tasks>,
}

/// What can be asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Operation {
    Send,
    Stream,
    Get,
    List,
    Cancel,
    Subscribe,
    PutPush,
    GetPush,
    ListPushes,
    DeletePush,
    ExtendedCard,
}

/// A request, whichever binding it came by.
pub(crate) struct Asked {
    pub(crate) operation: Operation,
    pub(crate) params: Value,
    pub(crate) body: Bytes,
    pub(crate) place: &'static [&'static str],
}

/// What is answered.
pub(crate) enum Outcome {
    /// A message or a task, told apart.
    Event(Event),
    /// A task.
    Task(Task),
    /// Anything else.
    Value(Value),
    /// A stream.
    Stream(Following),
}

impl<A: Agent> Service<A> {
    /// Does what is asked.
    pub(crate) async fn perform(&self, asked: Asked) -> Result<Outcome, Fault> {
        let params = &asked.params;
        let text = |name: &str| {
            let found = params.get(name).and_then(Value::as_str);
            found.ok_or_else(|| missing(name))
        };
        match asked.operation {
            Operation::Send | Operation::Stream => self.send(asked).await,
            Operation::Get => {
                let entry = self.tasks.find(&self.agent.owner(), text("id")?)?;
                let history = history_length(params)?;
                Ok(Outcome::Task(entry.snapshot().0.with_history(history)))
            }
            Operation::List => self.list(params).map(Outcome::Value),
            Operation::Cancel => self.cancel(text("id")?).await.map(Outcome::Task),
            Operation::Subscribe => self.subscribe(text("id")?).map(Outcome::Stream),
            Operation::PutPush => {
                let config = self.put_push(text("taskId")?, params);
                config.map(Outcome::Value)
            }
            Operation::GetPush => self
                .get_push(text("taskId")?, text("id").unwrap_or_default())
                .map(Outcome::Value),
            Operation::ListPushes => self.list_pushes(text("taskId")?).map(Outcome::Value),
            Operation::DeletePush => self
                .delete_push(text("taskId")?, text("id")?)
                .map(Outcome::Value),
            Operation::ExtendedCard => Err(self.no_extended_card()),
        }
    }

    fn no_extended_card(&self) -> Fault {
        let message = "this agent has one card for everybody";
        if self.agent.features().extended_card_is_known {
            Fault::new(Kind::ExtendedAgentCardNotConfigured, message)
        } else {
            Fault::new(Kind::UnsupportedOperation, message)
        }
    }

    async fn send(&self, asked: Asked) -> Result<Outcome, Fault> {
        let sending = Sending::of(&asked)?;
        if sending.push.is_some() {
            self.check_push()?;
        }
        let going_on = self.task_of(&sending.message)?;
        let stream = match sending.mode {
            Mode::Streaming => Some(self.tasks.stream()?),
            Mode::Blocking | Mode::Immediate => None,
        };
        let incoming = Incoming {
            message: sending.message.clone(),
            body: asked.body,
            place: asked.place,
            mode: sending.mode,
            task: going_on.as_ref().map(|entry| entry.snapshot().0),
        };
        match self.agent.take(incoming).await? {
            Taken::Message(answer) => Ok(match stream {
                Some(stream) => Outcome::Stream(Following::one(Event::Message(answer), stream)),
                None => Outcome::Event(Event::Message(answer)),
            }),
            Taken::Task {
                work,
                cancel,
                history,
                state,
            } => {
                let is_new = going_on.is_none();
                let entry = match going_on {
                    Some(entry) => Self::go_on(entry, history),
                    None => self.begin(&sending.message, history, state)?,
                };
                if let Some(push) = &sending.push {
                    self.put_push(&entry.snapshot().0.id, push)?;
                }
                if is_new {
                    self.notify_of(&entry);
                }
                let (first, seen) = entry.snapshot();
                self.work(&entry, work, cancel);
                Ok(told(sending, entry, first, seen, stream).await)
            }
        }
    }

    /// The task that a message names (VA-A2A-11).
    fn task_of(&self, message: &Value) -> Result<Option<Arc<Entry>>, Fault> {
        let id = message.get("taskId").and_then(Value::as_str);
        let Some(id) = id.filter(|id| !id.is_empty()) else {
            return Ok(None);
        };
        let entry = self.tasks.find(&self.agent.owner(), id)?;
        let (task, _) = entry.snapshot();
        if task.status.state.is_terminal() {
            return Err(Fault::new(Kind::UnsupportedOperation, "the task has ended"));
        }
        if !self.agent.features().multi_turn {
            let message = "a message does not go on with a task here";
            return Err(Fault::new(Kind::UnsupportedOperation, message));
        }
        let context = message.get("contextId").and_then(Value::as_str);
        if context.is_some_and(|context| !context.is_empty() && context != task.context_id) {
            let message = "the task belongs to another contextId";
            return Err(Fault::new(Kind::InvalidParams, message));
        }
        Ok(Some(entry))
    }

    fn begin(
        &self,
        message: &Value,
        said: Option<Message>,
        state: TaskState,
    ) -> Result<Arc<Entry>, Fault> {
        let context = message.get("contextId").and_then(Value::as_str);
        let context = context.filter(|id| !id.is_empty()).map(str::to_owned);
        let context_id = context.unwrap_or_else(|| self.agent.fresh_id());
        let id = self.agent.fresh_id();
        let history = said.map(|said| Message {
            context_id: Some(context_id.clone()),
            task_id: Some(id.clone()),
            ..said
        });
        let task = Task {
            id,
            context_id,
            status: Status {
                state,
                message: None,
                timestamp: format_millis((self.agent.clock())()).as_str().to_owned(),
            },
            artifacts: Vec::new(),
            history: history.into_iter().collect(),
        };
        self.tasks.add(self.agent.owner(), task)
    }

    fn go_on(entry: Arc<Entry>, said: Option<Message>) -> Arc<Entry> {
        let mut kept = entry.lock();
        let (task, context) = (kept.task.id.clone(), kept.task.context_id.clone());
        kept.task.history.extend(said.map(|said| Message {
            context_id: Some(context),
            task_id: Some(task),
            ..said
        }));
        drop(kept);
        entry
    }

    fn updater(&self, entry: &Arc<Entry>) -> Updater {
        Updater::new(Arc::clone(entry), self.agent.clock(), self.tasks.limits())
    }

    fn work(&self, entry: &Arc<Entry>, work: Work, cancel: Option<Cancel>) {
        let updater = self.updater(entry);
        let working = updater.clone();
        let task = tokio::spawn(work(working));
        entry.is_worked_on(task.abort_handle(), cancel);
        tokio::spawn(async move {
            let ended = task.await;
            let is_open = || !updater.state().is_at_rest();
            // Work that panics, or ends without a word, leaves no task open; work that was broken off is told by
            // whoever did it.
            if ended
                .as_ref()
                .map_or_else(|error| error.is_panic(), |()| is_open())
            {
                updater.status(TaskState::TaskStateFailed, None);
            }
        });
    }

    async fn cancel(&self, id: &str) -> Result<Task, Fault> {
        let entry = self.tasks.find(&self.agent.owner(), id)?;
        let ended = || Fault::new(Kind::TaskNotCancelable, "the task has ended");
        if entry.snapshot().0.status.state.is_terminal() {
            return Err(ended());
        }
        let (cancel, work) = entry.take_cancel();
        let is_withdrawn = match (cancel, work) {
            (Some(cancel), _) => cancel().await,
            (None, work) => {
                work.inspect(tokio::task::AbortHandle::abort);
                true
            }
        };
        let canceled = TaskState::TaskStateCanceled;
        if !is_withdrawn || !self.updater(&entry).status(canceled, None) {
            return Err(ended());
        }
        Ok(entry.snapshot().0)
    }

    fn subscribe(&self, id: &str) -> Result<Following, Fault> {
        let entry = self.tasks.find(&self.agent.owner(), id)?;
        let (task, seen) = entry.snapshot();
        if task.status.state.is_terminal() {
            let message = "the task has ended: nothing more will happen to it";
            return Err(Fault::new(Kind::UnsupportedOperation, message));
        }
        let stream = self.tasks.stream()?;
        Ok(Following::new(task, seen, entry, Until::Ended, stream))
    }
}

/// What a request to send says beside its message.
struct Sending {
    message: Value,
    push: Option<Value>,
    history: Option<usize>,
    mode: Mode,
}

impl Sending {
    fn of(asked: &Asked) -> Result<Self, Fault> {
        let message = asked.params.get("message").filter(|m| m.is_object());
        let configuration = asked.params.get("configuration").unwrap_or(&Value::Null);
        let push = configuration.get("taskPushNotificationConfig");
        let is_immediate = configuration.get("returnImmediately") == Some(&Value::Bool(true));
        Ok(Self {
            message: message.ok_or_else(|| missing("message"))?.clone(),
            push: push.filter(|push| !push.is_null()).cloned(),
            history: history_length(configuration)?,
            mode: match asked.operation {
                Operation::Stream => Mode::Streaming,
                _ if is_immediate => Mode::Immediate,
                _ => Mode::Blocking,
            },
        })
    }
}

/// The answer to a message that became a task, as it wants to be answered.
async fn told(
    sending: Sending,
    entry: Arc<Entry>,
    first: Task,
    seen: usize,
    stream: Option<StreamPlace>,
) -> Outcome {
    let task = match (sending.mode, stream) {
        (Mode::Streaming, Some(stream)) => {
            let following = Following::new(first, seen, entry, Until::AtRest, stream);
            return Outcome::Stream(following);
        }
        (Mode::Immediate, _) => first,
        _ => at_rest(&entry, seen).await,
    };
    Outcome::Event(Event::Task(task.with_history(sending.history)))
}

/// Waits until nothing more happens without somebody speaking.
async fn at_rest(entry: &Entry, mut seen: usize) -> Task {
    while let Some(events) = entry.after(seen).await {
        seen += events.len();
        let states = events.iter().filter_map(Event::state);
        if states.into_iter().any(TaskState::is_at_rest) {
            break;
        }
    }
    entry.snapshot().0
}

pub(super) fn history_length(params: &Value) -> Result<Option<usize>, Fault> {
    match params
        .get("historyLength")
        .filter(|length| !length.is_null())
    {
        None => Ok(None),
        Some(length) => {
            let length = length
                .as_u64()
                .and_then(|length| usize::try_from(length).ok());
            let wrong = || Fault::new(Kind::InvalidParams, "historyLength is no number from 0");
            length.map(Some).ok_or_else(wrong)
        }
    }
}

fn missing(name: &str) -> Fault {
    Fault::new(Kind::InvalidParams, format!("{name} is missing"))
}
