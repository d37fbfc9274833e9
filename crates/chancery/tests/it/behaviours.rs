//! Behaviours of a served node: scripts, web services, models and MCP servers that answer for vacants, and a model that
//! decides for an agent of vibe.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::sync::mpsc;

use chancery_testkit::installed::official_client;
use serde_json::{Value, json};

use crate::market::world;
use crate::support::Place as Folder;
use crate::wire::segment;

/// How a request is answered; none for never.
type Answers = fn(&Value) -> Option<(&'static str, String)>;

/// A server that answers each request by its body, and tells what it was asked.
pub struct Service {
    pub url: String,
    pub asked: mpsc::Receiver<(String, Value)>,
}

impl Service {
    pub fn start(answers: Answers) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let (tell, asked) = mpsc::channel();
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let tell = tell.clone();
                std::thread::spawn(move || serve(stream.unwrap(), answers, &tell));
            }
        });
        Self { url, asked }
    }
}

fn serve(mut stream: TcpStream, answers: Answers, tell: &mpsc::Sender<(String, Value)>) {
    let mut reader = BufReader::new(stream.try_clone().unwrap());
    let (mut head, mut length) = (String::new(), 0);
    loop {
        let mut line = String::new();
        if reader.read_line(&mut line).unwrap_or(0) == 0 {
            return;
        }
        if let Some(value) = line.to_lowercase().strip_prefix("content-length:") {
            length = value.trim().parse().unwrap();
        }
        if line == "\r\n" {
            break;
        }
        head.push_str(&line);
    }
    let mut body = vec![0; length];
    reader.read_exact(&mut body).unwrap();
    let body: Value = serde_json::from_slice(&body).unwrap();
    let answer = answers(&body);
    let _ = tell.send((head, body));
    let Some((media_type, text)) = answer else {
        // Held open until whoever asked is gone.
        let _ = reader.read(&mut [0]);
        return;
    };
    let answer = format!(
        "HTTP/1.1 200 OK\r\ncontent-type: {media_type}\r\ncontent-length: {}\r\nconnection: close\r\n\r\n{text}",
        text.len()
    );
    let _ = stream.write_all(answer.as_bytes());
}

/// A chat completion, streamed.
fn streamed(said: &str) -> (&'static str, String) {
    let chunk =
        json!({"choices": [{"index": 0, "delta": {"content": said}, "finish_reason": null}]});
    let end = json!({"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]});
    let usage = json!({"choices": [], "usage": {"prompt_tokens": 12, "completion_tokens": 3}});
    let events = [chunk, end, usage].map(|event| format!("data: {event}\n\n"));
    let text = format!("{}data: [DONE]\n\n", events.concat());
    ("text/event-stream", text)
}

/// A folder whose node hosts bob with that behaviour.
fn folder(behaviour: &str, more: &str) -> Folder {
    let folder = Folder::new()
        .with("CHANCERY_LISTEN", "127.0.0.1:0")
        .with("CHANCERY_DATA", "data")
        .with("CHANCERY_DEV", "true");
    folder.run(&["vacant", "init", "bob.key"]).exits(0);
    folder.run(&["vacant", "init", "ada.key"]).exits(0);
    let agent = format!(
        "[[vacant.agent]]\nname = \"bob\"\nseed = \"bob.key\"\nstate = \"ACTIVE\"\n\
         capability = \"answers\"\nbehaviour = '{behaviour}'\n{more}"
    );
    folder.write("chancery.toml", agent);
    folder
}

fn call(folder: &Folder, address: std::net::SocketAddr, text: &str) -> crate::support::Ran {
    let url = format!("http://{address}");
    let rest = ["--key", "ada.key", "--text", text];
    folder.run(&[&["vacant", "call", &url][..], &rest].concat())
}

pub fn checked(folder: &Folder) {
    folder.run(&["log", "verify"]).exits(0);
    folder.run(&["log", "replay"]).exits(0);
}

// CH-CFG-1, CH-CFG-3
#[test]
fn a_script_answers_for_a_vacant() {
    let folder = folder("script:script.json", "");
    let script = json!({"turns": [
        {"when": {"text": "how are you?"}, "outputs": ["well"]},
        {"when": {"protocol": "vacant", "text": "silence"}, "outputs": []},
        {"outputs": [{"text": "$inbound.text"}]},
    ]});
    folder.write("script.json", script.to_string());
    let node = folder.serve();
    let said = |text| call(&folder, node.address, text);
    assert_eq!(said("how are you?").exits(0).text(), "well\n");
    assert_eq!(said("hello").exits(0).text(), "hello\n");
    let failed = said("silence").exits(1);
    assert!(failed.err.contains("BEHAVIOUR_FAILED"), "{}", failed.err);
    assert_eq!(said("again").exits(0).text(), "again\n");
    node.stop_well();
    checked(&folder);
}

/// The request has the form of its schema, under the vacant's own signature.
// CH-CFG-1
#[test]
fn a_web_service_answers_for_a_vacant() {
    let service = Service::start(|body| {
        let text = body["context"]["inbound"]["text"].as_str()?;
        let answer = match text {
            "garbage" => "[1, 2".to_owned(),
            text => json!({"text": format!("heard {text}")}).to_string(),
        };
        Some(("application/json", answer))
    });
    let folder = folder(&format!("http:{}/ask", service.url), "");
    let node = folder.serve();
    let said = call(&folder, node.address, "hello").exits(0).text();
    assert_eq!(said, "heard hello\n");
    let (head, body) = service.asked.recv().unwrap();
    assert!(head.starts_with("POST /ask "), "{head}");
    assert!(head.contains("signature-input: sig1="), "{head}");
    let schemas = Path::new(env!("CARGO_MANIFEST_DIR")).join("../agents/schemas");
    let schema = std::fs::read(schemas.join("question.json")).unwrap();
    let schema: Value = serde_json::from_slice(&schema).unwrap();
    let required = schema["properties"]["context"]["properties"]["inbound"]["required"].as_array();
    for member in required.unwrap() {
        assert!(!body["context"]["inbound"][member.as_str().unwrap()].is_null());
    }
    let failed = call(&folder, node.address, "garbage").exits(1);
    assert!(failed.err.contains("BEHAVIOUR_FAILED"), "{}", failed.err);
    let metrics = node.wire().get("/metrics").unwrap().text();
    let fault = "chancery_agent_faults_total{agent=\"bob\",code=\"http_answer\"} 1";
    assert!(metrics.contains(fault), "{metrics}");
    node.stop_well();
    checked(&folder);
}

/// `kill -9` while a web service thinks: the call is closed, the service is not asked twice, and the caller goes on.
// CH-JRN-16, CH-NET-3, VA-SRV-12
#[test]
fn a_kill_while_a_service_thinks_closes_the_call() {
    let service = Service::start(|body| {
        let text = body["context"]["inbound"]["text"].as_str()?;
        (text != "think").then(|| ("application/json", json!({"text": "done"}).to_string()))
    });
    let folder = folder(&format!("http:{}", service.url), "");
    let node = folder.serve();
    let url = format!("http://{}", node.address);
    let mut asking = folder
        .command(&[
            "vacant", "call", &url, "--key", "ada.key", "--text", "think",
        ])
        .stdout(std::process::Stdio::null())
        .stderr(std::process::Stdio::null())
        .spawn()
        .unwrap();
    let (_, asked) = service.asked.recv().unwrap();
    assert_eq!(asked["context"]["inbound"]["text"], "think");
    node.kill();
    assert!(!asking.wait().unwrap().success());
    let node = folder.serve();
    let log = folder.log_lines();
    let closed = log.iter().filter(|line| line.contains("\"interrupted\""));
    assert_eq!(closed.count(), 1);
    assert!(service.asked.try_recv().is_err(), "nobody asked again");
    node.stop_well();
    checked(&folder);
}

// CH-CFG-1
#[test]
fn a_model_answers_for_a_vacant() {
    let service = Service::start(|body| {
        let asked = body["messages"][1]["content"].as_str()?;
        asked.contains("hello").then(|| streamed("good day"))
    });
    let model = format!(
        "instructions = \"role.txt\"\n[model.small]\nurl = \"{}/v1\"\nmodel = \"tiny\"\nkey_file = \"model.key\"\n",
        service.url
    );
    let folder = folder("model:small", &model);
    folder.write("role.txt", "Be polite.");
    folder.write("model.key", "sk-never-seen\n");
    let node = folder.serve();
    let said = call(&folder, node.address, "hello").exits(0).text();
    assert_eq!(said, "good day\n");
    let (head, body) = service.asked.recv().unwrap();
    assert!(head.starts_with("POST /v1/chat/completions "), "{head}");
    assert!(
        head.contains("authorization: Bearer sk-never-seen"),
        "{head}"
    );
    assert_eq!(body["model"], "tiny");
    assert!(body.get("response_format").is_none(), "words, no decisions");
    let told = body["messages"][1]["content"].as_str().unwrap();
    assert!(told.contains("Be polite."), "{told}");
    node.stop_well();
    checked(&folder);
    assert!(!folder.read("data/audit.jsonl").contains("sk-never-seen"));
}

/// An agent of vibe with `model:NAME` decides by what the model says (VC-TURN-11); its tokens are counted.
#[test]
fn a_model_decides_for_an_agent_of_vibe() {
    let service = Service::start(|body| {
        let asked = body["messages"][1]["content"].as_str()?;
        let decision = if asked.contains("is it quiet?") {
            let inbound = asked.split("## inbound\n").nth(1)?;
            let inbound = inbound.split("\n\n## ").next()?;
            let inbound: Value = serde_json::from_str(inbound).ok()?;
            json!({
                "decision": "emit_envelope", "to": inbound["from"], "in_reply_to": inbound["msg_id"],
                "idempotency_key": null,
                "action": {"kind": "commerce.respond_inquiry", "payload": {"answer": "as a mouse"}},
            })
        } else {
            json!({"decision": "no_reply", "reason": "no question"})
        };
        Some(streamed(&decision.to_string()))
    });
    let folder = Folder::new();
    folder.write("world.json", world().to_string());
    let config = format!(
        "listen = \"127.0.0.1:0\"\ndata = \"data\"\ndev = true\n[vibe]\nworld = \"world.json\"\n\
         [[vibe.agent]]\nname = \"keys\"\naddress = \"merchant\"\nmerchant_id = \"m_keys\"\nbehaviour = \"model:small\"\n\
         [model.small]\nurl = \"{}/v1\"\nmodel = \"tiny\"\nprice_in = \"0.15\"\nprice_out = \"0.60\"\n",
        service.url
    );
    folder.write("chancery.toml", config);
    let node = folder.serve();
    let mut wire = node.wire();
    for envelope in [
        crate::agents::mandate("s1"),
        crate::agents::question("s1", 0),
    ] {
        let body = envelope.to_string();
        wire.post("/vcp", body.as_bytes()).unwrap().ok();
    }
    let inbox = segment("buyer:negotiation");
    let page = wire.get(&format!("/inbox/vibe/{inbox}?session_id=s1&wait=60"));
    let page = page.unwrap().ok();
    let payload = &page["entries"][0]["envelope"]["action"]["payload"];
    assert_eq!(payload["answer"], "as a mouse", "{page}");
    let (_, body) = service.asked.recv().unwrap();
    assert_eq!(body["response_format"]["type"], "json_schema");
    loop {
        let metrics = wire.get("/metrics").unwrap().text();
        if metrics.contains("chancery_agent_tokens_total{agent=\"keys\"} 15") {
            break;
        }
    }
    node.stop_well();
    checked(&folder);
}

// VA-SUB-3, CH-NET-3: the child ends with the node.
#[test]
fn an_mcp_server_answers_for_a_vacant_and_ends_with_the_node() {
    let servers = Path::new(env!("CARGO_MANIFEST_DIR")).join("../agents/tests/servers");
    let (python, script) = (
        official_client("mcp-1").join("bin/python"),
        servers.join("mcp_1.py"),
    );
    let behaviour = format!("mcp:{} -B \"{}\"", python.display(), script.display());
    let folder = folder(&behaviour, "tool = \"infer\"\n");
    let node = folder.serve();
    let said = call(&folder, node.address, "hello").exits(0).text();
    assert!(said.starts_with("2025-11-25: hello (bob, "), "{said}");
    let process = said.trim().rsplit(' ').next().unwrap();
    let process = format!("/proc/{}", process.trim_end_matches(')'));
    assert!(Path::new(&process).exists());
    node.stop_well();
    while Path::new(&process).exists() {
        std::thread::yield_now();
    }
    checked(&folder);
}

// CH-CFG-1: what cannot be is told with its place, and nothing starts.
#[test]
fn a_behaviour_that_cannot_be_is_refused_at_the_start() {
    let cases = [
        ("telepathy", "", "mcp:URL or command"),
        ("rules:buyer", "", "echo"),
        ("model:small", "", "[model.small]"),
        ("mcp:http://127.0.0.1:1/mcp", "", "tool"),
        ("mcp:\"open", "tool = \"t\"\n", "command line"),
        ("script:none.json", "", "none.json"),
        ("http:ftp://x", "", "http:URL"),
    ];
    for (behaviour, more, says) in cases {
        let folder = folder(behaviour, more);
        let told = folder.refuses_to_serve(&[]).exits(2);
        assert!(told.err.contains(says), "{behaviour}: {}", told.err);
    }
}
