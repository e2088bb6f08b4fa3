//! Rule 7: channels that call each other in nested calls.

use std::cell::Cell;
use std::rc::Rc;

use waterwheel_channel::{Channel, Events, HandlerResult};
use waterwheel_testkit::recorder::{RecordedMethod, Recorder};

use crate::support::{PipelineFixture, fixture, text};

/// The current and the maximum nesting of calls into channels.
#[derive(Default)]
struct Depth {
    now: Cell<usize>,
    most: Cell<usize>,
}

impl Depth {
    fn inside(&self, call: impl FnOnce()) {
        self.now.set(self.now.get() + 1);
        self.most.set(self.most.get().max(self.now.get()));
        call();
        self.now.set(self.now.get() - 1);
    }
}

/// Builds a chain of channels; each channel passes its writes to the next one. Returns the first and the
/// last.
fn chain(fixture: &mut PipelineFixture, length: usize, depth: &Rc<Depth>) -> (Channel, Channel) {
    let last = fixture.another("last", |_| Ok(())).expect("the channel can be built");
    let mut first = last.clone();
    for _ in 1..length {
        let (next, depth) = (first.clone(), depth.clone());
        let relay = waterwheel_testkit::recorder::Log::new().recorder().writing(
            move |_, msg, done| -> HandlerResult {
                depth.inside(|| drop(next.write_and_flush(msg)));
                done.succeed();
                Ok(())
            },
        );
        let made = fixture.another("relay", |edit| {
            edit.add_last("relay", relay.interest(Events::WRITE))?;
            Ok(())
        });
        first = made.expect("the channel can be built");
    }
    (first, last)
}

#[test]
fn c05_rule_07_calls_through_forty_channels_are_not_nested_forty_deep() {
    let mut fixture = fixture(|_, _| Ok(()));
    let depth = Rc::new(Depth::default());
    let (first, _) = chain(&mut fixture, 40, &depth);
    fixture.on_loop(|_| {
        first.send(text("1"));
        first.send(text("2"));
    });
    fixture.run();
    let lines = fixture.log.take();
    let sent: Vec<_> = lines.iter().flat_map(|line| line.split(' ').skip(2)).collect();
    assert_eq!(sent, ["1", "2"], "{lines:?}");
    assert_eq!(depth.most.get(), 16);
}

#[test]
fn c05_rule_07_a_few_channels_call_each_other_directly() {
    let mut fixture = fixture(|_, _| Ok(()));
    let depth = Rc::new(Depth::default());
    let (first, _) = chain(&mut fixture, 16, &depth);
    let log = fixture.log.clone();
    fixture.on_loop(|_| {
        first.send(text("1"));
        log.push("back");
    });
    assert_eq!(fixture.log.take(), ["last sends 1", "back"]);
    assert_eq!(depth.most.get(), 15, "and the last one, which does not count itself");
}

#[test]
fn c05_rule_07_later_calls_queue_behind_those_that_wait() {
    let mut fixture = fixture(|_, _| Ok(()));
    let depth = Rc::new(Depth::default());
    let (first, last) = chain(&mut fixture, 16, &depth);
    let log = fixture.log.clone();
    let caller = fixture.another("caller", |edit| {
        edit.add_last(
            "caller",
            log.recorder().interest(Events::USER_EVENT).at(RecordedMethod::UserEvent, move |_| {
                first.send(text("1")); // Reaches the maximum depth and is queued there.
                last.send(text("2")); // A direct call.
                drop(last.with_pipeline(|pipeline| pipeline.write(text("3"))));
                last.flush();
                Ok(())
            }),
        )?;
        Ok(())
    });
    let caller = caller.expect("the channel can be built");
    drop(fixture.log.take());
    fixture.on_loop(|_| caller.fire_user_event(text("go")));
    fixture.run();
    let lines = fixture.log.take();
    assert_eq!(lines, ["caller on_user_event go", "last sends 1 2 3"]);
}

/// Passes a user event on to the other channel, `times` times.
fn bounces(recorder: Recorder, other: &Rc<Cell<Option<Channel>>>, times: usize) -> Recorder {
    let (other, mut left) = (other.clone(), times);
    recorder.interest(Events::USER_EVENT).at(RecordedMethod::UserEvent, move |_| {
        if left > 0 {
            left -= 1;
            let to = other.take().expect("the value was set");
            to.fire_user_event(text("ball"));
            other.set(Some(to));
        }
        Ok(())
    })
}

#[test]
fn c05_rule_07_two_channels_that_call_each_other_take_turns() {
    let mut fixture = fixture(|_, _| Ok(()));
    let (to_left, to_right) = (Rc::new(Cell::new(None)), Rc::new(Cell::new(None)));
    let log = fixture.log.clone();
    for (name, out) in [("left", &to_right), ("right", &to_left)] {
        let recorder = bounces(log.recorder(), out, 2);
        let made = fixture.another(name, |edit| {
            edit.add_last(name, recorder)?;
            Ok(())
        });
        let into = if name == "left" { &to_left } else { &to_right };
        into.set(Some(made.expect("the channel can be built")));
    }
    drop(fixture.log.take());
    let left = to_left.take().expect("the value was set");
    to_left.set(Some(left.clone()));
    fixture.on_loop(|_| left.fire_user_event(text("ball")));
    let turn = ["left on_user_event ball", "right on_user_event ball"];
    assert_eq!(
        fixture.log.take(),
        [turn, turn].concat().into_iter().chain([turn[0]]).collect::<Vec<_>>()
    );
}
