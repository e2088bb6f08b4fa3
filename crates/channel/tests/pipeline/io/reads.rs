//! C09: reads, rounds and auto-read.

use std::cell::RefCell;
use std::rc::Rc;

use waterwheel_channel::{ChannelOptions, Events, Msg};
use waterwheel_testkit::embedded::Embedded;
use waterwheel_testkit::recorder::RecordedMethod;

use crate::support::{PipelineFixture, fixture_with, text};

/// Builds a channel with these options; its handler logs read events and calls `at` for each read.
fn fixture_reading(
    options: ChannelOptions,
    at: impl Fn(&waterwheel_channel::Ctx<'_>) + 'static,
) -> PipelineFixture {
    let fixture = fixture_with(Embedded::builder().options(options), |edit, log| {
        let interest = Events::READ | Events::READ_COMPLETE | Events::BEGIN_READ;
        edit.add_last(
            "app",
            log.recorder().interest(interest).at(RecordedMethod::Read, move |ctx| {
                at(ctx);
                Ok(())
            }),
        )?;
        Ok(())
    });
    drop(fixture.log.take());
    fixture
}

fn without_auto_read() -> ChannelOptions {
    ChannelOptions { auto_read: false, ..ChannelOptions::default() }
}

fn messages(texts: &[&'static str]) -> Vec<Msg> {
    texts.iter().map(|it| text(it).into()).collect()
}

const ROUND: [&str; 3] = ["app on_read 1", "app on_read 2", "app on_read_complete"];

#[test]
fn c09_with_auto_read_a_channel_reads_round_after_round() {
    let mut fixture = fixture_reading(ChannelOptions::default(), |_| ());
    assert!(fixture.channel().is_auto_read());
    for _ in 0..2 {
        fixture.write_inbound_all(messages(&["1", "2"]));
        assert_eq!(fixture.log.take(), [&ROUND[..], &["app read"]].concat());
    }
}

#[test]
fn c09_without_auto_read_one_call_is_one_round() {
    let mut fixture = fixture_reading(without_auto_read(), |_| ());
    fixture.write_inbound_all(messages(&["1", "2"]));
    assert_eq!((fixture.log.take(), fixture.unread()), (vec![], 2));
    fixture.on_loop(|channel| channel.read());
    fixture.run();
    assert_eq!(fixture.log.take(), [&["app read"], &ROUND[..]].concat());
    fixture.write_inbound(text("3"));
    assert_eq!((fixture.log.take(), fixture.unread()), (vec![], 1), "that was one round");
    fixture.on_loop(|channel| channel.read());
    fixture.run();
    assert_eq!(fixture.log.take(), ["app read", "app on_read 3", "app on_read_complete"]);
}

#[test]
fn c09_a_read_requested_in_a_round_starts_another_round() {
    let mut fixture = fixture_reading(without_auto_read(), |ctx| ctx.read());
    fixture.on_loop(|channel| channel.read());
    drop(fixture.log.take());
    fixture.write_inbound(text("1"));
    fixture.write_inbound(text("2"));
    assert_eq!(
        fixture.log.take(),
        ["app on_read 1", "app on_read_complete", "app on_read 2", "app on_read_complete"]
    );
}

#[test]
fn c09_a_read_requested_before_data_arrives_waits() {
    let mut fixture = fixture_reading(without_auto_read(), |_| ());
    fixture.on_loop(|channel| {
        channel.read();
        channel.read();
    });
    fixture.run();
    fixture.write_inbound(text("1"));
    fixture.write_inbound(text("2"));
    assert_eq!(
        fixture.log.take(),
        ["app read", "app read", "app on_read 1", "app on_read_complete"],
        "asked twice, it is still one round"
    );
    assert_eq!(fixture.unread(), 1);
}

#[test]
fn c09_auto_read_switched_off_in_on_read_stops_after_that_message() {
    let mut fixture =
        fixture_reading(ChannelOptions::default(), |ctx| ctx.channel().set_auto_read(false));
    fixture.write_inbound_all(messages(&["1", "2"]));
    assert_eq!(fixture.log.take(), ["app on_read 1", "app on_read_complete"]);
    assert_eq!(fixture.unread(), 1);
    assert!(!fixture.channel().is_auto_read());
}

#[test]
fn c09_auto_read_switched_on_again_resumes_reading() {
    let mut fixture = fixture_reading(ChannelOptions::default(), |_| ());
    fixture.on_loop(|channel| channel.set_auto_read(false));
    fixture.write_inbound_all(messages(&["1", "2"]));
    assert_eq!((fixture.log.take(), fixture.unread()), (vec![], 2));
    fixture.on_loop(|channel| channel.set_auto_read(true));
    fixture.run();
    assert_eq!(fixture.log.take(), [&["app read"], &ROUND[..], &["app read"]].concat());
    fixture.on_loop(|channel| channel.set_auto_read(true));
    assert_eq!(fixture.log.take(), Vec::<String>::new(), "it was on");
}

#[test]
fn c09_a_read_can_be_requested_from_another_thread() {
    let mut fixture = fixture_reading(without_auto_read(), |_| ());
    let channel = fixture.channel().clone();
    let asked = std::thread::spawn(move || channel.set_auto_read(true));
    asked.join().expect("the thread does not panic");
    fixture.run();
    fixture.write_inbound(text("1"));
    assert_eq!(
        fixture.log.take(),
        ["app read", "app on_read 1", "app on_read_complete", "app read"]
    );
}

#[test]
fn c09_a_round_makes_at_most_the_configured_number_of_reads() {
    let options = ChannelOptions { reads_per_round: 2, ..ChannelOptions::default() };
    let mut fixture = fixture_reading(options, |_| ());
    fixture.write_inbound_all(messages(&["1", "2", "1", "2", "3"]));
    let last = ["app on_read 3", "app on_read_complete", "app read"];
    let full = [&ROUND[..], &["app read"]].concat();
    assert_eq!(fixture.log.take(), [&full[..], &full, &last].concat());
}

#[test]
fn c09_sixteen_reads_are_a_round() {
    let mut fixture = fixture_reading(ChannelOptions::default(), |_| ());
    fixture.write_inbound_all((0..17).map(|_| text("x").into()));
    let lines = fixture.log.take();
    let complete = lines.iter().position(|line| line == "app on_read_complete");
    assert_eq!((complete, lines.len()), (Some(16), 17 + 2 + 2));
}

#[test]
fn c09_a_handler_may_hold_a_read_back() {
    let mut fixture = fixture_with(Embedded::builder(), |edit, log| {
        edit.add_last(
            "gate",
            log.recorder().interest(Events::BEGIN_READ).holds(RecordedMethod::BeginRead),
        )?;
        Ok(())
    });
    fixture.write_inbound(text("x"));
    assert_eq!((fixture.passed(), fixture.unread()), (vec![], 1));
    fixture.with_pipeline(|pipeline| pipeline.remove("gate").is_ok());
    fixture.on_loop(|channel| channel.read());
    fixture.run();
    assert_eq!(fixture.passed(), ["x"]);
}

#[test]
fn c09_the_end_of_the_stream_is_seen_only_by_a_read() {
    let mut fixture = fixture_reading(without_auto_read(), |_| ());
    fixture.write_inbound(text("1"));
    fixture.finish_inbound();
    assert!(fixture.channel().is_open());
    fixture.on_loop(|channel| channel.read());
    fixture.run();
    assert_eq!(fixture.log.take(), ["app read", "app on_read 1", "app on_read_complete"]);
    assert!(fixture.channel().is_open(), "one round, one message");
    fixture.on_loop(|channel| channel.read());
    fixture.run();
    assert!(!fixture.channel().is_open());
}

#[test]
fn c09_a_handler_can_tell_whether_a_round_is_under_way() {
    let seen = Rc::new(RefCell::new(Vec::new()));
    let reads = seen.clone();
    let mut fixture = fixture_reading(ChannelOptions::default(), move |ctx| {
        reads.borrow_mut().push(ctx.is_in_read_round());
    });
    fixture.write_inbound_all(messages(&["1", "2"]));
    assert_eq!(seen.take(), [true, true]);
    fixture.with_pipeline(|pipeline| pipeline.fire_read(text("fired")));
    assert_eq!(seen.take(), [false], "no `on_read_complete` follows");
}
