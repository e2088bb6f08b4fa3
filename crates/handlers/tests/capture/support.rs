//! A capture to memory, a reader of pcap files, and channels with addresses.

use std::fmt;
use std::io::{self, Write};
use std::net::{IpAddr, SocketAddr};
use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime};

use waterwheel_channel::{ChannelOptions, ConnectTarget};
use waterwheel_handlers::{Capture, CaptureFile, CaptureFileBuilder};
use waterwheel_testkit::embedded::{Embedded, EmbeddedBuilder};

/// A writer to memory, whose clones share the bytes.
#[derive(Clone, Default)]
pub(crate) struct MemoryWriter(Arc<Mutex<Vec<u8>>>);

impl MemoryWriter {
    pub(crate) fn bytes(&self) -> Vec<u8> {
        self.0.lock().unwrap().clone()
    }
}

impl Write for MemoryWriter {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap().extend(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// The time of day at which the virtual clock shows zero.
pub(crate) const ORIGIN: Duration = Duration::from_secs(1_700_000_000);

pub(crate) fn builder() -> CaptureFileBuilder {
    CaptureFile::builder().time_origin(SystemTime::UNIX_EPOCH + ORIGIN)
}

/// Calls `f` with a capture to memory, closes it, and returns the packets.
pub(crate) fn packets_of(f: impl FnOnce(&CaptureFile)) -> Vec<PcapPacket> {
    let memory = MemoryWriter::default();
    let file = builder().write_to(memory.clone()).unwrap();
    f(&file);
    let stats = file.close().join().unwrap();
    let (bytes, packets) = (memory.bytes(), read_pcap(&memory.bytes()));
    assert_eq!((stats.packets, stats.bytes), (packets.len() as u64, bytes.len() as u64));
    packets
}

/// Builds a byte stream between these addresses, with a capture.
pub(crate) fn stream(file: &CaptureFile, local: &str, peer: &str) -> Embedded {
    let options = ChannelOptions { allow_half_closure: true, ..ChannelOptions::default() };
    connected(Embedded::builder().stream().options(options), Capture::stream(file), local, peer)
}

pub(crate) fn connected(
    builder: EmbeddedBuilder,
    capture: Capture,
    local: &str,
    peer: &str,
) -> Embedded {
    let mut channel = builder
        .unconnected()
        .build(|edit| {
            edit.add_first("capture", capture)?;
            Ok(())
        })
        .unwrap();
    let target = ConnectTarget::from(address(peer)).from_local(address(local));
    channel.on_loop(|channel| drop(channel.connect(target)));
    channel.run();
    assert!(channel.channel().is_active());
    channel
}

pub(crate) fn address(text: &str) -> SocketAddr {
    text.parse().unwrap()
}

/// A packet of a pcap file. `Debug` shows it as one line.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct PcapPacket {
    /// The time since 1970.
    pub(crate) at: Duration,
    pub(crate) source: SocketAddr,
    pub(crate) destination: SocketAddr,
    /// Flags, sequence number and acknowledged number; `None` for UDP.
    pub(crate) tcp: Option<(u8, u32, u32)>,
    pub(crate) payload: Vec<u8>,
    /// The length of the payload before it was cut off.
    pub(crate) whole: usize,
}

impl fmt::Debug for PcapPacket {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { source, destination, tcp, payload, whole, .. } = self;
        write!(f, "{source} > {destination} ")?;
        if let Some((flags, sequence, acknowledged)) = tcp {
            for (bit, name) in ["F", "S", "R", "P", "."].iter().enumerate() {
                if flags & 1 << bit != 0 {
                    write!(f, "{name}")?;
                }
            }
            write!(f, " {sequence} {acknowledged} ")?;
        }
        write!(f, "{}", payload.escape_ascii())?;
        if payload.len() < *whole { write!(f, "({} of {whole})", payload.len()) } else { Ok(()) }
    }
}

/// Returns the packets as lines: `source > destination flags sequence acknowledged payload`.
pub(crate) fn lines(packets: &[PcapPacket]) -> Vec<String> {
    packets.iter().map(|packet| format!("{packet:?}")).collect()
}

/// Reads a pcap file; every byte belongs to its header or to a whole record.
pub(crate) fn read_pcap(file: &[u8]) -> Vec<PcapPacket> {
    let (header, mut rest) = file.split_at(24);
    assert_eq!(header[..8], [0x4d, 0x3c, 0xb2, 0xa1, 2, 0, 4, 0]);
    assert_eq!(header[20], 101, "raw IP");
    let mut packets = Vec::new();
    while !rest.is_empty() {
        let (record, after) = rest.split_at(16);
        let number = |at: usize| u32::from_le_bytes(record[at..at + 4].try_into().unwrap());
        let (packet, after) = after.split_at(number(8) as usize);
        packets.push(read_packet(Duration::new(number(0).into(), number(4)), packet, number(12)));
        rest = after;
    }
    packets
}

fn read_packet(at: Duration, packet: &[u8], whole: u32) -> PcapPacket {
    let number = |at: usize| u16::from_be_bytes([packet[at], packet[at + 1]]);
    let (ip_len, protocol, length, source, destination) = match packet[0] >> 4 {
        4 => {
            let ip = |at: usize| IpAddr::from(<[u8; 4]>::try_from(&packet[at..at + 4]).unwrap());
            (20, packet[9], number(2).into(), ip(12), ip(16))
        }
        version => {
            assert_eq!(version, 6);
            let ip = |at: usize| IpAddr::from(<[u8; 16]>::try_from(&packet[at..at + 16]).unwrap());
            (40, packet[6], 40 + usize::from(number(4)), ip(8), ip(24))
        }
    };
    assert_eq!(length, whole as usize, "the length in the IP header is that of the whole packet");
    let tcp_number =
        |at: usize| u32::from_be_bytes(packet[ip_len + at..ip_len + at + 4].try_into().unwrap());
    let (header, tcp) = match protocol {
        6 => {
            let fields = (packet[ip_len + 13], tcp_number(4), tcp_number(8));
            (usize::from(packet[ip_len + 12] >> 4) * 4, Some(fields))
        }
        protocol => {
            assert_eq!((protocol, usize::from(number(ip_len + 4))), (17, length - ip_len));
            (8, None)
        }
    };
    PcapPacket {
        at,
        source: SocketAddr::new(source, number(ip_len)),
        destination: SocketAddr::new(destination, number(ip_len + 2)),
        tcp,
        payload: packet[ip_len + header..].to_vec(),
        whole: length - ip_len - header,
    }
}
