//! A client's connection whose server is the test.

use std::ops::{Deref, DerefMut};

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use bytes::Bytes;
use waterwheel_channel::{Bootstrap, Channel};
use waterwheel_http::Client;
use waterwheel_testkit::manual::Peer;
use waterwheel_websocket::{WebSocket, WebSocketConnector, WebSocketOptions, WebSocketRequest};

use super::frames::{frame, take_frames};
use super::loop_bench::LoopBench;
use super::script::Script;

pub(crate) const URL: &str = "ws://192.0.2.1/chat?room=1";

pub(crate) struct ClientBench {
    bench: LoopBench,
    pub(crate) connector: WebSocketConnector,
    rest: Vec<u8>,
}

impl Deref for ClientBench {
    type Target = LoopBench;

    fn deref(&self) -> &LoopBench {
        &self.bench
    }
}

impl DerefMut for ClientBench {
    fn deref_mut(&mut self) -> &mut LoopBench {
        &mut self.bench
    }
}

impl ClientBench {
    pub(crate) fn new(options: &WebSocketOptions) -> Self {
        let bench = LoopBench::new();
        let bootstrap = Bootstrap::new(&bench.event_loop.event_loop(), bench.sockets.clone());
        let client = Client::builder(bootstrap).build().unwrap();
        let connector = WebSocketConnector::new(client).options(options.clone());
        Self { bench, connector, rest: Vec::new() }
    }

    /// Builds the request of a connection.
    pub(crate) fn request(&self) -> WebSocketRequest {
        self.connector.request(URL)
    }

    /// Accepts the oldest connect; returns the server's side and the request.
    #[track_caller]
    pub(crate) fn accept(&mut self) -> (Peer, String) {
        self.run();
        let peer = self.sockets.next_connect().expect("a connect was begun").accept();
        self.run();
        let request = String::from_utf8(peer.take_received().to_vec()).unwrap();
        (peer, request)
    }

    /// Opens a connection for async code.
    pub(crate) fn open(&mut self) -> (Peer, WebSocket) {
        let connector = self.connector.clone();
        let opening = self.start(async move { connector.connect(URL).await });
        let (peer, request) = self.accept();
        self.send_raw(&peer, switched(&request, ""));
        (peer, opening.take().unwrap())
    }

    /// Opens a connection that a handler has.
    pub(crate) fn open_with(&mut self, script: &Script) -> (Peer, Channel) {
        let (connector, handler) = (self.connector.clone(), script.clone());
        let opening = self.start(async move { connector.request(URL).connect_with(handler).await });
        let (peer, request) = self.accept();
        self.send_raw(&peer, switched(&request, ""));
        (peer, opening.take().unwrap())
    }

    pub(crate) fn send_raw(&mut self, peer: &Peer, bytes: impl AsRef<[u8]>) {
        peer.send(bytes);
        self.run();
    }

    /// Sends a frame of a server.
    pub(crate) fn send(&mut self, peer: &Peer, first: u8, payload: impl AsRef<[u8]>) {
        self.send_raw(peer, frame(first, payload.as_ref(), false));
    }

    /// Takes the frames of the client.
    pub(crate) fn received(&mut self, peer: &Peer) -> Vec<String> {
        self.run();
        loop {
            let bytes: Bytes = peer.take_received();
            if bytes.is_empty() {
                break;
            }
            self.rest.extend_from_slice(&bytes);
            self.run();
        }
        take_frames(&mut self.rest, true)
    }

    /// Asserts that nothing is left on the loop.
    #[track_caller]
    pub(crate) fn assert_nothing_left(mut self) {
        drop(self.connector);
        self.bench.run();
        let metrics = self.bench.event_loop.event_loop().metrics();
        assert_eq!((metrics.channels, metrics.timers), (0, 0), "channels and timers");
    }
}

/// Returns the proof that belongs to the key of a request.
pub(crate) fn proof(request: &str) -> String {
    let lower = request.to_ascii_lowercase();
    let start = lower.find("sec-websocket-key: ").expect("a key") + 19;
    let key = request[start..].lines().next().unwrap();
    let digest = sha1_smol::Sha1::from(format!("{key}258EAFA5-E914-47DA-95CA-C5AB0DC85B11"));
    BASE64_STANDARD.encode(digest.digest().bytes())
}

/// Returns the answer that opens a connection, with more fields.
pub(crate) fn switched(request: &str, fields: &str) -> String {
    format!(
        "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\
         Sec-WebSocket-Accept: {}\r\n{fields}\r\n",
        proof(request)
    )
}
