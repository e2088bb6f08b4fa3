//! The channels of a loop, and the deferred work that runs when the outermost call into one of them has
//! returned.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::rc::Rc;
use std::sync::Arc;

use waterwheel_executor::{Error, ErrorKind};

use crate::base::queue_capacity::shrink_if_empty;
use crate::base::token::{Slab, Token};
use crate::channel::core::ChannelCore;
use crate::channel::handle::Channel;
use crate::channel::handle::request::ChannelRequest;
use crate::channel::handle::shared_state::ChannelShared;
use crate::channel::writing::joined_writes::EncodeBuffers;
use crate::event_loop::channel_layer::{ChannelLayer, ChannelLayerMarker, HostedChannels};
use crate::event_loop::local_loop::LocalLoop;
use crate::pipeline::Completion;
use crate::pipeline::offload::OffloadLink;

/// How deep channels may call each other before the next call is deferred (rule 7). Each level costs a few
/// stack frames of user code; sixteen levels fit the smallest stacks in use.
const MAX_DEPTH: u32 = 16;

/// Rounds of deferred work before events and tasks run again: two channels that answer each other could continue
/// forever.
const MAX_ROUNDS: usize = 16;

/// Rounds of deferred work when the loop ends. Work that is left afterwards is dropped.
const FINAL_ROUNDS: usize = 64;

/// The channels of a loop. Used on the loop only.
pub(crate) struct LoopChannels {
    pub(super) table: RefCell<Slab<Rc<ChannelCore>>>,
    /// Channels with deferred work.
    with_work: RefCell<VecDeque<Rc<ChannelCore>>>,
    /// Channels whose transport has more to read in the next turn.
    poll_next_turn: RefCell<Vec<Rc<ChannelCore>>>,
    /// Entries in both lists, plus one for `outermost_has_work`. Read several times a turn, and usually zero.
    pending_count: Cell<usize>,
    depth: Cell<u32>,
    /// The channel that was entered last and has not returned; null if none. Only compared, never dereferenced.
    innermost: Cell<*const ChannelCore>,
    /// The channel that the outermost call entered, if deferred work runs when that call returns.
    outermost: Cell<*const ChannelCore>,
    /// True if the outermost channel has deferred work, which runs before the work of listed channels. Usually no
    /// other channel has work, and the list is not touched.
    outermost_has_work: Cell<bool>,
    is_running_deferred: Cell<bool>,
    pub(super) encode_buffers: EncodeBuffers,
}

impl Default for LoopChannels {
    fn default() -> Self {
        Self {
            table: RefCell::default(),
            with_work: RefCell::default(),
            poll_next_turn: RefCell::default(),
            pending_count: Cell::new(0),
            depth: Cell::new(0),
            innermost: Cell::new(std::ptr::null()),
            outermost: Cell::new(std::ptr::null()),
            outermost_has_work: Cell::new(false),
            is_running_deferred: Cell::new(false),
            encode_buffers: EncodeBuffers::default(),
        }
    }
}

impl LoopChannels {
    pub(crate) fn insert(&self, core: Rc<ChannelCore>) -> Token {
        self.table.borrow_mut().insert(core)
    }

    pub(crate) fn find(&self, token: Token) -> Option<Rc<ChannelCore>> {
        self.table.borrow().get(token).cloned()
    }

    /// Calls `f` with the channel, if it still exists, then runs deferred work.
    pub(crate) fn with(&self, token: Token, f: impl FnOnce(&Rc<ChannelCore>)) {
        if let Some(core) = self.find(token) {
            f(&core);
            self.run_deferred_if_outermost();
        }
    }

    /// Performs a request of another thread, or refuses it if the channel is gone.
    pub(crate) fn perform(&self, shared: &ChannelShared, request: ChannelRequest) {
        match self.find(shared.token()) {
            Some(core) => request.perform(&core),
            None => request.refuse(&Error::from(shared.closed_error())),
        }
    }

    /// Processes the emissions of an offloaded handler.
    pub(crate) fn on_emissions(&self, link: &Arc<OffloadLink>) {
        match self.find(link.channel()) {
            Some(core) => {
                let link = link.clone();
                core.enter_or_defer(move |core| core.process_emissions(&link));
            }
            None => link.close_emissions(),
        }
    }

    pub(crate) fn remove(&self, token: Token) {
        let forgotten = self.table.borrow_mut().remove(token);
        drop(forgotten);
    }

    pub(crate) fn len(&self) -> usize {
        self.table.borrow().len()
    }

    pub(super) fn all(&self) -> Vec<Rc<ChannelCore>> {
        let table = self.table.borrow();
        table.tokens().filter_map(|token| table.get(token).cloned()).collect()
    }

    /// Returns handles of the registered channels.
    pub(crate) fn registered(&self) -> Vec<Channel> {
        let all = self.all();
        all.iter().map(|core| core.channel()).filter(Channel::is_registered).collect()
    }

    // Calls into channels.

    pub(crate) fn is_too_deep(&self) -> bool {
        self.depth.get() >= MAX_DEPTH
    }

    /// True if `core` was entered last and has not returned: a call into it now is part of that call.
    #[inline]
    pub(crate) fn is_innermost(&self, core: &Rc<ChannelCore>) -> bool {
        self.innermost.get() == Rc::as_ptr(core)
    }

    /// Begins a call into a channel. Returns the channel that the caller is in.
    #[inline]
    pub(crate) fn begin_call(&self, core: &Rc<ChannelCore>) -> *const ChannelCore {
        let depth = self.depth.get();
        self.depth.set(depth + 1);
        if depth == 0 && !self.is_running_deferred.get() {
            self.outermost.set(Rc::as_ptr(core));
        }
        self.innermost.replace(Rc::as_ptr(core))
    }

    /// Ends a call into a channel. After the outermost call, runs deferred work.
    #[inline]
    pub(crate) fn end_call(&self, core: &Rc<ChannelCore>, outer: *const ChannelCore) {
        self.innermost.set(outer);
        let depth = self.depth.get() - 1;
        self.depth.set(depth);
        if depth == 0 && !self.is_running_deferred.get() {
            self.outermost.set(std::ptr::null());
            if self.outermost_has_work.take() {
                self.run_first_deferred(core);
            } else if self.has_work() {
                self.run_all_deferred();
            }
        }
    }

    /// Begins a call into a channel while no other call is on the stack and no deferred work is running.
    #[inline]
    pub(super) fn begin_single_call(&self, core: &Rc<ChannelCore>) {
        debug_assert!(
            self.depth.get() == 0 && !self.is_running_deferred.get(),
            "entered from the loop while another call or deferred work is running"
        );
        self.depth.set(1);
        self.outermost.set(Rc::as_ptr(core));
        self.innermost.set(Rc::as_ptr(core));
    }

    /// Ends the only call into a channel. Returns true if the channel has deferred work: the caller runs it,
    /// then calls [`end_running_deferred`](Self::end_running_deferred).
    #[inline]
    pub(super) fn end_single_call(&self) -> bool {
        self.depth.set(0);
        self.outermost.set(std::ptr::null());
        self.innermost.set(std::ptr::null());
        let has_work = self.outermost_has_work.take();
        if has_work {
            self.is_running_deferred.set(true);
            self.pending_count.set(self.pending_count.get() - 1);
        }
        has_work
    }

    #[inline]
    pub(super) fn end_running_deferred(&self) {
        self.is_running_deferred.set(false);
    }

    /// Ends a call into a channel that panicked. Deferred work runs later.
    #[cold]
    pub(crate) fn end_panicked_call(&self, core: &Rc<ChannelCore>, outer: *const ChannelCore) {
        self.innermost.set(outer);
        self.depth.set(self.depth.get() - 1);
        if self.depth.get() == 0 {
            self.outermost.set(std::ptr::null());
            if self.outermost_has_work.take() {
                self.with_work.borrow_mut().push_front(core.clone());
            }
        }
    }

    /// Postpones deferred work until the returned guard is dropped.
    pub(crate) fn postpone_deferred(&self) -> DeferralGuard<'_> {
        self.depth.set(self.depth.get() + 1);
        DeferralGuard(self)
    }

    /// Records that a channel has deferred work.
    #[inline]
    pub(crate) fn add_with_work(&self, core: &Rc<ChannelCore>) {
        let before = self.pending_count.get();
        self.pending_count.set(before + 1);
        if before == 0 && self.outermost.get() == Rc::as_ptr(core) {
            self.outermost_has_work.set(true);
        } else {
            self.push_listed(core.clone());
        }
    }

    fn push_listed(&self, core: Rc<ChannelCore>) {
        self.with_work.borrow_mut().push_back(core);
    }

    /// Polls the transport of a channel again in the next turn, after other channels have run.
    pub(crate) fn poll_transport_next_turn(&self, core: Rc<ChannelCore>) {
        self.pending_count.set(self.pending_count.get() + 1);
        self.poll_next_turn.borrow_mut().push(core);
    }

    fn poll_transports_with_more(&self) {
        let mut waiting = self.poll_next_turn.borrow_mut();
        for core in waiting.drain(..) {
            self.pending_count.set(self.pending_count.get() - 1);
            core.poll_transport_later();
        }
    }

    /// True if deferred work is left, for this turn or for the next.
    #[inline]
    pub(crate) fn has_work(&self) -> bool {
        self.pending_count.get() > 0
    }

    /// Runs deferred work, unless a call into a channel is on the stack.
    #[inline]
    pub(crate) fn run_deferred_if_outermost(&self) {
        if self.has_work() && self.depth.get() == 0 && !self.is_running_deferred.get() {
            self.run_all_deferred();
        }
    }

    /// Runs the work of `core`, which is not in the list, then that of the listed channels.
    #[inline]
    fn run_first_deferred(&self, core: &Rc<ChannelCore>) {
        {
            let _running = self.begin_running_deferred();
            self.pending_count.set(self.pending_count.get() - 1);
            core.run_deferred_work();
        }
        if self.has_work() {
            self.run_all_deferred();
        }
    }

    fn run_all_deferred(&self) {
        let _running = self.begin_running_deferred();
        for _ in 0..MAX_ROUNDS {
            let with_work = self.with_work.borrow().len();
            if with_work == 0 {
                return shrink_if_empty(&mut self.with_work.borrow_mut());
            }
            self.run_listed(with_work);
        }
    }

    /// Runs the work of the next `count` listed channels. One panic guard covers all of them; after a panic, a new guard
    /// covers the rest.
    fn run_listed(&self, mut count: usize) {
        let mut current = None;
        while count > 0 {
            let outcome = catch_unwind(AssertUnwindSafe(|| {
                while count > 0 {
                    count -= 1;
                    let Some(core) = self.with_work.borrow_mut().pop_front() else { return };
                    self.pending_count.set(self.pending_count.get() - 1);
                    current.insert(core).run_work();
                }
            }));
            if let (Err(payload), Some(core)) = (outcome, &current) {
                core.handle_work_panic(payload);
            }
        }
    }

    #[inline]
    fn begin_running_deferred(&self) -> RunningGuard<'_> {
        self.is_running_deferred.set(true);
        RunningGuard(&self.is_running_deferred)
    }

    /// Runs deferred work for a limited number of rounds: a completion that retries whenever it fails would
    /// never end.
    fn run_final_rounds(&self) {
        for _ in 0..FINAL_ROUNDS {
            self.run_deferred_if_outermost();
        }
    }
}

impl ChannelLayer for ChannelLayerMarker {
    type Channels = LoopChannels;
}

impl LocalLoop {
    /// Returns the channels of this loop.
    #[inline]
    pub(crate) fn channels(&self) -> &LoopChannels {
        self.channel_set()
    }
}

impl HostedChannels for LoopChannels {
    fn count(&self) -> usize {
        self.len()
    }

    #[inline]
    fn pending_count(&self) -> usize {
        self.pending_count.get()
    }

    #[inline]
    fn begin_task_phase(&self) {
        if self.has_work() {
            self.poll_transports_with_more();
        }
    }

    #[inline]
    fn run_deferred(&self) {
        self.run_deferred_if_outermost();
    }

    /// Closes all channels because the loop ends: after their flushed writes, or at once if the loop has died,
    /// because its driver may no longer be able to write.
    fn close_all(&self, cause: &Error) {
        // All channels are closed before any of their handlers is called. A transport that panics does not keep
        // the others open.
        let held = self.postpone_deferred();
        for core in self.all() {
            core.enter(|core| match is_loop_death(cause) {
                true => core.close(Some(cause.clone()), Completion::none()),
                false => core.close_after_writes(Some(cause.clone()), Completion::none()),
            });
        }
        drop(held);
        self.run_deferred_if_outermost();
    }

    /// Finishes all channels when the loop is over, including those with I/O in flight.
    fn finish_all(&self, cause: &Error) {
        self.close_all(cause);
        for core in self.all() {
            core.on_transport_closed();
        }
        self.run_final_rounds();
        // Channels whose offloaded handlers have not finished.
        for core in self.all() {
            core.remove_handlers_without_waiting();
        }
        self.run_final_rounds();
        self.pending_count.set(0);
        let left = (self.table.take(), self.with_work.take(), self.poll_next_turn.take());
        drop(left);
    }
}

/// True if the cause is the death of the loop. The close future fails with it.
pub(super) fn is_loop_death(cause: &Error) -> bool {
    matches!(cause.kind(), ErrorKind::LoopDied { .. })
}

/// Resets the flag for running deferred work when the guard is dropped.
struct RunningGuard<'a>(&'a Cell<bool>);

impl Drop for RunningGuard<'_> {
    #[inline]
    fn drop(&mut self) {
        self.0.set(false);
    }
}

/// A guard that keeps deferred work from running until the guard is dropped.
#[must_use = "deferred work is postponed until the guard is dropped"]
pub(crate) struct DeferralGuard<'a>(&'a LoopChannels);

impl Drop for DeferralGuard<'_> {
    fn drop(&mut self) {
        self.0.depth.set(self.0.depth.get() - 1);
    }
}

#[cfg(test)]
mod tests {
    use crate::driver::TaskOnly;
    use crate::{EventLoopGroup, LocalLoop, local};

    #[test]
    fn l07_a_stale_handle_reaches_no_other_channel_when_generations_wrap() {
        let group = EventLoopGroup::builder(TaskOnly).threads(1).build().unwrap();
        // Uses up all generations, as if each token of the loop's channels had been used 2³² times.
        let exhaust = || {
            LocalLoop::current().unwrap().channels().table.borrow_mut().exhaust();
        };
        let register = || {
            // A channel whose peer is dropped would be closed too early.
            let (channel, peer) = local::pair();
            (group.register(channel).join().unwrap(), peer)
        };
        let (stale, _peer) = register();
        stale.close().join().unwrap();
        // The loop has removed the channel by the time the task runs.
        group.next().submit(exhaust).unwrap().join().unwrap();
        let (last, _peer) = register();
        last.close().join().unwrap();
        group.next().submit(|| ()).unwrap().join().unwrap();
        let (stranger, _peer) = register();
        assert_ne!(stale.shared().token(), stranger.shared().token());
        stale.close().join().unwrap();
        stale.write_and_flush(bytes::Bytes::from("lost")).join().unwrap_err();
        group.next().submit(|| ()).unwrap().join().unwrap();
        assert!(stranger.is_open() && stranger.pending_bytes() == 0);
    }
}
