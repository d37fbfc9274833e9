//! A local server for behaviours elsewhere: answers each request as it is told, in order, and keeps what it was asked.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinHandle;

/// What a request is answered with.
#[derive(Clone, Debug)]
pub enum Answer {
    /// A status, headers and a body.
    Whole(u16, &'static str, String),
    /// Pieces of an event stream, each after a pause; then the end, or the connection is cut.
    Stream {
        pieces: Vec<String>,
        pause: Duration,
        cut: bool,
    },
    /// The connection is closed without a word.
    Hangup,
    /// Nothing, ever.
    Silence,
}

/// A request as it came.
#[derive(Clone, Debug)]
pub struct Asked {
    pub head: String,
    pub body: Vec<u8>,
}

impl Asked {
    pub fn header(&self, name: &str) -> Option<String> {
        self.head.lines().find_map(|line| {
            let (found, value) = line.split_once(':')?;
            found
                .eq_ignore_ascii_case(name)
                .then(|| value.trim().to_owned())
        })
    }

    pub fn json(&self) -> serde_json::Value {
        serde_json::from_slice(&self.body).unwrap()
    }
}

/// The server.
pub struct Server {
    pub url: String,
    asked: Arc<Mutex<Vec<Asked>>>,
    task: JoinHandle<()>,
}

impl Server {
    /// Answers in this order; after the last with silence.
    pub async fn start(answers: Vec<Answer>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let asked = Arc::new(Mutex::new(Vec::new()));
        let answers = Arc::new(Mutex::new(VecDeque::from(answers)));
        let kept = Arc::clone(&asked);
        let task = tokio::spawn(async move {
            loop {
                let (stream, _) = listener.accept().await.unwrap();
                tokio::spawn(serve(stream, Arc::clone(&kept), Arc::clone(&answers)));
            }
        });
        Self { url, asked, task }
    }

    pub fn asked(&self) -> Vec<Asked> {
        self.asked.lock().unwrap().clone()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn serve(
    mut stream: TcpStream,
    kept: Arc<Mutex<Vec<Asked>>>,
    answers: Arc<Mutex<VecDeque<Answer>>>,
) {
    let Some(asked) = read(&mut stream).await else {
        return;
    };
    kept.lock().unwrap().push(asked);
    let answer = answers.lock().unwrap().pop_front();
    // Whoever asked may be gone: then writing fails, and nobody minds.
    let _ = match answer.unwrap_or(Answer::Silence) {
        Answer::Whole(status, headers, body) => {
            let text = format!(
                "HTTP/1.1 {status} X\r\ncontent-length: {}\r\n{headers}connection: close\r\n\r\n{body}",
                body.len()
            );
            stream.write_all(text.as_bytes()).await
        }
        Answer::Stream { pieces, pause, cut } => stream_out(&mut stream, &pieces, pause, cut).await,
        Answer::Hangup => Ok(()),
        Answer::Silence => std::future::pending().await,
    };
}

async fn stream_out(
    stream: &mut TcpStream,
    pieces: &[String],
    pause: Duration,
    cut: bool,
) -> std::io::Result<()> {
    let head = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\
                connection: close\r\n\r\n";
    stream.write_all(head.as_bytes()).await?;
    for piece in pieces {
        tokio::time::sleep(pause).await;
        let chunk = format!("{:x}\r\n{piece}\r\n", piece.len());
        stream.write_all(chunk.as_bytes()).await?;
        stream.flush().await?;
    }
    if cut {
        return Ok(());
    }
    stream.write_all(b"0\r\n\r\n").await
}

async fn read(stream: &mut TcpStream) -> Option<Asked> {
    let mut bytes = Vec::new();
    let mut buffer = [0; 4_096];
    loop {
        let count = stream.read(&mut buffer).await.ok()?;
        if count == 0 {
            return None;
        }
        bytes.extend_from_slice(&buffer[..count]);
        let Some(end) = bytes.windows(4).position(|four| four == b"\r\n\r\n") else {
            continue;
        };
        let head = String::from_utf8_lossy(&bytes[..end]).into_owned();
        let asked = Asked {
            head,
            body: bytes[end + 4..].to_vec(),
        };
        let length: usize = asked.header("content-length")?.parse().ok()?;
        if asked.body.len() >= length {
            return Some(asked);
        }
    }
}
