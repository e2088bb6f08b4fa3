//! Limits: a slow disk, a long file, cut-off packets.

use std::io::{self, Write};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::Duration;

use bytes::Bytes;
use waterwheel_handlers::CapturePhase;

use crate::support::{MemoryWriter, builder, read_pcap, stream};

const LOCAL: &str = "192.0.2.1:4000";
const PEER: &str = "192.0.2.7:80";
const WAIT_LIMIT: Duration = Duration::from_secs(20);

/// A disk that says when a write begins, and then waits for a permit; the header needs none.
struct SlowDisk {
    memory: MemoryWriter,
    has_header: bool,
    begun: Sender<()>,
    permits: Receiver<()>,
}

impl Write for SlowDisk {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if std::mem::replace(&mut self.has_header, true) {
            self.begun.send(()).unwrap();
            self.permits.recv().map_err(|_| io::ErrorKind::BrokenPipe)?;
        }
        self.memory.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[test]
fn k06_a_slow_disk_costs_packets_and_never_holds_a_loop() {
    const QUEUE: usize = 256 * 1024;
    const MESSAGE: usize = 10_000;
    let (memory, (begun, begins), (permit, permits)) =
        (MemoryWriter::default(), channel(), channel());
    let disk = SlowDisk { memory: memory.clone(), has_header: false, begun, permits };
    let file = builder().queue_bytes(QUEUE).write_to(disk).unwrap();
    let mut channel = stream(&file, LOCAL, PEER);
    begins.recv_timeout(WAIT_LIMIT).unwrap(); // The disk hangs, with some of the handshake.
    let message = Bytes::from(vec![b'x'; MESSAGE]);
    for _ in 0..100 {
        channel.write_inbound(message.clone());
        assert!(channel.read_inbound::<Bytes>().is_some(), "traffic goes on");
    }
    let stats = file.stats();
    let kept = QUEUE / (MESSAGE + 56);
    assert_eq!((stats.packets, stats.dropped), (3 + kept as u64, 100 - kept as u64));
    for _ in 0..3 {
        permit.send(()).unwrap();
    }
    file.flush().join().unwrap();
    channel.write_inbound(Bytes::from_static(b"room again"));
    for _ in 0..3 {
        permit.send(()).unwrap();
    }
    file.close().join().unwrap();

    let packets = read_pcap(&memory.bytes());
    let [.., last, note, after] = &packets[..] else { panic!("{packets:?}") };
    let text = format!("waterwheel: {} packets were not captured: the queue was full", 100 - kept);
    assert_eq!(String::from_utf8_lossy(&note.payload), text);
    assert_eq!(note.source.to_string(), "198.18.0.1:9");
    let sequence = |of: &crate::support::PcapPacket| of.tcp.unwrap().1 as usize;
    assert_eq!(after.payload, b"room again");
    let gap = sequence(after) - sequence(last) - MESSAGE;
    assert_eq!(gap, (100 - kept) * MESSAGE, "readers see how many bytes are missing");
}

#[test]
fn k06_packets_that_came_during_a_write_are_written_without_another_one() {
    let (memory, (begun, begins), (permit, permits)) =
        (MemoryWriter::default(), channel(), channel());
    let disk = SlowDisk { memory: memory.clone(), has_header: false, begun, permits };
    let file = builder().write_to(disk).unwrap();
    let mut channel = stream(&file, LOCAL, PEER);
    begins.recv_timeout(WAIT_LIMIT).unwrap();
    channel.write_inbound(Bytes::from_static(b"meanwhile"));
    permit.send(()).unwrap();
    begins.recv_timeout(WAIT_LIMIT).expect("no packet and no flush asks for it");
    permit.send(()).unwrap();
    drop(permit);
    file.close().join().unwrap();
    assert_eq!(read_pcap(&memory.bytes()).len(), 3 + 1);
}

#[test]
fn k06_a_capture_stops_at_the_limit_of_its_file() {
    const MAX: usize = 200_000;
    let memory = MemoryWriter::default();
    let file = builder().max_file_bytes(MAX as u64).write_to(memory.clone()).unwrap();
    let mut channel = stream(&file, LOCAL, PEER);
    for _ in 0..50 {
        channel.write_inbound(Bytes::from(vec![b'x'; 10_000]));
        assert!(channel.read_inbound::<Bytes>().is_some(), "traffic goes on");
    }
    assert_eq!(file.stats().phase, CapturePhase::Full);
    let stats = file.close().join().unwrap();
    let (bytes, packets) = (memory.bytes(), read_pcap(&memory.bytes()));
    assert_eq!((stats.phase, stats.bytes), (CapturePhase::Closed, bytes.len() as u64));
    assert_eq!(packets.len(), 3 + 19, "{}", bytes.len());
    assert!(bytes.len() <= MAX);
}

#[test]
fn k06_packets_are_cut_off_at_the_snap_length() {
    let memory = MemoryWriter::default();
    let file = builder().snap_len(96).write_to(memory.clone()).unwrap();
    let mut channel = stream(&file, LOCAL, PEER);
    channel.write_inbound(Bytes::from(vec![b'x'; 1000]));
    channel.write_inbound(Bytes::from_static(b"short"));
    file.close().join().unwrap();
    let packets = read_pcap(&memory.bytes());
    let lens = |at: usize| (packets[at].payload.len(), packets[at].whole);
    assert_eq!((lens(3), lens(4)), ((56, 1000), (5, 5)));
    assert_eq!(packets[4].tcp.unwrap().1, 1001, "the next sequence number");
}
