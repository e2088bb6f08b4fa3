//! When something was last written, for handlers that ask.

use std::cell::Cell;
use std::io;
use std::rc::Rc;
use std::time::Duration;

use waterwheel_channel::{LocalLoop, local};
use waterwheel_executor::Nanos;
use waterwheel_testkit::embedded::{Embedded, EmbeddedBuilder};
use waterwheel_testkit::recorder::HandlerMethod;

use crate::support::{Bench, Weightless, bench_with, bytes, text};

const SECOND: Duration = Duration::from_secs(1);

/// A channel with a handler that can be asked.
struct Asked {
    bench: Bench,
    answer: Rc<Cell<Option<Nanos>>>,
}

impl Asked {
    /// How long ago it was.
    fn ago(&mut self) -> Option<Duration> {
        self.bench.on_loop(|channel| channel.fire_user_event(text("when?")));
        self.bench.run();
        self.answer.get().map(|at| self.bench.now().since(at))
    }

    /// Writes, and lets a second pass.
    fn write(&mut self, length: usize) {
        self.bench.on_loop(|channel| drop(channel.write_and_flush(bytes(length))));
        self.bench.advance(SECOND);
    }
}

fn asked(builder: EmbeddedBuilder) -> Asked {
    let answer: Rc<Cell<Option<Nanos>>> = Rc::default();
    let tells = answer.clone();
    let bench = bench_with(builder, |edit, log| {
        let asks = log.recorder().at(HandlerMethod::UserEvent, move |ctx| {
            tells.set(ctx.last_write());
            Ok(())
        });
        edit.add_last("asks", asks)?;
        Ok(())
    });
    Asked { bench, answer }
}

#[test]
fn c07_the_last_write_time_is_recorded_from_the_first_query_on() {
    let mut asked = asked(Embedded::builder().stream());
    asked.write(3);
    assert_eq!(asked.ago(), None, "nobody had asked");
    assert_eq!(asked.ago(), None, "nothing since");
    asked.write(3);
    assert_eq!(asked.ago(), Some(SECOND));
    asked.bench.advance(SECOND);
    assert_eq!(asked.ago(), Some(SECOND * 2));
}

#[test]
fn c07_a_partial_write_sets_the_last_write_time_and_a_waiting_one_does_not() {
    let mut asked = asked(Embedded::builder().stream());
    assert_eq!(asked.ago(), None);
    asked.bench.set_room(0);
    asked.write(5);
    assert_eq!(asked.ago(), None, "it waits");
    asked.bench.set_room(2);
    assert_eq!(asked.ago(), Some(Duration::ZERO), "two bytes of five");
    asked.bench.advance(SECOND);
    assert_eq!(asked.ago(), Some(SECOND), "looking for room is not writing");
    asked.bench.clear_faults();
    assert_eq!(asked.ago(), Some(Duration::ZERO), "the rest");
}

#[test]
fn c07_a_message_of_size_zero_sets_the_last_write_time() {
    let mut asked = asked(Embedded::builder());
    assert_eq!(asked.ago(), None);
    asked.bench.on_loop(|channel| channel.send(Weightless));
    assert_eq!(asked.ago(), Some(Duration::ZERO));
}

#[test]
fn c07_a_failed_write_does_not_set_the_last_write_time() {
    let mut asked = asked(Embedded::builder().stream());
    assert_eq!(asked.ago(), None);
    asked.write(1);
    asked.bench.fail_write(io::ErrorKind::BrokenPipe.into());
    let channel = asked.bench.channel().clone();
    asked.bench.on_loop(|channel| {
        channel.fire_user_event(text("when?"));
        drop(channel.write_and_flush(bytes(1)));
        channel.fire_user_event(text("when?"));
    });
    assert!(!channel.is_open());
    assert_eq!(asked.answer.get().map(|at| asked.bench.now().since(at)), Some(SECOND));
}

#[test]
fn c07_writes_before_a_local_channel_is_full_set_the_last_write_time() {
    let mut asked = asked(Embedded::builder());
    let told = asked.answer.clone();
    let (near, far) = local::pair();
    let asks = asked.bench.log.recorder().at(HandlerMethod::UserEvent, move |ctx| {
        told.set(ctx.last_write());
        Ok(())
    });
    let channel = asked.bench.on_loop(|_| {
        let here = LocalLoop::current().unwrap();
        here.register_with(near, |edit| Ok(edit.add_last("asks", asks).map(drop)?)).unwrap()
    });
    asked.bench.run();
    channel.fire_user_event(text("when?"));
    for _ in 0..=local::QUEUED_MESSAGES {
        drop(channel.write(Weightless));
    }
    channel.flush();
    asked.bench.run();
    channel.fire_user_event(text("when?"));
    asked.bench.run();
    assert_eq!(asked.answer.get(), Some(asked.bench.now()), "though one is left");
    drop(far);
}
