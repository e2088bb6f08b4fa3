//! Calls of channels, on their loop and elsewhere.

use bytes::Bytes;
use waterwheel_async::{AsyncChannel, ByteStream, RemoteAsyncChannel};
use waterwheel_channel::{DrainOptions, Msg};
use waterwheel_testkit::embedded::Embedded;

use crate::support::{drive, drop_at_every_await, installed};

fn remote() -> (Embedded, RemoteAsyncChannel<Bytes>) {
    let (mut channel, local) = installed::<Bytes, Bytes>();
    let remote = channel.on_loop(|_| local.into_remote());
    channel.run();
    (channel, remote)
}

/// Sends two messages in one round after the second poll.
fn send_two(channel: &mut Embedded, n: usize) {
    channel.run();
    if n == 1 {
        channel.write_inbound_all(["one", "two"].map(|text| Msg::from(Bytes::from(text))));
    }
}

/// Reads what a dropped call has left: together with its output, both messages in order.
macro_rules! check_both_come {
    () => {
        |channel, target, output| {
            if output.is_none() {
                channel.write_inbound_all([Msg::from(Bytes::from("more"))]);
            }
            let mut read: Vec<Bytes> =
                output.into_iter().map(|item| item.unwrap().unwrap()).collect();
            while read.last().is_none_or(|last| last == "one") {
                read.push(drive(channel, target.try_next()).unwrap().unwrap());
            }
            assert!(read == ["one", "two"] || read == ["more"], "{read:?}");
        }
    };
}

#[test]
fn a06_a_dropped_next_loses_no_message() {
    drop_at_every_await(
        installed::<Bytes, Bytes>,
        |target| Box::pin(target.try_next()),
        send_two,
        check_both_come!(),
    );
    drop_at_every_await(remote, |target| Box::pin(target.try_next()), send_two, check_both_come!());
}

#[test]
fn a06_dropped_bytes_of_a_stream_come_with_the_next_call() {
    drop_at_every_await(
        || {
            let (channel, local) = installed::<Bytes, Bytes>();
            (channel, ByteStream::new(local))
        },
        |stream: &mut ByteStream| Box::pin(stream.next_bytes()),
        send_two,
        |channel, stream, output| {
            if output.is_none() {
                send_two(channel, 1);
            }
            let first = match output {
                Some(bytes) => bytes,
                None => drive(channel, stream.next_bytes()),
            };
            assert_eq!(first.unwrap().unwrap(), "one");
            assert_eq!(drive(channel, stream.next_bytes()).unwrap().unwrap(), "two");
        },
    );
}

fn full<T>(
    (mut channel, target): (Embedded, T),
    fill: impl Fn(&mut Embedded, &mut T),
) -> (Embedded, T) {
    let mut target = target;
    channel.set_room(0);
    fill(&mut channel, &mut target);
    channel.run();
    (channel, target)
}

fn make_room(channel: &mut Embedded, n: usize) {
    channel.run();
    if n == 1 {
        channel.set_room(usize::MAX);
        channel.run();
    }
}

/// The message `last` was written if the call has completed, and not otherwise.
fn check_last(channel: &mut Embedded, is_sent: bool) {
    channel.set_room(usize::MAX);
    channel.run();
    let mut last = 0;
    while let Some(bytes) = channel.read_outbound::<Bytes>() {
        last += usize::from(bytes == "last");
    }
    assert_eq!(last, usize::from(is_sent));
}

fn filled_local() -> (Embedded, AsyncChannel<Bytes>) {
    full(installed(), |channel, target| {
        drive(channel, target.send(Bytes::from(vec![0; 70_000]))).unwrap();
    })
}

fn filled_remote() -> (Embedded, RemoteAsyncChannel<Bytes>) {
    full(remote(), |channel, target| {
        for _ in 0..2 {
            drive(channel, target.send(Bytes::from(vec![0; 70_000]))).unwrap();
            channel.run();
        }
    })
}

#[test]
fn a06_a_dropped_send_has_sent_nothing() {
    let last = || Bytes::from_static(b"last");
    drop_at_every_await(
        filled_local,
        |target| Box::pin(target.send(last())),
        make_room,
        |channel, _, output| check_last(channel, output.is_some()),
    );
    drop_at_every_await(
        filled_remote,
        |target| Box::pin(target.send(last())),
        make_room,
        |channel, _, output| check_last(channel, output.is_some()),
    );
}

#[test]
fn a06_a_dropped_feed_has_written_nothing() {
    let last = || Bytes::from_static(b"last");
    drop_at_every_await(
        filled_local,
        |target| Box::pin(target.feed(last())),
        make_room,
        |channel, target, output| {
            channel.set_room(usize::MAX);
            drive(channel, target.flush()).unwrap();
            check_last(channel, output.is_some());
        },
    );
    drop_at_every_await(
        filled_remote,
        |target| Box::pin(target.feed(last())),
        make_room,
        |channel, target, output| {
            channel.set_room(usize::MAX);
            drive(channel, target.flush()).unwrap();
            check_last(channel, output.is_some());
        },
    );
}

#[test]
fn a06_a_dropped_flush_can_be_made_again() {
    drop_at_every_await(
        filled_local,
        |target| Box::pin(target.flush()),
        make_room,
        |channel, target, _| {
            channel.set_room(usize::MAX);
            drive(channel, target.flush()).unwrap();
            assert_eq!(channel.read_outbound::<Bytes>().unwrap().len(), 70_000);
        },
    );
    drop_at_every_await(
        filled_remote,
        |target| Box::pin(target.flush()),
        make_room,
        |channel, target, _| {
            channel.set_room(usize::MAX);
            drive(channel, target.flush()).unwrap();
            assert_eq!(channel.read_outbound::<Bytes>().unwrap().len(), 70_000);
        },
    );
}

/// A round that was read holds the drain, which is then told to the call.
fn at_work<T>(
    (mut channel, mut target): (Embedded, T),
    read: impl Fn(&mut Embedded, &mut T),
) -> (Embedded, T) {
    channel.write_inbound(Bytes::from_static(b"work"));
    read(&mut channel, &mut target);
    (channel, target)
}

fn drain(channel: &mut Embedded, n: usize) {
    if n == 1 {
        drop(channel.channel().event_loop().drain(DrainOptions::default()));
    }
    channel.run();
}

#[test]
fn a06_a_dropped_wait_for_the_drain_can_be_made_again() {
    let local = || {
        at_work(installed::<Bytes, Bytes>(), |channel, target| {
            drive(channel, target.try_next()).unwrap();
        })
    };
    drop_at_every_await(
        local,
        |target| Box::pin(target.draining()),
        drain,
        |channel, target, _| {
            drain(channel, 1);
            drive(channel, target.draining());
        },
    );
    let elsewhere = || {
        at_work(remote(), |channel, target| {
            drive(channel, target.try_next()).unwrap();
        })
    };
    drop_at_every_await(
        elsewhere,
        |target| Box::pin(target.draining()),
        drain,
        |channel, target, _| {
            drain(channel, 1);
            drive(channel, target.draining());
        },
    );
}
