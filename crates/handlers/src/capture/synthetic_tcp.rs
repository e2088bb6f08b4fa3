//! A TCP connection as packets: the state machine that numbers the bytes of both directions.
//!
//! ```text
//!   open ──► SYN, SYN-ACK, ACK      send ──► segments      finish ──► FIN, ACK      reset ──► RST
//! ```
//!
//! 1. Both sides begin with the same sequence number, which differs from connection to connection: by it readers tell a
//!    new connection from a repeated SYN of an earlier one between the same addresses.
//! 2. Every segment acknowledges all bytes of the other direction. A direction that sends much and gets no answer is
//!    acknowledged by an empty segment after [`ACK_AFTER`] bytes, which keeps it within the announced window.
//! 3. After its FIN a direction sends nothing; after an RST neither does. What comes later is ignored.
//! 4. Nothing is emitted before `open`.

use std::net::SocketAddr;

use super::packet::{
    ACK, FIN, MAX_TCP_PAYLOAD, PSH, Packet, PacketEnds, Payload, RST, SYN, TcpFields,
};

/// Unacknowledged bytes after which the receiver acknowledges: far below the window of 16 MiB.
const ACK_AFTER: u32 = 1 << 20;

/// How many sequence numbers there are.
const NUMBERS: u64 = 1 << 32;

/// Bytes that are skipped at once: a jump over half of the numbers would look like one back.
const MAX_JUMP: u64 = 1 << 30;

/// Receives packets in their order.
pub(super) type PacketSink<'a> = dyn FnMut(Packet<'_>) + 'a;

/// One of the two ends of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Side {
    Local,
    Peer,
}

impl Side {
    pub(super) fn other(self) -> Side {
        match self {
            Side::Local => Side::Peer,
            Side::Peer => Side::Local,
        }
    }
}

/// A TCP connection as packets. See the [module's documentation](self).
#[derive(Debug)]
pub(super) struct SyntheticTcp {
    addresses: [SocketAddr; 2],
    /// The bytes that each side sends, indexed by [`Side`].
    sent: [SentBytes; 2],
    phase: Phase,
    ip_id: u16,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    Unopened,
    Open,
    Reset,
}

#[derive(Clone, Copy, Debug)]
struct SentBytes {
    /// The sequence number of the next byte.
    next: u32,
    /// The sequence number up to which the receiver has acknowledged.
    acknowledged: u32,
    has_finished: bool,
}

impl SyntheticTcp {
    /// Returns an unopened connection with this initial sequence number.
    pub(super) fn new(local: SocketAddr, peer: SocketAddr, initial: u32) -> Self {
        let sent = SentBytes { next: initial, acknowledged: initial, has_finished: false };
        Self { addresses: [local, peer], sent: [sent; 2], phase: Phase::Unopened, ip_id: 0 }
    }

    /// True if this side can still send.
    pub(super) fn can_send(&self, from: Side) -> bool {
        self.phase == Phase::Open && !self.sent[from as usize].has_finished
    }

    /// Emits the handshake. A second call is ignored.
    pub(super) fn open(&mut self, initiator: Side, emit: &mut PacketSink<'_>) {
        if self.phase != Phase::Unopened {
            return;
        }
        self.phase = Phase::Open;
        let acceptor = initiator.other();
        self.emit(initiator, SYN, Payload::EMPTY, emit);
        self.emit(acceptor, SYN | ACK, Payload::EMPTY, emit);
        self.emit(initiator, ACK, Payload::EMPTY, emit);
    }

    /// Emits bytes as segments; the last one has the flag PSH.
    pub(super) fn send(&mut self, from: Side, bytes: &[u8], emit: &mut PacketSink<'_>) {
        if !self.can_send(from) {
            return;
        }
        let mut segments = bytes.chunks(MAX_TCP_PAYLOAD).peekable();
        while let Some(segment) = segments.next() {
            let flags = if segments.peek().is_some() { ACK } else { ACK | PSH };
            self.emit(from, flags, Payload::new(segment), emit);
            self.acknowledge_if_due(from, emit);
        }
    }

    /// Emits bytes that are not in memory: one segment without its payload for each GiB. If there are more bytes than a
    /// segment holds, the sequence numbers jump over the rest, which readers show as lost.
    pub(super) fn skip(&mut self, from: Side, len: u64, emit: &mut PacketSink<'_>) {
        if !self.can_send(from) {
            return;
        }
        // Beyond their range the numbers begin again, so whole rounds but one look the same as none.
        let mut left = if len <= NUMBERS { len } else { NUMBERS + len % NUMBERS };
        while left > 0 {
            let jump = left.min(MAX_JUMP);
            let whole = jump.min(MAX_TCP_PAYLOAD as u64);
            self.emit(from, ACK | PSH, Payload { bytes: &[], whole: whole as usize }, emit);
            let sent = &mut self.sent[from as usize];
            sent.next = sent.next.wrapping_add((jump - whole) as u32);
            self.acknowledge_if_due(from, emit);
            left -= jump;
        }
    }

    /// Emits the end of a direction, and its acknowledgement. A second call is ignored.
    pub(super) fn finish(&mut self, from: Side, emit: &mut PacketSink<'_>) {
        if self.can_send(from) {
            self.emit(from, FIN | ACK, Payload::EMPTY, emit);
            self.sent[from as usize].has_finished = true;
            self.emit(from.other(), ACK, Payload::EMPTY, emit);
        }
    }

    /// Emits a reset, unless both directions have finished.
    pub(super) fn reset(&mut self, from: Side, emit: &mut PacketSink<'_>) {
        if self.can_send(Side::Local) || self.can_send(Side::Peer) {
            self.emit(from, RST | ACK, Payload::EMPTY, emit);
            self.phase = Phase::Reset;
        }
    }

    fn acknowledge_if_due(&mut self, from: Side, emit: &mut PacketSink<'_>) {
        let SentBytes { next, acknowledged, .. } = self.sent[from as usize];
        if next.wrapping_sub(acknowledged) >= ACK_AFTER {
            self.emit(from.other(), ACK, Payload::EMPTY, emit);
        }
    }

    /// Emits one segment and advances the sequence numbers.
    fn emit(&mut self, from: Side, flags: u8, payload: Payload<'_>, emit: &mut PacketSink<'_>) {
        let to = from.other();
        let source = self.addresses[from as usize];
        let ends = PacketEnds { source, destination: self.addresses[to as usize] };
        let sequence = self.sent[from as usize].next;
        let acknowledged = if flags & ACK == 0 {
            0
        } else {
            let received = &mut self.sent[to as usize];
            received.acknowledged = received.next;
            received.next
        };
        // SYN and FIN take a sequence number each.
        let taken = payload.whole as u32 + u32::from(flags & (SYN | FIN) != 0);
        self.sent[from as usize].next = sequence.wrapping_add(taken);
        let ip_id = self.ip_id;
        self.ip_id = ip_id.wrapping_add(1);
        emit(Packet::tcp(ends, TcpFields { flags, sequence, acknowledged, ip_id }, payload));
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// A segment as it was emitted: sender, flags, sequence number, acknowledged number, payload, whole length of it.
    type Segment = (Side, u8, u32, u32, Vec<u8>, usize);

    const LOCAL: SocketAddr =
        SocketAddr::new(std::net::IpAddr::V4(std::net::Ipv4Addr::new(192, 0, 2, 1)), 80);
    const PEER: SocketAddr =
        SocketAddr::new(std::net::IpAddr::V4(std::net::Ipv4Addr::new(192, 0, 2, 2)), 9);

    fn read_segment(packet: &Packet<'_>) -> Segment {
        let headers = packet.headers();
        let number = |at: usize| u32::from_be_bytes(headers[at..at + 4].try_into().unwrap());
        let from = if headers[12..16] == [192, 0, 2, 1] { Side::Local } else { Side::Peer };
        let whole = packet.whole_len() - headers.len();
        (from, headers[33], number(24), number(28), packet.payload().to_vec(), whole)
    }

    fn collect(f: impl FnOnce(&mut SyntheticTcp, &mut PacketSink<'_>)) -> Vec<Segment> {
        let mut segments = Vec::new();
        let mut tcp = SyntheticTcp::new(LOCAL, PEER, 0);
        f(&mut tcp, &mut |packet| segments.push(read_segment(&packet)));
        segments
    }

    #[test]
    fn k06_a_connection_has_these_segments() {
        use Side::{Local, Peer};
        let segments = collect(|tcp, emit| {
            tcp.send(Peer, b"before the handshake", emit);
            tcp.open(Peer, emit);
            tcp.open(Local, emit);
            tcp.send(Peer, b"request", emit);
            tcp.send(Peer, b"", emit);
            tcp.send(Local, b"answer", emit);
            tcp.finish(Peer, emit);
            tcp.finish(Peer, emit);
            tcp.send(Peer, b"after the end", emit);
            tcp.send(Local, b"more", emit);
            tcp.finish(Local, emit);
            tcp.reset(Local, emit);
        });
        let none = Vec::new;
        let expected = [
            (Peer, SYN, 0, 0, none(), 0),
            (Local, SYN | ACK, 0, 1, none(), 0),
            (Peer, ACK, 1, 1, none(), 0),
            (Peer, ACK | PSH, 1, 1, b"request".to_vec(), 7),
            (Local, ACK | PSH, 1, 8, b"answer".to_vec(), 6),
            (Peer, FIN | ACK, 8, 7, none(), 0),
            (Local, ACK, 7, 9, none(), 0),
            (Local, ACK | PSH, 7, 9, b"more".to_vec(), 4),
            (Local, FIN | ACK, 11, 9, none(), 0),
            (Peer, ACK, 9, 12, none(), 0),
        ];
        assert_eq!(segments, expected);
    }

    #[test]
    fn k06_a_reset_ends_both_directions() {
        let segments = collect(|tcp, emit| {
            tcp.reset(Side::Peer, emit);
            tcp.open(Side::Local, emit);
            tcp.send(Side::Local, b"abc", emit);
            tcp.reset(Side::Peer, emit);
            tcp.send(Side::Local, b"late", emit);
            tcp.finish(Side::Local, emit);
            tcp.reset(Side::Local, emit);
        });
        assert_eq!(segments.len(), 5);
        assert_eq!(segments[4], (Side::Peer, RST | ACK, 1, 4, vec![], 0));
    }

    #[test]
    fn k06_long_messages_are_split_and_acknowledged() {
        let bytes: Vec<u8> = (0..3_000_000).map(|i| (i % 251) as u8).collect();
        let segments = collect(|tcp, emit| {
            tcp.open(Side::Local, emit);
            tcp.send(Side::Local, &bytes, emit);
        });
        let data: Vec<_> = segments.iter().filter(|segment| segment.5 > 0).collect();
        assert_eq!(data.len(), bytes.len().div_ceil(MAX_TCP_PAYLOAD));
        let is_pushed = |segment: &&Segment| segment.1 & PSH != 0;
        assert!(
            data.iter().copied().rposition(|segment| is_pushed(&segment)) == Some(data.len() - 1)
        );
        assert_eq!(data.iter().copied().filter(is_pushed).count(), 1);
        assert_eq!(segments.iter().filter(|segment| segment.0 == Side::Peer).count(), 1 + 2);
        assert_eq!(data.iter().flat_map(|segment| &segment.4).copied().collect::<Vec<_>>(), bytes);
    }

    #[test]
    fn k06_bytes_of_files_are_counted_and_not_contained() {
        let segments = collect(|tcp, emit| {
            tcp.open(Side::Local, emit);
            tcp.skip(Side::Local, 0, emit);
            tcp.skip(Side::Local, 1000, emit);
            tcp.skip(Side::Local, 1 << 33, emit);
            tcp.send(Side::Local, b"end", emit);
        });
        let skipped = |sequence, whole| (Side::Local, ACK | PSH, sequence, 1, vec![], whole);
        assert_eq!(segments[3], skipped(1, 1000));
        // 2^33 is a multiple of the numbers' range: one round, a segment and its acknowledgement for each GiB.
        for (gib, pair) in (0..).zip(segments[4..12].chunks(2)) {
            assert_eq!(pair[0], skipped(1001 + (gib << 30), MAX_TCP_PAYLOAD));
            let acknowledged = 1001u32.wrapping_add((gib + 1).wrapping_mul(1 << 30));
            assert_eq!(pair[1], (Side::Peer, ACK, 1, acknowledged, vec![], 0));
        }
        assert_eq!((segments[12].2, segments.len()), (1001, 13));
    }

    #[test]
    fn k06_sequence_numbers_wrap_around() {
        let segments = collect(|tcp, emit| {
            tcp.open(Side::Local, emit);
            tcp.sent[Side::Local as usize].next = u32::MAX - 1;
            tcp.sent[Side::Local as usize].acknowledged = u32::MAX - 1;
            tcp.send(Side::Local, b"abcd", emit);
            tcp.send(Side::Peer, b"x", emit);
        });
        assert_eq!((segments[3].2, segments[4].3), (u32::MAX - 1, 2));
    }

    #[derive(Clone, Debug)]
    enum Step {
        Send(bool, usize),
        Finish(bool),
    }

    fn step() -> impl Strategy<Value = Step> {
        prop_oneof![
            8 => (any::<bool>(), 0..150_000usize).prop_map(|(local, len)| Step::Send(local, len)),
            1 => any::<bool>().prop_map(Step::Finish),
        ]
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(32))]

        /// A receiver that follows the sequence numbers gets exactly the bytes of each side, in order, and never an
        /// acknowledgement of something that was not sent.
        #[test]
        fn k06_a_receiver_gets_the_bytes_of_both_sides(steps in prop::collection::vec(step(), 0..12)) {
            let mut sent = [Vec::new(), Vec::new()];
            let mut over = [false, false];
            let mut tcp = SyntheticTcp::new(LOCAL, PEER, 0);
            let mut segments = Vec::new();
            let emit = &mut |packet: Packet<'_>| segments.push(read_segment(&packet));
            tcp.open(Side::Peer, emit);
            for step in steps {
                let side = |local| if local { Side::Local } else { Side::Peer };
                match step {
                    Step::Send(local, len) => {
                        let bytes: Vec<u8> = (0..len).map(|i| (i * 7 + len) as u8).collect();
                        tcp.send(side(local), &bytes, emit);
                        if !over[side(local) as usize] {
                            sent[side(local) as usize].extend(bytes);
                        }
                    }
                    Step::Finish(local) => {
                        tcp.finish(side(local), emit);
                        over[side(local) as usize] = true;
                    }
                }
            }
            let mut received = [Vec::new(), Vec::new()];
            let mut next = [0u32, 0];
            for (from, flags, sequence, acknowledged, bytes, whole) in segments {
                let (from, to) = (from as usize, from.other() as usize);
                prop_assert_eq!(sequence, next[from], "no gap and no overlap");
                prop_assert!(bytes.len() == whole && whole <= MAX_TCP_PAYLOAD);
                next[from] += bytes.len() as u32 + u32::from(flags & (SYN | FIN) != 0);
                received[from].extend(bytes);
                if flags & ACK != 0 {
                    prop_assert_eq!(acknowledged, next[to], "all of the other direction");
                }
            }
            prop_assert!(received == sent);
        }
    }
}
