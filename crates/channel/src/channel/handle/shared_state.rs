//! What all threads see of a channel.

use std::fmt;
use std::rc::Rc;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use waterwheel_executor::engine::report;
use waterwheel_executor::{CommandSender, Error, Fault, Promise, Rejected, SharedFuture};

use crate::address::Address;
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
use crate::flood::Flood;
use crate::token::Token;
use crate::wake_flag::WakeFlag;

/// Names a channel for the life of the process.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ChannelId(u64);

impl ChannelId {
    fn next() -> Self {
        static NEXT: AtomicU64 = AtomicU64::new(1);
        Self(NEXT.fetch_add(1, Ordering::Relaxed))
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

/// What all threads see of a channel.
///
/// The flags and `pending` are written by the loop alone and may be looked at by anybody, at any time:
/// they are a moment old. `submitted` is raised by whoever submits a write and lowered by the loop
/// that takes it; see [`SubmittedBytes`]. `token` is set once, before anybody else can have a handle.
pub(crate) struct ChannelShared {
    pub(crate) id: ChannelId,
    pub(in crate::channel) sender: CommandSender<LoopCommand>,
    /// As bits; [`Token::NONE`] at first.
    token: AtomicU64,
    pub(in crate::channel) options: Arc<ChannelOptions>,
    pub(in crate::channel) open: AtomicBool,
    pub(in crate::channel) active: AtomicBool,
    pub(in crate::channel) registered: AtomicBool,
    pub(in crate::channel) writable: AtomicBool,
    pub(in crate::channel) auto_read: AtomicBool,
    /// What concerns servers: [`LISTENS`], [`PAUSED`].
    server: AtomicU8,
    pub(in crate::channel) pending: AtomicUsize,
    pub(in crate::channel) submitted: SubmittedBytes,
    pub(in crate::channel) holds: HoldCount,
    /// Writes that nobody waited for, and that were refused.
    refused: Flood,
    /// A request to ask the transport for events is on its way.
    pub(in crate::channel) poll_requested: WakeFlag,
    /// Written by the loop and read by any thread, under the lock; nothing of the user's runs while it is held.
    locked: Mutex<LockedState>,
    /// The close was told. Changes under that lock only.
    is_close_notified: AtomicBool,
    pub(in crate::channel) attributes: Attributes,
    pub(in crate::channel) parent: Option<Channel>,
}

/// The addresses of a channel, and its close, as far as they are known.
#[derive(Default)]
struct LockedState {
    addresses: ChannelAddresses,
    /// The close: made when its future is first asked for, or when it has a cause.
    closed: Option<Box<CloseState>>,
}

/// Where a channel is bound, and whom it is connected to.
#[derive(Clone, Default)]
pub(in crate::channel) struct ChannelAddresses {
    pub(in crate::channel) local: Option<Address>,
    pub(in crate::channel) peer: Option<Address>,
}

#[derive(Default)]
struct CloseState {
    /// If somebody has asked for it.
    future: Option<SharedFuture<()>>,
    /// Taken by the loop when it tells.
    promise: Option<Promise<()>>,
    /// The first cause, unless the close was asked for. Kept as long as there is a handle.
    cause: Option<Error>,
}

/// It accepts connections. Never changes.
const LISTENS: u8 = 1;
/// Its reads pause for want of something. The first of its children that closes ends that.
const PAUSED: u8 = 1 << 1;

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
            server: AtomicU8::new(if listens { LISTENS } else { 0 }),
            options,
            pending: AtomicUsize::new(0),
            submitted: SubmittedBytes::new(),
            holds: HoldCount::new(),
            refused: Flood::default(),
            poll_requested: WakeFlag::new(),
            locked: Mutex::default(),
            is_close_notified: AtomicBool::new(false),
            attributes,
            parent,
        }
    }

    /// Notes addresses that are known before it is active, and before anybody else can have it.
    pub(in crate::channel) fn set_early_addresses(&mut self, addresses: ChannelAddresses) {
        self.locked.get_mut().unwrap_or_else(PoisonError::into_inner).addresses = addresses;
    }

    fn lock(&self) -> MutexGuard<'_, LockedState> {
        self.locked.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn token(&self) -> Token {
        // Whoever has a handle has it from the loop, or from one who has: it was set before.
        Token::from_bits(self.token.load(Ordering::Relaxed))
    }

    pub(in crate::channel) fn set_token(&self, token: Token) {
        let before = self.token.swap(token.to_bits(), Ordering::Relaxed);
        debug_assert_eq!(before, Token::NONE.to_bits(), "a channel is entered once");
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
        self.server.load(Ordering::Relaxed) & LISTENS != 0
    }

    pub(in crate::channel) fn set_paused(&self, paused: bool) {
        if paused {
            self.server.fetch_or(PAUSED, Ordering::Relaxed);
        } else {
            self.server.fetch_and(!PAUSED, Ordering::Relaxed);
        }
    }

    /// One that it has accepted is closed: what it had no room for there may be room for now. If it
    /// pauses a moment later, a timer ends that.
    pub(in crate::channel) fn on_child_closed(&self) {
        let paused = |server: u8| server & PAUSED != 0;
        if paused(self.server.load(Ordering::Relaxed))
            && paused(self.server.fetch_and(!PAUSED, Ordering::Relaxed))
        {
            // Refused by a loop that is over: then nobody is accepted any more.
            let _ = self.send(self.resume_reading_command());
        }
    }

    /// The command that ends the pause of its reads.
    pub(in crate::channel) fn resume_reading_command(&self) -> LoopCommand {
        let token = self.token();
        LoopCommand::new(move |here| here.channels().with(token, |core| core.resume_reading()))
    }

    pub(in crate::channel) fn set_closed(&self) {
        self.open.store(false, Ordering::Release);
        self.active.store(false, Ordering::Release);
    }

    /// Notes addresses, as far as they were not known.
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

    /// Completes when it has been closed.
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

    /// It has been closed. Those who waited for it; who comes later need not wait.
    pub(in crate::channel) fn take_close_promise(&self) -> Option<Promise<()>> {
        let mut locked = self.lock();
        self.is_close_notified.store(true, Ordering::Relaxed);
        locked.closed.as_mut()?.promise.take()
    }

    /// True once the close was told to those who waited for it. Changes on its loop only.
    pub(in crate::channel) fn is_close_notified(&self) -> bool {
        self.is_close_notified.load(Ordering::Relaxed)
    }

    /// Notes what closes it. The first cause stays.
    pub(in crate::channel) fn set_close_cause(&self, cause: Error) {
        let mut locked = self.lock();
        let first = &mut locked.closed.get_or_insert_default().cause;
        let surplus = match first {
            None => first.replace(cause),
            Some(_) => Some(cause),
        };
        drop(locked);
        drop(surplus); // Errors hold values of the user's.
    }

    /// Returns what a call is told that finds the channel closed, or gone: with the first cause of the close.
    pub(crate) fn closed_error(&self) -> ChannelError {
        ChannelError::Closed { cause: self.close_cause() }
    }

    /// What closed it, unless it was asked for.
    pub(in crate::channel) fn close_cause(&self) -> Option<Error> {
        self.lock().closed.as_ref().and_then(|closed| closed.cause.clone())
    }

    /// The channel, if this is its loop and it is still there.
    pub(in crate::channel) fn local_core(&self) -> Option<Rc<ChannelCore>> {
        if !self.sender.in_event_loop() {
            return None;
        }
        LocalLoop::current()?.channels().find(self.token())
    }

    pub(crate) fn send(&self, command: LoopCommand) -> Result<(), Rejected<LoopCommand>> {
        self.sender.send(command)
    }

    /// Counts bytes that are on their way to the buffer, until what this returns is dropped.
    ///
    /// # Errors
    /// So much may not wait.
    pub(crate) fn reserve_pending(
        self: &Arc<Self>,
        size: usize,
    ) -> Result<PendingReservation, ChannelError> {
        let (limit, mut pending) = (self.options.water_marks.hard_cap(), 0);
        // Added only if it may wait: what is refused must not look like a full channel for a moment.
        let added = self.submitted.add(size, |before| {
            pending = before.saturating_add(self.pending.load(Ordering::Relaxed));
            size <= limit.saturating_sub(pending)
        });
        match added {
            Some(size) => Ok(PendingReservation { shared: self.clone(), size }),
            None => Err(ChannelError::BufferFull { pending, limit, size }),
        }
    }

    /// True while no more waits than the high mark allows. Asked on other threads than the loop's; whoever is
    /// told `false` here is told by the loop when that may have changed.
    pub(in crate::channel) fn has_write_room(&self) -> bool {
        let high = self.options.water_marks.high();
        let pending = || self.pending.load(Ordering::Relaxed);
        self.submitted.check_room(|submitted| pending().saturating_add(submitted) <= high)
    }

    /// A write that nobody waits for was refused.
    #[cold]
    pub(in crate::channel) fn report_refused_write(&self, error: &impl fmt::Display) {
        self.report_failed("a write was refused", error);
    }

    /// An operation has failed whose future was dropped.
    #[cold]
    pub(in crate::channel) fn report_unobserved_failure(&self, error: &impl fmt::Display) {
        self.report_failed("an operation failed and its future was dropped", error);
    }

    fn report_failed(&self, what: &str, error: &impl fmt::Display) {
        if let Some(count) = self.refused.once_more() {
            report(Fault::Unhandled(format!("{:?}: {what}, {count} so far: {error}", self.id)));
        }
    }

    /// The channel is to ask its transport for events.
    pub(in crate::channel) fn request_poll(&self) {
        if let Some(core) = self.local_core() {
            core.poll_transport_later();
        } else if self.poll_requested.raise() {
            // Refused by a loop that is over: then there is nobody to ask.
            let token = self.token();
            let _ = self.sender.send(LoopCommand::new(move |here| {
                here.channels().with(token, |core| {
                    core.shared().poll_request_arrived();
                    core.poll_transport_later();
                });
            }));
        }
    }

    /// The command that [`pump`](Self::pump) sent has arrived: the channel asks its transport next.
    pub(crate) fn poll_request_arrived(&self) {
        self.poll_requested.lower();
    }
}

impl fmt::Debug for ChannelShared {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.id.fmt(f)
    }
}
