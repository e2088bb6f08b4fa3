//! Streams as TCP connections.

use std::io;
use std::time::Duration;

use bytes::Bytes;
use waterwheel_channel::{AncillaryMessage, Ctx, FileRegion, Handler, HandlerResult, Msg};
use waterwheel_executor::Error;
use waterwheel_handlers::Capture;
use waterwheel_testkit::embedded::Embedded;
use waterwheel_testkit::recorder::Log;

use crate::support::{ORIGIN, lines, packets_of, stream};

const LOCAL: &str = "192.0.2.1:4000";
const PEER: &str = "192.0.2.7:80";

/// Returns the packets of a stream from `LOCAL` to `PEER` as lines: `>` is from here, `<` from the peer.
fn stream_lines(f: impl FnOnce(&mut Embedded)) -> Vec<String> {
    let packets = packets_of(|file| f(&mut stream(file, LOCAL, PEER)));
    lines(&packets).into_iter().map(|line| short(&line)).collect()
}

fn short(line: &str) -> String {
    let (here, there) = (format!("{LOCAL} > {PEER}"), format!("{PEER} > {LOCAL}"));
    line.replace(&here, ">").replace(&there, "<").trim_end().to_owned()
}

const HANDSHAKE: [&str; 3] = ["> S 0 0", "< S. 0 1", "> . 1 1"];

#[test]
fn k06_a_connection_is_recorded_in_both_directions() {
    let lines = stream_lines(|channel| {
        drop(channel.write_outbound(Bytes::from_static(b"GET /\r\n")));
        channel.write_inbound(Bytes::from_static(b"not found"));
        drop(channel.write_outbound(Bytes::new()));
        drop(channel.write_outbound(Bytes::from_static(b"bye")));
        channel.close();
    });
    let data = [r"> P. 1 1 GET /\r\n", "< P. 1 8 not found", "> P. 8 10 bye"];
    let end = ["> F. 11 10", "< . 10 12", "< F. 10 12", "> . 12 11"];
    assert_eq!(lines, [&HANDSHAKE[..], &data, &end].concat());
}

#[test]
fn k06_the_side_that_ends_first_sends_the_first_fin() {
    let lines = stream_lines(|channel| {
        channel.finish_inbound(); // Half-closure is allowed.
        drop(channel.write_outbound(Bytes::from_static(b"late")));
        channel.on_loop(|channel| drop(channel.shutdown_output()));
        channel.run();
    });
    let end = ["< F. 1 1", "> . 1 2", "> P. 1 2 late", "> F. 5 2", "< . 2 6"];
    assert_eq!(lines[3..], end);
    let lines = stream_lines(|channel| {
        channel.on_loop(|channel| drop(channel.shutdown_output()));
        channel.run();
        channel.write_inbound(Bytes::from_static(b"late"));
        channel.finish_inbound();
    });
    let end = ["> F. 1 1", "< . 1 2", "< P. 1 2 late", "< F. 5 2", "> . 2 6"];
    assert_eq!(lines[3..], end);
}

#[test]
fn k06_the_end_of_the_peer_closes_the_connection_from_there() {
    let packets = packets_of(|file| {
        let mut channel = Embedded::builder().stream().build(|edit| {
            edit.add_first("capture", Capture::stream(file))?;
            Ok(())
        });
        let channel = channel.as_mut().unwrap();
        channel.finish_inbound();
        assert!(!channel.channel().is_open());
    });
    let flags: Vec<_> = packets.iter().map(|packet| packet.tcp.unwrap().0).collect();
    assert_eq!(flags, [0x02, 0x12, 0x10, 0x11, 0x10, 0x11, 0x10]);
    assert_eq!(packets[3].source.ip().to_string(), "198.19.0.0", "the peer's end, as an example");
}

#[test]
fn k06_a_failed_connection_is_reset_by_the_peer() {
    let lines = stream_lines(|channel| {
        channel.write_inbound(Bytes::from_static(b"half a requ"));
        channel.fail(Error::new(io::Error::from(io::ErrorKind::ConnectionReset)));
        assert!(!channel.channel().is_open());
    });
    assert_eq!(lines[3..], ["< P. 1 1 half a requ", "< R. 12 1"]);
}

#[test]
fn k06_an_error_that_does_not_end_the_connection_is_no_reset() {
    let lines = stream_lines(|channel| {
        let error = Error::new(io::Error::from(io::ErrorKind::InvalidData));
        channel.with_pipeline(|pipeline| pipeline.fire_error(error)).unwrap();
        assert!(channel.read_error().is_some());
        channel.close();
    });
    assert_eq!(lines[3..], ["> F. 1 1", "< . 1 2", "< F. 1 2", "> . 2 2"]);
}

#[test]
fn k06_a_capture_may_begin_and_end_in_the_middle_of_a_connection() {
    let packets = packets_of(|file| {
        let mut channel = Embedded::builder().stream().build(|_| Ok(())).unwrap();
        channel.write_inbound(Bytes::from_static(b"before"));
        let capture = Capture::stream(file);
        channel.with_pipeline(|pipeline| pipeline.add_first("capture", capture).unwrap());
        channel.write_inbound(Bytes::from_static(b"during"));
        channel.with_pipeline(|pipeline| pipeline.remove("capture").unwrap());
        channel.write_inbound(Bytes::from_static(b"after"));
        channel.close();
        let mut read = || channel.read_inbound::<Bytes>().unwrap();
        assert_eq!([read(), read(), read()], ["before", "during", "after"]);
    });
    let payloads: Vec<_> = packets.iter().map(|packet| packet.payload.as_slice()).collect();
    assert_eq!(payloads, [b"", b"", b"", &b"during"[..]]);
    assert_eq!(packets[3].tcp.unwrap().1, 1, "the first byte of the capture");
}

#[test]
fn k06_timestamps_follow_the_clock_of_the_loop() {
    let packets = packets_of(|file| {
        let mut channel = stream(file, LOCAL, PEER);
        channel.advance(Duration::new(3, 5));
        channel.write_inbound(Bytes::from_static(b"x"));
    });
    let [first, last] = [packets[0].at, packets[3].at];
    assert_eq!((first >= ORIGIN, last - first), (true, Duration::new(3, 5)));
}

#[test]
fn k06_every_channel_without_ip_addresses_has_addresses_of_its_own() {
    let packets = packets_of(|file| {
        for _ in 0..3 {
            let channel = Embedded::builder().stream().build(|edit| {
                edit.add_first("capture", Capture::stream(file))?;
                Ok(())
            });
            channel.unwrap().write_inbound(Bytes::from_static(b"x"));
        }
    });
    let mut ends: Vec<_> = packets.iter().filter(|packet| !packet.payload.is_empty()).collect();
    ends.dedup_by_key(|packet| (packet.source, packet.destination));
    assert_eq!(ends.len(), 3, "{packets:?}");
    assert!(ends.iter().all(|packet| packet.destination.ip().to_string() == "198.18.0.1"));
}

#[test]
fn k06_long_messages_are_split_over_either_ip_version() {
    let long = Bytes::from((0..200_000u32).map(|i| (i % 251) as u8).collect::<Vec<_>>());
    for (local, peer) in [(LOCAL, PEER), ("[2001:db8::1]:4000", "[2001:db8::7]:80")] {
        let packets = packets_of(|file| {
            let mut channel = stream(file, local, peer);
            channel.write_inbound(long.clone());
            drop(channel.write_outbound(long.clone()));
        });
        for source in [local, peer] {
            let from = packets.iter().filter(|packet| packet.source.to_string() == source);
            let data = from.filter(|packet| !packet.payload.is_empty());
            assert_eq!(data.clone().count(), 4);
            assert!(data.flat_map(|packet| packet.payload.clone()).eq(long.iter().copied()));
        }
    }
}

#[test]
fn k06_files_are_counted_and_descriptors_left_out() {
    let packets = packets_of(|file| {
        let mut channel = stream(file, LOCAL, PEER);
        let manifest = std::fs::File::open("Cargo.toml").unwrap();
        let region = FileRegion::new(manifest, 0..100).unwrap();
        drop(channel.write_outbound(region));
        drop(channel.write_outbound(AncillaryMessage::new("passed", Vec::new())));
    });
    let lines: Vec<_> = lines(&packets).iter().map(|line| short(line)).collect();
    assert_eq!(lines[3..5], ["> P. 1 1 (0 of 100)", "> P. 101 1 passed"]);
}

/// Answers and closes.
struct AnswerAndClose;

impl Handler for AnswerAndClose {
    fn on_read(&mut self, ctx: &Ctx<'_>, _: Msg) -> HandlerResult {
        ctx.write_and_flush(Bytes::from_static(b"answer"));
        ctx.close();
        Ok(())
    }
}

#[test]
fn k06_an_answer_that_is_written_while_a_capture_runs_is_sent_and_recorded() {
    let lines = stream_lines(|channel| {
        channel.with_pipeline(|pipeline| pipeline.add_last("app", AnswerAndClose).unwrap());
        channel.write_inbound(Bytes::from_static(b"question"));
        assert_eq!(channel.read_outbound::<Bytes>().unwrap(), "answer");
        assert!(!channel.channel().is_open());
    });
    assert_eq!(lines[3..6], ["< P. 1 1 question", "> P. 1 9 answer", "> F. 7 9"]);
}

/// Runs a channel with recorders around a capture, or without the capture, and returns the recorders' lines.
fn run_with_recorders(capture: Option<Capture>) -> Vec<String> {
    let log = Log::new();
    let mut channel = Embedded::new(|edit| {
        edit.add_last("first", log.recorder())?;
        if let Some(capture) = capture {
            edit.add_last("capture", capture)?;
        }
        edit.add_last("last", log.recorder())?;
        Ok(())
    })
    .unwrap();
    channel.write_inbound(Bytes::from_static(b"in"));
    channel.write_inbound(7u32);
    channel.fire_user_event(8u32);
    channel.write_outbound(Bytes::from_static(b"out")).add_listener(log.listener("write"));
    channel.write_outbound(String::from("text")).add_listener(log.listener("text"));
    channel.with_pipeline(|pipeline| pipeline.fire_error(Error::new("wrong")));
    channel.on_loop(|channel| channel.close().add_listener(log.listener("close")));
    channel.run();
    log.push(format!("{:?}", channel.read_outbound_any()));
    log.take()
}

#[test]
fn k06_events_results_and_completions_pass_a_capture_unchanged() {
    let without = run_with_recorders(None);
    let mut with = Vec::new();
    let packets = packets_of(|file| with = run_with_recorders(Some(Capture::stream(file))));
    assert_eq!(with, without);
    assert_eq!(packets.len(), 3 + 2 + 4, "the handshake, two messages that are bytes, both ends");
    packets_of(|file| {
        file.close().join().unwrap();
        assert_eq!(run_with_recorders(Some(Capture::stream(file))), without, "after its end");
    });
}
