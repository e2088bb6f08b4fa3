//! A TLS connection between two embedded channels, under operations that are decoded from bytes: writes, closes, bytes
//! that arrive in pieces or damaged, a peer that stops reading, time that passes. Whatever they are:
//!
//! - nothing panics, and nothing waits without an end;
//! - each side reads a prefix of what the other has written, in order;
//! - everything flushed arrives, and there is no error, if no fault was injected;
//! - a side has at most one error, and is closed after it;
//! - on a closed channel, every write has a result and no bytes are pending.
//!
//! For the property test in `waterwheel-tls` and the fuzz target `tls_records`.

mod end;
mod operation;

use std::time::Duration;

use bytes::Bytes;
use waterwheel_channel::{Channel, ChannelOptions, WaterMarks};
use waterwheel_executor::Error;
use waterwheel_tls::rustls::pki_types::ServerName;
use waterwheel_tls::{ClientTls, OnCloseNotify, ServerTls, StopTls, TlsHandler, TlsOptions};

use self::end::{AbortRequest, End, Write};
use self::operation::{Action, Damage, Operation, Side};

/// Runs a connection. The first byte has the options, and every four bytes after it are an operation. `configs` are
/// those of TLS 1.3 and 1.2, for servers with this name.
///
/// # Panics
/// If a rule of this module is broken.
pub(crate) fn run(configs: &[(ServerTls, ClientTls); 2], name: &str, input: &[u8]) {
    let Some((&options, operations)) = input.split_first() else { return };
    let is_harmless = options & 64 != 0;
    let mut connection = Connection::new(configs, name, options);
    for bytes in operations.as_chunks().0 {
        let operation = Operation::decode(*bytes);
        if !(is_harmless && operation.is_harmful()) {
            connection.apply(operation);
            connection.check();
        }
    }
    connection.finish();
}

struct Connection {
    client: End,
    server: End,
    /// True if bytes were damaged, or a channel was aborted.
    is_damaged: bool,
    /// The damage was to what goes to this side.
    is_damaged_to: [bool; 2],
    /// True if the network has not taken everything at once.
    has_stalled: bool,
    passed: Duration,
}

/// The shortest limit of the handler: from here on, time may end a connection.
const SHORTEST_LIMIT: Duration = Duration::from_secs(3);

impl Connection {
    fn new(configs: &[(ServerTls, ClientTls); 2], name: &str, options: u8) -> Self {
        let (server, client) = &configs[usize::from(options & 1)];
        let reaction = |bits: u8| match bits & 3 {
            0 | 3 => OnCloseNotify::Close,
            1 => OnCloseNotify::HalfClose,
            _ => OnCloseNotify::StopTls,
        };
        let awaits = options & 32 != 0;
        let tls_options = |on_close_notify| {
            let options = TlsOptions::builder().on_close_notify(on_close_notify);
            options.await_close_notify(awaits).build().unwrap()
        };
        let mut channel = ChannelOptions::default();
        if options & 128 != 0 {
            channel.water_marks = WaterMarks::new(500, 1_000).unwrap();
        }
        let (of_client, of_server) = (reaction(options >> 1), reaction(options >> 3));
        let name = ServerName::try_from(name.to_owned()).unwrap();
        let client = TlsHandler::client(client.clone(), name).with_options(tls_options(of_client));
        let server = TlsHandler::server(server.clone()).with_options(tls_options(of_server));
        Self {
            client: End::new(client, of_client, channel),
            server: End::new(server, of_server, channel),
            is_damaged: false,
            is_damaged_to: [false; 2],
            has_stalled: false,
            passed: Duration::ZERO,
        }
    }

    fn end(&mut self, side: Side) -> &mut End {
        match side {
            Side::Client => &mut self.client,
            Side::Server => &mut self.server,
        }
    }

    /// Returns the sender and the receiver of what goes to this side.
    fn direction(&mut self, to: Side) -> (&mut End, &mut End) {
        match to {
            Side::Client => (&mut self.server, &mut self.client),
            Side::Server => (&mut self.client, &mut self.server),
        }
    }

    fn apply(&mut self, Operation { side, action }: Operation) {
        let end = self.end(side);
        match action {
            Action::Exchange => self.exchange(),
            Action::Deliver { count } => drop(self.deliver(side, count)),
            Action::DeliverRecord => {
                let count = record_length(&end_of(self, side.other()).wire);
                self.deliver(side, count);
            }
            Action::Write { size, flushes, has_future } => end.write(size, flushes, has_future),
            Action::Flush => end.flush(),
            Action::CancelWrite { number } => end.cancel_write(number),
            Action::SetRoom { bytes } => {
                end.channel.set_room(bytes);
                self.has_stalled = true;
            }
            Action::ClearRoom => end.channel.clear_faults(),
            Action::ShutdownOutput => end.end(Channel::shutdown_output),
            Action::Close => end.end(Channel::close),
            Action::Disconnect => end.end(Channel::disconnect),
            Action::StopTls => {
                if !std::mem::replace(&mut end.requests.has_stopped_tls, true) {
                    end.mark_flushed();
                }
                end.channel.fire_user_event(StopTls);
            }
            Action::Abort => {
                end.channel.fire_user_event(AbortRequest);
                self.is_damaged = true;
            }
            Action::Reset => {
                end.channel.fail(Error::new("reset by the peer"));
                self.is_damaged = true;
            }
            Action::Advance { by } => self.advance(by),
            Action::Damage(damage) => self.damage(side, damage),
        }
        self.settle();
    }

    fn settle(&mut self) {
        self.client.settle();
        self.server.settle();
    }

    fn advance(&mut self, by: Duration) {
        self.passed += by;
        self.client.channel.advance(by);
        self.server.channel.advance(by);
        self.settle();
    }

    /// Delivers up to so many bytes, or the end of the stream. Returns false if there is nothing.
    fn deliver(&mut self, to: Side, count: usize) -> bool {
        let (sender, receiver) = self.direction(to);
        sender.settle();
        let count = count.min(sender.wire.len());
        if count > 0 {
            let bytes = sender.wire.drain(..count).collect::<Vec<_>>();
            if !sender.has_delivered_end {
                receiver.channel.write_inbound(Bytes::from(bytes));
            }
            return true;
        }
        if !sender.is_output_over() || sender.has_delivered_end {
            return false;
        }
        sender.has_delivered_end = true;
        receiver.channel.finish_inbound();
        true
    }

    fn exchange(&mut self) {
        for _ in 0..10_000 {
            self.settle();
            let has_delivered = Side::BOTH.map(|side| self.deliver(side, usize::MAX));
            if has_delivered == [false; 2] {
                return;
            }
        }
        panic!("the two sides never fall silent");
    }

    fn damage(&mut self, to: Side, damage: Damage) {
        self.is_damaged = true;
        self.is_damaged_to[to as usize] = true;
        let (sender, receiver) = self.direction(to);
        let wire = &mut sender.wire;
        let len = wire.len();
        match damage {
            Damage::FlipBit { at, bit } => {
                if let Some(byte) = wire.get_mut(at % len.max(1)) {
                    *byte ^= 1 << bit;
                }
            }
            Damage::Insert { at, count, byte } => {
                let at = at.min(len);
                wire.splice(at..at, std::iter::repeat_n(byte, count));
            }
            Damage::Drop { at, count } => {
                let at = at.min(len);
                wire.drain(at..(at + count).min(len));
            }
            Damage::DuplicateRecord => {
                let record = wire[..record_length(wire)].to_vec();
                wire.splice(..0, record);
            }
            Damage::EndStream => {
                if !std::mem::replace(&mut sender.has_delivered_end, true) {
                    receiver.channel.finish_inbound();
                }
            }
        }
    }

    /// Asserts what holds at any time.
    fn check(&self) {
        for side in Side::BOTH {
            end_of(self, side).check();
            self.check_received(side, false);
        }
        let ends = [&self.client, &self.server];
        // The end of a stream closes a channel without half-closure, whose peer may not have read its close_notify.
        let is_faultless = !self.may_fail()
            && ends.iter().all(|end| !end.requests.has_ended_before_handshake)
            && (!self.has_stalled || ends.iter().all(|end| !end.requests.has_ended));
        if is_faultless {
            let errors = ends.map(|end| &end.errors);
            assert!(errors.iter().all(|errors| errors.is_empty()), "without a fault: {errors:?}");
        }
    }

    fn may_fail(&self) -> bool {
        self.is_damaged || self.passed >= SHORTEST_LIMIT
    }

    /// Asserts that this side has received a prefix of what the other has written, and all of it if `is_complete`.
    fn check_received(&self, side: Side, is_complete: bool) {
        let (receiver, sender) = (end_of(self, side), end_of(self, side.other()));
        let log = receiver.log.borrow();
        let mut received = &log.received[..];
        // Nothing protects what comes after the end of TLS.
        if let Some(in_tls) = log.received_in_tls.filter(|_| self.is_damaged_to[side as usize]) {
            received = &received[..in_tls];
        }
        let reads_after_stop = receiver.on_close_notify == OnCloseNotify::StopTls;
        for (number, write) in sender.writes.iter().enumerate() {
            let is_here = !write.is_cancelled()
                && received.first().is_none_or(|first| write.content.first() == Some(first));
            if is_here {
                let common = received.len().min(write.content.len());
                assert!(received[..common] == write.content[..common], "write {number} is damaged");
                received = &received[common..];
                let must_be_here = is_complete
                    && write.is_flushed
                    && !write.may_be_missing()
                    && (reads_after_stop || !write.is_after_stop);
                let is_whole = common == write.content.len();
                assert!(is_whole || !must_be_here, "{side:?} lacks write {number}");
            } else {
                assert!(is_skippable(write), "{side:?} has no write {number}, but what follows it");
            }
        }
        assert!(received.is_empty(), "{side:?} has received what nobody wrote");
    }

    /// True if everything flushed for this side has to arrive.
    fn must_be_complete(&self, side: Side) -> bool {
        let (receiver, sender) = (end_of(self, side), end_of(self, side.other()));
        let is_established = receiver.is_established() && sender.is_established();
        // Without TLS, a close does not wait for a slow peer.
        let is_closed_without_tls =
            sender.requests.has_ended && sender.log.borrow().received_in_tls.is_some();
        let may_be_cut_off = self.has_stalled && is_closed_without_tls;
        is_established && !self.may_fail() && !receiver.requests.has_ended && !may_be_cut_off
    }

    /// Lets everything arrive, closes both sides, and asserts that nothing is left.
    fn finish(&mut self) {
        for side in Side::BOTH {
            self.end(side).channel.clear_faults();
        }
        self.exchange();
        self.check();
        for side in Side::BOTH {
            self.check_received(side, self.must_be_complete(side));
        }
        for side in Side::BOTH {
            self.end(side).end(Channel::close);
            self.exchange();
            self.check();
        }
        let may_wait = self.may_fail();
        for _ in 0..6 {
            if may_wait {
                self.advance(SHORTEST_LIMIT);
                self.exchange();
                self.check();
            }
        }
        assert!(!self.client.is_open(), "the client is not closed");
        assert!(!self.server.is_open(), "the server is not closed");
    }
}

fn end_of(connection: &Connection, side: Side) -> &End {
    match side {
        Side::Client => &connection.client,
        Side::Server => &connection.server,
    }
}

fn is_skippable(write: &Write) -> bool {
    write.content.is_empty() || write.is_cancelled() || write.may_be_missing()
}

/// Returns the length of the first record, or of what is there of it.
fn record_length(wire: &[u8]) -> usize {
    match wire {
        [_, _, _, high, low, ..] => {
            let length = 5 + usize::from(u16::from_be_bytes([*high, *low]));
            length.min(wire.len())
        }
        _ => wire.len(),
    }
}
