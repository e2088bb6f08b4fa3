//! A channel, for any thread.

use std::fmt;
use std::hash::{Hash, Hasher};
use std::rc::Rc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use waterwheel_executor::engine::report;
use waterwheel_executor::{CommandSender, Error, Fault, PromiseFuture, Rejected, SharedFuture};

use super::address::{Address, Target};
use super::attributes::{AttrKey, Attributes};
use super::core::ChannelCore;
use super::error::ChannelError;
use super::options::WaterMarks;
use super::request::{Request, Submitted};
use crate::event_loop::command::{Ask, LoopCommand};
use crate::event_loop::handle::EventLoop;
use crate::event_loop::local_loop::LocalLoop;
use crate::pipeline::{Msg, Pipeline};
use crate::token::Token;

/// A connection, or something like it: belongs to one loop for life, and is used from anywhere.
///
/// This is a handle: cheap to clone, `Send` and `Sync`. Called on the channel's own loop it acts at
/// once; called elsewhere it sends the loop one command. It keeps neither the channel open nor the
/// loop running.
///
/// Operations that return a future make one: where nobody waits for it, [`send`](Self::send) and
/// [`Ctx`](crate::Ctx) do without.
#[derive(Clone)]
pub struct Channel {
    shared: Arc<ChannelShared>,
}

/// The future of an operation on a channel.
pub type ChannelFuture = PromiseFuture<()>;

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
/// that takes it. `token` is set once, before anybody else can have a handle.
pub(crate) struct ChannelShared {
    pub(super) id: ChannelId,
    sender: CommandSender<LoopCommand>,
    token: OnceLock<Token>,
    water_marks: WaterMarks,
    open: AtomicBool,
    active: AtomicBool,
    registered: AtomicBool,
    writable: AtomicBool,
    auto_read: AtomicBool,
    pending: AtomicUsize,
    submitted: AtomicUsize,
    /// How many writes that nobody waited for were refused.
    refused: AtomicU64,
    /// A request to ask the transport for events is on its way.
    pumping: AtomicBool,
    addresses: Mutex<(Option<Address>, Option<Address>)>,
    closed: SharedFuture<()>,
    attributes: Attributes,
    parent: Option<Channel>,
}

impl ChannelShared {
    pub(super) fn new(
        sender: CommandSender<LoopCommand>,
        options: &super::options::ChannelOptions,
        closed: SharedFuture<()>,
        attributes: Attributes,
        parent: Option<Channel>,
    ) -> Self {
        Self {
            id: ChannelId::next(),
            sender,
            token: OnceLock::new(),
            water_marks: options.water_marks,
            open: AtomicBool::new(true),
            active: AtomicBool::new(false),
            registered: AtomicBool::new(false),
            writable: AtomicBool::new(true),
            auto_read: AtomicBool::new(options.auto_read),
            pending: AtomicUsize::new(0),
            submitted: AtomicUsize::new(0),
            refused: AtomicU64::new(0),
            pumping: AtomicBool::new(false),
            addresses: Mutex::default(),
            closed,
            attributes,
            parent,
        }
    }

    pub(crate) fn token(&self) -> Token {
        match self.token.get() {
            Some(token) => *token,
            None => unreachable!("set before anybody has a handle"),
        }
    }

    pub(super) fn set_token(&self, token: Token) {
        let set = self.token.set(token);
        debug_assert!(set.is_ok(), "a channel is entered once");
    }

    pub(super) fn set_pending(&self, bytes: usize) {
        self.pending.store(bytes, Ordering::Relaxed);
    }

    pub(super) fn submitted(&self) -> usize {
        self.submitted.load(Ordering::Relaxed)
    }

    pub(super) fn set_writable(&self, writable: bool) {
        self.writable.store(writable, Ordering::Release);
    }

    pub(super) fn set_active(&self, active: bool) {
        self.active.store(active, Ordering::Release);
    }

    pub(super) fn set_registered(&self, registered: bool) {
        self.registered.store(registered, Ordering::Release);
    }

    pub(super) fn set_auto_read(&self, auto: bool) {
        self.auto_read.store(auto, Ordering::Release);
    }

    pub(super) fn set_closed(&self) {
        self.open.store(false, Ordering::Release);
        self.active.store(false, Ordering::Release);
    }

    pub(super) fn set_addresses(&self, local: Option<Address>, peer: Option<Address>) {
        *self.addresses.lock().unwrap_or_else(PoisonError::into_inner) = (local, peer);
    }

    fn addresses(&self) -> (Option<Address>, Option<Address>) {
        self.addresses.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// The channel, if this is its loop and it is still there.
    fn here(&self) -> Option<Rc<ChannelCore>> {
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
    pub(crate) fn weigh(self: &Arc<Self>, size: usize) -> Result<Submitted, ChannelError> {
        let before = self.submitted.fetch_add(size, Ordering::Relaxed);
        let submitted = Submitted { shared: self.clone(), size };
        let pending = before.saturating_add(self.pending.load(Ordering::Relaxed));
        let limit = self.water_marks.most();
        if size > limit.saturating_sub(pending) {
            return Err(ChannelError::BufferFull { pending, limit, size });
        }
        Ok(submitted)
    }

    /// A write that other threads have submitted has arrived, or never will.
    pub(super) fn arrived(&self, bytes: usize) {
        self.submitted.fetch_sub(bytes, Ordering::Relaxed);
    }

    /// A write that nobody waits for was refused. Reported each time their number has doubled: a flood
    /// of them is one fault.
    #[cold]
    pub(super) fn report_refused(&self, error: &ChannelError) {
        let count = self.refused.fetch_add(1, Ordering::Relaxed) + 1;
        if count.is_power_of_two() {
            let what = format!("{:?}: a write was refused, {count} so far: {error}", self.id);
            report(Fault::Unhandled(what));
        }
    }

    /// The channel is to ask its transport for events.
    pub(super) fn pump(&self) {
        if let Some(core) = self.here() {
            core.pump_later();
        } else if !self.pumping.swap(true, Ordering::AcqRel) {
            // Refused by a loop that is over: then there is nobody to ask.
            let _ = self.sender.send(LoopCommand(Ask::Pump(self.token())));
        }
    }

    pub(crate) fn pump_arrived(&self) {
        self.pumping.store(false, Ordering::Release);
    }
}

impl Channel {
    pub(crate) fn new(shared: Arc<ChannelShared>) -> Self {
        Self { shared }
    }

    pub(super) fn token(&self) -> Token {
        self.shared.token()
    }

    /// Names it among all channels of the process.
    #[must_use]
    pub fn id(&self) -> ChannelId {
        self.shared.id
    }

    /// Its loop. The handle keeps the loop alive only if there is another one.
    #[must_use]
    pub fn event_loop(&self) -> EventLoop {
        EventLoop::new(self.shared.sender.executor())
    }

    /// Whether this is the thread of its loop.
    #[must_use]
    pub fn in_event_loop(&self) -> bool {
        self.shared.sender.in_event_loop()
    }

    /// The channel that accepted it.
    #[must_use]
    pub fn parent(&self) -> Option<&Channel> {
        self.shared.parent.as_ref()
    }

    // Looking at it.

    /// Whether it has not been closed.
    #[must_use]
    pub fn is_open(&self) -> bool {
        self.shared.open.load(Ordering::Acquire)
    }

    /// Whether it is connected, or bound.
    #[must_use]
    pub fn is_active(&self) -> bool {
        self.shared.active.load(Ordering::Acquire)
    }

    /// Whether it is registered with its loop.
    #[must_use]
    pub fn is_registered(&self) -> bool {
        self.shared.registered.load(Ordering::Acquire)
    }

    /// Whether it takes more: see [`Ctx::is_writable`](crate::Ctx::is_writable). Writes count from the
    /// moment they are submitted.
    #[must_use]
    pub fn is_writable(&self) -> bool {
        let room = self.pending_bytes() <= self.shared.water_marks.high();
        room && self.shared.writable.load(Ordering::Acquire) && self.is_open()
    }

    /// How many bytes may be written before it stops being writable; none if it is not.
    #[must_use]
    pub fn bytes_before_unwritable(&self) -> usize {
        let high = self.shared.water_marks.high();
        let room = high.saturating_add(1).saturating_sub(self.pending_bytes());
        if self.is_writable() { room } else { 0 }
    }

    /// How many bytes wait to be written.
    #[must_use]
    pub fn pending_bytes(&self) -> usize {
        self.shared.pending.load(Ordering::Relaxed).saturating_add(self.shared.submitted())
    }

    /// Whether it reads by itself.
    #[must_use]
    pub fn is_auto_read(&self) -> bool {
        self.shared.auto_read.load(Ordering::Acquire)
    }

    /// Where it is bound.
    #[must_use]
    pub fn local_address(&self) -> Option<Address> {
        self.shared.addresses().0
    }

    /// Whom it is connected to.
    #[must_use]
    pub fn peer_address(&self) -> Option<Address> {
        self.shared.addresses().1
    }

    /// Completes when it has been closed.
    pub fn closed(&self) -> SharedFuture<()> {
        self.shared.closed.clone()
    }

    // Attributes.

    /// The value it has for this key.
    #[must_use]
    pub fn attribute<T: Send + Sync + 'static>(&self, key: &AttrKey<T>) -> Option<Arc<T>> {
        self.shared.attributes.get(key)
    }

    /// Sets the value for this key; returns the one before.
    pub fn set_attribute<T: Send + Sync + 'static>(
        &self,
        key: &AttrKey<T>,
        value: T,
    ) -> Option<Arc<T>> {
        self.shared.attributes.set(key, value)
    }

    /// Takes the value for this key out.
    pub fn remove_attribute<T: Send + Sync + 'static>(&self, key: &AttrKey<T>) -> Option<Arc<T>> {
        self.shared.attributes.remove(key)
    }

    // Asking for something: it begins at the end of the pipeline.

    /// Writes a message: it waits until it is flushed. Elsewhere than on the loop, the loop is not even
    /// woken for it.
    #[track_caller]
    pub fn write(&self, msg: impl Into<Msg>) -> ChannelFuture {
        let (promise, future) = self.shared.sender.executor().new_promise();
        self.submit_write(msg.into(), false, Some(promise));
        future
    }

    /// Writes a message and flushes.
    #[track_caller]
    pub fn write_and_flush(&self, msg: impl Into<Msg>) -> ChannelFuture {
        let (promise, future) = self.shared.sender.executor().new_promise();
        self.submit_write(msg.into(), true, Some(promise));
        future
    }

    /// Writes a message and flushes, without a future: on the loop it costs no allocation. If it fails
    /// because the channel is closed nobody is told; that it was refused for any other reason is
    /// reported.
    pub fn send(&self, msg: impl Into<Msg>) {
        self.submit_write(msg.into(), true, None);
    }

    /// Sends what was written.
    pub fn flush(&self) {
        self.submit(Request::Flush);
    }

    /// Asks for more to be read.
    pub fn read(&self) {
        self.submit(Request::Read);
    }

    /// Reads by itself, or no longer: then every round has to be asked for.
    pub fn set_auto_read(&self, auto: bool) {
        self.submit(Request::AutoRead(auto));
    }

    /// Fires an event of the user's own, to its first handler.
    pub fn fire_user_event(&self, event: impl Into<Msg>) {
        self.submit(Request::UserEvent(event.into()));
    }

    /// Binds it.
    #[track_caller]
    pub fn bind(&self, to: impl Into<Address>) -> ChannelFuture {
        let (promise, future) = self.shared.sender.executor().new_promise();
        self.submit(Request::Bind(to.into(), promise));
        future
    }

    /// Connects it.
    #[track_caller]
    pub fn connect(&self, to: impl Into<Target>) -> ChannelFuture {
        let (promise, future) = self.shared.sender.executor().new_promise();
        self.submit(Request::Connect(to.into(), promise));
        future
    }

    /// Disconnects it.
    #[track_caller]
    pub fn disconnect(&self) -> ChannelFuture {
        let (promise, future) = self.shared.sender.executor().new_promise();
        self.submit(Request::Disconnect(promise));
        future
    }

    /// Closes it, after what was flushed before. Closing it again does no harm: the future completes
    /// when it is closed.
    #[track_caller]
    pub fn close(&self) -> ChannelFuture {
        let (promise, future) = self.shared.sender.executor().new_promise();
        self.submit(Request::Close(promise));
        future
    }

    /// Lets it leave its loop, without closing it.
    #[track_caller]
    pub fn deregister(&self) -> ChannelFuture {
        let (promise, future) = self.shared.sender.executor().new_promise();
        self.submit(Request::Deregister(promise));
        future
    }

    /// Lets it come to its loop again, after it has left.
    #[track_caller]
    pub fn register(&self) -> ChannelFuture {
        let (promise, future) = self.shared.sender.executor().new_promise();
        self.submit(Request::Register(promise));
        future
    }

    /// Calls `f` with the pipeline, on the loop.
    #[track_caller]
    pub fn with_pipeline<R: Send + 'static>(
        &self,
        f: impl FnOnce(Pipeline<'_>) -> R + Send + 'static,
    ) -> PromiseFuture<R> {
        let (promise, future) = self.shared.sender.executor().new_promise();
        self.submit(Request::Call(Box::new(move |core| {
            match core {
                Ok(core) => promise.set_success(f(Pipeline::new(core))),
                Err(error) => promise.set_failure(error.clone()),
            };
        })));
        future
    }

    fn submit(&self, request: Request) {
        if self.in_event_loop() {
            match self.shared.here() {
                Some(core) => request.perform(&core),
                None => request.refuse(&self.gone()),
            }
            return;
        }
        let lazily = request.can_wait();
        let command = LoopCommand(Ask::Channel(self.shared.token(), Box::new(request)));
        let sender = &self.shared.sender;
        let sent = if lazily { sender.send_lazily(command) } else { sender.send(command) };
        if let Err(rejected) = sent
            && let LoopCommand(Ask::Channel(_, request)) = rejected.into_task()
        {
            request.refuse(&self.gone());
        }
    }

    fn submit_write(
        &self,
        msg: Msg,
        flush: bool,
        promise: Option<waterwheel_executor::Promise<()>>,
    ) {
        if self.in_event_loop() {
            return self.submit(Request::Write { msg, flush, promise, submitted: None });
        }
        match self.shared.weigh(msg.size_hint()) {
            Ok(submitted) => {
                let submitted = Some(submitted);
                self.submit(Request::Write { msg, flush, promise, submitted });
            }
            Err(error) => {
                if promise.is_none() {
                    self.shared.report_refused(&error);
                }
                Request::Write { msg, flush, promise, submitted: None }.refuse(&Error::new(error))
            }
        }
    }

    fn gone(&self) -> Error {
        Error::new(ChannelError::Closed { cause: None })
    }
}

impl PartialEq for Channel {
    fn eq(&self, other: &Self) -> bool {
        self.id() == other.id()
    }
}

impl Eq for Channel {}

impl Hash for Channel {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.id().hash(state);
    }
}

impl fmt::Debug for Channel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let state = match (self.is_open(), self.is_active()) {
            (false, _) => "closed",
            (true, true) => "active",
            (true, false) => "open",
        };
        write!(f, "Channel({}, {state}", self.id())?;
        match self.shared.addresses() {
            (None, None) => f.write_str(")"),
            (Some(local), None) => write!(f, ", {local})"),
            (None, Some(peer)) => write!(f, ", to {peer})"),
            (Some(local), Some(peer)) => write!(f, ", {local} to {peer})"),
        }
    }
}

impl fmt::Debug for ChannelShared {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.id.fmt(f)
    }
}
