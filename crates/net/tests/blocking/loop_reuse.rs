//! Idle loops are reused (L13).

use std::collections::HashSet;
use std::sync::mpsc::channel;

use waterwheel_channel::driver::Interest;
use waterwheel_channel::on_ready;
use waterwheel_net::foreign;

use crate::support::{AnnouncesChannel, Bench, Echo, TIME_LIMIT, assert_echoes, connect, get};

#[test]
fn l13_two_hundred_consecutive_connections_share_a_loop() {
    let bench = Bench::new();
    let (_server, address) = bench.server(|| Echo);
    for _ in 0..200 {
        let mut peer = connect(address);
        assert_echoes(&mut peer);
        drop(peer);
        bench.until_channels(1);
    }
    assert_eq!(bench.loops(), 2);
    let threads = bench.group.children().filter_map(|it| it.thread_properties());
    assert_eq!(threads.map(|thread| thread.id).collect::<HashSet<_>>().len(), 2);
}

#[test]
fn l13_the_loop_that_became_idle_last_is_used_first() {
    let bench = Bench::new();
    let (sender, events) = channel();
    let (server, address) = bench.server(move || AnnouncesChannel(sender.clone()));
    let (_peers, channels): (Vec<_>, Vec<_>) =
        (0..3).map(|_| (connect(address), events.recv_timeout(TIME_LIMIT).unwrap())).unzip();
    for n in [2, 0, 1] {
        get(channels[n].close());
        bench.until_channels(3 - [2, 0, 1].iter().position(|it| *it == n).unwrap());
    }
    let mut peers = Vec::new();
    for n in [1, 0, 2] {
        peers.push(connect(address));
        let later = events.recv_timeout(TIME_LIMIT).unwrap();
        assert_eq!(later.event_loop(), channels[n].event_loop());
    }
    assert_eq!(bench.loops(), 4);
    assert!(server.is_active());
}

#[test]
fn l13_a_loop_with_another_registration_is_not_reused() {
    let bench = Bench::new();
    let there = Bench::new();
    let (_server, address) = there.server(|| Echo);
    let channel = get(bench.client().connect(address));
    let busy = channel.event_loop();
    let (reader, _writer) = std::io::pipe().unwrap();
    let nothing = on_ready(|_: &std::io::PipeReader, _, _| Ok(()));
    let watched = get(busy.register_foreign(foreign(reader), Interest::READABLE, nothing));
    get(channel.close());
    bench.until_channels_and(0, 1);
    let other = get(bench.client().connect(address));
    assert_ne!(other.event_loop(), busy);
    assert!(get(watched.unregister()));
    bench.until_channels(1);
    let third = get(bench.client().connect(address));
    assert_eq!(third.event_loop(), busy);
    assert_eq!(bench.loops(), 2);
}

#[test]
fn l13_a_foreign_descriptor_registered_with_the_group_gets_its_own_loop() {
    let bench = Bench::with(waterwheel_net::Blocking, |builder| builder.max_channels(2));
    let watch = || {
        let (reader, writer) = std::io::pipe().unwrap();
        let nothing = on_ready(|_: &std::io::PipeReader, _, _| Ok(()));
        (bench.group.register_foreign(foreign(reader), Interest::READABLE, nothing), writer)
    };
    let ((one, _one), (other, _other)) = (watch(), watch());
    let (one, _other) = (get(one), get(other));
    assert!(bench.group.children().all(|it| it.metrics().registrations == 1));
    let (refused, _writer) = watch();
    let error = crate::support::failure(refused).to_string();
    assert!(error.contains("too many channels"), "{error}");
    assert!(get(one.unregister()));
    bench.until_channels_and(0, 1);
    let (again, _writer) = watch();
    get(again);
    assert_eq!(bench.loops(), 2);
}

#[test]
fn l13_a_loop_that_has_ended_by_itself_is_replaced() {
    let bench = Bench::new();
    let (server, address) = bench.server(|| Echo);
    for _ in 0..10 {
        let mut peer = connect(address);
        assert_echoes(&mut peer);
        let theirs = bench.group.children().find(|it| *it != server.event_loop()).unwrap();
        theirs.shutdown().wait_timeout(TIME_LIMIT).unwrap();
        assert_eq!(crate::support::read_to_end(&mut peer), b"");
    }
    assert_echoes(&mut connect(address));
    assert_eq!(bench.loops(), 2);
    assert!(server.is_active());
    bench.end();
}
