//! Since when a channel has been reading, for handlers that query it.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::time::Duration;

use waterwheel_channel::{ChannelOptions, PauseReads, WaterMarks};
use waterwheel_executor::Nanos;
use waterwheel_testkit::embedded::Embedded;
use waterwheel_testkit::recorder::{RecordedMethod, Recorder};

use crate::support::{PipelineFixture, bytes, fixture_with, text};

const SECOND: Duration = Duration::from_secs(1);

/// A channel with a handler that queries since when the channel has been reading.
struct ReadingProbe {
    fixture: PipelineFixture,
    answer: Rc<Cell<Option<Nanos>>>,
}

impl ReadingProbe {
    /// Returns for how many seconds the channel has been reading.
    fn seconds(&mut self) -> Option<u64> {
        self.fixture.on_loop(|channel| channel.fire_user_event(text("since when?")));
        self.fixture.run();
        self.answer.get().map(|at| self.fixture.now().since(at).as_secs())
    }
}

fn probe(options: ChannelOptions) -> ReadingProbe {
    probe_with(options, |recorder| recorder)
}

fn probe_with(options: ChannelOptions, more: impl FnOnce(Recorder) -> Recorder) -> ReadingProbe {
    let answer: Rc<Cell<Option<Nanos>>> = Rc::default();
    let tells = answer.clone();
    let builder = Embedded::builder().stream().options(options);
    let fixture = fixture_with(builder, |edit, log| {
        let asks = log.recorder().at(RecordedMethod::UserEvent, move |ctx| {
            tells.set(ctx.reading_since());
            Ok(())
        });
        edit.add_last("asks", more(asks))?;
        Ok(())
    });
    ReadingProbe { fixture, answer }
}

#[test]
fn k07_reading_counts_from_the_first_query_and_rounds_do_not_interrupt_it() {
    let mut probe = probe(ChannelOptions::default());
    probe.fixture.advance(SECOND * 5);
    assert_eq!(probe.seconds(), Some(0), "recorded from the first query on");
    probe.fixture.advance(SECOND);
    probe.fixture.write_inbound(bytes(3));
    probe.fixture.write_inbound(bytes(50_000));
    probe.fixture.advance(SECOND);
    assert_eq!(probe.seconds(), Some(2));
}

#[test]
fn k07_a_channel_without_auto_read_reads_from_the_request_to_the_end_of_the_round() {
    let mut probe = probe(ChannelOptions { auto_read: false, ..ChannelOptions::default() });
    assert_eq!(probe.seconds(), None);
    probe.fixture.advance(SECOND * 5);
    probe.fixture.read();
    probe.fixture.advance(SECOND * 2);
    probe.fixture.read();
    assert_eq!(probe.seconds(), Some(2), "the second request changes nothing");
    probe.fixture.write_inbound(bytes(3));
    assert_eq!(probe.seconds(), None);
}

#[test]
fn k07_reading_restarts_after_auto_read_was_off() {
    let mut probe = probe(ChannelOptions::default());
    assert_eq!(probe.seconds(), Some(0));
    probe.fixture.advance(SECOND);
    probe.fixture.on_loop(|channel| channel.set_auto_read(false));
    assert_eq!(probe.seconds(), None);
    probe.fixture.advance(SECOND);
    probe.fixture.on_loop(|channel| channel.set_auto_read(true));
    probe.fixture.advance(SECOND);
    assert_eq!(probe.seconds(), Some(1));
}

#[test]
fn k07_a_channel_whose_request_to_read_is_withheld_does_not_read() {
    let holds = |recorder: Recorder| recorder.holds(RecordedMethod::BeginRead);
    let mut probe = probe_with(ChannelOptions::default(), holds);
    assert_eq!(probe.seconds(), None);
}

#[test]
fn k07_a_pause_while_the_channel_is_unwritable_is_no_reading() {
    let water_marks = WaterMarks::new(10, 20).unwrap();
    let pause_reads_while_unwritable = PauseReads::Always;
    let options =
        ChannelOptions { water_marks, pause_reads_while_unwritable, ..Default::default() };
    let mut probe = probe(options);
    assert_eq!(probe.seconds(), Some(0));
    probe.fixture.set_room(0);
    probe.fixture.on_loop(|channel| channel.send(bytes(21)));
    probe.fixture.advance(SECOND * 3);
    assert_eq!(probe.seconds(), None);
    probe.fixture.clear_faults();
    probe.fixture.advance(SECOND);
    assert_eq!(probe.seconds(), Some(1));
}

#[test]
fn k07_a_deregistered_channel_and_one_whose_input_is_over_do_not_read() {
    let mut probe = probe(ChannelOptions::default());
    assert_eq!(probe.seconds(), Some(0));
    probe.fixture.on_loop(|channel| drop(channel.deregister()));
    assert_eq!(probe.seconds(), None);
    probe.fixture.advance(SECOND);
    probe.fixture.on_loop(|channel| drop(channel.register()));
    probe.fixture.advance(SECOND);
    assert_eq!(probe.seconds(), Some(1));
    probe.fixture.on_loop(|channel| drop(channel.shutdown_input()));
    assert_eq!(probe.seconds(), None, "the input is over");
}

#[test]
fn k07_a_channel_does_not_read_while_it_is_being_closed() {
    let answers: Rc<RefCell<Vec<Option<Nanos>>>> = Rc::default();
    let tells = answers.clone();
    let mut probe = probe_with(ChannelOptions::default(), move |recorder| {
        recorder.at(RecordedMethod::Inactive, move |ctx| {
            tells.borrow_mut().push(ctx.reading_since());
            Ok(())
        })
    });
    assert_eq!(probe.seconds(), Some(0));
    probe.fixture.close();
    assert_eq!(*answers.borrow(), [None]);
}
