//! Channels within the process: servers with a name, connections between two channels, no operating
//! system (C13, L14).
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
//! # What is promised
//!
//! - Messages of any type move by value, in order. The end of the stream comes after the last of them.
//! - A name belongs to one server, from its bind until its channel is closed.
//! - A connection is made when it is in the server's backlog, as with a socket: the client may write
//!   before it is accepted. It fails at once if nobody listens or the backlog is full; the client may
//!   then try again.
//! - An end that is dropped, closed, or never accepted, closes the other one: that reads what is left,
//!   then it is closed. Writing to an end that is gone fails with [`LocalError::PeerClosed`], as a
//!   broken pipe, and closes the writer.
//! - An end may say that it will send no more (C10): the other one reads what is left, then the end, and
//!   may go on sending. An end that wants to read no more just does not: see the next point.
//! - A peer that does not read holds its writer back: between the ends wait at most [`QUEUED_BYTES`] and
//!   [`QUEUED_MESSAGES`]. The writer goes on when half of that is gone.
//!
//! # The rules between two ends
//!
//! ```text
//!    loop A                     lane, one per direction                     loop B
//!    write ──► room? ──► push ══► queue ══► take ──► next_event ──► handlers
//!                │ full: writer waits         │ empty: reader waits
//!    Wrote(0) ◄──┴──── half empty: wakes ◄────┴──── pushed, finished: wakes
//! ```
//!
//! 1. One end writes a lane and one reads it, each on its own loop, or the same. What they share is
//!    behind the lane's lock, which is held for a few instructions: never while something of the user's
//!    runs. `size_hint` is asked before, messages are dropped after, wakers are called after.
//! 2. Whoever finds nothing to do notes that it waits *in the same critical section* in which it looked.
//!    Whoever gives it something to do takes that note away in the same critical section in which it
//!    gave. The lock puts the two in an order: either the look came later and has seen the gift, or the
//!    gift came later and finds the note. Nothing is lost, and nobody is woken who does not wait: in a
//!    steady flow there are no wakes at all.
//! 3. The wake comes after the lock was released. By then the note is gone, and this wake is the only
//!    one; it must lead to a look that begins later than the gift. On the end's own loop it marks the
//!    channel, which looks later. From elsewhere it sends a command, unless one is under way that the
//!    loop has not taken (`poll_requested`, set by a swap, cleared by the loop before it looks). If the swap
//!    finds the flag set, then the flag was not yet cleared; had the loop's look come before the gift,
//!    then its clearing would have happened before too, by the order of the lock, and the swap would
//!    have seen that. So the command under way leads to a look after the gift. The atomics need no more
//!    than acquire and release for this: the lock is what orders.
//! 4. A look that was for nothing does no harm: every look asks the lane anew.
//! 5. An end that left its loop has no waker, and a wake for it is lost; when it is registered again it
//!    looks by itself.
//! 6. A turn of the loop gives a channel one round of reads; if there is more it reads on in the next turn,
//!    without having to be woken. Nothing here calls the other end: it is woken, and looks from its loop.
//!    Two channels that answer each other for ever use no stack and starve nobody.

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
pub use self::listener::{DEFAULT_BACKLOG, Listener};
pub use self::message_queue::{QUEUED_BYTES, QUEUED_MESSAGES};

/// A server with this name. It accepts connections once it is registered; until then they wait in its
/// backlog, of [`DEFAULT_BACKLOG`]. What it reads are [`NewChannel`]s.
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
    Ok(NewChannel::new(Listener::new().listen(name)?))
}

/// Two channels that are connected with each other.
pub fn pair() -> (NewChannel, NewChannel) {
    let (one, other) = Connection::pair();
    (NewChannel::new(one), NewChannel::new(other))
}
