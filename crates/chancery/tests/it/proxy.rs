//! A way to a server of PostgreSQL that can be cut at a chosen moment.

use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Condvar, Mutex};

/// The request that ends a transaction, as it is on the wire.
const COMMIT: &[u8] = b"Q\0\0\0\x0bCOMMIT\0";
/// The answer to it.
const COMMITTED: &[u8] = b"COMMIT\0";

/// When a connection is cut.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cut {
    /// The server never hears that the transaction is to end well.
    BeforeCommit,
    /// The server has committed, and nobody hears of it.
    AfterCommit,
}

/// What is to happen next, and how often it has.
#[derive(Default)]
struct Wish {
    cut: Option<Cut>,
    cuts: usize,
}

/// The way; connections are let through one by one.
pub struct Proxy {
    pub address: SocketAddr,
    wish: Arc<(Mutex<Wish>, Condvar)>,
}

impl Proxy {
    pub fn to(server: SocketAddr) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let wish = Arc::<(Mutex<Wish>, Condvar)>::default();
        let shared = Arc::clone(&wish);
        std::thread::spawn(move || {
            for client in listener.incoming().flatten() {
                if let Ok(server) = TcpStream::connect(server) {
                    let wish = Arc::clone(&shared);
                    std::thread::spawn(move || let_through(&client, &server, &wish));
                }
            }
        });
        Self { address, wish }
    }

    /// Cuts the next connection that commits; returns when it is cut. Gives how many were so far.
    pub fn cut(&self, cut: Cut) -> usize {
        let (wish, changed) = &*self.wish;
        let mut now = wish.lock().unwrap();
        now.cut = Some(cut);
        let waits = |wish: &mut Wish| wish.cut.is_some();
        changed.wait_while(now, waits).unwrap().cuts
    }
}

/// Carries bytes both ways until one side ends or the connection is cut.
fn let_through(client: &TcpStream, server: &TcpStream, wish: &(Mutex<Wish>, Condvar)) {
    let _ = (client.set_nodelay(true), server.set_nodelay(true));
    std::thread::scope(|scope| {
        scope.spawn(|| carry(client, server, wish, (Cut::BeforeCommit, COMMIT)));
        carry(server, client, wish, (Cut::AfterCommit, COMMITTED));
    });
}

/// Carries bytes one way. Cuts the connection where that is wished, instead of carrying what has the mark.
fn carry(
    mut from: &TcpStream,
    mut to: &TcpStream,
    (wish, changed): &(Mutex<Wish>, Condvar),
    (cut, mark): (Cut, &[u8]),
) {
    let mut bytes = vec![0; 1 << 16];
    // A mark may come in two parts.
    let mut seen = Vec::new();
    while let Ok(read @ 1..) = from.read(&mut bytes) {
        seen.extend_from_slice(&bytes[..read]);
        if seen.windows(mark.len()).any(|part| part == mark) {
            let mut now = wish.lock().unwrap();
            if now.cut == Some(cut) {
                now.cut = None;
                now.cuts += 1;
                changed.notify_all();
                break;
            }
        }
        seen.drain(..seen.len().saturating_sub(mark.len() - 1));
        if to.write_all(&bytes[..read]).is_err() {
            break;
        }
    }
    for stream in [from, to] {
        let _ = stream.shutdown(Shutdown::Both);
    }
}
