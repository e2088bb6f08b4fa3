//! Writes the bytes of channels to a pcap file, as packets that Wireshark, tshark and tcpdump read (K06).
//!
//! ```text
//!   transport ⇄ capture ⇄ …            what passes ──► packets ──► CaptureFile: bounded queue ──► file
//!                                                (synthetic_tcp, packet)         (record_queue)     an executor's thread
//! ```
//!
//! 1. The packets are synthetic: a message that passes is one segment (more, if it does not fit 64 KiB), whatever the
//!    kernel made of it. Sequence numbers, acknowledgements and checksums are correct, so that readers reassemble streams
//!    and follow them. Retransmissions, real segment sizes and round-trip times cannot be seen here: use tcpdump for
//!    those. What can be seen here and not there is plaintext above TLS, Unix sockets, and channels within the process.
//! 2. Order: an inbound message is recorded before it is passed on; so is an outbound one, when it passes, whether or not
//!    the transport sends it later. Messages and completions are passed on unchanged.
//! 3. A stream begins with SYN, SYN-ACK and ACK when the channel becomes active, or when the handler is added to an
//!    active channel. An accepted channel's peer sends the SYN; otherwise the local end does.
//! 4. `HalfClosed` is a FIN of that direction. The end of the channel is a FIN of each side that has sent none: first of
//!    the local one if a close was requested through the pipeline, first of the peer otherwise. After a failure of the
//!    connection (ECONNRESET, EPIPE and the like) it is an RST of the peer. If the handler is removed before the end, the
//!    stream ends without either.
//! 5. Bytes of files (`FileRegion`) are not in memory: they are one segment without its payload for each GiB, cut off like
//!    one beyond the snap length, and a gap in the sequence numbers if the region is longer.
//! 6. Messages of other types than transports have (`Bytes`, `Datagram`, `AncillaryMessage`, `FileRegion`) pass without a
//!    record: add the handler first, or next to a handler that emits bytes.
//! 7. Without room in the queue of the file packets are dropped and counted; readers show the gap in the sequence numbers,
//!    and a note (a UDP packet from 198.18.0.1 port 9) says how many are missing.

mod builder;
mod capture_file;
mod endpoints;
mod error;
mod output;
mod packet;
mod pcap_format;
mod record_queue;
mod synthetic_tcp;

use std::fmt;

use bytes::Bytes;
use waterwheel_channel::{
    Address, AncillaryMessage, Completion, Ctx, Datagram, Events, FileRegion, HalfClosed, Handler,
    HandlerResult, Msg, Signature,
};
use waterwheel_executor::Error;

pub use self::builder::{
    CaptureFileBuilder, DEFAULT_FILE_BYTES, DEFAULT_QUEUE_BYTES, DEFAULT_SNAP_LEN,
};
pub use self::capture_file::{CaptureFile, CapturePhase, CaptureStats};
use self::endpoints::endpoints;
pub use self::error::CaptureError;
use self::packet::{MAX_UDP_PAYLOAD, Packet, PacketEnds, Payload};
use self::synthetic_tcp::{PacketSink, Side, SyntheticTcp};

/// Records what a channel reads and writes in a [`CaptureFile`].
///
/// Add it first, where the bytes of the transport pass; after a TLS handler it records the plaintext. The packets are
/// synthetic: they show the messages of the channel, not the segments of the kernel. Ends without an IP address get one of
/// 198.18.0.0/15: 198.18.0.1 is the local end, 198.19.0.0 and following are peers, and the port tells channels apart.
///
/// A clone records another channel in the same file. Two handlers of one channel, for example before and after a TLS
/// handler, have the same addresses and need a file each.
///
/// ```
/// use bytes::Bytes;
/// use waterwheel_handlers::{Capture, CaptureFile};
/// use waterwheel_testkit::embedded::Embedded;
///
/// let path = std::env::temp_dir().join(format!("waterwheel-doc-{}.pcap", std::process::id()));
/// let file = CaptureFile::create(&path)?; // One for the process.
/// let mut channel = Embedded::builder().stream().build(|edit| {
///     edit.add_first("capture", Capture::stream(&file))?; // One for each channel.
///     Ok(())
/// })?;
/// channel.write_inbound(Bytes::from_static(b"hello"));
/// channel.close();
///
/// let stats = file.close().join()?;
/// assert_eq!((stats.packets, stats.dropped), (3 + 1 + 4, 0)); // Handshake, data, both ends.
/// assert_eq!(std::fs::metadata(&path)?.len(), stats.bytes);
/// # std::fs::remove_file(path)?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Capture {
    file: CaptureFile,
    is_stream: bool,
    /// The connection; `None` until the channel is active, and for datagrams.
    tcp: Option<SyntheticTcp>,
    /// True once a close was requested through the pipeline.
    is_close_requested: bool,
    /// True once the connection has failed.
    has_failed: bool,
    /// The identification of the next UDP packet.
    ip_id: u16,
}

impl Capture {
    /// Returns a handler for a stream, which is recorded as a TCP connection: over TCP, Unix sockets or within the process.
    #[must_use]
    pub fn stream(file: &CaptureFile) -> Self {
        Self::new(file.clone(), true)
    }

    /// Returns a handler for datagrams, which are recorded as UDP packets. A datagram longer than a UDP packet can be,
    /// which Unix sockets allow, is cut off.
    #[must_use]
    pub fn datagrams(file: &CaptureFile) -> Self {
        Self::new(file.clone(), false)
    }

    fn new(file: CaptureFile, is_stream: bool) -> Self {
        Self { file, is_stream, tcp: None, is_close_requested: false, has_failed: false, ip_id: 0 }
    }

    /// Records the handshake, unless it was recorded before.
    fn open(&mut self, ctx: &Ctx<'_>) {
        let channel = ctx.channel();
        if !self.is_stream || self.tcp.is_some() || channel.is_server() {
            return;
        }
        let (local, peer) = (channel.local_address(), channel.peer_address());
        let ends = endpoints(local.as_ref(), peer.as_ref(), channel.id().as_u64());
        let initiator = if channel.parent().is_some() { Side::Peer } else { Side::Local };
        let initial = self.file.next_initial_sequence();
        self.tcp = Some(SyntheticTcp::new(ends.source, ends.destination, initial));
        self.with_tcp(ctx, |tcp, emit| tcp.open(initiator, emit));
    }

    /// Calls `f` with the connection, and a function that records a packet at the present time.
    fn with_tcp(&mut self, ctx: &Ctx<'_>, f: impl FnOnce(&mut SyntheticTcp, &mut PacketSink<'_>)) {
        let Self { file, tcp: Some(tcp), .. } = self else { return };
        // After the end of the capture, not even checksums are computed.
        if file.is_open() {
            let now = ctx.now();
            f(tcp, &mut |packet| file.record(now, &packet));
        }
    }

    /// Records the end of the channel.
    fn end(&mut self, ctx: &Ctx<'_>) {
        let has_failed = self.has_failed;
        let first = if self.is_close_requested { Side::Local } else { Side::Peer };
        self.with_tcp(ctx, |tcp, emit| {
            if has_failed {
                tcp.reset(Side::Peer, emit);
            }
            tcp.finish(first, emit);
            tcp.finish(first.other(), emit);
        });
    }

    fn record(&mut self, ctx: &Ctx<'_>, from: Side, msg: &Msg) {
        if !self.file.is_open() {
            return;
        }
        if let Some(bytes) = msg.get::<Bytes>() {
            self.record_bytes(ctx, from, bytes, None);
        } else if let Some(datagram) = msg.get::<Datagram>() {
            let payload = Payload { bytes: datagram.bytes(), whole: datagram.whole_len() };
            self.record_datagram(ctx, from, datagram.peer(), payload);
        } else if let Some(message) = msg.get::<AncillaryMessage>() {
            self.record_bytes(ctx, from, &message.bytes, message.peer.as_ref());
        } else if let Some(region) = msg.get::<FileRegion>() {
            let len = region.len();
            self.with_tcp(ctx, |tcp, emit| tcp.skip(from, len, emit));
        }
    }

    /// Records bytes: a part of the stream, or a datagram.
    fn record_bytes(&mut self, ctx: &Ctx<'_>, from: Side, bytes: &[u8], peer: Option<&Address>) {
        if self.is_stream {
            self.with_tcp(ctx, |tcp, emit| tcp.send(from, bytes, emit));
        } else {
            self.record_datagram(ctx, from, peer, Payload::new(bytes));
        }
    }

    fn record_datagram(
        &mut self,
        ctx: &Ctx<'_>,
        from: Side,
        peer: Option<&Address>,
        payload: Payload<'_>,
    ) {
        let channel = ctx.channel();
        let (local, connected) = (channel.local_address(), channel.peer_address());
        let ends = endpoints(local.as_ref(), peer.or(connected.as_ref()), channel.id().as_u64());
        let PacketEnds { source, destination } = ends;
        let ends = match from {
            Side::Local => ends,
            Side::Peer => PacketEnds { source: destination, destination: source },
        };
        let payload = Payload {
            bytes: &payload.bytes[..payload.bytes.len().min(MAX_UDP_PAYLOAD)],
            whole: payload.whole.min(MAX_UDP_PAYLOAD),
        };
        self.file.record(ctx.now(), &Packet::udp(ends, self.ip_id, payload));
        self.ip_id = self.ip_id.wrapping_add(1);
    }
}

impl Handler for Capture {
    fn interest(&self) -> Events {
        let data = Events::READ | Events::WRITE;
        let life = Events::ACTIVE | Events::INACTIVE | Events::USER_EVENT | Events::ERROR;
        if self.is_stream { data | life | Events::CLOSE | Events::DISCONNECT } else { data }
    }

    fn signature(&self) -> Signature {
        Signature::transparent()
    }

    fn on_added(&mut self, ctx: &Ctx<'_>) -> HandlerResult {
        if ctx.is_active() {
            self.open(ctx);
        }
        Ok(())
    }

    fn on_active(&mut self, ctx: &Ctx<'_>) -> HandlerResult {
        self.open(ctx);
        ctx.fire_active();
        Ok(())
    }

    fn on_inactive(&mut self, ctx: &Ctx<'_>) -> HandlerResult {
        self.end(ctx);
        ctx.fire_inactive();
        Ok(())
    }

    fn on_read(&mut self, ctx: &Ctx<'_>, msg: Msg) -> HandlerResult {
        self.record(ctx, Side::Peer, &msg);
        ctx.fire_read(msg);
        Ok(())
    }

    fn on_user_event(&mut self, ctx: &Ctx<'_>, event: Msg) -> HandlerResult {
        if let Some(half) = event.get::<HalfClosed>() {
            let side = if *half == HalfClosed::Input { Side::Peer } else { Side::Local };
            self.with_tcp(ctx, |tcp, emit| tcp.finish(side, emit));
        }
        ctx.fire_user_event(event);
        Ok(())
    }

    fn on_error(&mut self, ctx: &Ctx<'_>, error: Error) -> HandlerResult {
        self.has_failed |= error.is_connection_lost();
        ctx.fire_error(error);
        Ok(())
    }

    fn write(&mut self, ctx: &Ctx<'_>, msg: Msg, done: &mut Completion) -> HandlerResult {
        self.record(ctx, Side::Local, &msg);
        ctx.write_with(msg, done.take());
        Ok(())
    }

    fn close(&mut self, ctx: &Ctx<'_>, done: &mut Completion) -> HandlerResult {
        self.is_close_requested = true;
        ctx.close_with(done.take());
        Ok(())
    }

    fn disconnect(&mut self, ctx: &Ctx<'_>, done: &mut Completion) -> HandlerResult {
        self.is_close_requested = true;
        ctx.disconnect_with(done.take());
        Ok(())
    }
}

impl Clone for Capture {
    fn clone(&self) -> Self {
        Self::new(self.file.clone(), self.is_stream)
    }
}

impl fmt::Debug for Capture {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Capture")
            .field("file", &self.file)
            .field("is_stream", &self.is_stream)
            .finish_non_exhaustive()
    }
}
