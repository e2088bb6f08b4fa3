//! What was sent, and what became of it.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

/// Bytes of conversations whose clients listen until the end. Both sides write down what they know; when all
/// is quiet they agree.
///
/// Any thread adds; it is read when nobody does.
#[derive(Default)]
pub(crate) struct Ledger {
    sent: AtomicU64,
    received: AtomicU64,
    told_lost: AtomicU64,
    accepted: AtomicU64,
    answered: AtomicU64,
    most_pending: AtomicUsize,
}

impl Ledger {
    /// A client has sent so much and received so much of it, and was told that the rest is lost.
    pub(crate) fn client(&self, sent: usize, received: usize) {
        add(&self.sent, sent);
        add(&self.received, received);
        add(&self.told_lost, sent - received);
    }

    /// A server has read something that it answers.
    pub(crate) fn accepted(&self, len: usize) {
        add(&self.accepted, len);
    }

    /// An answer was written.
    pub(crate) fn answered(&self, len: usize) {
        add(&self.answered, len);
    }

    /// So much waited to be written to somebody.
    pub(crate) fn pending(&self, len: usize) {
        self.most_pending.fetch_max(len, Ordering::Relaxed);
    }

    pub(crate) fn most_pending(&self) -> usize {
        self.most_pending.load(Ordering::Relaxed)
    }

    #[track_caller]
    pub(crate) fn check(&self) {
        let get = |count: &AtomicU64| count.load(Ordering::Relaxed);
        let (accepted, answered, received) =
            (get(&self.accepted), get(&self.answered), get(&self.received));
        assert_eq!(accepted, answered, "bytes that servers have accepted, and answered");
        assert_eq!(answered, received, "bytes that servers have answered, and clients received");
        assert_eq!(
            get(&self.sent),
            received + get(&self.told_lost),
            "bytes that clients have sent"
        );
    }

    pub(crate) fn summary(&self) -> String {
        let get = |count: &AtomicU64| count.load(Ordering::Relaxed) >> 10;
        let (received, lost) = (get(&self.received), get(&self.told_lost));
        format!("{received} KiB answered, {lost} KiB told to be lost")
    }
}

fn add(count: &AtomicU64, len: usize) {
    count.fetch_add(len as u64, Ordering::Relaxed);
}
