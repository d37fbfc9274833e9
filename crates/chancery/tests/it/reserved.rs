//! An address at which nobody listens, until somebody does for a while, and that nobody else can take meanwhile.

use std::net::{SocketAddr, TcpListener};

use tokio::net::TcpSocket;

/// It is bound: whoever connects is refused.
pub struct Reserved(TcpSocket);

impl Reserved {
    pub fn new() -> Self {
        Self(bound("127.0.0.1:0".parse().unwrap()))
    }

    pub fn address(&self) -> SocketAddr {
        self.0.local_addr().unwrap()
    }

    /// From now on somebody is there, until the listener is dropped. The address stays reserved.
    pub fn listen(&self) -> TcpListener {
        // It belongs to a runtime for a moment.
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_io()
            .build()
            .unwrap();
        let _inside = runtime.enter();
        let listener = bound(self.address()).listen(1_024).unwrap();
        let listener = listener.into_std().unwrap();
        listener.set_nonblocking(false).unwrap();
        listener
    }
}

/// Shares its address with those that want to share it, which are of this process.
fn bound(address: SocketAddr) -> TcpSocket {
    let socket = TcpSocket::new_v4().unwrap();
    socket.set_reuseport(true).unwrap();
    socket.bind(address).unwrap();
    socket
}

#[test]
fn an_address_is_kept_before_and_after_somebody_listens() {
    use std::net::TcpStream;
    let reserved = Reserved::new();
    let address = reserved.address();
    assert!(TcpStream::connect(address).is_err());
    assert!(TcpListener::bind(address).is_err());
    for _ in 0..2 {
        let listener = reserved.listen();
        let _client = TcpStream::connect(address).unwrap();
        listener.accept().unwrap();
        drop(listener);
        assert!(TcpStream::connect(address).is_err());
        assert!(TcpListener::bind(address).is_err());
    }
}
