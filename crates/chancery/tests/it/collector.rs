//! A collector of spans that speaks OTLP, by the messages that OpenTelemetry publishes. It also takes what is delivered
//! to other paths, and keeps how that came.

use std::collections::VecDeque;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex, mpsc};

use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
use opentelemetry_proto::tonic::common::v1::KeyValue;
use opentelemetry_proto::tonic::common::v1::any_value::Value as Any;
use opentelemetry_proto::tonic::trace::v1::Span;
use prost::Message as _;

/// How a request with spans begins.
const TRACES: &str = "post /v1/traces ";

/// A request: its head in lower case, and its body.
struct Got {
    head: String,
    body: Vec<u8>,
}

/// The collector.
pub struct Collector {
    pub url: String,
    got: mpsc::Receiver<Got>,
}

/// All that a collector was told.
pub struct Collected {
    pub requests: Vec<ExportTraceServiceRequest>,
    /// Heads and bodies of what came to other paths.
    pub delivered: Vec<(String, Vec<u8>)>,
}

impl Collector {
    pub fn listen() -> Self {
        Self::answering(&[])
    }

    /// One that answers its first requests for spans with these statuses, and all others with 200.
    pub fn answering(statuses: &[u16]) -> Self {
        let statuses = Arc::new(Mutex::new(VecDeque::from(statuses.to_vec())));
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let (tell, got) = mpsc::channel();
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let (tell, statuses) = (tell.clone(), Arc::clone(&statuses));
                std::thread::spawn(move || converse(stream, &tell, &statuses));
            }
        });
        Self { url, got }
    }

    /// What has come until now: all, once whoever sent it has ended.
    pub fn collected(&self) -> Collected {
        let (mut requests, mut delivered) = (Vec::new(), Vec::new());
        for got in self.got.try_iter() {
            if got.head.starts_with(TRACES) {
                assert!(
                    got.head
                        .contains("content-type: application/x-protobuf\r\n")
                );
                requests.push(ExportTraceServiceRequest::decode(&*got.body).unwrap());
            } else {
                delivered.push((got.head, got.body));
            }
        }
        Collected {
            requests,
            delivered,
        }
    }
}

fn converse(stream: TcpStream, tell: &mpsc::Sender<Got>, statuses: &Mutex<VecDeque<u16>>) {
    let mut stream = BufReader::new(stream);
    loop {
        let mut head = String::new();
        while !head.ends_with("\r\n\r\n") {
            if stream.read_line(&mut head).unwrap_or(0) == 0 {
                return;
            }
        }
        let head = head.to_ascii_lowercase();
        let length = header(&head, "content-length").map_or(0, |text| text.parse().unwrap());
        let mut body = vec![0; length];
        stream.read_exact(&mut body).unwrap();
        // Whoever sends value-context wants to hear that it arrived.
        let said = serde_json::from_slice::<serde_json::Value>(&body).unwrap_or_default();
        let answer = match said.get("message_id") {
            Some(id) => serde_json::json!({"status": "accepted", "message_id": id}).to_string(),
            None => String::new(),
        };
        let is_for_us = head.starts_with(TRACES);
        // The test may have ended.
        let _ = tell.send(Got { head, body });
        let status = match is_for_us {
            true => statuses.lock().unwrap().pop_front(),
            false => None,
        };
        let status = status.unwrap_or(200);
        let head = format!("HTTP/1.1 {status} It is so\r\ncontent-type: application/json");
        let length = answer.len();
        let told = write!(
            stream.get_mut(),
            "{head}\r\ncontent-length: {length}\r\n\r\n{answer}"
        );
        if told.is_err() {
            return;
        }
    }
}

/// The value of a header.
pub fn header<'h>(head: &'h str, name: &str) -> Option<&'h str> {
    head.lines().find_map(|line| {
        let (known, value) = line.split_once(':')?;
        (known == name).then_some(value.trim())
    })
}

impl Collected {
    /// The spans of a trace.
    pub fn of_trace(&self, trace_id: &[u8]) -> Vec<&Span> {
        self.spans()
            .filter(|span| span.trace_id == trace_id)
            .collect()
    }

    /// All spans.
    pub fn spans(&self) -> impl Iterator<Item = &Span> {
        let of_resources = self
            .requests
            .iter()
            .flat_map(|request| &request.resource_spans);
        let of_scopes = of_resources.flat_map(|spans| &spans.scope_spans);
        of_scopes.flat_map(|spans| &spans.spans)
    }
}

/// The text of an attribute.
pub fn text<'a>(attributes: &'a [KeyValue], key: &str) -> Option<&'a str> {
    let found = attributes.iter().find(|attribute| attribute.key == key)?;
    match found.value.as_ref()?.value.as_ref()? {
        Any::StringValue(text) => Some(text),
        _ => None,
    }
}

/// The number of an attribute.
pub fn number(attributes: &[KeyValue], key: &str) -> Option<i64> {
    let found = attributes.iter().find(|attribute| attribute.key == key)?;
    match found.value.as_ref()?.value.as_ref()? {
        Any::IntValue(number) => Some(*number),
        _ => None,
    }
}
