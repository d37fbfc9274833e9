//! The listener: where it may listen, TLS and HTTP/2, and requests that are no requests.

use std::sync::Arc;

use chancery_doors::http::{ServeError, ServeOptions, TlsIdentity, TlsKeeper, serve};
use serde_json::json;

use crate::support::{MESSAGES, Setup, answer, client, head, message_id, raw, share};

// CH-NET-1, CH-NET-2, VX-HTTP-5
#[tokio::test(flavor = "multi_thread")]
async fn beyond_this_machine_the_door_opens_only_with_tls_or_when_told_so() {
    let node = Setup::default().start().await;
    assert_ne!(node.server.listening().address.port(), 0);
    assert!(!node.server.listening().durable);
    let anywhere = || ServeOptions::new("0.0.0.0:0".parse().unwrap());
    let refused = serve(Arc::clone(&node.office), anywhere());
    assert!(matches!(refused, Err(ServeError::NeedsTls(_))));
    let dev = ServeOptions {
        dev: true,
        tls_terminated_upstream: true,
        ..anywhere()
    };
    assert!(matches!(
        serve(Arc::clone(&node.office), dev),
        Err(ServeError::DevBeyondLoopback(_))
    ));
    let told = ServeOptions {
        tls_terminated_upstream: true,
        ..anywhere()
    };
    serve(Arc::clone(&node.office), told).unwrap().stop().await;
    let taken = ServeOptions::new(node.address);
    assert!(matches!(
        serve(Arc::clone(&node.office), taken),
        Err(ServeError::Bind(..))
    ));
    let broken = TlsIdentity {
        certificates_pem: b"x".to_vec(),
        key_pem: Vec::new(),
    };
    assert!(TlsKeeper::new(&broken).is_err());
    node.stop().await;
}

// VX-HTTP-2, VX-HTTP-5, CH-NET-1
#[tokio::test(flavor = "multi_thread")]
async fn with_tls_both_http_versions_are_spoken() {
    let certified = rcgen::generate_simple_self_signed(vec!["localhost".to_owned()]).unwrap();
    let node = Setup::default().start().await;
    let identity = TlsIdentity {
        certificates_pem: certified.cert.pem().into_bytes(),
        key_pem: certified.signing_key.serialize_pem().into_bytes(),
    };
    let options = ServeOptions {
        tls: Some(TlsKeeper::new(&identity).unwrap()),
        ..ServeOptions::new("127.0.0.1:0".parse().unwrap())
    };
    let server = serve(Arc::clone(&node.office), options).unwrap();
    let url = format!(
        "https://localhost:{}{MESSAGES}",
        server.listening().address.port()
    );
    client();
    let root = reqwest::Certificate::from_pem(certified.cert.pem().as_bytes()).unwrap();
    for (number, version) in [
        (1, reqwest::Version::HTTP_2),
        (2, reqwest::Version::HTTP_11),
    ] {
        let mut builder = reqwest::Client::builder()
            .no_proxy()
            .tls_certs_only([root.clone()]);
        if version == reqwest::Version::HTTP_11 {
            builder = builder.http1_only();
        }
        let request = builder
            .build()
            .unwrap()
            .post(&url)
            .header("content-type", "application/json");
        let response = request.body(share(number)).send().await.unwrap();
        assert_eq!(response.version(), version);
        let accepted = json!({"status": "accepted", "message_id": message_id(number)});
        assert_eq!(answer(response).await, (200, accepted));
    }
    // Plain HTTP to the TLS port, and a handshake that is none.
    let answer = raw(
        server.listening().address,
        b"GET /healthz HTTP/1.1\r\nhost: localhost\r\n\r\n",
    )
    .await;
    assert!(!answer.contains("200"), "{answer}");
    server.stop().await;
    node.stop().await;
}

// VX-ENV-7, CH-LIM-1
#[tokio::test(flavor = "multi_thread")]
async fn a_body_that_says_it_is_too_large_is_refused_before_it_is_read() {
    let node = Setup::default().start().await;
    let answer = raw(node.address, head("POST", MESSAGES, 1 << 40).as_bytes()).await;
    assert!(
        answer.starts_with("HTTP/1.1 413 ") && answer.contains("payload_too_large"),
        "{answer}"
    );
    // One that does not say so: chunks until the limit.
    let mut chunked = format!(
        "POST {MESSAGES} HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n\
         transfer-encoding: chunked\r\n\r\n"
    )
    .into_bytes();
    for _ in 0..9 {
        chunked.extend_from_slice(b"2000\r\n");
        chunked.extend_from_slice(&[b' '; 0x2000]);
        chunked.extend_from_slice(b"\r\n");
    }
    let answer = raw(node.address, &chunked).await;
    assert!(answer.starts_with("HTTP/1.1 413 "), "{answer}");
    node.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_chunked_body_is_as_good_as_another() {
    let node = Setup::default().start().await;
    let body = share(1);
    let mut chunked = format!(
        "POST {MESSAGES} HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n\
         connection: close\r\ntransfer-encoding: chunked\r\n\r\n"
    )
    .into_bytes();
    for part in body.chunks(100) {
        chunked.extend_from_slice(format!("{:x}\r\n", part.len()).as_bytes());
        chunked.extend_from_slice(part);
        chunked.extend_from_slice(b"\r\n");
    }
    chunked.extend_from_slice(b"0\r\n\r\n");
    let answer = raw(node.address, &chunked).await;
    assert!(
        answer.starts_with("HTTP/1.1 200 ") && answer.contains("accepted"),
        "{answer}"
    );
    node.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_no_request_gets_400_and_the_door_goes_on() {
    let node = Setup::default().start().await;
    let long = format!(
        "GET /healthz HTTP/1.1\r\nhost: localhost\r\nx: {}\r\n\r\n",
        "y".repeat(40_000)
    );
    let many = format!(
        "GET /healthz HTTP/1.1\r\nhost: localhost\r\n{}\r\n",
        "a: b\r\n".repeat(100)
    );
    let smuggled = format!(
        "POST {MESSAGES} HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n\
         content-length: 5\r\ncontent-length: 6\r\n\r\nhello"
    );
    for bad in [
        "\0\0\0\0\r\n\r\n",
        "GET\r\n\r\n",
        "GET / HTTP/3.0\r\n\r\n",
        "POST / HTTP/1.1\r\nhost: a\r\ncontent-length: -1\r\n\r\n",
        "POST / HTTP/1.1\r\nhost: a\r\ntransfer-encoding: gzip\r\n\r\n",
        smuggled.as_str(),
        long.as_str(),
        many.as_str(),
    ] {
        let answer = raw(node.address, bad.as_bytes()).await;
        let start = &bad[..bad.len().min(40)];
        assert!(
            answer.is_empty() || answer.starts_with("HTTP/1.1 4"),
            "{start}: {answer}"
        );
    }
    assert_eq!(node.share(share(1)).await.0, 200);
    node.stop().await;
}
