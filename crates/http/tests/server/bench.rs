//! A server under test: an embedded channel whose other end is the test.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use bytes::Bytes;
use waterwheel_channel::{ChannelOptions, Edit, Msg, PauseReads};
use waterwheel_executor::{Error, Report};
use waterwheel_http::{HttpServer, Service};
use waterwheel_testkit::embedded::Embedded;

/// A connection to a server.
pub(crate) struct Bench {
    pub(crate) channel: Embedded,
    faults: Arc<AtomicUsize>,
}

impl Bench {
    pub(crate) fn new(service: impl Service + Clone + Send + Sync) -> Self {
        Self::of(&HttpServer::builder(service).build().unwrap())
    }

    pub(crate) fn of(server: &HttpServer) -> Self {
        Self::with_pipeline(|edit| server.initialise(edit))
    }

    /// Returns a connection with this pipeline.
    pub(crate) fn with_pipeline(
        initialise: impl FnOnce(&mut Edit<'_>) -> Result<(), Error>,
    ) -> Self {
        let faults = Arc::new(AtomicUsize::new(0));
        let counted = faults.clone();
        let count = move |_: &Report<'_>| {
            counted.fetch_add(1, Ordering::Relaxed);
        };
        // As channels are that a server accepts.
        let options = ChannelOptions {
            allow_half_closure: true,
            pause_reads_while_unwritable: PauseReads::Always,
            ..ChannelOptions::default()
        };
        let channel = Embedded::builder()
            .stream()
            .options(options)
            .reporter(Arc::new(count))
            .build(initialise)
            .unwrap();
        Self { channel, faults }
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

    /// Finishes sending; returns what was answered meanwhile.
    pub(crate) fn finish(&mut self) -> String {
        self.channel.finish_inbound();
        self.channel.run();
        self.received()
    }

    /// Returns what was answered since the last call, without the date.
    pub(crate) fn received(&mut self) -> String {
        let text = String::from_utf8(self.received_bytes()).unwrap();
        let mut lines: Vec<_> = text.split("\r\n").collect();
        lines.retain(|line| !line.starts_with("date: "));
        lines.join("\r\n")
    }

    /// Returns what was answered since the last call.
    pub(crate) fn received_bytes(&mut self) -> Vec<u8> {
        let mut bytes = Vec::new();
        while let Some(part) = self.channel.read_outbound::<Bytes>() {
            bytes.extend_from_slice(&part);
        }
        bytes
    }

    /// Advances the clock in one step; returns what was answered meanwhile.
    pub(crate) fn advance(&mut self, by: Duration) -> String {
        self.channel.advance(by);
        self.received()
    }

    /// Advances the clock in steps of half a second, so that every timer fires at its time; returns what was answered
    /// meanwhile.
    pub(crate) fn pass(&mut self, time: Duration) -> String {
        const STEP: Duration = Duration::from_millis(500);
        let mut answers = String::new();
        for _ in 0..time.as_millis() / STEP.as_millis() {
            answers += &self.advance(STEP);
        }
        answers
    }

    pub(crate) fn is_open(&self) -> bool {
        self.channel.channel().is_open()
    }

    /// Returns how many faults, such as panics, were reported.
    pub(crate) fn faults(&self) -> usize {
        self.faults.load(Ordering::Relaxed)
    }
}
