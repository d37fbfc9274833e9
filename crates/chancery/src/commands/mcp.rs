//! `chancery mcp`: one vacant's tools, or the node's own, over MCP on standard input and output (VA-MCP-2, CH-NET-5).

use std::sync::Arc;

use chancery_doors::http::{VacantTools, node_tools, vacant_tools};
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
    /// The node's own tools instead: its log, and sending as its agents
    #[arg(long = "node", conflicts_with = "agent")]
    whole_node: bool,
    #[command(flatten)]
    node: NodeArgs,
}

/// Serves until the input ends. Nothing but the protocol is written to standard output.
pub(crate) fn run(args: &McpArgs, sources: &dyn Fn(Flags) -> Sources) -> Outcome {
    log_to_stderr()?;
    let client = args.node.client(sources);
    let runtime = runtime()?;
    let served = runtime.block_on(async {
        match client {
            Ok(client) if args.node.is_named() || client.get(&["healthz"]).await.is_ok() => {
                let served = match args.whole_node {
                    true => Served::Node,
                    false => Served::Vacant(args.agent.clone()),
                };
                through(client, served).await
            }
            Err(failure) if args.node.is_named() => Err(failure),
            _ => {
                let config = Config::load(&sources(Flags::default()))?;
                match args.whole_node {
                    true => whole_node(&config).await,
                    false => by_itself(&config, args.agent.as_deref()).await,
                }
            }
        }
    });
    // Standard input may still be read on a thread of its own.
    runtime.shutdown_background();
    served?;
    Ok(Exit::Done)
}

/// Through a node that runs.
async fn through(client: NodeClient, what: Served) -> Result<(), Failure> {
    let mut tools = RemoteTools {
        client: Arc::new(client),
        faces: what.faces(),
        what,
    };
    if tools.what == Served::Node {
        // Which of them there are is for the token's scopes to say.
        let named = tools.listed().await?;
        tools
            .faces
            .retain(|face| named.iter().any(|name| name == face.name));
    }
    served(serve_stdio(tools).await)
}

/// The node's own tools, with a node of its own: who may open the store may do anything.
async fn whole_node(config: &Config) -> Result<(), Failure> {
    let host = Host::start(config).await?;
    let ended = served(serve_stdio(host.tools()).await);
    host.stop().await?;
    ended
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

/// Whose tools are served.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Served {
    /// Those of a vacant; without a name of the default one.
    Vacant(Option<String>),
    /// The node's own.
    Node,
}

impl Served {
    fn path(&self) -> Vec<&str> {
        match self {
            Self::Vacant(Some(agent)) => vec!["agents", agent, "mcp"],
            Self::Vacant(None) => vec!["mcp"],
            Self::Node => vec!["mcp", "node"],
        }
    }

    fn faces(&self) -> Vec<ToolFace> {
        match self {
            Self::Vacant(_) => vacant_tools(),
            Self::Node => node_tools(),
        }
    }
}

/// The tools of a node that runs: each call is one request there.
#[derive(Clone)]
struct RemoteTools {
    client: Arc<NodeClient>,
    what: Served,
    faces: Vec<ToolFace>,
}

impl RemoteTools {
    async fn ask(&self, name: &str, arguments: Map<String, Value>) -> Result<Told, Failure> {
        let params = json!({"name": name, "arguments": arguments});
        let body = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params});
        let answered = self
            .client
            .post(&self.what.path(), body.to_string())
            .await?;
        let mut told: Value = answered.value()?;
        let is_error = told["result"]["isError"] == true;
        match told["result"]["structuredContent"].take() {
            Value::Null => Err(Failure::no(format!(
                "the node has no such tool: {}",
                answered.text()
            ))),
            structured => Ok(Told {
                structured,
                is_error,
            }),
        }
    }
}

impl RemoteTools {
    /// The names of the tools that the node shows to this token.
    async fn listed(&self) -> Result<Vec<String>, Failure> {
        let body = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": {}});
        let answered = self
            .client
            .post(&self.what.path(), body.to_string())
            .await?;
        let told: Value = answered.done("the node's tools")?.value()?;
        let tools = told["result"]["tools"].as_array();
        let names = tools.into_iter().flatten();
        let names = names.filter_map(|tool| tool["name"].as_str().map(str::to_owned));
        Ok(names.collect())
    }
}

impl Toolbox for RemoteTools {
    fn instructions(&self) -> String {
        if self.what == Served::Node {
            return "Tools of a chancery node: its log, and sending as the agents that it hosts."
                .to_owned();
        }
        "vacant_call takes a signed envelope; vacant_describe tells whom it is for.".to_owned()
    }

    fn tools(&self) -> Vec<ToolFace> {
        self.faces.clone()
    }

    async fn call(&self, name: &str, arguments: Map<String, Value>) -> Option<Told> {
        if !self.faces.iter().any(|tool| tool.name == name) {
            return None;
        }
        let told = self.ask(name, arguments).await;
        Some(told.unwrap_or_else(|failure| Told {
            structured: json!({"error": failure.to_string(), "code": "TRANSPORT"}),
            is_error: true,
        }))
    }
}
