//! The lines that wait for one client: a queue with an end, and what happens there.

use std::collections::VecDeque;
use std::fmt;

use waterwheel::bytes::Bytes;

/// What becomes of a line for a client whose queue is full.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Overflow {
    /// The line that has waited longest makes room: the client gets the news. It is told how many lines it
    /// has missed.
    #[default]
    DropOldest,
    /// The new line is dropped, and its sender told; the client is told how many it has missed.
    DropNewest,
    /// The client is disconnected, and the sender told.
    Disconnect,
}

impl Overflow {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::DropOldest, Self::DropNewest, Self::Disconnect];

    /// As it is called on the command line.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::DropOldest => "drop-oldest",
            Self::DropNewest => "drop-newest",
            Self::Disconnect => "disconnect",
        }
    }
}

impl fmt::Display for Overflow {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// What became of a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use = "somebody may have to be woken, or disconnected"]
pub enum Offered {
    /// It waits, and nobody was looking: the client's loop is to be told.
    Wake,
    /// It waits, and the client's loop knows that something does.
    Queued,
    /// It was dropped.
    Full,
    /// It was dropped, and the client is to be disconnected. This is said once.
    Disconnect,
    /// The client is leaving, or has left.
    Closed,
}

/// Something for the client.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Entry {
    /// A line.
    Line(Bytes),
    /// Here so many lines are missing.
    Missed(u64),
}

/// Lines that wait. Business threads put them in, the client's loop takes them out, each under the lock
/// that is around it.
#[derive(Debug)]
pub struct Outbox {
    /// No two `Missed` are neighbours, so there are at most twice as many entries as lines, and one.
    entries: VecDeque<Entry>,
    lines: usize,
    limit: usize,
    overflow: Overflow,
    /// The loop knows that there is something, and will come for it.
    awaited: bool,
    closed: bool,
    missed: u64,
}

impl Outbox {
    /// For at most so many lines, one at least.
    #[must_use]
    pub fn new(limit: usize, overflow: Overflow) -> Self {
        Self {
            entries: VecDeque::new(),
            lines: 0,
            limit: limit.max(1),
            overflow,
            awaited: false,
            closed: false,
            missed: 0,
        }
    }

    /// Puts a line in.
    pub fn offer(&mut self, line: Bytes) -> Offered {
        if self.closed {
            return Offered::Closed;
        }
        if self.lines == self.limit {
            match self.overflow {
                Overflow::DropOldest => self.drop_oldest(),
                Overflow::DropNewest => {
                    self.drop_newest();
                    return Offered::Full;
                }
                Overflow::Disconnect => {
                    self.missed += 1;
                    self.close();
                    return Offered::Disconnect;
                }
            }
        }
        self.entries.push_back(Entry::Line(line));
        self.lines += 1;
        if std::mem::replace(&mut self.awaited, true) { Offered::Queued } else { Offered::Wake }
    }

    /// Takes what has waited longest. `None`: there is nothing, and whoever puts something in is told to
    /// wake the loop.
    pub fn take(&mut self) -> Option<Entry> {
        let entry = self.entries.pop_front();
        match entry {
            Some(Entry::Line(_)) => self.lines -= 1,
            Some(Entry::Missed(_)) => {}
            None => self.awaited = false,
        }
        entry
    }

    /// The same, but if there is nothing it takes no more lines: none gets in between.
    pub fn take_or_close(&mut self) -> Option<Entry> {
        let entry = self.take();
        if entry.is_none() {
            self.close();
        }
        entry
    }

    /// Takes no more lines, and forgets those that wait.
    pub fn close(&mut self) {
        self.closed = true;
        self.entries = VecDeque::new();
        self.lines = 0;
    }

    /// How many lines were dropped.
    #[must_use]
    pub fn missed(&self) -> u64 {
        self.missed
    }

    fn drop_oldest(&mut self) {
        self.missed += 1;
        self.lines -= 1;
        let before = match self.entries.pop_front() {
            Some(Entry::Missed(before)) => {
                self.entries.pop_front(); // A line: no two gaps are neighbours.
                before
            }
            _ => 0,
        };
        let more = match self.entries.front() {
            Some(Entry::Missed(more)) => *more,
            _ => 0,
        };
        if more > 0 {
            self.entries.pop_front();
        }
        self.entries.push_front(Entry::Missed(before + 1 + more));
    }

    fn drop_newest(&mut self) {
        self.missed += 1;
        match self.entries.back_mut() {
            Some(Entry::Missed(before)) => *before += 1,
            _ => self.entries.push_back(Entry::Missed(1)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(n: u32) -> Bytes {
        Bytes::from(n.to_string())
    }

    fn full(overflow: Overflow) -> Outbox {
        let mut outbox = Outbox::new(3, overflow);
        assert_eq!(outbox.offer(line(1)), Offered::Wake);
        assert_eq!(outbox.offer(line(2)), Offered::Queued);
        assert_eq!(outbox.offer(line(3)), Offered::Queued);
        outbox
    }

    /// What is in it, as the client will read it.
    fn rest(outbox: &mut Outbox) -> Vec<String> {
        let shown = |entry| match entry {
            Entry::Line(line) => String::from_utf8_lossy(&line).into_owned(),
            Entry::Missed(n) => format!("missed {n}"),
        };
        std::iter::from_fn(|| outbox.take()).map(shown).collect()
    }

    #[test]
    fn lines_come_out_in_order_and_the_loop_is_woken_once() {
        let mut outbox = full(Overflow::DropOldest);
        assert_eq!(rest(&mut outbox), ["1", "2", "3"]);
        assert_eq!(outbox.offer(line(4)), Offered::Wake, "it was found empty");
        assert_eq!(outbox.missed(), 0);
    }

    #[test]
    fn the_loop_that_leaves_something_in_it_is_not_woken_for_more() {
        let mut outbox = full(Overflow::DropOldest);
        outbox.take();
        assert_eq!(outbox.offer(line(4)), Offered::Queued);
    }

    #[test]
    fn the_oldest_make_room_and_the_gap_is_where_they_were() {
        let mut outbox = full(Overflow::DropOldest);
        assert_eq!(outbox.offer(line(4)), Offered::Queued);
        assert_eq!(outbox.offer(line(5)), Offered::Queued);
        assert_eq!(outbox.missed(), 2);
        assert_eq!(rest(&mut outbox), ["missed 2", "3", "4", "5"]);
    }

    #[test]
    fn the_newest_are_dropped_and_the_gap_is_where_they_would_be() {
        let mut outbox = full(Overflow::DropNewest);
        assert_eq!(outbox.offer(line(4)), Offered::Full);
        assert_eq!(outbox.offer(line(5)), Offered::Full);
        outbox.take();
        assert_eq!(outbox.offer(line(6)), Offered::Queued);
        assert_eq!(rest(&mut outbox), ["2", "3", "missed 2", "6"]);
    }

    #[test]
    fn who_is_too_slow_is_disconnected_once() {
        let mut outbox = full(Overflow::Disconnect);
        assert_eq!(outbox.offer(line(4)), Offered::Disconnect);
        assert_eq!(outbox.offer(line(5)), Offered::Closed);
        assert_eq!(outbox.take(), None);
    }

    #[test]
    fn who_leaves_gets_what_waits_and_nothing_more() {
        let mut outbox = full(Overflow::DropOldest);
        for n in 1..=3 {
            assert_eq!(outbox.take_or_close(), Some(Entry::Line(line(n))));
        }
        assert_eq!(
            outbox.offer(line(4)),
            Offered::Queued,
            "it is not empty yet, as far as is known"
        );
        assert_eq!(outbox.take_or_close(), Some(Entry::Line(line(4))));
        assert_eq!(outbox.take_or_close(), None);
        assert_eq!(outbox.offer(line(5)), Offered::Closed);
    }

    #[test]
    fn memory_is_bounded_whatever_is_dropped() {
        for overflow in [Overflow::DropOldest, Overflow::DropNewest] {
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
    fn a_limit_of_nothing_is_one() {
        assert_eq!(Outbox::new(0, Overflow::DropNewest).offer(line(1)), Offered::Wake);
    }
}
