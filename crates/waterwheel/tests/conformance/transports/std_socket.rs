//! A socket of the standard library as the foreign peer of a connection.

use std::io::{self, Read, Write};

use crate::cell::ForeignPeer;

/// The socket, and the calls that differ between kinds of sockets.
pub(super) struct StdSocket<S> {
    pub(super) stream: S,
    pub(super) finish: fn(&S) -> io::Result<()>,
    /// Prepares the socket so that its close is a reset.
    pub(super) arm_reset: fn(&S),
}

impl<S: Read + Write> ForeignPeer for StdSocket<S> {
    fn send(&mut self, bytes: &[u8]) {
        self.stream.write_all(bytes).expect("the bytes are sent");
    }

    fn finish(&mut self) {
        (self.finish)(&self.stream).expect("the socket is connected");
    }

    fn receive_all(&mut self) -> io::Result<Vec<u8>> {
        let mut received = Vec::new();
        self.stream.read_to_end(&mut received)?;
        Ok(received)
    }

    fn reset(self: Box<Self>) {
        (self.arm_reset)(&self.stream);
    }
}
