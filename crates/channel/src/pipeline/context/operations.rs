//! The outbound operations of a handler's context.
//!
//! Each operation has three forms: the plain form ignores the result; `_with` takes a [`Completion`] or a promise
//! that receives the result; `_then` takes a closure that is called on the loop with the result.

use bytes::BytesMut;
use waterwheel_executor::Error;

use crate::address::{Address, ConnectTarget};
use crate::pipeline::completion::Completion;
use crate::pipeline::context::Ctx;
use crate::pipeline::dispatch::event::{
    BeginRead, Bind, Close, Connect, Deregister, Disconnect, ShutdownOutput, Write,
};
use crate::pipeline::handler::HandlerResult;
use crate::pipeline::message::Msg;

impl Ctx<'_> {
    /// Binds the channel.
    pub fn bind(&self, to: impl Into<Address>) {
        self.bind_with(to, Completion::none());
    }

    /// Binds the channel; `done` receives the result.
    pub fn bind_with(&self, to: impl Into<Address>, done: impl Into<Completion>) {
        self.send_outlined(Bind(to.into(), done.into()));
    }

    /// Binds the channel, and calls `f` on the loop with the result.
    #[track_caller]
    pub fn bind_then(&self, to: impl Into<Address>, f: impl FnOnce(Result<(), Error>) + 'static) {
        self.bind_with(to, Completion::local(f));
    }

    /// Connects the channel.
    pub fn connect(&self, to: impl Into<ConnectTarget>) {
        self.connect_with(to, Completion::none());
    }

    /// Connects the channel; `done` receives the result.
    pub fn connect_with(&self, to: impl Into<ConnectTarget>, done: impl Into<Completion>) {
        self.send_outlined(Connect(to.into(), done.into()));
    }

    /// Connects the channel, and calls `f` on the loop with the result.
    #[track_caller]
    pub fn connect_then(
        &self,
        to: impl Into<ConnectTarget>,
        f: impl FnOnce(Result<(), Error>) + 'static,
    ) {
        self.connect_with(to, Completion::local(f));
    }

    /// Disconnects the channel, which closes it: see [`close`](Self::close).
    pub fn disconnect(&self) {
        self.disconnect_with(Completion::none());
    }

    /// Disconnects the channel, which closes it; `done` receives the result.
    pub fn disconnect_with(&self, done: impl Into<Completion>) {
        self.send_outlined(Disconnect(done.into()));
    }

    /// Disconnects the channel, which closes it, and calls `f` on the loop with the result.
    #[track_caller]
    pub fn disconnect_then(&self, f: impl FnOnce(Result<(), Error>) + 'static) {
        self.disconnect_with(Completion::local(f));
    }

    /// Closes the channel, after everything flushed was handed to the transport.
    pub fn close(&self) {
        self.close_with(Completion::none());
    }

    /// Closes the channel; `done` receives the result.
    pub fn close_with(&self, done: impl Into<Completion>) {
        self.send_outlined(Close(done.into()));
    }

    /// Closes the channel, and calls `f` on the loop with the result.
    #[track_caller]
    pub fn close_then(&self, f: impl FnOnce(Result<(), Error>) + 'static) {
        self.close_with(Completion::local(f));
    }

    /// Closes the channel like [`close`](Self::close), and gives the cause: operations that fail because of the
    /// close report it. The first cause that is given stays. If a handler holds the close back, the cause is kept
    /// for the close that follows.
    pub fn close_because(&self, cause: Error) {
        self.core().give_close_cause(cause);
        self.close();
    }

    /// Returns the cause of the close, or of one that was requested and is held back by a handler, which may tell the
    /// peer. `None` if there is none.
    #[must_use]
    pub fn close_cause(&self) -> Option<Error> {
        self.core().given_close_cause()
    }

    /// Closes the channel at once with this cause, as a failure of the transport does: no handler is asked, and
    /// flushed messages that the transport has not taken fail. For a peer that is not to be waited for.
    pub fn abort(&self, cause: Error) {
        self.core().close(Some(cause), Completion::none());
    }

    /// Deregisters the channel from its loop.
    pub fn deregister(&self) {
        self.deregister_with(Completion::none());
    }

    /// Deregisters the channel from its loop; `done` receives the result.
    pub fn deregister_with(&self, done: impl Into<Completion>) {
        self.send_outlined(Deregister(done.into()));
    }

    /// Deregisters the channel from its loop, and calls `f` on that loop with the result.
    #[track_caller]
    pub fn deregister_then(&self, f: impl FnOnce(Result<(), Error>) + 'static) {
        self.deregister_with(Completion::local(f));
    }

    /// Shuts down the input, so that nothing more is read: see
    /// [`Channel::shutdown_input`](crate::Channel::shutdown_input).
    pub fn shutdown_input(&self) {
        self.shutdown_input_with(Completion::none());
    }

    /// Shuts down the input; `done` receives the result.
    pub fn shutdown_input_with(&self, done: impl Into<Completion>) {
        let mut done = done.into();
        self.core().enter_or_defer(move |core| {
            if done.begin() {
                core.shutdown_input(done);
            }
        });
    }

    /// Shuts down the input, and calls `f` on the loop with the result.
    #[track_caller]
    pub fn shutdown_input_then(&self, f: impl FnOnce(Result<(), Error>) + 'static) {
        self.shutdown_input_with(Completion::local(f));
    }

    /// Shuts down the output (half-close) after everything flushed was written: see
    /// [`Channel::shutdown_output`](crate::Channel::shutdown_output).
    pub fn shutdown_output(&self) {
        self.shutdown_output_with(Completion::none());
    }

    /// Shuts down the output after everything flushed was written; `done` receives the result.
    pub fn shutdown_output_with(&self, done: impl Into<Completion>) {
        self.send_outlined(ShutdownOutput(done.into()));
    }

    /// Shuts down the output after everything flushed was written, and calls `f` on the loop with the
    /// result.
    #[track_caller]
    pub fn shutdown_output_then(&self, f: impl FnOnce(Result<(), Error>) + 'static) {
        self.shutdown_output_with(Completion::local(f));
    }

    /// Requests one round of reads. Needed only if the channel does not read by itself
    /// ([`is_auto_read`](Self::is_auto_read)).
    pub fn read(&self) {
        self.send_outlined(BeginRead);
    }

    /// Writes a message. It stays in the channel's outbound buffer until it is flushed. Allocates
    /// nothing.
    #[inline]
    pub fn write(&self, msg: impl Into<Msg>) {
        self.core().write_from(self.at(), msg.into());
    }

    /// Writes a message; `done` receives the result.
    pub fn write_with(&self, msg: impl Into<Msg>, done: impl Into<Completion>) {
        self.send_outlined(Write(msg.into(), done.into()));
    }

    /// Writes a message that must not be missing: an answer of a protocol that matches answers to requests by their
    /// order. If it is refused, because an encoder cannot encode it, the hard cap is reached or the transport does not
    /// accept its type, earlier messages are flushed, the error is fired inward from where the message was refused, and
    /// the channel is closed with the error as its cause. No later message is sent, not even one that waits with it for
    /// a running handler (rule 2 of `docs/PIPELINE.md`). Allocates nothing, as [`write`](Self::write).
    ///
    /// ```
    /// use waterwheel_channel::{Ctx, Encode, Encoder, Handler, HandlerResult, Msg};
    /// use waterwheel_executor::Error;
    /// use waterwheel_testkit::embedded::Embedded;
    /// # use bytes::{BufMut, Bytes, BytesMut};
    ///
    /// struct Answer;
    ///
    /// impl Handler for Answer {
    ///     fn on_read(&mut self, ctx: &Ctx<'_>, msg: Msg) -> HandlerResult {
    ///         ctx.write_or_close(msg);
    ///         ctx.flush();
    ///         Ok(())
    ///     }
    /// }
    ///
    /// # struct Digits;
    /// # impl Encoder for Digits {
    /// #     type In = u32;
    /// #     fn encode(&mut self, number: u32, dst: &mut BytesMut) -> HandlerResult {
    /// #         let digit = u8::try_from(number).ok().filter(|number| *number < 10);
    /// #         dst.put_u8(b'0' + digit.ok_or_else(|| Error::new("not a digit"))?);
    /// #         Ok(())
    /// #     }
    /// # }
    /// // `Digits` encodes numbers below ten.
    /// let mut channel = Embedded::new(|edit| {
    ///     edit.add_last("digits", Encode::new(Digits))?;
    ///     edit.add_last("answer", Answer)?;
    ///     Ok(())
    /// })?;
    /// channel.write_inbound_all([Msg::from(1u32), Msg::from(12u32), Msg::from(3u32)]);
    /// assert_eq!(channel.read_outbound::<Bytes>().unwrap(), "1");
    /// assert!(channel.read_outbound_any().is_none(), "3 does not take the place of 12");
    /// assert_eq!(channel.channel().close_cause().unwrap().to_string(), "not a digit");
    /// # Ok::<(), Error>(())
    /// ```
    pub fn write_or_close(&self, msg: impl Into<Msg>) {
        self.send_outlined(Write(msg.into(), Completion::of_part(self.core())));
    }

    /// Encodes a message as bytes, and writes it. `encode` appends the message to a buffer, which is empty.
    ///
    /// Small messages that are written during the same call into the channel become one part of its outbound
    /// buffer, without an allocation each; so an encoder, or a handler that answers in bytes, uses this instead of
    /// [`write`](Self::write). A message that passes other handlers on its way to the transport is passed to them as
    /// [`Bytes`](bytes::Bytes).
    ///
    /// ```
    /// use bytes::BufMut;
    /// use waterwheel_channel::{Ctx, Handler, HandlerResult, Msg};
    ///
    /// struct Acknowledge;
    ///
    /// impl Handler for Acknowledge {
    ///     fn on_read(&mut self, ctx: &Ctx<'_>, msg: Msg) -> HandlerResult {
    ///         ctx.write_encoded(|dst| {
    ///             dst.put_slice(b"+OK ");
    ///             dst.put_u64(msg.size_hint() as u64);
    ///             Ok(())
    ///         })?;
    ///         ctx.flush();
    ///         Ok(())
    ///     }
    /// }
    /// ```
    ///
    /// # Errors
    /// The error of `encode`; nothing is written.
    #[inline]
    pub fn write_encoded(
        &self,
        encode: impl FnOnce(&mut BytesMut) -> HandlerResult,
    ) -> HandlerResult {
        self.write_encoded_with(&mut Completion::none(), encode)
    }

    /// Encodes a message like [`write_encoded`](Self::write_encoded); `done` receives the result of the write, and
    /// is left where it is if the message cannot be encoded. With a completion, a message is a part of its own.
    ///
    /// # Errors
    /// The error of `encode`; nothing is written.
    #[inline]
    pub fn write_encoded_with(
        &self,
        done: &mut Completion,
        encode: impl FnOnce(&mut BytesMut) -> HandlerResult,
    ) -> HandlerResult {
        let core = self.core();
        let mut message = core.begin_message();
        match encode(&mut message) {
            Ok(()) => core.write_message(self.at(), message, done.take()),
            Err(error) => {
                core.discard_message(message);
                return Err(error);
            }
        }
        Ok(())
    }

    /// Sends bytes at once, from a buffer that the handler keeps: writes and flushes them without a copy, and without
    /// waiting for the end of the call (rule 9 of `docs/PIPELINE.md`). Bytes that the transport does not take now are
    /// copied, and follow.
    ///
    /// Returns false, and sends nothing, if the bytes have to take the usual way: other bytes are before them, a handler
    /// nearer to the transport is interested in writes or flushes, the transport is no stream of the loop's driver, is
    /// full or over, or the channel would become unwritable. Then [`write`](Self::write) and [`flush`](Self::flush) them.
    ///
    /// Each call is a system call: for a handler that collects what it writes in a round of reads, at the end of that
    /// round.
    ///
    /// ```
    /// use waterwheel_channel::{Ctx, Handler, HandlerResult, Msg};
    /// # use bytes::Bytes;
    ///
    /// /// Answers each round of reads with the number of its messages.
    /// #[derive(Default)]
    /// struct Count(u8);
    ///
    /// impl Handler for Count {
    ///     fn on_read(&mut self, _: &Ctx<'_>, _: Msg) -> HandlerResult {
    ///         self.0 += 1;
    ///         Ok(())
    ///     }
    ///
    ///     fn on_read_complete(&mut self, ctx: &Ctx<'_>) -> HandlerResult {
    ///         let answer = [std::mem::take(&mut self.0)];
    ///         if !ctx.try_send(&answer) {
    ///             ctx.write_and_flush(Bytes::copy_from_slice(&answer));
    ///         }
    ///         Ok(())
    ///     }
    /// }
    /// ```
    #[must_use = "bytes that were not sent have to be written"]
    #[inline]
    pub fn try_send(&self, bytes: &[u8]) -> bool {
        self.core().try_send(self.at(), bytes)
    }

    /// Writes a message, and calls `f` on the loop when it was sent, or failed.
    #[track_caller]
    pub fn write_then(&self, msg: impl Into<Msg>, f: impl FnOnce(Result<(), Error>) + 'static) {
        self.write_with(msg, Completion::local(f));
    }

    /// Flushes all written messages: they are sent when the outermost call into a channel returns.
    #[inline]
    pub fn flush(&self) {
        self.core().flush_from(self.at());
    }

    /// Flushes, and sends at once all messages that have reached the transport's end of the pipeline.
    pub fn flush_now(&self) {
        self.flush();
        self.core().write_out();
    }

    /// Writes a message and flushes.
    #[inline]
    pub fn write_and_flush(&self, msg: impl Into<Msg>) {
        self.write(msg);
        self.flush();
    }

    /// Writes a message and flushes; `done` receives the result of the write.
    pub fn write_and_flush_with(&self, msg: impl Into<Msg>, done: impl Into<Completion>) {
        self.write_with(msg, done);
        self.flush();
    }

    /// Writes a message and flushes, and calls `f` on the loop when the message was sent, or failed.
    #[track_caller]
    pub fn write_and_flush_then(
        &self,
        msg: impl Into<Msg>,
        f: impl FnOnce(Result<(), Error>) + 'static,
    ) {
        self.write_and_flush_with(msg, Completion::local(f));
    }
}
