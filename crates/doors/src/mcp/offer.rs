//! What a server may offer, in MCP's own JSON.

use std::future::Future;

use chancery_node::trace::{TraceContext, here, within};
use rmcp::model::{ErrorCode, ErrorData, ServerNotification, ServerRequest};
use rmcp::service::RequestContext;
use rmcp::{RoleServer, model::ProtocolVersion};
use serde_json::{Map, Value, json};
use tokio::sync::broadcast;

use super::{Told, ToolFace, Toolbox};
use crate::trace_headers::of_meta;

/// A list that a client may ask for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum List {
    /// `tools/list`.
    Tools,
    /// `prompts/list`.
    Prompts,
    /// `resources/list`.
    Resources,
    /// `resources/templates/list`.
    Templates,
}

/// Something that listeners are told about.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Change {
    /// The tools are others now.
    Tools,
    /// The prompts are others now.
    Prompts,
    /// The resources are others now.
    Resources,
    /// The resource at this address has changed.
    Resource(String),
}

/// A JSON-RPC error.
#[derive(Clone, Debug, PartialEq)]
pub struct Fault {
    /// Its code.
    pub code: i32,
    /// What went wrong.
    pub message: String,
    /// More about it.
    pub data: Option<Value>,
}

impl Fault {
    /// The parameters are not right (−32602).
    pub fn invalid_params(message: &str) -> Self {
        Self {
            code: ErrorCode::INVALID_PARAMS.0,
            message: message.to_owned(),
            data: None,
        }
    }

    /// There is no resource at that address; each revision has a code of its own for it.
    pub fn no_resource(uri: &str) -> Self {
        Self {
            code: ErrorCode::RESOURCE_NOT_FOUND.0,
            message: "there is no such resource".to_owned(),
            data: Some(json!({ "uri": uri })),
        }
    }

    /// The client has not declared what the request needs, such as `{"sampling": {}}` (−32021).
    pub fn needs(capabilities: Value) -> Self {
        Self {
            code: ErrorCode::MISSING_REQUIRED_CLIENT_CAPABILITY.0,
            message: "the client has not declared a capability that this needs".to_owned(),
            data: Some(json!({ "requiredCapabilities": capabilities })),
        }
    }

    pub(super) fn internal(message: impl ToString) -> Self {
        Self {
            code: ErrorCode::INTERNAL_ERROR.0,
            message: message.to_string(),
            data: None,
        }
    }
}

impl From<Fault> for ErrorData {
    fn from(fault: Fault) -> Self {
        Self::new(ErrorCode(fault.code), fault.message, fault.data)
    }
}

/// Whoever asked, while its request is under way.
pub struct Client(pub(super) RequestContext<RoleServer>);

impl Client {
    /// Whether it speaks the revision 2026-07-28 or a later one: nothing is kept between requests there, and what a
    /// server needs to know it asks for in its result.
    #[must_use]
    pub fn is_modern(&self) -> bool {
        let version = self.0.protocol_version();
        version.is_some_and(|version| version.as_str() >= ProtocolVersion::V_2026_07_28.as_str())
    }

    /// What it can do, as it declared it.
    #[must_use]
    pub fn capabilities(&self) -> Value {
        value(&self.0.client_capabilities())
    }

    /// What it said about this request (`_meta`).
    #[must_use]
    pub fn meta(&self) -> Value {
        value(&self.0.meta)
    }

    /// Tells it something before the answer; one that is gone is told nothing.
    pub async fn notify(&self, method: &str, params: Value) {
        let notification = json!({"method": method, "params": params});
        match serde_json::from_value::<ServerNotification>(notification) {
            Ok(notification) => {
                let _ = self.0.peer.send_notification(notification).await;
            }
            Err(error) => tracing::debug!(%error, method, "no notification of this protocol"),
        }
    }

    /// Asks it something before the answer; no modern client can be asked so.
    ///
    /// # Errors
    /// It did not answer, or with an error.
    pub async fn ask(&self, method: &str, params: Value) -> Result<Value, Fault> {
        let request = json!({"method": method, "params": params});
        let request: ServerRequest = serde_json::from_value(request).map_err(Fault::internal)?;
        let answer = self.0.peer.send_request(request).await;
        answer.map(|answer| value(&answer)).map_err(Fault::internal)
    }
}

fn value(of: &impl serde::Serialize) -> Value {
    serde_json::to_value(of).unwrap_or(Value::Null)
}

/// Whatever a server offers. What it does not offer is no method there (VA-MCP-12).
pub trait Offer: Clone + Send + Sync + 'static {
    /// What a client should know before it uses it.
    fn instructions(&self) -> String;

    /// What it declares, such as `{"tools": {}}`.
    fn capabilities(&self) -> Value;

    /// A list, in its order; none where there is no such list.
    fn listed(&self, list: List) -> Option<Vec<Value>>;

    /// Answers `tools/call`, `prompts/get`, `resources/read`, `completion/complete`, `logging/setLevel`,
    /// `resources/subscribe` or `resources/unsubscribe` with the result as the protocol writes it; none where there
    /// is no such method. A result with `resultType` `input_required` asks the client for more.
    fn answer(
        &self,
        method: &'static str,
        params: Value,
        client: Client,
    ) -> impl Future<Output = Result<Option<Value>, Fault>> + Send;

    /// Whether everybody is told the same.
    fn is_for_all(&self) -> bool {
        true
    }

    /// What is told to those who listen; none where nothing ever changes.
    fn changes(&self) -> Option<broadcast::Receiver<Change>> {
        None
    }
}

/// A toolbox is an offer of tools and nothing else.
#[derive(Clone)]
pub(super) struct Tools<T> {
    toolbox: T,
    /// The place in a trace that the request came from.
    place: Option<TraceContext>,
}

impl<T> Tools<T> {
    /// The tools, asked from where this task is.
    pub(super) fn new(toolbox: T) -> Self {
        Self {
            toolbox,
            place: here(),
        }
    }
}

impl<T: Toolbox> Offer for Tools<T> {
    fn instructions(&self) -> String {
        self.toolbox.instructions()
    }

    fn capabilities(&self) -> Value {
        json!({"tools": {}})
    }

    fn is_for_all(&self) -> bool {
        self.toolbox.is_for_all()
    }

    fn listed(&self, list: List) -> Option<Vec<Value>> {
        let tools = || self.toolbox.tools().into_iter().map(face).collect();
        (list == List::Tools).then(tools)
    }

    async fn answer(
        &self,
        method: &'static str,
        mut params: Value,
        client: Client,
    ) -> Result<Option<Value>, Fault> {
        if method != "tools/call" {
            return Ok(None);
        }
        let arguments = match params["arguments"].take() {
            Value::Object(arguments) => arguments,
            _ => Map::new(),
        };
        let name = params["name"].as_str().unwrap_or_default();
        let place = of_meta(&client.meta()).or_else(|| self.place.clone());
        let told = within(place, self.toolbox.call(name, arguments)).await;
        let told = told.ok_or_else(|| Fault::invalid_params("there is no such tool"))?;
        Ok(Some(result(told)))
    }
}

fn face(face: ToolFace) -> Value {
    let mut tool = json!({
        "name": face.name,
        "title": face.title,
        "description": face.description,
        "inputSchema": face.input,
    });
    if let Some(output) = face.output {
        tool["outputSchema"] = output;
    }
    tool
}

fn result(told: Told) -> Value {
    json!({
        "content": [{"type": "text", "text": told.structured.to_string()}],
        "structuredContent": told.structured,
        "isError": told.is_error,
    })
}
