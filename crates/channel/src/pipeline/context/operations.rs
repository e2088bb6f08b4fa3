//! The outbound operations of a handler's context.
//!
//! Each operation comes in three forms: plain, which tells nobody; `_with`, which tells a [`Completion`] or a
//! promise; `_then`, which calls a closure on the loop.

use waterwheel_executor::Error;

use crate::address::{Address, ConnectTarget};
use crate::pipeline::completion::Completion;
use crate::pipeline::context::Ctx;
use crate::pipeline::dispatch::event::{
    BeginRead, Bind, Close, Connect, Deregister, Disconnect, ShutdownOutput, Write,
};
use crate::pipeline::message::Msg;

impl Ctx<'_> {
    /// Binds the channel.
    pub fn bind(&self, to: impl Into<Address>) {
        self.bind_with(to, Completion::none());
    }

    /// Binds the channel, and tells `done`.
    pub fn bind_with(&self, to: impl Into<Address>, done: impl Into<Completion>) {
        self.send_outlined(Bind(to.into(), done.into()));
    }

    /// Binds the channel, and calls `f` on the loop when it is bound, or could not be.
    #[track_caller]
    pub fn bind_then(&self, to: impl Into<Address>, f: impl FnOnce(Result<(), Error>) + 'static) {
        self.bind_with(to, Completion::local(f));
    }

    /// Connects the channel.
    pub fn connect(&self, to: impl Into<ConnectTarget>) {
        self.connect_with(to, Completion::none());
    }

    /// Connects the channel, and tells `done`.
    pub fn connect_with(&self, to: impl Into<ConnectTarget>, done: impl Into<Completion>) {
        self.send_outlined(Connect(to.into(), done.into()));
    }

    /// Connects the channel, and calls `f` on the loop when it is connected, or could not be.
    #[track_caller]
    pub fn connect_then(
        &self,
        to: impl Into<ConnectTarget>,
        f: impl FnOnce(Result<(), Error>) + 'static,
    ) {
        self.connect_with(to, Completion::local(f));
    }

    /// Disconnects the channel; of a transport without connections, closes it.
    pub fn disconnect(&self) {
        self.disconnect_with(Completion::none());
    }

    /// Disconnects the channel, and tells `done`.
    pub fn disconnect_with(&self, done: impl Into<Completion>) {
        self.send_outlined(Disconnect(done.into()));
    }

    /// Disconnects the channel, and calls `f` on the loop when that is done.
    #[track_caller]
    pub fn disconnect_then(&self, f: impl FnOnce(Result<(), Error>) + 'static) {
        self.disconnect_with(Completion::local(f));
    }

    /// Closes the channel: after what was flushed has been handed to the transport.
    pub fn close(&self) {
        self.close_with(Completion::none());
    }

    /// Closes the channel, and tells `done`.
    pub fn close_with(&self, done: impl Into<Completion>) {
        self.send_outlined(Close(done.into()));
    }

    /// Closes the channel, and calls `f` on the loop when that is done.
    #[track_caller]
    pub fn close_then(&self, f: impl FnOnce(Result<(), Error>) + 'static) {
        self.close_with(Completion::local(f));
    }

    /// Lets the channel leave its loop.
    pub fn deregister(&self) {
        self.deregister_with(Completion::none());
    }

    /// Lets the channel leave its loop, and tells `done`.
    pub fn deregister_with(&self, done: impl Into<Completion>) {
        self.send_outlined(Deregister(done.into()));
    }

    /// Lets the channel leave its loop, and calls `f` there when it has left, or could not.
    #[track_caller]
    pub fn deregister_then(&self, f: impl FnOnce(Result<(), Error>) + 'static) {
        self.deregister_with(Completion::local(f));
    }

    /// Reads nothing more: see [`Channel::shutdown_input`](crate::Channel::shutdown_input).
    pub fn shutdown_input(&self) {
        self.shutdown_input_with(Completion::none());
    }

    /// Reads nothing more, and tells `done`.
    pub fn shutdown_input_with(&self, done: impl Into<Completion>) {
        let mut done = done.into();
        self.core().enter_or_defer(move |core| {
            if done.begin() {
                core.shutdown_input(done);
            }
        });
    }

    /// Reads nothing more, and calls `f` on the loop when that is done, or could not be.
    #[track_caller]
    pub fn shutdown_input_then(&self, f: impl FnOnce(Result<(), Error>) + 'static) {
        self.shutdown_input_with(Completion::local(f));
    }

    /// Writes what was flushed, then tells the peer that this was all: see
    /// [`Channel::shutdown_output`](crate::Channel::shutdown_output).
    pub fn shutdown_output(&self) {
        self.shutdown_output_with(Completion::none());
    }

    /// Shuts the output down after what was flushed, and tells `done`.
    pub fn shutdown_output_with(&self, done: impl Into<Completion>) {
        self.send_outlined(ShutdownOutput(done.into()));
    }

    /// Shuts the output down after what was flushed, and calls `f` on the loop when that is done, or could not be.
    #[track_caller]
    pub fn shutdown_output_then(&self, f: impl FnOnce(Result<(), Error>) + 'static) {
        self.shutdown_output_with(Completion::local(f));
    }

    /// Asks for more to be read: one round of it, if the channel does not read by itself.
    pub fn read(&self) {
        self.send_outlined(BeginRead);
    }

    /// Writes a message: it waits in the channel until it is flushed. Costs no allocation.
    #[inline]
    pub fn write(&self, msg: impl Into<Msg>) {
        self.core().write_from(self.at(), msg.into());
    }

    /// Writes a message, and tells `done`.
    pub fn write_with(&self, msg: impl Into<Msg>, done: impl Into<Completion>) {
        self.send_outlined(Write(msg.into(), done.into()));
    }

    /// Writes a message, and calls `f` on the loop when it was sent, or could not be.
    #[track_caller]
    pub fn write_then(&self, msg: impl Into<Msg>, f: impl FnOnce(Result<(), Error>) + 'static) {
        self.write_with(msg, Completion::local(f));
    }

    /// Sends what was written, at the end of the outermost call into a channel.
    #[inline]
    pub fn flush(&self) {
        self.core().flush_from(self.at());
    }

    /// Sends what was written at once, as far as it has reached the transport's end.
    pub fn flush_now(&self) {
        self.flush();
        self.core().write_out();
    }

    /// Writes and flushes.
    #[inline]
    pub fn write_and_flush(&self, msg: impl Into<Msg>) {
        self.write(msg);
        self.flush();
    }

    /// Writes and flushes, and tells `done` of the write.
    pub fn write_and_flush_with(&self, msg: impl Into<Msg>, done: impl Into<Completion>) {
        self.write_with(msg, done);
        self.flush();
    }

    /// Writes and flushes, and calls `f` on the loop when the message was sent, or could not be.
    #[track_caller]
    pub fn write_and_flush_then(
        &self,
        msg: impl Into<Msg>,
        f: impl FnOnce(Result<(), Error>) + 'static,
    ) {
        self.write_and_flush_with(msg, Completion::local(f));
    }
}
