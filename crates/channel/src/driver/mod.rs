//! The driver cut: everything a loop asks of the operating system.
//!
//! One trait, shaped like completion I/O with immediate results, so that readiness (epoll, poll) and
//! completion (io_uring) drivers serve the same channels. A driver knows tokens and bytes; it knows
//! neither handlers nor pipelines, and calls nobody.
//!
//! ```text
//!            attach, register_foreign                detach
//!   (token) ─────────────────────────► attached ─────────────► gone       Detach::Done
//!                                        │  ▲                   ▲
//!              set_read, write, shutdown │  │ next_event        │
//!                        set_interest    ▼  │                   │ Detached
//!                                      the kernel               │
//!                                                 detach ──► detaching    Detach::Pending
//! ```
//!
//! # The contract
//!
//! What every driver does, and what every driver is tested for:
//!
//! *Waiting*
//! - Only [`wait`](Driver::wait) blocks: until there is an event, until it is woken, or until the
//!   given time, never beyond it by more than the kernel's resolution, and not at all if the time has
//!   come or [`next_event`](Driver::next_event) has something to give.
//! - A signal does not end a wait and does not move its deadline.
//! - An [`unpark`](waterwheel_executor::Unpark::unpark) of the waker ends the current wait or, if
//!   there is none, the next. Any number of them may end one wait only. The waker may be used after
//!   the driver has gone, and survives a [`rebuild`](Driver::rebuild).
//! - [`WaitSummary::ready`] counts registrations that live and may have something to say, and nothing else. A wait that returns
//!   early, was not woken and leads to no event makes the loop suspect a spinning selector.
//!
//! *Events*
//! - An event is given out once, by `next_event`, and concerns a token that is attached at that very
//!   moment. After `detach` nothing but `Detached` is given out for a token, not even what was
//!   waiting to be.
//! - Of one token, in one round of events: `Connected`, then `Wrote`, then `Read`, `Datagram`,
//!   `AncillaryMessage` or `Accepted`, then `ReadComplete`, then `Eof` or `PeerFinished`; `AcceptFailed`, `ReceiveFailed` or `Failed` last.
//! - Every round of reads, empty or not, ends with one `ReadComplete`. `Eof` comes once, and no `Read`
//!   after it. A driver that knows a read to be the last of its round may say `LastRead`, which is the
//!   `Read` and the `ReadComplete` in one. If reads are turned off at the `ReadComplete` of the round that
//!   found the end, the next round is the `Eof` alone: whoever asks for one round after the other learns of
//!   the end too. A round may be empty after one that ended because its plan was used up.
//! - What the kernel says only once (EPOLLET) is kept by the driver until somebody wants it: what came while reads
//!   were off, what a round left that ended by its plan, a connection that could not be accepted, the peer's end.
//! - One round of events is finite: neither a busy peer, nor an error that lasts, nor what the loop does in
//!   the course of the round can keep `next_event` from returning `None`. Whoever has something to say because
//!   of a call made during a round says it in the next one.
//! - `Failed` means that it is broken: no other event follows, and the driver has stopped watching it.
//! - `AcceptFailed` means that a listener could not accept one connection, and the round of accepts has
//!   ended with it. A connection that was gone before it was accepted is not worth an event: the next
//!   one is accepted. Where the cause lasts, as with a lack of descriptors, it comes once in each
//!   round: whoever listens turns accepting off for a while (L16).
//! - What a call cannot say by its result, `Failed` says later.
//!
//! *Registrations*
//! - The driver owns what it was given until it is detached, and drops it before it says so; a failed
//!   `attach` or `register_foreign` leaves nothing behind. Something that it does not know, which may be anything
//!   of the user's, it hands back in the error ([`Io::refused`]); what it knows it drops.
//! - [`release`](Driver::release) is a detach that gives the socket back, to be attached again. It is
//!   refused, and the socket stays attached, while a write is under way.
//! - `detach` of a registration with nothing in flight is `Done`; otherwise `Pending`, and one
//!   `Detached` follows. Of a token that is not attached it is `Done`.
//! - A call with a token that is not attached, or is detaching, or is of another kind (a write to a foreign
//!   descriptor), is an error or does nothing; it never panics. To attach something under a token that
//!   is in use is an error.
//! - A foreign registration gets `Foreign` events as long as its descriptor is ready for something it
//!   is interested in (level-triggered), and with an error or hang-up in any case. `Failed` says that
//!   it cannot be watched any longer: so does a [`set_interest`](Driver::set_interest) that finds its
//!   descriptor closed behind the driver's back, besides returning the error.
//!
//! *Streams*
//! - Reads are off at first. While they are off nothing is read, and no `Eof` is reported. That the peer has
//!   finished is told by `PeerFinished` then: once for each stream that is attached, never after `Eof`, and not
//!   after the own input was [shut down](Driver::shutdown). A peer that has reset the stream is told by `Failed`
//!   alone.
//! - A round of reads ends when the plan's reads are used up or the kernel has no more.
//! - A write is `Done(n)` with what the kernel took at once, `Full` if there is no room, or `Pending`
//!   if it is under way. After the last two exactly one `Wrote` or `Failed` follows, and no other write
//!   may be begun before. `Wrote(0)` says that the write is to be repeated. A write that returns an
//!   error is not followed by `Failed`.
//! - A file that is sent is a write: what is said of writes is said of it. It is never `Done(0)`: a file that
//!   has become too short is an error. A driver that cannot have the kernel send it copies it, and so
//!   does one whose kernel does not know how to send this file.
//! - What is `Pending` ends without the peer's help: one that finds no room ends in `Wrote(0)`, and its
//!   repetition is `Full`. So whoever closes a stream may wait for it. What is `Full` may last for ever.
//! - `Connecting` ends with one `Connected` or one `Failed`, unless `attach` itself has failed.
//! - An error of the socket is taken from it and given out as `Failed`. A hang-up while reads are off
//!   is left alone until they are on: neither case makes the loop spin (L17).
//!
//! *Datagrams*
//! - A round of reads gives one `Datagram` for each that was received, whole or cut off at the plan's size,
//!   at most as many as the plan has reads. Those that were taken from the kernel together, and not given
//!   out when reads go off, are the first when they are on again; released, the socket takes them along.
//! - What is sent is `Done(n)` with the number of datagrams that the kernel took, at least one; or
//!   `Full`, as for a stream, and never `Pending`. An error concerns the first of them, which will not be
//!   sent, and nothing else.
//! - `ReceiveFailed` says that one was not received, or that one that was sent has not arrived, as the last
//!   of a round. It comes once for each error; the socket goes on. There is no `Eof`.
//!
//! *Ancillary messages*
//! - A read or a datagram that came with more than bytes is a `AncillaryMessage`, if that was asked for by an option:
//!   it counts as the `Read` or `Datagram` that it would have been. Otherwise what came along is dropped.
//! - Whatever was passed is in the ancillary message that is given out, or is closed: nothing is left open.
//!
//! *Rebuilding*
//! - [`rebuild`](Driver::rebuild) replaces the kernel's set of watched descriptors by a new one with
//!   the same registrations, interest and tokens. What cannot be moved is `Failed`. If no new set can
//!   be had, the old one stays in use and the error is returned.
//!
//! *Panics*
//! - A driver does not panic. If one does all the same, the loop closes the registration it was working on, with
//!   the panic as the cause, and goes on with the others (R05). That is the token of the call; in `next_event`,
//!   `wait` and `rebuild` it is what [`working_on`](Driver::working_on) says. A panic that concerns no token, or
//!   one that is detached already, ends the loop.
//! - After a panic the driver is asked to `detach` that token, and serves all others as before.

mod driver_panicked;
mod event;
mod interest;
mod multicast;
mod out_queue;
mod socket_option;
mod task_only;

use std::io::{Error, ErrorKind, Result};
use std::net::Shutdown;
use std::sync::Arc;

use waterwheel_executor::{Clock, Nanos, Unpark};

pub use self::driver_panicked::DriverPanicked;
pub use self::event::{IoEvent, Readiness};
pub use self::interest::{Interest, ReadPlan, Role};
pub use self::multicast::{MulticastMembership, NetworkInterface};
pub use self::out_queue::OutQueue;
pub use self::socket_option::SocketOption;
pub use self::task_only::TaskOnly;
use crate::address::Address;
pub use crate::payload::Io;
use crate::payload::{AncillaryMessage, Credentials, Datagram, FileRegion};
use crate::token::Token;

/// At most so many datagrams go through one call: more would save next to nothing.
pub const DATAGRAMS_AT_ONCE: usize = 16;

/// So much of a file is copied at a time, where it has to be: 64 KiB, what a fresh socket takes.
pub const COPIED_AT_ONCE: usize = 64 * 1024;

/// Opens a driver for each loop that is built. Drivers are values: a loop is built with one of these.
pub trait OpenDriver: Send + Sync {
    /// Opens a driver.
    ///
    /// # Errors
    /// Names the resource that could not be had.
    fn open(&self) -> Result<Box<dyn Driver>>;
}

/// A loop's way to the operating system. See the [module's documentation](self) for the contract.
///
/// It is opened by whoever builds the loop, then moves to the loop's thread and stays there.
pub trait Driver: Send {
    /// What it is: `"epoll"`, `"poll"`, …
    fn name(&self) -> &'static str;

    /// The clock that its deadlines are read off.
    fn clock(&self) -> Clock;

    /// Ends its waits, from any thread.
    fn waker(&self) -> Arc<dyn Unpark>;

    /// Takes a socket in. Reads are off.
    ///
    /// # Errors
    /// If it is not of a kind this driver knows, or the kernel refuses it.
    fn attach(&mut self, token: Token, io: Io, role: Role) -> Result<()>;

    /// Lets a socket or a foreign descriptor go.
    fn detach(&mut self, token: Token) -> Detach;

    /// Gives a socket back, without closing it: it is no longer attached then.
    ///
    /// # Errors
    /// There is no such socket, or an operation on it is under way.
    fn release(&mut self, token: Token) -> Result<Io>;

    /// Where a socket is bound, as far as the kernel knows.
    fn local_address(&self, token: Token) -> Option<Address>;

    /// Sets an option of a socket.
    ///
    /// # Errors
    /// `Unsupported` if there is no such option for it; what the kernel says.
    fn set_option(&mut self, token: Token, option: SocketOption) -> Result<()>;

    /// Turns reading, or accepting, on or off.
    fn set_read(&mut self, token: Token, plan: Option<ReadPlan>);

    /// Writes as much of the queue as the kernel takes at once. The caller takes what was written out
    /// of the queue. The queue is not empty.
    ///
    /// # Errors
    /// What the kernel says; the stream is broken then.
    fn write(&mut self, token: Token, queue: &OutQueue) -> Result<Submit>;

    /// Sends as much of a file as the kernel takes at once, and at most a share that lets others have
    /// their turn. The caller notes how much was sent. The region is not empty.
    ///
    /// Unless a driver knows better, a piece of it is copied and written.
    ///
    /// # Errors
    /// What the kernel says; that the file has [ended](FileRegion::ended). The stream is broken then.
    fn send_file(&mut self, token: Token, file: &FileRegion) -> Result<Submit> {
        let mut queue = OutQueue::new();
        queue.push(file.read(COPIED_AT_ONCE)?);
        self.write(token, &queue)
    }

    /// Sends the first of these datagrams, as many as the kernel takes at once. There is at least one.
    ///
    /// # Errors
    /// What the kernel says about the first of them; it is not sent, and the others may be.
    fn send_datagrams(
        &mut self,
        token: Token,
        batch: &mut dyn Iterator<Item = &Datagram>,
    ) -> Result<Submit> {
        let _ = (token, batch);
        Err(Error::new(ErrorKind::Unsupported, "this driver has no datagrams"))
    }

    /// Sends an ancillary message: on a stream as a write does, `Done` with the bytes of it that the kernel has taken,
    /// what is passed with the first of them; otherwise as one datagram. An ancillary message for a stream is not empty;
    /// once some of its bytes were sent nothing is passed any more, and the rest of them are sent like any
    /// others.
    ///
    /// # Errors
    /// `InvalidInput` is about this ancillary message and nothing else: what is passed is too much, or nothing that this
    /// driver knows. Anything else is what the kernel says: a stream is broken then, a socket for datagrams
    /// is not.
    fn send_ancillary(&mut self, token: Token, ancillary: &AncillaryMessage) -> Result<Submit> {
        let _ = (token, ancillary);
        Err(Error::new(ErrorKind::Unsupported, "this driver passes nothing but bytes"))
    }

    /// Who a socket is connected to.
    ///
    /// # Errors
    /// `Unsupported` if its peers are not known by more than an address.
    fn peer_credentials(&self, token: Token) -> Result<Credentials> {
        let _ = token;
        Err(Error::new(ErrorKind::Unsupported, "this driver does not know who its peers are"))
    }

    /// Shuts one or both directions of a stream down.
    ///
    /// # Errors
    /// What the kernel says.
    fn shutdown(&mut self, token: Token, how: Shutdown) -> Result<()>;

    /// Takes in a descriptor that is not a channel's, to be told when it is ready.
    ///
    /// # Errors
    /// If the interest is empty or not supported, it is not of a kind this driver knows, or the
    /// kernel refuses it.
    fn register_foreign(&mut self, token: Token, io: Io, interest: Interest) -> Result<()>;

    /// Changes what a foreign registration is interested in.
    ///
    /// # Errors
    /// As for [`register_foreign`](Self::register_foreign). The interest stays what it was, unless
    /// the descriptor is gone: then `Failed` follows.
    fn set_interest(&mut self, token: Token, interest: Interest) -> Result<()>;

    /// Replaces the kernel's set by a new one; returns how many registrations were moved.
    ///
    /// # Errors
    /// No new set could be had: the old one stays.
    fn rebuild(&mut self) -> Result<usize>;

    /// Blocks until there is something to do; `None` has no limit.
    ///
    /// # Errors
    /// The kernel refuses to wait; the loop rebuilds.
    fn wait(&mut self, until: Option<Nanos>) -> Result<WaitSummary>;

    /// The next event of this round.
    fn next_event(&mut self) -> Option<IoEvent>;

    /// Returns the token that the driver was working on when its last `next_event`, `wait` or `rebuild` panicked.
    /// `None` ends the loop: nobody knows what the driver would do next.
    fn working_on(&self) -> Option<Token> {
        None
    }
}

/// What ended a wait.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct WaitSummary {
    /// How many registrations have something to say.
    pub ready: usize,
    /// The waker was used.
    pub woken: bool,
}

/// What came of a write.
#[must_use]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Submit {
    /// So many bytes were written.
    Done(usize),
    /// Nothing was written, there is no room: `Wrote` or `Failed` follows.
    Full,
    /// It is under way: `Wrote` or `Failed` follows.
    Pending,
}

/// What came of a detach.
#[must_use]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Detach {
    /// It is gone.
    Done,
    /// Something is in flight: `Detached` follows.
    Pending,
}
