//! The input of a bridge: messages for the reader, and when the channel reads.

use std::task::{Context, Poll};

use waterwheel_channel::{Ctx, Hold, LocalJoin, LocalLoop, ReadPause};
use waterwheel_executor::Error;

use super::{BridgeState, OpenHalves};
use crate::bridge::round_queue::RoundQueue;

/// The time in which nobody waits for a message.
pub(super) struct Busy {
    /// `None` after the end of the peer's data.
    pub(super) _pause: Option<ReadPause>,
    /// `None` before the first message, and if nobody can read.
    pub(super) hold: Option<Hold>,
}

impl<In: 'static> BridgeState<In> {
    // Called by the handler.

    /// Queues a message for the reader, and runs `task`, the task of the connection, if that is what waits.
    pub(in crate::bridge) fn push(
        &self,
        message: In,
        here: &LocalLoop,
        task: Option<&LocalJoin<()>>,
    ) {
        if self.open_halves.get().reader {
            self.inbound.borrow_mut().push(Ok(message));
            self.reader.poll_or_wake(here, task);
        }
    }

    /// Queues an error of the pipeline. Returns the error if nobody can read it, or too many wait already.
    pub(in crate::bridge) fn push_error(&self, error: Error) -> Result<(), Error> {
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
    pub(in crate::bridge) fn end_round(&self, ctx: &Ctx<'_>) {
        if self.is_input_over.get() {
            return;
        }
        let OpenHalves { reader, writer } = self.open_halves.get();
        // Without handles the channel closes, and a handler that holds the close back may need what the peer answers.
        let is_closing = !reader && !writer;
        if !self.reader.is_waiting() && !is_closing {
            if self.busy.borrow().is_none() {
                let is_at_work = reader;
                let (pause, hold) = (ctx.pause_reads(), is_at_work.then(|| ctx.hold()));
                self.set_busy(Some(Busy { _pause: Some(pause), hold }));
            }
        } else if !ctx.is_auto_read() {
            ctx.read();
        }
    }

    /// Ends the input because the peer has finished. Futures may still be at work on what they have read.
    pub(in crate::bridge) fn finish_input(&self, ctx: &Ctx<'_>) {
        self.end_input(None);
        self.set_busy(Some(Busy { _pause: None, hold: Some(ctx.hold()) }));
    }

    /// Ends the input, after what is queued, and after the cause, unless that was an error of the pipeline already.
    pub(in crate::bridge) fn end_input(&self, cause: Option<Error>) {
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

    /// Reads what still comes while a handler holds the close back; the messages are dropped.
    pub(super) fn read_to_end(&self) {
        if !self.is_removed.get() && !self.is_input_over.get() {
            self.resume_reads();
        }
    }

    pub(super) fn set_busy(&self, busy: Option<Busy>) {
        let before = self.busy.replace(busy);
        drop(before);
    }
}
