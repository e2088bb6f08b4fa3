//! A client that sends bytes as they are, and looks at the bytes that come back.

use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};

use crate::program::connect;

/// One connection.
pub(crate) struct RawClient {
    stream: TcpStream,
    received: Vec<u8>,
}

impl RawClient {
    pub(crate) fn new(server: SocketAddr) -> Self {
        let stream = connect(server);
        stream.set_nodelay(true).unwrap();
        Self { stream, received: Vec::new() }
    }

    pub(crate) fn send(&mut self, bytes: impl AsRef<[u8]>) {
        self.stream.write_all(bytes.as_ref()).unwrap();
    }

    /// Finishes sending.
    pub(crate) fn finish(&self) {
        self.stream.shutdown(Shutdown::Write).unwrap();
    }

    /// Returns everything up to the end of the connection, which must not be a reset.
    pub(crate) fn read_to_end(mut self) -> String {
        self.stream.read_to_end(&mut self.received).unwrap();
        String::from_utf8(self.received).unwrap()
    }

    /// Reads until `end` has come, and returns everything up to it.
    pub(crate) fn read_until(&mut self, end: &str) -> String {
        loop {
            let found = self.received.windows(end.len()).position(|part| part == end.as_bytes());
            if let Some(at) = found {
                let rest = self.received.split_off(at + end.len());
                return String::from_utf8(std::mem::replace(&mut self.received, rest)).unwrap();
            }
            let mut part = [0; 4096];
            let length = self.stream.read(&mut part).unwrap();
            assert_ne!(length, 0, "the connection ended after {:?}", self.received.escape_ascii());
            self.received.extend_from_slice(&part[..length]);
        }
    }
}
