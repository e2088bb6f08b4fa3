//! A rebuild of the selector under a loop with real descriptors: because the old one spins, or on request
//! (L06).

use std::io::{PipeReader, PipeWriter, Write};
use std::sync::mpsc::{Receiver, channel};
use std::thread;

use rustix::event::{EventfdFlags, eventfd};
use waterwheel_channel::DEFAULT_REBUILD_THRESHOLD;
use waterwheel_channel::driver::Interest;

use crate::loop_rig::closable::Closable;
use crate::loop_rig::{LoopRig, TIME_LIMIT, get, on_epoll_with, on_every_loop, read_available};

fn pipe() -> (PipeReader, PipeWriter) {
    let (reader, writer) = std::io::pipe().unwrap();
    rustix::io::ioctl_fionbio(&reader, true).unwrap();
    (reader, writer)
}

/// Watches a pipe; returns the bytes of each event.
fn listen(rig: &LoopRig, reader: PipeReader) -> Receiver<Vec<u8>> {
    let (sender, received) = channel();
    let _ = rig.watch(reader, Interest::READABLE, move |reader, context| {
        let (bytes, ended) = read_available(reader);
        assert!(ended || !bytes.is_empty(), "an event without bytes");
        let _ = sender.send(bytes); // The test may be over.
        if ended {
            context.unregister();
        }
        Ok(())
    });
    received
}

/// Leaves a stale entry in the epoll set that is ready forever under the token of a dead registration: a
/// descriptor that was closed before it was unregistered, while a duplicate of it is open. The spin begins when
/// this function returns; dropping the duplicate would end the spin.
#[must_use]
fn leave_stale_entry(rig: &LoopRig) -> impl Sized + use<> {
    let duplicate = eventfd(0, EventfdFlags::NONBLOCK).unwrap();
    let source = Closable::new(&duplicate);
    let (handle, events) = rig.watch(source.clone(), Interest::READABLE, |_, _| {
        panic!("called after unregistration");
    });
    source.close();
    assert!(get(handle.unregister()));
    assert_eq!(events.next(), "unregistered: on request");
    rustix::io::write(&duplicate, &1u64.to_ne_bytes()).unwrap();
    (duplicate, events)
}

#[test]
fn l06_stale_events_of_a_duplicate_end_with_a_rebuild_after_the_set_number_of_turns() {
    for threshold in [3, 16, DEFAULT_REBUILD_THRESHOLD] {
        on_epoll_with(
            |builder| builder.rebuild_after(threshold),
            |rig| {
                let (reader, mut writer) = pipe();
                let received = listen(rig, reader);
                let writable = eventfd(0, EventfdFlags::NONBLOCK).unwrap();
                let (changed, events) = rig.watch(writable, Interest::READABLE, |_, context| {
                    context.set_interest(Interest::READABLE).map_err(Into::into)
                });
                let before = rig.event_loop.metrics();
                let _duplicate = leave_stale_entry(rig);
                let report = rig.wait_for_report("selector");
                assert_eq!(report, "the selector spins: selector rebuilt, 2 registrations moved");
                rig.assert_not_spinning();
                let metrics = rig.event_loop.metrics();
                assert_eq!(metrics.rebuilds, 1);
                assert_eq!(metrics.premature_returns, u64::from(threshold));
                assert_eq!(metrics.premature_series, u64::from(threshold > 4));
                assert_eq!(metrics.registrations, 2);
                let turns = metrics.turns - before.turns;
                assert!(turns < u64::from(threshold) + 20, "{turns} turns");
                writer.write_all(b"after").unwrap();
                assert_eq!(received.recv_timeout(TIME_LIMIT).unwrap(), b"after");
                assert_eq!(events.rest(), [""; 0], "not of interest");
                get(changed.set_interest(Interest::WRITABLE));
                assert_eq!(
                    events.next(),
                    "Readiness(writable)",
                    "its interest can still be changed"
                );
                rig.assert_not_spinning();
                assert_eq!(received.try_iter().count(), 0, "no byte twice");
                assert_eq!(rig.event_loop.metrics().rebuilds, 1);
            },
        );
    }
}

#[test]
fn l06_other_registrations_lose_no_event_while_epoll_reports_stale_ones() {
    const PIECES: u32 = 300;
    on_epoll_with(
        |builder| builder.rebuild_after(16),
        |rig| {
            let (reader, mut writer) = pipe();
            let received = listen(rig, reader);
            let _duplicate = leave_stale_entry(rig);
            let mut all = Vec::new();
            // Each piece is sent after the previous one has arrived: during a spin, a rebuild or a pause of the loop.
            for piece in 0..PIECES {
                writer.write_all(&piece.to_ne_bytes()).unwrap();
                while all.len() < 4 * (piece as usize + 1) {
                    all.extend(received.recv_timeout(TIME_LIMIT).expect("every piece arrives"));
                }
            }
            let expected: Vec<u8> = (0..PIECES).flat_map(u32::to_ne_bytes).collect();
            assert_eq!(all, expected, "each byte once and in order");
            rig.wait_for_report("the selector spins: selector rebuilt, 1 registrations moved");
            rig.assert_not_spinning();
            assert_eq!(rig.event_loop.metrics().rebuilds, 1);
            assert!(rig.reports().is_empty(), "no other report");
        },
    );
}

#[test]
fn l06_a_threshold_below_three_turns_the_rebuild_off_and_loses_nothing() {
    on_epoll_with(
        |builder| builder.rebuild_after(2),
        |rig| {
            let (reader, mut writer) = pipe();
            let received = listen(rig, reader);
            let _duplicate = leave_stale_entry(rig);
            assert!(rig.turns_in(crate::loop_rig::WATCH_TIME) > 100, "the loop spins");
            writer.write_all(b"x").unwrap();
            assert_eq!(received.recv_timeout(TIME_LIMIT).unwrap(), b"x");
            assert_eq!(rig.event_loop.metrics().rebuilds, 0);
            rig.event_loop.rebuild().unwrap();
            rig.wait_for_report("rebuild requested: selector rebuilt, 1 registrations moved");
            rig.assert_not_spinning();
        },
    );
}

#[test]
fn l06_two_hundred_rebuilds_under_load_lose_nothing() {
    const REBUILDS: u64 = 200;
    const WRITERS: usize = 4;
    on_every_loop(|rig| {
        let (stop, stopped) = channel::<()>();
        let stopped = std::sync::Arc::new(std::sync::Mutex::new(stopped));
        let pipes: Vec<_> = (0..WRITERS)
            .map(|_| {
                let (reader, mut writer) = pipe();
                let received = listen(rig, reader);
                let stopped = stopped.clone();
                let writing = thread::spawn(move || {
                    let mut written = 0u32;
                    let go_on = || {
                        use std::sync::mpsc::TryRecvError;
                        stopped.lock().unwrap().try_recv() == Err(TryRecvError::Empty)
                    };
                    while go_on() {
                        writer.write_all(&written.to_ne_bytes()).unwrap();
                        written += 1;
                    }
                    written
                });
                (received, writing)
            })
            .collect();
        for n in 1..=REBUILDS {
            rig.event_loop.rebuild().unwrap();
            // One at a time: two requests in one turn are one rebuild.
            rig.wait_for_report("rebuild requested: selector rebuilt, 4 registrations moved");
            assert_eq!(rig.run_on_loop(|here| here.handle().metrics().rebuilds), n);
        }
        drop(stop);
        for (received, writing) in pipes {
            let written = writing.join().unwrap();
            // The writer is closed, so the registration ends and drops the sender of its bytes.
            let mut all = Vec::new();
            while let Ok(piece) = received.recv_timeout(TIME_LIMIT) {
                all.extend(piece);
            }
            let expected: Vec<u8> = (0..written).flat_map(u32::to_ne_bytes).collect();
            assert!(all == expected, "{} bytes of {} arrived", all.len(), expected.len());
        }
        let metrics = rig.event_loop.metrics();
        assert_eq!((metrics.rebuilds, metrics.premature_returns), (REBUILDS, 0));
    });
}
