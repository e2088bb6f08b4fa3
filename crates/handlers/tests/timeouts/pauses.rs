//! `ReadTimeout` while the channel itself does not read.

use bytes::Bytes;
use waterwheel_channel::{ChannelOptions, PauseReads, WaterMarks};
use waterwheel_handlers::ReadTimeout;
use waterwheel_testkit::embedded::Embedded;

use crate::support::{MS, NS, built_with, receive, stream_with, timeouts};

fn ten_ms() -> ReadTimeout {
    ReadTimeout::new(MS * 10).unwrap()
}

#[test]
fn k07_without_a_requested_read_the_peer_is_not_silent() {
    let options = ChannelOptions { auto_read: false, ..ChannelOptions::default() };
    let mut channel = built_with(Embedded::builder().stream().options(options), ten_ms());
    channel.advance(MS * 13);
    channel.advance(MS * 13);
    assert!(channel.channel().is_open());
    channel.read();
    channel.advance(MS * 9);
    receive(&mut channel);
    channel.advance(MS * 50);
    assert!(channel.channel().is_open(), "one round was requested, and came");
    channel.read();
    channel.advance(MS * 6);
    channel.read();
    channel.advance(MS * 4 - NS);
    assert!(channel.channel().is_open());
    channel.advance(NS);
    assert_eq!(timeouts(&mut channel).len(), 1, "another request does not extend the time");
}

#[test]
fn k07_after_auto_read_was_off_the_peer_has_the_whole_time() {
    let mut channel = stream_with(ten_ms());
    channel.advance(MS * 5);
    channel.on_loop(|channel| channel.set_auto_read(false));
    for _ in 0..7 {
        channel.advance(MS * 7);
    }
    channel.on_loop(|channel| channel.set_auto_read(true));
    channel.advance(MS * 5);
    channel.advance(MS * 5 - NS);
    assert!(channel.channel().is_open());
    channel.advance(NS);
    assert_eq!(timeouts(&mut channel).len(), 1);
}

/// A channel that pauses its reads because its peer reads nothing.
fn paused(timeout: ReadTimeout) -> Embedded {
    let options = ChannelOptions {
        water_marks: WaterMarks::new(10, 20).unwrap(),
        pause_reads_while_unwritable: PauseReads::Always,
        ..ChannelOptions::default()
    };
    let mut channel = built_with(Embedded::builder().stream().options(options), timeout);
    channel.set_room(0);
    drop(channel.write_outbound(Bytes::from_static(&[b'x'; 21])));
    assert!(!channel.channel().is_writable());
    channel
}

#[test]
fn k07_a_pause_because_the_channel_is_not_writable_is_not_silence() {
    let mut channel = paused(ten_ms());
    for _ in 0..4 {
        channel.advance(MS * 8);
    }
    assert!(channel.channel().is_open());
    channel.clear_faults();
    channel.advance(MS * 10 - NS);
    assert!(channel.channel().is_open());
    channel.advance(NS);
    assert_eq!(timeouts(&mut channel).len(), 1);
}

#[test]
fn k07_counting_pauses_measures_whether_the_channel_reads_or_not() {
    let mut channel = paused(ten_ms().counting_pauses());
    channel.advance(MS * 10);
    assert_eq!(timeouts(&mut channel).len(), 1);
    let options = ChannelOptions { auto_read: false, ..ChannelOptions::default() };
    let timeout = ten_ms().counting_pauses();
    let mut channel = built_with(Embedded::builder().stream().options(options), timeout.clone());
    channel.advance(MS * 10);
    assert_eq!(timeouts(&mut channel).len(), 1);
    let clone = format!("{:?}", timeout.clone());
    assert_eq!(clone, "ReadTimeout { limit: 10ms, counts_pauses: true, .. }");
}

#[test]
fn k07_a_deregistered_channel_is_not_measured_until_it_is_back() {
    let mut channel = stream_with(ten_ms());
    channel.on_loop(|channel| drop(channel.deregister()));
    for _ in 0..5 {
        channel.advance(MS * 8);
    }
    assert!(channel.channel().is_open());
    channel.on_loop(|channel| drop(channel.register()));
    channel.advance(MS * 5);
    channel.advance(MS * 5 - NS);
    assert!(channel.channel().is_open());
    channel.advance(NS);
    assert_eq!(timeouts(&mut channel).len(), 1);
}
