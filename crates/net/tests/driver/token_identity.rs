//! Events reach the registration of their token or none (L07), also through a rebuild (L06).

use std::collections::HashSet;
use std::io::Write;
use std::os::fd::AsRawFd;
use std::os::unix::net::UnixStream;
use std::sync::Arc;

use rustix::event::{EventfdFlags, eventfd};
use rustix::io::fcntl_dupfd_cloexec;
use waterwheel_channel::driver::{Interest, IoEvent, Role, WaitSummary};
use waterwheel_net::Socket;

use crate::closable::Closable;
use crate::driver_rig::{DriverRig, dup, on_every_driver};

fn local_stream(rig: &mut DriverRig) -> (waterwheel_channel::Token, UnixStream) {
    let (ours, peer) = UnixStream::pair().unwrap();
    (rig.attach(Socket::new(ours).unwrap(), Role::Stream), peer)
}

#[test]
fn l07_a_thousand_registrations_detached_by_the_first_get_no_event() {
    on_every_driver(|rig| {
        let mut streams: Vec<_> = (0..1000).map(|_| local_stream(rig)).collect();
        for (token, peer) in &mut streams {
            rig.read_on(*token);
            peer.write_all(b"x").unwrap();
        }
        let (first, what) = rig.event();
        assert_eq!(what, "read x");
        for (token, _) in streams.iter().filter(|(token, _)| *token != first) {
            rig.detach(*token);
        }
        assert_eq!(rig.drain(), ["complete"]);
        rig.assert_quiet();
    });
}

#[test]
fn l07_a_descriptor_number_reused_in_the_same_batch_gets_no_old_event() {
    // High numbers that no concurrent test of this process receives.
    const NUMBER: i32 = 15_000;
    on_every_driver(|rig| {
        let mut attach_at = |number| {
            let (ours, peer) = UnixStream::pair().unwrap();
            let ours = fcntl_dupfd_cloexec(ours, number).unwrap();
            let number = ours.as_raw_fd();
            let token = rig.attach(Socket::new(ours).unwrap(), Role::Stream);
            rig.read_on(token);
            (token, peer, number)
        };
        let mut ends = [(); 2].map(|()| attach_at(NUMBER));
        ends.iter_mut().for_each(|(_, peer, _)| peer.write_all(b"x").unwrap());
        let (first, _) = rig.event();
        let &(victim, _, number) = ends.iter().find(|(token, ..)| *token != first).unwrap();
        rig.detach(victim);
        let (ours, mut peer) = UnixStream::pair().unwrap();
        let again = fcntl_dupfd_cloexec(&ours, number).unwrap();
        assert_eq!(again.as_raw_fd(), number, "the same descriptor number");
        drop(ours);
        let successor = rig.attach(Socket::new(again).unwrap(), Role::Stream);
        rig.read_on(successor);
        assert_eq!(rig.drain(), ["complete"], "only the rest of the first round");
        rig.assert_quiet();
        peer.write_all(b"y").unwrap();
        assert_eq!(rig.event(), (successor, "read y".into()));
        rig.detach(first);
        rig.detach(successor);
    });
}

#[test]
fn l07_a_registration_detached_in_its_round_gets_no_more_events() {
    on_every_driver(|rig| {
        let (token, mut peer) = local_stream(rig);
        rig.read_on(token);
        peer.write_all(b"x").unwrap();
        assert_eq!(rig.event(), (token, "read x".into()));
        rig.detach(token);
        assert_eq!(rig.drain(), [""; 0]);
        assert_eq!(rig.poll(), WaitSummary::default());
    });
}

#[test]
fn l07_three_thousand_ready_descriptors_are_all_reported() {
    on_every_driver(|rig| {
        let ready: HashSet<_> = (0..3000)
            .map(|_| {
                let fd = eventfd(1, EventfdFlags::NONBLOCK).unwrap();
                rig.foreign(Arc::new(fd), Interest::READABLE)
            })
            .collect();
        let mut events = HashSet::new();
        // The event buffer grows from 256 by doubling: 512, 1024, 2048, 4096.
        for round in 0..5 {
            let waited = rig.poll();
            let mut this_round = HashSet::new();
            while let Some(event) = rig.driver.next_event() {
                assert!(this_round.insert(event.token()), "at most once per round");
            }
            assert_eq!(waited.ready, this_round.len(), "round {round}");
            events.extend(this_round);
        }
        assert_eq!(events, ready);
        assert_eq!(rig.poll().ready, 3000, "all in one wait");
    });
}

#[test]
fn l06_a_stream_detached_while_a_duplicate_is_open_is_quiet() {
    on_every_driver(|rig| {
        let (ours, mut peer) = UnixStream::pair().unwrap();
        let _duplicate = dup(&ours);
        let token = rig.attach(Socket::new(ours).unwrap(), Role::Stream);
        rig.read_on(token);
        peer.write_all(b"x").unwrap();
        assert_eq!(rig.event(), (token, "read x".into()));
        peer.write_all(b"y").unwrap();
        rig.detach(token);
        rig.assert_quiet();
    });
}

#[test]
fn l06_stale_events_of_a_detached_token_count_as_nothing_and_end_with_a_rebuild() {
    on_every_driver(|rig| {
        let duplicate = eventfd(1, EventfdFlags::NONBLOCK).unwrap();
        let closable = Arc::new(Closable::new(&duplicate));
        let detached = rig.foreign(closable.clone(), Interest::READABLE);
        let (other, mut peer) = local_stream(rig);
        rig.read_on(other);
        closable.close();
        rig.detach(detached);
        if rig.driver.name() == "epoll" {
            for _ in 0..10 {
                assert_eq!(rig.driver.wait(None).unwrap(), WaitSummary::default(), "a stale event");
                assert_eq!(rig.drain(), [""; 0]);
            }
        }
        peer.write_all(b"x").unwrap();
        assert_eq!(rig.round(), ["read x", "complete"], "other registrations lose nothing");
        assert_eq!(rig.driver.rebuild().unwrap(), 1);
        rig.assert_quiet();
        peer.write_all(b"y").unwrap();
        assert_eq!(rig.round(), ["read y", "complete"]);
    });
}

#[test]
fn l06_a_rebuild_moves_registrations_with_their_interest_and_identity() {
    on_every_driver(|rig| {
        let (reading, mut peer) = local_stream(rig);
        let (resting, mut quiet_peer) = local_stream(rig);
        let (writing, _full_peer) = local_stream(rig);
        let hung = {
            let (token, peer) = local_stream(rig);
            drop(peer);
            token
        };
        rig.read_on(reading);
        rig.fill(writing);
        let foreign = eventfd(0, EventfdFlags::NONBLOCK).unwrap();
        let foreign = Arc::new(foreign);
        let watched = rig.foreign(foreign.clone(), Interest::READABLE);
        quiet_peer.write_all(b"unread").unwrap();
        assert_eq!(rig.round(), ["peer finished"]);
        rig.assert_quiet();

        assert_eq!(rig.driver.rebuild().unwrap(), 5);
        rig.assert_quiet();
        peer.write_all(b"x").unwrap();
        assert_eq!(rig.event(), (reading, "read x".into()));
        assert_eq!(rig.drain(), ["complete"]);
        rustix::io::write(&*foreign, &1u64.to_ne_bytes()).unwrap();
        assert_eq!(rig.event(), (watched, "Readiness(readable)".into()));
        rig.detach(watched);
        rig.read_on(resting);
        assert_eq!(rig.event(), (resting, "read unread".into()));
        assert_eq!(rig.drain(), ["complete"]);
        rig.read_on(hung);
        assert_eq!(rig.round(), ["complete", "eof"]);
    });
}

#[test]
fn l06_a_rebuild_in_the_middle_of_a_round_loses_no_event() {
    on_every_driver(|rig| {
        let mut streams = [(); 3].map(|()| local_stream(rig));
        for (token, peer) in &mut streams {
            rig.read_on(*token);
            peer.write_all(b"x").unwrap();
        }
        rig.event();
        rig.driver.rebuild().unwrap();
        let rest = rig.drain();
        assert_eq!(rest, ["complete", "read x", "complete", "read x", "complete"]);
        rig.assert_quiet();
    });
}

#[test]
fn l07_a_wait_in_an_unfinished_round_returns_at_once_with_the_remaining_tokens() {
    on_every_driver(|rig| {
        let mut streams = [(); 3].map(|()| local_stream(rig));
        for (token, peer) in &mut streams {
            rig.read_on(*token);
            peer.write_all(b"x").unwrap();
        }
        assert_eq!(rig.poll().ready, 3);
        assert_eq!(rig.driver.wait(None).unwrap().ready, 3);
        let Some(IoEvent::LastRead(first, _)) = rig.driver.next_event() else { panic!() };
        let other = streams.iter().map(|(token, _)| *token).find(|token| *token != first);
        rig.detach(other.unwrap());
        assert_eq!(rig.driver.wait(None).unwrap().ready, 1);
        assert_eq!(rig.drain(), ["read x", "complete"]);
    });
}
