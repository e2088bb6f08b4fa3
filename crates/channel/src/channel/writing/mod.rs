//! Writing: the outbound buffer and the calls of the transport (C07).

mod direct_sends;
mod drop_queue;
pub(crate) mod joined_writes;
pub(crate) mod outbound;
mod pending_writes;
mod stream_pieces;
pub(crate) mod submitted_bytes;
pub(crate) mod writability;

use std::cell::RefMut;
use std::collections::VecDeque;
use std::io;
use std::rc::Rc;

use bytes::Bytes;
use waterwheel_executor::engine::drop_in_turn;
use waterwheel_executor::{Error, Nanos, UserCode};

use crate::channel::core::{ChannelCore, DeferredWork};
use crate::channel::error::ChannelError;
use crate::channel::panics::catch_user_panic;
use crate::channel::writing::outbound::Outbound;
use crate::driver::Submit;
use crate::event_loop::command::LoopCommand;
use crate::payload::AncillaryMessage;
use crate::pipeline::slots::slot_list::HEAD;
use crate::pipeline::{Completion, Msg, Types};

/// The maximum number of partial writes per flush. After these, other channels run before the rest is written.
const WRITE_SPINS: usize = 16;

/// The readiness of the transport for a write.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum WriteState {
    #[default]
    Free,
    /// The transport is full (EAGAIN).
    Full,
    /// A write is in progress.
    Pending,
}

/// The progress of dropping written messages: `Dropping` while a destructor is on the stack.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum DropState {
    #[default]
    Idle,
    Dropping,
    /// Dropping, and more messages were written meanwhile; they are dropped in the next round.
    MoreQueued,
}

impl ChannelCore {
    /// Writes a message that has passed all handlers.
    pub(crate) fn write(self: &Rc<Self>, msg: Msg, done: Completion) {
        if done.is_none() { self.write_unawaited(msg) } else { self.write_any(msg, done) }
    }

    /// Writes a message without a completion that has passed all handlers.
    #[inline(always)]
    pub(crate) fn write_unawaited(self: &Rc<Self>, msg: Msg) {
        let is_open = self.lifecycle.get().is_open() && !self.is_output_over();
        match msg.into_bytes() {
            Ok(bytes) if is_open && self.transport_info.takes_bytes => self.write_bytes(bytes),
            Ok(bytes) => self.write_any(bytes.into(), Completion::none()),
            Err(msg) => self.write_any(msg, Completion::none()),
        }
    }

    /// Appends bytes without a completion to a stream that accepts them.
    #[inline(always)]
    fn write_bytes(self: &Rc<Self>, bytes: Bytes) {
        let size = bytes.len();
        if !self.is_below_high_mark_with(size) {
            return self.write_any(bytes.into(), Completion::none());
        }
        self.end_joining_if_any();
        self.outbound.borrow_mut().push_bytes(bytes);
        self.set_pending(self.pending() + size);
    }

    /// True if the channel stays writable with this many more bytes. The hard cap is not below the high water mark.
    #[inline(always)]
    fn is_below_high_mark_with(&self, size: usize) -> bool {
        size <= self.options().water_marks.high().saturating_sub(self.total_pending())
    }

    /// True if bytes can be appended to the outbound buffer now, and the channel stays writable with them.
    fn takes_bytes_now(&self, size: usize) -> bool {
        self.transport_info.takes_bytes
            && self.lifecycle.get().is_open()
            && !self.is_output_over()
            && self.is_below_high_mark_with(size)
    }

    /// Moves joined messages to the outbound buffer. Called before the buffer is used in any other way.
    #[inline(always)]
    fn end_joining_if_any(&self) {
        if self.has_joined.get() {
            self.end_joining();
        }
    }

    #[inline(never)]
    fn write_any(self: &Rc<Self>, msg: Msg, done: Completion) {
        let size = msg.size_hint();
        let fits =
            size <= self.options().water_marks.hard_cap().saturating_sub(self.total_pending());
        let open = self.lifecycle.get().is_open() && !self.is_output_over();
        if !(fits && open && self.accepts(&msg) && !self.is_empty_ancillary(&msg)) {
            return self.refuse_write(msg, size, done);
        }
        self.end_joining_if_any();
        self.outbound.borrow_mut().push(msg, size, done, self.transport_info.is_stream);
        self.add_pending(size);
    }

    fn accepts(&self, msg: &Msg) -> bool {
        self.transport_types().accepts.may_contain(msg.type_id_of_value())
    }

    /// True for an ancillary message without bytes on a stream: the kernel would send nothing.
    fn is_empty_ancillary(&self, msg: &Msg) -> bool {
        self.transport_info.is_stream
            && msg.get::<AncillaryMessage>().is_some_and(|ancillary| ancillary.bytes.is_empty())
    }

    fn refusal_error(&self, msg: &Msg, size: usize) -> ChannelError {
        if !self.lifecycle.get().is_open() {
            return self.shared.closed_error();
        }
        if self.is_output_over() {
            return ChannelError::OutputShutDown;
        }
        let transport = self.transport_types();
        if let Types::These(types) = transport.accepts
            && !self.accepts(msg)
        {
            let names: Vec<_> = types.iter().map(|tag| tag.name()).collect();
            return ChannelError::UnsupportedMessage {
                message: msg.type_name(),
                transport: transport.name,
                accepts: names.join(" or "),
            };
        }
        if self.is_empty_ancillary(msg) {
            return ChannelError::EmptyAncillaryMessage;
        }
        self.buffer_full_error(size)
    }

    /// Returns the error for a write of this size that a handler wants to hold; `None` if it may.
    pub(crate) fn held_write_error(&self, size: usize) -> Option<ChannelError> {
        if !self.lifecycle.get().is_open() {
            return Some(self.shared.closed_error());
        }
        if self.is_output_over() {
            return Some(ChannelError::OutputShutDown);
        }
        (size > self.bytes_before_refusal()).then(|| self.buffer_full_error(size))
    }

    fn buffer_full_error(&self, size: usize) -> ChannelError {
        let (pending, limit) = (self.total_pending(), self.options().water_marks.hard_cap());
        ChannelError::BufferFull { pending, limit, size }
    }

    #[cold]
    fn refuse_write(self: &Rc<Self>, msg: Msg, size: usize, done: Completion) {
        let error = self.refusal_error(&msg, size);
        self.refuse_write_with(error, msg, done);
    }

    #[cold]
    pub(crate) fn refuse_write_with(
        self: &Rc<Self>,
        error: ChannelError,
        msg: Msg,
        done: Completion,
    ) {
        // Callers learn from other events that the channel is closed or its output shut down. Any other refusal
        // is a mistake in the program, and is reported if the write has no future.
        let expected = matches!(error, ChannelError::Closed { .. } | ChannelError::OutputShutDown);
        if done.is_none() && !expected {
            self.shared.report_refused_write(&error);
        }
        self.fail_operation_at(HEAD, done, error.into());
        drop_in_turn(msg);
    }

    /// Flushes; the request has passed all handlers.
    #[inline(always)]
    pub(crate) fn flush(self: &Rc<Self>) {
        if !self.lifecycle.get().is_open() {
            return;
        }
        if self.has_joined.get() {
            return self.flush_joined();
        }
        let mut out = self.outbound.borrow_mut();
        let mut nothing = out.flush_bytes_only();
        drop(out);
        if nothing {
            nothing = self.flush_awaited();
        }
        if self.pending() > self.options().water_marks.high() {
            self.write_out();
        } else if !nothing {
            self.mark_deferred(DeferredWork::FLUSH);
        }
    }

    /// Flushes messages with completions, which may have been cancelled, and messages that are not bytes.
    /// Returns true if there is nothing to send.
    #[cold]
    fn flush_awaited(self: &Rc<Self>) -> bool {
        let cancelled = self.outbound.borrow_mut().flush();
        if let Some(cancelled) = cancelled {
            self.remove_pending(cancelled.bytes);
            self.drop_messages(cancelled.messages);
            cancelled
                .promises
                .into_iter()
                .for_each(|promise| self.drop_catching_panic("promise", promise));
        }
        self.drop_written(); // Empty messages are never given to the transport.
        self.outbound.borrow().is_empty()
    }

    // To the transport.

    /// Writes the flushed bytes if they are one chunk and the driver takes all of it, which is the common case.
    /// Returns false if something is left for [`write_out`](Self::write_out).
    ///
    /// The call of the driver and the drop of the chunk have no panic guard of their own. The caller has one,
    /// with no handler on the stack, and `drop_state` shows whether a destructor panicked.
    #[inline(always)]
    pub(in crate::channel) fn write_one_chunk(self: &Rc<Self>) -> bool {
        let Some(token) = self.stream_token() else { return false };
        self.end_joining_if_any();
        let mut out = self.outbound.borrow_mut();
        let is_free = self.write_state.get() == WriteState::Free && self.is_active();
        let is_plain = !self.is_output_over() && !self.tracks_last_write.get();
        // While a destructor of written bytes is on the stack, the next bytes are dropped after it.
        if !is_free
            || !is_plain
            || !out.is_single_flushed_chunk()
            || self.drop_state.get() != DropState::Idle
        {
            return false;
        }
        let len = out.bytes().len();
        match self.here.write_unguarded(token, out.bytes()) {
            Ok(Submit::Done(written)) if written == len => {
                let chunk = out.take_single_chunk();
                drop(out);
                self.here.counters().add_bytes_written(len);
                self.remove_pending(len);
                self.drop_state.set(DropState::Dropping);
                drop(chunk);
                self.end_dropping();
                true
            }
            written => {
                self.after_stream_write(out, written);
                false
            }
        }
    }

    /// Hands flushed messages to the transport, as many as it takes.
    #[inline(never)]
    pub(crate) fn write_out(self: &Rc<Self>) {
        self.try_write_out();
        if self.is_output_over() {
            self.end_output_if_written();
        }
        self.drop_written();
    }

    /// Drops written messages. A destructor may be user code that writes to this channel: messages that are
    /// written meanwhile are dropped in the next round, so that neither the stack grows nor the loop is
    /// blocked.
    fn drop_written(self: &Rc<Self>) {
        if let Some(bytes) = self.begin_dropping() {
            self.drop_catching_panic("sent bytes", bytes);
            self.end_dropping();
        }
    }

    /// Takes out the last written chunk for the caller to drop, if it is the only message to drop, which is the
    /// common case. Otherwise drops all written messages.
    fn begin_dropping(self: &Rc<Self>) -> Option<Bytes> {
        let mut out = self.outbound.borrow_mut();
        let last = out.take_written_bytes();
        if out.has_written() || self.drop_state.get() != DropState::Idle {
            drop(out);
            self.drop_all_written(last);
            return None;
        }
        if last.is_some() {
            self.drop_state.set(DropState::Dropping);
        }
        last
    }

    #[inline(never)]
    fn drop_all_written(self: &Rc<Self>, last: Option<Bytes>) {
        if let Some(bytes) = last {
            self.outbound.borrow_mut().discard(bytes.into());
        }
        if self.drop_state.get() != DropState::Idle {
            return self.drop_state.set(DropState::MoreQueued);
        }
        self.drop_state.set(DropState::Dropping);
        let mut list = self.outbound.borrow_mut().drop_queue().take();
        // One panic guard covers all messages. After a destructor that panics, a new guard covers the rest.
        while !list.is_empty() {
            let _ = catch_user_panic(UserCode::Destructor, "sent message", || list.drop_all());
        }
        self.outbound.borrow_mut().drop_queue().put_back(list);
        self.end_dropping();
    }

    #[inline]
    pub(in crate::channel) fn end_dropping(self: &Rc<Self>) {
        if self.drop_state.replace(DropState::Idle) == DropState::MoreQueued {
            self.mark_deferred(DeferredWork::FLUSH);
        }
    }

    fn try_write_out(self: &Rc<Self>) {
        self.end_joining_if_any();
        if self.write_state.get() != WriteState::Free || self.outbound.borrow().is_empty() {
            return;
        }
        if !self.is_active() && !self.is_lingering() {
            return self.fail_writes_before_connect();
        }
        for _ in 0..WRITE_SPINS {
            let out = self.outbound.borrow_mut();
            let is_over = match self.stream_token() {
                Some(token) if !out.bytes().is_empty() => {
                    let written = self.here.write(token, out.bytes());
                    self.after_stream_write(out, written)
                }
                _ => {
                    let mut out = out;
                    let written = self
                        .with_transport(|transport, context| transport.write(context, &mut out));
                    self.after_write(out, written)
                }
            };
            if is_over {
                return;
            }
        }
        self.write_out_later();
    }

    #[inline(never)]
    fn after_stream_write(
        self: &Rc<Self>,
        mut out: RefMut<'_, Outbound>,
        written: io::Result<Submit>,
    ) -> bool {
        if let Ok(Submit::Done(n)) = written {
            out.wrote(n);
        }
        self.after_write(out, written)
    }

    /// Counts written bytes. Returns true if nothing more can be written now.
    fn after_write(
        self: &Rc<Self>,
        out: RefMut<'_, Outbound>,
        written: io::Result<Submit>,
    ) -> bool {
        let is_all = out.is_empty();
        self.collect_written(out);
        match written {
            Ok(Submit::Done(_)) => return is_all,
            Ok(Submit::Full) => self.write_state.set(WriteState::Full),
            Ok(Submit::Pending) => self.write_state.set(WriteState::Pending),
            Err(error) => self.close(Some(Error::new(error)), Completion::none()),
        }
        true
    }

    /// Fails messages that were flushed before the channel was connected. If it is no longer open, they fail as
    /// part of the close.
    #[cold]
    fn fail_writes_before_connect(self: &Rc<Self>) {
        if self.lifecycle.get().is_open() {
            let error = Error::new(ChannelError::NotConnected);
            let early = self.outbound.borrow_mut().take_flushed();
            self.fail_outbound(early, &error);
        }
    }

    /// Continues the flush after the commands that are queued now.
    #[cold]
    fn write_out_later(self: &Rc<Self>) {
        let token = self.token();
        let command = LoopCommand::new(move |here| {
            here.channels().with(token, |core| core.enter(|core| core.continue_writing()));
        });
        if self.here.sender().send(command).is_err() {
            self.mark_deferred(DeferredWork::FLUSH); // The loop is about to end and takes no commands.
        }
    }

    /// Forgets that the transport was full, after the channel was registered again: the next write finds out.
    pub(in crate::channel) fn clear_full_state(&self) {
        if self.write_state.get() == WriteState::Full {
            self.write_state.set(WriteState::Free);
        }
    }

    /// True if flushed messages are still to be written.
    pub(in crate::channel) fn has_unwritten(&self) -> bool {
        self.end_joining_if_any();
        self.write_state.get() != WriteState::Free || !self.outbound.borrow().is_empty()
    }

    /// True if more flushed messages can be written without the peer reading first.
    pub(in crate::channel) fn can_continue_writing(&self) -> bool {
        self.end_joining_if_any();
        match self.write_state.get() {
            WriteState::Free => !self.outbound.borrow().is_empty(),
            WriteState::Full => false,
            WriteState::Pending => true,
        }
    }

    /// Handles that the transport is writable again, or that a write in progress has ended.
    pub(in crate::channel) fn on_wrote(self: &Rc<Self>, n: usize) {
        self.write_state.set(WriteState::Free);
        if n > 0 {
            let mut out = self.outbound.borrow_mut();
            out.wrote(n);
            self.collect_written(out);
            self.drop_written();
        }
        self.write_out();
    }

    /// Counts the messages that the transport has taken out of the buffer, and queues their completions.
    fn collect_written(self: &Rc<Self>, mut out: RefMut<'_, Outbound>) {
        if self.tracks_last_write.get() && out.take_has_progress() {
            self.cold.get_or_create().last_write = Some(self.here.now());
        }
        let ((bytes, written), told) = (out.take_removed(), out.has_completions());
        drop(out);
        self.here.counters().add_bytes_written(written);
        self.remove_pending(bytes);
        if told {
            self.complete_written_later();
        }
    }

    fn complete_written_later(self: &Rc<Self>) {
        // One by one, so that neither list is allocated anew.
        loop {
            let next = self.outbound.borrow_mut().next_completion();
            let Some((done, result)) = next else { return };
            self.complete_write_later(done, result);
        }
    }

    fn complete_write_later(self: &Rc<Self>, done: Completion, result: Result<(), Error>) {
        if let Err(error) = &result
            && done.is_none()
        {
            self.shared.report_refused_write(error); // No completion would show the failure.
        }
        self.complete_later(done, result);
    }

    /// Returns the time of the last write. Recorded from the first call on, because it costs reading the clock.
    pub(crate) fn last_write(&self) -> Option<Nanos> {
        self.tracks_last_write.set(true);
        self.cold.get().and_then(|cold| cold.last_write)
    }

    /// True unless the outbound buffer is empty, which is the common case at a close.
    pub(in crate::channel) fn has_writes_to_fail(&self) -> bool {
        self.end_joining_if_any();
        !self.outbound.borrow().is_unused() || !self.writability.is_writable()
    }

    /// Fails all messages in the buffer.
    pub(in crate::channel) fn fail_writes(self: &Rc<Self>, error: &Error) {
        self.end_joining_if_any();
        let waiting = self.outbound.take();
        self.fail_outbound(waiting, error);
    }

    /// Fails all unflushed messages.
    pub(in crate::channel) fn fail_unflushed(self: &Rc<Self>, error: &Error) {
        self.end_joining_if_any();
        let unflushed = self.outbound.borrow_mut().take_unflushed();
        self.fail_outbound(unflushed, error);
    }

    fn fail_outbound(self: &Rc<Self>, outbound: Outbound, error: &Error) {
        let failed = outbound.fail(error);
        self.remove_pending(failed.bytes);
        for (done, result) in failed.completions {
            self.complete_write_later(done, result);
        }
        self.drop_messages(failed.messages);
    }

    /// Drops messages one by one, so that a destructor that panics does not leak the others.
    fn drop_messages(&self, messages: VecDeque<Msg>) {
        for msg in messages {
            self.drop_catching_panic(msg.type_name(), msg);
        }
    }
}
