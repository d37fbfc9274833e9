//! `mcp:URL` and `mcp:COMMAND`: one tool of an MCP server answers (section 18 of the vacant protocol).
//!
//! The server is reached with the official client library, over Streamable HTTP or as a child process. The newest
//! revision is tried first; a server that does not know it is greeted with `initialize`. A connection is kept. A child
//! that has died is started once more, and ends with whoever holds the substrate.
//!
//! What a server says is text that nobody vouches for, and never evidence (VA-SUB-5).

mod connection;
mod web;

use std::time::Duration;

use futures_util::future::BoxFuture;
use rmcp::model::{CallToolRequestParams, ServerResult};
use serde_json::{Map, Value, json};

use super::{InferElsewhere, Inferred, Request, Unanswered};
use crate::budget::Usage;
use connection::{Broken, Keeper};

pub use connection::{Place, PlaceError};

/// The largest answer (VA-SUB-6).
pub const MAX_ANSWER: usize = 1_048_576;
/// How long an answer may take (VA-SUB-6).
pub const TIMEOUT: Duration = Duration::from_secs(60);

/// The server cannot be reached, or broke off.
pub const MCP_FAILED: &str = "mcp_failed";
/// The server, or the tool, answered with an error.
pub const MCP_ERROR: &str = "mcp_error";
/// The answer is larger than it may be.
pub const MCP_ANSWER: &str = "mcp_answer";
/// The answer did not come in time.
pub const MCP_TIMEOUT: &str = "mcp_timeout";

/// What a substrate is asked (VA-SUB-1).
#[derive(Clone, Debug, Default, PartialEq)]
pub struct SubstrateRequest {
    /// What it is and how it answers.
    pub system_prompt: String,
    /// What it is asked.
    pub user_prompt: String,
    /// The tools that it may use, by name.
    pub tools: Vec<String>,
    /// What else the question comes with.
    pub metadata: Map<String, Value>,
}

/// What a substrate answers (VA-SUB-1).
#[derive(Clone, Debug, PartialEq)]
pub struct SubstrateAnswer {
    /// The answer.
    pub text: String,
    /// What gave it.
    pub model_id: String,
    /// What it took.
    pub usage: Map<String, Value>,
    /// Where it is from.
    pub proof: Map<String, Value>,
}

/// One tool of an MCP server as a substrate (VA-SUB-2).
pub struct McpSubstrate {
    place: Place,
    tool: String,
    timeout: Duration,
    keeper: Keeper,
}

impl McpSubstrate {
    /// A tool of the server at a place. Nothing is opened before the first question.
    #[must_use]
    pub fn new(place: Place, tool: &str, client: reqwest::Client) -> Self {
        Self {
            keeper: Keeper::new(place.clone(), client),
            place,
            tool: tool.to_owned(),
            timeout: TIMEOUT,
        }
    }

    /// The same with another time for an answer.
    #[must_use]
    pub fn with_timeout(mut self, timeout: Duration) -> Self {
        self.timeout = timeout;
        self
    }

    /// `mcp:`, the server and the tool.
    #[must_use]
    pub fn name(&self) -> String {
        format!("mcp:{}:{}", self.place, self.tool)
    }

    /// Asks the tool once; a child process that turns out dead is started once more and asked again (VA-SUB-6).
    ///
    /// # Errors
    /// The code of what went wrong.
    pub async fn infer(&self, request: SubstrateRequest) -> Result<SubstrateAnswer, &'static str> {
        let arguments = json!({
            "system_prompt": request.system_prompt,
            "user_prompt": request.user_prompt,
            "tools": request.tools,
            "metadata": request.metadata,
        });
        let arguments = match arguments {
            Value::Object(arguments) => arguments,
            _ => Map::new(),
        };
        let params = CallToolRequestParams::new(self.tool.clone()).with_arguments(arguments);
        let asked = tokio::time::timeout(self.timeout, self.ask(params)).await;
        let text = asked.unwrap_or(Err(MCP_TIMEOUT))?;
        Ok(SubstrateAnswer {
            text,
            model_id: self.tool.clone(),
            usage: Map::new(),
            proof: Map::from_iter([("server_url".to_owned(), json!(self.place.to_string()))]),
        })
    }

    async fn ask(&self, params: CallToolRequestParams) -> Result<String, &'static str> {
        let first = self.keeper.call(params.clone()).await;
        let result = match first {
            Err(Broken::Gone) if self.place.is_child() => self.keeper.call(params).await,
            first => first,
        };
        match result {
            Ok(result) => text_of(result),
            Err(Broken::Gone | Broken::Unreachable) => Err(MCP_FAILED),
            Err(Broken::Refused) => Err(MCP_ERROR),
            Err(Broken::TooLarge) => Err(MCP_ANSWER),
        }
    }
}

/// The text of a result (VA-SUB-4).
fn text_of(result: ServerResult) -> Result<String, &'static str> {
    let result = serde_json::to_value(result).map_err(|_| MCP_ANSWER)?;
    if result["isError"] == true || result["resultType"] == "input_required" {
        return Err(MCP_ERROR);
    }
    let blocks = result["content"].as_array().map_or(&[][..], Vec::as_slice);
    let texts = blocks.iter().filter(|block| block["type"] == "text");
    let texts: Vec<&str> = texts.filter_map(|block| block["text"].as_str()).collect();
    let text = match texts.as_slice() {
        [] => {
            let structured = result["structuredContent"]["text"].as_str();
            let text = structured.or_else(|| result["text"].as_str());
            text.unwrap_or_default().to_owned()
        }
        texts => texts.join("\n"),
    };
    if text.len() > MAX_ANSWER {
        return Err(MCP_ANSWER);
    }
    Ok(text)
}

impl InferElsewhere for McpSubstrate {
    fn infer(&self, request: Request) -> BoxFuture<'_, Result<Inferred, Unanswered>> {
        Box::pin(async move {
            let metadata = json!({
                "turn_id": request.turn_id,
                "step": request.step,
                "agent": request.agent,
                "address": request.address,
            });
            let asked = SubstrateRequest {
                system_prompt: request.system_prompt(),
                user_prompt: request.user_prompt(),
                tools: Vec::new(),
                metadata: metadata.as_object().cloned().unwrap_or_default(),
            };
            let usage = Usage::FREE;
            match McpSubstrate::infer(self, asked).await {
                Ok(answer) => Ok(Inferred {
                    text: answer.text,
                    usage,
                }),
                Err(code) => Err(Unanswered { code, usage }),
            }
        })
    }
}
