//! Closes channels whose writes take too long (K07).
//!
//! ```text
//!   writes     a────b──c─────────────────►
//!   deadlines  ├──── limit ────┤ a    b  c      in the order of the writes: the limit is the same for all
//!                              ▲
//!                              └ one timer, for the oldest write that is not done
//! ```
//!
//! 1. A write has the limit from when it passes this handler until its completion: until its last byte is accepted by
//!    the transport. Time in the queues of handlers before this one counts, and so does the time until the flush. A part
//!    that is written in between does not extend the time, as in Netty: a large file needs a limit for the whole file.
//! 2. There is one timer for a channel, however many writes are pending. It is set for the oldest write, fires, and is
//!    set again for the oldest one of then (`rearming_timer`); a channel without pending writes has none.
//! 3. Writes whose time is over fail with `TimeoutError::Write`. The error is fired once, and then the channel is closed
//!    at once (`Ctx::abort`), for the peer does not read: other handlers are not asked, and the remaining writes fail
//!    with the error as their cause. The channel is closed even if a handler removes this one in response, since a write
//!    that was reported as failed may have been sent in part.
//! 4. A cancelled write is not watched any more, and is skipped as without this handler.
//! 5. A removed handler watches nothing; pending writes go on, and complete their callers.
//! 6. Writes on a deregistered channel, one that is being drained, or one whose output is being shut down have the same
//!    limit.
//!
//! Per write: a clock read and no allocation; the memory of a finished write is used for the next. Writes that end out
//! of order (refused, cancelled) are dropped from the queue when it has doubled, so that it holds at most twice as many
//! entries as writes were pending, plus 64.

use std::collections::VecDeque;
use std::fmt;
use std::time::Duration;

use waterwheel_channel::{
    Completion, Ctx, Events, Handler, HandlerResult, Msg, Signature, WatchedCompletion,
};
use waterwheel_executor::{Error, Nanos};

use super::error::{InvalidTimeout, TimeoutError};
use super::rearming_timer::RearmingTimer;

/// Fails writes that are not done within a time, and closes the channel then, after a [`TimeoutError::Write`] for
/// `on_error` of the following handlers.
///
/// A write is done when the transport has accepted its last byte. Progress does not extend the time. Only writes that
/// pass this handler are watched: add it before the handlers that write.
///
/// A clone has the same limit and fresh state.
///
/// ```
/// use std::time::Duration;
/// use bytes::Bytes;
/// use waterwheel_handlers::{TimeoutError, WriteTimeout};
/// use waterwheel_testkit::embedded::Embedded;
///
/// let timeout = WriteTimeout::new(Duration::from_secs(10))?;
/// let mut channel = Embedded::builder().stream().build(|edit| {
///     edit.add_last("timeout", timeout.clone())?;
///     Ok(())
/// })?;
/// channel.set_room(0); // The peer does not read.
/// let write = channel.write_outbound(Bytes::from_static(b"hello"));
/// channel.advance(Duration::from_secs(10));
/// let error = write.join().unwrap_err();
/// assert!(matches!(error.find::<TimeoutError>(), Some(TimeoutError::Write { late: 1, .. })));
/// assert!(!channel.channel().is_open());
/// # Ok::<(), waterwheel_executor::Error>(())
/// ```
pub struct WriteTimeout {
    limit: Duration,
    writes: WatchedWrites,
    timer: RearmingTimer,
    /// True once the limit was exceeded.
    is_over: bool,
}

impl WriteTimeout {
    /// Returns a handler with this limit.
    ///
    /// # Errors
    /// [`InvalidTimeout`]: the limit is zero.
    pub fn new(limit: Duration) -> Result<Self, InvalidTimeout> {
        InvalidTimeout::check("WriteTimeout", limit).map(Self::with)
    }

    fn with(limit: Duration) -> Self {
        let (writes, timer) = (WatchedWrites::default(), RearmingTimer::default());
        Self { limit, writes, timer, is_over: false }
    }

    fn time_out(&mut self, ctx: &Ctx<'_>) {
        self.is_over = true;
        let late = self.writes.take_late(ctx.now());
        let error = Error::from(TimeoutError::write(ctx, self.limit, late.len()));
        for write in late {
            write.fail(error.clone());
        }
        ctx.fire_error(error.clone());
        ctx.abort(error);
    }
}

impl Handler for WriteTimeout {
    fn interest(&self) -> Events {
        Events::WRITE | Events::INACTIVE
    }

    fn signature(&self) -> Signature {
        Signature::transparent()
    }

    fn write(&mut self, ctx: &Ctx<'_>, msg: Msg, done: &mut Completion) -> HandlerResult {
        if self.is_over {
            ctx.write_with(msg, done.take());
            return Ok(());
        }
        let done = self.writes.push(ctx.now().plus(self.limit), done.take());
        if !self.timer.is_set() {
            self.timer.set(self.limit, ctx);
        }
        ctx.write_with(msg, done);
        Ok(())
    }

    fn on_inactive(&mut self, ctx: &Ctx<'_>) -> HandlerResult {
        self.timer.cancel(ctx);
        ctx.fire_inactive();
        Ok(())
    }

    fn on_timer(&mut self, ctx: &Ctx<'_>, _: u32) -> HandlerResult {
        self.timer.fired();
        if let Some(deadline) = self.writes.oldest_deadline()
            && self.timer.is_due(deadline, ctx)
        {
            self.time_out(ctx);
        }
        Ok(())
    }
}

impl Clone for WriteTimeout {
    fn clone(&self) -> Self {
        Self::with(self.limit)
    }
}

impl fmt::Debug for WriteTimeout {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WriteTimeout").field("limit", &self.limit).finish_non_exhaustive()
    }
}

/// Finished entries that are kept for the next writes, and the room that an empty queue keeps.
const KEPT_ENTRIES: usize = 32;

/// The length from which on the queue is searched for finished writes behind unfinished ones.
const MIN_SEARCHED: usize = 64;

/// The writes in progress, oldest first, which is also the order of their deadlines.
#[derive(Default)]
struct WatchedWrites {
    pending: VecDeque<(Nanos, WatchedCompletion)>,
    /// Watches of finished writes, whose memory is used again.
    finished: Vec<WatchedCompletion>,
    /// The length at which the queue is searched next.
    search_at: usize,
}

impl WatchedWrites {
    /// Watches a write. Returns the completion to pass on in place of `done`.
    fn push(&mut self, deadline: Nanos, done: Completion) -> Completion {
        self.drop_finished();
        if self.pending.len() >= self.search_at.max(MIN_SEARCHED) {
            self.pending.retain(|(_, watch)| !watch.is_done());
            self.search_at = self.pending.len() * 2;
        }
        let mut watch = self.finished.pop().unwrap_or_default();
        let done = watch.wrap(done);
        self.pending.push_back((deadline, watch));
        done
    }

    /// Returns the deadline of the oldest write that is not done.
    fn oldest_deadline(&mut self) -> Option<Nanos> {
        self.drop_finished();
        self.pending.front().map(|(deadline, _)| *deadline)
    }

    /// Drops finished writes up to the first one that is not.
    fn drop_finished(&mut self) {
        while let Some((_, watch)) = self.pending.pop_front_if(|(_, watch)| watch.is_done()) {
            if self.finished.len() < KEPT_ENTRIES {
                self.finished.push(watch);
            }
        }
        if self.pending.is_empty() {
            self.pending.shrink_to(KEPT_ENTRIES);
            self.search_at = 0;
        }
    }

    /// Takes the writes whose deadline has passed. The others are not watched any more.
    fn take_late(&mut self, now: Nanos) -> Vec<WatchedCompletion> {
        let all = std::mem::take(self).pending.into_iter();
        all.take_while(|(deadline, _)| *deadline <= now)
            .map(|(_, watch)| watch)
            .filter(|watch| !watch.is_done())
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn k07_writes_that_end_out_of_order_leave_a_short_queue() {
        let mut writes = WatchedWrites::default();
        let oldest = writes.push(Nanos::default(), Completion::none());
        let mut longest = 0;
        for _ in 0..10_000 {
            writes.push(Nanos::default(), Completion::none()).fail(Error::new("refused"));
            longest = longest.max(writes.pending.len());
        }
        assert!(longest <= 2 + MIN_SEARCHED, "{longest} entries for one pending write");
        oldest.succeed();
        assert_eq!(writes.oldest_deadline(), None);
        assert!(writes.pending.is_empty() && writes.finished.len() <= KEPT_ENTRIES);
    }

    #[test]
    fn k07_the_memory_of_a_burst_is_freed() {
        let mut writes = WatchedWrites::default();
        let burst: Vec<_> =
            (0..5_000).map(|_| writes.push(Nanos::default(), Completion::none())).collect();
        assert_eq!(writes.pending.len(), burst.len());
        burst.into_iter().for_each(Completion::succeed);
        assert_eq!(writes.oldest_deadline(), None);
        assert!(writes.pending.capacity() <= 2 * KEPT_ENTRIES, "{}", writes.pending.capacity());
    }
}
