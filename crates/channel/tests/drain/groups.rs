//! Drains of groups with threads, and guards that are dropped at any moment.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Barrier, mpsc};
use std::thread;
use std::time::Duration;

use waterwheel_channel::driver::TaskOnly;
use waterwheel_channel::{
    Channel, Ctx, DrainOptions, Drained, EventLoopGroup, Handler, HandlerResult, Msg, NewChannel,
    local,
};
use waterwheel_testkit::loop_suite::Bench;
use waterwheel_testkit::manual::Manual;

use crate::support::{PATIENCE, SECOND, outcome_of, ten_seconds};

/// Counts its reads.
struct CountsReads(Arc<AtomicUsize>);

impl Handler for CountsReads {
    fn on_read(&mut self, _: &Ctx<'_>, _: Msg) -> HandlerResult {
        self.0.fetch_add(1, Ordering::Relaxed);
        Ok(())
    }
}

fn group(threads: usize) -> EventLoopGroup {
    EventLoopGroup::builder(TaskOnly).threads(threads).build().expect("the group can be built")
}

/// A deadline beyond the test's patience: a lost release shows as a wait that times out.
fn long_deadline() -> DrainOptions {
    let options = DrainOptions::within(10 * PATIENCE).shutdown(Duration::ZERO, PATIENCE);
    options.expect("valid options")
}

/// A channel connected to a peer that neither reads nor writes.
struct Connected {
    channel: Channel,
    _peer: NewChannel,
}

fn connected(group: &EventLoopGroup) -> Connected {
    let (ours, theirs) = local::pair();
    Connected { channel: registered(group, ours), _peer: theirs }
}

fn registered(group: &EventLoopGroup, new: NewChannel) -> Channel {
    group.register(new).join().expect("the registration succeeds")
}

#[track_caller]
fn wait(drained: &waterwheel_executor::SharedFuture<Drained>, group: &EventLoopGroup) -> Drained {
    drained.wait_timeout(PATIENCE).expect("the drain ends");
    group.termination().wait_timeout(PATIENCE).expect("the loops terminate after the drain");
    outcome_of(drained).expect("the drain has ended")
}

#[test]
fn l11_an_empty_group_is_drained_at_once() {
    let group = group(3);
    group.children().for_each(|child| child.submit(|| ()).unwrap().join().unwrap());
    assert_eq!(wait(&group.drain(ten_seconds()), &group), Drained::Complete);
}

#[test]
fn l11_a_group_drains_all_its_loops_and_counts_the_channels_of_all() {
    let group = group(2);
    let channels: Vec<_> = (0..5).map(|_| connected(&group)).collect();
    let held: Vec<_> = channels.iter().map(|it| it.channel.hold()).collect();
    let soon = DrainOptions::within(Duration::from_millis(20)).shutdown(Duration::ZERO, SECOND);
    let drained = group.drain(soon.unwrap());
    assert!(group.is_draining() && group.children().all(|child| child.is_draining()));
    assert_eq!(wait(&drained, &group), Drained::DeadlineReached { channels: 5 });
    assert!(!group.is_draining());
    drop(held);
}

#[test]
fn l11_an_idle_loop_waits_for_the_other_loops_of_its_group() {
    let group = group(2);
    let ends = [(); 2].map(|()| connected(&group));
    let [one, other] = ends.each_ref().map(|end| &end.channel);
    assert_ne!(one.event_loop(), other.event_loop());
    let hold = one.hold();
    let drained = group.drain(long_deadline());
    // Five tasks through the other loop's queue: that loop has looked and found nothing pending.
    (0..5).for_each(|_| other.event_loop().submit(|| ()).unwrap().join().unwrap());
    assert!(other.event_loop().is_draining() && other.is_open());
    let sent = other.write_and_flush("from the first to the second".to_owned());
    drop(hold);
    sent.join().expect("the drain waits for this loop although only the other one was held");
    assert_eq!(wait(&drained, &group), Drained::Complete);
}

#[test]
fn l11_a_loop_that_drains_alone_takes_no_part_in_the_drain_of_its_group() {
    let group = group(3);
    let channels = [(); 3].map(|()| connected(&group));
    let held = channels.each_ref().map(|it| it.channel.hold());
    let alone = group.children().next().unwrap();
    let first = alone.drain(long_deadline());
    let all = group.drain(long_deadline());
    let [own, others @ ..] = held;
    assert_eq!(own.channel().event_loop(), alone);
    drop(own);
    first.wait_timeout(PATIENCE).unwrap();
    assert_eq!(outcome_of(&first), Some(Drained::Complete), "it does not wait for the others");
    assert_eq!(outcome_of(&all), None);
    drop(others);
    assert_eq!(wait(&all, &group), Drained::Complete);
}

#[test]
fn l11_a_shutdown_of_one_loop_does_not_end_the_drain_of_the_others() {
    let group = group(2);
    let ends = [(); 2].map(|()| connected(&group));
    let [one, other] = ends.each_ref().map(|end| &end.channel);
    let [_stays, goes] = [one.hold(), other.hold()];
    let drained = group.drain(long_deadline());
    drop(one.event_loop().shutdown_gracefully(Duration::ZERO, PATIENCE).unwrap());
    one.event_loop().termination().wait_timeout(PATIENCE).unwrap();
    assert!(other.is_open() && !drained.is_done());
    drop(goes);
    assert_eq!(wait(&drained, &group), Drained::CutShort { channels: 1 });
}

#[test]
fn l11_a_drain_is_carried_out_although_the_last_handle_is_dropped() {
    let group = group(2);
    let Connected { channel, _peer } = connected(&group);
    let hold = channel.hold();
    let (drained, terminated) = (group.drain(long_deadline()), group.termination());
    drop(group);
    let word = "for nobody".to_owned();
    channel.write_and_flush(word).join().expect("the channel is open");
    drop(hold);
    terminated.wait_timeout(PATIENCE).unwrap();
    // A loop that was never started completes its termination on another thread, perhaps later.
    drained.wait_timeout(PATIENCE).unwrap();
    assert_eq!(outcome_of(&drained), Some(Drained::Complete));
}

#[test]
fn l11_a_drain_asked_for_by_many_at_once_is_one_drain() {
    let group = group(2);
    let channel = connected(&group);
    let _held = channel.channel.hold();
    let barrier = Barrier::new(4);
    let soon = DrainOptions::within(Duration::from_millis(20)).shutdown(Duration::ZERO, SECOND);
    let all = thread::scope(|scope| {
        let ask = || {
            barrier.wait();
            group.drain(soon.unwrap())
        };
        [(); 4].map(|()| scope.spawn(ask)).map(|thread| thread.join().unwrap())
    });
    for drained in all {
        assert_eq!(wait(&drained, &group), Drained::DeadlineReached { channels: 1 });
    }
}

/// Threads push messages to channels of all loops under guards while the group drains: every message submitted
/// under a guard arrives.
#[test]
fn l11_no_message_sent_under_a_guard_is_lost() {
    const CHANNELS: usize = 8;
    const MESSAGES: usize = 200;
    for round in 0..if cfg!(debug_assertions) { 20 } else { 400 } {
        let (servers, clients) = (group(2), group(1));
        let read = Arc::new(AtomicUsize::new(0));
        let (channels, peers): (Vec<_>, Vec<_>) = (0..CHANNELS)
            .map(|_| {
                let (ours, theirs) = local::pair();
                let count = CountsReads(read.clone());
                let theirs = theirs.initialiser(|edit| {
                    edit.add_last("count", count)?;
                    Ok(())
                });
                (registered(&servers, ours), registered(&clients, theirs))
            })
            .unzip();
        let barrier = Arc::new(Barrier::new(3));
        let business = [0, 1].map(|which| {
            let (channels, barrier) = (channels.clone(), barrier.clone());
            // The guard holds one loop; the messages are sent to channels of all loops.
            let hold = channels[which].hold();
            thread::spawn(move || {
                barrier.wait();
                for at in 0..MESSAGES {
                    channels[at % CHANNELS].send(String::from("pushed"));
                }
                drop(hold);
            })
        });
        barrier.wait();
        let drained = servers.drain(long_deadline());
        business.into_iter().for_each(|thread| thread.join().unwrap());
        assert_eq!(wait(&drained, &servers), Drained::Complete, "round {round}");
        // The clients read to the end of the stream and then close.
        peers.iter().for_each(|peer| peer.closed().wait_timeout(PATIENCE).unwrap());
        assert_eq!(read.load(Ordering::Relaxed), 2 * MESSAGES, "round {round}");
    }
}

/// A guard is dropped at the moment the drain begins or checks: the loop sleeps without a timeout, and only
/// the release can wake it.
#[test]
fn l11_no_release_of_a_guard_is_lost() {
    let rounds = if cfg!(debug_assertions) { 300 } else { 20_000 };
    let (give, holds) = mpsc::channel();
    let (ready, begin) = (Arc::new(Barrier::new(2)), Arc::new(AtomicUsize::new(0)));
    let releasing = thread::spawn({
        let (ready, begin) = (ready.clone(), begin.clone());
        move || {
            for (round, hold) in holds.into_iter().enumerate() {
                ready.wait();
                while begin.load(Ordering::Acquire) <= round {
                    std::hint::spin_loop();
                }
                (0..round % 512).for_each(|_| std::hint::spin_loop());
                drop::<waterwheel_channel::Hold>(hold);
            }
        }
    });
    for round in 0..rounds {
        let mut bench = Bench::new(&Manual::readiness());
        let (ours, _theirs) = local::pair();
        let channel = bench.here(|here| here.register_with(ours, |_| Ok(()))).unwrap();
        give.send(channel.hold()).unwrap();
        let drained = bench.event_loop().drain(long_deadline());
        ready.wait();
        begin.store(round + 1, Ordering::Release);
        while bench.manual.turn(None) {}
        assert_eq!(outcome_of(&drained), Some(Drained::Complete), "round {round}");
    }
    drop(give);
    releasing.join().unwrap();
}
