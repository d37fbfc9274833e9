//! An address at which nobody listens yet, and that nobody else can take meanwhile.

use std::net::{SocketAddr, TcpListener};

use tokio::net::TcpSocket;

/// It is bound: whoever connects is refused.
pub struct Reserved(TcpSocket);

impl Reserved {
    pub fn new() -> Self {
        let socket = TcpSocket::new_v4().unwrap();
        socket.bind("127.0.0.1:0".parse().unwrap()).unwrap();
        Self(socket)
    }

    pub fn address(&self) -> SocketAddr {
        self.0.local_addr().unwrap()
    }

    /// From now on somebody is there.
    pub fn listen(self) -> TcpListener {
        // It belongs to a runtime for a moment.
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_io()
            .build()
            .unwrap();
        let _inside = runtime.enter();
        let listener = self.0.listen(1_024).unwrap().into_std().unwrap();
        listener.set_nonblocking(false).unwrap();
        listener
    }
}

#[test]
fn an_address_is_kept_before_anybody_listens() {
    use std::net::TcpStream;
    let reserved = Reserved::new();
    let address = reserved.address();
    assert!(TcpStream::connect(address).is_err());
    assert!(TcpListener::bind(address).is_err());
    let listener = reserved.listen();
    let _client = TcpStream::connect(address).unwrap();
    listener.accept().unwrap();
}
