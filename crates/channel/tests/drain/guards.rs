//! Guards: a drain waits for work in progress on other threads.

use std::sync::mpsc;
use std::thread;

use bytes::Bytes;
use waterwheel_channel::{Ctx, Drained, Handler, HandlerResult, Hold, Msg};
use waterwheel_testkit::embedded::Embedded;

use crate::support::{DrainFixture, drain, embedded_without_room, outcome_of};

struct NoOpHandler;

impl Handler for NoOpHandler {}

#[test]
fn l11_a_drain_waits_for_the_last_guard() {
    let mut fixture = DrainFixture::new();
    let channels: Vec<_> = (0..2).map(|_| fixture.connected(NoOpHandler)).collect();
    let mut holds: Vec<_> = channels.iter().flat_map(|it| [it.hold(), it.hold()]).collect();
    let drained = fixture.drain();
    fixture.run();
    while let Some(hold) = holds.pop() {
        assert_eq!(outcome_of(&drained), None);
        drop(hold);
        fixture.run();
    }
    assert_eq!(outcome_of(&drained), Some(Drained::Complete));
}

#[test]
fn l11_a_guard_may_be_taken_while_the_loop_drains() {
    let mut fixture = DrainFixture::new();
    let channel = fixture.connected(NoOpHandler);
    let first = channel.hold();
    let drained = fixture.drain();
    fixture.run();
    let second = channel.hold();
    drop(first);
    fixture.run();
    assert_eq!(outcome_of(&drained), None);
    drop(second);
    fixture.run();
    assert_eq!(outcome_of(&drained), Some(Drained::Complete));
}

#[test]
fn l11_a_guard_without_a_drain_sends_the_loop_nothing() {
    let mut fixture = DrainFixture::new();
    let channel = fixture.connected(NoOpHandler);
    let depth = fixture.event_loop().metrics().queue_depth;
    drop([channel.hold(), channel.hold()]);
    assert_eq!(fixture.event_loop().metrics().queue_depth, depth);
}

#[test]
fn l11_a_guard_of_a_channel_that_is_closed_holds_nothing() {
    let mut fixture = DrainFixture::new();
    let channel = fixture.connected(NoOpHandler);
    let hold = channel.hold();
    let drained = fixture.drain();
    fixture.run();
    let closed = channel.close();
    fixture.outcome(closed).unwrap();
    assert_eq!(outcome_of(&drained), Some(Drained::Complete));
    drop(hold);
    fixture.run();
}

/// Sends each read with a guard to another thread, which answers later.
struct HandsOverToThread(mpsc::Sender<(Hold, Msg)>);

impl Handler for HandsOverToThread {
    fn on_read(&mut self, ctx: &Ctx<'_>, msg: Msg) -> HandlerResult {
        self.0.send((ctx.hold(), msg)).expect("the worker receives it");
        Ok(())
    }
}

#[test]
fn l11_an_answer_written_before_the_guard_is_dropped_is_sent() {
    let (requests, work) = mpsc::channel();
    let mut channel = Embedded::new(|edit| {
        edit.add_last("business", HandsOverToThread(requests))?;
        Ok(())
    })
    .unwrap();
    channel.write_inbound(Bytes::from_static(b"request"));
    let drained = drain(&mut channel);
    assert_eq!(outcome_of(&drained), None, "a guard is held");
    let (hold, request) = work.recv().unwrap();
    let answering = thread::spawn(move || {
        let sent = hold.channel().write_and_flush(request);
        drop(hold);
        sent
    });
    let mut sent = answering.join().unwrap();
    channel.run();
    assert!(sent.try_take().expect("the write completed").is_ok());
    assert_eq!(channel.read_outbound::<Bytes>().unwrap(), "request");
    assert_eq!(outcome_of(&drained), Some(Drained::Complete));
}

#[test]
fn l11_a_guard_dropped_by_a_handler_on_the_loop_counts_as_any_other() {
    let mut channel = embedded_without_room(NoOpHandler);
    let hold = channel.channel().hold();
    let drained = drain(&mut channel);
    assert_eq!(outcome_of(&drained), None);
    channel.on_loop(move |_| drop(hold));
    channel.run();
    assert_eq!(outcome_of(&drained), Some(Drained::Complete));
}
