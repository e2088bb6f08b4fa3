//! Captures as tcpdump and tshark read them. `scripts/test` installs both.

use std::path::{Path, PathBuf};

use bytes::Bytes;
use waterwheel_channel::{
    Address, Completion, Ctx, Datagram, Events, Handler, HandlerResult, Msg, Signature,
};
use waterwheel_executor::Error;
use waterwheel_handlers::Capture;
use waterwheel_testkit::embedded::Embedded;
use waterwheel_testkit::temp_file::TempFile;

use crate::support::{address, builder, connected, stream};

#[path = "../../../../support/packet_tools.rs"]
mod packet_tools;

use packet_tools::{follow_stream, tcpdump, tshark, tshark_complaints};

/// A file that is removed at the end.
struct TempPath(PathBuf);

impl TempPath {
    fn new(name: &str) -> Self {
        let name = format!("waterwheel-{name}-{}.pcap", std::process::id());
        Self(std::env::temp_dir().join(name))
    }
}

impl Drop for TempPath {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

// Ports of no protocol that tshark would look for in the payload.
const V4: (&str, &str) = ("192.0.2.1:50001", "192.0.2.7:50002");
const V6: (&str, &str) = ("[2001:db8::1]:50003", "[2001:db8::7]:50002");

fn bytes(seed: usize, len: usize) -> Bytes {
    (0..len).map(|i| (i * 31 + seed + i / 256) as u8).collect()
}

/// Writes a capture of two streams, one over each IP version, and returns what their peers and they have sent.
fn capture_streams(path: &Path) -> [(Vec<u8>, Vec<u8>); 2] {
    let file = builder().create(path).unwrap();
    let streams = [V4, V6].map(|(local, peer)| {
        let mut channel = stream(&file, local, peer);
        let (mut read, mut written) = (Vec::new(), Vec::new());
        for (round, len) in [1, 100, 1460, 70_000, 3, 1_300_000].into_iter().enumerate() {
            let (inbound, outbound) = (bytes(round, len), bytes(round + 7, len / 2 + 1));
            read.extend(&inbound);
            written.extend(&outbound);
            channel.write_inbound(inbound);
            drop(channel.write_outbound(outbound));
        }
        channel.on_loop(|channel| drop(channel.shutdown_output()));
        channel.run();
        let last = bytes(99, 50);
        read.extend(&last);
        channel.write_inbound(last);
        channel.finish_inbound();
        (written, read)
    });
    file.close().join().unwrap();
    streams
}

#[test]
fn k06_tshark_reassembles_the_bytes_of_both_directions() {
    let path = TempPath::new("follow");
    let streams = capture_streams(&path.0);
    for (number, (written, read)) in streams.into_iter().enumerate() {
        // The local end has sent the SYN.
        let followed = follow_stream(&path.0, number);
        assert!(followed.from_initiator == written, "stream {number}: written");
        assert!(followed.from_acceptor == read, "stream {number}: read");
    }
    assert_eq!(tshark_complaints(&path.0), "");
}

#[test]
fn k06_tcpdump_finds_every_checksum_correct() {
    let path = TempPath::new("checksums");
    let file = builder().create(&path.0).unwrap();
    for (local, peer) in [V4, V6] {
        let mut channel = stream(&file, local, peer);
        channel.write_inbound(bytes(1, 100_001));
        channel.fail(Error::new(std::io::Error::from(std::io::ErrorKind::ConnectionReset)));
        let mut channel = connected(Embedded::builder(), Capture::datagrams(&file), local, peer);
        for len in [0, 1, 2, 999, 65_507] {
            let from = Address::from(address(peer));
            channel.write_inbound(Datagram::received(Some(from.clone()), bytes(len, len), len));
            drop(channel.write_outbound(Datagram::to(from, bytes(len + 1, len))));
        }
    }
    let stats = file.close().join().unwrap();
    let text = tcpdump(&path.0, &["-vv"]);
    let packets = text.lines().filter(|line| line.starts_with(|c: char| c.is_ascii_digit()));
    assert_eq!(packets.count() as u64, stats.packets, "{text}");
    // "incorrect" for TCP, "bad udp cksum" and "bad cksum" for UDP and IP.
    assert!(!text.contains("incorrect") && !text.contains("bad "), "{text}");
    let tcp = text.matches("cksum 0x").count() - text.matches("(correct)").count();
    assert_eq!(tcp, 0, "{text}");
    assert_eq!(text.matches("[udp sum ok]").count(), 2 * 10, "{text}");
    assert_eq!(text.matches("Flags [R.]").count(), 2, "{text}");
    assert_eq!(tshark_complaints(&path.0), "");
}

#[test]
fn k06_packets_that_were_cut_off_are_shown_as_such() {
    let path = TempPath::new("snap");
    let file = builder().snap_len(68).create(&path.0).unwrap();
    let mut channel = stream(&file, V4.0, V4.1);
    channel.write_inbound(bytes(0, 1000));
    drop(channel.write_outbound(bytes(0, 10)));
    channel.close();
    file.close().join().unwrap();
    let lens = tshark(
        &path.0,
        &["-T", "fields", "-e", "frame.len", "-e", "frame.cap_len", "-Y", "tcp.len > 0"],
    );
    assert_eq!(lens, "1040\t68\n50\t50\n");
    assert_eq!(tshark_complaints(&path.0), "", "sequence numbers go on");
}

#[test]
fn k06_a_gap_in_a_stream_is_shown_as_lost() {
    let path = TempPath::new("gap");
    let file = builder().create(&path.0).unwrap();
    let mut channel = stream(&file, V4.0, V4.1);
    // The bytes of a file are not captured: one segment stands for the first of them, the rest is a gap.
    drop(channel.write_outbound(TempFile::new(200_000).region(..)));
    drop(channel.write_outbound(bytes(0, 10)));
    channel.close();
    file.close().join().unwrap();
    let lost =
        tshark(&path.0, &["-Y", "tcp.analysis.lost_segment", "-T", "fields", "-e", "tcp.seq"]);
    assert_eq!(lost, "200001\n");
}

/// Takes what is written, so that the transport does not read a file of many GiB.
struct TakeWrites;

impl Handler for TakeWrites {
    fn interest(&self) -> Events {
        Events::WRITE
    }

    fn signature(&self) -> Signature {
        Signature::transparent()
    }

    fn write(&mut self, _: &Ctx<'_>, _: Msg, done: &mut Completion) -> HandlerResult {
        done.take().succeed();
        Ok(())
    }
}

/// Sequence numbers have 32 bits: a jump over more than half of them looks like one back.
#[test]
fn k06_bytes_after_a_long_file_are_new_to_readers() {
    for len in [3 << 30, 9 << 30] {
        let path = TempPath::new("long-file");
        let file = builder().create(&path.0).unwrap();
        let mut channel = stream(&file, V4.0, V4.1);
        channel.with_pipeline(|pipeline| pipeline.add_first("sink", TakeWrites).unwrap()).unwrap();
        drop(channel.write_outbound(bytes(0, 1000)));
        let sparse = TempFile::new(0);
        sparse.set_len(len);
        drop(channel.write_outbound(sparse.region(..len)));
        drop(channel.write_outbound(bytes(1, 10)));
        channel.close();
        file.close().join().unwrap();
        let again =
            "tcp.analysis.retransmission || tcp.analysis.out_of_order || tcp.analysis.keep_alive";
        assert_eq!(tshark(&path.0, &["-Y", again]), "", "after {len} bytes");
    }
}

#[test]
fn k06_timestamps_have_nanoseconds() {
    let path = TempPath::new("time");
    let file = builder().create(&path.0).unwrap();
    let mut channel = stream(&file, V4.0, V4.1);
    channel.advance(std::time::Duration::new(1, 23));
    channel.write_inbound(bytes(0, 1));
    file.close().join().unwrap();
    let text = tcpdump(&path.0, &["-tt"]);
    let times: Vec<_> = text.lines().filter_map(|line| line.split(' ').next()).collect();
    let delta = tshark(&path.0, &["-T", "fields", "-e", "frame.time_delta", "-Y", "tcp.len > 0"]);
    assert_eq!(delta, "1.000000023\n", "{times:?}");
    assert!(times[0].starts_with("1700000000."), "{times:?}");
}

/// A client's port comes back after a while, and a capture of one connection may stop and begin again.
#[test]
fn k06_connections_between_the_same_addresses_are_streams_of_their_own() {
    let path = TempPath::new("reused");
    let file = builder().create(&path.0).unwrap();
    for (number, is_closed) in [true, true, false, false].into_iter().enumerate() {
        let mut channel = stream(&file, V4.0, V4.1);
        channel.write_inbound(bytes(number, 100));
        drop(channel.write_outbound(bytes(number + 7, 50)));
        if is_closed {
            channel.close();
        } else {
            channel.with_pipeline(|pipeline| pipeline.remove("capture").unwrap()).unwrap();
        }
    }
    file.close().join().unwrap();
    let reuses =
        tshark(&path.0, &["-Y", "tcp.analysis.reused_ports", "-T", "fields", "-e", "tcp.stream"]);
    for number in 0..4 {
        let followed = follow_stream(&path.0, number);
        assert!(followed.from_initiator == bytes(number + 7, 50), "stream {number}: written");
        assert!(followed.from_acceptor == bytes(number, 100), "stream {number}: read");
    }
    assert_eq!(reuses, "1\n2\n3\n");
}
