//! The tools behind the official SDK's server.

use std::borrow::Cow;
use std::sync::Arc;

use rmcp::model::{
    CacheScope, CallToolRequestParams, CallToolResponse, CallToolResult, CompleteRequestMethod,
    CompleteRequestParams, CompleteResult, ConstString, ContentBlock, DiscoverResult, ErrorData,
    Implementation, JsonObject, ListPromptsRequestMethod, ListPromptsResult,
    ListResourceTemplatesRequestMethod, ListResourceTemplatesResult, ListResourcesRequestMethod,
    ListResourcesResult, ListToolsResult, MetaObject, PaginatedRequestParams, ProtocolVersion,
    ServerCapabilities, ServerConfig, Tool,
};
use rmcp::service::RequestContext;
use rmcp::{RoleServer, ServerHandler, ServiceExt};
use serde_json::Value;

use super::{ToolFace, Toolbox};

/// How long a client may keep the list of tools.
const KEPT_MS: u64 = 300_000;
/// Where a modern result names the server.
const SERVER_INFO: &str = "io.modelcontextprotocol/serverInfo";

/// The revisions that are spoken, the oldest first.
static REVISIONS: [ProtocolVersion; 4] = [
    ProtocolVersion::V_2025_03_26,
    ProtocolVersion::V_2025_06_18,
    ProtocolVersion::V_2025_11_25,
    ProtocolVersion::V_2026_07_28,
];

/// Why stdio was not served.
#[derive(Debug, thiserror::Error)]
#[error("MCP over stdio: {0}")]
pub struct McpError(String);

/// Serves tools over standard input and output until the input ends (VA-MCP-2).
pub async fn serve_stdio<T: Toolbox>(tools: T) -> Result<(), McpError> {
    let serving = Server(tools).serve(rmcp::transport::stdio()).await;
    let serving = match serving {
        Ok(serving) => serving,
        // Whoever closes its end without a word has asked for nothing.
        Err(rmcp::service::ServerInitializeError::ConnectionClosed(_)) => return Ok(()),
        Err(error) => return Err(McpError(error.to_string())),
    };
    let ended = serving.waiting().await;
    ended
        .map(|_| ())
        .map_err(|error| McpError(error.to_string()))
}

/// A toolbox as the SDK wants it.
#[derive(Clone)]
pub(super) struct Server<T>(pub(super) T);

impl<T: Toolbox> ServerHandler for Server<T> {
    fn get_info(&self) -> ServerConfig {
        let mut config = ServerConfig::new(ServerCapabilities::builder().enable_tools().build());
        config.protocol_version = ProtocolVersion::V_2025_11_25;
        config.server_info = implementation();
        config.instructions = Some(self.0.instructions());
        config
    }

    fn supported_protocol_versions(&self) -> Cow<'static, [ProtocolVersion]> {
        Cow::Borrowed(&REVISIONS)
    }

    async fn discover(&self, _: RequestContext<RoleServer>) -> Result<DiscoverResult, ErrorData> {
        let found = DiscoverResult::from_server_info(REVISIONS.to_vec(), self.get_info());
        Ok(found.with_ttl_ms(KEPT_MS).with_cache_scope(self.scope()))
    }

    fn get_tool(&self, name: &str) -> Option<Tool> {
        let tools = self.0.tools();
        tools.into_iter().find(|tool| tool.name == name).map(tool)
    }

    async fn list_tools(
        &self,
        _: Option<PaginatedRequestParams>,
        context: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        let tools = self.0.tools().into_iter().map(tool).collect();
        let mut result = ListToolsResult::with_all_items(tools);
        if is_modern(&context) {
            result = result.with_ttl_ms(KEPT_MS).with_cache_scope(self.scope());
            result.meta = Some(server_info());
        }
        Ok(result)
    }

    async fn call_tool(
        &self,
        request: CallToolRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        let arguments = request.arguments.unwrap_or_default();
        let told = self.0.call(&request.name, arguments).await;
        let told = told.ok_or_else(|| ErrorData::invalid_params("there is no such tool", None))?;
        let mut result = CallToolResult::default();
        result.content = vec![ContentBlock::text(told.structured.to_string())];
        result.structured_content = Some(told.structured);
        result.is_error = Some(told.is_error);
        if is_modern(&context) {
            result.meta = Some(server_info());
        }
        Ok(result.into())
    }

    async fn complete(
        &self,
        _: CompleteRequestParams,
        _: RequestContext<RoleServer>,
    ) -> Result<CompleteResult, ErrorData> {
        absent::<CompleteRequestMethod, _>()
    }

    async fn list_prompts(
        &self,
        _: Option<PaginatedRequestParams>,
        _: RequestContext<RoleServer>,
    ) -> Result<ListPromptsResult, ErrorData> {
        absent::<ListPromptsRequestMethod, _>()
    }

    async fn list_resources(
        &self,
        _: Option<PaginatedRequestParams>,
        _: RequestContext<RoleServer>,
    ) -> Result<ListResourcesResult, ErrorData> {
        absent::<ListResourcesRequestMethod, _>()
    }

    async fn list_resource_templates(
        &self,
        _: Option<PaginatedRequestParams>,
        _: RequestContext<RoleServer>,
    ) -> Result<ListResourceTemplatesResult, ErrorData> {
        absent::<ListResourceTemplatesRequestMethod, _>()
    }
}

impl<T: Toolbox> Server<T> {
    /// Who may keep what it is told about the tools.
    fn scope(&self) -> CacheScope {
        if self.0.is_for_all() {
            CacheScope::Public
        } else {
            CacheScope::Private
        }
    }
}

/// The SDK answers these with nothing; what is not offered is no method here (VA-MCP-12).
fn absent<M: ConstString, R>() -> Result<R, ErrorData> {
    Err(ErrorData::method_not_found::<M>())
}

fn is_modern(context: &RequestContext<RoleServer>) -> bool {
    let version = context.protocol_version();
    version.is_some_and(|version| version.as_str() >= ProtocolVersion::V_2026_07_28.as_str())
}

fn implementation() -> Implementation {
    Implementation::new("chancery", env!("CARGO_PKG_VERSION"))
}

fn server_info() -> MetaObject {
    let mut meta = MetaObject::default();
    let info = serde_json::to_value(implementation()).unwrap_or(Value::Null);
    meta.insert(SERVER_INFO.to_owned(), info);
    meta
}

fn tool(face: ToolFace) -> Tool {
    let mut tool = Tool::new(face.name, face.description, object(face.input));
    tool.title = Some(face.title.to_owned());
    tool.output_schema = face.output.map(object);
    tool
}

fn object(schema: Value) -> Arc<JsonObject> {
    Arc::new(match schema {
        Value::Object(members) => members,
        _ => JsonObject::new(),
    })
}
