//! The loop's local half: what only its own thread touches.
//!
//! Calls made on the loop find it through the thread (`current`), so they need no lock; calls made
//! elsewhere go through the inbox. Nothing in here is borrowed while user code runs.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::fmt;
use std::sync::Arc;

use crate::command::Command;
use crate::current::LocalHalf;
use crate::hooks::Hooks;
use crate::registry::Notify;
use crate::shared::Shared;

/// How many commands are moved from the inbox at a time: enough to pay for the move, few enough
/// that a flood does not grow the deque (64 × 48 bytes = 3 KiB).
const REFILL: usize = 64;

pub(crate) struct Local<X: Send + 'static> {
    shared: Arc<Shared<X>>,
    /// Taken over from the inbox, in order. Still counted as admitted.
    ready: RefCell<VecDeque<Command<X>>>,
    /// How many of them were never admitted: listeners nested too deep.
    nested: Cell<usize>,
    pub(crate) hooks: RefCell<Hooks>,
    /// The last pass is over: nothing that is queued here would ever run.
    finished: Cell<bool>,
}

impl<X: Send + 'static> Local<X> {
    pub(crate) fn new(shared: Arc<Shared<X>>) -> Self {
        Self {
            shared,
            ready: RefCell::new(VecDeque::with_capacity(REFILL)),
            nested: Cell::new(0),
            hooks: RefCell::default(),
            finished: Cell::new(false),
        }
    }

    pub(crate) fn shared(&self) -> &Arc<Shared<X>> {
        &self.shared
    }

    /// Queues an admitted command from the loop itself. What other threads were told is accepted
    /// stands before it, so it is moved over first.
    pub(crate) fn push(&self, command: Command<X>) {
        self.refill(self.shared.inbox.depth().total());
        self.ready.borrow_mut().push_back(command);
    }

    /// The next command, in the order of acceptance.
    pub(crate) fn pop(&self) -> Option<Command<X>> {
        if !self.has_ready() {
            self.refill(REFILL);
        }
        let next = self.ready.borrow_mut().pop_front();
        if matches!(next, Some(Command::NotifyNested(_))) {
            self.nested.set(self.nested.get() - 1);
        }
        next
    }

    /// How many commands wait, here and in the inbox.
    pub(crate) fn queued(&self) -> usize {
        self.shared.inbox.depth().total() + self.nested.get()
    }

    pub(crate) fn has_work(&self) -> bool {
        !self.ready.borrow().is_empty() || !self.shared.inbox.is_empty()
    }

    /// Whether the local deque alone has work: the wake word's re-check asks the inbox itself.
    pub(crate) fn has_ready(&self) -> bool {
        !self.ready.borrow().is_empty()
    }

    pub(crate) fn finish(&self) {
        self.finished.set(true);
    }

    /// Moves at most `limit` commands over. The limit is what was accepted when the caller came:
    /// producers that keep pushing cannot hold the loop here.
    fn refill(&self, limit: usize) {
        let mut ready = self.ready.borrow_mut();
        for _ in 0..limit {
            match self.shared.inbox.pop() {
                Some(command) => ready.push_back(command),
                None => break,
            }
        }
    }
}

impl<X: Send + 'static> LocalHalf for Local<X> {
    fn notify_later(&self, notify: Arc<dyn Notify>) -> Result<(), Arc<dyn Notify>> {
        if self.finished.get() {
            return Err(notify);
        }
        self.nested.set(self.nested.get() + 1);
        self.push(Command::NotifyNested(notify));
        Ok(())
    }
}

impl<X: Send + 'static> fmt::Debug for Local<X> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Local")
            .field("hooks", &self.hooks)
            .finish_non_exhaustive()
    }
}
