//! The costs of messages between threads: commands and allocations.

use std::pin::pin;
use std::task::Poll;

use bytes::Bytes;
use waterwheel_async::RemoteAsyncChannel;
use waterwheel_channel::Msg;
use waterwheel_testkit::embedded::Embedded;

use crate::counting_allocator::allocations_in;
use crate::support::{installed, poll_once};

fn queue_depth(channel: &Embedded) -> usize {
    channel.channel().event_loop().stats().queue_depth
}

#[test]
fn a01_a_round_is_asked_for_by_one_command() {
    let (mut channel, mut remote) = installed::<String, String>();
    channel.write_inbound_all((0..10).map(|n| Msg::from(n.to_string())));
    channel.run();
    assert_eq!(queue_depth(&channel), 0);
    for _ in 0..3 {
        assert!(poll_once(pin!(remote.next())).is_pending());
        assert_eq!(queue_depth(&channel), 1, "however often it is polled");
    }
    channel.run();
    for _ in 0..10 {
        assert!(poll_once(pin!(remote.next())).is_ready());
    }
    assert_eq!(queue_depth(&channel), 0, "the messages of a round need no command");
}

#[test]
fn a01_messages_that_are_sent_together_share_a_command() {
    let (mut channel, mut remote) = installed::<String, String>();
    for _ in 0..10 {
        assert!(poll_once(pin!(remote.feed("fed".to_owned()))).is_ready());
    }
    assert_eq!(queue_depth(&channel), 0, "a feed sends no command");
    for _ in 0..10 {
        assert!(poll_once(pin!(remote.send("sent".to_owned()))).is_ready());
    }
    assert_eq!(queue_depth(&channel), 1);
    let writes = channel.writes();
    channel.run();
    assert_eq!(channel.writes(), writes + 1, "one flush for all of them");
    assert_eq!(std::iter::from_fn(|| channel.read_outbound::<String>()).count(), 20);
}

/// Sends ten messages, and reads ten. Returns the allocations of this thread while it does not run the loop.
fn exchange_ten(channel: &mut Embedded, remote: &mut RemoteAsyncChannel<Bytes>) -> u64 {
    let (asked, ()) = allocations_in(|| {
        assert!(poll_once(pin!(remote.next())).is_pending());
        for _ in 0..10 {
            assert!(poll_once(pin!(remote.send(Bytes::from_static(b"out")))).is_ready());
        }
    });
    channel.write_inbound_all((0..10).map(|_| Msg::from(Bytes::from_static(b"in"))));
    channel.run();
    let (read, ()) = allocations_in(|| {
        for _ in 0..10 {
            assert!(matches!(poll_once(pin!(remote.next())), Poll::Ready(Some(Ok(_)))));
        }
    });
    while channel.read_outbound::<Bytes>().is_some() {}
    asked + read
}

#[test]
fn a01_bytes_cross_the_threads_without_allocations() {
    let (mut channel, mut remote) = installed::<Bytes, Bytes>();
    for _ in 0..200 {
        exchange_ten(&mut channel, &mut remote); // The queues get the capacity and blocks that they keep.
    }
    let allocated: u64 = (0..20).map(|_| exchange_ten(&mut channel, &mut remote)).sum();
    assert_eq!(allocated, 0);
}
