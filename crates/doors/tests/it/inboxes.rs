//! Durable inboxes over HTTP: paging, waiting, streaming, acknowledging.

use std::time::Duration;

use chancery_doors::http::HttpLimits;
use reqwest::RequestBuilder;
use serde_json::{Value, json};

use crate::kept::Kept;
use crate::support::{KITCHEN, Running, Setup, answer, inbox_of, share};

async fn inbox(node: &Running, query: &str) -> Value {
    let (status, body) = answer(
        node.get(&format!("{}{query}", inbox_of(KITCHEN)))
            .send()
            .await
            .unwrap(),
    )
    .await;
    assert_eq!(status, 200, "{body}");
    body
}

fn seqs(page: &Value) -> Vec<u64> {
    page["entries"]
        .as_array()
        .unwrap()
        .iter()
        .map(|entry| entry["seq"].as_u64().unwrap())
        .collect()
}

async fn acknowledge(node: &Running, through: u64) -> (u16, Value) {
    let body = json!({ "through": through }).to_string();
    answer(
        node.post(&format!("{}/ack", inbox_of(KITCHEN)), body)
            .send()
            .await
            .unwrap(),
    )
    .await
}

// CH-JRN-15, interface section 2
#[tokio::test(flavor = "multi_thread")]
async fn pages_follow_each_other_and_reading_consumes_nothing() {
    let node = Setup::default().start().await;
    for number in 0..5 {
        assert_eq!(node.share(share(number)).await.0, 200);
    }
    let all = inbox(&node, "").await;
    assert_eq!(seqs(&all).len(), 5);
    let first = inbox(&node, "?limit=2").await;
    let second = inbox(&node, &format!("?limit=2&after={}", first["next"])).await;
    assert_eq!([seqs(&first), seqs(&second)].concat(), seqs(&all)[..4]);
    let last = all["next"].as_u64().unwrap();
    let empty = inbox(&node, &format!("?after={last}")).await;
    assert_eq!(empty, json!({"entries": [], "next": last}));
    assert_eq!(inbox(&node, "").await, all);
    node.stop().await;
}

// CH-JRN-15
#[tokio::test(flavor = "multi_thread")]
async fn the_acknowledged_cursor_survives_a_restart() {
    acknowledged(Kept::on_files()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_acknowledged_cursor_survives_a_restart_also_in_postgresql() {
    acknowledged(Kept::in_postgresql()).await;
}

async fn acknowledged(kept: Kept) {
    let node = Setup {
        store: kept.open(),
        ..Setup::default()
    }
    .start()
    .await;
    for number in 0..3 {
        assert_eq!(node.share(share(number)).await.0, 200);
    }
    let all = seqs(&inbox(&node, "").await);
    assert_eq!(
        acknowledge(&node, all[1]).await,
        (200, json!({"through": all[1]}))
    );
    // It never goes back, nor beyond what is there.
    assert_eq!(
        acknowledge(&node, all[0]).await,
        (200, json!({"through": all[1]}))
    );
    node.stop().await;

    let node = Setup {
        store: kept.open(),
        ..Setup::default()
    }
    .start()
    .await;
    assert_eq!(seqs(&inbox(&node, "").await), all[2..]);
    assert_eq!(seqs(&inbox(&node, "?after=0").await), all);
    assert_eq!(
        acknowledge(&node, 1_000_000).await,
        (200, json!({"through": all[2]}))
    );
    assert_eq!(
        inbox(&node, "").await,
        json!({"entries": [], "next": all[2]})
    );
    assert_eq!(node.share(share(0)).await.1["status"], "duplicate");
    node.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_long_poll_wakes_when_something_comes_and_ends_when_nothing_does() {
    let node = Setup::default().start().await;
    assert_eq!(inbox(&node, "?wait=1").await["entries"], json!([]));
    let waiting = {
        let request = node.get(&format!("{}?wait=30", inbox_of(KITCHEN)));
        tokio::spawn(async move { answer(request.send().await.unwrap()).await })
    };
    while node_watchers(&node).await == 0 {
        tokio::task::yield_now().await;
    }
    assert_eq!(node.share(share(1)).await.0, 200);
    let (status, page) = waiting.await.unwrap();
    assert_eq!((status, seqs(&page).len()), (200, 1));
    node.stop().await;
}

/// Long-polls and streams that wait, as the figures tell.
async fn node_watchers(node: &Running) -> u64 {
    let text = node
        .get("/metrics")
        .send()
        .await
        .unwrap()
        .text()
        .await
        .unwrap();
    let line = text
        .lines()
        .find(|line| line.starts_with("chancery_bound_used{bound=\"watchers\"}"))
        .unwrap();
    line.rsplit(' ').next().unwrap().parse().unwrap()
}

/// A stream of an inbox.
pub struct Events {
    response: reqwest::Response,
    text: String,
}

impl Events {
    async fn open(node: &Running, query: &str, header: Option<(&str, &str)>) -> Self {
        let mut request = node
            .get(&format!("{}{query}", inbox_of(KITCHEN)))
            .header("accept", "text/event-stream");
        if let Some((name, value)) = header {
            request = request.header(name, value);
        }
        Self::of(request).await
    }

    /// The answer to a request for a stream.
    pub async fn of(request: RequestBuilder) -> Self {
        let response = request.send().await.unwrap();
        assert_eq!(response.status(), 200);
        assert_eq!(response.headers()["content-type"], "text/event-stream");
        Self {
            response,
            text: String::new(),
        }
    }

    /// The next event: its id and data.
    pub async fn next(&mut self) -> (u64, Value) {
        loop {
            while let Some((event, rest)) = self.text.split_once("\n\n") {
                let (event, rest) = (event.to_owned(), rest.to_owned());
                self.text = rest;
                if event.starts_with(':') {
                    continue;
                }
                let lines: Vec<&str> = event.lines().collect();
                assert_eq!(lines[0], "event: envelope");
                let id = lines[1].strip_prefix("id: ").unwrap().parse().unwrap();
                return (
                    id,
                    serde_json::from_str(lines[2].strip_prefix("data: ").unwrap()).unwrap(),
                );
            }
            let part = self
                .response
                .chunk()
                .await
                .unwrap()
                .expect("the stream goes on");
            self.text.push_str(std::str::from_utf8(&part).unwrap());
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stream_tells_what_is_there_and_what_comes() {
    let limits = HttpLimits {
        stop_timeout: Duration::from_secs(600),
        ..HttpLimits::default()
    };
    let node = Setup {
        limits,
        ..Setup::default()
    }
    .start()
    .await;
    assert_eq!(node.share(share(1)).await.0, 200);
    let mut events = Events::open(&node, "", None).await;
    let (first, entry) = events.next().await;
    assert_eq!(entry, inbox(&node, "").await["entries"][0]);
    assert_eq!(entry["seq"], json!(first));
    assert_eq!(node.share(share(2)).await.0, 200);
    let (second, entry) = events.next().await;
    assert!(second > first);
    assert_eq!(
        entry["envelope"]["message_id"],
        crate::support::message_id(2)
    );
    // A client that comes back goes on where it was.
    let mut again = Events::open(&node, "", Some(("last-event-id", &first.to_string()))).await;
    assert_eq!(again.next().await.0, second);
    // Streams end with the door, well before its limit.
    tokio::time::timeout(Duration::from_secs(60), node.stop())
        .await
        .unwrap();
    while let Ok(Some(_)) = events.response.chunk().await {}
}

#[tokio::test(flavor = "multi_thread")]
async fn an_agent_that_is_not_hosted_has_no_inbox_and_no_state() {
    let node = Setup::default().start().await;
    for path in [
        inbox_of("agent://home.local/nobody"),
        "/state/value-context/nobody".to_owned(),
    ] {
        assert_eq!(
            node.get(&path).send().await.unwrap().status(),
            404,
            "{path}"
        );
    }
    let ack = format!("{}/ack", inbox_of("nobody"));
    assert_eq!(
        node.post(&ack, "{\"through\":1}")
            .send()
            .await
            .unwrap()
            .status(),
        404
    );
    for body in [
        "",
        "{}",
        "{\"through\":-1}",
        "{\"through\":1,\"x\":2}",
        "[]",
    ] {
        let ack = format!("{}/ack", inbox_of(KITCHEN));
        assert_eq!(
            node.post(&ack, body).send().await.unwrap().status(),
            400,
            "{body}"
        );
    }
    let state = node.get(&format!(
        "/state/value-context/{}",
        crate::support::encoded(KITCHEN)
    ));
    let (status, state) = answer(state.send().await.unwrap()).await;
    assert_eq!(status, 200);
    assert_eq!(state["run_state"], "running");
    assert_eq!(state["open_escalations"], json!([]));
    node.stop().await;
}
