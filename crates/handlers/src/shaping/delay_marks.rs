//! How long flushed messages have been held, without a time for each of them.

use std::collections::VecDeque;
use std::time::Duration;

use waterwheel_executor::Nanos;

/// Messages are grouped by the time of their flush: one group covers a sixteenth of the longest delay. So a message is
/// sent at most that much before it has waited for the longest delay, and never after.
const GROUPS_PER_DELAY: u32 = 16;

/// The waiting times of the flushed messages in a queue. There are at most 17 groups, because no message stays longer
/// than the longest delay.
#[derive(Debug)]
pub(super) struct DelayMarks {
    longest: Option<Duration>,
    groups: VecDeque<DelayGroup>,
}

#[derive(Debug)]
struct DelayGroup {
    /// When the first message of the group was flushed.
    since: Nanos,
    messages: usize,
}

impl DelayMarks {
    pub(super) fn new(longest: Option<Duration>) -> Self {
        Self { longest, groups: VecDeque::new() }
    }

    /// Notes that messages were flushed.
    pub(super) fn push(&mut self, messages: usize, now: Nanos) {
        let Some(longest) = self.longest.filter(|_| messages > 0) else { return };
        match self.groups.back_mut() {
            Some(last) if now.since(last.since) < longest / GROUPS_PER_DELAY => {
                last.messages += messages;
            }
            _ => self.groups.push_back(DelayGroup { since: now, messages }),
        }
    }

    /// Notes that the first message has left the queue.
    pub(super) fn pop(&mut self) {
        if let Some(first) = self.groups.front_mut() {
            first.messages -= 1;
            if first.messages == 0 {
                self.groups.pop_front();
            }
        }
    }

    pub(super) fn clear(&mut self) {
        self.groups.clear();
    }

    /// Returns when the first message has to be sent; [`Nanos::MAX`] if it may wait for ever.
    pub(super) fn deadline(&self) -> Nanos {
        match (self.longest, self.groups.front()) {
            (Some(longest), Some(first)) => first.since.plus(longest),
            _ => Nanos::MAX,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ms(ms: u64) -> Nanos {
        Nanos(ms * 1_000_000)
    }

    #[test]
    fn k08_the_first_message_has_the_deadline_of_its_group() {
        let mut marks = DelayMarks::new(Some(Duration::from_millis(160)));
        assert_eq!(marks.deadline(), Nanos::MAX);
        for at in [0, 9, 10, 25] {
            marks.push(1, ms(at));
        }
        let mut deadlines = Vec::new();
        for _ in 0..4 {
            deadlines.push(marks.deadline());
            marks.pop();
        }
        assert_eq!(deadlines, [ms(160), ms(160), ms(170), ms(185)]);
        assert_eq!(marks.deadline(), Nanos::MAX);
    }

    #[test]
    fn k08_without_a_longest_delay_nothing_is_kept() {
        let mut marks = DelayMarks::new(None);
        marks.push(1, ms(1));
        assert_eq!((marks.groups.len(), marks.deadline()), (0, Nanos::MAX));
    }
}
