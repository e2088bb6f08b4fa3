//! Channels within the process, without the operating system: servers with a name, and connections between two
//! channels (C13, L14).
//!
//! ```
//! use std::sync::mpsc;
//! use std::time::Duration;
//! use waterwheel_channel::driver::TaskOnly;
//! use waterwheel_channel::{Address, Ctx, EventLoopGroup, Handler, HandlerResult, Msg, NewChannel, local};
//!
//! struct Accept;
//!
//! impl Handler for Accept {
//!     fn on_read(&mut self, ctx: &Ctx<'_>, msg: Msg) -> HandlerResult {
//!         if let Ok(accepted) = msg.take::<NewChannel>() {
//!             ctx.event_loop().register_with(accepted, |edit| {
//!                 edit.add_last("greet", Greet)?;
//!                 Ok(())
//!             })?;
//!         }
//!         Ok(())
//!     }
//! }
//!
//! struct Greet;
//!
//! impl Handler for Greet {
//!     fn on_read(&mut self, ctx: &Ctx<'_>, msg: Msg) -> HandlerResult {
//!         if let Ok(name) = msg.take::<String>() {
//!             ctx.write_and_flush(format!("hello, {name}"));
//!         }
//!         Ok(())
//!     }
//! }
//!
//! struct Tell(mpsc::Sender<String>);
//!
//! impl Handler for Tell {
//!     fn on_read(&mut self, _: &Ctx<'_>, msg: Msg) -> HandlerResult {
//!         let _ = msg.take::<String>().map(|text| self.0.send(text));
//!         Ok(())
//!     }
//! }
//!
//! let group = EventLoopGroup::builder(TaskOnly).threads(2).build()?;
//! let server = local::listen("greeter")?.initialiser(|edit| {
//!     edit.add_last("accept", Accept)?;
//!     Ok(())
//! });
//! let server = group.register(server).join()?;
//!
//! let (told, hears) = mpsc::channel();
//! let client = NewChannel::new(local::Connection::new()).initialiser(|edit| {
//!     edit.add_last("tell", Tell(told))?;
//!     Ok(())
//! });
//! let client = group.register(client).join()?;
//! client.connect(Address::local("greeter")).join()?;
//! client.write_and_flush("wheel".to_owned()).join()?;
//! assert_eq!(hears.recv_timeout(Duration::from_secs(20))?, "hello, wheel");
//! # group.shutdown_gracefully(Duration::ZERO, Duration::from_secs(5))?.join()?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # Guarantees
//!
//! - Messages of any type move by value, in order. End-of-stream follows the last message.
//! - A name belongs to one server, from its bind until its channel is closed.
//! - A connect is done when the connection is in the server's backlog, as with a socket: the client may write
//!   before it is accepted. The connect fails at once if there is no server or the backlog is full; the client
//!   may then try again.
//! - An end that is dropped, closed or never accepted closes the other end, which reads the rest first. Writing
//!   to an end that is gone fails with [`LocalError::PeerClosed`], as a broken pipe, and closes the writer.
//! - An end may shut down its output (C10): the other end reads the rest, then end-of-stream, and may continue
//!   to send. An end that wants to read no more simply does not read: see the next point.
//! - A peer that does not read blocks its writer: at most [`QUEUED_BYTES`] and [`QUEUED_MESSAGES`] wait between
//!   the ends. The writer resumes when half of that is read.
//!
//! # The rules between two ends
//!
//! ```text
//!    loop A                     one queue per direction                     loop B
//!    write ──► room? ──► push ══► queue ══► take ──► next_event ──► handlers
//!                │ full: writer waits         │ empty: reader waits
//!    Wrote(0) ◄──┴──── half empty: wakes ◄────┴──── pushed, finished: wakes
//! ```
//!
//! 1. One end writes a queue and the other reads it, each on its own loop, or on the same. Their shared state
//!    is under the queue's lock, which is held for a few instructions and never while user code runs:
//!    `size_hint` is called before, messages are dropped and wakers are called after.
//! 2. An end that finds nothing to do sets `is_waiting` *in the same critical section* in which it checked the queue.
//!    The end that gives it something to do changes the queue and clears the flag in one critical section. The
//!    lock orders the two: either the check is later and sees the change, or the change is later and sees the
//!    flag. Nothing is lost, and an end that does not wait is not woken: in a steady flow there are no wakes.
//! 3. The wake is sent after the lock was released. By then the flag is clear, and this wake is the only one; it
//!    must lead to a check that begins later than the change. On the end's own loop the wake marks the channel, which
//!    checks later. From another thread the wake sends a command, unless one is queued that the loop has not taken
//!    (`poll_requested`, set by a swap, cleared by the loop before it checks). If the swap finds the flag set,
//!    then the flag was not yet cleared; if the loop's check had been before the change, then its clearing would
//!    have happened before too, by the order of the lock, and the swap would have seen that. So the queued
//!    command leads to a check after the change. The atomics need no more than Acquire and Release for this: the
//!    lock gives the order.
//! 4. A check without a change does no harm: every check reads the queue again.
//! 5. An end that is not registered has no waker, and a wake for it is lost; when it is registered again it
//!    checks the queue by itself.
//! 6. A turn of the loop gives a channel one round of reads; the rest is read in the next turn, without another
//!    wake. No end calls the other end: it wakes the other end, which checks on its own loop. Two channels that answer
//!    each other forever use no stack and starve no other channel.

mod connection;
mod error;
mod factory;
mod listener;
mod message_queue;
mod name_registry;
mod read_rounds;

use std::sync::Arc;

use crate::channel::handle::new_channel::NewChannel;

pub use self::connection::Connection;
pub use self::error::LocalError;
pub use self::factory::Local;
pub use self::listener::{DEFAULT_BACKLOG, LocalListener};
pub use self::message_queue::{QUEUED_BYTES, QUEUED_MESSAGES};

/// Creates a server with this name. It accepts connections once it is registered; until then they wait in its
/// backlog, of [`DEFAULT_BACKLOG`]. It reads [`NewChannel`]s.
///
/// # Errors
/// The name is in use.
///
/// ```
/// use waterwheel_channel::local::{self, LocalError};
///
/// let server = local::listen("taken")?;
/// let error = local::listen("taken").unwrap_err();
/// assert_eq!(error.to_string(), "the name local:taken is in use");
/// drop(server);
/// let _server = local::listen("taken")?;
/// # Ok::<(), LocalError>(())
/// ```
pub fn listen(name: impl Into<Arc<str>>) -> Result<NewChannel, LocalError> {
    Ok(NewChannel::new(LocalListener::new().listen(name)?))
}

/// Creates two channels that are connected with each other.
pub fn pair() -> (NewChannel, NewChannel) {
    let (one, other) = Connection::pair();
    (NewChannel::new(one), NewChannel::new(other))
}
