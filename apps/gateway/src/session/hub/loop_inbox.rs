//! The publications and messages that wait for one loop.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use waterwheel::channel::EventLoop;

use super::loop_table::LoopTable;
use crate::engine::PresentClient;
use crate::error_code::GatewayError;
use crate::session::delivery::Delivery;
use crate::session::limits::GatewayLimits;
use crate::topic::name::Topic;

/// A queue into the table of a loop.
///
/// Any thread pushes, and only the loop takes, both under the lock, which is held to move items. A push that finds no
/// command on its way to the loop sends one; the loop takes everything that has come until then.
#[derive(Debug)]
pub(in crate::session) struct LoopInbox {
    event_loop: EventLoop,
    max_items: usize,
    max_bytes: usize,
    state: Mutex<InboxState>,
}

#[derive(Debug, Default)]
struct InboxState {
    items: VecDeque<InboxItem>,
    /// The number of items that came so far.
    pushed: u64,
    /// The number of items that are limited, and their bytes.
    limited: usize,
    bytes: usize,
    /// True while a command to the loop has not found the queue empty.
    has_command: bool,
    /// True if items were dropped since the loop was last told.
    has_dropped: bool,
}

/// A message to the clients of a loop.
#[derive(Debug)]
pub(in crate::session) enum InboxItem {
    Publication(Arc<Delivery>),
    Presence {
        topic: Topic,
        member: PresentClient,
        is_present: bool,
    },
    /// A text for one client, by its number.
    Direct {
        client: u64,
        from: Arc<str>,
        text: Arc<str>,
    },
    /// Publications may be missing, for all clients of the loop.
    Missed,
    /// All clients of the loop are to be closed.
    Close(GatewayError),
}

impl LoopInbox {
    pub(super) fn new(event_loop: EventLoop, limits: &GatewayLimits) -> Self {
        Self {
            event_loop,
            max_items: limits.loop_backlog,
            max_bytes: limits.loop_backlog_bytes,
            state: Mutex::default(),
        }
    }

    pub(super) fn event_loop(&self) -> &EventLoop {
        &self.event_loop
    }

    /// Adds an item. Returns true if [`wake`](Self::wake) must be called, without locks.
    ///
    /// Publications, texts and notes of presence beyond the limits are dropped; the first of them leaves a note in its place.
    #[must_use]
    pub(super) fn push(&self, item: InboxItem) -> bool {
        let mut state = self.lock();
        if let Some(bytes) = item.limited_bytes() {
            if state.limited >= self.max_items || state.bytes.saturating_add(bytes) > self.max_bytes
            {
                if !std::mem::replace(&mut state.has_dropped, true) {
                    state.append(InboxItem::Missed);
                }
                return !std::mem::replace(&mut state.has_command, true);
            }
            state.limited += 1;
            state.bytes += bytes;
        }
        state.append(item);
        !std::mem::replace(&mut state.has_command, true)
    }

    /// Returns the number of items that have come so far.
    pub(super) fn pushed(&self) -> u64 {
        self.lock().pushed
    }

    /// Sends the command that a push asked for.
    pub(super) fn wake(self: &Arc<Self>) {
        let inbox = self.clone();
        let Err(rejected) = self.event_loop.execute(move || LoopTable::run(&inbox)) else { return };
        // The queue of the loop is full, of which tail tasks are no part. If the loop has ended, so have its clients.
        drop(self.event_loop.execute_after_turn(rejected.into_task()));
    }

    /// Adds an item, and sends the command.
    pub(super) fn send(self: &Arc<Self>, item: InboxItem) {
        if self.push(item) {
            self.wake();
        }
    }

    /// Takes everything. If there is nothing, `ends_command` notes that the command to the loop has ended.
    pub(super) fn take(&self, ends_command: bool) -> VecDeque<InboxItem> {
        let mut state = self.lock();
        if state.items.is_empty() && ends_command {
            state.has_command = false;
        }
        state.limited = 0;
        state.bytes = 0;
        state.has_dropped = false;
        std::mem::take(&mut state.items)
    }

    /// Puts back items that were taken, before what has come since. The caller wakes the loop.
    pub(super) fn put_back(&self, mut taken: VecDeque<InboxItem>) {
        let sizes = taken.iter().filter_map(InboxItem::limited_bytes);
        let (count, bytes) = sizes.fold((0, 0), |(count, bytes), size| (count + 1, bytes + size));
        let mut state = self.lock();
        state.limited += count;
        state.bytes += bytes;
        state.has_command = true;
        taken.append(&mut state.items);
        state.items = taken;
    }

    fn lock(&self) -> MutexGuard<'_, InboxState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl InboxState {
    fn append(&mut self, item: InboxItem) {
        self.pushed += 1;
        self.items.push_back(item);
    }
}

impl InboxItem {
    /// Returns the bytes of what clients can send as fast as they like; `None` for notes of the gateway itself.
    fn limited_bytes(&self) -> Option<usize> {
        match self {
            Self::Publication(delivery) => Some(delivery.publication().payload.len()),
            Self::Direct { text, .. } => Some(text.len()),
            Self::Presence { .. } => Some(0),
            Self::Missed | Self::Close(_) => None,
        }
    }
}
