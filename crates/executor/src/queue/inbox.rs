//! The inbox: everything another thread can do to a loop.
//!
//! Joins the admission word, the queue and the wake word, in the order in which a submission meets them:
//!
//! ```text
//!   admit  ──►  push  ──►  claim the wake  ──►  unpark (only the winner)
//! ```
//!
//! Producers share the inbox through an `Arc`. The owner of its [`QueueConsumer`], which is the loop, is the
//! only one that pops and the only one that returns the admissions of queued commands. A permit whose command
//! is never queued, because making the command panicked, returns its own admission.

use std::fmt;
use std::sync::Arc;

use crossbeam_utils::CachePadded;

use crate::clock::Nanos;
use crate::queue::admission::{Admission, AdmissionPermit, AdmissionRefusal, QueueDepth};
use crate::raw::queue::{MpscQueue, QueueConsumer};
use crate::sync::{AtomicU64, Ordering, fence, yield_now};
use crate::wake::park::Unpark;
use crate::wake::wake_word::{SleepOutcome, Urgency, WakeWord};

/// How many commands may be queued without a wake-up: for example thousands of far timers, set and cancelled
/// while the loop sleeps until another timer. Then the loop is woken, once per this many commands.
const MAX_UNSEEN: usize = 1024;

/// The queue of a loop, with its admission word and its wake word. See the module's documentation.
pub(crate) struct Inbox<C> {
    queue: Arc<MpscQueue<C>>,
    // Each word has a cache line of its own: producers write the first with every submission and only read the
    // second.
    admission: CachePadded<Admission>,
    wake: CachePadded<WakeWord>,
    unpark: Arc<dyn Unpark>,
    wake_ups: AtomicU64,
}

impl<C> Inbox<C> {
    pub(crate) fn new(bound: Option<u32>, unpark: Arc<dyn Unpark>) -> Self {
        Self {
            queue: Arc::new(MpscQueue::new()),
            admission: CachePadded::new(Admission::new(bound)),
            wake: CachePadded::new(WakeWord::new()),
            unpark,
            wake_ups: AtomicU64::new(0),
        }
    }

    /// Admits one user task.
    pub(crate) fn admit_user(&self) -> Result<AdmissionPermit<'_>, AdmissionRefusal> {
        self.admission.admit_user()
    }

    /// Admits one system command. The queue bound does not apply.
    pub(crate) fn admit_system(&self) -> Result<AdmissionPermit<'_>, AdmissionRefusal> {
        self.admission.admit_system()
    }

    /// Queues an admitted command, and wakes the loop if it sleeps longer than the urgency allows.
    #[inline(always)]
    pub(crate) fn push(&self, permit: AdmissionPermit<'_>, command: C, urgency: Urgency) {
        self.queue.push(command);
        permit.spend();
        if urgency != Urgency::Now && self.queue.len() >= MAX_UNSEEN {
            return self.wake_after_push(Urgency::Now);
        }
        self.wake_after_push(urgency);
    }

    /// Makes the loop look at its queue, and at everything the caller wrote before this call.
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

    /// Refuses all admissions from here on.
    pub(crate) fn close(&self) {
        self.admission.close();
    }

    /// Refuses all admissions from here on, unless a command is admitted. Returns whether it closed the inbox.
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

    /// Returns how many commands are admitted and not yet taken.
    pub(crate) fn depth(&self) -> QueueDepth {
        self.admission.depth()
    }

    pub(crate) fn wake_ups(&self) -> u64 {
        self.wake_ups.load(Ordering::Relaxed)
    }

    // Used by the loop only:

    /// Returns the consuming end: for the loop, or for the teardown of a loop that never ran.
    pub(crate) fn consumer(&self) -> QueueConsumer<C> {
        self.queue.consumer().unwrap_or_else(|| {
            unreachable!(
                "the inbox is consumed by one loop, or by the teardown of a loop that never ran"
            )
        })
    }

    /// Returns how many commands are in the queue. Unlike the depth, this does not read the word that producers
    /// write with every submission.
    pub(crate) fn len(&self) -> usize {
        self.queue.len()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.queue.is_empty()
    }

    /// Returns the next accepted command of a closed inbox; `None` when none is left. `pop` takes a queued
    /// command. Waits for each producer that was admitted and has not pushed yet: the producer pushes its command,
    /// or returns its admission.
    pub(crate) fn next_accepted(&self, mut pop: impl FnMut() -> Option<C>) -> Option<C> {
        loop {
            if let Some(command) = pop() {
                return Some(command);
            }
            if self.depth() == QueueDepth::NONE {
                return None;
            }
            yield_now();
        }
    }

    /// Returns the admissions of commands that the loop has taken.
    pub(crate) fn release(&self, taken: QueueDepth) {
        self.admission.release(taken);
    }

    /// Announces a sleep, then looks for work once more: see [`WakeWord::announce_sleep`].
    #[must_use = "a loop that is asleep must be set awake"]
    pub(crate) fn announce_sleep(
        &self,
        until: Option<Nanos>,
        has_more_work: impl FnOnce() -> bool,
    ) -> SleepOutcome {
        self.wake.announce_sleep(until, || !self.is_empty() || has_more_work())
    }

    /// Ends an announced sleep.
    pub(crate) fn set_awake(&self) {
        self.wake.set_awake();
    }

    /// Sleeps by the wake word's protocol; the re-check asks the queue, then `has_more_work`.
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
