//! A server's connection whose client is the test.

use std::net::SocketAddr;
use std::ops::{Deref, DerefMut};

use bytes::Bytes;
use waterwheel_channel::{Channel, ServerBootstrap};
use waterwheel_http::{HttpServer, Response, Service};
use waterwheel_testkit::manual::Peer;
use waterwheel_websocket::{HandshakeError, WebSocketOptions, WebSocketUpgrade};

use super::frames::{close_payload, frame, take_frames};
use super::loop_bench::LoopBench;
use super::script::Script;

/// A request that opens a connection.
pub(crate) const REQUEST: &str = "GET / HTTP/1.1\r\nHost: a\r\nUpgrade: websocket\r\n\
     Connection: Upgrade\r\nSec-WebSocket-Version: 13\r\n\
     Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n";

pub(crate) struct ServerBench {
    bench: LoopBench,
    pub(crate) peer: Peer,
    pub(crate) script: Script,
    /// Bytes of the server that are no complete frame.
    rest: Vec<u8>,
}

impl Deref for ServerBench {
    type Target = LoopBench;

    fn deref(&self) -> &LoopBench {
        &self.bench
    }
}

impl DerefMut for ServerBench {
    fn deref_mut(&mut self) -> &mut LoopBench {
        &mut self.bench
    }
}

impl ServerBench {
    /// Opens a connection that a handler has.
    pub(crate) fn new(options: &WebSocketOptions, script: Script) -> Self {
        Self::with_bootstrap(options, script, |bootstrap| bootstrap)
    }

    /// Opens a connection that a handler has, of a server with more options.
    pub(crate) fn with_bootstrap(
        options: &WebSocketOptions,
        script: Script,
        configure: impl FnOnce(ServerBootstrap) -> ServerBootstrap,
    ) -> Self {
        let handler = script.clone();
        Self::upgraded(options, script, configure, move |upgrade| upgrade.handle(handler.clone()))
    }

    /// Opens a connection that `respond` has.
    pub(crate) fn upgraded(
        options: &WebSocketOptions,
        script: Script,
        configure: impl FnOnce(ServerBootstrap) -> ServerBootstrap,
        respond: impl Fn(WebSocketUpgrade) -> Response + Clone + Send + Sync + 'static,
    ) -> Self {
        let options = options.clone();
        let mut bench = Self::connect(script, configure, async move |request| {
            let upgrade = WebSocketUpgrade::of(&request, &options)?;
            Ok::<_, HandshakeError>(respond(upgrade))
        });
        bench.send_raw(REQUEST);
        let head = bench.received_raw();
        let end = head.windows(4).position(|bytes| bytes == b"\r\n\r\n").expect("an answer") + 4;
        assert!(head.starts_with(b"HTTP/1.1 101 "), "{}", head.escape_ascii());
        bench.rest = head[end..].to_vec();
        bench
    }

    /// Connects to a server, and sends nothing.
    pub(crate) fn connect(
        script: Script,
        configure: impl FnOnce(ServerBootstrap) -> ServerBootstrap,
        service: impl Service + Clone + Send + Sync,
    ) -> Self {
        let mut bench = LoopBench::new();
        let server = HttpServer::new(service);
        let bootstrap = ServerBootstrap::new(&bench.event_loop, bench.sockets.clone());
        let bound =
            configure(server.extend(bootstrap)).bind(SocketAddr::from(([127, 0, 0, 1], 80)));
        bench.run();
        bound.join().unwrap();
        let peer = bench.sockets.next_listener().unwrap().connect().unwrap();
        bench.run();
        Self { bench, peer, script, rest: Vec::new() }
    }

    pub(crate) fn send_raw(&mut self, bytes: impl AsRef<[u8]>) {
        self.peer.send(bytes);
        self.bench.run();
    }

    /// Takes the bytes of the server.
    pub(crate) fn received_raw(&mut self) -> Bytes {
        self.bench.run();
        let mut bytes = Vec::new();
        loop {
            let more = self.peer.take_received();
            if more.is_empty() {
                return bytes.into();
            }
            bytes.extend_from_slice(&more);
            self.bench.run();
        }
    }

    /// Sends a frame of a client: its first byte, and its payload.
    pub(crate) fn send(&mut self, first: u8, payload: impl AsRef<[u8]>) {
        self.send_raw(frame(first, payload.as_ref(), true));
    }

    pub(crate) fn send_text(&mut self, text: &str) {
        self.send(0x81, text);
    }

    pub(crate) fn send_ping(&mut self, payload: &str) {
        self.send(0x89, payload);
    }

    pub(crate) fn send_close(&mut self, code: u16) {
        self.send(0x88, close_payload(code, ""));
    }

    /// Takes the frames of the server.
    pub(crate) fn received(&mut self) -> Vec<String> {
        let bytes = self.received_raw();
        self.rest.extend_from_slice(&bytes);
        take_frames(&mut self.rest, false)
    }

    /// Ends the client's data.
    pub(crate) fn finish(&mut self) {
        self.peer.finish();
        self.bench.run();
    }

    pub(crate) fn channel(&self) -> Channel {
        self.script.channel.lock().unwrap().clone().expect("the connection was opened")
    }

    /// Takes the calls of the handler: see [`Script::calls`].
    pub(crate) fn calls(&self) -> Vec<String> {
        self.script.calls()
    }

    /// Asserts that the channel is closed, and leaves nothing on the loop but the server.
    #[track_caller]
    pub(crate) fn assert_gone(&mut self) {
        self.bench.run();
        assert!(self.peer.is_closed(), "the connection is closed");
        let metrics = self.event_loop.event_loop().metrics();
        assert_eq!((metrics.channels, metrics.timers), (1, 0), "channels and timers");
    }
}
