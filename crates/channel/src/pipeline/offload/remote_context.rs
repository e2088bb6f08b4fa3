//! `RemoteCtx`: how an offloaded handler acts on its pipeline, from any thread.

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

/// The position of an offloaded handler in its pipeline.
///
/// `fire_…` sends an inbound event to the handlers after this one, toward the tail. The plain verbs (`write`,
/// `flush`, `close`, …) send an outbound event to the handlers before this one, toward the transport. Both
/// take effect on the loop, a little later, in the order of the calls.
///
/// Cheap to clone, `Send` and `Sync`. It may be kept beyond the call it was given to, and used on any
/// thread. Once the handler was removed or the channel is gone, operations fail and fired events are
/// dropped. It does not keep the channel or the handler alive, but keeps the executor from ending by
/// itself.
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

    // Inbound events, for the handlers after this one.

    /// Forwards that the channel was registered.
    pub fn fire_registered(&self) {
        self.emit(RemoteEvent::Registered);
    }

    /// Forwards that the channel was deregistered from its loop, or closed.
    pub fn fire_unregistered(&self) {
        self.emit(RemoteEvent::Unregistered);
    }

    /// Forwards that the channel became active.
    pub fn fire_active(&self) {
        self.emit(RemoteEvent::Active);
    }

    /// Forwards that the channel became inactive.
    pub fn fire_inactive(&self) {
        self.emit(RemoteEvent::Inactive);
    }

    /// Passes a message to the `on_read` of the next handler.
    pub fn fire_read(&self, msg: impl Into<Msg>) {
        self.emit(RemoteEvent::Read(msg.into()));
    }

    /// Forwards the end of a round of reads.
    pub fn fire_read_complete(&self) {
        self.emit(RemoteEvent::ReadComplete);
    }

    /// Fires a user event: a message of any type for the `on_user_event` of the next handler.
    pub fn fire_user_event(&self, event: impl Into<Msg>) {
        self.emit(RemoteEvent::UserEvent(event.into()));
    }

    /// Forwards that the channel became writable or stopped being writable.
    pub fn fire_writability_changed(&self) {
        self.emit(RemoteEvent::WritabilityChanged);
    }

    /// Passes an error to the `on_error` of the next handler.
    pub fn fire_error(&self, error: Error) {
        self.emit(RemoteEvent::Failure(error));
    }

    // Outbound operations. The closures of the `_then` forms run on the handler's executor.

    /// Binds the channel.
    pub fn bind(&self, to: impl Into<Address>) {
        self.bind_with(to, RemoteCompletion::none());
    }

    /// Binds the channel; `done` receives the result.
    pub fn bind_with(&self, to: impl Into<Address>, done: impl Into<RemoteCompletion>) {
        self.emit(RemoteEvent::Bind(to.into(), done.into()));
    }

    /// Binds the channel, and calls `f` on the handler's executor with the result.
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

    /// Connects the channel; `done` receives the result.
    pub fn connect_with(&self, to: impl Into<ConnectTarget>, done: impl Into<RemoteCompletion>) {
        self.emit(RemoteEvent::Connect(to.into(), done.into()));
    }

    /// Connects the channel, and calls `f` on the handler's executor with the result.
    #[track_caller]
    pub fn connect_then(
        &self,
        to: impl Into<ConnectTarget>,
        f: impl FnOnce(Result<(), Error>) + Send + 'static,
    ) {
        self.connect_with(to, self.promise_calling(f));
    }

    /// Disconnects the channel, which closes it: see [`close`](Self::close).
    pub fn disconnect(&self) {
        self.disconnect_with(RemoteCompletion::none());
    }

    /// Disconnects the channel, which closes it; `done` receives the result.
    pub fn disconnect_with(&self, done: impl Into<RemoteCompletion>) {
        self.emit(RemoteEvent::Disconnect(done.into()));
    }

    /// Disconnects the channel, which closes it, and calls `f` on the handler's executor with the result.
    #[track_caller]
    pub fn disconnect_then(&self, f: impl FnOnce(Result<(), Error>) + Send + 'static) {
        self.disconnect_with(self.promise_calling(f));
    }

    /// Closes the channel, after everything flushed was handed to the transport.
    pub fn close(&self) {
        self.close_with(RemoteCompletion::none());
    }

    /// Closes the channel; `done` receives the result.
    pub fn close_with(&self, done: impl Into<RemoteCompletion>) {
        self.emit(RemoteEvent::Close(done.into()));
    }

    /// Closes the channel, and calls `f` on the handler's executor with the result.
    #[track_caller]
    pub fn close_then(&self, f: impl FnOnce(Result<(), Error>) + Send + 'static) {
        self.close_with(self.promise_calling(f));
    }

    /// Closes the channel and returns a future for the result, whose listeners run on the handler's
    /// executor. [`Channel::closed`](crate::Channel::closed) waits for a close without requesting it.
    #[track_caller]
    pub fn close_future(&self) -> ChannelFuture {
        let (promise, future) = self.link.executor().new_promise();
        self.close_with(promise);
        future
    }

    /// Deregisters the channel from its loop.
    pub fn deregister(&self) {
        self.deregister_with(RemoteCompletion::none());
    }

    /// Deregisters the channel from its loop; `done` receives the result.
    pub fn deregister_with(&self, done: impl Into<RemoteCompletion>) {
        self.emit(RemoteEvent::Deregister(done.into()));
    }

    /// Deregisters the channel from its loop, and calls `f` on the handler's executor with the result.
    #[track_caller]
    pub fn deregister_then(&self, f: impl FnOnce(Result<(), Error>) + Send + 'static) {
        self.deregister_with(self.promise_calling(f));
    }

    /// Shuts down the output (half-close) after everything flushed was written: see
    /// [`Channel::shutdown_output`](crate::Channel::shutdown_output).
    pub fn shutdown_output(&self) {
        self.shutdown_output_with(RemoteCompletion::none());
    }

    /// Shuts down the output after everything flushed was written; `done` receives the result.
    pub fn shutdown_output_with(&self, done: impl Into<RemoteCompletion>) {
        self.emit(RemoteEvent::ShutdownOutput(done.into()));
    }

    /// Shuts down the output after everything flushed was written, and calls `f` on the handler's
    /// executor with the result.
    #[track_caller]
    pub fn shutdown_output_then(&self, f: impl FnOnce(Result<(), Error>) + Send + 'static) {
        self.shutdown_output_with(self.promise_calling(f));
    }

    /// Returns a promise that calls `f` on the handler's executor.
    #[track_caller]
    fn promise_calling(&self, f: impl FnOnce(Result<(), Error>) + Send + 'static) -> Promise<()> {
        let (promise, future) = self.link.executor().new_promise();
        future.on_complete(f);
        promise
    }

    /// Requests one round of reads. Needed only if the channel does not read by itself.
    pub fn read(&self) {
        self.emit(RemoteEvent::BeginRead);
    }

    /// Writes a message. It stays in the channel's outbound buffer until it is flushed. Its bytes count
    /// as pending from this call on.
    pub fn write(&self, msg: impl Into<Msg>) {
        self.write_with(msg, RemoteCompletion::none());
    }

    /// Writes a message; `done` receives the result.
    pub fn write_with(&self, msg: impl Into<Msg>, done: impl Into<RemoteCompletion>) {
        let (msg, done) = (msg.into(), done.into());
        match self.link.shared().reserve_pending(msg.size_hint()) {
            Ok(reservation) => self.emit(RemoteEvent::Write(msg, done, reservation)),
            Err(error) => self.link.fail_operation(Error::new(error), done),
        }
    }

    /// Writes a message, and calls `f` on the handler's executor when it was sent, or failed.
    #[track_caller]
    pub fn write_then(
        &self,
        msg: impl Into<Msg>,
        f: impl FnOnce(Result<(), Error>) + Send + 'static,
    ) {
        self.write_with(msg, self.promise_calling(f));
    }

    /// Writes a message, and returns a future of the result. The future's listeners run on the handler's
    /// executor.
    #[track_caller]
    pub fn write_future(&self, msg: impl Into<Msg>) -> ChannelFuture {
        let (promise, future) = self.link.executor().new_promise();
        self.write_with(msg, promise);
        future
    }

    /// Flushes all written messages.
    pub fn flush(&self) {
        self.emit(RemoteEvent::Flush);
    }

    /// Writes a message and flushes.
    pub fn write_and_flush(&self, msg: impl Into<Msg>) {
        self.write_and_flush_with(msg, RemoteCompletion::none());
    }

    /// Writes a message and flushes; `done` receives the result of the write.
    pub fn write_and_flush_with(&self, msg: impl Into<Msg>, done: impl Into<RemoteCompletion>) {
        self.write_with(msg, done);
        self.flush();
    }

    /// Writes a message and flushes, and calls `f` on the handler's executor when the message was sent,
    /// or failed.
    #[track_caller]
    pub fn write_and_flush_then(
        &self,
        msg: impl Into<Msg>,
        f: impl FnOnce(Result<(), Error>) + Send + 'static,
    ) {
        self.write_and_flush_with(msg, self.promise_calling(f));
    }

    // State of the channel and of this handler. It may change on the loop at any time.

    /// True if the channel was writable at the time of the call: see [`Channel::is_writable`].
    #[must_use]
    pub fn is_writable(&self) -> bool {
        self.channel().is_writable()
    }

    /// True if the channel was active at the time of the call: connected, or bound.
    #[must_use]
    pub fn is_active(&self) -> bool {
        self.channel().is_active()
    }

    /// Returns the slot of the handler.
    #[must_use]
    pub fn slot(&self) -> SlotId {
        self.link.slot()
    }

    /// Returns the name of the handler.
    #[must_use]
    pub fn name(&self) -> &str {
        self.link.name()
    }

    /// Returns a handle to the channel. A message written to it starts at the tail of the pipeline, and
    /// passes this handler.
    #[must_use]
    pub fn channel(&self) -> Channel {
        Channel::new(self.link.shared().clone())
    }

    /// Returns the executor that the handler runs on.
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
