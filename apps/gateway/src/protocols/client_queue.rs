//! The messages that wait for one client.
//!
//! # Rules
//!
//! 1. Answers and notices are never dropped: a client that does not take them gets no more commands carried out
//!    ([`has_room`](ClientQueue::has_room)).
//! 2. Pushes of others are: from the first that does not fit, until half of the queue is free again; then the client is told
//!    their number, and the position to resume from.
//! 3. The recovered publications of a subscription follow its answer, however many wait: their number and bytes have limits of
//!    their own.

use std::collections::VecDeque;
use std::mem;
use std::sync::Arc;

use super::options::{ProtocolOptions, SlowClientPolicy};
use crate::engine::position::Position;
use crate::session::delivery::Delivery;
use crate::session::reply::GatewayReply;

/// The bytes that an entry counts beyond those of its message.
const ENTRY_BYTES: usize = 64;

/// Entries for which an empty queue keeps room.
const KEPT_CAPACITY: usize = 32;

/// The messages that wait for one client, in order. `T` is a message that the protocol has encoded; publications are encoded
/// when they are taken, once for all clients.
#[derive(Debug)]
pub(super) struct ClientQueue<T> {
    entries: VecDeque<WaitingMessage<T>>,
    bytes: usize,
    max_entries: usize,
    max_bytes: usize,
    policy: SlowClientPolicy,
    /// The recovered publications that are still to follow an answer.
    recovering: usize,
    /// The position up to which the client knows everything when it has got what waits.
    known_to: Option<Position>,
    /// The number of pushes that were dropped; `None` while none are.
    dropped: Option<u64>,
}

/// A message that waits.
#[derive(Clone, Debug)]
pub(super) enum WaitingMessage<T> {
    Publication(Arc<Delivery>),
    /// An encoded message and its bytes.
    Encoded(T, usize),
    /// Pushes were dropped here.
    Missed(MissedPushes),
}

/// The pushes that a client has missed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct MissedPushes {
    /// Their number; 0 if it is not known.
    pub(super) count: u64,
    /// The position to resume from.
    pub(super) position: Option<Position>,
}

/// The outcome of a push.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum QueueOutcome {
    Queued,
    Dropped,
    /// The queue is full, and its policy is to disconnect.
    Full,
}

impl<T> ClientQueue<T> {
    pub(super) fn new(options: &ProtocolOptions) -> Self {
        Self {
            entries: VecDeque::new(),
            bytes: 0,
            max_entries: options.queue_messages.max(1),
            max_bytes: options.queue_bytes,
            policy: options.slow_clients,
            recovering: 0,
            known_to: None,
            dropped: None,
        }
    }

    /// True while fewer messages wait than the limits allow.
    pub(super) fn has_room(&self) -> bool {
        self.entries.len() < self.max_entries && self.bytes < self.max_bytes
    }

    /// Adds the answer to a command, of this many bytes once encoded. `None`: nothing is written, but what follows is noted.
    pub(super) fn push_answer(
        &mut self,
        reply: Option<&GatewayReply>,
        encoded: Option<(T, usize)>,
    ) {
        if let Some(GatewayReply::Subscribed { position, recovered, .. }) = reply {
            // What was dropped before is told before: it is not of this subscription.
            self.end_dropping();
            self.note_known(*position);
            self.recovering = *recovered;
        }
        if let Some((message, bytes)) = encoded {
            self.append(WaitingMessage::Encoded(message, bytes));
        }
    }

    /// Adds a notice about the connection itself.
    pub(super) fn push_notice(&mut self, message: T, bytes: usize) {
        self.append(WaitingMessage::Encoded(message, bytes));
    }

    /// Adds a publication.
    pub(super) fn push_publication(&mut self, delivery: &Arc<Delivery>) -> QueueOutcome {
        if let Some(left) = self.recovering.checked_sub(1) {
            self.recovering = left;
            self.append(WaitingMessage::Publication(delivery.clone()));
            return QueueOutcome::Queued;
        }
        let outcome = self.reserve();
        if outcome == QueueOutcome::Queued {
            self.note_known(delivery.publication().position);
            self.append(WaitingMessage::Publication(delivery.clone()));
        }
        outcome
    }

    /// Adds a push of another client that is no publication.
    pub(super) fn push_other(&mut self, message: T, bytes: usize) -> QueueOutcome {
        let outcome = self.reserve();
        if outcome == QueueOutcome::Queued {
            self.append(WaitingMessage::Encoded(message, bytes));
        }
        outcome
    }

    /// Adds a note that publications are missing before this queue.
    pub(super) fn push_missed(&mut self, missed: MissedPushes) -> QueueOutcome {
        if self.dropped.is_some() {
            return QueueOutcome::Queued; // Told together with those.
        }
        if !self.has_room() && self.policy == SlowClientPolicy::Disconnect {
            return QueueOutcome::Full;
        }
        if !self.has_room() {
            self.dropped = Some(0);
            return QueueOutcome::Queued;
        }
        let position = later(self.known_to, missed.position);
        self.append(WaitingMessage::Missed(MissedPushes { position, ..missed }));
        QueueOutcome::Queued
    }

    /// Takes the next message.
    pub(super) fn take(&mut self) -> Option<WaitingMessage<T>> {
        let taken = self.entries.pop_front()?;
        self.bytes -= size(&taken);
        if self.entries.len() <= self.max_entries / 2 && self.bytes <= self.max_bytes / 2 {
            self.end_dropping();
        }
        if self.entries.is_empty() && self.entries.capacity() > KEPT_CAPACITY {
            self.entries.shrink_to(KEPT_CAPACITY);
        }
        Some(taken)
    }

    /// Drops what waits: the client is about to be disconnected.
    pub(super) fn clear(&mut self) {
        let entries = mem::take(&mut self.entries);
        self.bytes = 0;
        (self.recovering, self.dropped) = (0, None);
        drop(entries);
    }

    /// Looks for room for a push.
    fn reserve(&mut self) -> QueueOutcome {
        if let Some(dropped) = &mut self.dropped {
            *dropped += 1;
            return QueueOutcome::Dropped;
        }
        match (self.has_room(), self.policy) {
            (true, _) => QueueOutcome::Queued,
            (false, SlowClientPolicy::Disconnect) => QueueOutcome::Full,
            (false, SlowClientPolicy::Drop) => {
                self.dropped = Some(1);
                QueueOutcome::Dropped
            }
        }
    }

    /// Adds a note of what was dropped, if anything was.
    fn end_dropping(&mut self) {
        if let Some(count) = self.dropped.take() {
            let position = self.known_to;
            self.append(WaitingMessage::Missed(MissedPushes { count, position }));
        }
    }

    fn note_known(&mut self, position: Position) {
        self.known_to = later(self.known_to, Some(position));
    }

    fn append(&mut self, entry: WaitingMessage<T>) {
        self.bytes += size(&entry);
        self.entries.push_back(entry);
    }
}

fn size<T>(entry: &WaitingMessage<T>) -> usize {
    ENTRY_BYTES
        + match entry {
            WaitingMessage::Publication(delivery) => delivery.publication().payload.len(),
            WaitingMessage::Encoded(_, bytes) => *bytes,
            WaitingMessage::Missed(_) => 0,
        }
}

/// Returns the later of two positions; of another epoch, the second.
fn later(known: Option<Position>, other: Option<Position>) -> Option<Position> {
    match (known, other) {
        (Some(known), Some(other)) if !other.is_after(known) && other.epoch == known.epoch => {
            Some(known)
        }
        (known, other) => other.or(known),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::publication::{Publication, PublicationPayload};
    use crate::topic::limits::TopicLimits;
    use crate::topic::name::Topic;

    const EPOCH: u32 = 7;

    fn position(sequence: u64) -> Position {
        Position { epoch: EPOCH, sequence }
    }

    fn delivery(sequence: u64) -> Arc<Delivery> {
        Arc::new(Delivery::new(Arc::new(Publication {
            topic: Topic::parse("a", &TopicLimits::default()).unwrap(),
            position: position(sequence),
            payload: PublicationPayload::Text("0123456789".into()),
            from: None,
            time: 0,
        })))
    }

    fn queue(queue_messages: usize, slow_clients: SlowClientPolicy) -> ClientQueue<&'static str> {
        ClientQueue::new(&ProtocolOptions { queue_messages, slow_clients, ..Default::default() })
    }

    /// Takes everything: positions as numbers, missed ones as `missed COUNT after POSITION`.
    fn taken(queue: &mut ClientQueue<&'static str>, most: usize) -> Vec<String> {
        let show = |position: Option<Position>| position.map_or(0, |position| position.sequence);
        let next = |_| {
            Some(match queue.take()? {
                WaitingMessage::Publication(delivery) => {
                    delivery.publication().position.sequence.to_string()
                }
                WaitingMessage::Encoded(text, _) => text.to_owned(),
                WaitingMessage::Missed(MissedPushes { count, position }) => {
                    format!("missed {count} after {}", show(position))
                }
            })
        };
        (0..most).map_while(next).collect()
    }

    #[test]
    fn g01_a_full_queue_drops_pushes_until_half_of_it_is_free_and_says_where_to_resume() {
        let mut queue = queue(4, SlowClientPolicy::Drop);
        let outcomes: Vec<_> = (1..=7).map(|n| queue.push_publication(&delivery(n))).collect();
        assert_eq!(outcomes[..4], [QueueOutcome::Queued; 4]);
        assert_eq!(outcomes[4..], [QueueOutcome::Dropped; 3]);
        assert!(!queue.has_room());
        assert_eq!(taken(&mut queue, 1), ["1"]);
        assert!(queue.has_room(), "commands may go on");
        assert_eq!(queue.push_publication(&delivery(8)), QueueOutcome::Dropped, "not yet half");
        assert_eq!(taken(&mut queue, 1), ["2"]);
        assert_eq!(queue.push_publication(&delivery(9)), QueueOutcome::Queued);
        assert_eq!(taken(&mut queue, 9), ["3", "4", "missed 4 after 4", "9"]);
    }

    #[test]
    fn g01_the_bytes_of_a_queue_are_limited_as_its_number() {
        let options = ProtocolOptions { queue_bytes: 3 * (64 + 10), ..Default::default() };
        let mut queue: ClientQueue<&str> = ClientQueue::new(&options);
        let queued = |queue: &mut ClientQueue<_>, n| {
            queue.push_publication(&delivery(n)) == QueueOutcome::Queued
        };
        assert_eq!((1..=5).filter(|n| queued(&mut queue, *n)).count(), 3);
        assert_eq!(queue.push_other("join", 4), QueueOutcome::Dropped, "pushes of all kinds");
        assert_eq!(taken(&mut queue, 9), ["1", "2", "3", "missed 3 after 3"]);
        assert_eq!(queue.bytes, 0);
    }

    #[test]
    fn g02_recovered_publications_follow_their_answer_however_many_wait() {
        let mut queue = queue(2, SlowClientPolicy::Drop);
        for n in [20, 21, 22] {
            queue.push_publication(&delivery(n));
        }
        let reply = GatewayReply::Subscribed { position: position(22), recovered: 3, gap: false };
        queue.push_answer(Some(&reply), Some(("ok", 2)));
        for n in [1, 2, 3] {
            assert_eq!(queue.push_publication(&delivery(n)), QueueOutcome::Queued);
        }
        assert_eq!(queue.push_publication(&delivery(23)), QueueOutcome::Dropped);
        let expected = ["20", "21", "missed 1 after 21", "ok", "1", "2", "3", "missed 1 after 22"];
        assert_eq!(taken(&mut queue, 99), expected);
    }

    #[test]
    fn g01_a_queue_that_disconnects_refuses_the_first_push_without_room_and_no_answer() {
        let mut queue = queue(1, SlowClientPolicy::Disconnect);
        assert_eq!(queue.push_publication(&delivery(1)), QueueOutcome::Queued);
        queue.push_answer(Some(&GatewayReply::Done), Some(("ok", 2)));
        queue.push_notice("notice", 6);
        assert_eq!(queue.push_publication(&delivery(2)), QueueOutcome::Full);
        assert_eq!(queue.push_other("join", 4), QueueOutcome::Full);
        let missed = MissedPushes { count: 0, position: None };
        assert_eq!(queue.push_missed(missed), QueueOutcome::Full);
        assert_eq!(taken(&mut queue, 9), ["1", "ok", "notice"]);
    }

    #[test]
    fn g02_publications_that_were_lost_before_the_queue_are_told_with_the_latest_known_position() {
        let mut queue = queue(2, SlowClientPolicy::Drop);
        let missed = |sequence| MissedPushes { count: 0, position: Some(position(sequence)) };
        queue.push_publication(&delivery(5));
        queue.push_missed(missed(3));
        assert_eq!(taken(&mut queue, 9), ["5", "missed 0 after 5"]);
        queue.push_missed(missed(8));
        assert_eq!(taken(&mut queue, 9), ["missed 0 after 8"]);
        // In a full queue, together with what does not fit.
        for n in [11, 12] {
            queue.push_publication(&delivery(n));
        }
        queue.push_missed(missed(12));
        queue.push_missed(missed(12));
        queue.push_publication(&delivery(13));
        assert_eq!(taken(&mut queue, 9), ["11", "12", "missed 1 after 12"]);
    }
}
