//! `ListTasks`, for agents that offer it: newest first, page by page.

use chancery_core::time::{Time, parse_vibe};
use serde_json::{Value, json};

use super::fault::{Fault, Kind};
use super::model::{Task, TaskState};
use super::operations::{Agent, Service, history_length};

impl<A: Agent> Service<A> {
    pub(super) fn list(&self, params: &Value) -> Result<Value, Fault> {
        if !self.agent.features().list_tasks {
            // VA-A2A-10: it carries no signed identity.
            let message = "tasks are not listed: who knows a task's id may ask for it";
            return Err(Fault::new(Kind::UnsupportedOperation, message));
        }
        let wanted = Listing::of(params)?;
        let mut tasks = self.tasks.of(&self.agent.owner());
        tasks.retain(|task| wanted.wants(task));
        tasks.sort_by(|a, b| {
            let newest_first = b.status.timestamp.cmp(&a.status.timestamp);
            newest_first.then_with(|| a.id.cmp(&b.id))
        });
        let total = tasks.len();
        let from = wanted.from.min(total);
        let until = from.saturating_add(wanted.size).min(total);
        let next = if until < total {
            until.to_string()
        } else {
            String::new()
        };
        let page = tasks.drain(from..until).map(|mut task| {
            if !wanted.artifacts {
                task.artifacts.clear();
            }
            task.with_history(wanted.history)
        });
        let page: Vec<Task> = page.collect();
        Ok(json!({
            "tasks": page, "nextPageToken": next, "pageSize": wanted.size, "totalSize": total,
        }))
    }
}

/// Which tasks are listed.
struct Listing {
    context: Option<String>,
    state: Option<String>,
    after: Option<Time>,
    history: Option<usize>,
    artifacts: bool,
    from: usize,
    size: usize,
}

impl Listing {
    fn of(params: &Value) -> Result<Self, Fault> {
        let wrong = |name: &str| Fault::new(Kind::InvalidParams, format!("{name} is wrong"));
        let text = |name: &str| {
            let text = params.get(name).and_then(Value::as_str);
            text.filter(|text| !text.is_empty()).map(str::to_owned)
        };
        let state = text("status").filter(|state| state != "TASK_STATE_UNSPECIFIED");
        if let Some(state) = &state {
            serde_json::from_value::<TaskState>(json!(state)).map_err(|_| wrong("status"))?;
        }
        let after = text("statusTimestampAfter");
        let after = after.map(|text| parse_vibe(&text).map_err(|_| wrong("statusTimestampAfter")));
        let from = text("pageToken").map(|token| token.parse().map_err(|_| wrong("pageToken")));
        Ok(Self {
            context: text("contextId"),
            state,
            after: after.transpose()?,
            history: history_length(params)?.or(Some(0)),
            artifacts: params.get("includeArtifacts") == Some(&Value::Bool(true)),
            from: from.transpose()?.unwrap_or(0),
            size: match params.get("pageSize").filter(|size| !size.is_null()) {
                None => 50,
                Some(size) => size
                    .as_u64()
                    .filter(|size| (1..=100).contains(size))
                    .and_then(|size| usize::try_from(size).ok())
                    .ok_or_else(|| wrong("pageSize"))?,
            },
        })
    }

    fn wants(&self, task: &Task) -> bool {
        let state = json!(task.status.state);
        let since = parse_vibe(&task.status.timestamp).ok();
        self.context
            .as_ref()
            .is_none_or(|id| *id == task.context_id)
            && self.state.as_deref().is_none_or(|wanted| state == wanted)
            && self
                .after
                .is_none_or(|after| since.is_some_and(|since| since >= after))
    }
}
