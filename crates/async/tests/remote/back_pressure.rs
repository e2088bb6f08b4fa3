//! Back-pressure in both directions, and drains.

use std::pin::pin;
use std::sync::Arc;

use bytes::Bytes;
use waterwheel_channel::{DrainOptions, Msg};

use crate::support::{WakeCount, drive, installed, poll_counted, poll_once};

#[test]
fn a01_nothing_is_read_that_nobody_waits_for() {
    let (mut channel, mut remote) = installed::<String, String>();
    channel.write_inbound(Msg::from("one".to_owned()));
    channel.run();
    assert_eq!(channel.unread(), 1, "nobody waits");
    assert!(drive(&mut channel, remote.next()).is_some());
    for n in 0..100 {
        channel.write_inbound(Msg::from(n.to_string()));
    }
    channel.run();
    assert_eq!(channel.unread(), 100, "the reader is at work");
    for n in 0..100 {
        let line = drive(&mut channel, remote.try_next()).unwrap();
        assert_eq!(line, Some(n.to_string()));
    }
}

#[test]
fn a01_a_full_channel_is_a_pending_send() {
    let (mut channel, mut remote) = installed::<Bytes, Bytes>();
    channel.set_room(0);
    let mut sent = 0;
    let wakes = Arc::new(WakeCount::default());
    while poll_counted(pin!(remote.send(Bytes::from(vec![0; 40_000]))), &wakes).is_ready() {
        channel.run();
        sent += 1;
        assert!(sent < 10, "the channel is full");
    }
    assert_eq!(sent, 3, "two of them fill the channel, one waits for room on the loop");
    assert_eq!(wakes.get(), 0);
    channel.set_room(usize::MAX);
    channel.run();
    assert_eq!(wakes.get(), 1, "there is room");
    assert!(poll_once(pin!(remote.send(Bytes::from_static(b"last")))).is_ready());
    channel.run();
    let mut lengths = Vec::new();
    while let Some(bytes) = channel.read_outbound::<Bytes>() {
        lengths.push(bytes.len());
    }
    assert_eq!(lengths, [40_000, 40_000, 40_000, 4], "the send that waited was dropped");
}

/// The loop does not run in between.
#[test]
fn a01_what_is_on_its_way_to_the_loop_is_limited_in_bytes_and_in_messages() {
    let (mut channel, mut remote) = installed::<Bytes, Bytes>();
    let mut fed = 0;
    while poll_once(pin!(remote.feed(Bytes::from(vec![0; 1000])))).is_ready() {
        fed += 1;
        assert!(fed <= 100);
    }
    assert_eq!(fed, 66, "64 KiB and what goes beyond with the last message");
    drive(&mut channel, remote.flush()).unwrap();

    let (_channel, mut remote) = installed::<u32, u32>();
    let mut fed = 0_u32;
    while poll_once(pin!(remote.feed(fed))).is_ready() {
        fed += 1;
        assert!(fed <= 2000);
    }
    assert_eq!(fed, 1024);
}

#[test]
fn a01_feeds_without_end_make_their_own_room() {
    let (mut channel, mut remote) = installed::<Bytes, Bytes>();
    for _ in 0..100 {
        drive(&mut channel, remote.feed(Bytes::from(vec![0; 10_000]))).unwrap();
    }
    drive(&mut channel, remote.flush()).unwrap();
    let mut total = 0;
    while let Some(bytes) = channel.read_outbound::<Bytes>() {
        total += bytes.len();
    }
    assert_eq!(total, 1_000_000);
}

#[test]
fn a01_a_flush_waits_until_the_transport_has_everything() {
    let (mut channel, mut remote) = installed::<Bytes, Bytes>();
    channel.set_room(0);
    drive(&mut channel, remote.feed(Bytes::from_static(b"hello"))).unwrap();
    let mut flushed = pin!(remote.flush());
    let wakes = Arc::new(WakeCount::default());
    assert!(poll_counted(flushed.as_mut(), &wakes).is_pending());
    channel.run();
    assert_eq!(wakes.get(), 0);
    channel.set_room(usize::MAX);
    channel.run();
    assert_eq!(wakes.get(), 1);
    assert!(poll_once(flushed.as_mut()).is_ready());
    assert_eq!(channel.read_outbound::<Bytes>().unwrap(), "hello");
}

#[test]
fn a01_a_drain_waits_for_a_reader_at_work_and_is_told() {
    let (mut channel, mut remote) = installed::<String, String>();
    channel.write_inbound(Msg::from("work".to_owned()));
    let line = drive(&mut channel, remote.try_next()).unwrap().unwrap();
    let drained = channel.channel().event_loop().drain(DrainOptions::default());
    channel.run();
    assert!(!drained.is_done(), "the answer is on its way");
    drive(&mut channel, remote.draining());
    assert!(remote.is_draining());
    drive(&mut channel, remote.send(line)).unwrap();
    assert!(poll_once(pin!(remote.next())).is_pending());
    channel.run();
    assert_eq!(channel.read_outbound::<String>().as_deref(), Some("work"));
    assert!(drained.is_done());
}
