//! Two agents in two processes, each a node by itself: the child asks for help, the parent lets it go on.
//!
//! `parent_child parent` and `parent_child child` each print the address they listen on as their first line and read the
//! other's as their first line of input.

use std::io::{BufRead as _, Write as _, stdin, stdout};

use chancery_client::{Asked, Embedded, Error, Payload, Place, Severity, Verdict};

const PARENT: &str = "agent://home.local/parent";
const CHILD: &str = "agent://home.local/child";

async fn parent() -> Result<(), Error> {
    let node = Embedded::start(&world(PARENT), Place::Memory, here()).await?;
    introduce(&node, CHILD);
    let mut agent = node.agent(PARENT);
    loop {
        let incoming = agent.next().await?;
        if let Payload::Escalation(asked) = &incoming.payload {
            say(&format!("{}: {}", asked.severity.as_str(), asked.reason));
            agent.answer(&incoming, Verdict::Resolve(vec![])).await?;
            agent.acknowledge(&incoming).await?;
            break;
        }
    }
    wait_for_the_end();
    node.stop().await
}

async fn child() -> Result<(), Error> {
    let node = Embedded::start(&world(CHILD), Place::Memory, here()).await?;
    introduce(&node, PARENT);
    let agent = node.agent(CHILD);
    let asked = Asked {
        severity: Severity::Critical,
        reason: "the stove is on and nobody is in the kitchen",
        blocked_action: Some("leave the house"),
    };
    let escalated = agent.escalate(PARENT, asked).await?;
    say(&format!("{:?}", escalated.outcome().await?));
    agent.until_running().await?;
    let operation = agent.begin_operation().await?;
    say("it goes on");
    agent.end_operation(operation);
    wait_for_the_end();
    node.stop().await
}

#[tokio::main]
async fn main() -> Result<(), Error> {
    match std::env::args().nth(1).as_deref() {
        Some("parent") => parent().await,
        Some("child") => child().await,
        _ => Err(Error::Given("say parent or child".to_owned())),
    }
}

/// The world of one of the two: who it is, whom it knows, and its key. Keys this simple are for an example only.
fn world(of: &str) -> String {
    let (parent, children, seed) = match of {
        PARENT => ("null".to_owned(), format!("[\"{CHILD}\"]"), "01".repeat(32)),
        _ => (format!("\"{PARENT}\""), "[]".to_owned(), "02".repeat(32)),
    };
    let key = |public: &str| {
        format!(
            r#"{{"type":"agent","keys":[{{"id":"k-01","algorithm":"ed25519","public_key":"base64:{public}","state":"active","valid_from":"2020-01-01T00:00:00Z","valid_until":"9999-12-31T23:59:59Z"}}]}}"#
        )
    };
    let (of_parent, of_child) = (
        key("iojj3XQJ8ZX9UtstPLpdcspnCb8dlBIb83SIAbQPb1w="),
        key("gTl3Dqh9F19Wo1Rmw0x+zMuNipG07jeiXfYPW4/Js5Q="),
    );
    format!(
        r#"{{"trust":{{"trust_anchors":{{"{PARENT}":{of_parent},"{CHILD}":{of_child}}}}},
            "local_agents":[{{"id":"{of}","parent":{parent},"children":{children},"peers":[]}}],
            "secret_seeds_hex":{{"{of}":"{seed}"}}}}"#
    )
}

fn here() -> Option<std::net::SocketAddr> {
    Some(([127, 0, 0, 1], 0).into())
}

fn introduce(node: &Embedded, other: &str) {
    say(&node.address().unwrap_or_default());
    node.set_address(other, &hear());
}

fn say(line: &str) {
    let mut out = stdout().lock();
    // Nobody listens any more: then there is nobody to tell.
    let _ = writeln!(out, "{line}").and_then(|()| out.flush());
}

fn hear() -> String {
    let mut line = String::new();
    let _ = stdin().lock().read_line(&mut line);
    line.trim_end().to_owned()
}

/// The other side may still be waiting for an answer.
fn wait_for_the_end() {
    hear();
}
