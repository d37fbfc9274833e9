//! Who wants to be notified of a task: kept with it, for agents that offer it.

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::fault::{Fault, Kind};
use super::operations::{Agent, Service};

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

impl<A: Agent> Service<A> {
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
