//! The queue between the channels and the writer of a capture: whole records, up to a number of bytes.
//!
//! ```text
//!   push ──► filling ══ take_batch ══► the writer ══ return_batch ══► spare
//! ```
//!
//! A plain value, without a lock or a thread. Two buffers change places, so that in the steady state nothing is
//! allocated and the writer gets everything that was queued in one piece.
//!
//! A packet without room is dropped and counted. The next packet that has room is preceded by a note, a packet of its
//! own, that says how many are missing.

use std::net::SocketAddr;
use std::time::Duration;

use super::endpoints::SYNTHETIC_LOCAL;
use super::packet::{Packet, PacketEnds, Payload};
use super::pcap_format::{FILE_HEADER, RECORD_HEADER, record_header};

/// The port of notes, source and destination: discard.
const NOTE_PORT: u16 = 9;

/// The limits of a capture.
#[derive(Clone, Copy, Debug)]
pub(super) struct CaptureLimits {
    /// Bytes of a packet that are kept.
    pub(super) snap_len: usize,
    /// Bytes that wait to be written, those in the hands of the writer included.
    pub(super) queue_bytes: usize,
    /// Bytes of the file.
    pub(super) file_bytes: u64,
}

/// Records that wait to be written. See the [module's documentation](self).
pub(super) struct RecordQueue {
    limits: CaptureLimits,
    filling: Vec<u8>,
    spare: Vec<u8>,
    /// Bytes in the hands of the writer.
    batch_len: usize,
    /// Bytes of the file with everything that was queued.
    file_len: u64,
    records: u64,
    dropped: u64,
    /// Packets that were dropped since the last one that was queued.
    missing: u64,
    /// The time of the latest packet, queued or dropped.
    latest: Duration,
}

/// The outcome of [`RecordQueue::push`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum PushOutcome {
    Queued,
    /// There was no room in the queue. `is_first` if nothing was dropped before.
    Dropped {
        is_first: bool,
    },
    /// The file would exceed its limit. This packet and all later ones are not part of it.
    FileFull,
}

impl RecordQueue {
    pub(super) fn new(limits: CaptureLimits) -> Self {
        Self {
            limits,
            filling: Vec::with_capacity(RETAINED),
            spare: Vec::with_capacity(RETAINED),
            batch_len: 0,
            file_len: FILE_HEADER as u64,
            records: 0,
            dropped: 0,
            missing: 0,
            latest: Duration::ZERO,
        }
    }

    pub(super) fn limits(&self) -> CaptureLimits {
        self.limits
    }

    /// Returns the number of queued records and of dropped packets, and the length of the file with all of the queued.
    pub(super) fn counts(&self) -> (u64, u64, u64) {
        (self.records, self.dropped, self.file_len)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.filling.is_empty()
    }

    /// Queues a packet with its time since 1970, if there is room for it.
    pub(super) fn push(&mut self, at: Duration, packet: &Packet<'_>) -> PushOutcome {
        self.latest = at;
        let note = self.note_text();
        let note = note.as_deref().map(note_packet);
        let needed =
            self.record_len(packet) + note.as_ref().map_or(0, |note| self.record_len(note));
        if self.filling.len() + self.batch_len + needed > self.limits.queue_bytes {
            self.dropped += 1;
            self.missing += 1;
            return PushOutcome::Dropped { is_first: self.dropped == 1 };
        }
        if self.file_len + needed as u64 > self.limits.file_bytes {
            return PushOutcome::FileFull;
        }
        if let Some(note) = &note {
            self.append(at, note);
            self.missing = 0;
        }
        self.append(at, packet);
        PushOutcome::Queued
    }

    /// Queues the note about packets that are missing at the end, whether or not the queue has room.
    pub(super) fn push_last_note(&mut self) {
        let Some(text) = self.note_text() else { return };
        let note = note_packet(&text);
        if self.file_len + self.record_len(&note) as u64 <= self.limits.file_bytes {
            self.append(self.latest, &note);
        }
        self.missing = 0;
    }

    /// Returns the text of a note about the packets that are missing.
    fn note_text(&self) -> Option<String> {
        let missing = self.missing;
        (missing > 0)
            .then(|| format!("waterwheel: {missing} packets were not captured: the queue was full"))
    }

    fn record_len(&self, packet: &Packet<'_>) -> usize {
        RECORD_HEADER + self.captured_len(packet)
    }

    fn captured_len(&self, packet: &Packet<'_>) -> usize {
        (packet.headers().len() + packet.payload().len()).min(self.limits.snap_len)
    }

    fn append(&mut self, at: Duration, packet: &Packet<'_>) {
        let captured = self.captured_len(packet);
        let headers = &packet.headers()[..packet.headers().len().min(captured)];
        self.filling.extend_from_slice(&record_header(at, captured, packet.whole_len()));
        self.filling.extend_from_slice(headers);
        self.filling.extend_from_slice(&packet.payload()[..captured - headers.len()]);
        self.file_len += (RECORD_HEADER + captured) as u64;
        self.records += 1;
    }

    /// Takes everything that is queued, for the writer.
    pub(super) fn take_batch(&mut self) -> Vec<u8> {
        let batch = std::mem::replace(&mut self.filling, std::mem::take(&mut self.spare));
        self.batch_len = batch.len();
        batch
    }

    /// Takes back the buffer of a batch that was written. A buffer that a burst has made large is given back to the
    /// allocator when a batch uses little of it.
    pub(super) fn return_batch(&mut self, mut batch: Vec<u8>) {
        let used = batch.len();
        batch.clear();
        if used < batch.capacity() / 4 {
            batch.shrink_to(used.max(RETAINED));
        }
        self.spare = batch;
        self.batch_len = 0;
    }

    /// Drops everything that is queued.
    pub(super) fn clear(&mut self) {
        self.filling = Vec::new();
        self.spare = Vec::new();
        self.batch_len = 0;
    }
}

/// Bytes of a buffer that are allocated at the beginning and never given back.
const RETAINED: usize = 64 * 1024;

fn note_packet(text: &str) -> Packet<'_> {
    let end = SocketAddr::new(SYNTHETIC_LOCAL.into(), NOTE_PORT);
    Packet::udp(PacketEnds { source: end, destination: end }, 0, Payload::new(text.as_bytes()))
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMITS: CaptureLimits =
        CaptureLimits { snap_len: 65_535, queue_bytes: 1000, file_bytes: 1 << 20 };

    fn packet(payload: &[u8]) -> Packet<'_> {
        note_packet(std::str::from_utf8(payload).unwrap())
    }

    fn push(queue: &mut RecordQueue, len: usize) -> PushOutcome {
        queue.push(Duration::new(5, 7), &packet(&vec![b'x'; len]))
    }

    /// Returns the lengths of the records in a batch: captured and whole, headers included.
    fn records(batch: &[u8]) -> Vec<(u32, u32)> {
        let mut records = Vec::new();
        let mut rest = batch;
        while !rest.is_empty() {
            let number = |at: usize| u32::from_le_bytes(rest[at..at + 4].try_into().unwrap());
            assert_eq!((number(0), number(4)), (5, 7), "the time");
            records.push((number(8), number(12)));
            rest = &rest[RECORD_HEADER + number(8) as usize..];
        }
        records
    }

    #[test]
    fn k06_packets_are_cut_off_after_the_snap_length() {
        for (snap_len, captured) in [(65_535, 128), (100, 100), (28, 28), (1, 1)] {
            let mut queue = RecordQueue::new(CaptureLimits { snap_len, ..LIMITS });
            assert_eq!(push(&mut queue, 100), PushOutcome::Queued);
            assert_eq!(records(&queue.take_batch()), [(captured, 128)]);
        }
    }

    #[test]
    fn k06_the_queue_holds_whole_records_up_to_its_limit() {
        let mut queue = RecordQueue::new(LIMITS);
        let outcomes: Vec<_> = (0..6).map(|_| push(&mut queue, 200)).collect();
        let (first, later) =
            (PushOutcome::Dropped { is_first: true }, PushOutcome::Dropped { is_first: false });
        assert_eq!(outcomes[..4], [PushOutcome::Queued; 4], "244 bytes each");
        assert_eq!(outcomes[4..], [first, later]);
        let batch = queue.take_batch();
        assert_eq!(records(&batch), [(228, 228); 4]);
        assert_eq!(push(&mut queue, 0), later, "a batch counts until it is written");
        queue.return_batch(batch);
        assert_eq!(push(&mut queue, 0), PushOutcome::Queued);
        assert_eq!(queue.counts(), (6, 3, 24 + 4 * 244 + queue.filling.len() as u64));
        let batch = queue.take_batch();
        let text = String::from_utf8_lossy(&batch);
        assert!(
            text.contains("waterwheel: 3 packets were not captured: the queue was full"),
            "{text}"
        );
        assert_eq!(records(&batch).len(), 2, "the note, and the packet");
        queue.return_batch(batch);
        assert_eq!(push(&mut queue, 0), PushOutcome::Queued);
        assert_eq!(records(&queue.take_batch()).len(), 1, "a note is written once");
    }

    #[test]
    fn k06_packets_that_are_missing_at_the_end_are_noted_too() {
        let mut queue = RecordQueue::new(LIMITS);
        while push(&mut queue, 200) == PushOutcome::Queued {}
        queue.push_last_note();
        queue.push_last_note();
        let batch = queue.take_batch();
        assert_eq!(records(&batch).len(), 5, "four packets and a note");
        assert!(
            String::from_utf8_lossy(&batch).contains("waterwheel: 1 packets were not captured")
        );
    }

    #[test]
    fn k06_a_file_ends_with_a_whole_record_within_its_limit() {
        let mut queue = RecordQueue::new(CaptureLimits { file_bytes: 24 + 2 * 244, ..LIMITS });
        assert_eq!(push(&mut queue, 200), PushOutcome::Queued);
        assert_eq!(push(&mut queue, 201), PushOutcome::FileFull);
        assert_eq!(push(&mut queue, 200), PushOutcome::Queued);
        assert_eq!(push(&mut queue, 0), PushOutcome::FileFull);
        assert_eq!(queue.counts(), (2, 0, 24 + 2 * 244));
    }

    #[test]
    fn k06_a_buffer_that_a_burst_has_made_large_is_given_back() {
        let mut queue = RecordQueue::new(CaptureLimits { queue_bytes: 1 << 20, ..LIMITS });
        for _ in 0..3000 {
            push(&mut queue, 200);
        }
        let batch = queue.take_batch();
        queue.return_batch(batch);
        assert!(queue.spare.capacity() > 500_000, "used in full");
        for _ in 0..2 {
            push(&mut queue, 200);
            let batch = queue.take_batch();
            queue.return_batch(batch);
        }
        assert!(queue.spare.capacity() <= RETAINED && queue.filling.capacity() <= RETAINED);
    }
}
