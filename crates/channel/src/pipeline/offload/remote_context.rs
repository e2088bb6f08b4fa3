//! A handler's place in its pipeline, for any thread.

use std::fmt;
use std::sync::Arc;

use waterwheel_executor::{Error, EventExecutor, Promise};

use super::link::{Emission, OffloadLink};
use super::remote_completion::RemoteCompletion;
use super::remote_event::RemoteEvent;
use crate::address::{Address, ConnectTarget};
use crate::channel::handle::{Channel, ChannelFuture};
use crate::pipeline::message::Msg;
use crate::pipeline::slots::slot_list::SlotId;

/// Where an offloaded handler stands. `fire_…` passes something inward, to the handlers behind it; the
/// plain verbs ask for something outward, of the handlers before it. Both happen on the loop, a little
/// later, in the order of the calls.
///
/// Cheap to clone, `Send` and `Sync`; it may be kept, and used from any thread, also after the call it
/// was given to. Once the handler has been removed or the channel is gone, operations fail and the rest
/// has no effect. It keeps neither of them, but the executor from ending by itself.
#[derive(Clone)]
pub struct RemoteCtx {
    link: Arc<OffloadLink>,
}

impl RemoteCtx {
    pub(super) fn new(link: Arc<OffloadLink>) -> Self {
        Self { link }
    }

    fn emit(&self, event: RemoteEvent) {
        self.link.emit(Emission::Event(event));
    }

    // Inward.

    /// The channel was registered.
    pub fn fire_registered(&self) {
        self.emit(RemoteEvent::Registered);
    }

    /// The channel left its loop.
    pub fn fire_unregistered(&self) {
        self.emit(RemoteEvent::Unregistered);
    }

    /// The channel became active.
    pub fn fire_active(&self) {
        self.emit(RemoteEvent::Active);
    }

    /// The channel is no longer active.
    pub fn fire_inactive(&self) {
        self.emit(RemoteEvent::Inactive);
    }

    /// A message came in.
    pub fn fire_read(&self, msg: impl Into<Msg>) {
        self.emit(RemoteEvent::Read(msg.into()));
    }

    /// That was all for now.
    pub fn fire_read_complete(&self) {
        self.emit(RemoteEvent::ReadComplete);
    }

    /// An event of the user's own.
    pub fn fire_user_event(&self, event: impl Into<Msg>) {
        self.emit(RemoteEvent::UserEvent(event.into()));
    }

    /// The channel became writable, or stopped being so.
    pub fn fire_writability_changed(&self) {
        self.emit(RemoteEvent::WritabilityChanged);
    }

    /// Something failed.
    pub fn fire_error(&self, error: Error) {
        self.emit(RemoteEvent::Failure(error));
    }

    // Outward. What is called with the outcome runs on the handler's executor.

    /// Binds the channel.
    pub fn bind(&self, to: impl Into<Address>) {
        self.bind_with(to, RemoteCompletion::none());
    }

    /// Binds the channel, and tells `done`.
    pub fn bind_with(&self, to: impl Into<Address>, done: impl Into<RemoteCompletion>) {
        self.emit(RemoteEvent::Bind(to.into(), done.into()));
    }

    /// Binds the channel, and calls `f` when it is bound, or could not be.
    #[track_caller]
    pub fn bind_then(
        &self,
        to: impl Into<Address>,
        f: impl FnOnce(Result<(), Error>) + Send + 'static,
    ) {
        self.bind_with(to, self.promise_calling(f));
    }

    /// Connects the channel.
    pub fn connect(&self, to: impl Into<ConnectTarget>) {
        self.connect_with(to, RemoteCompletion::none());
    }

    /// Connects the channel, and tells `done`.
    pub fn connect_with(&self, to: impl Into<ConnectTarget>, done: impl Into<RemoteCompletion>) {
        self.emit(RemoteEvent::Connect(to.into(), done.into()));
    }

    /// Connects the channel, and calls `f` when it is connected, or could not be.
    #[track_caller]
    pub fn connect_then(
        &self,
        to: impl Into<ConnectTarget>,
        f: impl FnOnce(Result<(), Error>) + Send + 'static,
    ) {
        self.connect_with(to, self.promise_calling(f));
    }

    /// Disconnects the channel; of a transport without connections, closes it.
    pub fn disconnect(&self) {
        self.disconnect_with(RemoteCompletion::none());
    }

    /// Disconnects the channel, and tells `done`.
    pub fn disconnect_with(&self, done: impl Into<RemoteCompletion>) {
        self.emit(RemoteEvent::Disconnect(done.into()));
    }

    /// Disconnects the channel, and calls `f` when that is done.
    #[track_caller]
    pub fn disconnect_then(&self, f: impl FnOnce(Result<(), Error>) + Send + 'static) {
        self.disconnect_with(self.promise_calling(f));
    }

    /// Closes the channel: after what was flushed has been handed to the transport.
    pub fn close(&self) {
        self.close_with(RemoteCompletion::none());
    }

    /// Closes the channel, and tells `done`.
    pub fn close_with(&self, done: impl Into<RemoteCompletion>) {
        self.emit(RemoteEvent::Close(done.into()));
    }

    /// Closes the channel, and calls `f` when that is done.
    #[track_caller]
    pub fn close_then(&self, f: impl FnOnce(Result<(), Error>) + Send + 'static) {
        self.close_with(self.promise_calling(f));
    }

    /// Closes the channel. The listeners of the future run on the handler's executor.
    #[track_caller]
    pub fn close_future(&self) -> ChannelFuture {
        let (promise, future) = self.link.executor().new_promise();
        self.close_with(promise);
        future
    }

    /// Lets the channel leave its loop.
    pub fn deregister(&self) {
        self.deregister_with(RemoteCompletion::none());
    }

    /// Lets the channel leave its loop, and tells `done`.
    pub fn deregister_with(&self, done: impl Into<RemoteCompletion>) {
        self.emit(RemoteEvent::Deregister(done.into()));
    }

    /// Lets the channel leave its loop, and calls `f` when it has left, or could not.
    #[track_caller]
    pub fn deregister_then(&self, f: impl FnOnce(Result<(), Error>) + Send + 'static) {
        self.deregister_with(self.promise_calling(f));
    }

    /// Writes what was flushed, then tells the peer that this was all: see
    /// [`Channel::shutdown_output`](crate::Channel::shutdown_output).
    pub fn shutdown_output(&self) {
        self.shutdown_output_with(RemoteCompletion::none());
    }

    /// Shuts the output down after what was flushed, and tells `done`.
    pub fn shutdown_output_with(&self, done: impl Into<RemoteCompletion>) {
        self.emit(RemoteEvent::ShutdownOutput(done.into()));
    }

    /// Shuts the output down after what was flushed, and calls `f` when that is done, or could not be.
    #[track_caller]
    pub fn shutdown_output_then(&self, f: impl FnOnce(Result<(), Error>) + Send + 'static) {
        self.shutdown_output_with(self.promise_calling(f));
    }

    /// A promise that calls `f` on the handler's executor.
    #[track_caller]
    fn promise_calling(&self, f: impl FnOnce(Result<(), Error>) + Send + 'static) -> Promise<()> {
        let (promise, future) = self.link.executor().new_promise();
        future.on_complete(f);
        promise
    }

    /// Asks for more to be read: one round of it, if the channel does not read by itself.
    pub fn read(&self) {
        self.emit(RemoteEvent::BeginRead);
    }

    /// Writes a message: it waits in the channel until it is flushed. It counts as pending from now on.
    pub fn write(&self, msg: impl Into<Msg>) {
        self.write_with(msg, RemoteCompletion::none());
    }

    /// Writes a message, and tells `done`.
    pub fn write_with(&self, msg: impl Into<Msg>, done: impl Into<RemoteCompletion>) {
        let (msg, done) = (msg.into(), done.into());
        match self.link.shared().reserve_pending(msg.size_hint()) {
            Ok(reservation) => self.emit(RemoteEvent::Write(msg, done, reservation)),
            Err(error) => self.link.operation_failed(Error::new(error), done),
        }
    }

    /// Writes a message, and calls `f` when it was sent, or could not be.
    #[track_caller]
    pub fn write_then(
        &self,
        msg: impl Into<Msg>,
        f: impl FnOnce(Result<(), Error>) + Send + 'static,
    ) {
        self.write_with(msg, self.promise_calling(f));
    }

    /// Writes a message. The listeners of the future run on the handler's executor.
    #[track_caller]
    pub fn write_future(&self, msg: impl Into<Msg>) -> ChannelFuture {
        let (promise, future) = self.link.executor().new_promise();
        self.write_with(msg, promise);
        future
    }

    /// Sends what was written.
    pub fn flush(&self) {
        self.emit(RemoteEvent::Flush);
    }

    /// Writes and flushes.
    pub fn write_and_flush(&self, msg: impl Into<Msg>) {
        self.write_and_flush_with(msg, RemoteCompletion::none());
    }

    /// Writes and flushes, and tells `done` of the write.
    pub fn write_and_flush_with(&self, msg: impl Into<Msg>, done: impl Into<RemoteCompletion>) {
        self.write_with(msg, done);
        self.flush();
    }

    /// Writes and flushes, and calls `f` when the message was sent, or could not be.
    #[track_caller]
    pub fn write_and_flush_then(
        &self,
        msg: impl Into<Msg>,
        f: impl FnOnce(Result<(), Error>) + Send + 'static,
    ) {
        self.write_and_flush_with(msg, self.promise_calling(f));
    }

    // Looking around: what the loop does meanwhile, nobody knows.

    /// Whether the channel takes more: see [`Channel::is_writable`].
    #[must_use]
    pub fn is_writable(&self) -> bool {
        self.channel().is_writable()
    }

    /// Whether the channel is connected, or bound.
    #[must_use]
    pub fn is_active(&self) -> bool {
        self.channel().is_active()
    }

    /// The handler's place.
    #[must_use]
    pub fn slot(&self) -> SlotId {
        self.link.slot()
    }

    /// The handler's name.
    #[must_use]
    pub fn name(&self) -> &str {
        self.link.name()
    }

    /// The channel. What is written there begins at the end of the pipeline, and goes through this
    /// handler.
    #[must_use]
    pub fn channel(&self) -> Channel {
        Channel::new(self.link.shared().clone())
    }

    /// The executor the handler runs on.
    #[must_use]
    pub fn executor(&self) -> &EventExecutor {
        self.link.executor()
    }
}

impl fmt::Debug for RemoteCtx {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "RemoteCtx({} of {:?})", self.name(), self.link.shared())
    }
}
