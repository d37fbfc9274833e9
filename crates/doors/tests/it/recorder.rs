//! A listening socket that records every byte that comes, and answers as a test wants.

use std::sync::{Arc, Mutex};

use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;

/// How an envelope is answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reply {
    /// 200, accepted.
    Accepted,
    /// 503, in no format of ours.
    Busy,
    /// The connection stays open and silent.
    Nothing,
}

/// One connection, as far as it came.
#[derive(Default)]
struct Connection {
    bytes: Vec<u8>,
    ended: bool,
}

type Decides = dyn Fn(&Value) -> Reply + Send + Sync;

/// The socket.
#[derive(Clone)]
pub struct Recorder {
    address: std::net::SocketAddr,
    connections: Arc<Mutex<Vec<Connection>>>,
    changed: watch::Sender<()>,
}

impl Recorder {
    pub async fn listen(decides: impl Fn(&Value) -> Reply + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let recorder = Self {
            address: listener.local_addr().unwrap(),
            connections: Arc::default(),
            changed: watch::Sender::new(()),
        };
        let (kept, decides) = (recorder.clone(), Arc::new(decides));
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let decides = Arc::clone(&decides);
                tokio::spawn(kept.clone().converse(stream, decides));
            }
        });
        recorder
    }

    pub fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.address)
    }

    async fn converse(self, mut stream: TcpStream, decides: Arc<Decides>) {
        let number = {
            let mut connections = self.connections.lock().unwrap();
            connections.push(Connection::default());
            connections.len() - 1
        };
        let (mut buffer, mut answered) = (vec![0; 16 << 10], 0);
        loop {
            let read = stream.read(&mut buffer).await.unwrap_or_default();
            let request = {
                let connection = &mut self.connections.lock().unwrap()[number];
                connection.bytes.extend_from_slice(&buffer[..read]);
                connection.ended = read == 0;
                next_request(&connection.bytes[answered..])
            };
            self.changed.send_replace(());
            if read == 0 {
                return;
            }
            let Some((length, envelope)) = request else {
                continue;
            };
            let answer = match decides(&envelope) {
                Reply::Nothing => continue,
                Reply::Busy => "HTTP/1.1 503 Busy\r\ncontent-length: 4\r\n\r\nbusy".to_owned(),
                Reply::Accepted => {
                    let id = &envelope["message_id"];
                    let body = json!({"status": "accepted", "message_id": id}).to_string();
                    format!(
                        "HTTP/1.1 200 OK\r\ncontent-length: {}\r\n\r\n{body}",
                        body.len()
                    )
                }
            };
            answered += length;
            // Whoever cut it off does not read the answer.
            let _ = stream.write_all(answer.as_bytes()).await;
        }
    }

    /// Waits until this text came so often, on any connection.
    pub async fn got(&self, text: &str, times: usize) {
        self.until(|| self.count(text) >= times).await;
    }

    /// Waits until the other side has ended the connection that this text came on.
    pub async fn cut_off(&self, text: &str) {
        let ended = || {
            let connections = self.connections.lock().unwrap();
            connections
                .iter()
                .any(|connection| connection.ended && times(&connection.bytes, text) > 0)
        };
        self.until(ended).await;
    }

    async fn until(&self, is_so: impl Fn() -> bool) {
        let mut changed = self.changed.subscribe();
        while !is_so() {
            changed.changed().await.unwrap();
        }
    }

    /// How often a text came.
    pub fn count(&self, text: &str) -> usize {
        let connections = self.connections.lock().unwrap();
        let each = connections.iter();
        each.map(|connection| times(&connection.bytes, text)).sum()
    }

    /// The bodies that hold this text, as they came.
    pub fn envelopes(&self, text: &str) -> Vec<Vec<u8>> {
        let connections = self.connections.lock().unwrap();
        let mut found = Vec::new();
        for connection in connections.iter() {
            let mut rest = &connection.bytes[..];
            while let Some((length, _)) = next_request(rest) {
                let (request, after) = rest.split_at(length);
                let body = request.windows(4).position(|four| four == b"\r\n\r\n");
                if times(request, text) > 0 {
                    found.push(request[body.unwrap() + 4..].to_vec());
                }
                rest = after;
            }
        }
        found
    }
}

fn times(bytes: &[u8], text: &str) -> usize {
    String::from_utf8_lossy(bytes).matches(text).count()
}

/// The length of the first whole request and the envelope in it.
fn next_request(bytes: &[u8]) -> Option<(usize, Value)> {
    let head = bytes.windows(4).position(|four| four == b"\r\n\r\n")?;
    let text = String::from_utf8_lossy(&bytes[..head]).to_ascii_lowercase();
    let length = text
        .lines()
        .find_map(|line| line.strip_prefix("content-length:"))?;
    let end = head + 4 + length.trim().parse::<usize>().ok()?;
    let body = bytes.get(head + 4..end)?;
    Some((end, serde_json::from_slice(body).ok()?))
}
