//! Datagram sockets without room. UDP on the loopback accepts any number of datagrams and drops some; the other end
//! of a Unix socket pair holds a few, and accepts more after it has read some.

use std::os::unix::net::UnixDatagram;
use std::time::Duration;

use waterwheel_channel::{
    Address, ChannelFuture, ChannelOptions, Datagram, DrainOptions, Drained, UnixAddress,
    WaterMarks,
};

use crate::loop_rig::{LoopRig, TIME_LIMIT, get, on_every_loop};
use crate::support::{ProbeBuilder, ProbeEvent, ReadyMadeSocket, UdpProbe, failure_text, group};

/// More datagrams than the other end holds.
const MANY: usize = 600;

fn pair(rig: &LoopRig) -> (UdpProbe, UnixDatagram) {
    let (given, peer) = ReadyMadeSocket::pair();
    let water_marks = WaterMarks::new(100, 1000).unwrap();
    let options = ChannelOptions { water_marks, ..ChannelOptions::default() };
    (ProbeBuilder::of(rig, given).options(options).connect(UnixAddress::Unnamed), peer)
}

fn flood(probe: &UdpProbe) -> Vec<ChannelFuture> {
    let writes =
        (0..MANY).map(|n| probe.channel.write(Datagram::new(format!("{n:010}")))).collect();
    probe.channel.flush();
    writes
}

#[track_caller]
fn assert_read(peer: &UnixDatagram, numbers: std::ops::Range<usize>) {
    for n in numbers {
        let mut buffer = [0; 100];
        let len = peer.recv(&mut buffer).expect("a datagram");
        assert_eq!(buffer[..len], *format!("{n:010}").as_bytes());
    }
}

#[test]
fn c07_writes_without_room_wait_at_the_water_marks_and_continue_in_order() {
    on_every_loop(|rig| {
        let (probe, peer) = pair(rig);
        let writes = flood(&probe);
        assert_eq!(probe.next(), ProbeEvent::Writable(false));
        rig.assert_not_spinning();
        assert!(!probe.channel.is_writable());
        assert!(probe.channel.pending_bytes() > 1000);
        assert_read(&peer, 0..MANY);
        writes.into_iter().for_each(get);
        assert_eq!(probe.next(), ProbeEvent::Writable(true));
        assert_eq!(probe.channel.pending_bytes(), 0);
        rig.assert_not_spinning();
    });
}

#[test]
fn c02_a_close_fails_writes_that_wait_for_room() {
    on_every_loop(|rig| {
        let (probe, peer) = pair(rig);
        let mut writes = flood(&probe);
        rig.wait_until_asleep();
        get(probe.channel.close());
        peer.set_nonblocking(true).unwrap();
        let sent = std::iter::from_fn(|| peer.recv(&mut [0; 100]).ok()).count();
        assert!(sent > 0 && sent < MANY, "{sent} were sent");
        for left in writes.drain(sent..) {
            assert!(failure_text(left).contains("closed"));
        }
        writes.into_iter().for_each(get);
    });
}

#[test]
fn l11_a_drain_waits_until_flushed_datagrams_are_sent() {
    on_every_loop(|rig| {
        let (probe, peer) = pair(rig);
        let writes = flood(&probe);
        rig.wait_until_asleep();
        let options =
            DrainOptions::within(TIME_LIMIT).shutdown(Duration::ZERO, TIME_LIMIT).unwrap();
        let drained = group(rig).drain(options);
        rig.wait_until_asleep();
        assert!(!drained.is_done());
        assert_read(&peer, 0..MANY);
        drained.wait_timeout(TIME_LIMIT).unwrap();
        assert_eq!(drained.join().unwrap(), Drained::Complete);
        writes.into_iter().for_each(get);
    });
}

#[test]
fn c04_a_channel_deregistered_without_room_continues_after_registration() {
    on_every_loop(|rig| {
        let (probe, peer) = pair(rig);
        let writes = flood(&probe);
        rig.wait_until_asleep();
        get(probe.channel.deregister());
        rig.assert_not_spinning();
        get(probe.channel.register());
        assert_read(&peer, 0..MANY);
        writes.into_iter().for_each(get);
    });
}

/// An unconnected Unix socket: the kernel does not report when a receiver has room again.
#[test]
fn l17_a_full_receiver_of_an_unconnected_channel_fails_writes_and_does_not_spin() {
    on_every_loop(|rig| {
        let (given, peer) = ReadyMadeSocket::unconnected();
        let there = Address::from(UnixAddress::abstract_name(peer.1));
        let probe = ProbeBuilder::of(rig, given).bind(UnixAddress::Unnamed);
        let write = |n: usize| probe.channel.write(Datagram::to(there.clone(), format!("{n:010}")));
        let writes: Vec<_> = (0..MANY).map(write).collect();
        probe.channel.flush();
        let mut sent = 0;
        for (n, write) in writes.into_iter().enumerate() {
            write.wait_timeout(TIME_LIMIT).unwrap();
            match write.join() {
                Ok(()) => sent += 1,
                Err(error) => {
                    assert!(error.to_string().contains("is full (EAGAIN)"), "{n}: {error}")
                }
            }
        }
        assert!(sent > 0 && sent < MANY, "{sent} were sent");
        rig.assert_not_spinning();
        assert_read(&peer.0, 0..sent);
        get(probe.channel.write_and_flush(Datagram::to(there.clone(), format!("{sent:010}"))));
        assert_read(&peer.0, sent..sent + 1);
    });
}
