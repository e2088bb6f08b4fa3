//! A server under test: an embedded channel whose other end is the test.

use std::time::Duration;

use bytes::Bytes;
use waterwheel_channel::{ChannelOptions, Msg};
use waterwheel_http::{HttpServer, Service};
use waterwheel_testkit::embedded::Embedded;

/// A connection to a server.
pub(crate) struct Bench {
    pub(crate) channel: Embedded,
}

impl Bench {
    pub(crate) fn new(service: impl Service + Clone + Send + Sync) -> Self {
        Self::of(&HttpServer::builder(service).build().unwrap())
    }

    pub(crate) fn of(server: &HttpServer) -> Self {
        let options = ChannelOptions { allow_half_closure: true, ..ChannelOptions::default() };
        let channel = Embedded::builder()
            .stream()
            .options(options)
            .build(|edit| server.initialise(edit))
            .unwrap();
        Self { channel }
    }

    /// Sends bytes; returns what was answered meanwhile.
    pub(crate) fn send(&mut self, bytes: impl AsRef<[u8]>) -> String {
        self.channel.write_inbound(Bytes::copy_from_slice(bytes.as_ref()));
        self.channel.run();
        self.received()
    }

    /// Sends bytes in pieces that are read in one round.
    pub(crate) fn send_pieces(&mut self, pieces: &[&str]) -> String {
        let pieces = pieces.iter().map(|piece| Msg::from(Bytes::copy_from_slice(piece.as_bytes())));
        self.channel.write_inbound_all(pieces);
        self.channel.run();
        self.received()
    }

    /// Returns what was answered since the last call, with a fixed date.
    pub(crate) fn received(&mut self) -> String {
        let mut bytes = Vec::new();
        while let Some(part) = self.channel.read_outbound::<Bytes>() {
            bytes.extend_from_slice(&part);
        }
        let text = String::from_utf8(bytes).unwrap();
        let mut lines: Vec<_> = text.split("\r\n").collect();
        lines.retain(|line| !line.starts_with("date: "));
        lines.join("\r\n")
    }

    pub(crate) fn advance(&mut self, by: Duration) -> String {
        self.channel.advance(by);
        self.received()
    }

    pub(crate) fn is_open(&self) -> bool {
        self.channel.channel().is_open()
    }
}
