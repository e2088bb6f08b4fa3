//! The state that the bridge's handler shares with the handles of futures.
//!
//! `reading` is its input, `writing` its output; here is what ends them.

mod reading;
mod writing;

use std::cell::{Cell, OnceCell, RefCell};
use std::rc::Rc;
use std::task::Poll;

use waterwheel_channel::{Channel, Ctx, LocalCtx, TaskScope};
use waterwheel_executor::Error;

use self::reading::Busy;
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

    /// Takes the context of the handler. Nothing is read until somebody waits.
    pub(in crate::bridge) fn attach(&self, ctx: &Ctx<'_>) {
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

    /// Leaves the channel, which others use from now on.
    pub(in crate::bridge) fn detach(&self) {
        self.is_removed.set(true);
        self.end();
    }

    /// Ends everything that works for the channel.
    pub(in crate::bridge) fn end(&self) {
        self.end_input(self.channel.close_cause());
        self.writer.wake();
        self.scope.end();
        self.drain.end();
    }

    pub(in crate::bridge) fn begin_drain(&self) {
        self.drain.begin();
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
            // No future can be at work on what is read; reads stay paused.
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
        self.read_to_end();
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
