//! The link between two streams that are each other's peer.
//!
//! ```text
//!   driver A          stream A        link         stream B          driver B
//!   send ──► outbound ═════════════ transfer ═══════════► inbound ──► read
//!   read ◄── inbound  ◄═══════════ transfer ════════════ outbound ◄── send
//! ```
//!
//! Rules:
//!
//! 1. After each change that a driver makes to its stream, bytes are transferred in both directions as far as possible.
//! 2. One thread transfers at a time, under the link's lock; otherwise bytes taken by two threads could arrive in the
//!    wrong order. A transfer locks one stream at a time, and a thread that holds a stream's lock never transfers.
//! 3. Each stream keeps the other alive, so that bytes sent before a close are still read. When one stream is closed
//!    and none of its bytes are left, the two release each other.
//! 4. At most [`SEND_BUFFER`] bytes wait to be read; the rest stays in the writer's buffer and blocks the writer.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::stream::{ManualStream, SEND_BUFFER};

/// A stream's link to its peer stream.
pub(super) struct Link {
    other: Mutex<Option<Arc<ManualStream>>>,
    transferring: Arc<Mutex<()>>,
}

/// Makes two streams each other's peer.
pub(super) fn link(one: &Arc<ManualStream>, other: &Arc<ManualStream>) {
    let transferring = Arc::new(Mutex::new(()));
    for (from, to) in [(one, other), (other, one)] {
        let way = Link { other: Mutex::new(Some(to.clone())), transferring: transferring.clone() };
        assert!(from.link.set(way).is_ok(), "a stream is linked once");
    }
}

impl Link {
    /// Moves as many bytes as possible from this stream to the other one and back.
    pub(super) fn transfer(&self, stream: &ManualStream) {
        let Some(other) = self.other().clone() else { return };
        let _one_at_a_time = self.transferring.lock().unwrap_or_else(PoisonError::into_inner);
        transfer(stream, &other);
        transfer(&other, stream);
        if has_nothing_left(stream, &other) || has_nothing_left(&other, stream) {
            self.other().take();
            let back = other.link.get().and_then(|link| link.other().take());
            debug_assert!(back.is_none_or(|back| std::ptr::eq(&*back, stream)));
        }
    }

    fn other(&self) -> MutexGuard<'_, Option<Arc<ManualStream>>> {
        self.other.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// True if `closed` is closed and none of its bytes will be read any more.
fn has_nothing_left(closed: &ManualStream, other: &ManualStream) -> bool {
    let reads = !other.lock().closed;
    let closed = closed.lock();
    closed.closed && (closed.outbound.is_empty() || !reads)
}

fn transfer(from: &ManualStream, to: &ManualStream) {
    let (gone, over, room) = {
        let to = to.lock();
        (to.closed, to.inbound_finished, SEND_BUFFER.saturating_sub(to.inbound.len()))
    };
    if gone {
        let abandoned = from.lock().abandoned;
        if !abandoned {
            from.change_for_driver(|state| {
                state.abandoned = true;
                state.outbound.clear();
            });
        }
        return;
    }
    if over {
        return; // The reading direction was shut down, by its own driver or by the end of the stream.
    }
    let (waits, ends) = {
        let from = from.lock();
        (from.outbound.len(), from.outbound_finished)
    };
    let len = waits.min(room);
    let bytes = match len {
        0 => Default::default(),
        _ => from.change_for_driver(|state| state.outbound.split_to(len)),
    };
    let ends = ends && len == waits;
    if len > 0 || ends {
        to.change_for_driver(|state| {
            state.inbound.extend_from_slice(&bytes);
            state.inbound_finished = ends;
        });
    }
}
