//! What happens at each bound: a quick answer that says "try again", and nothing acknowledged is lost.

use std::sync::Arc;
use std::time::Duration;

use chancery_doors::http::HttpLimits;
use chancery_node::GateLimits;
use chancery_store::Memory;
use chancery_store::testing::HeldStore;
use serde_json::json;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::support::{
    KITCHEN, MESSAGES, Running, Setup, answer, head, inbox_of, message_id, raw, read_all, share,
};

// CH-LIM-2
#[tokio::test(flavor = "multi_thread")]
async fn while_the_store_stands_still_one_too_many_is_told_to_try_again() {
    const REQUESTS: u64 = 20;
    let store = HeldStore::new(Arc::new(Memory::new()));
    let gate_limits = GateLimits {
        requests: REQUESTS as usize,
        ..GateLimits::default()
    };
    let node = Setup {
        store: Arc::clone(&store) as _,
        gate_limits,
        ..Setup::default()
    }
    .start()
    .await;
    store.hold(0);
    let mut waiting = tokio::task::JoinSet::new();
    for number in 1..=REQUESTS {
        let request = node.post(MESSAGES, share(number));
        waiting.spawn(async move { answer(request.send().await.unwrap()).await });
    }
    while node.office.gate().free_permits() > 0 {
        tokio::task::yield_now().await;
    }
    let response = node
        .post(MESSAGES, share(REQUESTS + 1))
        .send()
        .await
        .unwrap();
    assert_eq!(response.headers()["retry-after"], "1");
    let (status, body) = answer(response).await;
    assert_eq!(
        (status, &body["error"]["code"]),
        (503, &json!("overloaded"))
    );
    assert_eq!(body["message_id"], message_id(REQUESTS + 1));
    assert_eq!(body["error"]["retryable"], true);
    // Other paths go on meanwhile.
    assert_eq!(node.get("/healthz").send().await.unwrap().status(), 200);
    store.open();
    while let Some(answered) = waiting.join_next().await {
        let (status, body) = answered.unwrap();
        assert_eq!((status, &body["status"]), (200, &json!("accepted")));
    }
    assert_eq!(
        node.share(share(REQUESTS + 1)).await.1["status"],
        "accepted"
    );
    node.stop().await;
}

// CH-NET-3, VX-HTTP-6
#[tokio::test(flavor = "multi_thread")]
async fn a_stop_finishes_what_is_under_way_and_takes_nothing_more() {
    let store = HeldStore::new(Arc::new(Memory::new()));
    let node = Setup {
        store: Arc::clone(&store) as _,
        ..Setup::default()
    }
    .start()
    .await;
    store.hold(0);
    let under_way = node.post(MESSAGES, share(1));
    let under_way = tokio::spawn(async move { answer(under_way.send().await.unwrap()).await });
    let free = node.office.gate().limits().requests;
    while node.office.gate().free_permits() == free {
        tokio::task::yield_now().await;
    }
    let mut half_sent = TcpStream::connect(node.address).await.unwrap();
    let body = share(2);
    half_sent
        .write_all(head("POST", MESSAGES, body.len()).as_bytes())
        .await
        .unwrap();
    let Running {
        office,
        server,
        address,
        ..
    } = node;
    let stopping = tokio::spawn(server.stop());
    // The listener closes first.
    while TcpStream::connect(address).await.is_ok() {
        tokio::task::yield_now().await;
    }
    assert!(!stopping.is_finished());
    store.open();
    assert_eq!(under_way.await.unwrap().1["status"], "accepted");
    // A request that had not begun may be closed at any moment from here on, even before its body is written.
    let _ = half_sent.write_all(&body).await;
    let late = read_all(&mut half_sent).await;
    assert!(
        late.starts_with("HTTP/1.1 200 ") || late.starts_with("HTTP/1.1 503 ") || late.is_empty(),
        "{late}"
    );
    stopping.await.unwrap();
    office.stop().await.unwrap();
}

// CH-NET-3: requests that never end do not hold up a stop
#[tokio::test(flavor = "multi_thread")]
async fn a_stop_drops_what_does_not_end() {
    let limits = HttpLimits {
        stop_timeout: Duration::from_millis(100),
        // Long enough that nothing but the stop drops it.
        body_timeout: Duration::from_secs(600),
        ..HttpLimits::default()
    };
    let node = Setup {
        limits,
        ..Setup::default()
    }
    .start()
    .await;
    let mut stuck = TcpStream::connect(node.address).await.unwrap();
    // The door asks for the body: from then on the request is under way.
    let head = head("POST", MESSAGES, 10).replace("\r\n\r\n", "\r\nexpect: 100-continue\r\n\r\n");
    stuck.write_all(head.as_bytes()).await.unwrap();
    let mut asked = [0; 25];
    stuck.read_exact(&mut asked).await.unwrap();
    assert_eq!(&asked, b"HTTP/1.1 100 Continue\r\n\r\n");
    tokio::time::timeout(Duration::from_secs(60), node.stop())
        .await
        .unwrap();
    assert_eq!(read_all(&mut stuck).await, "");
}

// CH-LIM-1
#[tokio::test(flavor = "multi_thread")]
async fn at_the_bound_of_connections_the_idlest_is_closed_for_a_new_one() {
    let limits = HttpLimits {
        connections: 3,
        // Long enough that nothing but the bound closes a connection.
        header_timeout: Duration::from_secs(600),
        ..HttpLimits::default()
    };
    let node = Setup {
        limits,
        ..Setup::default()
    }
    .start()
    .await;
    let mut silent = Vec::new();
    for number in 1..=3 {
        silent.push(TcpStream::connect(node.address).await.unwrap());
        while node.server.connections() < number {
            tokio::task::yield_now().await;
        }
    }
    assert_eq!(node.share(share(1)).await.0, 200);
    let closed = tokio::time::timeout(Duration::from_secs(60), read_all(&mut silent[0]));
    assert_eq!(closed.await.unwrap(), "");
    node.stop().await;
}

// CH-LIM-1: silent, slow and half-open clients are let go
#[tokio::test(flavor = "multi_thread")]
async fn silent_and_slow_clients_are_let_go() {
    let limits = HttpLimits {
        // Longer than a busy machine may take to ask or to answer.
        header_timeout: Duration::from_secs(2),
        idle_timeout: Duration::from_secs(2),
        ..HttpLimits::default()
    };
    let node = Setup {
        limits,
        ..Setup::default()
    }
    .start()
    .await;
    assert_eq!(raw(node.address, b"").await, "");
    assert_eq!(raw(node.address, b"POST /.well-known").await, "");
    // One that asked and then falls silent.
    let answer = raw(
        node.address,
        b"GET /healthz HTTP/1.1\r\nhost: localhost\r\n\r\n",
    )
    .await;
    assert!(
        answer.starts_with("HTTP/1.1 200 OK\r\n") && answer.ends_with("{\"status\":\"ok\"}"),
        "{answer}"
    );
    // One that asks again and stops in the middle of the head.
    let twice = b"GET /healthz HTTP/1.1\r\nhost: localhost\r\n\r\nGET /hea";
    assert!(
        raw(node.address, twice)
            .await
            .ends_with("{\"status\":\"ok\"}")
    );
    while node.server.connections() > 0 {
        tokio::task::yield_now().await;
    }
    node.stop().await;
}

// VC-ENV-18, VX-ENV-7: a client that is refused while it still sends gets its answer
#[tokio::test(flavor = "multi_thread")]
async fn a_refused_body_is_taken_in_so_that_the_answer_arrives() {
    const LENGTH: usize = 300_000;
    let node = Setup {
        dev: false,
        ..Setup::default()
    }
    .start()
    .await;
    let typed_wrongly =
        head("POST", "/vcp", LENGTH).replace("application/json", "application/octet-stream");
    for (head, status) in [
        (typed_wrongly, 415),
        (head("POST", "/vcp", LENGTH), 413),
        (head("POST", MESSAGES, LENGTH), 413),
        (head("POST", "/admin/world", LENGTH), 401),
    ] {
        let mut stream = TcpStream::connect(node.address).await.unwrap();
        stream.write_all(head.as_bytes()).await.unwrap();
        // The answer is there before the body is.
        stream.peek(&mut [0]).await.unwrap();
        for part in vec![b' '; LENGTH].chunks(LENGTH / 4) {
            stream.write_all(part).await.unwrap();
        }
        let next = b"GET /healthz HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n";
        stream.write_all(next).await.unwrap();
        let answers = read_all(&mut stream).await;
        assert!(
            answers.starts_with(&format!("HTTP/1.1 {status} ")),
            "{head}{answers}"
        );
        assert!(answers.ends_with("{\"status\":\"ok\"}"), "{head}{answers}");
    }
    node.stop().await;
}

// CH-LIM-1: unfinished bodies
#[tokio::test(flavor = "multi_thread")]
async fn unfinished_bodies_share_a_budget_that_small_ones_do_not_need() {
    let limits = HttpLimits {
        body_bytes: 32 << 10,
        // Long enough that nothing but the budget refuses a body.
        body_timeout: Duration::from_secs(120),
        ..HttpLimits::default()
    };
    let node = Setup {
        limits,
        ..Setup::default()
    }
    .start()
    .await;
    let mut slow = Vec::new();
    for _ in 0..8 {
        let mut stream = TcpStream::connect(node.address).await.unwrap();
        stream
            .write_all(head("POST", MESSAGES, 60_000).as_bytes())
            .await
            .unwrap();
        stream.write_all(&[b' '; 8_000]).await.unwrap();
        slow.push(stream);
    }
    let refused = async {
        loop {
            for stream in &mut slow {
                let mut start = [0; 12];
                let read = tokio::time::timeout(Duration::from_millis(20), stream.read(&mut start));
                if let Ok(Ok(12)) = read.await {
                    return String::from_utf8_lossy(&start).into_owned();
                }
                // More of it: sooner or later all of them together are too much.
                let _ = stream.write_all(&[b' '; 2_000]).await;
            }
        }
    };
    let refused = tokio::time::timeout(Duration::from_secs(60), refused)
        .await
        .unwrap();
    assert_eq!(refused, "HTTP/1.1 503");
    let (first, rest) = (share(1), share(2));
    assert_eq!(node.share(first).await.0, 200);
    let mut in_two = TcpStream::connect(node.address).await.unwrap();
    in_two
        .write_all(head("POST", MESSAGES, rest.len()).as_bytes())
        .await
        .unwrap();
    in_two.write_all(&rest[..100]).await.unwrap();
    tokio::task::yield_now().await;
    in_two.write_all(&rest[100..]).await.unwrap();
    let mut start = [0; 12];
    in_two.read_exact(&mut start).await.unwrap();
    assert_eq!(&start, b"HTTP/1.1 200");
    drop(slow);
    node.stop().await;
}

// CH-LIM-1
#[tokio::test(flavor = "multi_thread")]
async fn waiting_readers_are_bounded() {
    let limits = HttpLimits {
        watchers: 1,
        ..HttpLimits::default()
    };
    let node = Setup {
        limits,
        ..Setup::default()
    }
    .start()
    .await;
    let stream = node
        .get(&inbox_of(KITCHEN))
        .header("accept", "text/event-stream")
        .send()
        .await
        .unwrap();
    assert_eq!(stream.status(), 200);
    let refused = node
        .get(&format!("{}?wait=30", inbox_of(KITCHEN)))
        .send()
        .await
        .unwrap();
    assert_eq!(refused.status(), 503);
    assert_eq!(refused.headers()["retry-after"], "1");
    drop(stream);
    node.stop().await;
}

// CH-LIM-1: how near each bound is
#[tokio::test(flavor = "multi_thread")]
async fn the_figures_tell_how_near_each_bound_is() {
    let node = Setup::default().start().await;
    assert_eq!(node.share(share(1)).await.0, 200);
    let text = node
        .get("/metrics")
        .send()
        .await
        .unwrap()
        .text()
        .await
        .unwrap();
    for bound in [
        "requests",
        "index_lag_entries",
        "window_records",
        "connections",
        "reads",
        "watchers",
        "body_bytes",
        "failure_addresses",
    ] {
        for kind in ["used", "limit"] {
            let line = format!("chancery_bound_{kind}{{bound=\"{bound}\"}} ");
            let value = text
                .lines()
                .find_map(|found| found.strip_prefix(&line))
                .expect(bound);
            value.parse::<u64>().unwrap();
        }
    }
    let accepted =
        r#"chancery_envelopes_total{protocol="value-context",verdict="accepted",reason="none"}"#;
    assert!(text.contains(accepted), "{text}");
    assert!(!text.contains("kitchen") && !text.contains("living-room"));
    node.stop().await;
}
