//! Sockets for datagrams on their way to a driver.

use std::collections::VecDeque;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use waterwheel_channel::Datagram;
use waterwheel_channel::driver::Io;

use crate::sockets::socket::Socket;

/// A non-blocking socket of the datagram kind, bound or connected.
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
    /// Taken from the kernel together with others, and not given out before it left its driver.
    pub(crate) received: VecDeque<Box<Datagram>>,
}

impl DatagramSocket {
    /// Takes a socket of the standard library, or any other, and makes it non-blocking.
    ///
    /// # Errors
    /// The kernel refuses.
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
