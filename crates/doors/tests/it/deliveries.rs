//! What a live node and a real client see of one envelope: accepted, in the inbox, in the log, a duplicate.

use serde_json::{Value, json};

use crate::support::{
    KITCHEN, Setup, answer, embedded, envelope, inbox_of, message_id, share, signed, temporary,
};

// VX-ERR-1, VX-RCV-3, VX-DUP-1, VX-HTTP-1, VX-HTTP-2, VX-HTTP-4
#[tokio::test(flavor = "multi_thread")]
async fn an_envelope_is_accepted_is_in_the_inbox_and_the_log_and_comes_no_second_time() {
    let (_keep, dir) = temporary();
    let node = Setup {
        store: embedded(&dir),
        ..Setup::default()
    }
    .start()
    .await;
    assert!(node.server.listening().durable);
    let body = share(1);
    let accepted = json!({"status": "accepted", "message_id": message_id(1)});
    assert_eq!(node.share(body.clone()).await, (200, accepted));

    let (status, inbox) = answer(node.get(&inbox_of(KITCHEN)).send().await.unwrap()).await;
    assert_eq!(status, 200);
    let entries = inbox["entries"].as_array().unwrap();
    assert_eq!(entries.len(), 1);
    let sent: Value = serde_json::from_slice(&body).unwrap();
    assert_eq!(entries[0]["envelope"], sent);
    assert_eq!(entries[0]["meta"]["protocol"], "value-context");
    assert_eq!(inbox["next"], entries[0]["seq"]);

    let log = node
        .get("/log?protocol=value-context")
        .send()
        .await
        .unwrap();
    let next = log.headers()["chancery-next"]
        .to_str()
        .unwrap()
        .parse::<u64>()
        .unwrap();
    let lines = log.text().await.unwrap();
    let line: Value = serde_json::from_str(lines.trim_end()).unwrap();
    assert_eq!(line["envelope"], sent);
    assert_eq!(
        json!(next),
        json!(line["meta"]["seq"].as_u64().unwrap() + 1)
    );
    let on_disk = std::fs::read_to_string(dir.join("audit.jsonl")).unwrap();
    assert!(on_disk.lines().any(|on_disk| on_disk == lines.trim_end()));
    let one = node
        .get(&format!("/log/{}", entries[0]["seq"]))
        .send()
        .await
        .unwrap();
    assert_eq!(one.text().await.unwrap(), lines.trim_end());

    let duplicate = json!({"status": "duplicate", "message_id": message_id(1)});
    let again = node
        .post("/.well-known/vcp/messages?a=b", body)
        .send()
        .await
        .unwrap();
    assert_eq!(answer(again).await, (200, duplicate));
    let (_, inbox) = answer(node.get(&inbox_of(KITCHEN)).send().await.unwrap()).await;
    assert_eq!(inbox["entries"].as_array().unwrap().len(), 1);
    node.stop().await;
}

// CH-JRN-3: a number whose token the canonical form rewrites leaves the received text beside the envelope.
#[tokio::test(flavor = "multi_thread")]
async fn an_entry_carries_the_received_text_where_the_line_does() {
    let node = Setup::default().start().await;
    let mut message = envelope(1);
    message["payload"]["personal_state"] = json!({"cognitive": 7});
    let body = String::from_utf8(signed(&message))
        .unwrap()
        .replace("\"cognitive\":7", "\"cognitive\":7.0");
    assert_eq!(node.share(body.clone()).await.0, 200);
    let (_, inbox) = answer(node.get(&inbox_of(KITCHEN)).send().await.unwrap()).await;
    assert_eq!(inbox["entries"][0]["raw"], body);
    node.stop().await;
}

// CH-JRN-2, CH-LIM-1
#[tokio::test(flavor = "multi_thread")]
async fn the_log_is_read_in_portions() {
    let node = Setup::default().start().await;
    for number in 0..5 {
        assert_eq!(node.share(share(number)).await.0, 200);
    }
    let head = node.office.gate().store().head().seq;
    let (mut from, mut all) = (1, String::new());
    while from <= head {
        let part = node
            .get(&format!("/log?from={from}&limit=2"))
            .send()
            .await
            .unwrap();
        from = part.headers()["chancery-next"]
            .to_str()
            .unwrap()
            .parse()
            .unwrap();
        let part = part.text().await.unwrap();
        assert!(part.lines().count() <= 2);
        all.push_str(&part);
    }
    assert_eq!(all.lines().count() as u64, head);
    for (number, line) in all.lines().enumerate() {
        let line: Value = serde_json::from_str(line).unwrap();
        assert_eq!(line["meta"]["seq"], json!(number + 1));
    }
    for bad in [
        "/log?from=x",
        "/log?limit=-1",
        "/log?protocol=nope",
        "/log?from=1&from=2",
    ] {
        assert_eq!(node.get(bad).send().await.unwrap().status(), 400, "{bad}");
    }
    node.stop().await;
}
