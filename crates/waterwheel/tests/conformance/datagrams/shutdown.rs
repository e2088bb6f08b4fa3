//! Channels that deregister, and loops that are shut down or drained during traffic (C04, L10, L11).

use std::time::Duration;

use waterwheel::channel::{Channel, Datagram, DrainOptions, Drained};

use super::cell::Cell;
use super::test_bed::{Echo, TestBed, address};
use crate::test_bed::{WAIT_LIMIT, get, shut_down, wait_until};

pub(super) fn c04_a_channel_that_deregisters_and_registers_again_loses_nothing(cell: &Cell) {
    let test_bed = TestBed::new(cell, 1);
    let (receiver, sender) = (test_bed.bound_without_auto_read(), test_bed.bound());
    for text in ["1", "off", "3"] {
        sender.send_to(&receiver, text);
    }
    receiver.channel.set_auto_read(true);
    assert_eq!(receiver.texts(2), ["1", "off"]);
    get(receiver.channel.deregister()).expect("the channel deregisters");
    sender.send_to(&receiver, "4");
    let written =
        receiver.channel.write_and_flush(Datagram::to(sender.address(), "from elsewhere"));
    test_bed.wait_until_idle();
    assert!(!written.is_done(), "a write of a deregistered channel waits");
    get(receiver.channel.register()).expect("the channel registers");
    get(written).expect("the datagram is sent");
    assert_eq!(sender.text(), "from elsewhere");
    test_bed.wait_until_idle();
    assert_eq!(receiver.rest(), [], "auto-read is off");
    receiver.channel.set_auto_read(true);
    assert_eq!(receiver.texts(2), ["3", "4"]);
}

/// Pairs of channels that echo the same datagram for ever.
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
            let local = echo.local_address(cell.kind().unused_address());
            let channel = get(local.connect(address(&peer))).expect("the channel opens");
            channel.send(Datagram::new(vec![7; 1000]));
            channels.extend([channel, peer]);
        }
        let traffic = Self { here, there, channels };
        traffic.wait_until_data_flows();
        traffic
    }

    fn wait_until_data_flows(&self) {
        let bytes =
            || -> u64 { self.here.group.children().map(|at| at.metrics().bytes_read).sum() };
        let before = bytes();
        wait_until("data flows", || bytes() > before + 50_000);
    }
}

pub(super) fn l10_a_shutdown_during_traffic_closes_everything(cell: &Cell) {
    let traffic = Traffic::begin(cell);
    for test_bed in [&traffic.here, &traffic.there] {
        shut_down(&test_bed.group).wait_timeout(WAIT_LIMIT).expect("the loops end");
    }
    for channel in &traffic.channels {
        channel.closed().wait_timeout(WAIT_LIMIT).expect("the channel is closed");
        let late = get(channel.write_and_flush(Datagram::new("late"))).unwrap_err();
        assert!(late.to_string().starts_with("the channel is closed"), "{late}");
    }
}

/// Datagram channels have no listener to close, so the traffic does not stop: the drain completes at a moment when
/// nothing is pending.
pub(super) fn l11_a_drain_during_traffic_completes(cell: &Cell) {
    let traffic = Traffic::begin(cell);
    let options = DrainOptions::within(WAIT_LIMIT).shutdown(Duration::ZERO, WAIT_LIMIT).unwrap();
    let drained = traffic.here.group.drain(options);
    drained.wait_timeout(WAIT_LIMIT).expect("the drain ends");
    assert_eq!(drained.join().expect("the drain completes"), Drained::Complete);
    for channel in traffic.channels.iter().step_by(2) {
        channel.closed().wait_timeout(WAIT_LIMIT).expect("the channel is closed");
    }
    wait_until("the channels of the other group are open", || {
        traffic.there.channels() == traffic.channels.len() / 2
    });
}
