//! What A2A 1.0 speaks of: messages, tasks, artifacts, and what happens to a task.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

/// Members that nobody here interprets.
pub type Members = Map<String, Value>;

/// Who speaks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Role {
    /// The client.
    #[default]
    #[serde(rename = "ROLE_USER")]
    User,
    /// The agent.
    #[serde(rename = "ROLE_AGENT")]
    Agent,
}

/// One piece of content: a text, a file by its bytes or its address, or data.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Part {
    /// A text.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub text: Option<String>,
    /// The bytes of a file, in base64.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub raw: Option<String>,
    /// The address of a file.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub url: Option<String>,
    /// Data.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub data: Option<Value>,
    /// The name of a file.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub filename: Option<String>,
    /// The media type of a file.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub media_type: Option<String>,
    /// Further members.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub metadata: Option<Members>,
}

impl Part {
    /// A text.
    pub fn text(text: impl Into<String>) -> Self {
        Self {
            text: Some(text.into()),
            ..Self::default()
        }
    }

    /// How many of the four kinds of content it has: exactly one is right.
    #[must_use]
    pub fn contents(&self) -> usize {
        [
            self.text.is_some(),
            self.raw.is_some(),
            self.url.is_some(),
            self.data.is_some(),
        ]
        .iter()
        .filter(|has| **has)
        .count()
    }
}

/// A message.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Message {
    /// Its identifier.
    pub message_id: String,
    /// The conversation it belongs to.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub context_id: Option<String>,
    /// The task it belongs to.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub task_id: Option<String>,
    /// Who speaks.
    pub role: Role,
    /// What is said.
    pub parts: Vec<Part>,
    /// Further members: a signed envelope is one of them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub metadata: Option<Members>,
    /// The extensions that the message makes use of.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub extensions: Vec<String>,
    /// Tasks that it refers to.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub reference_task_ids: Vec<String>,
}

/// Where a task stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub enum TaskState {
    /// Taken in.
    TaskStateSubmitted,
    /// Under way.
    TaskStateWorking,
    /// Done.
    TaskStateCompleted,
    /// Ended by a failure.
    TaskStateFailed,
    /// Withdrawn by the client.
    TaskStateCanceled,
    /// Waits for a further message.
    TaskStateInputRequired,
    /// The agent does not take it.
    TaskStateRejected,
}

impl TaskState {
    /// Whether nothing more happens to it.
    #[must_use]
    pub const fn is_terminal(self) -> bool {
        matches!(
            self,
            Self::TaskStateCompleted
                | Self::TaskStateFailed
                | Self::TaskStateCanceled
                | Self::TaskStateRejected
        )
    }

    /// Whether nothing more happens until somebody speaks.
    #[must_use]
    pub const fn is_at_rest(self) -> bool {
        self.is_terminal() || matches!(self, Self::TaskStateInputRequired)
    }
}

/// The state of a task with its time, and what the agent says about it.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Status {
    /// The state.
    pub state: TaskState,
    /// What the agent says.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub message: Option<Message>,
    /// Since when.
    pub timestamp: String,
}

/// Something that a task produced.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Artifact {
    /// Its identifier, unique in its task.
    pub artifact_id: String,
    /// Its name.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// What it holds.
    pub parts: Vec<Part>,
}

/// A task.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Task {
    /// Its identifier.
    pub id: String,
    /// The conversation it belongs to.
    pub context_id: String,
    /// Where it stands.
    pub status: Status,
    /// What it produced.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub artifacts: Vec<Artifact>,
    /// What was said before.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub history: Vec<Message>,
}

impl Task {
    /// The same with at most so many of the last messages of its history.
    #[must_use]
    pub fn with_history(mut self, at_most: Option<usize>) -> Self {
        if let Some(at_most) = at_most {
            let beyond = self.history.len().saturating_sub(at_most);
            self.history.drain(..beyond);
        }
        self
    }
}

/// What a stream tells, and what a message is answered by.
#[derive(Clone, Debug, PartialEq)]
pub enum Event {
    /// A task as it stands.
    Task(Task),
    /// An answer that is no task.
    Message(Message),
    /// A task has another status.
    Status {
        /// The task.
        task_id: String,
        /// Its conversation.
        context_id: String,
        /// The status.
        status: Status,
    },
    /// A task has produced something.
    Artifact {
        /// The task.
        task_id: String,
        /// Its conversation.
        context_id: String,
        /// What it is.
        artifact: Artifact,
        /// Whether it goes on an artifact that was told before.
        append: bool,
        /// Whether it is the last piece.
        last_chunk: bool,
    },
}

impl Event {
    /// As 1.0 writes it.
    #[must_use]
    pub fn to_json(&self) -> Value {
        match self {
            Self::Task(task) => json!({ "task": task }),
            Self::Message(message) => json!({ "message": message }),
            Self::Status {
                task_id,
                context_id,
                status,
            } => json!({"statusUpdate": {
                "taskId": task_id, "contextId": context_id, "status": status,
            }}),
            Self::Artifact {
                task_id,
                context_id,
                artifact,
                append,
                last_chunk,
            } => json!({"artifactUpdate": {
                "taskId": task_id, "contextId": context_id, "artifact": artifact,
                "append": append, "lastChunk": last_chunk,
            }}),
        }
    }

    /// Whether a task at rest is what it tells.
    #[must_use]
    pub fn state(&self) -> Option<TaskState> {
        match self {
            Self::Task(task) => Some(task.status.state),
            Self::Status { status, .. } => Some(status.state),
            Self::Message(_) | Self::Artifact { .. } => None,
        }
    }
}
