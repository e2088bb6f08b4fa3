//! The state that the bridge's handler shares with the handles of futures.

use std::cell::{Cell, OnceCell, RefCell};
use std::rc::Rc;
use std::task::{Context, Poll};

use waterwheel_channel::{
    Channel, ChannelError, Completion, Ctx, Hold, LocalCtx, LocalJoin, LocalLoop, Msg, ReadPause,
    TaskScope,
};
use waterwheel_executor::Error;

use super::drain_signal::{DrainOwner, DrainSignal, DrainState};
use super::round_queue::RoundQueue;
use super::waker_slot::WakerSlot;
use crate::error::AsyncError;

/// The state of a bridge. `In` is the type of the messages that futures read.
pub(crate) struct BridgeState<In> {
    channel: Channel,
    scope: TaskScope,
    /// The context of the bridge's handler, once that was added.
    ctx: OnceCell<LocalCtx>,
    inbound: RefCell<RoundQueue<In>>,
    is_input_over: Cell<bool>,
    reader: WakerSlot,
    /// Present while nobody waits for a message.
    busy: RefCell<Option<Busy>>,
    writer: WakerSlot,
    /// The number of written messages whose result is not known.
    unfinished_writes: Cell<usize>,
    /// The first failure of a write that nobody was told.
    write_error: RefCell<Option<Error>>,
    drain: DrainState,
    open_halves: Cell<OpenHalves>,
    /// The last error of the pipeline: the cause of the close may be the same.
    last_error: RefCell<Option<Error>>,
    task_poll: Cell<TaskPoll>,
    /// True once the handler was removed: the handles do nothing to the channel any more.
    is_removed: Cell<bool>,
}

/// A close that is requested while the task of the connection is polled waits for the end of the poll: the task may be
/// about to return an error, which is then the cause.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum TaskPoll {
    NotPolled,
    Polled,
    /// The handles were dropped in this poll.
    PolledAndDropped,
}

/// The time in which nobody waits for a message.
struct Busy {
    /// `None` after the end of the peer's data.
    _pause: Option<ReadPause>,
    /// `None` before the first message, and if nobody can read.
    hold: Option<Hold>,
}

/// The handles of a bridge that are not dropped.
#[derive(Clone, Copy)]
struct OpenHalves {
    reader: bool,
    writer: bool,
}

impl<In: 'static> BridgeState<In> {
    pub(crate) fn new(channel: Channel, scope: TaskScope) -> Rc<Self> {
        Rc::new(Self {
            channel,
            scope,
            ctx: OnceCell::new(),
            inbound: RefCell::default(),
            is_input_over: Cell::new(false),
            reader: WakerSlot::default(),
            busy: RefCell::default(),
            writer: WakerSlot::default(),
            unfinished_writes: Cell::new(0),
            write_error: RefCell::default(),
            drain: DrainState::default(),
            open_halves: Cell::new(OpenHalves { reader: true, writer: true }),
            last_error: RefCell::default(),
            task_poll: Cell::new(TaskPoll::NotPolled),
            is_removed: Cell::new(false),
        })
    }

    pub(crate) fn channel(&self) -> &Channel {
        &self.channel
    }

    pub(crate) fn scope(&self) -> &TaskScope {
        &self.scope
    }

    // Called by the handler.

    /// Takes the context of the handler. Nothing is read until somebody waits.
    pub(super) fn attach(&self, ctx: &Ctx<'_>) {
        let is_new = self.ctx.set(ctx.to_local()).is_ok();
        debug_assert!(is_new, "a bridge has one handler");
        if !self.reader.is_waiting() {
            self.set_busy(Some(Busy { _pause: Some(ctx.pause_reads()), hold: None }));
        }
        self.writer.wake();
        let OpenHalves { reader, writer } = self.open_halves.get();
        if !reader && !writer {
            ctx.close(); // The handles were dropped before.
        }
    }

    /// Queues a message for the reader, and runs `task`, the task of the connection, if that is what waits.
    pub(super) fn push(&self, message: In, here: &LocalLoop, task: Option<&LocalJoin<()>>) {
        if self.open_halves.get().reader {
            self.inbound.borrow_mut().push(Ok(message));
            self.reader.poll_or_wake(here, task);
        }
    }

    /// Queues an error of the pipeline. Returns the error if nobody can read it, or too many wait already.
    pub(super) fn push_error(&self, error: Error) -> Result<(), Error> {
        if !self.open_halves.get().reader || self.inbound.borrow().is_full_of_errors() {
            return Err(error);
        }
        let before = self.last_error.replace(Some(error.clone()));
        drop(before);
        self.inbound.borrow_mut().push(Err(error));
        self.reader.wake();
        Ok(())
    }

    /// Ends a round of reads: see the rules of the bridge.
    pub(super) fn end_round(&self, ctx: &Ctx<'_>) {
        if self.is_input_over.get() {
            return;
        }
        if !self.reader.is_waiting() {
            if self.busy.borrow().is_none() {
                let is_at_work = self.open_halves.get().reader;
                let (pause, hold) = (ctx.pause_reads(), is_at_work.then(|| ctx.hold()));
                self.set_busy(Some(Busy { _pause: Some(pause), hold }));
            }
        } else if !ctx.is_auto_read() {
            ctx.read();
        }
    }

    /// Ends the input because the peer has finished. Futures may still be at work on what they have read.
    pub(super) fn finish_input(&self, ctx: &Ctx<'_>) {
        self.end_input(None);
        self.set_busy(Some(Busy { _pause: None, hold: Some(ctx.hold()) }));
    }

    /// Ends the input, after what is queued, and after the cause, unless that was an error of the pipeline already.
    pub(super) fn end_input(&self, cause: Option<Error>) {
        self.set_busy(None);
        if self.is_input_over.replace(true) {
            return;
        }
        let last = self.last_error.borrow_mut().take();
        if let Some(cause) = cause
            && last.is_none_or(|last| last.to_string() != cause.to_string())
        {
            self.inbound.borrow_mut().push(Err(cause));
        }
        self.reader.wake();
    }

    /// Leaves the channel, which others use from now on.
    pub(super) fn detach(&self) {
        self.is_removed.set(true);
        self.end();
    }

    /// Ends everything that works for the channel.
    pub(super) fn end(&self) {
        self.end_input(self.channel.close_cause());
        self.writer.wake();
        self.scope.end();
        self.drain.end();
    }

    pub(super) fn wake_writer(&self) {
        self.writer.wake();
    }

    pub(super) fn begin_drain(&self) {
        self.drain.begin();
    }

    fn set_busy(&self, busy: Option<Busy>) {
        let before = self.busy.replace(busy);
        drop(before);
    }

    // Called by the handles.

    pub(crate) fn poll_next(&self, context: &mut Context<'_>) -> Poll<Option<Result<In, Error>>> {
        let item = self.inbound.borrow_mut().pop();
        if item.is_some() || self.is_input_over.get() {
            return Poll::Ready(item);
        }
        self.wait_for_messages(context);
        Poll::Pending
    }

    /// Waits for messages, and takes all of them: see [`RoundQueue::take_from`]. Returns none at the end of the input.
    pub(crate) fn poll_round(
        &self,
        context: &mut Context<'_>,
        round: &mut RoundQueue<In>,
    ) -> Poll<()> {
        self.take_round(round);
        if round.is_empty() && !self.is_input_over.get() {
            self.wait_for_messages(context);
            return Poll::Pending;
        }
        Poll::Ready(())
    }

    /// Takes what is queued.
    pub(crate) fn take_round(&self, round: &mut RoundQueue<In>) {
        round.take_from(&mut self.inbound.borrow_mut());
    }

    pub(crate) fn is_input_over(&self) -> bool {
        self.is_input_over.get()
    }

    fn wait_for_messages(&self, context: &mut Context<'_>) {
        self.reader.wait(context.waker());
        let is_paused = self.busy.borrow().is_some();
        if is_paused {
            self.resume_reads();
        }
    }

    #[cold]
    fn resume_reads(&self) {
        self.set_busy(None);
        if let Some(ctx) = self.ctx.get() {
            // A channel that is gone does not read.
            let _ = ctx.run(|ctx| {
                if !ctx.is_auto_read() {
                    ctx.read();
                }
            });
        }
    }

    /// Waits until the channel is writable.
    pub(crate) fn poll_ready(&self, context: &mut Context<'_>) -> Poll<Result<(), Error>> {
        self.poll_with_room(context, |_| ())
    }

    /// Waits until the channel is writable, then calls `f`, which may write. Flushes what fills the channel: nobody else
    /// may.
    pub(crate) fn poll_with_room<R>(
        &self,
        context: &mut Context<'_>,
        f: impl FnOnce(&Ctx<'_>) -> R,
    ) -> Poll<Result<R, Error>> {
        let Some(ctx) = self.ctx.get() else {
            self.writer.wait(context.waker());
            return Poll::Pending;
        };
        let called = ctx.run_now(|ctx| {
            let has_room = ctx.is_writable() || {
                ctx.flush();
                ctx.is_writable()
            };
            if has_room { Ok(f(ctx)) } else { Err(ctx.held_write_error(0)) }
        });
        match called {
            Ok(Some(Ok(result))) => Poll::Ready(Ok(result)),
            Ok(Some(Err(None))) => {
                self.writer.wait(context.waker());
                Poll::Pending
            }
            Ok(Some(Err(Some(error)))) => Poll::Ready(Err(error.into())),
            // The channel cannot be called just now.
            Ok(None) => {
                context.waker().wake_by_ref();
                Poll::Pending
            }
            Err(_) => Poll::Ready(Err(self.write_refusal())),
        }
    }

    /// Returns the error of a write to a channel that is closed.
    fn write_refusal(&self) -> Error {
        // The completion of the refused write itself says only that it was dropped.
        let is_telling =
            |error: &Error| !matches!(error.find(), Some(ChannelError::CompletionDropped));
        let earlier = self.write_error.take().filter(is_telling);
        let closed = || ChannelError::Closed { cause: self.channel.close_cause() }.into();
        earlier.unwrap_or_else(closed)
    }

    /// Writes a message.
    ///
    /// # Errors
    /// The write has failed at once: the channel is closed, or a handler has refused the message.
    pub(crate) fn write(self: &Rc<Self>, msg: impl Into<Msg>, flush: bool) -> Result<(), Error> {
        let Some(ctx) = self.ctx.get() else { return Err(Error::new(ChannelError::NotConnected)) };
        self.unfinished_writes.set(self.unfinished_writes.get() + 1);
        let state = self.clone();
        let done = Completion::local(move |result| state.on_written(result));
        let msg = msg.into();
        let write = move |ctx: &Ctx<'_>| {
            ctx.write_with(msg, done);
            if flush {
                ctx.flush();
            }
        };
        ctx.run(write).map_err(|_| self.write_refusal())?;
        self.write_error.borrow_mut().take().map_or(Ok(()), Err)
    }

    fn on_written(&self, result: Result<(), Error>) {
        self.unfinished_writes.set(self.unfinished_writes.get() - 1);
        let failed = result.is_err();
        if let Err(error) = result {
            self.write_error.borrow_mut().get_or_insert(error);
        }
        if failed || self.unfinished_writes.get() == 0 {
            self.writer.wake();
        }
    }

    /// Flushes, and waits until every message was handed to the transport.
    pub(crate) fn poll_flush(&self, context: &mut Context<'_>) -> Poll<Result<(), Error>> {
        if let Some(error) = self.write_error.borrow_mut().take() {
            return Poll::Ready(Err(error));
        }
        if self.unfinished_writes.get() == 0 {
            return Poll::Ready(Ok(()));
        }
        self.writer.wait(context.waker());
        self.flush();
        // The flush may have written everything: then the waker was called already, and this poll tells it.
        match self.unfinished_writes.get() {
            0 => {
                self.writer.clear();
                let error = self.write_error.borrow_mut().take();
                Poll::Ready(error.map_or(Ok(()), Err))
            }
            _ => Poll::Pending,
        }
    }

    pub(crate) fn flush(&self) {
        if let Some(ctx) = self.ctx.get() {
            // The writes of a channel that is gone have failed.
            let _ = ctx.run(|ctx| ctx.flush());
        }
    }

    /// True if every message was handed to the transport, and no failure is untold.
    pub(crate) fn has_written_all(&self) -> bool {
        self.unfinished_writes.get() == 0 && self.write_error.borrow().is_none()
    }

    /// True if every written byte was handed to the transport. A channel that is closed may have lost some.
    pub(crate) fn is_flushed(&self) -> bool {
        self.channel.is_open() && self.has_written_all() && self.channel.pending_bytes() == 0
    }

    /// Sends what was written, without waiting for the end of the present call into the channel. Returns true if every
    /// byte was handed to the transport. A failure is told by the next write.
    pub(crate) fn send_now(&self) -> bool {
        let sent = self.ctx.get().map(|ctx| ctx.run_now(|ctx| ctx.flush_now()));
        matches!(sent, Some(Ok(Some(())))) && self.is_flushed()
    }

    /// Flushes and shuts down the output; `poll_flush` waits for it.
    pub(crate) fn shutdown_output(self: &Rc<Self>) {
        self.unfinished_writes.set(self.unfinished_writes.get() + 1);
        let state = self.clone();
        let done = Completion::local(move |result| state.on_written(result));
        let shut_down = move |ctx: &Ctx<'_>| {
            ctx.flush();
            ctx.shutdown_output_with(done);
        };
        let is_requested = self.ctx.get().is_some_and(|ctx| ctx.run(shut_down).is_ok());
        if !is_requested {
            let refusal = self.write_refusal();
            self.write_error.replace(Some(refusal));
        }
    }

    pub(crate) fn drain_signal(self: &Rc<Self>) -> DrainSignal {
        DrainSignal::new(self.clone())
    }

    pub(crate) fn is_draining(&self) -> bool {
        self.drain.is_draining()
    }

    // The end of the handles.

    /// Closes the channel because the async function of the connection has failed. The end of the pipeline reports an
    /// error; a panic was reported already, and the end of the channel is no error.
    pub(crate) fn fail(&self, error: Error) {
        let is_reported = error.find::<AsyncError>().is_some() || self.is_own_end(&error);
        self.run(move |ctx| {
            if !is_reported {
                ctx.fire_error(error.clone());
            }
            ctx.flush();
            ctx.close_because(error);
        });
    }

    /// True if the channel is closed, and this error says just that.
    fn is_own_end(&self, error: &Error) -> bool {
        let is_cause = |cause: Error| cause.to_string() == error.to_string();
        !self.channel.is_open()
            && (error.is_closed() || self.channel.close_cause().is_some_and(is_cause))
    }

    pub(crate) fn on_reader_dropped(&self) {
        let halves = OpenHalves { reader: false, ..self.open_halves.get() };
        self.open_halves.set(halves);
        self.reader.clear();
        let unread = std::mem::take(&mut *self.inbound.borrow_mut());
        drop(unread);
        if !self.is_input_over.get() {
            // Nobody can be at work on what is read; reads stay paused.
            let hold = self.busy.borrow_mut().as_mut().and_then(|busy| busy.hold.take());
            drop(hold);
        }
        if !halves.writer {
            self.close();
        }
    }

    pub(crate) fn on_writer_dropped(&self) {
        let halves = OpenHalves { writer: false, ..self.open_halves.get() };
        self.open_halves.set(halves);
        self.writer.clear();
        if halves.reader {
            self.run(|ctx| {
                ctx.flush();
                ctx.shutdown_output();
            });
        } else {
            self.close();
        }
    }

    /// Runs one poll of the connection's task. Handles that are dropped in it close the channel afterwards.
    pub(crate) fn poll_task<T>(&self, poll: impl FnOnce() -> Poll<T>) -> Poll<T> {
        self.task_poll.set(TaskPoll::Polled);
        let polled = poll();
        if polled.is_pending() {
            self.end_task_poll();
        }
        polled
    }

    /// Closes the channel if its handles were dropped in the last poll of the task.
    pub(crate) fn end_task_poll(&self) {
        if self.task_poll.replace(TaskPoll::NotPolled) == TaskPoll::PolledAndDropped {
            self.close();
        }
    }

    fn close(&self) {
        if self.task_poll.get() != TaskPoll::NotPolled {
            return self.task_poll.set(TaskPoll::PolledAndDropped);
        }
        self.run(|ctx| {
            ctx.flush();
            ctx.close();
        });
    }

    /// Calls `f` with the context of the handler, unless that was removed or the channel is gone: then there is nothing
    /// to do.
    fn run(&self, f: impl FnOnce(&Ctx<'_>) + 'static) {
        if let Some(ctx) = self.ctx.get().filter(|_| !self.is_removed.get()) {
            let _ = ctx.run(f);
        }
    }
}

impl<In> DrainOwner for BridgeState<In> {
    fn drain_state(&self) -> &DrainState {
        &self.drain
    }
}
