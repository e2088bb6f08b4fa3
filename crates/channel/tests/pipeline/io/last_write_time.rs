//! The time of the last write, for handlers that query it.

use std::cell::Cell;
use std::io;
use std::rc::Rc;
use std::time::Duration;

use waterwheel_channel::{LocalLoop, local};
use waterwheel_executor::Nanos;
use waterwheel_testkit::embedded::{Embedded, EmbeddedBuilder};
use waterwheel_testkit::recorder::RecordedMethod;

use crate::support::{PipelineFixture, ZeroSized, bytes, fixture_with, text};

const SECOND: Duration = Duration::from_secs(1);

/// A channel with a handler that queries the last write time.
struct LastWriteProbe {
    fixture: PipelineFixture,
    answer: Rc<Cell<Option<Nanos>>>,
}

impl LastWriteProbe {
    /// Returns the time since the last write.
    fn time_since_last_write(&mut self) -> Option<Duration> {
        self.fixture.on_loop(|channel| channel.fire_user_event(text("when?")));
        self.fixture.run();
        self.answer.get().map(|at| self.fixture.now().since(at))
    }

    /// Writes, then advances the clock by a second.
    fn write(&mut self, length: usize) {
        self.fixture.on_loop(|channel| drop(channel.write_and_flush(bytes(length))));
        self.fixture.advance(SECOND);
    }
}

fn probe(builder: EmbeddedBuilder) -> LastWriteProbe {
    let answer: Rc<Cell<Option<Nanos>>> = Rc::default();
    let tells = answer.clone();
    let fixture = fixture_with(builder, |edit, log| {
        let asks = log.recorder().at(RecordedMethod::UserEvent, move |ctx| {
            tells.set(ctx.last_write());
            Ok(())
        });
        edit.add_last("asks", asks)?;
        Ok(())
    });
    LastWriteProbe { fixture, answer }
}

#[test]
fn c07_the_last_write_time_is_recorded_from_the_first_query_on() {
    let mut probe = probe(Embedded::builder().stream());
    probe.write(3);
    assert_eq!(
        probe.time_since_last_write(),
        None,
        "the time is recorded only after the first query"
    );
    assert_eq!(probe.time_since_last_write(), None, "no write since the first query");
    probe.write(3);
    assert_eq!(probe.time_since_last_write(), Some(SECOND));
    probe.fixture.advance(SECOND);
    assert_eq!(probe.time_since_last_write(), Some(SECOND * 2));
}

#[test]
fn c07_a_partial_write_sets_the_last_write_time_and_a_waiting_one_does_not() {
    let mut probe = probe(Embedded::builder().stream());
    assert_eq!(probe.time_since_last_write(), None);
    probe.fixture.set_room(0);
    probe.write(5);
    assert_eq!(probe.time_since_last_write(), None, "the write waits");
    probe.fixture.set_room(2);
    assert_eq!(probe.time_since_last_write(), Some(Duration::ZERO), "two bytes of five");
    probe.fixture.advance(SECOND);
    assert_eq!(probe.time_since_last_write(), Some(SECOND), "looking for room is not writing");
    probe.fixture.clear_faults();
    assert_eq!(probe.time_since_last_write(), Some(Duration::ZERO), "the rest");
}

#[test]
fn c07_a_message_of_size_zero_sets_the_last_write_time() {
    let mut probe = probe(Embedded::builder());
    assert_eq!(probe.time_since_last_write(), None);
    probe.fixture.on_loop(|channel| channel.send(ZeroSized));
    assert_eq!(probe.time_since_last_write(), Some(Duration::ZERO));
}

#[test]
fn c07_a_failed_write_does_not_set_the_last_write_time() {
    let mut probe = probe(Embedded::builder().stream());
    assert_eq!(probe.time_since_last_write(), None);
    probe.write(1);
    probe.fixture.fail_write(io::ErrorKind::BrokenPipe.into());
    let channel = probe.fixture.channel().clone();
    probe.fixture.on_loop(|channel| {
        channel.fire_user_event(text("when?"));
        drop(channel.write_and_flush(bytes(1)));
        channel.fire_user_event(text("when?"));
    });
    assert!(!channel.is_open());
    assert_eq!(probe.answer.get().map(|at| probe.fixture.now().since(at)), Some(SECOND));
}

#[test]
fn c07_writes_before_a_local_channel_is_full_set_the_last_write_time() {
    let mut probe = probe(Embedded::builder());
    let told = probe.answer.clone();
    let (near, far) = local::pair();
    let asks = probe.fixture.log.recorder().at(RecordedMethod::UserEvent, move |ctx| {
        told.set(ctx.last_write());
        Ok(())
    });
    let channel = probe.fixture.on_loop(|_| {
        let here = LocalLoop::current().unwrap();
        here.register_with(near, |edit| Ok(edit.add_last("asks", asks).map(drop)?)).unwrap()
    });
    probe.fixture.run();
    channel.fire_user_event(text("when?"));
    for _ in 0..=local::QUEUED_MESSAGES {
        drop(channel.write(ZeroSized));
    }
    channel.flush();
    probe.fixture.run();
    channel.fire_user_event(text("when?"));
    probe.fixture.run();
    assert_eq!(probe.answer.get(), Some(probe.fixture.now()), "although one message waits");
    drop(far);
}
