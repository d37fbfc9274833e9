//! How often a batch waits for the server: counted on the wire, by a way in between that answers late.

use std::io::{ErrorKind, Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use chancery_store::Postgres;
use chancery_testkit::postgres_server::PostgresServer;

use crate::support::*;

/// The request that ends a transaction, as it is on the wire.
const COMMIT: &[u8] = b"Q\0\0\0\x0bCOMMIT\0";
/// Who has said nothing for so long waits for an answer.
const QUIET: Duration = Duration::from_millis(20);

/// How many trips each transaction took, of all connections.
type Trips = Arc<Mutex<Vec<usize>>>;

/// A way to a server.
fn way_to(server: SocketAddr) -> (SocketAddr, Trips) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let (address, trips) = (listener.local_addr().unwrap(), Trips::default());
    let counted = Arc::clone(&trips);
    std::thread::spawn(move || {
        for client in listener.incoming().flatten() {
            let server = TcpStream::connect(server).unwrap();
            let counted = Arc::clone(&counted);
            std::thread::spawn(move || carry(&client, &server, &counted));
        }
    });
    (address, trips)
}

/// Carries bytes both ways until a side ends: what the client says at once, the answers when it waits for them. All that it
/// says in between is one trip.
fn carry(mut client: &TcpStream, mut server: &TcpStream, trips: &Mutex<Vec<usize>>) {
    for stream in [client, server] {
        stream.set_nodelay(true).unwrap();
        stream.set_read_timeout(Some(QUIET)).unwrap();
    }
    let (mut count, mut waits) = (0, true);
    let (mut bytes, mut said) = (vec![0; 1 << 16], Vec::new());
    loop {
        match client.read(&mut bytes) {
            Ok(read @ 1..) => {
                count += usize::from(waits);
                waits = false;
                said.extend_from_slice(&bytes[..read]);
                if server.write_all(&bytes[..read]).is_err() {
                    return;
                }
                continue;
            }
            Err(error) if is_quiet(&error) => {}
            _ => return,
        }
        if said.windows(COMMIT.len()).any(|part| part == COMMIT) {
            trips.lock().unwrap().push(std::mem::take(&mut count));
        }
        said.clear();
        match server.read(&mut bytes) {
            Ok(read @ 1..) if client.write_all(&bytes[..read]).is_ok() => waits = true,
            Err(error) if is_quiet(&error) => {}
            _ => return,
        }
    }
}

fn is_quiet(error: &std::io::Error) -> bool {
    matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut)
}

#[test]
fn a_batch_of_an_idle_journal_takes_two_trips() {
    // CH-JRN-5
    let server = PostgresServer::start();
    let mut options = journal(server.url(), "trips");
    let (before, rest) = options.url.split_once('@').unwrap();
    let (place, rest) = rest.split_once('/').unwrap();
    let (address, trips) = way_to(place.parse().unwrap());
    options.url = format!("{before}@{address}/{rest}");
    let store = Postgres::open(&options).unwrap();
    (0..8).for_each(|_| count_on(&store));
    let trips = trips.lock().unwrap().clone();
    println!("trips of each transaction, the last eight of batches: {trips:?}");
    // Before them the tables are made, and the first prepares its statements.
    let trips = &trips[trips.len() - 8..];
    // On a busy machine some may seem to take more.
    assert!(trips.iter().any(|trips| *trips <= 2), "{trips:?}");
}
