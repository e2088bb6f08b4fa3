//! The part of a channel that all threads share.

use std::fmt;
use std::rc::Rc;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use waterwheel_executor::engine::report;
use waterwheel_executor::{CommandSender, Error, Fault, Promise, Rejected, SharedFuture};

use crate::address::Address;
use crate::base::report_throttle::ReportThrottle;
use crate::base::token::Token;
use crate::base::wake_flag::WakeFlag;
use crate::channel::core::ChannelCore;
use crate::channel::error::ChannelError;
use crate::channel::handle::Channel;
use crate::channel::handle::attributes::Attributes;
use crate::channel::handle::request::PendingReservation;
use crate::channel::lifecycle::hold_count::HoldCount;
use crate::channel::options::ChannelOptions;
use crate::channel::writing::submitted_bytes::SubmittedBytes;
use crate::event_loop::command::LoopCommand;
use crate::event_loop::local_loop::LocalLoop;

/// The id of a channel, unique for the life of the process.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ChannelId(u64);

impl ChannelId {
    fn next() -> Self {
        static NEXT: AtomicU64 = AtomicU64::new(1);
        Self(NEXT.fetch_add(1, Ordering::Relaxed))
    }

    /// Returns the number of the channel. Channels are numbered from 1 in the order in which they are created.
    #[must_use]
    pub const fn as_u64(self) -> u64 {
        self.0
    }
}

impl fmt::Display for ChannelId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl fmt::Debug for ChannelId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "channel {}", self.0)
    }
}

/// The part of a channel that all threads share.
///
/// The loop alone writes the flags and `pending`; any thread may read them at any time and gets a value that
/// may be a moment old. `submitted` is increased by the thread that submits a write and decreased by the loop
/// when the write arrives; see [`SubmittedBytes`]. `token` is set once, before another thread can have a
/// handle.
pub(crate) struct ChannelShared {
    pub(crate) id: ChannelId,
    pub(in crate::channel) sender: CommandSender<LoopCommand>,
    /// A [`Token`] as bits; [`Token::NONE`] at first.
    token: AtomicU64,
    pub(in crate::channel) options: Arc<ChannelOptions>,
    pub(in crate::channel) open: AtomicBool,
    pub(in crate::channel) active: AtomicBool,
    pub(in crate::channel) registered: AtomicBool,
    pub(in crate::channel) writable: AtomicBool,
    pub(in crate::channel) auto_read: AtomicBool,
    /// Rare flags in one byte: [`LISTENS`], [`PAUSED`], [`CLOSE_REQUESTED`].
    flags: AtomicU8,
    pub(in crate::channel) pending: AtomicUsize,
    pub(in crate::channel) submitted: SubmittedBytes,
    pub(in crate::channel) holds: HoldCount,
    /// Refused writes that had no future, and failed operations whose future was dropped.
    refused: ReportThrottle,
    /// True while a command that makes the channel poll its transport is on its way.
    pub(in crate::channel) poll_requested: WakeFlag,
    /// The loop writes this state and any thread reads it, under the lock. No user code runs while the lock is held.
    locked: Mutex<LockedState>,
    /// True once the close was notified. Changes under the lock only.
    is_close_notified: AtomicBool,
    pub(in crate::channel) attributes: Attributes,
    pub(in crate::channel) parent: Option<Channel>,
}

/// The addresses of a channel and the state of its close.
#[derive(Default)]
struct LockedState {
    addresses: ChannelAddresses,
    /// Created when the close future is first requested, or when the close has a cause.
    closed: Option<Box<CloseState>>,
}

/// The local and the peer address of a channel.
#[derive(Clone, Default)]
pub(in crate::channel) struct ChannelAddresses {
    pub(in crate::channel) local: Option<Address>,
    pub(in crate::channel) peer: Option<Address>,
}

#[derive(Default)]
struct CloseState {
    /// The close future; `None` until it was requested.
    future: Option<SharedFuture<()>>,
    /// The promise of the close future. The loop takes it when it notifies the close.
    promise: Option<Promise<()>>,
    /// The first cause; `None` if the close was requested. Kept as long as a handle exists.
    cause: Option<Error>,
}

/// The channel accepts connections. Never changes.
const LISTENS: u8 = 1;
/// Reads are paused after a failure such as EMFILE. The first child that closes ends the pause.
const PAUSED: u8 = 1 << 1;

/// A handle has asked for the close, which may still be on its way to the loop.
const CLOSE_REQUESTED: u8 = 1 << 2;

impl ChannelShared {
    pub(in crate::channel) fn new(
        sender: CommandSender<LoopCommand>,
        options: Arc<ChannelOptions>,
        attributes: Attributes,
        parent: Option<Channel>,
        listens: bool,
    ) -> Self {
        Self {
            id: ChannelId::next(),
            sender,
            token: AtomicU64::new(Token::NONE.to_bits()),
            open: AtomicBool::new(true),
            active: AtomicBool::new(false),
            registered: AtomicBool::new(false),
            writable: AtomicBool::new(true),
            auto_read: AtomicBool::new(options.auto_read),
            flags: AtomicU8::new(if listens { LISTENS } else { 0 }),
            options,
            pending: AtomicUsize::new(0),
            submitted: SubmittedBytes::new(),
            holds: HoldCount::new(),
            refused: ReportThrottle::default(),
            poll_requested: WakeFlag::new(),
            locked: Mutex::default(),
            is_close_notified: AtomicBool::new(false),
            attributes,
            parent,
        }
    }

    /// Sets addresses that are known before the channel is active, and before another thread has a handle.
    pub(in crate::channel) fn set_early_addresses(&mut self, addresses: ChannelAddresses) {
        self.locked.get_mut().unwrap_or_else(PoisonError::into_inner).addresses = addresses;
    }

    fn lock(&self) -> MutexGuard<'_, LockedState> {
        self.locked.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn token(&self) -> Token {
        // The loop creates the first handle, and others are cloned from it: the token was set before.
        Token::from_bits(self.token.load(Ordering::Relaxed))
    }

    pub(in crate::channel) fn set_token(&self, token: Token) {
        let before = self.token.swap(token.to_bits(), Ordering::Relaxed);
        debug_assert_eq!(before, Token::NONE.to_bits(), "the token of a channel is set once");
    }

    pub(in crate::channel) fn set_pending(&self, bytes: usize) {
        self.pending.store(bytes, Ordering::Relaxed);
    }

    pub(in crate::channel) fn submitted(&self) -> usize {
        self.submitted.bytes()
    }

    pub(in crate::channel) fn set_writable(&self, writable: bool) {
        self.writable.store(writable, Ordering::Release);
    }

    pub(in crate::channel) fn set_active(&self, active: bool) {
        self.active.store(active, Ordering::Release);
    }

    pub(in crate::channel) fn set_registered(&self, registered: bool) {
        self.registered.store(registered, Ordering::Release);
    }

    pub(in crate::channel) fn set_auto_read(&self, auto: bool) {
        self.auto_read.store(auto, Ordering::Release);
    }

    pub(in crate::channel) fn is_server(&self) -> bool {
        self.flags.load(Ordering::Relaxed) & LISTENS != 0
    }

    pub(in crate::channel) fn set_close_requested(&self) {
        self.flags.fetch_or(CLOSE_REQUESTED, Ordering::Release);
    }

    pub(in crate::channel) fn is_close_requested(&self) -> bool {
        self.flags.load(Ordering::Acquire) & CLOSE_REQUESTED != 0
    }

    pub(in crate::channel) fn set_paused(&self, paused: bool) {
        if paused {
            self.flags.fetch_or(PAUSED, Ordering::Relaxed);
        } else {
            self.flags.fetch_and(!PAUSED, Ordering::Relaxed);
        }
    }

    /// Resumes a paused server after a connection that it accepted has closed: the file descriptor or memory
    /// that was missing may be free now. A pause that begins after this check is ended by its timer.
    pub(in crate::channel) fn on_child_closed(&self) {
        let paused = |flags: u8| flags & PAUSED != 0;
        if paused(self.flags.load(Ordering::Relaxed))
            && paused(self.flags.fetch_and(!PAUSED, Ordering::Relaxed))
        {
            // A loop that has ended rejects the command: nothing is accepted any more.
            let _ = self.send(self.resume_reading_command());
        }
    }

    /// Returns the command that ends the pause of reads.
    pub(in crate::channel) fn resume_reading_command(&self) -> LoopCommand {
        let token = self.token();
        LoopCommand::new(move |here| here.channels().with(token, |core| core.resume_reading()))
    }

    pub(in crate::channel) fn set_closed(&self) {
        self.open.store(false, Ordering::Release);
        self.active.store(false, Ordering::Release);
    }

    /// Sets addresses, unless they are known already.
    pub(in crate::channel) fn add_addresses(&self, local: Option<Address>, peer: Option<Address>) {
        let addresses = &mut self.lock().addresses;
        addresses.local = addresses.local.take().or(local);
        addresses.peer = addresses.peer.take().or(peer);
    }

    pub(crate) fn set_peer_address(&self, peer: Address) {
        self.lock().addresses.peer = Some(peer);
    }

    pub(in crate::channel) fn has_local_address(&self) -> bool {
        self.lock().addresses.local.is_some()
    }

    pub(in crate::channel) fn addresses(&self) -> ChannelAddresses {
        self.lock().addresses.clone()
    }

    /// Returns a future that completes when the channel has been closed.
    #[track_caller]
    pub(in crate::channel) fn close_future(&self) -> SharedFuture<()> {
        let mut locked = self.lock();
        if let Some(future) = locked.closed.as_ref().and_then(|closed| closed.future.as_ref()) {
            return future.clone();
        }
        let (mut promise, future) = self.sender.executor().new_promise();
        promise.set_uncancellable();
        let future = future.shared();
        if self.is_close_notified.load(Ordering::Relaxed) {
            drop(locked);
            promise.set_success(());
        } else {
            let closed = locked.closed.get_or_insert_default();
            (closed.promise, closed.future) = (Some(promise), Some(future.clone()));
        }
        future
    }

    /// Marks the close as notified and returns the promise of the close future. Close futures that are
    /// requested later are complete from the start.
    pub(in crate::channel) fn take_close_promise(&self) -> Option<Promise<()>> {
        let mut locked = self.lock();
        self.is_close_notified.store(true, Ordering::Relaxed);
        locked.closed.as_mut()?.promise.take()
    }

    /// True once the close was notified. Changes on the loop only.
    pub(in crate::channel) fn is_close_notified(&self) -> bool {
        self.is_close_notified.load(Ordering::Relaxed)
    }

    /// Sets the cause of the close. The first cause stays.
    pub(in crate::channel) fn set_close_cause(&self, cause: Error) {
        let mut locked = self.lock();
        let first = &mut locked.closed.get_or_insert_default().cause;
        let surplus = match first {
            None => first.replace(cause),
            Some(_) => Some(cause),
        };
        drop(locked);
        drop(surplus); // Errors may hold values with user destructors.
    }

    /// Returns the error for a call that finds the channel closed or gone, with the first cause of the close.
    pub(crate) fn closed_error(&self) -> ChannelError {
        ChannelError::Closed { cause: self.close_cause() }
    }

    /// Returns the cause of the close; `None` if the close was requested.
    pub(in crate::channel) fn close_cause(&self) -> Option<Error> {
        self.lock().closed.as_ref().and_then(|closed| closed.cause.clone())
    }

    /// Returns the channel if this is the thread of its loop and the channel still exists.
    pub(in crate::channel) fn local_core(&self) -> Option<Rc<ChannelCore>> {
        if !self.sender.in_event_loop() {
            return None;
        }
        LocalLoop::current()?.channels().find(self.token())
    }

    pub(crate) fn send(&self, command: LoopCommand) -> Result<(), Rejected<LoopCommand>> {
        self.sender.send(command)
    }

    /// Counts bytes of a write that is on its way to the loop as pending, until the returned reservation is
    /// dropped.
    ///
    /// # Errors
    /// The write would exceed the hard cap.
    pub(crate) fn reserve_pending(
        self: &Arc<Self>,
        size: usize,
    ) -> Result<PendingReservation, ChannelError> {
        let (limit, mut pending) = (self.options.water_marks.hard_cap(), 0);
        // Added only below the hard cap: a refused write must not make the channel look full for a moment.
        let added = self.submitted.add(size, |before| {
            pending = before.saturating_add(self.pending.load(Ordering::Relaxed));
            size <= limit.saturating_sub(pending)
        });
        match added {
            Some(size) => Ok(PendingReservation { shared: self.clone(), size }),
            None => Err(ChannelError::BufferFull { pending, limit, size }),
        }
    }

    /// True while no more bytes are pending than the high water mark allows. Called on threads other than the
    /// loop's; after a `false` the loop announces the writability when it may have changed.
    pub(in crate::channel) fn has_write_room(&self) -> bool {
        let high = self.options.water_marks.high();
        let pending = || self.pending.load(Ordering::Relaxed);
        self.submitted.check_room(|submitted| pending().saturating_add(submitted) <= high)
    }

    /// Reports a refused write that has no future.
    #[cold]
    pub(in crate::channel) fn report_refused_write(&self, error: &impl fmt::Display) {
        self.report_failed("a write was refused", error);
    }

    /// Reports that an operation failed whose future was dropped.
    #[cold]
    pub(in crate::channel) fn report_unobserved_failure(&self, error: &impl fmt::Display) {
        self.report_failed("an operation failed whose future was dropped", error);
    }

    fn report_failed(&self, what: &str, error: &impl fmt::Display) {
        if let Some(count) = self.refused.record() {
            report(Fault::Unhandled(format!("{:?}: {what}, {count} so far: {error}", self.id)));
        }
    }

    /// Makes the channel poll its transport for events. May be called on any thread.
    pub(in crate::channel) fn request_poll(&self) {
        if let Some(core) = self.local_core() {
            core.poll_transport_later();
        } else if self.poll_requested.raise() {
            // A loop that has ended rejects the command: the channel is gone.
            let token = self.token();
            let _ = self.sender.send(LoopCommand::new(move |here| {
                here.channels().with(token, |core| {
                    core.shared().poll_request_arrived();
                    core.poll_transport_later();
                });
            }));
        }
    }

    /// Clears the flag when the command of [`request_poll`](Self::request_poll) has arrived; the channel polls
    /// its transport next.
    pub(crate) fn poll_request_arrived(&self) {
        self.poll_requested.lower();
    }
}

impl fmt::Debug for ChannelShared {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.id.fmt(f)
    }
}
