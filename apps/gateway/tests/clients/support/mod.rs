//! A gateway with a port of HTTP and a port of lines, and clients that are small enough to be seen through.

pub(crate) mod bench;
pub(crate) mod event_client;
pub(crate) mod gated_engine;
pub(crate) mod http_client;
pub(crate) mod line_client;
pub(crate) mod tokens;
pub(crate) mod websocket_client;

use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

/// Upper bound of every wait; a test that reaches it fails.
pub(crate) const LIMIT: Duration = Duration::from_secs(30);

/// Connects, with a limit on every read and write.
pub(crate) fn connect(to: SocketAddr) -> TcpStream {
    let stream = TcpStream::connect_timeout(&to, LIMIT).expect("the gateway listens");
    stream.set_read_timeout(Some(LIMIT)).unwrap();
    stream.set_write_timeout(Some(LIMIT)).unwrap();
    stream.set_nodelay(true).unwrap();
    stream
}
