//! Datagram sockets on their way to a driver.

use std::collections::VecDeque;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use waterwheel_channel::Datagram;
use waterwheel_channel::driver::Io;

use crate::sockets::socket::Socket;

/// A non-blocking datagram socket, bound or connected.
///
/// ```
/// use std::net::UdpSocket;
///
/// use waterwheel_channel::driver::Io;
/// use waterwheel_net::DatagramSocket;
///
/// # fn main() -> std::io::Result<()> {
/// let socket = DatagramSocket::new(UdpSocket::bind("127.0.0.1:0")?)?;
/// let io: Io = socket.into();
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct DatagramSocket {
    pub(crate) socket: Socket,
    /// Datagrams received in a batch (`recvmmsg`) and not handed out yet, kept when the socket leaves its driver.
    pub(crate) received: VecDeque<Box<Datagram>>,
}

impl DatagramSocket {
    /// Wraps a socket of the standard library, or any other datagram socket, and makes it non-blocking.
    ///
    /// # Errors
    /// A system call on the socket failed.
    pub fn new(socket: impl Into<OwnedFd>) -> io::Result<Self> {
        Ok(Socket::new(socket)?.into())
    }
}

impl From<Socket> for DatagramSocket {
    fn from(socket: Socket) -> Self {
        Self { socket, received: VecDeque::new() }
    }
}

impl AsFd for DatagramSocket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

impl From<DatagramSocket> for Io {
    fn from(socket: DatagramSocket) -> Io {
        Io::new(socket)
    }
}
