//! One socket, one thread: the blocking driver (L13).
//!
//! A thread that has one connection to look after need not ask the kernel which of many is ready: it waits
//! for the one. What it must not do is to block in the read or the write itself, for nobody could get it out
//! of there: a close from another thread, a task, a timer, a shutdown would wait for the peer. So it waits in
//! poll(2), on its socket and on its waker, and its socket does not block.
//!
//! ```text
//!   read, write ──► EAGAIN ──► poll(2) on { the waker, the socket } ──► what the socket has, or a task
//! ```
//!
//! Every rule about sockets is that of the other drivers, and so are the handlers above it.

use std::io;
use std::sync::Arc;

use waterwheel_channel::driver::{Driver, OpenDriver};

use crate::drivers::poll::PollSelector;
use crate::drivers::readiness::ReadinessDriver;
use crate::drivers::waker::Waker;

/// Opens drivers for one socket at a time, to be used with a loop and a thread for each channel:
/// [`EventLoopGroup::per_channel`](waterwheel_channel::EventLoopGroup::per_channel).
///
/// A second socket is refused while there is one. Descriptors that are no channel's may be registered
/// besides, as with any driver.
///
/// ```
/// use std::net::TcpListener;
///
/// use waterwheel_channel::Slab;
/// use waterwheel_channel::driver::{OpenDriver, Role};
/// use waterwheel_net::{Blocking, Socket};
///
/// # fn main() -> std::io::Result<()> {
/// let mut driver = Blocking.open()?;
/// let mut tokens = Slab::new();
/// let listener = || Ok::<_, std::io::Error>(Socket::new(TcpListener::bind("127.0.0.1:0")?)?.into());
/// driver.attach(tokens.insert(()), listener()?, Role::Listener)?;
/// let refused = driver.attach(tokens.insert(()), listener()?, Role::Listener).unwrap_err();
/// assert!(refused.to_string().contains("one socket at a time"));
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Copy, Debug, Default)]
pub struct Blocking;

impl OpenDriver for Blocking {
    fn open(&self) -> io::Result<Box<dyn Driver>> {
        let waker = Arc::new(Waker::open()?);
        let selector = PollSelector::new(&waker);
        Ok(Box::new(ReadinessDriver::new("blocking", selector, waker).single_socket()))
    }
}
