//! The memory of idle connections: budgets for many on one loop (R04, W03). `docs/WEBSOCKET.md` states the figures.

use std::time::Duration;

use bytes::Bytes;
use waterwheel_channel::{
    Address, Ctx, EventLoopGroup, Events, Handler, HandlerResult, ManualEventLoop, Msg,
    ServerBootstrap,
};
use waterwheel_executor::Error;
use waterwheel_http::{HttpServer, Request, Response};
use waterwheel_testkit::embedded::{EmbeddedNetwork, EmbeddedPeer};
use waterwheel_testkit::manual::Manual;
use waterwheel_websocket::{
    DeflateOptions, HandshakeError, WebSocket, WebSocketContext, WebSocketHandler,
    WebSocketMessage, WebSocketOptions, WebSocketUpgrade,
};

#[path = "../../../support/counting_allocator.rs"]
mod counting_allocator;

use counting_allocator::bytes;

const CONNECTIONS: usize = 2_000;

const REQUEST: &[u8] =
    b"GET / HTTP/1.1\r\nHost: a\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\
    Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\
    Sec-WebSocket-Extensions: permessage-deflate; client_max_window_bits\r\n\r\n";

/// The bytes of an idle connection beyond those of a channel that echoes bytes: two handlers, the decoder (300 bytes) and the
/// encoder (180) with their options, and the timer of the keep-alive.
const MAX_HANDLER_BYTES: usize = 1536;

/// The bytes with an async function: besides, the bridge, the scope, the queue of a round, and the future, whose size is
/// that of the user's (550 bytes) and more. The queue and the wire of the test have grown after the first message.
const MAX_FUNCTION_BYTES: usize = 5632;

/// A text of one character, with a mask of zeros.
const TEXT: &[u8] = b"\x81\x81\0\0\0\0x";

struct Echo;

impl WebSocketHandler for Echo {
    fn on_message(
        &mut self,
        socket: &WebSocketContext<'_>,
        message: WebSocketMessage,
    ) -> HandlerResult {
        Ok(socket.send(message)?)
    }
}

async fn echo(mut socket: WebSocket) -> Result<(), Error> {
    while let Some(message) = socket.next().await {
        socket.send(message?).await?;
    }
    Ok(())
}

/// Echoes bytes: a channel without WebSocket, to compare with.
struct EchoBytes;

impl Handler for EchoBytes {
    fn interest(&self) -> Events {
        Events::READ
    }

    fn on_read(&mut self, ctx: &Ctx<'_>, msg: Msg) -> HandlerResult {
        ctx.write_and_flush(msg);
        Ok(())
    }
}

/// Many connections of one server on one loop.
struct Crowd {
    event_loop: ManualEventLoop,
    network: EmbeddedNetwork,
    peers: Vec<EmbeddedPeer>,
}

impl Crowd {
    /// Starts a server of WebSocket.
    fn of_websocket(
        options: &WebSocketOptions,
        respond: impl Fn(WebSocketUpgrade) -> Response + Clone + Send + Sync + 'static,
    ) -> Self {
        let options = options.clone();
        let server = HttpServer::new(async move |request: Request| {
            let upgrade = WebSocketUpgrade::of(&request, &options)?;
            Ok::<_, HandshakeError>(respond(upgrade))
        });
        Self::new(|bootstrap| server.extend(bootstrap))
    }

    fn new(configure: impl FnOnce(ServerBootstrap) -> ServerBootstrap) -> Self {
        let mut event_loop = EventLoopGroup::builder(Manual::readiness()).build_manual().unwrap();
        let network = EmbeddedNetwork::new();
        let bootstrap = ServerBootstrap::new(&event_loop, network.clone());
        let bound = configure(bootstrap).bind(Address::local("crowd"));
        run(&mut event_loop);
        bound.join().unwrap();
        Self { event_loop, network, peers: Vec::with_capacity(CONNECTIONS) }
    }

    fn connect(&mut self, count: usize) {
        for _ in 0..count {
            self.peers.push(self.network.connect_peer(&Address::local("crowd")).unwrap());
            run(&mut self.event_loop);
        }
    }

    /// Sends bytes on each connection from `first` on, and checks the beginning of the answers.
    fn ask(&mut self, first: usize, sent: &'static [u8], answer: &[u8]) {
        for peer in &self.peers[first..] {
            peer.send(Bytes::from_static(sent));
            run(&mut self.event_loop);
            let received = peer.receive().expect("an answer");
            assert!(received.starts_with(answer), "{}", received.escape_ascii());
            while peer.receive().is_some() {}
        }
    }

    /// Returns the bytes that each connection holds after these questions and answers: channel, pipeline, handlers, state,
    /// and the wire of the test.
    fn bytes_of_each(mut self, asked: &[(&'static [u8], &[u8])]) -> usize {
        let mut open = |count| {
            let first = self.peers.len();
            self.connect(count);
            for (sent, answer) in asked {
                self.ask(first, sent, answer);
            }
        };
        open(100); // Whatever the loop keeps for all of them.
        let before = bytes();
        open(CONNECTIONS - 100);
        (bytes() - before) / (CONNECTIONS - 100)
    }
}

fn run(event_loop: &mut ManualEventLoop) {
    while !event_loop.is_idle() {
        event_loop.turn(Some(Duration::ZERO));
    }
}

#[test]
fn r04_an_idle_connection_holds_little() {
    let bare = Crowd::new(|bootstrap| {
        bootstrap.child_initialiser(|edit| {
            edit.add_last("echo", EchoBytes)?;
            Ok(())
        })
    });
    let bare = bare.bytes_of_each(&[(TEXT, TEXT), (TEXT, TEXT)]);
    println!("a channel that echoes bytes holds {bare} bytes");
    let plain = WebSocketOptions::default();
    let deflate = WebSocketOptions::builder().deflate(DeflateOptions::default()).build().unwrap();
    let opened: (&[u8], &[u8]) = (REQUEST, b"HTTP/1.1 101 ");
    let asked = [opened, (TEXT, b"\x81\x01x"), (TEXT, b"\x81\x01x")];
    for (name, options) in [("plain", plain), ("compressed", deflate)] {
        for asked in [&asked[..1], &asked] {
            let handler = Crowd::of_websocket(&options, |upgrade| upgrade.handle(Echo));
            let handler = handler.bytes_of_each(asked);
            let function = Crowd::of_websocket(&options, |upgrade| upgrade.run(echo));
            let function = function.bytes_of_each(asked);
            let own = [handler - bare, function - bare];
            println!(
                "{name}, {} messages: a handler and a function hold {own:?} more",
                asked.len() - 1
            );
            assert!(own[0] <= MAX_HANDLER_BYTES && own[1] <= MAX_FUNCTION_BYTES, "{name}: {own:?}");
        }
    }
}
