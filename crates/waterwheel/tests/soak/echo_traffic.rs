//! Echo scenarios: a client sends data and receives the same data.

use bytes::{Bytes, BytesMut};
use waterwheel::channel::ChannelOptions;

use crate::client_connection::{ClientConnection, ConnectionEnd, get};
use crate::handlers::{CHECKED, PassThrough};
use crate::random::SeededRng;
use crate::soak_setup::{Service, SoakSetup};

/// Largest read of an echo server. A write must not be larger: the local transport delivers it in one read.
const PIECE: usize = 4096;

/// Returns random bytes whose first byte is [`CHECKED`].
fn checked_data(rng: &mut SeededRng, len: usize) -> Bytes {
    let mut data = BytesMut::from(&[CHECKED][..]);
    data.extend_from_slice(&rng.bytes(len));
    data.freeze()
}

fn any_service(rng: &mut SeededRng) -> Service {
    Service::ALL[rng.below(Service::ALL.len())]
}

/// A connection to an echo server, with the data sent and received on it.
struct EchoExchange<'w> {
    setup: &'w SoakSetup,
    service: Service,
    connection: ClientConnection,
    /// All bytes sent: the server must return them.
    sent: BytesMut,
    received: Vec<u8>,
    end: ConnectionEnd,
}

impl<'w> EchoExchange<'w> {
    /// Connects to a random service. Returns `None` if the connect failed because of an injected fault.
    fn begin(setup: &'w SoakSetup, rng: &mut SeededRng, options: ChannelOptions) -> Option<Self> {
        let service = any_service(rng);
        Self::begin_with(setup, service, rng, options)
    }

    fn begin_with(
        setup: &'w SoakSetup,
        service: Service,
        rng: &mut SeededRng,
        options: ChannelOptions,
    ) -> Option<Self> {
        let connection = setup.connect(service, rng, options)?;
        let (sent, received) = (BytesMut::new(), Vec::new());
        Some(Self { setup, service, connection, sent, received, end: ConnectionEnd::Open })
    }

    fn send(&mut self, piece: Bytes) {
        self.sent.extend_from_slice(&piece);
        self.connection.channel.send(piece);
    }

    /// Receives until everything that was sent is back, or the connection has ended.
    #[track_caller]
    fn receive_all(&mut self) {
        if self.end == ConnectionEnd::Open {
            let (read, end) = self.connection.receive(self.sent.len() - self.received.len());
            self.received.extend(read);
            self.end = end;
        }
    }

    /// Shuts down the output, waits until the server does too, and compares the data.
    #[track_caller]
    fn finish(mut self) {
        drop(self.connection.channel.shutdown_output());
        self.receive_all();
        if self.end == ConnectionEnd::Open {
            let (more, end) = self.connection.receive(usize::MAX);
            self.received.extend(more);
            self.end = end;
        }
        self.compare();
        self.connection.close();
    }

    #[track_caller]
    fn compare(&self) {
        let Self { setup, service, sent, received, end, .. } = self;
        let (all, got) = (sent.len(), received.len());
        assert!(got <= all, "{service:?}: {got} bytes received for {all} sent");
        assert!(
            sent[..got] == received[..],
            "{service:?}: the received data differs from the sent data"
        );
        // An early end must be the server's FIN, unless nothing was received.
        let is_orderly = *end == ConnectionEnd::Finished || got == 0;
        let is_expected = if got == all {
            *end == ConnectionEnd::Finished
        } else {
            service.may_end_early() && is_orderly
        };
        assert!(
            is_expected,
            "{service:?}: {end:?} after {got} of {all} bytes; {:?}",
            self.connection.channel
        );
        setup.common.byte_counts.add_client(all, got);
    }
}

/// Sends everything at once.
pub(crate) fn burst(setup: &SoakSetup, rng: &mut SeededRng) {
    let Some(mut exchange) = EchoExchange::begin(setup, rng, ChannelOptions::default()) else {
        return;
    };
    let len = rng.below(200_000);
    let data = checked_data(rng, len);
    for piece in rng.cut(data, PIECE) {
        exchange.send(piece);
    }
    exchange.finish();
}

/// Sends a piece, and waits for its echo before the next.
pub(crate) fn request_and_response(setup: &SoakSetup, rng: &mut SeededRng) {
    let Some(mut exchange) = EchoExchange::begin(setup, rng, ChannelOptions::default()) else {
        return;
    };
    let data = checked_data(rng, 20_000);
    for piece in rng.cut(data, 2_000) {
        exchange.send(piece);
        exchange.receive_all();
    }
    exchange.finish();
}

/// Writes and flushes each byte by itself.
pub(crate) fn byte_by_byte(setup: &SoakSetup, rng: &mut SeededRng) {
    let Some(mut exchange) = EchoExchange::begin(setup, rng, ChannelOptions::default()) else {
        return;
    };
    let data = checked_data(rng, 300);
    for piece in rng.cut(data, 1) {
        exchange.send(piece);
    }
    exchange.finish();
}

/// Reads without auto-read, one read per round: the server is held back by its unwritable channel.
pub(crate) fn read_slowly(setup: &SoakSetup, rng: &mut SeededRng) {
    let options =
        ChannelOptions { auto_read: false, reads_per_round: 1, ..ChannelOptions::default() };
    let Some(mut exchange) = EchoExchange::begin(setup, rng, options) else { return };
    let data = checked_data(rng, 1 << 20);
    for piece in rng.cut(data, PIECE) {
        exchange.send(piece);
    }
    exchange.finish();
}

/// Adds and removes a handler of the client's pipeline while data flows.
pub(crate) fn edit(setup: &SoakSetup, rng: &mut SeededRng) {
    let Some(mut exchange) = EchoExchange::begin(setup, rng, ChannelOptions::default()) else {
        return;
    };
    let data = checked_data(rng, 50_000);
    for piece in rng.cut(data, 2_000) {
        exchange.send(piece);
        let edited = exchange.connection.channel.with_pipeline(|pipeline| {
            if pipeline.slot("pass").is_some() {
                pipeline.remove("pass").expect("the handler is in the pipeline");
            } else {
                pipeline
                    .add_before("tap", "pass", PassThrough)
                    .expect("the last handler is in the pipeline");
            }
        });
        // A channel that was closed meanwhile has no pipeline.
        if get(edited).is_err() {
            assert!(exchange.service.may_end_early(), "{:?}", exchange.connection.channel);
        }
    }
    exchange.finish();
}

/// Deregisters the client from its loop and registers it again while data flows.
pub(crate) fn reregister(setup: &SoakSetup, rng: &mut SeededRng) {
    let Some(mut exchange) = EchoExchange::begin(setup, rng, ChannelOptions::default()) else {
        return;
    };
    let data = checked_data(rng, 100_000);
    for piece in rng.cut(data, PIECE) {
        exchange.send(piece);
        // A channel cannot deregister while a write is under way; it stays registered then.
        if get(exchange.connection.channel.deregister()).is_ok() {
            get(exchange.connection.channel.register()).expect("the channel registers again");
        }
    }
    exchange.finish();
}

/// Cancels some of the client's writes.
pub(crate) fn cancel_writes(setup: &SoakSetup, rng: &mut SeededRng) {
    let Some(mut exchange) = EchoExchange::begin(setup, rng, ChannelOptions::default()) else {
        return;
    };
    exchange.send(checked_data(rng, 0));
    let data = rng.bytes(50_000);
    for piece in rng.cut(data, 2_000) {
        let write = exchange.connection.channel.write(piece.clone());
        if rng.below(2) == 0 || !write.cancel() {
            exchange.sent.extend_from_slice(&piece);
        }
        if rng.below(4) == 0 {
            exchange.connection.channel.flush();
        }
    }
    exchange.connection.channel.flush();
    exchange.finish();
}

/// Sends pieces of random sizes over TLS, some of them larger than a record, and waits for the echo now and then.
pub(crate) fn echo_over_tls(setup: &SoakSetup, rng: &mut SeededRng) {
    let options = ChannelOptions { auto_read: rng.below(4) > 0, ..ChannelOptions::default() };
    let exchange = EchoExchange::begin_with(setup, Service::Tls, rng, options);
    let Some(mut exchange) = exchange else { return };
    let len = rng.below(300_000);
    let data = checked_data(rng, len);
    let largest = [100, 4_000, 50_000][rng.below(3)];
    for piece in rng.cut(data, largest) {
        exchange.send(piece);
        if rng.below(16) == 0 {
            exchange.receive_all();
        }
    }
    exchange.finish();
}
