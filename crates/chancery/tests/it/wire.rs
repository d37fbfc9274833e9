//! A plain HTTP/1.1 client over one connection: what it sends and reads is what is on the wire.

use std::io::{self, BufRead as _, BufReader, Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

/// Where value-context envelopes go in.
pub const MESSAGES: &str = "/.well-known/vcp/messages";

/// No answer takes longer, on however busy a machine.
const PATIENCE: Duration = Duration::from_secs(60);

/// A connection that is kept.
pub struct Wire {
    stream: BufReader<TcpStream>,
    /// What each request says beside the usual, as on the wire.
    headers: String,
}

/// An answer.
#[derive(Clone, Debug)]
pub struct Answer {
    pub status: u16,
    pub head: String,
    pub body: Vec<u8>,
}

impl Answer {
    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }

    pub fn json(&self) -> serde_json::Value {
        serde_json::from_slice(&self.body)
            .unwrap_or_else(|error| panic!("{error}: {} {}", self.head, self.text()))
    }

    /// Whether it was given before, to the same under the same key (VC-IDEM-4).
    pub fn is_replayed(&self) -> bool {
        let head = self.head.to_ascii_lowercase();
        head.contains("idempotent-replayed: true")
    }

    /// The body of an answer that has to be 200.
    pub fn ok(self) -> serde_json::Value {
        assert_eq!(self.status, 200, "{} {}", self.head, self.text());
        self.json()
    }
}

impl Wire {
    pub fn connect(address: SocketAddr) -> io::Result<Self> {
        Self::connect_for(address, PATIENCE)
    }

    /// A connection that gives up on an answer after this time.
    pub fn connect_for(address: SocketAddr, patience: Duration) -> io::Result<Self> {
        let stream = TcpStream::connect_timeout(&address, patience)?;
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(patience))?;
        stream.set_write_timeout(Some(patience))?;
        Ok(Self {
            stream: BufReader::new(stream),
            headers: String::new(),
        })
    }

    /// The same connection with a bearer token on each request.
    pub fn with_token(self, token: &str) -> Self {
        self.with_header("authorization", &format!("Bearer {token}"))
    }

    /// The same connection with an `Idempotency-Key` on each request.
    pub fn with_key(self, key: &str) -> Self {
        self.with_header("idempotency-key", key)
    }

    /// The same connection with a header on each request.
    pub fn with_header(mut self, name: &str, value: &str) -> Self {
        self.headers += &format!("{name}: {value}\r\n");
        self
    }

    pub fn get(&mut self, path: &str) -> io::Result<Answer> {
        self.request("GET", path, b"")
    }

    pub fn post(&mut self, path: &str, body: &[u8]) -> io::Result<Answer> {
        self.request("POST", path, body)
    }

    /// Posts an envelope.
    pub fn share(&mut self, envelope: &[u8]) -> io::Result<Answer> {
        self.post(MESSAGES, envelope)
    }

    fn request(&mut self, method: &str, path: &str, body: &[u8]) -> io::Result<Answer> {
        let mut bytes = format!(
            "{method} {path} HTTP/1.1\r\nhost: localhost\r\n{}\
             content-type: application/json\r\ncontent-length: {}\r\n\r\n",
            self.headers,
            body.len()
        )
        .into_bytes();
        bytes.extend_from_slice(body);
        self.stream.get_mut().write_all(&bytes)?;
        self.answer()
    }

    fn answer(&mut self) -> io::Result<Answer> {
        let mut head = String::new();
        while !head.ends_with("\r\n\r\n") {
            if self.stream.read_line(&mut head)? == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
        }
        let status = head.get(9..12).and_then(|code| code.parse().ok());
        let status = status.ok_or_else(|| io::Error::other(format!("no status: {head}")))?;
        let length = head.lines().find_map(|line| {
            let (name, value) = line.split_once(':')?;
            name.eq_ignore_ascii_case("content-length")
                .then(|| value.trim().parse::<usize>().ok())?
        });
        let mut body = Vec::new();
        match length {
            // These answers never have a body.
            None if status == 204 || status == 304 => {}
            Some(length) => {
                body.resize(length, 0);
                self.stream.read_exact(&mut body)?;
            }
            None => self.chunks(&mut body)?,
        }
        Ok(Answer { status, head, body })
    }

    fn chunks(&mut self, body: &mut Vec<u8>) -> io::Result<()> {
        loop {
            let mut size = String::new();
            self.stream.read_line(&mut size)?;
            let size = usize::from_str_radix(size.trim(), 16).map_err(io::Error::other)?;
            let start = body.len();
            body.resize(start + size + 2, 0);
            self.stream.read_exact(&mut body[start..])?;
            body.truncate(start + size);
            if size == 0 {
                return Ok(());
            }
        }
    }
}

/// A name as one segment of a path.
pub fn segment(name: &str) -> String {
    let escaped = |byte: u8| match byte {
        b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' => char::from(byte).to_string(),
        other => format!("%{other:02X}"),
    };
    name.bytes().map(escaped).collect()
}
