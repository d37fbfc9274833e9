//! One connection to an MCP server, opened when it is needed and opened anew when it is gone.

use std::fmt;
use std::pin::Pin;
use std::process::Stdio;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll};

use rmcp::model::{
    CallToolRequest, CallToolRequestParams, ClientCapabilities, ClientRequest, Implementation,
    InitializeRequestParams, ProtocolVersion, ServerResult,
};
use rmcp::service::{ClientLifecycleMode, ClientServiceExt, RunningService, ServiceError};
use rmcp::transport::StreamableHttpClientTransport;
use rmcp::transport::async_rw::AsyncRwTransport;
use rmcp::transport::common::client_side_sse::NeverRetry;
use rmcp::transport::streamable_http_client::StreamableHttpClientTransportConfig;
use rmcp::{ClientHandler, RoleClient};
use tokio::io::{AsyncRead, ReadBuf};
use tokio::process::{Child, Command};
use tokio::sync::Mutex;

use super::MAX_ANSWER;
use super::web::{TOO_LARGE, Web};

/// Where a server is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Place {
    /// Streamable HTTP at this address.
    Web(String),
    /// A program with its arguments, over its standard input and output.
    Child(Vec<String>),
}

/// Why a text names no server.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("a server is an address such as http://127.0.0.1:9000/mcp, or a command line")]
pub struct PlaceError;

impl Place {
    /// `http://…`, `https://…`, `stdio:` and a command line, or a command line alone. Words are parted by blanks, and
    /// a part in double quotes is one word; no shell reads it.
    pub fn parse(text: &str) -> Result<Self, PlaceError> {
        if text.starts_with("http://") || text.starts_with("https://") {
            return Ok(Self::Web(text.to_owned()));
        }
        let line = text.strip_prefix("stdio:").unwrap_or(text);
        match words(line) {
            Some(words) if !words.is_empty() => Ok(Self::Child(words)),
            _ => Err(PlaceError),
        }
    }

    /// Whether it is a program.
    pub(super) const fn is_child(&self) -> bool {
        matches!(self, Self::Child(_))
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Web(url) => f.write_str(url),
            Self::Child(words) => write!(f, "stdio:{}", words.join(" ")),
        }
    }
}

/// The words of a command line; none where a quote is left open.
fn words(line: &str) -> Option<Vec<String>> {
    let (mut words, mut word, mut is_quoted) = (Vec::new(), None::<String>, false);
    for c in line.chars() {
        match c {
            '"' => {
                is_quoted = !is_quoted;
                word.get_or_insert_default();
            }
            c if c.is_whitespace() && !is_quoted => words.extend(word.take()),
            c => word.get_or_insert_default().push(c),
        }
    }
    words.extend(word);
    (!is_quoted).then_some(words)
}

/// Why a call has no result.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Broken {
    /// The connection that was there is gone.
    Gone,
    /// There is no connection to be had.
    Unreachable,
    /// The server answered with an error, or in a form that is none.
    Refused,
    /// The server said more than it may.
    TooLarge,
}

/// Keeps a connection.
pub(super) struct Keeper {
    place: Place,
    client: reqwest::Client,
    live: Mutex<Option<Arc<Live>>>,
}

/// A connection. A child ends with it.
struct Live {
    service: RunningService<RoleClient, Visitor>,
    _child: Option<Child>,
    /// Whether a question was given up on it: it is not used again, so that nothing piles up there.
    is_stale: AtomicBool,
    /// Whether the server said more than it may.
    has_flooded: Arc<AtomicBool>,
}

/// A question under way.
struct Asking<'l> {
    live: &'l Live,
    is_answered: bool,
}

impl Drop for Asking<'_> {
    fn drop(&mut self) {
        if !self.is_answered {
            self.live.is_stale.store(true, Ordering::Relaxed);
        }
    }
}

/// The client side: it can be asked nothing.
#[derive(Clone)]
struct Visitor;

impl ClientHandler for Visitor {
    fn get_info(&self) -> InitializeRequestParams {
        let name = Implementation::new("chancery", env!("CARGO_PKG_VERSION"));
        InitializeRequestParams::new(ClientCapabilities::default(), name)
    }
}

impl Keeper {
    pub(super) fn new(place: Place, client: reqwest::Client) -> Self {
        Self {
            place,
            client,
            live: Mutex::new(None),
        }
    }

    /// Calls a tool over the connection that is there, or over a new one. One that fails is not used again.
    pub(super) async fn call(&self, params: CallToolRequestParams) -> Result<ServerResult, Broken> {
        let live = self.live().await?;
        let request = ClientRequest::CallToolRequest(CallToolRequest::new(params));
        let mut asking = Asking {
            live: &live,
            is_answered: false,
        };
        let answer = live.service.send_request(request).await;
        asking.is_answered = matches!(
            answer,
            Ok(_) | Err(ServiceError::McpError(_) | ServiceError::UnexpectedResponse)
        );
        answer.map_err(|error| match error {
            ServiceError::McpError(_) | ServiceError::UnexpectedResponse => Broken::Refused,
            _ if live.has_flooded.load(Ordering::Relaxed) => Broken::TooLarge,
            _ => Broken::Gone,
        })
    }

    async fn live(&self) -> Result<Arc<Live>, Broken> {
        let mut kept = self.live.lock().await;
        let is_good = |live: &&Arc<Live>| {
            !live.service.is_transport_closed() && !live.is_stale.load(Ordering::Relaxed)
        };
        if let Some(live) = kept.as_ref().filter(is_good) {
            return Ok(Arc::clone(live));
        }
        *kept = None;
        let live = Arc::new(self.open().await?);
        *kept = Some(Arc::clone(&live));
        Ok(live)
    }

    async fn open(&self) -> Result<Live, Broken> {
        // The newest revision first; whoever does not know it is greeted as of old (VA-SUB-3).
        let lifecycle = ClientLifecycleMode::Auto {
            preferred_versions: vec![ProtocolVersion::V_2026_07_28],
            legacy_version: Some(ProtocolVersion::V_2025_11_25),
        };
        let has_flooded = Arc::new(AtomicBool::new(false));
        let (opened, child) = match &self.place {
            Place::Web(url) => {
                let mut config = StreamableHttpClientTransportConfig::with_uri(url.as_str());
                config.retry_config = Arc::new(NeverRetry::default());
                let web = Web::new(self.client.clone(), Arc::clone(&has_flooded));
                let transport = StreamableHttpClientTransport::with_client(web, config);
                (
                    Visitor.serve_with_lifecycle(transport, lifecycle).await,
                    None,
                )
            }
            Place::Child(words) => {
                let mut child = spawn(words).map_err(|error| {
                    tracing::debug!(%error, "an MCP server could not be started");
                    Broken::Unreachable
                })?;
                let (Some(output), Some(input)) = (child.stdout.take(), child.stdin.take()) else {
                    return Err(Broken::Unreachable);
                };
                let output = Lines {
                    output,
                    length: 0,
                    has_flooded: Arc::clone(&has_flooded),
                };
                let transport = AsyncRwTransport::<RoleClient, _, _>::new(output, input);
                let opened = Visitor.serve_with_lifecycle(transport, lifecycle).await;
                (opened, Some(child))
            }
        };
        let service = opened.map_err(|error| {
            tracing::debug!(%error, "an MCP server could not be opened");
            Broken::Unreachable
        })?;
        Ok(Live {
            service,
            _child: child,
            is_stale: AtomicBool::new(false),
            has_flooded,
        })
    }
}

fn spawn(words: &[String]) -> std::io::Result<Child> {
    let (program, arguments) = words
        .split_first()
        .ok_or_else(|| std::io::Error::other("there is no program"))?;
    Command::new(program)
        .args(arguments)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        // What it writes beside the protocol is its own.
        .stderr(Stdio::null())
        .kill_on_drop(true)
        .spawn()
}

/// A child's output, whose lines have a bound: beyond it the connection is at its end.
struct Lines<R> {
    output: R,
    length: usize,
    has_flooded: Arc<AtomicBool>,
}

impl<R: AsyncRead + Unpin> AsyncRead for Lines<R> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<std::io::Result<()>> {
        let before = buf.filled().len();
        let read = Pin::new(&mut self.output).poll_read(cx, buf);
        let new = buf.filled().get(before..).unwrap_or_default();
        for line in new.split_inclusive(|byte| *byte == b'\n') {
            self.length += line.len();
            if self.length > MAX_ANSWER {
                self.has_flooded.store(true, Ordering::Relaxed);
                return Poll::Ready(Err(std::io::Error::other(TOO_LARGE)));
            }
            if line.ends_with(b"\n") {
                self.length = 0;
            }
        }
        read
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // VA-SUB-3
    #[test]
    fn a_server_is_an_address_or_a_command_line() {
        let child = |words: &[&str]| {
            let words = words.iter().map(|word| (*word).to_owned());
            Ok(Place::Child(words.collect()))
        };
        let url = "https://host.example/mcp";
        assert_eq!(Place::parse(url), Ok(Place::Web(url.to_owned())));
        assert_eq!(Place::parse("stdio:a b"), child(&["a", "b"]));
        let quoted = "python3  \"a b.py\" \"\" x\"y z\"";
        assert_eq!(
            Place::parse(quoted),
            child(&["python3", "a b.py", "", "xy z"])
        );
        for none in ["", "stdio:", "  ", "a \"b"] {
            assert_eq!(Place::parse(none), Err(PlaceError), "{none:?}");
        }
    }
}
