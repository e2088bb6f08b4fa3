//! Allocations of WebSocket connections over sockets, once buffers have grown to their size (W07).

use std::error::Error;
use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::time::Duration;

use waterwheel::channel::{
    ChannelGroup, ChannelOptions, EventLoopGroup, HandlerResult, ManualEventLoop, NewChannel,
    Stream,
};
use waterwheel::http::{HttpServer, Request, Response};
use waterwheel::net::{Auto, Socket};
use waterwheel::websocket::{
    BroadcastMessage, HandshakeError, ShortMessage, WebSocketContext, WebSocketHandler,
    WebSocketMessage, WebSocketOptions, WebSocketUpgrade,
};

#[path = "../../../../support/counting_allocator.rs"]
mod counting_allocator;

use counting_allocator::allocations_in;

/// The rounds that are measured; as many come before.
const ROUNDS: u64 = 200;

/// The fields of an opening request, behind its first line.
const FIELDS: &str = "Host: localhost\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\
    Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\n\r\n";

const PAYLOAD: [u8; 64] = [b'x'; 64];

/// Echoes a message that it owns.
struct EchoByValue;

impl WebSocketHandler for EchoByValue {
    fn on_message(
        &mut self,
        socket: &WebSocketContext<'_>,
        message: WebSocketMessage,
    ) -> HandlerResult {
        Ok(socket.send(message)?)
    }
}

/// Echoes a message that it borrows.
struct EchoByReference;

impl WebSocketHandler for EchoByReference {
    fn on_message(&mut self, _: &WebSocketContext<'_>, _: WebSocketMessage) -> HandlerResult {
        Ok(())
    }

    fn on_short_message(
        &mut self,
        socket: &WebSocketContext<'_>,
        message: ShortMessage<'_>,
    ) -> HandlerResult {
        Ok(socket.send_short(message)?)
    }
}

/// Sends what it reads to all connections.
struct Broadcast(ChannelGroup);

impl WebSocketHandler for Broadcast {
    fn on_open(&mut self, socket: &WebSocketContext<'_>) -> HandlerResult {
        self.0.add(&socket.channel());
        Ok(())
    }

    fn on_message(&mut self, _: &WebSocketContext<'_>, message: WebSocketMessage) -> HandlerResult {
        if let WebSocketMessage::Binary(bytes) = message {
            self.0.send(BroadcastMessage::binary(bytes));
        }
        Ok(())
    }
}

/// A server and its clients, on one thread.
struct Bench {
    event_loop: ManualEventLoop,
    peers: Vec<UnixStream>,
}

impl Bench {
    /// Opens so many connections to a path: `/value`, `/reference` or `/broadcast`.
    fn new(path: &str, connections: usize) -> Result<Self, Box<dyn Error>> {
        let group = ChannelGroup::new("all");
        let server = HttpServer::new(async move |request: Request| {
            let upgrade = WebSocketUpgrade::of(&request, &WebSocketOptions::default())?;
            Ok::<Response, HandshakeError>(match request.path() {
                "/value" => upgrade.handle(EchoByValue),
                "/reference" => upgrade.handle(EchoByReference),
                _ => upgrade.handle(Broadcast(group.clone())),
            })
        });
        let mut event_loop = EventLoopGroup::builder(Auto).build_manual()?;
        let open_one = |_| open(&mut event_loop, &server, path);
        let peers = (0..connections).map(open_one).collect::<Result<_, _>>()?;
        Ok(Self { event_loop, peers })
    }

    /// Sends a message from the first connection, and reads what the server sends to each.
    fn round(&mut self, frame: &[u8]) {
        self.peers[0].write_all(frame).unwrap();
        self.event_loop.turn(Some(Duration::ZERO));
        let mut answer = [0; PAYLOAD.len() + 2];
        for peer in &mut self.peers {
            peer.read_exact(&mut answer).unwrap();
            assert_eq!(answer[2..], PAYLOAD);
        }
    }

    /// Returns the allocations of a round.
    fn allocations_per_round(&mut self, first: u8) -> f64 {
        let mut frame = vec![first, 0x80 | PAYLOAD.len() as u8, 1, 2, 3, 4];
        let mask = [1, 2, 3, 4].into_iter().cycle();
        frame.extend(PAYLOAD.iter().zip(mask).map(|(byte, mask)| byte ^ mask));
        let mut run = || (0..ROUNDS).for_each(|_| self.round(&frame));
        run();
        allocations_in(run).0 as f64 / ROUNDS as f64
    }
}

fn open(
    event_loop: &mut ManualEventLoop,
    server: &HttpServer,
    path: &str,
) -> Result<UnixStream, Box<dyn Error>> {
    let ((mut peer, socket), server) = (UnixStream::pair()?, server.clone());
    peer.set_read_timeout(Some(Duration::from_secs(20)))?;
    let options = ChannelOptions { allow_half_closure: true, ..ChannelOptions::default() };
    let stream = Stream::connected(Socket::new(socket)?.into(), None);
    let new = NewChannel::new(stream).options(options);
    event_loop
        .on_loop(|here| here.register_with(new, |edit| server.initialise(edit)))
        .ok_or("the loop has ended")??;
    write!(peer, "GET {path} HTTP/1.1\r\n{FIELDS}")?;
    for _ in 0..4 {
        event_loop.turn(Some(Duration::ZERO));
    }
    let mut answer = [0; 4096];
    let len = peer.read(&mut answer)?;
    assert!(answer[..len].starts_with(b"HTTP/1.1 101 ") && answer[..len].ends_with(b"\r\n\r\n"));
    Ok(peer)
}

#[test]
fn w07_a_short_message_that_is_echoed_by_reference_allocates_nothing() {
    for first in [0x81, 0x82] {
        let mut bench = Bench::new("/reference", 1).unwrap();
        assert_eq!(bench.allocations_per_round(first), 0.0, "{first:#x}");
    }
}

/// The memory of the message.
#[test]
fn w07_a_short_message_that_is_echoed_by_value_is_one_allocation() {
    for first in [0x81, 0x82] {
        let mut bench = Bench::new("/value", 1).unwrap();
        assert_eq!(bench.allocations_per_round(first), 1.0, "{first:#x}");
    }
}

/// The allocations of a broadcast are its message, its lists of members, and the growth by doubling of the loop's list of
/// channels that have to write, which is freed after a burst.
#[test]
fn w07_a_delivery_of_a_broadcast_allocates_nothing() {
    let [few, many] = [5, 50].map(|members| {
        let mut bench = Bench::new("/broadcast", members).unwrap();
        bench.allocations_per_round(0x82)
    });
    assert!(few <= 6.0, "{few} per broadcast");
    assert!(many <= few + 5.0, "{many} per broadcast to ten times as many, beside {few}");
}
