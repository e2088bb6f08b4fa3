//! Foreign descriptors: descriptors that do not belong to a channel (L08).

use std::os::fd::{AsFd, AsRawFd, BorrowedFd, RawFd};
use std::sync::Arc;

use waterwheel_channel::Foreign;
use waterwheel_channel::driver::Io;

use crate::sys;

/// A descriptor that a driver may watch: a pipe, a timer, a child's output, a UDP socket. `as_fd` is called
/// once, when the source is wrapped: that descriptor must stay open while the source is registered.
pub trait ForeignSource: AsFd + Send + Sync + 'static {}

impl<T: AsFd + Send + Sync + 'static> ForeignSource for T {}

/// Wraps a descriptor for [`register_foreign`](waterwheel_channel::driver::Driver::register_foreign). The
/// driver holds the source while it is registered.
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
    let fd = source.as_fd().as_raw_fd();
    Io::new(ForeignFd { source, fd })
}

/// Wraps a descriptor to be registered with an event loop, which then owns it.
///
/// ```
/// use std::io::{Read, Write};
/// use std::sync::mpsc;
///
/// use waterwheel_channel::driver::Interest;
/// use waterwheel_channel::{EventLoopGroup, on_ready};
/// use waterwheel_executor::Error;
/// use waterwheel_net::{Auto, foreign};
///
/// let (reader, mut writer) = std::io::pipe()?;
/// let (heard, words) = mpsc::channel();
/// let listen = on_ready(move |mut reader: &std::io::PipeReader, _ready, context| {
///     let mut bytes = [0; 64];
///     match reader.read(&mut bytes)? {
///         0 => _ = context.unregister(), // The writer has gone.
///         n => heard.send(bytes[..n].to_vec()).map_err(Error::new)?,
///     }
///     Ok(())
/// });
/// let group = EventLoopGroup::builder(Auto).threads(1).build()?;
/// group.next().register_foreign(foreign(reader), Interest::READABLE, listen).join()?;
///
/// writer.write_all(b"hello")?;
/// assert_eq!(words.recv()?, b"hello");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn foreign<T: ForeignSource>(source: T) -> Foreign<T> {
    let source = Arc::new(source);
    Foreign::new(source.clone(), foreign_io(source))
}

/// A foreign source and its descriptor, as passed to a driver. `as_fd` is user code and must not run
/// while the driver is busy, so the descriptor is stored.
pub(crate) struct ForeignFd {
    source: Arc<dyn ForeignSource>,
    fd: RawFd,
}

impl AsFd for ForeignFd {
    fn as_fd(&self) -> BorrowedFd<'_> {
        sys::borrow_fd_of(&*self.source, self.fd)
    }
}
