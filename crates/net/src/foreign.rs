//! Descriptors that are nobody's channel (L08).

use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;

use waterwheel_channel::driver::Io;

/// Anything with a descriptor that a driver may watch: a pipe, a timer, a child's output, a UDP
/// socket. While it is registered it must keep showing the same descriptor.
pub trait ForeignSource: AsFd + Send + Sync + 'static {}

impl<T: AsFd + Send + Sync + 'static> ForeignSource for T {}

/// Makes a descriptor ready for
/// [`register_foreign`](waterwheel_channel::driver::Driver::register_foreign). The driver holds it
/// as long as it is registered.
///
/// ```
/// use std::sync::Arc;
/// use std::net::UdpSocket;
///
/// use waterwheel_channel::Slab;
/// use waterwheel_channel::driver::{Interest, OpenDriver};
/// use waterwheel_net::{Poll, foreign_io};
///
/// # fn main() -> std::io::Result<()> {
/// let socket = Arc::new(UdpSocket::bind("127.0.0.1:0")?);
/// let mut driver = Poll.open()?;
/// let token = Slab::new().insert(());
/// driver.register_foreign(token, foreign_io(socket.clone()), Interest::READABLE)?;
/// # Ok(())
/// # }
/// ```
#[must_use]
pub fn foreign_io(source: Arc<dyn ForeignSource>) -> Io {
    Io::new(Foreign(source))
}

/// What crosses the driver trait.
pub(crate) struct Foreign(Arc<dyn ForeignSource>);

impl AsFd for Foreign {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}
