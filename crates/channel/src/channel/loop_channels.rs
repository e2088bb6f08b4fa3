//! The channels of a loop, and the end of the outermost call into one of them.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::rc::Rc;
use std::sync::Arc;

use waterwheel_executor::{Error, ErrorKind};

use crate::channel::core::ChannelCore;
use crate::channel::handle::Channel;
use crate::channel::handle::request::ChannelRequest;
use crate::channel::handle::shared_state::ChannelShared;
use crate::event_loop::local_loop::LocalLoop;
use crate::event_loop::residents::{Above, LayerAbove, Residents};
use crate::pipeline::Completion;
use crate::pipeline::offload::Link;
use crate::room::release_room;
use crate::token::{Slab, Token};

/// How deep channels may call each other, one inside the other, before the next call has to wait
/// (rule 7). Each level costs a few frames of the user's own; sixteen fit the smallest stacks in use.
const MAX_DEPTH: u32 = 16;

/// How often the work that calls leave behind is looked at before events and tasks have their turn
/// again: it may go on for ever, between two channels that answer each other.
const ROUNDS: usize = 16;

/// How often it is looked at when the loop is over: what is left then is dropped.
const LAST_ROUNDS: usize = 64;

/// The channels of a loop. Touched on the loop only.
pub(crate) struct LoopChannels {
    pub(super) table: RefCell<Slab<Rc<ChannelCore>>>,
    /// Those with something left to do.
    with_work: RefCell<VecDeque<Rc<ChannelCore>>>,
    /// Those whose transport has more to read, in the next turn.
    poll_next_turn: RefCell<Vec<Rc<ChannelCore>>>,
    /// How many both lists have: asked several times a turn, mostly for nothing.
    pending_count: Cell<usize>,
    depth: Cell<u32>,
    /// The channel that was called last and has not returned, to be told from others; null if none.
    innermost: Cell<*const ChannelCore>,
    /// The channel whose call is the outermost one, if what that leaves behind is done when it returns.
    outermost: Cell<*const ChannelCore>,
    /// That channel has something left to do. It stands before those in the list: mostly it is the only
    /// one, and costs no list then.
    outermost_has_work: Cell<bool>,
    is_running_deferred: Cell<bool>,
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

    /// Calls `f` with the channel, if it is still there; then does what that has left behind.
    pub(crate) fn with(&self, token: Token, f: impl FnOnce(&Rc<ChannelCore>)) {
        if let Some(core) = self.find(token) {
            f(&core);
            self.run_deferred_if_outermost();
        }
    }

    /// Something is asked of a channel.
    pub(crate) fn perform(&self, shared: &ChannelShared, request: ChannelRequest) {
        match self.find(shared.token()) {
            Some(core) => request.perform(&core),
            None => request.refuse(&Error::from(shared.closed_error())),
        }
    }

    /// An offloaded handler has emitted something.
    pub(crate) fn on_mail(&self, link: &Arc<Link>) {
        match self.find(link.channel()) {
            Some(core) => {
                let link = link.clone();
                core.enter_or_defer(move |core| core.on_mail(&link));
            }
            None => link.abandon(),
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

    /// Those that are registered.
    pub(crate) fn registered(&self) -> Vec<Channel> {
        let all = self.all();
        all.iter().map(|core| core.channel()).filter(Channel::is_registered).collect()
    }

    // Calls into channels.

    pub(crate) fn is_too_deep(&self) -> bool {
        self.depth.get() >= MAX_DEPTH
    }

    /// Whether the channel was called last and has not returned: what calls it now is part of that call.
    #[inline]
    pub(crate) fn is_innermost(&self, core: &Rc<ChannelCore>) -> bool {
        self.innermost.get() == Rc::as_ptr(core)
    }

    /// A call into a channel begins. Returns the one whose call it is made from.
    #[inline]
    pub(crate) fn begin_call(&self, core: &Rc<ChannelCore>) -> *const ChannelCore {
        let depth = self.depth.get();
        self.depth.set(depth + 1);
        if depth == 0 && !self.is_running_deferred.get() {
            self.outermost.set(Rc::as_ptr(core));
        }
        self.innermost.replace(Rc::as_ptr(core))
    }

    /// A call into a channel has ended. After the outermost one, what is left to do is done.
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

    /// A call into a channel begins that is the only one: no other is under way, and nothing is being settled.
    #[inline]
    pub(super) fn begin_single_call(&self, core: &Rc<ChannelCore>) {
        debug_assert!(
            self.depth.get() == 0 && !self.is_running_deferred.get(),
            "the loop calls one at a time"
        );
        self.depth.set(1);
        self.outermost.set(Rc::as_ptr(core));
        self.innermost.set(Rc::as_ptr(core));
    }

    /// The only call into a channel has ended. True if its channel has something left to do: that is settled by the caller, who says when it
    /// [ends](Self::end_running_deferred).
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

    /// A call into a channel has ended in a panic: what is left to do is done later.
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

    /// Nothing is settled until the guard goes.
    pub(crate) fn postpone_deferred(&self) -> DeferralGuard<'_> {
        self.depth.set(self.depth.get() + 1);
        DeferralGuard(self)
    }

    /// A channel has something left to do.
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

    #[inline(never)]
    fn push_listed(&self, core: Rc<ChannelCore>) {
        self.with_work.borrow_mut().push_back(core);
    }

    /// A channel's transport has more to read. Others have their turn first.
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

    /// Whether something was left to do, in this turn or in the next.
    #[inline]
    pub(crate) fn has_work(&self) -> bool {
        self.pending_count.get() > 0
    }

    /// If no call into a channel is under way, does what calls have left behind.
    #[inline]
    pub(crate) fn run_deferred_if_outermost(&self) {
        if self.has_work() && self.depth.get() == 0 && !self.is_running_deferred.get() {
            self.run_all_deferred();
        }
    }

    /// Begins with this one, which is not in the list.
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
        for _ in 0..ROUNDS {
            let with_work = self.with_work.borrow().len();
            if with_work == 0 {
                return release_room(&mut self.with_work.borrow_mut());
            }
            for _ in 0..with_work {
                let Some(core) = self.with_work.borrow_mut().pop_front() else { return };
                self.pending_count.set(self.pending_count.get() - 1);
                core.run_deferred_work();
            }
        }
    }

    #[inline]
    fn begin_running_deferred(&self) -> RunningGuard<'_> {
        self.is_running_deferred.set(true);
        RunningGuard(&self.is_running_deferred)
    }

    /// Completions that ask for more, and are told that it failed, could go on for ever: not here.
    fn run_final_rounds(&self) {
        for _ in 0..LAST_ROUNDS {
            self.run_deferred_if_outermost();
        }
    }
}

impl LayerAbove for Above {
    type Residents = LoopChannels;
}

impl LocalLoop {
    /// The channels of this loop.
    #[inline]
    pub(crate) fn channels(&self) -> &LoopChannels {
        self.residents_above()
    }
}

impl Residents for LoopChannels {
    fn count(&self) -> usize {
        self.len()
    }

    #[inline]
    fn left(&self) -> usize {
        self.pending_count.get()
    }

    #[inline]
    fn begin_turn(&self) {
        if self.has_work() {
            self.poll_transports_with_more();
        }
    }

    #[inline]
    fn settle(&self) {
        self.run_deferred_if_outermost();
    }

    /// The loop ends, for this reason: all channels are closed, after what was flushed; at once if it has died,
    /// because its driver may not be fit to write any more.
    fn close_all(&self, cause: &Error) {
        // All of them, before any of their handlers learns of it; a transport that panics keeps none of
        // the others.
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

    /// The loop is over: whoever is left is told, whatever is still in flight.
    fn end_all(&self, cause: &Error) {
        self.close_all(cause);
        for core in self.all() {
            core.transport_closed();
        }
        self.run_final_rounds();
        // Those whose offloaded handlers have not come to the end.
        for core in self.all() {
            core.remove_handlers_without_waiting();
        }
        self.run_final_rounds();
        self.pending_count.set(0);
        let left = (self.table.take(), self.with_work.take(), self.poll_next_turn.take());
        drop(left);
    }
}

/// Whether a channel was closed because its loop has died: then its close future says so.
pub(super) fn is_loop_death(cause: &Error) -> bool {
    matches!(cause.kind(), ErrorKind::LoopDied { .. })
}

/// What calls have left behind is being done.
struct RunningGuard<'a>(&'a Cell<bool>);

impl Drop for RunningGuard<'_> {
    #[inline]
    fn drop(&mut self) {
        self.0.set(false);
    }
}

/// Keeps calls from being the outermost one.
#[must_use = "it ends when it is dropped"]
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
    fn l07_a_stale_handle_reaches_no_stranger_when_generations_wrap() {
        let group = EventLoopGroup::builder(TaskOnly).threads(1).build().unwrap();
        // As if the tokens of the loop's channels had been used 2³² times each.
        let exhaust = || {
            LocalLoop::current().unwrap().channels().table.borrow_mut().exhaust();
        };
        let register = || {
            // Without its peer it would be closed before its time.
            let (channel, peer) = local::pair();
            (group.register(channel).join().unwrap(), peer)
        };
        let (stale, _peer) = register();
        stale.close().join().unwrap();
        // The loop has forgotten it when the task runs.
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
