//! `chancery mcp`: one vacant's tools over MCP on standard input and output (VA-MCP-2, CH-NET-5).

use std::sync::Arc;

use chancery_doors::http::{VacantTools, vacant_tools};
use chancery_doors::mcp::{Told, ToolFace, Toolbox, serve_stdio};
use serde_json::{Map, Value, json};

use crate::client::{NodeArgs, NodeClient};
use crate::commands::serve::{log_to_stderr, runtime};
use crate::config::{Config, Flags, Sources};
use crate::exit::{Exit, Failure, Outcome};
use crate::host::Host;

/// What `mcp` takes.
#[derive(Debug, clap::Args)]
pub(crate) struct McpArgs {
    /// The vacant [default: the node's default vacant]
    #[arg(long, value_name = "NAME")]
    agent: Option<String>,
    #[command(flatten)]
    node: NodeArgs,
}

/// Serves until the input ends. Nothing but the protocol is written to standard output.
pub(crate) fn run(args: &McpArgs, sources: &dyn Fn(Flags) -> Sources) -> Outcome {
    log_to_stderr();
    let client = args.node.client(sources);
    let runtime = runtime()?;
    let served = runtime.block_on(async {
        match client {
            Ok(client) if args.node.is_named() || client.get(&["healthz"]).await.is_ok() => {
                through(client, args.agent.clone()).await
            }
            Err(failure) if args.node.is_named() => Err(failure),
            _ => {
                let config = Config::load(&sources(Flags::default()))?;
                by_itself(&config, args.agent.as_deref()).await
            }
        }
    });
    // Standard input may still be read on a thread of its own.
    runtime.shutdown_background();
    served?;
    Ok(Exit::Done)
}

/// Through a node that runs.
async fn through(client: NodeClient, agent: Option<String>) -> Result<(), Failure> {
    let tools = RemoteTools {
        client: Arc::new(client),
        agent,
    };
    served(serve_stdio(tools).await)
}

/// With a node of its own, as `chancery serve` would start it.
async fn by_itself(config: &Config, agent: Option<&str>) -> Result<(), Failure> {
    let host = Host::start(config).await?;
    let vacant = host.vacants.as_ref().and_then(|vacants| {
        let vacant = match agent {
            Some(name) => vacants.find(name),
            None => vacants.default_vacant(),
        };
        Some(VacantTools::new(Arc::clone(vacants), Arc::clone(vacant?)))
    });
    let ended = match vacant {
        Some(tools) => served(serve_stdio(tools).await),
        None => Err(Failure::usage("the configuration has no such vacant")
            .next("add one: [[vacant.agent]] with a name and a seed")),
    };
    host.stop().await?;
    ended
}

fn served(served: Result<(), chancery_doors::mcp::McpError>) -> Result<(), Failure> {
    served.map_err(|error| Failure::no(error.to_string()))
}

/// The tools of a vacant on a node that runs: each call is one request there.
#[derive(Clone)]
struct RemoteTools {
    client: Arc<NodeClient>,
    agent: Option<String>,
}

impl RemoteTools {
    async fn ask(&self, name: &str, arguments: Map<String, Value>) -> Result<Told, Failure> {
        let params = json!({"name": name, "arguments": arguments});
        let body = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params});
        let path: Vec<&str> = match &self.agent {
            Some(agent) => vec!["agents", agent, "mcp"],
            None => vec!["mcp"],
        };
        let answered = self.client.post(&path, body.to_string()).await?;
        let mut told: Value = answered.value()?;
        let is_error = told["result"]["isError"] == true;
        match told["result"]["structuredContent"].take() {
            Value::Null => Err(Failure::no(format!(
                "the node has no such vacant: {}",
                answered.text()
            ))),
            structured => Ok(Told {
                structured,
                is_error,
            }),
        }
    }
}

impl Toolbox for RemoteTools {
    fn instructions(&self) -> String {
        "vacant_call takes a signed envelope; vacant_describe tells whom it is for.".to_owned()
    }

    fn tools(&self) -> Vec<ToolFace> {
        vacant_tools()
    }

    async fn call(&self, name: &str, arguments: Map<String, Value>) -> Option<Told> {
        if !vacant_tools().iter().any(|tool| tool.name == name) {
            return None;
        }
        let told = self.ask(name, arguments).await;
        Some(told.unwrap_or_else(|failure| Told {
            structured: json!({"error": failure.to_string(), "code": "TRANSPORT"}),
            is_error: true,
        }))
    }
}
