//! The driver trait: everything that a loop asks of the operating system.
//!
//! The trait has the shape of completion I/O with immediate results, so that readiness drivers (epoll, poll) and
//! completion drivers (io_uring) serve the same channels. A driver knows tokens and bytes. It knows neither
//! handlers nor pipelines, and calls no user code.
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
//! Every driver follows these rules, and the driver suite of the testkit tests them:
//!
//! *Waiting*
//! - Only [`wait`](Driver::wait) blocks: until an event arrives, the waker ends the wait, or the deadline passes. A
//!   wait exceeds its deadline by at most the kernel's timer resolution. A wait does not block if its deadline has
//!   passed or [`next_event`](Driver::next_event) has an event.
//! - A signal (EINTR) neither ends a wait nor moves its deadline.
//! - An [`unpark`](waterwheel_executor::Unpark::unpark) of the waker ends the current wait or, if there is none, the
//!   next. Several unparks may end a single wait. The waker may be used after the driver was dropped, and survives a
//!   [`rebuild`](Driver::rebuild).
//! - [`WaitSummary::ready`] counts live registrations that may have an event, and nothing else. If a wait returns
//!   early, was not woken and is followed by no event, the loop suspects a spinning selector.
//!
//! *Events*
//! - `next_event` returns each event once, and only for a token that is attached at that moment. After `detach`,
//!   the only event of a token is `Detached`: events that were queued before are dropped.
//! - The order of one token's events in one round: `Connected`, then `Wrote`, then `Read`, `Datagram`,
//!   `AncillaryMessage` or `Accepted`, then `ReadComplete`, then `Eof` or `PeerFinished`; `AcceptFailed`,
//!   `ReceiveFailed` or `Failed` last.
//! - Every round of reads, empty or not, ends with one `ReadComplete`. `Eof` is reported once, and no `Read` follows.
//!   A driver that knows that a read is the last of its round may report `LastRead`, which stands for `Read` and
//!   `ReadComplete`. If the owner turns reads off at the `ReadComplete` of the round that found the end of the
//!   stream, the next round is `Eof` alone: an owner that requests single rounds gets the `Eof` too. After a round that
//!   ended because its plan was used up, the next round may be empty.
//! - If the kernel reports a condition only once (EPOLLET), the driver remembers it until it is needed: data that
//!   arrived while reads were off, data that a round left unread because its plan was used up, a connection that could
//!   not be accepted, the end of the peer's stream.
//! - A round of events is finite: neither a busy peer, nor a persistent error, nor calls of the loop during the
//!   round can keep `next_event` from returning `None`. Events caused by a call during a round are reported in the
//!   next round.
//! - `Failed` means that the registration is broken: no other event follows, and the driver has stopped watching it.
//! - `AcceptFailed` means that a listener could not accept one connection, and ends the round of accepts. A
//!   connection that was closed before it was accepted (ECONNABORTED) causes no event: the driver accepts the next
//!   one. If the cause persists (EMFILE, ENFILE), each round reports the event once: the owner of the listener stops
//!   accepting for a while (L16).
//! - An error that a call cannot return is reported later by `Failed`.
//!
//! *Registrations*
//! - The driver owns a socket or descriptor until it is detached, and drops it before it reports the detach. A failed
//!   `attach` or `register_foreign` leaves nothing behind. An `Io` of an unknown type, which may be a user's, is
//!   handed back in the error ([`Io::refused`]); one of a known type is dropped.
//! - [`release`](Driver::release) detaches a socket and returns it, so that it can be attached again. While a write is
//!   in flight, `release` fails and the socket stays attached.
//! - `detach` returns `Done` if nothing is in flight; otherwise `Pending`, and one `Detached` follows. For a token
//!   that is not attached it returns `Done`.
//! - A call with a token that is not attached, is detaching, or is of another kind (a write to a foreign descriptor)
//!   returns an error or does nothing; it never panics. Attaching under a token that is in use is an error.
//! - A foreign registration gets `Foreign` events as long as its descriptor is ready for something in its interest
//!   (level-triggered), and always for an error or a hang-up. `Failed` means that the descriptor can no longer be
//!   watched. If [`set_interest`](Driver::set_interest) finds that the descriptor was closed without the driver's
//!   knowledge (EBADF), the call returns the error and `Failed` follows.
//!
//! *Streams*
//! - Reads are off at first. While they are off, nothing is read and no `Eof` is reported. If the peer closes its
//!   sending direction meanwhile, `PeerFinished` is reported: once for each attached stream, never after `Eof`,
//!   and not after this side's input was [shut down](Driver::shutdown). A reset by the peer is reported by `Failed`
//!   alone.
//! - A round of reads ends when the plan's reads are used up or the kernel has no more data.
//! - A write returns `Done(n)` with the bytes that the kernel accepted at once, `Full` if the socket buffer is full
//!   (EAGAIN), or `Pending` if it is in flight. After the last two, exactly one `Wrote` or `Failed` follows, and no
//!   other write may begin before that. `Wrote(0)` asks the owner to repeat the write. A write that returns an
//!   error is not followed by `Failed`.
//! - Sending a file is a write, and the rules for writes apply. It never returns `Done(0)`: a file that has become
//!   too short is an error. If the driver has no sendfile, or the kernel cannot send this file, the driver copies the
//!   file.
//! - A `Pending` write ends without the peer's help: if the socket buffer is full it ends with `Wrote(0)`, and the
//!   repeated write returns `Full`. So the owner may wait for a `Pending` write before closing the stream. `Full` may
//!   last forever.
//! - `Connecting` ends with one `Connected` or one `Failed`, unless `attach` itself fails.
//! - The driver reads a pending socket error (SO_ERROR) and reports it as `Failed`. A hang-up while reads are
//!   off is ignored until reads are on. Neither makes the loop spin (L17).
//!
//! *Datagrams*
//! - A round of reads reports one `Datagram` for each datagram received, whole or truncated to the plan's size, and
//!   at most as many as the plan has reads. Datagrams that were received together (recvmmsg) and not reported
//!   before reads were turned off are the first of the next round; `release` returns them with the socket.
//! - A send returns `Done(n)` with the number of datagrams that the kernel accepted, at least one; or `Full`, as
//!   for a stream; never `Pending`. An error concerns only the first datagram, which is not sent.
//! - `ReceiveFailed` means that a datagram was not received, or that a sent one was not delivered. The event is the
//!   last of its round, one for each error; the socket stays usable. A datagram socket reports no `Eof`.
//!
//! *Descriptors and credentials*
//! - A read or a datagram that carries file descriptors or credentials (SCM_RIGHTS, SCM_CREDENTIALS) is reported as
//!   an `AncillaryMessage` instead of a `Read` or `Datagram`, if an option enables this. Without the
//!   option the ancillary data is dropped.
//! - Every descriptor received is either in a reported `AncillaryMessage` or closed: none is leaked.
//!
//! *Rebuilding*
//! - [`rebuild`](Driver::rebuild) replaces the selector (the kernel's set of watched descriptors) by a new one with
//!   the same registrations, interests and tokens. A registration that cannot be moved gets `Failed`. If no new
//!   selector can be created, the old one stays in use and the error is returned.
//!
//! *Panics*
//! - A driver does not panic. If it does, the loop closes the registration that the driver was working on, with the
//!   panic as the cause, and continues with the others (R05). The token of the call names that registration; for
//!   `next_event`, `wait` and `rebuild`, [`working_on`](Driver::working_on) returns the token. A panic that
//!   concerns no token, or a token that is already detached, ends the loop.
//! - After a panic the loop calls `detach` for that token, and the driver serves all others as before.

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

use bytes::Bytes;
use waterwheel_executor::{Clock, Nanos, Unpark};

pub use self::driver_panicked::DriverPanicked;
pub use self::event::{IoEvent, Readiness};
pub use self::interest::{Interest, ReadPlan, Role};
pub use self::multicast::{MulticastMembership, NetworkInterface};
pub use self::out_queue::OutQueue;
pub use self::socket_option::SocketOption;
pub use self::task_only::TaskOnly;
use crate::address::Address;
use crate::base::token::Token;
pub use crate::payload::Io;
use crate::payload::{AncillaryMessage, Credentials, Datagram, FileRegion};

/// The maximum number of datagrams per call; a larger batch would save almost nothing.
pub const MAX_DATAGRAM_BATCH: usize = 16;

/// The chunk size for copying a file that the kernel cannot send (sendfile): 64 KiB, which the buffer of a new socket
/// accepts.
pub const FILE_COPY_CHUNK: usize = 64 * 1024;

/// Opens a driver for each loop that is built. A group of loops is built with a value of this type.
pub trait OpenDriver: Send + Sync {
    /// Opens a driver.
    ///
    /// # Errors
    /// The error names the resource that could not be obtained.
    fn open(&self) -> Result<Box<dyn Driver>>;
}

/// A loop's access to the operating system. See the [module's documentation](self) for the contract.
///
/// The builder of the loop opens the driver; then the driver moves to the loop's thread and stays there.
pub trait Driver: Send {
    /// Returns the name of the driver: `"epoll"`, `"poll"`, …
    fn name(&self) -> &'static str;

    /// Returns the clock of the driver's deadlines, which is the clock of its loop.
    fn clock(&self) -> Clock;

    /// Returns the waker, which ends waits from any thread.
    fn waker(&self) -> Arc<dyn Unpark>;

    /// Attaches a socket. Reads are off at first.
    ///
    /// # Errors
    /// If the driver does not know the type of `io`, or the kernel refuses the socket.
    fn attach(&mut self, token: Token, io: Io, role: Role) -> Result<()>;

    /// Detaches a socket or a foreign descriptor.
    fn detach(&mut self, token: Token) -> Detach;

    /// Detaches a socket and returns it, without closing it.
    ///
    /// # Errors
    /// If the token is not attached, or an operation on its socket is in flight.
    fn release(&mut self, token: Token) -> Result<Io>;

    /// Returns the local address of a socket, if the kernel knows it.
    fn local_address(&self, token: Token) -> Option<Address>;

    /// Sets an option of a socket.
    ///
    /// # Errors
    /// `Unsupported` if the socket has no such option; otherwise the kernel's error.
    fn set_option(&mut self, token: Token, option: SocketOption) -> Result<()>;

    /// Turns reads or accepts on with this plan; `None` turns them off.
    fn set_read(&mut self, token: Token, plan: Option<ReadPlan>);

    /// Writes as much of the queue as the kernel accepts at once. The caller then advances the queue. The queue is
    /// not empty.
    ///
    /// # Errors
    /// The kernel's error; the stream is broken then.
    fn write(&mut self, token: Token, queue: &OutQueue) -> Result<Submit>;

    /// Writes as many of these bytes as the kernel accepts at once, without keeping them. The caller queues the rest, and
    /// all of them after `Full` or `Pending`. There is at least one byte.
    ///
    /// The default implementation writes a copy.
    ///
    /// # Errors
    /// As for [`write`](Self::write).
    fn write_slice(&mut self, token: Token, bytes: &[u8]) -> Result<Submit> {
        let mut queue = OutQueue::new();
        queue.push(Bytes::copy_from_slice(bytes));
        self.write(token, &queue)
    }

    /// Sends as much of a file as the kernel accepts at once, up to a limit that leaves time for others. The caller
    /// records the progress. The region is not empty.
    ///
    /// The default implementation copies a part of the file and writes it.
    ///
    /// # Errors
    /// The kernel's error, or the [error of a truncated file](FileRegion::truncated_error). The stream is broken
    /// then.
    fn send_file(&mut self, token: Token, file: &FileRegion) -> Result<Submit> {
        let mut queue = OutQueue::new();
        queue.push(file.read(FILE_COPY_CHUNK)?);
        self.write(token, &queue)
    }

    /// Sends datagrams from the front of the batch, as many as the kernel accepts at once. The batch is not empty.
    ///
    /// # Errors
    /// The kernel's error about the first datagram, which is not sent; the others may be sent later.
    fn send_datagrams(
        &mut self,
        token: Token,
        batch: &mut dyn Iterator<Item = &Datagram>,
    ) -> Result<Submit> {
        let _ = (token, batch);
        Err(Error::new(ErrorKind::Unsupported, "this driver has no datagrams"))
    }

    /// Sends bytes with file descriptors or credentials. On a stream, the call works like a write: it returns `Done`
    /// with the number of bytes accepted, and the first byte carries the descriptors. On other sockets, the call sends
    /// one datagram. A message for a stream has at least one byte; after a partial write the descriptors are sent, and
    /// the caller writes the remaining bytes like any others.
    ///
    /// # Errors
    /// `InvalidInput` concerns only this message: it has too many descriptors, or some of a type that the driver
    /// does not know. Any other error is the kernel's: a stream is broken then, a datagram socket is not.
    fn send_ancillary(&mut self, token: Token, ancillary: &AncillaryMessage) -> Result<Submit> {
        let _ = (token, ancillary);
        Err(Error::new(ErrorKind::Unsupported, "this driver passes nothing but bytes"))
    }

    /// Returns the credentials of the process that a socket is connected to (SO_PEERCRED).
    ///
    /// # Errors
    /// `Unsupported` if the socket's peers have no credentials.
    fn peer_credentials(&self, token: Token) -> Result<Credentials> {
        let _ = token;
        Err(Error::new(ErrorKind::Unsupported, "this driver does not know who its peers are"))
    }

    /// Shuts down one or both directions of a stream.
    ///
    /// # Errors
    /// The kernel's error.
    fn shutdown(&mut self, token: Token, how: Shutdown) -> Result<()>;

    /// Registers a descriptor that belongs to no channel; `Foreign` events report its readiness.
    ///
    /// # Errors
    /// If the interest is empty or unsupported, the driver does not know the type of `io`, or the kernel refuses the
    /// descriptor.
    fn register_foreign(&mut self, token: Token, io: Io, interest: Interest) -> Result<()>;

    /// Changes the interest of a foreign registration.
    ///
    /// # Errors
    /// As for [`register_foreign`](Self::register_foreign). The old interest stays, unless the descriptor was
    /// closed: then `Failed` follows.
    fn set_interest(&mut self, token: Token, interest: Interest) -> Result<()>;

    /// Replaces the selector by a new one; returns the number of registrations moved.
    ///
    /// # Errors
    /// If no new selector could be created; the old one stays in use.
    fn rebuild(&mut self) -> Result<usize>;

    /// Blocks until there is something to do, or until the given time; `None` means no limit.
    ///
    /// # Errors
    /// If the kernel refuses to wait; the loop then rebuilds the selector.
    fn wait(&mut self, until: Option<Nanos>) -> Result<WaitSummary>;

    /// Returns the next event of this round.
    fn next_event(&mut self) -> Option<IoEvent>;

    /// Returns the token that the driver was working on when its last `next_event`, `wait` or `rebuild` panicked.
    /// `None` ends the loop, because the driver's state cannot be trusted then.
    fn working_on(&self) -> Option<Token> {
        None
    }
}

/// The result of a wait.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct WaitSummary {
    /// The number of registrations that may have events.
    pub ready: usize,
    /// True if the waker ended the wait.
    pub woken: bool,
}

/// The result of a write.
#[must_use]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Submit {
    /// The kernel accepted this many bytes, or datagrams.
    Done(usize),
    /// The socket buffer is full (EAGAIN) and nothing was written: `Wrote` or `Failed` follows.
    Full,
    /// The write is in flight: `Wrote` or `Failed` follows.
    Pending,
}

/// The result of a detach.
#[must_use]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Detach {
    /// The registration has ended.
    Done,
    /// An operation is in flight: `Detached` follows.
    Pending,
}
