//! Beside a task that resubmits itself forever, streams, timers and descriptors are served in every turn (E11).

use std::io::Write;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{Sender, channel};
use std::time::Duration;

use rustix::event::{EventfdFlags, eventfd};
use waterwheel_channel::driver::{Interest, IoEvent, ReadPlan, Role};
use waterwheel_channel::{EventLoop, LocalLoop, Registrant};
use waterwheel_executor::Error;
use waterwheel_net::Socket;

use crate::driver_rig::pair;
use crate::loop_rig::{TIME_LIMIT, get, on_every_loop_with};

/// The number of turns, each of which reads one byte.
const TURNS: usize = 30;

/// Submits a task that resubmits itself whenever it runs.
fn resubmit_forever(event_loop: &EventLoop, stop: &Arc<AtomicBool>, runs: &Arc<AtomicU64>) {
    let (next, stop, runs) = (event_loop.clone(), stop.clone(), runs.clone());
    let _refused = event_loop.execute(move || {
        runs.fetch_add(1, Ordering::Relaxed);
        if !stop.load(Ordering::Relaxed) {
            resubmit_forever(&next, &stop, &runs);
        }
    });
}

/// The registration or timer that was served.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Served {
    Stream,
    Timer,
    Foreign,
}

/// Reports the turn of each read, and the turn in which a timer set by that read fires.
struct Reader(Sender<(Served, u64)>);

impl Registrant for Reader {
    fn on_event(&mut self, here: &LocalLoop, event: IoEvent) -> Result<(), Error> {
        if let IoEvent::Read(_, bytes) = event {
            assert_eq!(bytes.len(), 1);
            let (event_loop, sender) = (here.handle(), self.0.clone());
            let _ = self.0.send((Served::Stream, event_loop.stats().turns));
            let note = move || {
                let _ = sender.send((Served::Timer, event_loop.stats().turns));
            };
            drop(here.handle().schedule(Duration::ZERO, note).unwrap());
        }
        Ok(())
    }

    fn on_detached(&mut self, _: &LocalLoop, _: Option<Error>) {}
}

#[test]
fn e11_a_stream_a_timer_and_a_descriptor_are_served_in_every_turn() {
    for ratio in [1, 50, 100] {
        on_every_loop_with(
            |builder| builder.io_ratio(ratio),
            |rig| {
                let (stop, runs) = (Arc::new(AtomicBool::new(false)), Arc::default());
                let (sender, events) = channel();
                resubmit_forever(&rig.event_loop, &stop, &runs);
                let always = eventfd(1, EventfdFlags::NONBLOCK).unwrap();
                let tells = sender.clone();
                let (handle, _) = rig.watch(always, Interest::READABLE, move |_, context| {
                    let turns = context.event_loop().handle().stats().turns;
                    let _ = tells.send((Served::Foreign, turns));
                    Ok(())
                });
                let (ours, mut peer) = pair();
                peer.write_all(&[7; TURNS]).unwrap();
                crate::driver_rig::until(&ours, rustix::event::PollFlags::IN);
                rig.run_on_loop(move |here| {
                    let io = Socket::new(ours).unwrap().into();
                    let token = here.attach(io, Role::Stream, Reader(sender)).unwrap();
                    here.set_read(token, Some(ReadPlan { max_reads: 1, size: 1 }));
                });
                let mut turns = [const { Vec::new() }; 3];
                while turns[Served::Timer as usize].len() < TURNS {
                    let (served, turn) = events.recv_timeout(TIME_LIMIT).expect("all are served");
                    turns[served as usize].push(turn);
                }
                stop.store(true, Ordering::Relaxed);
                assert!(get(handle.unregister()));
                let [reads, timers, foreign] = turns;
                let first = reads[0];
                let each: Vec<u64> = (first..first + TURNS as u64).collect();
                assert_eq!(reads, each, "one byte per turn");
                assert_eq!(timers, each, "each timer in the turn in which it is due");
                let later: Vec<_> = foreign.into_iter().filter(|turn| *turn >= first).collect();
                assert_eq!(later[..TURNS], each, "the descriptor in every turn");
                let ran = runs.load(Ordering::Relaxed);
                assert!(ran >= TURNS as u64, "the task ran only {ran} times");
            },
        );
    }
}

#[test]
fn e15_a_task_that_resubmits_itself_delays_a_shutdown_until_its_timeout_only() {
    const TIMEOUT: Duration = Duration::from_millis(100);
    on_every_loop_with(
        |builder| builder.io_ratio(100),
        |rig| {
            let (never, runs) = (Arc::new(AtomicBool::new(false)), Arc::default());
            resubmit_forever(&rig.event_loop, &never, &runs);
            let ended = rig.event_loop.shutdown_gracefully(Duration::ZERO, TIMEOUT).unwrap();
            ended.wait_timeout(TIME_LIMIT).expect("the loop terminates");
            assert!(runs.load(Ordering::Relaxed) > 0);
            assert!(rig.event_loop.execute(|| ()).is_err());
        },
    );
}
