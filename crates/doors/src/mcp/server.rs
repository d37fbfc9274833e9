//! An offer behind the official SDK's server.
#![allow(
    deprecated,
    reason = "methods that the newest revision has dropped are served in the older ones"
)]

use std::borrow::Cow;
use std::sync::{Mutex, PoisonError};

use rmcp::model::{
    CacheScope, CallToolRequestMethod, CallToolRequestParams, CallToolResponse, CallToolResult,
    CompleteRequestMethod, CompleteRequestParams, CompleteResult, ConstString, DiscoverResult,
    ErrorData, GetPromptRequestMethod, GetPromptRequestParams, GetPromptResponse, GetPromptResult,
    Implementation, InputRequiredResult, ListPromptsRequestMethod, ListPromptsResult,
    ListResourceTemplatesRequestMethod, ListResourceTemplatesResult, ListResourcesRequestMethod,
    ListResourcesResult, ListToolsRequestMethod, ListToolsResult, MetaObject,
    PaginatedRequestParams, ProtocolVersion, ReadResourceRequestMethod, ReadResourceRequestParams,
    ReadResourceResponse, ReadResourceResult, ResultType, ServerCapabilities, ServerConfig,
    SetLevelRequestMethod, SetLevelRequestParams, SubscribeRequestMethod, SubscribeRequestParams,
    SubscriptionFilter, Tool, UnsubscribeRequestMethod, UnsubscribeRequestParams,
};
use rmcp::service::{RequestContext, SubscriptionContext};
use rmcp::{RoleServer, ServerHandler, ServiceExt};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;
use tokio::sync::broadcast::Receiver;
use tokio::sync::broadcast::error::RecvError;

use super::Toolbox;
use super::offer::{Change, Client, Fault, List, Offer, Tools};

/// How long a client may keep a list.
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
    let serving = Server::new(Tools::new(tools))
        .serve(rmcp::transport::stdio())
        .await;
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

/// An offer as the SDK wants it.
pub(super) struct Server<O> {
    offer: O,
    /// What has changed since this server was made: before it tells a client that it listens for it.
    changes: Mutex<Option<Receiver<Change>>>,
}

impl<O: Offer> Server<O> {
    pub(super) fn new(offer: O) -> Self {
        Self {
            changes: Mutex::new(offer.changes()),
            offer,
        }
    }

    /// Who may keep what it is told.
    fn scope(&self) -> CacheScope {
        if self.offer.is_for_all() {
            CacheScope::Public
        } else {
            CacheScope::Private
        }
    }

    fn list<M: ConstString, T: DeserializeOwned>(&self, list: List) -> Result<Vec<T>, ErrorData> {
        let listed = self.offer.listed(list);
        let listed = listed.ok_or_else(ErrorData::method_not_found::<M>)?;
        let read = |entry| serde_json::from_value(entry).map_err(Fault::internal);
        let listed: Result<Vec<T>, Fault> = listed.into_iter().map(read).collect();
        Ok(listed?)
    }

    async fn ask<M: ConstString>(
        &self,
        params: impl Serialize,
        context: RequestContext<RoleServer>,
    ) -> Result<Value, ErrorData> {
        let params = serde_json::to_value(params).map_err(Fault::internal)?;
        let answered = self.offer.answer(M::VALUE, params, Client(context)).await?;
        answered.ok_or_else(ErrorData::method_not_found::<M>)
    }
}

/// A list as a result, with what the newest revision wants beside it.
macro_rules! list_result {
    ($server:expr, $context:expr, $list:expr, $method:ty, $result:ident) => {{
        let mut result = $result::with_all_items($server.list::<$method, _>($list)?);
        if is_modern(&$context) {
            result = result
                .with_ttl_ms(KEPT_MS)
                .with_cache_scope($server.scope());
            result.meta = Some(server_info());
        }
        Ok(result)
    }};
}

/// A result that is whole, or one that asks for more.
macro_rules! result_or_more {
    ($told:expr, $is_modern:expr, $result:ty) => {{
        let told = $told;
        let meta = $is_modern.then(server_info);
        if told["resultType"] == "input_required" {
            let mut result: InputRequiredResult = read(told)?;
            result.meta = meta;
            Ok(result.into())
        } else {
            let mut result: $result = read(told)?;
            // The SDK takes it away for clients that do not know it.
            result.result_type = Some(ResultType::COMPLETE);
            result.meta = meta;
            Ok(result.into())
        }
    }};
}

impl<O: Offer> ServerHandler for Server<O> {
    fn get_info(&self) -> ServerConfig {
        let capabilities = serde_json::from_value(self.offer.capabilities());
        let capabilities: ServerCapabilities = capabilities.unwrap_or_default();
        let mut config = ServerConfig::new(capabilities);
        config.protocol_version = ProtocolVersion::V_2025_11_25;
        config.server_info = implementation();
        config.instructions = Some(self.offer.instructions());
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
        let mut tools = self.offer.listed(List::Tools)?.into_iter();
        let tool = tools.find(|tool| tool["name"] == name)?;
        serde_json::from_value(tool).ok()
    }

    async fn list_tools(
        &self,
        _: Option<PaginatedRequestParams>,
        context: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        list_result!(
            self,
            context,
            List::Tools,
            ListToolsRequestMethod,
            ListToolsResult
        )
    }

    async fn list_prompts(
        &self,
        _: Option<PaginatedRequestParams>,
        context: RequestContext<RoleServer>,
    ) -> Result<ListPromptsResult, ErrorData> {
        list_result!(
            self,
            context,
            List::Prompts,
            ListPromptsRequestMethod,
            ListPromptsResult
        )
    }

    async fn list_resources(
        &self,
        _: Option<PaginatedRequestParams>,
        context: RequestContext<RoleServer>,
    ) -> Result<ListResourcesResult, ErrorData> {
        list_result!(
            self,
            context,
            List::Resources,
            ListResourcesRequestMethod,
            ListResourcesResult
        )
    }

    async fn list_resource_templates(
        &self,
        _: Option<PaginatedRequestParams>,
        context: RequestContext<RoleServer>,
    ) -> Result<ListResourceTemplatesResult, ErrorData> {
        list_result!(
            self,
            context,
            List::Templates,
            ListResourceTemplatesRequestMethod,
            ListResourceTemplatesResult
        )
    }

    async fn call_tool(
        &self,
        request: CallToolRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        let is_modern = is_modern(&context);
        let told = self.ask::<CallToolRequestMethod>(request, context).await?;
        result_or_more!(told, is_modern, CallToolResult)
    }

    async fn get_prompt(
        &self,
        request: GetPromptRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<GetPromptResponse, ErrorData> {
        let is_modern = is_modern(&context);
        let told = self.ask::<GetPromptRequestMethod>(request, context).await?;
        result_or_more!(told, is_modern, GetPromptResult)
    }

    async fn read_resource(
        &self,
        request: ReadResourceRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<ReadResourceResponse, ErrorData> {
        let is_modern = is_modern(&context);
        let told = self
            .ask::<ReadResourceRequestMethod>(request, context)
            .await?;
        let told: Result<ReadResourceResponse, ErrorData> =
            result_or_more!(told, is_modern, ReadResourceResult);
        match told? {
            ReadResourceResponse::Complete(result) if is_modern => Ok(result
                .with_ttl_ms(KEPT_MS)
                .with_cache_scope(self.scope())
                .into()),
            told => Ok(told),
        }
    }

    async fn complete(
        &self,
        request: CompleteRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<CompleteResult, ErrorData> {
        let is_modern = is_modern(&context);
        let told = self.ask::<CompleteRequestMethod>(request, context).await?;
        let mut result: CompleteResult = read(told)?;
        result.result_type = Some(ResultType::COMPLETE);
        result.meta = is_modern.then(server_info);
        Ok(result)
    }

    async fn set_level(
        &self,
        request: SetLevelRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<(), ErrorData> {
        if is_modern(&context) {
            // A request says by itself there which messages it wants.
            return Err(ErrorData::method_not_found::<SetLevelRequestMethod>());
        }
        let told = self.ask::<SetLevelRequestMethod>(request, context).await;
        told.map(|_| ())
    }

    async fn subscribe(
        &self,
        request: SubscribeRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<(), ErrorData> {
        let told = self.ask::<SubscribeRequestMethod>(request, context).await;
        told.map(|_| ())
    }

    async fn unsubscribe(
        &self,
        request: UnsubscribeRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<(), ErrorData> {
        let told = self.ask::<UnsubscribeRequestMethod>(request, context).await;
        told.map(|_| ())
    }

    fn accepted_subscription_filter(
        &self,
        asked: &SubscriptionFilter,
    ) -> Option<SubscriptionFilter> {
        self.offer.changes().map(|_| asked.clone())
    }

    async fn listen(&self, context: SubscriptionContext) -> Result<(), ErrorData> {
        let earlier = {
            let mut changes = self.changes.lock().unwrap_or_else(PoisonError::into_inner);
            changes.take()
        };
        let Some(mut changes) = earlier.or_else(|| self.offer.changes()) else {
            return Ok(());
        };
        loop {
            let change = tokio::select! {
                () = context.cancelled() => return Ok(()),
                change = changes.recv() => change,
            };
            let sink = context.sink();
            // What was not asked for is refused by the sink, and a client that is gone ends the request by itself.
            let _ = match change {
                Ok(Change::Tools) => sink.notify_tool_list_changed().await,
                Ok(Change::Prompts) => sink.notify_prompt_list_changed().await,
                Ok(Change::Resources) => sink.notify_resource_list_changed().await,
                Ok(Change::Resource(uri)) => sink.notify_resource_updated(uri).await,
                Err(RecvError::Lagged(_)) => continue,
                Err(RecvError::Closed) => return Ok(()),
            };
        }
    }
}

fn read<T: DeserializeOwned>(told: Value) -> Result<T, ErrorData> {
    serde_json::from_value(told).map_err(|error| Fault::internal(error).into())
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
