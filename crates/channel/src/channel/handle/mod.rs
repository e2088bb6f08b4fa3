//! The handle of a channel, for any thread.

pub(crate) mod attributes;
pub(crate) mod new_channel;
pub(crate) mod request;
pub(crate) mod shared_state;

use std::fmt;
use std::hash::{Hash, Hasher};
use std::sync::Arc;
use std::sync::atomic::Ordering;

use waterwheel_executor::{CommandSender, Error, ExecutorId, PromiseFuture, SharedFuture};

use crate::address::{Address, ConnectTarget};
use crate::base::token::Token;
use crate::channel::error::ChannelError;
use crate::channel::handle::attributes::{AttrKey, Attributes};
use crate::channel::handle::request::{ChannelRequest, PendingReservation};
use crate::channel::handle::shared_state::{ChannelAddresses, ChannelId, ChannelShared};
use crate::driver::SocketOption;
use crate::event_loop::command::LoopCommand;
use crate::event_loop::handle::EventLoop;
use crate::pipeline::{Msg, Pipeline};

/// A connection, listener or datagram socket that belongs to one loop for life and can be used from any thread.
///
/// This is a handle: cheap to clone, `Send` and `Sync`. A call on the channel's own loop acts at once; a call
/// from another thread sends one command to the loop. The handle keeps neither the channel open nor the loop
/// running.
///
/// Operations that return a future allocate it. [`send`](Self::send) and [`Ctx`](crate::Ctx) work without a future.
#[derive(Clone)]
pub struct Channel {
    shared: Arc<ChannelShared>,
}

/// The future of an operation on a channel.
pub type ChannelFuture = PromiseFuture<()>;

impl Channel {
    pub(crate) fn new(shared: Arc<ChannelShared>) -> Self {
        Self { shared }
    }

    pub(in crate::channel) fn shared(&self) -> &ChannelShared {
        &self.shared
    }

    pub(crate) fn token(&self) -> Token {
        self.shared.token()
    }

    pub(crate) fn sender(&self) -> &CommandSender<LoopCommand> {
        &self.shared.sender
    }

    /// Returns the id of the channel's loop.
    pub(crate) fn loop_id(&self) -> ExecutorId {
        self.shared.sender.id()
    }

    pub(crate) fn attributes(&self) -> &Attributes {
        &self.shared.attributes
    }

    /// Reserves pending bytes for a write that is on its way to the loop: see
    /// [`ChannelShared::reserve_pending`].
    pub(crate) fn reserve_pending(&self, size: usize) -> Result<PendingReservation, ChannelError> {
        self.shared.reserve_pending(size)
    }

    /// Reports a refused write that has no future.
    pub(crate) fn report_refused_write(&self, error: &ChannelError) {
        self.shared.report_refused_write(error);
    }

    /// Returns the id of the channel, unique in the process.
    #[must_use]
    pub fn id(&self) -> ChannelId {
        self.shared.id
    }

    /// Returns the channel's loop. The returned handle does not keep the loop alive on its own.
    #[must_use]
    pub fn event_loop(&self) -> EventLoop {
        EventLoop::new(self.shared.sender.executor())
    }

    /// True on the thread of the channel's loop.
    #[must_use]
    pub fn in_event_loop(&self) -> bool {
        self.shared.sender.in_event_loop()
    }

    /// Returns the channel that accepted this one.
    #[must_use]
    pub fn parent(&self) -> Option<&Channel> {
        self.shared.parent.as_ref()
    }

    // State.

    /// True if the channel is a server: it accepts connections, and nothing can be written to it.
    #[must_use]
    pub fn is_server(&self) -> bool {
        self.shared.is_server()
    }

    /// True until the channel is closed.
    #[must_use]
    pub fn is_open(&self) -> bool {
        self.shared.open.load(Ordering::Acquire)
    }

    /// True while the channel is connected or bound.
    #[must_use]
    pub fn is_active(&self) -> bool {
        self.shared.active.load(Ordering::Acquire)
    }

    /// True once a close or disconnect was requested through a handle, on any thread, or the channel is closed. The
    /// close may still be on its way to the loop, wait for a handler, or have been refused by one.
    #[must_use]
    pub fn is_close_requested(&self) -> bool {
        self.shared.is_close_requested() || !self.is_open()
    }

    /// True while the channel is registered with its loop.
    #[must_use]
    pub fn is_registered(&self) -> bool {
        self.shared.registered.load(Ordering::Acquire)
    }

    /// True while the channel is below its high water mark: see [`Ctx::is_writable`](crate::Ctx::is_writable).
    /// Writes count from the moment they are submitted. After a `false`, on any thread,
    /// [`on_writability_changed`](crate::Handler::on_writability_changed) is called when the channel is
    /// writable again, unless it is closed before.
    #[must_use]
    pub fn is_writable(&self) -> bool {
        if let Some(core) = self.shared.local_core() {
            return core.is_writable(); // After a `false` the loop announces the change.
        }
        let is_writable = self.shared.writable.load(Ordering::Acquire) && self.is_open();
        is_writable && self.shared.has_write_room()
    }

    /// Returns the number of bytes that may be written before the channel stops being writable; zero if it is
    /// not writable.
    #[must_use]
    pub fn bytes_before_unwritable(&self) -> usize {
        let high = self.shared.options.water_marks.high();
        let room = high.saturating_add(1).saturating_sub(self.pending_bytes());
        if self.is_writable() { room } else { 0 }
    }

    /// Returns the number of bytes that wait to be written.
    #[must_use]
    pub fn pending_bytes(&self) -> usize {
        self.shared.pending.load(Ordering::Relaxed).saturating_add(self.shared.submitted())
    }

    /// True if the channel requests reads by itself.
    #[must_use]
    pub fn is_auto_read(&self) -> bool {
        self.shared.auto_read.load(Ordering::Acquire)
    }

    /// Returns the address the channel is bound to.
    #[must_use]
    pub fn local_address(&self) -> Option<Address> {
        self.shared.addresses().local
    }

    /// Returns the address the channel is connected to.
    #[must_use]
    pub fn peer_address(&self) -> Option<Address> {
        self.shared.addresses().peer
    }

    /// Returns a future that completes when the channel has been closed, for any reason. The future fails only if the
    /// loop has died, with [`LoopDied`](waterwheel_executor::ErrorKind::LoopDied).
    #[track_caller]
    pub fn closed(&self) -> SharedFuture<()> {
        self.shared.close_future()
    }

    /// Returns the cause of the close: the panic, or the failure of the transport or of a write. `None` while the
    /// channel is open, and if the close was requested.
    #[must_use]
    pub fn close_cause(&self) -> Option<Error> {
        // A handler may hold back a close that has a cause already.
        if self.is_open() { None } else { self.shared.close_cause() }
    }

    // Attributes.

    /// Returns the value for a key.
    #[must_use]
    pub fn attribute<T: Send + Sync + 'static>(&self, key: &AttrKey<T>) -> Option<Arc<T>> {
        self.shared.attributes.get(key)
    }

    /// Sets the value for a key and returns the previous one.
    pub fn set_attribute<T: Send + Sync + 'static>(
        &self,
        key: &AttrKey<T>,
        value: T,
    ) -> Option<Arc<T>> {
        self.shared.attributes.set(key, value)
    }

    /// Removes and returns the value for a key.
    pub fn remove_attribute<T: Send + Sync + 'static>(&self, key: &AttrKey<T>) -> Option<Arc<T>> {
        self.shared.attributes.remove(key)
    }

    // Operations, from the tail of the pipeline.

    /// Writes a message, to be sent by the next flush. From another thread this does not wake the loop.
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

    /// Writes a message and flushes, without a future; on the loop this allocates nothing. A failure because
    /// the channel is closed is silent; a write that is refused for another reason is reported.
    pub fn send(&self, msg: impl Into<Msg>) {
        self.submit_write(msg.into(), true, None);
    }

    /// Flushes: sends all messages that were written before.
    pub fn flush(&self) {
        self.submit(ChannelRequest::Flush);
    }

    /// Requests a round of reads.
    pub fn read(&self) {
        self.submit(ChannelRequest::Read);
    }

    /// Turns auto-read on or off. While it is off, every round of reads has to be requested.
    pub fn set_auto_read(&self, auto: bool) {
        self.submit(ChannelRequest::AutoRead(auto));
    }

    /// Fires a user event from the head of the pipeline.
    pub fn fire_user_event(&self, event: impl Into<Msg>) {
        self.submit(ChannelRequest::UserEvent(event.into()));
    }

    /// Binds the channel to an address.
    #[track_caller]
    pub fn bind(&self, to: impl Into<Address>) -> ChannelFuture {
        let (promise, future) = self.shared.sender.executor().new_promise();
        self.submit(ChannelRequest::Bind(to.into(), promise));
        future
    }

    /// Connects the channel.
    #[track_caller]
    pub fn connect(&self, to: impl Into<ConnectTarget>) -> ChannelFuture {
        let (promise, future) = self.shared.sender.executor().new_promise();
        self.submit(ChannelRequest::Connect(to.into(), promise));
        future
    }

    /// Disconnects the channel, which closes it with any transport: see [`close`](Self::close).
    #[track_caller]
    pub fn disconnect(&self) -> ChannelFuture {
        let (promise, future) = self.shared.sender.executor().new_promise();
        self.shared.set_close_requested();
        self.submit(ChannelRequest::Disconnect(promise));
        future
    }

    /// Closes the channel after its flushed writes. This may be called more than once: each future completes when
    /// the channel is closed.
    #[track_caller]
    pub fn close(&self) -> ChannelFuture {
        let (promise, future) = self.shared.sender.executor().new_promise();
        self.shared.set_close_requested();
        self.submit(ChannelRequest::Close(Some(promise)));
        future
    }

    /// Closes the channel after its flushed writes, as [`close`](Self::close) does, but returns no future. On the
    /// loop this allocates nothing.
    pub fn close_without_future(&self) {
        self.shared.set_close_requested();
        self.submit(ChannelRequest::Close(None));
    }

    /// Stops reading permanently. The peer is not notified: its sends block, as with any reader that does not
    /// read, until this channel is closed. The handlers get [`HalfClosed::Input`](crate::HalfClosed); if the
    /// output is shut down too, the channel is closed.
    #[track_caller]
    pub fn shutdown_input(&self) -> ChannelFuture {
        let (promise, future) = self.shared.sender.executor().new_promise();
        self.submit(ChannelRequest::ShutdownInput(promise));
        future
    }

    /// Sends the flushed writes, however long this takes, then shuts down the output (the peer reads
    /// end-of-stream). Unflushed writes and later writes fail. The handlers get
    /// [`HalfClosed::Output`](crate::HalfClosed); if the input is over too, the channel is closed.
    #[track_caller]
    pub fn shutdown_output(&self) -> ChannelFuture {
        let (promise, future) = self.shared.sender.executor().new_promise();
        self.submit(ChannelRequest::ShutdownOutput(promise));
        future
    }

    /// Sets an option of the channel's socket. Fails if the transport does not support the option.
    #[track_caller]
    pub fn set_option(&self, option: SocketOption) -> ChannelFuture {
        let (promise, future) = self.shared.sender.executor().new_promise();
        self.submit(ChannelRequest::SetOption(option, promise));
        future
    }

    /// Deregisters the channel from its loop without closing it.
    #[track_caller]
    pub fn deregister(&self) -> ChannelFuture {
        let (promise, future) = self.shared.sender.executor().new_promise();
        self.submit(ChannelRequest::Deregister(promise));
        future
    }

    /// Registers the channel with its loop again, after [`deregister`](Self::deregister).
    #[track_caller]
    pub fn register(&self) -> ChannelFuture {
        let (promise, future) = self.shared.sender.executor().new_promise();
        self.submit(ChannelRequest::Register(promise));
        future
    }

    /// Calls `f` with the pipeline, on the loop.
    #[track_caller]
    pub fn with_pipeline<R: Send + 'static>(
        &self,
        f: impl FnOnce(Pipeline<'_>) -> R + Send + 'static,
    ) -> PromiseFuture<R> {
        let (mut promise, future) = self.shared.sender.executor().new_promise();
        self.submit(ChannelRequest::Call(Box::new(move |core| {
            match core {
                Ok(_) if !promise.set_uncancellable() => false,
                Ok(core) => promise.set_success(f(Pipeline::new(core))),
                Err(error) => promise.set_failure(error.clone()),
            };
        })));
        future
    }

    fn submit(&self, request: ChannelRequest) {
        if self.in_event_loop() {
            match self.shared.local_core() {
                Some(core) => request.perform(&core),
                None => request.refuse(&self.closed_error()),
            }
            return;
        }
        let lazily = request.needs_no_wake();
        let shared = self.shared.clone();
        let command = |request: Box<ChannelRequest>| {
            LoopCommand::new(move |here| here.channels().perform(&shared, *request))
        };
        let (sender, request) = (&self.shared.sender, Box::new(request));
        let sent = match lazily {
            true => sender.send_lazily_with(request, command),
            false => sender.send_with(request, command),
        };
        if let Err(rejected) = sent {
            rejected.into_task().refuse(&self.closed_error());
        }
    }

    fn submit_write(
        &self,
        msg: Msg,
        flush: bool,
        promise: Option<waterwheel_executor::Promise<()>>,
    ) {
        if self.in_event_loop() {
            return self.submit(ChannelRequest::Write { msg, flush, promise, submitted: None });
        }
        match self.shared.reserve_pending(msg.size_hint()) {
            Ok(submitted) => {
                let submitted = Some(submitted);
                self.submit(ChannelRequest::Write { msg, flush, promise, submitted });
            }
            Err(error) => {
                if promise.is_none() {
                    self.shared.report_refused_write(&error);
                }
                ChannelRequest::Write { msg, flush, promise, submitted: None }
                    .refuse(&Error::new(error))
            }
        }
    }

    /// Returns the error for a call that finds the channel closed or gone.
    pub(crate) fn closed_error(&self) -> Error {
        Error::from(self.shared.closed_error())
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
        let ChannelAddresses { local, peer } = self.shared.addresses();
        match (local, peer) {
            (None, None) => f.write_str(")"),
            (Some(local), None) => write!(f, ", {local})"),
            (None, Some(peer)) => write!(f, ", to {peer})"),
            (Some(local), Some(peer)) => write!(f, ", {local} to {peer})"),
        }
    }
}
