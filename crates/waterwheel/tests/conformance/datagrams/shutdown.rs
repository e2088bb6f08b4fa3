//! Channels that leave their loops, and loops that end in the middle of traffic.

use std::time::Duration;

use waterwheel::channel::{Channel, Datagram, DrainOptions, Drained};

use super::cell::Cell;
use super::test_bed::{Echo, TestBed, address};
use crate::test_bed::{WAIT_LIMIT, end, get, until};

pub(super) fn c04_a_channel_that_leaves_and_comes_back_loses_nothing(cell: &Cell) {
    let test_bed = TestBed::new(cell, 1);
    let (post, sender) = (test_bed.silent(), test_bed.bound());
    for text in ["1", "off", "3"] {
        sender.send_to(&post, text);
    }
    post.channel.set_auto_read(true);
    assert_eq!(post.texts(2), ["1", "off"]);
    get(post.channel.deregister()).expect("it leaves");
    sender.send_to(&post, "4");
    let written = post.channel.write_and_flush(Datagram::to(sender.address(), "from elsewhere"));
    test_bed.wait_until_idle();
    assert!(!written.is_done(), "it waits");
    get(post.channel.register()).expect("it comes back");
    get(written).expect("it is sent");
    assert_eq!(sender.text(), "from elsewhere");
    test_bed.wait_until_idle();
    assert_eq!(post.rest(), [], "reads are off");
    post.channel.set_auto_read(true);
    assert_eq!(post.texts(2), ["3", "4"]);
}

/// Channels in pairs that send the same datagram to and fro for ever.
struct Traffic<'c> {
    here: TestBed<'c>,
    there: TestBed<'c>,
    channels: Vec<Channel>,
}

impl<'c> Traffic<'c> {
    fn begin(cell: &'c Cell) -> Self {
        let (here, there) = (TestBed::new(cell, 2), TestBed::new(cell, 2));
        let mut channels = Vec::new();
        for _ in 0..20 {
            let peer = there.echo();
            let echo = here.bootstrap(|edit| edit.add_last("echo", Echo).map(drop));
            let local = echo.local_address(cell.kind().free_address());
            let channel = get(local.connect(address(&peer))).expect("a channel");
            channel.send(Datagram::new(vec![7; 1000]));
            channels.extend([channel, peer]);
        }
        let traffic = Self { here, there, channels };
        traffic.until_it_flows();
        traffic
    }

    fn until_it_flows(&self) {
        let bytes =
            || -> u64 { self.here.group.children().map(|at| at.metrics().bytes_read).sum() };
        let before = bytes();
        until("it flows", || bytes() > before + 50_000);
    }
}

pub(super) fn l10_a_shutdown_in_the_middle_of_traffic_closes_everything(cell: &Cell) {
    let traffic = Traffic::begin(cell);
    for test_bed in [&traffic.here, &traffic.there] {
        end(&test_bed.group).wait_timeout(WAIT_LIMIT).expect("the loops end");
    }
    for channel in &traffic.channels {
        channel.closed().wait_timeout(WAIT_LIMIT).expect("it is closed");
        let late = get(channel.write_and_flush(Datagram::new("late"))).unwrap_err();
        assert!(late.to_string().starts_with("the channel is closed"), "{late}");
    }
}

/// Nobody listens here, and so nothing stops by itself: a drain ends when nothing waits to be sent, which
/// is every now and then, and lets nobody else in meanwhile.
pub(super) fn l11_a_drain_in_the_middle_of_traffic_ends_with_it(cell: &Cell) {
    let traffic = Traffic::begin(cell);
    let options = DrainOptions::within(WAIT_LIMIT).shutdown(Duration::ZERO, WAIT_LIMIT).unwrap();
    let drained = traffic.here.group.drain(options);
    drained.wait_timeout(WAIT_LIMIT).expect("the drain ends");
    assert_eq!(drained.join().expect("its end"), Drained::Complete);
    for channel in traffic.channels.iter().step_by(2) {
        channel.closed().wait_timeout(WAIT_LIMIT).expect("it is closed");
    }
    until("the others are there", || traffic.there.channels() == traffic.channels.len() / 2);
}
