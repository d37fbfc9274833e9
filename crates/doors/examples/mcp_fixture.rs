//! A server for the official MCP conformance suite, on the same MCP module that a node serves its vacants with. It
//! offers the tools, resources and prompts that the suite asks for by name.
//!
//!     cargo run -p chancery-doors --example mcp_fixture -- 127.0.0.1:9998
#![allow(clippy::print_stdout, reason = "the program says where it listens")]

use std::time::Duration;

use chancery_core::keys::ed25519::SigningKey;
use chancery_doors::mcp::{Change, Client, Fault, List, Offer, router};
use serde_json::{Value, json};
use tokio::sync::broadcast;

/// A red pixel.
const PNG: &str =
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAIAAACQd1PeAAAADElEQVR4nGP4z8AAAAMBAQDJ/pLvAAAAAElFTkSuQmCC";
/// No sound at all.
const WAV: &str = "UklGRiQAAABXQVZFZm10IBAAAAABAAEAQB8AAEAfAAABAAgAZGF0YQAAAAA=";
/// The suite wants to see what is said before an answer arrive on its own.
const PAUSE: Duration = Duration::from_millis(50);
/// Who may answer for the client, by the method that asks it.
const ASKED: [(&str, &str); 3] = [
    ("elicitation", "elicitation/create"),
    ("sampling", "sampling/createMessage"),
    ("roots", "roots/list"),
];

#[tokio::main]
async fn main() -> std::io::Result<()> {
    let listen = std::env::args().nth(1);
    let listen = listen.unwrap_or_else(|| "127.0.0.1:9998".to_owned());
    let listener = tokio::net::TcpListener::bind(&listen).await?;
    let address = listener.local_addr()?.to_string();
    println!("{}", json!({"event": "listening", "http": address}));
    serve(listener).await
}

/// Serves the fixture at `/mcp`.
pub async fn serve(listener: tokio::net::TcpListener) -> std::io::Result<()> {
    let fixture = Fixture {
        changes: broadcast::Sender::new(16),
    };
    axum::serve(listener, router("/mcp", fixture)).await
}

#[derive(Clone)]
struct Fixture {
    changes: broadcast::Sender<Change>,
}

type Answered = Result<Value, Fault>;

impl Offer for Fixture {
    fn instructions(&self) -> String {
        "Everything here is for the conformance suite.".to_owned()
    }

    fn capabilities(&self) -> Value {
        json!({
            "tools": {"listChanged": true},
            "prompts": {"listChanged": true},
            "resources": {"subscribe": true, "listChanged": true},
            "completions": {},
            "logging": {},
        })
    }

    fn listed(&self, list: List) -> Option<Vec<Value>> {
        Some(match list {
            List::Tools => tools(),
            List::Prompts => prompts(),
            List::Resources => vec![
                resource("test://static-text", "Static text", "text/plain"),
                resource("test://static-binary", "Static binary", "image/png"),
                resource("test://watched-resource", "Watched", "text/plain"),
            ],
            List::Templates => vec![json!({
                "uriTemplate": "test://template/{id}/data",
                "name": "Template",
                "description": "says the id that it is asked for",
                "mimeType": "application/json",
            })],
        })
    }

    async fn answer(
        &self,
        method: &'static str,
        params: Value,
        client: Client,
    ) -> Result<Option<Value>, Fault> {
        Ok(Some(match method {
            "tools/call" => self.call(&params, &client).await?,
            "prompts/get" => prompt(&params)?,
            "resources/read" => read(params["uri"].as_str().unwrap_or_default())?,
            "completion/complete" => complete(&params),
            "logging/setLevel" | "resources/subscribe" | "resources/unsubscribe" => json!({}),
            _ => return Ok(None),
        }))
    }

    fn changes(&self) -> Option<broadcast::Receiver<Change>> {
        Some(self.changes.subscribe())
    }
}

impl Fixture {
    async fn call(&self, params: &Value, client: &Client) -> Answered {
        let name = params["name"].as_str().unwrap_or_default();
        if let Some(rest) = name.strip_prefix("test_input_required_result_") {
            return needs_input(rest, params, client);
        }
        Ok(match name {
            "test_simple_text" => said("This is a simple text response for testing."),
            "test_image_content" => content(vec![image()]),
            "test_audio_content" => content(vec![
                json!({"type": "audio", "data": WAV, "mimeType": "audio/wav"}),
            ]),
            "test_embedded_resource" => content(vec![embedded("test://embedded-resource")]),
            "test_multiple_content_types" => content(vec![
                text("Multiple content types test:"),
                image(),
                embedded("test://mixed-content-resource"),
            ]),
            "test_error_handling" => json!({
                "content": [text("This tool intentionally returns an error for testing")],
                "isError": true,
            }),
            "test_tool_with_logging" | "test_logging_tool" => logs(client).await,
            "test_tool_with_progress" => progresses(client).await,
            "test_trigger_tool_change" | "test_trigger_prompt_change" => {
                let changed = match name {
                    "test_trigger_tool_change" => Change::Tools,
                    _ => Change::Prompts,
                };
                // Nobody may be listening.
                let _ = self.changes.send(changed);
                said("changed")
            }
            "test_missing_capability" | "test_sampling" => sampled(params, client).await?,
            "test_streaming_elicitation" if client.is_modern() => {
                needs_input("elicitation", params, client)?
            }
            "test_elicitation" => elicited(client, who(), message(params)).await?,
            "test_elicitation_sep1034_defaults" => {
                elicited(client, with_defaults(), "Please check the values").await?
            }
            "test_elicitation_sep1330_enums" => {
                elicited(client, with_choices(), "Please choose").await?
            }
            "json_schema_2020_12_tool" => said("taken"),
            _ => return Err(Fault::invalid_params("there is no such tool")),
        })
    }
}

/// The tools, by name.
fn tools() -> Vec<Value> {
    let without_arguments = [
        "test_simple_text",
        "test_image_content",
        "test_audio_content",
        "test_embedded_resource",
        "test_multiple_content_types",
        "test_error_handling",
        "test_tool_with_logging",
        "test_logging_tool",
        "test_tool_with_progress",
        "test_trigger_tool_change",
        "test_trigger_prompt_change",
        "test_missing_capability",
        "test_streaming_elicitation",
        "test_elicitation_sep1034_defaults",
        "test_elicitation_sep1330_enums",
        "test_input_required_result_elicitation",
        "test_input_required_result_sampling",
        "test_input_required_result_list_roots",
        "test_input_required_result_request_state",
        "test_input_required_result_multiple_inputs",
        "test_input_required_result_multi_round",
        "test_input_required_result_tampered_state",
        "test_input_required_result_capabilities",
    ];
    let none = json!({"type": "object", "properties": {}});
    let tool = |name: &str, schema: &Value| json!({"name": name, "description": "for the conformance suite", "inputSchema": schema});
    let mut tools: Vec<Value> = without_arguments.map(|name| tool(name, &none)).into();
    for (name, argument) in [("test_sampling", "prompt"), ("test_elicitation", "message")] {
        let properties = json!({argument: {"type": "string"}});
        let schema = json!({"type": "object", "properties": properties, "required": [argument]});
        tools.push(tool(name, &schema));
    }
    tools.push(tool("json_schema_2020_12_tool", &whole_schema()));
    tools
}

/// Keywords of JSON Schema 2020-12 that a server must not lose on the way.
fn whole_schema() -> Value {
    json!({
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "type": "object",
        "$defs": {"address": {
            "$anchor": "addressDef",
            "type": "object",
            "properties": {"street": {"type": "string"}, "city": {"type": "string"}},
        }},
        "properties": {
            "name": {"type": "string"},
            "address": {"$ref": "#/$defs/address"},
            "contactMethod": {"type": "string", "enum": ["phone", "email"]},
            "phone": {"type": "string"},
            "email": {"type": "string"},
        },
        "allOf": [{"anyOf": [{"required": ["phone"]}, {"required": ["email"]}]}],
        "anyOf": [{"required": ["name"]}, {"required": ["address"]}],
        "if": {"properties": {"contactMethod": {"const": "phone"}}, "required": ["contactMethod"]},
        "then": {"required": ["phone"]},
        "else": {"required": ["email"]},
        "additionalProperties": false,
    })
}

fn prompts() -> Vec<Value> {
    let prompt = |name: &str, arguments: &[&str]| {
        let arguments = arguments.iter();
        let arguments = arguments.map(|name| json!({"name": name, "required": true}));
        let arguments: Vec<Value> = arguments.collect();
        json!({"name": name, "description": "for the conformance suite", "arguments": arguments})
    };
    vec![
        prompt("test_simple_prompt", &[]),
        prompt("test_prompt_with_arguments", &["arg1", "arg2"]),
        prompt("test_prompt_with_embedded_resource", &["resourceUri"]),
        prompt("test_prompt_with_image", &[]),
        prompt("test_input_required_result_prompt", &[]),
    ]
}

fn prompt(params: &Value) -> Answered {
    let argument = |name: &str| params["arguments"][name].as_str().unwrap_or_default();
    let messages = match params["name"].as_str().unwrap_or_default() {
        "test_simple_prompt" => vec![text("This is a simple prompt for testing.")],
        "test_prompt_with_arguments" => vec![text(&format!(
            "Prompt with arguments: arg1='{}', arg2='{}'",
            argument("arg1"),
            argument("arg2")
        ))],
        "test_prompt_with_embedded_resource" => vec![
            embedded(argument("resourceUri")),
            text("Please process the embedded resource above."),
        ],
        "test_prompt_with_image" => vec![image(), text("Please analyze the image above.")],
        "test_input_required_result_prompt" => match given(params, "user_context", "context") {
            Some(context) => vec![text(&format!("In the context of {context}"))],
            None => return Ok(ask("user_context", form("What context?", "context"), None)),
        },
        _ => return Err(Fault::invalid_params("there is no such prompt")),
    };
    let messages = messages.into_iter();
    let messages = messages.map(|content| json!({"role": "user", "content": content}));
    Ok(json!({"messages": messages.collect::<Vec<_>>()}))
}

fn read(uri: &str) -> Answered {
    let of_template = uri.strip_prefix("test://template/");
    let of_template = of_template.and_then(|rest| rest.strip_suffix("/data"));
    let contents = match (uri, of_template) {
        ("test://static-text" | "test://watched-resource", _) => json!({
            "uri": uri, "mimeType": "text/plain", "text": "This is the content of a text resource.",
        }),
        ("test://static-binary", _) => json!({"uri": uri, "mimeType": "image/png", "blob": PNG}),
        (_, Some(id)) => {
            let data =
                json!({"id": id, "templateTest": true, "data": format!("Data for ID: {id}")});
            json!({"uri": uri, "mimeType": "application/json", "text": data.to_string()})
        }
        _ => return Err(Fault::no_resource(uri)),
    };
    Ok(json!({"contents": [contents]}))
}

fn complete(params: &Value) -> Value {
    let begun = params["argument"]["value"].as_str().unwrap_or_default();
    let known = ["paris", "park", "party", "test"].into_iter();
    let values: Vec<&str> = known.filter(|value| value.starts_with(begun)).collect();
    json!({"completion": {"total": values.len(), "values": values, "hasMore": false}})
}

/// Messages for whoever wants them: in the newest revision a request says so.
async fn logs(client: &Client) -> Value {
    let is_wanted =
        !client.is_modern() || !client.meta()["io.modelcontextprotocol/logLevel"].is_null();
    for data in [
        "Tool execution started",
        "Tool processing data",
        "Tool execution completed",
    ] {
        if is_wanted {
            let params = json!({"level": "info", "logger": "fixture", "data": data});
            client.notify("notifications/message", params).await;
        }
        tokio::time::sleep(PAUSE).await;
    }
    said("logged")
}

async fn progresses(client: &Client) -> Value {
    let token = client.meta()["progressToken"].clone();
    for progress in [0, 50, 100] {
        if !token.is_null() {
            let params = json!({"progressToken": token, "progress": progress, "total": 100});
            client.notify("notifications/progress", params).await;
        }
        tokio::time::sleep(PAUSE).await;
    }
    said("done")
}

async fn sampled(params: &Value, client: &Client) -> Answered {
    if client.capabilities()["sampling"].is_null() {
        return Err(Fault::needs(json!({"sampling": {}})));
    }
    let prompt = params["arguments"]["prompt"].as_str().unwrap_or_default();
    let answer = client
        .ask("sampling/createMessage", question(prompt))
        .await?;
    Ok(said(&format!(
        "LLM response: {}",
        answer["content"]["text"]
    )))
}

async fn elicited(client: &Client, schema: Value, message: &str) -> Answered {
    if client.capabilities()["elicitation"].is_null() {
        return Err(Fault::needs(json!({"elicitation": {}})));
    }
    let params = json!({"message": message, "requestedSchema": schema});
    let answer = client.ask("elicitation/create", params).await?;
    let (action, content) = (&answer["action"], &answer["content"]);
    Ok(said(&format!(
        "User response: action={action}, content={content}"
    )))
}

/// A tool that finishes once the client has answered what its first result asks.
fn needs_input(name: &str, params: &Value, client: &Client) -> Answered {
    let state = params["requestState"].as_str().map(opened).transpose()?;
    Ok(match name {
        "elicitation" => match given(params, "user_name", "name") {
            Some(name) => said(&format!("Hello, {name}!")),
            None => ask("user_name", form("What is your name?", "name"), None),
        },
        "sampling" => {
            match params["inputResponses"]["capital_question"]["content"]["text"].as_str() {
                Some(answer) => said(answer),
                None => ask(
                    "capital_question",
                    sampling("What is the capital of France?"),
                    None,
                ),
            }
        }
        "list_roots" => match params["inputResponses"]["client_roots"]["roots"].as_array() {
            Some(roots) => said(&format!("{} roots", roots.len())),
            None => ask("client_roots", roots(), None),
        },
        "request_state" | "tampered_state" => match (given(params, "confirm", "ok"), state) {
            (Some(_), Some(_)) => said("state-ok"),
            _ => ask("confirm", form("Please confirm", "ok"), Some("asked")),
        },
        "multi_round" => match state.as_deref() {
            Some("2") => said("done"),
            Some(_) => ask("step2", form("Step 2: which color?", "color"), Some("2")),
            None => ask("step1", form("Step 1: which name?", "name"), Some("1")),
        },
        "multiple_inputs" if state.is_some() => said("all of it"),
        "multiple_inputs" | "capabilities" => {
            let mut asked = json!({
                "user_name": form("What is your name?", "name"),
                "greeting": sampling("Generate a greeting"),
                "client_roots": roots(),
            });
            let can = client.capabilities();
            let is_declared = |method: &Value| {
                let asked = ASKED.iter().find(|(_, asked)| method == asked);
                asked.is_some_and(|(capability, _)| !can[capability].is_null())
            };
            if let Some(asked) = asked.as_object_mut() {
                asked.retain(|_, request| is_declared(&request["method"]));
            }
            json!({"resultType": "input_required", "inputRequests": asked, "requestState": sealed("1")})
        }
        _ => return Err(Fault::invalid_params("there is no such tool")),
    })
}

/// One member of what the client filled in, as text.
fn given(params: &Value, key: &str, member: &str) -> Option<String> {
    let response = &params["inputResponses"][key];
    match &response["content"][member] {
        Value::Null => None,
        Value::String(text) => Some(text.clone()),
        other => Some(other.to_string()),
    }
}

/// A result that asks for one thing.
fn ask(key: &str, request: Value, state: Option<&str>) -> Value {
    let mut result = json!({"resultType": "input_required", "inputRequests": {key: request}});
    if let Some(state) = state {
        result["requestState"] = sealed(state).into();
    }
    result
}

/// A state that nobody else can make: it comes back from the client.
fn sealed(state: &str) -> String {
    let signature = key().sign(state.as_bytes());
    let hex: String = signature.iter().map(|byte| format!("{byte:02x}")).collect();
    format!("{state}.{hex}")
}

fn opened(sealed_state: &str) -> Result<String, Fault> {
    let state = sealed_state.split('.').next().unwrap_or_default();
    if sealed(state) != sealed_state {
        return Err(Fault::invalid_params(
            "the state is not one of this server's",
        ));
    }
    Ok(state.to_owned())
}

/// The fixture keeps no secret from anybody.
fn key() -> SigningKey {
    SigningKey::from_seed(&[7; 32])
}

fn form(message: &str, member: &str) -> Value {
    let schema = json!({
        "type": "object",
        "properties": {member: {"type": if member == "ok" { "boolean" } else { "string" }}},
        "required": [member],
    });
    json!({"method": "elicitation/create", "params": {"mode": "form", "message": message, "requestedSchema": schema}})
}

fn sampling(text: &str) -> Value {
    json!({"method": "sampling/createMessage", "params": question(text)})
}

fn question(prompt: &str) -> Value {
    json!({"messages": [{"role": "user", "content": text(prompt)}], "maxTokens": 100})
}

fn roots() -> Value {
    json!({"method": "roots/list", "params": {}})
}

fn message(params: &Value) -> &str {
    params["arguments"]["message"].as_str().unwrap_or_default()
}

fn who() -> Value {
    json!({
        "type": "object",
        "properties": {"username": {"type": "string"}, "email": {"type": "string"}},
        "required": ["username", "email"],
    })
}

fn with_defaults() -> Value {
    json!({"type": "object", "properties": {
        "name": {"type": "string", "default": "John Doe"},
        "age": {"type": "integer", "default": 30},
        "score": {"type": "number", "default": 95.5},
        "status": {"type": "string", "enum": ["active", "inactive", "pending"], "default": "active"},
        "verified": {"type": "boolean", "default": true},
    }})
}

fn with_choices() -> Value {
    let titled = |what: &str| {
        let titles = ["First", "Second", "Third"].into_iter().zip(1..);
        let titles = titles.map(
            |(title, n)| json!({"const": format!("value{n}"), "title": format!("{title} {what}")}),
        );
        titles.collect::<Vec<_>>()
    };
    let plain = json!(["option1", "option2", "option3"]);
    json!({"type": "object", "properties": {
        "untitledSingle": {"type": "string", "enum": plain},
        "titledSingle": {"type": "string", "oneOf": titled("Option")},
        "legacyEnum": {
            "type": "string",
            "enum": ["opt1", "opt2", "opt3"],
            "enumNames": ["Option One", "Option Two", "Option Three"],
        },
        "untitledMulti": {"type": "array", "items": {"type": "string", "enum": plain}},
        "titledMulti": {"type": "array", "items": {"anyOf": titled("Choice")}},
    }})
}

fn resource(uri: &str, name: &str, media_type: &str) -> Value {
    json!({"uri": uri, "name": name, "description": "for the conformance suite", "mimeType": media_type})
}

fn text(text: &str) -> Value {
    json!({"type": "text", "text": text})
}

fn image() -> Value {
    json!({"type": "image", "data": PNG, "mimeType": "image/png"})
}

fn embedded(uri: &str) -> Value {
    let resource = json!({"uri": uri, "mimeType": "text/plain", "text": "This is an embedded resource content."});
    json!({"type": "resource", "resource": resource})
}

fn content(blocks: Vec<Value>) -> Value {
    json!({ "content": blocks })
}

fn said(words: &str) -> Value {
    content(vec![text(words)])
}
