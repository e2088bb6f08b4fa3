//! A whole session with one fault at each place: the stream ends there, or a bit is turned.

use bytes::Bytes;
use proptest::prelude::*;
use waterwheel_channel::{ChannelFuture, ChannelOptions};
use waterwheel_tls::rustls::ProtocolVersion;
use waterwheel_tls::rustls::client::Resumption;
use waterwheel_tls::{TlsError, TlsHandler, TlsOptions};

use super::attacker::{TLS_1_2, TLS_1_3};
use crate::support::{Configs, End, Link, deliver};

/// The damage to the bytes of one direction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fault {
    /// The stream ends before this byte.
    Cut(usize),
    /// The bit of this byte is turned.
    Flip(usize, u8),
}

/// One direction of a link.
#[derive(Default)]
struct Direction {
    fault: Option<Fault>,
    passed: usize,
    /// The places where records begin, and where the next one will.
    records: Vec<usize>,
    next_record: usize,
    is_cut: bool,
}

impl Direction {
    fn pass(&mut self, mut bytes: Vec<u8>, to: &mut End) {
        let begin = self.passed;
        self.passed += bytes.len();
        while self.next_record + 5 <= self.passed {
            let at = self.next_record;
            self.records.push(at);
            let length = [bytes[at + 3 - begin], bytes[at + 4 - begin]];
            self.next_record = at + 5 + usize::from(u16::from_be_bytes(length));
        }
        match self.fault {
            Some(Fault::Flip(at, bit)) if (begin..self.passed).contains(&at) => {
                bytes[at - begin] ^= 1 << bit;
            }
            Some(Fault::Cut(at)) if self.passed > at => {
                bytes.truncate(at.saturating_sub(begin));
                deliver(&mut to.channel, &bytes, usize::MAX);
                if !std::mem::replace(&mut self.is_cut, true) {
                    to.channel.finish_inbound();
                }
                return;
            }
            _ => {}
        }
        deliver(&mut to.channel, &bytes, usize::MAX);
    }
}

/// The outcome of a session on one side.
#[derive(Debug)]
struct Outcome {
    received: Vec<u8>,
    error: Option<TlsError>,
    has_peer_closed: bool,
}

struct Session {
    link: Link,
    to_server: Direction,
    to_client: Direction,
    writes: Vec<ChannelFuture>,
}

const REQUEST: &[u8] = b"a request in two records";
const RESPONSE: &[u8] = b"a response in one record, and a little longer";

impl Session {
    fn new(configs: &Configs, fault: (Side, Fault)) -> Self {
        let (mut to_server, mut to_client) = (Direction::default(), Direction::default());
        match fault.0 {
            Side::Server => to_server.fault = Some(fault.1),
            Side::Client => to_client.fault = Some(fault.1),
        }
        let link = Link::with(configs, TlsOptions::default());
        Self { link, to_server, to_client, writes: Vec::new() }
    }

    fn exchange(&mut self) {
        loop {
            self.link.client.settle();
            self.link.server.settle();
            let (to_server, to_client) = (self.link.client.sent(), self.link.server.sent());
            if to_server.is_empty() && to_client.is_empty() {
                return;
            }
            self.to_server.pass(to_server, &mut self.link.server);
            self.to_client.pass(to_client, &mut self.link.client);
        }
    }

    /// Runs the session to the end of both channels. Returns the outcome for the server and the client.
    fn run(&mut self) -> [Outcome; 2] {
        let (first, second) = REQUEST.split_at(10);
        for part in [first, second] {
            let part = Bytes::from_static(part);
            self.writes.push(self.link.client.channel.write_outbound(part));
        }
        self.writes.push(self.link.server.channel.write_outbound(Bytes::from_static(RESPONSE)));
        self.exchange();
        self.link.client.channel.close();
        self.exchange();
        // The transports are closed by now, in one order or the other.
        self.link.server.channel.finish_inbound();
        self.exchange();
        self.link.client.channel.finish_inbound();
        self.exchange();
        for write in &self.writes {
            assert!(write.is_done(), "a write is neither done nor failed");
        }
        [outcome(&mut self.link.server), outcome(&mut self.link.client)]
    }
}

fn outcome(end: &mut End) -> Outcome {
    assert!(!end.channel.channel().is_open(), "still open");
    assert_eq!(end.channel.channel().pending_bytes(), 0);
    let error = end.channel.read_error();
    assert!(end.channel.read_error().is_none(), "one error, not two, after {error:?}");
    Outcome {
        received: end.received(),
        error: error.map(|error| error.find::<TlsError>().expect("of TLS").clone()),
        has_peer_closed: end.events.take().contains(&"peer closed".to_owned()),
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Side {
    Server,
    Client,
}

/// Returns configurations without resumption: every session has about as many bytes as the last.
pub(super) fn configs(version: ProtocolVersion) -> Configs {
    let mut configs = if version == TLS_1_2 { Configs::tls12() } else { Configs::new() };
    let mut client = (**configs.client.config()).clone();
    client.resumption = Resumption::disabled();
    configs.client = client.into();
    configs
}

/// Asserts what holds for every fault: no side gets anything but a prefix of what was sent to it.
fn assert_prefixes([server, client]: &[Outcome; 2], fault: impl std::fmt::Debug) {
    assert!(REQUEST.starts_with(&server.received), "{fault:?}: {server:?}");
    assert!(RESPONSE.starts_with(&client.received), "{fault:?}: {client:?}");
}

/// Returns the number of bytes that a session sends to this side.
fn length(configs: &Configs, side: Side) -> usize {
    let mut session = Session::new(configs, (side, Fault::Cut(usize::MAX)));
    let [server, client] = session.run();
    assert_eq!((&server.error, &client.error), (&None, &None));
    assert_eq!((&server.received[..], &client.received[..]), (REQUEST, RESPONSE));
    match side {
        Side::Server => session.to_server.passed,
        Side::Client => session.to_client.passed,
    }
}

#[test]
fn t08_a_stream_that_ends_at_any_byte_is_told_as_such() {
    for version in [TLS_1_2, TLS_1_3] {
        let configs = configs(version);
        for side in [Side::Server, Side::Client] {
            let mut has_established = false;
            for at in 0..length(&configs, side) {
                let mut session = Session::new(&configs, (side, Fault::Cut(at)));
                let outcomes = session.run();
                assert_prefixes(&outcomes, (version, side, at));
                let link = &session.link;
                let (end, outcome) = match side {
                    Side::Server => (&link.server, &outcomes[0]),
                    Side::Client => (&link.client, &outcomes[1]),
                };
                let is_established = end.events.handshake().is_some();
                has_established |= is_established;
                // A client that has closed its side already does not care how the other ends.
                let expected = match is_established {
                    false => Some(TlsError::HandshakeCutOff),
                    true if side == Side::Server && !outcome.has_peer_closed => {
                        Some(TlsError::Truncated)
                    }
                    true => outcome.error.clone().filter(|error| *error == TlsError::Truncated),
                };
                assert_eq!(outcome.error, expected, "{version:?}, {side:?} at {at}: {outcome:?}");
            }
            assert!(has_established);
        }
    }
}

#[test]
fn t08_a_bit_that_is_turned_anywhere_ends_the_session_with_an_error() {
    for version in [TLS_1_2, TLS_1_3] {
        let configs = configs(version);
        for side in [Side::Server, Side::Client] {
            for at in 0..length(&configs, side) {
                assert_flip_fails(&configs, side, at, (at * 5 % 8) as u8);
            }
        }
    }
}

fn assert_flip_fails(configs: &Configs, side: Side, at: usize, bit: u8) {
    let mut session = Session::new(configs, (side, Fault::Flip(at, bit)));
    let outcomes = session.run();
    assert_prefixes(&outcomes, (side, at, bit));
    let direction = if side == Side::Server { &session.to_server } else { &session.to_client };
    let record = *direction.records.iter().rfind(|begin| **begin <= at).unwrap();
    let is_silent = match at - record {
        // The type and the version are not authenticated everywhere.
        0..=2 => true,
        // With a longer record, the client waits until it closes by itself; then it reads no more.
        3..=4 => side == Side::Client,
        _ => side == Side::Client && record == *direction.records.last().unwrap(),
    };
    let has_failed = outcomes.iter().any(|outcome| outcome.error.is_some());
    assert!(has_failed || is_silent, "{side:?} at {at}, bit {bit}: {outcomes:?}");
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, failure_persistence: None, ..ProptestConfig::default() })]

    /// Tests damage in sessions that resume an earlier one.
    #[test]
    fn t08_a_bit_turned_in_a_resumed_session_ends_it_with_an_error(
        to_server in any::<bool>(),
        at in 0usize..3_000,
        bit in 0u8..8,
    ) {
        let configs = Configs::new();
        let side = if to_server { Side::Server } else { Side::Client };
        length(&configs, side);
        let at = at % length(&configs, side);
        assert_flip_fails(&configs, side, at, bit);
    }

    #[test]
    fn t08_random_bytes_neither_panic_nor_establish(
        bytes in proptest::collection::vec(any::<u8>(), 0..3_000),
        cut in 1usize..500,
    ) {
        let handler = TlsHandler::server(Configs::new().server);
        let mut server = End::new(handler, ChannelOptions::default());
        deliver(&mut server.channel, &bytes, cut);
        server.channel.finish_inbound();
        prop_assert!(server.events.handshake().is_none());
        prop_assert!(server.channel.read_error().is_some());
        prop_assert!(!server.channel.channel().is_open());
    }
}
