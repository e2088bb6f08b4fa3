//! Counts of the bytes that clients and servers have sent and received.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

/// Byte counts of the connections whose clients receive until the end. Clients and servers count independently; after
/// a round the counts must agree.
///
/// Any thread adds, with Relaxed ordering; the counts are compared when no scenario runs.
#[derive(Default)]
pub(crate) struct ByteCounts {
    sent: AtomicU64,
    received: AtomicU64,
    reported_lost: AtomicU64,
    accepted: AtomicU64,
    answered: AtomicU64,
    max_pending: AtomicUsize,
}

impl ByteCounts {
    /// Adds the bytes that a client sent and those it received back. The rest was reported to the client as lost.
    pub(crate) fn add_client(&self, sent: usize, received: usize) {
        add(&self.sent, sent);
        add(&self.received, received);
        add(&self.reported_lost, sent - received);
    }

    /// Adds bytes that a server has read and will answer.
    pub(crate) fn add_accepted(&self, len: usize) {
        add(&self.accepted, len);
    }

    /// Adds bytes that a server has written as an answer.
    pub(crate) fn add_answered(&self, len: usize) {
        add(&self.answered, len);
    }

    /// Records the pending bytes of a server's channel, for the maximum.
    pub(crate) fn record_pending(&self, len: usize) {
        self.max_pending.fetch_max(len, Ordering::Relaxed);
    }

    pub(crate) fn max_pending(&self) -> usize {
        self.max_pending.load(Ordering::Relaxed)
    }

    #[track_caller]
    pub(crate) fn check(&self) {
        let get = |count: &AtomicU64| count.load(Ordering::Relaxed);
        let (accepted, answered, received) =
            (get(&self.accepted), get(&self.answered), get(&self.received));
        assert_eq!(
            accepted, answered,
            "left: bytes that servers accepted, right: bytes that servers answered"
        );
        assert_eq!(
            answered, received,
            "left: bytes that servers answered, right: bytes that clients received"
        );
        assert_eq!(
            get(&self.sent),
            received + get(&self.reported_lost),
            "left: bytes that clients sent, right: bytes received or reported as lost"
        );
    }

    pub(crate) fn summary(&self) -> String {
        let get = |count: &AtomicU64| count.load(Ordering::Relaxed) >> 10;
        let (received, lost) = (get(&self.received), get(&self.reported_lost));
        format!("{received} KiB answered, {lost} KiB reported as lost")
    }
}

fn add(count: &AtomicU64, len: usize) {
    count.fetch_add(len as u64, Ordering::Relaxed);
}
