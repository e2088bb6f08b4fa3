//! The blocking driver: one socket, one thread (L13).
//!
//! A thread that serves one connection need not ask the kernel which of many sockets is ready. It must not
//! block in recv(2) or send(2) either: nothing could interrupt that call, so a close from another thread, a
//! task, a timer or a shutdown would have to wait for the peer. The socket is therefore non-blocking, and the
//! thread waits in poll(2) for its socket and its waker.
//!
//! ```text
//!   recv, send ──► EAGAIN ──► poll(2) on { waker, socket } ──► socket readiness, or a task
//! ```
//!
//! [`ReadinessDriver`] implements the rules for sockets, as for the other drivers, so the same handlers run
//! over the blocking driver.

use std::io;
use std::sync::Arc;

use waterwheel_channel::driver::{Driver, OpenDriver};

use crate::drivers::poll::PollSelector;
use crate::drivers::readiness::ReadinessDriver;
use crate::drivers::waker::Waker;

/// Opens drivers that hold one socket at a time, for groups with a loop and a thread per channel:
/// [`EventLoopGroup::per_channel`](waterwheel_channel::EventLoopGroup::per_channel).
///
/// A second socket is refused while the first is attached. Foreign descriptors may be registered besides the
/// socket, as with any driver.
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
