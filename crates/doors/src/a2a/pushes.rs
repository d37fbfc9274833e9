//! Who wants to be notified of a task: kept with it, and told, for agents that offer it.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::fault::{Fault, Kind};
use super::model::TaskState;
use super::operations::{Agent, Service};
use super::tasks::Entry;

/// Where to notify somebody.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct PushConfig {
    /// Its identifier, unique in its task.
    pub id: String,
    /// The task.
    pub task_id: String,
    /// The address.
    pub url: String,
    /// What the receiver knows the notification by.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub token: Option<String>,
    /// How the receiver wants to be spoken to.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub authentication: Option<Value>,
}

/// Brings somebody what happened to a task, in the spelling of 1.0. It tries once: whoever missed it asks for the task.
pub type Notify =
    Arc<dyn Fn(PushConfig, Value) -> Pin<Box<dyn Future<Output = ()> + Send>> + Send + Sync>;

impl<A: Agent> Service<A> {
    /// Tells everybody who wants to know what happens to a new task, one event after the other, until its end.
    pub(super) fn notify_of(&self, entry: &Arc<Entry>) {
        let Some(notify) = self.agent.notifier() else {
            return;
        };
        let (entry, mut seen) = (Arc::clone(entry), entry.snapshot().1);
        let telling = async move {
            while let Some(events) = entry.after(seen).await {
                for event in events {
                    seen += 1;
                    let pushes = entry.lock().pushes.clone();
                    for push in pushes {
                        notify(push, event.to_json()).await;
                    }
                    if event.state().is_some_and(TaskState::is_terminal) {
                        return;
                    }
                }
            }
        };
        tokio::spawn(tokio::time::timeout(self.tasks.limits().life, telling));
    }

    /// Keeps one; one of the same identifier is replaced.
    pub(super) fn put_push(&self, task: &str, config: &Value) -> Result<Value, Fault> {
        self.check_push()?;
        let mut config: PushConfig = serde_json::from_value(config.clone())
            .map_err(|_| Fault::new(Kind::InvalidParams, "the push configuration is not one"))?;
        if config.url.is_empty() {
            return Err(Fault::new(
                Kind::InvalidParams,
                "a push configuration has a url",
            ));
        }
        let entry = self.tasks.find(&self.agent.owner(), task)?;
        config.task_id = task.to_owned();
        if config.id.is_empty() {
            config.id = self.agent.fresh_id();
        }
        let mut kept = entry.lock();
        kept.pushes.retain(|known| known.id != config.id);
        if kept.pushes.len() >= self.tasks.limits().push_configs {
            return Err(Fault::overloaded(
                "the task has too many push configurations",
            ));
        }
        kept.pushes.push(config.clone());
        Ok(json!(config))
    }

    /// One of them.
    pub(super) fn get_push(&self, task: &str, id: &str) -> Result<Value, Fault> {
        self.check_push()?;
        let entry = self.tasks.find(&self.agent.owner(), task)?;
        let kept = entry.lock();
        // 0.3 names none where there is one alone.
        let found = kept
            .pushes
            .iter()
            .find(|known| known.id == id || id.is_empty());
        found.map(|config| json!(config)).ok_or_else(unknown)
    }

    /// All of a task.
    pub(super) fn list_pushes(&self, task: &str) -> Result<Value, Fault> {
        self.check_push()?;
        let entry = self.tasks.find(&self.agent.owner(), task)?;
        Ok(json!({"configs": entry.lock().pushes, "nextPageToken": ""}))
    }

    /// Forgets one; one that is not there is forgotten already.
    pub(super) fn delete_push(&self, task: &str, id: &str) -> Result<Value, Fault> {
        self.check_push()?;
        let entry = self.tasks.find(&self.agent.owner(), task)?;
        entry.lock().pushes.retain(|known| known.id != id);
        Ok(json!({}))
    }

    pub(super) fn check_push(&self) -> Result<(), Fault> {
        if self.agent.features().push {
            return Ok(());
        }
        Err(Fault::new(
            Kind::PushNotificationNotSupported,
            "this agent notifies nobody",
        ))
    }
}

fn unknown() -> Fault {
    Fault::new(Kind::TaskNotFound, "there is no such push configuration")
}
