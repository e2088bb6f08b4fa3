//! The bounded queue of lines for one client, with a policy for overflow.

use std::collections::VecDeque;
use std::fmt;

use waterwheel::bytes::Bytes;

/// The policy for a line to a client whose outbox is full.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OverflowPolicy {
    /// The oldest line is dropped. The client is told how many lines it missed.
    #[default]
    DropOldest,
    /// The new line is dropped, and its sender gets an error. The client is told how many lines it missed.
    DropNewest,
    /// The client is disconnected, and the sender gets an error.
    Disconnect,
}

impl OverflowPolicy {
    /// All policies.
    pub const ALL: [Self; 3] = [Self::DropOldest, Self::DropNewest, Self::Disconnect];

    /// Returns the name used on the command line.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::DropOldest => "drop-oldest",
            Self::DropNewest => "drop-newest",
            Self::Disconnect => "disconnect",
        }
    }
}

impl fmt::Display for OverflowPolicy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// The outcome of [`Outbox::offer`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use = "the caller may have to wake the client's loop or disconnect the client"]
pub enum OfferOutcome {
    /// The line is queued, and the caller must wake the client's loop.
    Wake,
    /// The line is queued; the client's loop has been woken before.
    Queued,
    /// The line was dropped.
    Full,
    /// The line was dropped, and the caller must disconnect the client. Returned once per outbox.
    Disconnect,
    /// The outbox is closed: the client is disconnecting or has disconnected.
    Closed,
}

/// An entry of an outbox.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum OutboxEntry {
    /// A line.
    Line(Bytes),
    /// A gap: this many lines were dropped here.
    Missed(u64),
}

/// The queue. Business threads add lines, the client's loop removes them, each under the mutex around the outbox.
#[derive(Debug)]
pub struct Outbox {
    /// No two `Missed` entries are adjacent, so there are at most `2 * lines + 1` entries.
    entries: VecDeque<OutboxEntry>,
    lines: usize,
    limit: usize,
    overflow: OverflowPolicy,
    /// True from the wake-up of the loop until the loop finds the outbox empty.
    is_wake_pending: bool,
    closed: bool,
    missed: u64,
}

impl Outbox {
    /// Creates an outbox for at most `limit` lines; a limit of 0 counts as 1.
    #[must_use]
    pub fn new(limit: usize, overflow: OverflowPolicy) -> Self {
        Self {
            entries: VecDeque::new(),
            lines: 0,
            limit: limit.max(1),
            overflow,
            is_wake_pending: false,
            closed: false,
            missed: 0,
        }
    }

    /// Adds a line.
    pub fn offer(&mut self, line: Bytes) -> OfferOutcome {
        if self.closed {
            return OfferOutcome::Closed;
        }
        if self.lines == self.limit {
            match self.overflow {
                OverflowPolicy::DropOldest => self.drop_oldest(),
                OverflowPolicy::DropNewest => {
                    self.drop_newest();
                    return OfferOutcome::Full;
                }
                OverflowPolicy::Disconnect => {
                    self.missed += 1;
                    self.close();
                    return OfferOutcome::Disconnect;
                }
            }
        }
        self.entries.push_back(OutboxEntry::Line(line));
        self.lines += 1;
        if std::mem::replace(&mut self.is_wake_pending, true) {
            OfferOutcome::Queued
        } else {
            OfferOutcome::Wake
        }
    }

    /// Removes the oldest entry. If there is none, the next [`offer`](Self::offer) returns [`OfferOutcome::Wake`].
    pub fn take(&mut self) -> Option<OutboxEntry> {
        let entry = self.entries.pop_front();
        match entry {
            Some(OutboxEntry::Line(_)) => self.lines -= 1,
            Some(OutboxEntry::Missed(_)) => {}
            None => self.is_wake_pending = false,
        }
        entry
    }

    /// Removes the oldest entry; if there is none, closes the outbox in the same critical section, so that no line is
    /// added in between.
    pub fn take_or_close(&mut self) -> Option<OutboxEntry> {
        let entry = self.take();
        if entry.is_none() {
            self.close();
        }
        entry
    }

    /// Refuses further lines and drops the queued ones.
    pub fn close(&mut self) {
        self.closed = true;
        self.entries = VecDeque::new();
        self.lines = 0;
    }

    /// Returns how many lines were dropped so far.
    #[must_use]
    pub fn missed(&self) -> u64 {
        self.missed
    }

    fn drop_oldest(&mut self) {
        self.missed += 1;
        self.lines -= 1;
        let before = match self.entries.pop_front() {
            Some(OutboxEntry::Missed(before)) => {
                self.entries.pop_front(); // A line: no two gaps are adjacent.
                before
            }
            _ => 0,
        };
        let more = match self.entries.front() {
            Some(OutboxEntry::Missed(more)) => *more,
            _ => 0,
        };
        if more > 0 {
            self.entries.pop_front();
        }
        self.entries.push_front(OutboxEntry::Missed(before + 1 + more));
    }

    fn drop_newest(&mut self) {
        self.missed += 1;
        match self.entries.back_mut() {
            Some(OutboxEntry::Missed(before)) => *before += 1,
            _ => self.entries.push_back(OutboxEntry::Missed(1)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(n: u32) -> Bytes {
        Bytes::from(n.to_string())
    }

    fn full(overflow: OverflowPolicy) -> Outbox {
        let mut outbox = Outbox::new(3, overflow);
        assert_eq!(outbox.offer(line(1)), OfferOutcome::Wake);
        assert_eq!(outbox.offer(line(2)), OfferOutcome::Queued);
        assert_eq!(outbox.offer(line(3)), OfferOutcome::Queued);
        outbox
    }

    /// Removes all entries and returns them as the client reads them.
    fn drain(outbox: &mut Outbox) -> Vec<String> {
        let shown = |entry| match entry {
            OutboxEntry::Line(line) => String::from_utf8_lossy(&line).into_owned(),
            OutboxEntry::Missed(n) => format!("missed {n}"),
        };
        std::iter::from_fn(|| outbox.take()).map(shown).collect()
    }

    #[test]
    fn lines_come_out_in_order_and_the_loop_is_woken_once() {
        let mut outbox = full(OverflowPolicy::DropOldest);
        assert_eq!(drain(&mut outbox), ["1", "2", "3"]);
        assert_eq!(outbox.offer(line(4)), OfferOutcome::Wake, "the loop has found it empty");
        assert_eq!(outbox.missed(), 0);
    }

    #[test]
    fn a_loop_that_left_entries_behind_is_not_woken_again() {
        let mut outbox = full(OverflowPolicy::DropOldest);
        outbox.take();
        assert_eq!(outbox.offer(line(4)), OfferOutcome::Queued);
    }

    #[test]
    fn drop_oldest_leaves_a_gap_at_the_front() {
        let mut outbox = full(OverflowPolicy::DropOldest);
        assert_eq!(outbox.offer(line(4)), OfferOutcome::Queued);
        assert_eq!(outbox.offer(line(5)), OfferOutcome::Queued);
        assert_eq!(outbox.missed(), 2);
        assert_eq!(drain(&mut outbox), ["missed 2", "3", "4", "5"]);
    }

    #[test]
    fn drop_newest_leaves_a_gap_at_the_back() {
        let mut outbox = full(OverflowPolicy::DropNewest);
        assert_eq!(outbox.offer(line(4)), OfferOutcome::Full);
        assert_eq!(outbox.offer(line(5)), OfferOutcome::Full);
        outbox.take();
        assert_eq!(outbox.offer(line(6)), OfferOutcome::Queued);
        assert_eq!(drain(&mut outbox), ["2", "3", "missed 2", "6"]);
    }

    #[test]
    fn a_slow_client_is_disconnected_once() {
        let mut outbox = full(OverflowPolicy::Disconnect);
        assert_eq!(outbox.offer(line(4)), OfferOutcome::Disconnect);
        assert_eq!(outbox.offer(line(5)), OfferOutcome::Closed);
        assert_eq!(outbox.take(), None);
    }

    #[test]
    fn a_disconnecting_client_receives_its_queued_lines_and_no_more() {
        let mut outbox = full(OverflowPolicy::DropOldest);
        for n in 1..=3 {
            assert_eq!(outbox.take_or_close(), Some(OutboxEntry::Line(line(n))));
        }
        assert_eq!(
            outbox.offer(line(4)),
            OfferOutcome::Queued,
            "the loop has not found it empty yet"
        );
        assert_eq!(outbox.take_or_close(), Some(OutboxEntry::Line(line(4))));
        assert_eq!(outbox.take_or_close(), None);
        assert_eq!(outbox.offer(line(5)), OfferOutcome::Closed);
    }

    #[test]
    fn memory_is_bounded_under_every_policy() {
        for overflow in [OverflowPolicy::DropOldest, OverflowPolicy::DropNewest] {
            let mut outbox = full(overflow);
            for n in 0..1000 {
                let _ = outbox.offer(line(n));
                if n % 3 == 0 {
                    outbox.take();
                }
                assert!(outbox.entries.len() <= 2 * 3 + 1, "{overflow}: {:?}", outbox.entries);
            }
        }
    }

    #[test]
    fn a_limit_of_zero_counts_as_one() {
        assert_eq!(Outbox::new(0, OverflowPolicy::DropNewest).offer(line(1)), OfferOutcome::Wake);
    }
}
