//! The inbox: everything another thread can do to a loop.
//!
//! Admission word, queue and wake word in the order in which a submission meets them:
//!
//! ```text
//!   admit  ──►  push  ──►  claim the wake  ──►  unpark (only the winner)
//! ```
//!
//! Producers hold it behind an `Arc`; whoever has its [`Consumer`], the loop, is the only one that
//! pops, and the only one that gives the admissions of queued commands back. One that is never queued,
//! because making its command panicked, gives itself back.

use std::fmt;
use std::sync::Arc;

use crossbeam_utils::CachePadded;

use crate::clock::Nanos;
use crate::queue::admission::{Admission, Depth, Permit, Refusal};
use crate::raw::queue::{Consumer, Queue};
use crate::sync::{AtomicU64, Ordering, fence, yield_now};
use crate::wake::park::Unpark;
use crate::wake::wake_word::{Slept, Urgency, WakeWord};

/// How much may pile up that was not to wake the loop: far timers set and cancelled by the thousand,
/// while it sleeps towards another one. Then it is woken after all, once for this many.
const MAX_UNSEEN: usize = 1024;

/// See the module's documentation.
pub(crate) struct Inbox<C> {
    queue: Arc<Queue<C>>,
    // Each word on its own cache line: producers hammer the first and only read the second.
    admission: CachePadded<Admission>,
    wake: CachePadded<WakeWord>,
    unpark: Arc<dyn Unpark>,
    wake_ups: AtomicU64,
}

impl<C> Inbox<C> {
    pub(crate) fn new(bound: Option<u32>, unpark: Arc<dyn Unpark>) -> Self {
        Self {
            queue: Arc::new(Queue::new()),
            admission: CachePadded::new(Admission::new(bound)),
            wake: CachePadded::new(WakeWord::new()),
            unpark,
            wake_ups: AtomicU64::new(0),
        }
    }

    /// Asks for room for one user task.
    pub(crate) fn admit_user(&self) -> Result<Permit<'_>, Refusal> {
        self.admission.enter_user()
    }

    /// Asks to let one system command in: refused only when closed.
    pub(crate) fn admit_system(&self) -> Result<Permit<'_>, Refusal> {
        self.admission.enter_system()
    }

    /// Queues an admitted command and wakes the loop if it sleeps beyond the urgency.
    #[inline(always)]
    pub(crate) fn push(&self, permit: Permit<'_>, command: C, urgency: Urgency) {
        self.queue.push(command);
        permit.spend();
        if urgency != Urgency::Now && self.queue.len() >= MAX_UNSEEN {
            return self.wake_after_push(Urgency::Now);
        }
        self.wake_after_push(urgency);
    }

    /// Makes the loop look at its queue, and at whatever the caller has written before.
    pub(crate) fn wake(&self, urgency: Urgency) {
        fence(Ordering::SeqCst);
        self.wake_after_push(urgency);
    }

    #[inline]
    fn wake_after_push(&self, urgency: Urgency) {
        if self.wake.claim_wake(urgency) {
            self.unpark();
        }
    }

    #[cold]
    fn unpark(&self) {
        self.wake_ups.fetch_add(1, Ordering::Relaxed);
        self.unpark.unpark();
    }

    /// No more admissions from here on.
    pub(crate) fn close(&self) {
        self.admission.close();
    }

    /// No more admissions from here on, unless somebody was admitted: whether it did.
    pub(crate) fn close_if_empty(&self) -> bool {
        self.admission.close_if_empty()
    }

    pub(crate) fn is_closed(&self) -> bool {
        self.admission.is_closed()
    }

    pub(crate) fn bound(&self) -> u32 {
        self.admission.bound()
    }

    pub(crate) fn is_bounded(&self) -> bool {
        self.admission.is_bounded()
    }

    /// Admitted and not yet taken.
    pub(crate) fn depth(&self) -> Depth {
        self.admission.depth()
    }

    pub(crate) fn wake_ups(&self) -> u64 {
        self.wake_ups.load(Ordering::Relaxed)
    }

    // The loop's side.

    /// The end that pops: the loop's, or that of whoever ends a loop that never ran.
    pub(crate) fn consumer(&self) -> Consumer<C> {
        self.queue.consumer().unwrap_or_else(|| unreachable!("a loop runs once, or is ended unrun"))
    }

    /// How many commands are in the queue. Unlike the depth, this does not touch the word that
    /// producers write with every submission.
    pub(crate) fn len(&self) -> usize {
        self.queue.len()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.queue.is_empty()
    }

    /// After the door was shut: the next command, until there are none. `pop` takes what is there;
    /// whoever was admitted and has not pushed yet is waited for: it makes its command, and pushes it or
    /// gives its admission back.
    pub(crate) fn next_straggler(&self, mut pop: impl FnMut() -> Option<C>) -> Option<C> {
        loop {
            if let Some(command) = pop() {
                return Some(command);
            }
            if self.depth() == Depth::NONE {
                return None;
            }
            yield_now();
        }
    }

    /// Gives admissions back: these commands no longer count.
    pub(crate) fn leave(&self, taken: Depth) {
        self.admission.leave(taken);
    }

    /// Announces a sleep, and looks once more: see [`WakeWord::announce`].
    #[must_use = "if it sleeps, it has to wake up"]
    pub(crate) fn announce_sleep(
        &self,
        until: Option<Nanos>,
        has_more_work: impl FnOnce() -> bool,
    ) -> Slept {
        self.wake.announce(until, || !self.is_empty() || has_more_work())
    }

    /// The loop is awake again after an announced sleep.
    pub(crate) fn awake(&self) {
        self.wake.awake();
    }

    /// Sleeps as the wake word prescribes; `has_more_work` is asked after the queue.
    #[inline]
    pub(crate) fn sleep<R>(
        &self,
        until: Option<Nanos>,
        has_more_work: impl FnOnce() -> bool,
        park: impl FnOnce() -> R,
    ) -> Option<R> {
        self.wake.sleep(until, || !self.is_empty() || has_more_work(), park)
    }
}

impl<C> fmt::Debug for Inbox<C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Inbox")
            .field("admission", &self.admission)
            .field("wake", &self.wake)
            .finish_non_exhaustive()
    }
}
