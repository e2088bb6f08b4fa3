//! The process before this one, as the process that takes over sees it.

use std::io::{self, Write};
use std::net::Shutdown;
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::time::Duration;

use super::handed_sockets::receive_sockets;
use super::{READY, VARIABLE};
use crate::port::listening_socket::ListeningSocket;

/// How long the sockets may take: the process before this one sends them at once.
const PATIENCE: Duration = Duration::from_secs(10);

/// The process that this one takes over from. Descriptor 0 keeps the connection open until this process ends, so that the
/// process before this one learns of an end that comes too early.
#[derive(Debug)]
pub struct Predecessor(UnixStream);

impl Predecessor {
    /// Returns the process before this one and its sockets; `None` if this process does not take over.
    ///
    /// # Errors
    /// The variable says that this process takes over, and standard input does not lead to the process before it.
    pub fn find() -> io::Result<Option<(Self, Vec<ListeningSocket>)>> {
        if std::env::var_os(VARIABLE).is_none_or(|value| value.is_empty()) {
            return Ok(None);
        }
        let stream = UnixStream::from(io::stdin().as_fd().try_clone_to_owned()?);
        stream.set_read_timeout(Some(PATIENCE))?;
        stream.set_write_timeout(Some(PATIENCE))?;
        let sockets = receive_sockets(&stream)?;
        let sockets = sockets.into_iter().map(ListeningSocket::handed_over).collect();
        Ok(Some((Self(stream), sockets)))
    }

    /// Says that this process accepts connections: the process before it stops.
    ///
    /// # Errors
    /// The process before this one has ended.
    pub fn tell_ready(mut self) -> io::Result<()> {
        self.0.write_all(READY)?;
        self.0.shutdown(Shutdown::Both)
    }
}
