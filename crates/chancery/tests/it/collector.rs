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

/// How requests with spans of a trace are answered.
struct Statuses {
    trace: Vec<u8>,
    left: VecDeque<u16>,
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

    /// One that answers requests with spans of a trace with its statuses, the last of them again and again, and all others
    /// with 200. How many requests a trace comes in is up to time.
    pub fn answering(statuses: &[(&[u8], &[u16])]) -> Self {
        let statuses = statuses.iter().map(|(trace, statuses)| Statuses {
            trace: trace.to_vec(),
            left: statuses.to_vec().into(),
        });
        let statuses = Arc::new(Mutex::new(statuses.collect()));
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

/// The next status for a request with spans.
fn status(body: &[u8], statuses: &mut [Statuses]) -> u16 {
    let request = ExportTraceServiceRequest::decode(body).unwrap();
    let of_trace = |one: &&mut Statuses| spans_of(&request).any(|span| span.trace_id == one.trace);
    let Some(Statuses { left, .. }) = statuses.iter_mut().find(of_trace) else {
        return 200;
    };
    match left.len() {
        1 => left[0],
        _ => left.pop_front().unwrap(),
    }
}

fn spans_of(request: &ExportTraceServiceRequest) -> impl Iterator<Item = &Span> {
    let of_resources = request.resource_spans.iter();
    let of_scopes = of_resources.flat_map(|spans| &spans.scope_spans);
    of_scopes.flat_map(|spans| &spans.spans)
}

fn converse(stream: TcpStream, tell: &mpsc::Sender<Got>, statuses: &Mutex<Vec<Statuses>>) {
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
        let status = match head.starts_with(TRACES) {
            true => status(&body, &mut statuses.lock().unwrap()),
            false => 200,
        };
        // The test may have ended.
        let _ = tell.send(Got { head, body });
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
        self.requests.iter().flat_map(spans_of)
    }

    /// The requests with spans of a trace, as they came.
    pub fn requests_of(&self, trace_id: &[u8]) -> Vec<&ExportTraceServiceRequest> {
        let of_trace = |request: &&ExportTraceServiceRequest| {
            spans_of(request).any(|span| span.trace_id == trace_id)
        };
        self.requests.iter().filter(of_trace).collect()
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
