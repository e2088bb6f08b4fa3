//! A socket of the standard library at the other end of a connection.

use std::io::{self, Read, Write};

use crate::cell::ForeignPeer;

/// The socket, and what its kind calls otherwise than others.
pub(super) struct StdSocket<S> {
    pub(super) stream: S,
    pub(super) finish: fn(&S) -> io::Result<()>,
    /// What makes a close a reset.
    pub(super) doom: fn(&S),
}

impl<S: Read + Write> ForeignPeer for StdSocket<S> {
    fn send(&mut self, bytes: &[u8]) {
        self.stream.write_all(bytes).expect("there is room in the end");
    }

    fn finish(&mut self) {
        (self.finish)(&self.stream).expect("it is connected");
    }

    fn receive_all(&mut self) -> io::Result<Vec<u8>> {
        let mut received = Vec::new();
        self.stream.read_to_end(&mut received)?;
        Ok(received)
    }

    fn reset(self: Box<Self>) {
        (self.doom)(&self.stream);
    }
}
