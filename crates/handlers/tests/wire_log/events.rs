//! Every event is logged and passed on.

use std::collections::BTreeSet;

use bytes::Bytes;
use tracing::Level;
use waterwheel_channel::{Ctx, Events, Handler, HandlerResult, Msg};
use waterwheel_testkit::embedded::Embedded;

use crate::support::{LineCollector, TARGET, builder, messages_of, run_every_event, wire_log};

/// Returns the names of the events in a set, as its `Debug` lists them.
fn names(events: Events) -> BTreeSet<String> {
    let text = format!("{events:?}");
    let list = text.strip_prefix("Events(").and_then(|text| text.strip_suffix(')')).unwrap();
    list.split(" | ").map(str::to_owned).collect()
}

/// Returns the names of the events in lines: the word after the fields.
fn logged_names(lines: &[String]) -> BTreeSet<String> {
    let name = |line: &String| {
        let mut words = line.split_once(": ").unwrap().1.split(' ');
        words.find(|word| !word.contains('=')).unwrap().to_owned()
    };
    lines.iter().map(name).collect()
}

/// Fails when an event is added to `Handler` and the wire log or the scenario does not have it.
#[test]
fn k06_every_event_is_logged() {
    let collector = LineCollector::new(Level::DEBUG, TARGET);
    let lines = collector.lines_of(|| drop(run_every_event(Some(wire_log()))));
    assert_eq!(logged_names(&lines), names(Events::ALL), "{lines:#?}");
}

#[test]
fn k06_events_results_and_completions_pass_unchanged() {
    let without = run_every_event(None);
    let is_result = |line: &&String| line.contains(" ok") || line.contains(" failed");
    assert!(without.iter().filter(is_result).count() >= 6, "{without:#?}");
    assert_eq!(run_every_event(Some(wire_log())), without, "not enabled");
    let collector = LineCollector::new(Level::DEBUG, TARGET);
    collector.lines_of(|| assert_eq!(run_every_event(Some(wire_log())), without, "enabled"));
}

#[test]
fn k06_the_same_bytes_are_passed_on_without_a_copy() {
    let sent = Bytes::from(b"hello".to_vec());
    let mut passed = None;
    messages_of(wire_log(), |channel| {
        channel.write_inbound(sent.clone());
        passed = channel.read_inbound::<Bytes>();
    });
    assert_eq!(passed.map(|bytes| bytes.as_ptr()), Some(sent.as_ptr()));
}

#[test]
fn k06_only_the_chosen_events_are_logged() {
    let events = Events::READ | Events::WRITE | Events::INACTIVE;
    let wire_log = builder().events(events).build();
    let collector = LineCollector::new(Level::DEBUG, TARGET);
    let lines = collector.lines_of(|| drop(run_every_event(Some(wire_log))));
    assert_eq!(logged_names(&lines), names(events));
}

#[test]
fn k06_an_event_is_logged_before_it_is_passed_on() {
    let mut messages = messages_of(wire_log(), |channel| {
        channel.with_pipeline(|pipeline| pipeline.add_last("echo", Echo).unwrap());
        channel.write_inbound(Bytes::from_static(b"x"));
    });
    messages.truncate(4);
    assert_eq!(messages, [r#"READ 1 byte "x""#, r#"WRITE 1 byte "x""#, "FLUSH", "READ_COMPLETE"]);
}

struct Echo;

impl Handler for Echo {
    fn on_read(&mut self, ctx: &Ctx<'_>, msg: Msg) -> HandlerResult {
        ctx.write_and_flush(msg);
        Ok(())
    }
}

#[test]
fn k06_an_answer_that_is_written_while_a_wire_log_runs_is_sent() {
    let wire_log = builder().events(Events::READ | Events::WRITE).build();
    let mut channel = Embedded::new(|edit| {
        edit.add_last("log", wire_log)?;
        edit.add_last("echo", Echo)?;
        Ok(())
    })
    .unwrap();
    channel.write_inbound(Bytes::from_static(b"x"));
    assert_eq!(channel.read_outbound::<Bytes>().unwrap(), "x", "the flush comes after the write");
}

#[test]
fn k06_a_wire_log_may_be_added_and_removed_in_the_middle() {
    let collector = LineCollector::new(Level::DEBUG, TARGET);
    let lines = collector.lines_of(|| {
        let mut channel = Embedded::new(|_| Ok(())).unwrap();
        channel.write_inbound(1u32);
        channel.with_pipeline(|pipeline| pipeline.add_first("log", wire_log()).unwrap());
        channel.write_inbound(2u32);
        channel.with_pipeline(|pipeline| pipeline.remove("log").unwrap());
        channel.write_inbound(3u32);
        let mut read = || channel.read_inbound::<u32>();
        assert_eq!([read(), read(), read(), read()], [Some(1), Some(2), Some(3), None]);
    });
    assert_eq!(lines.iter().filter(|line| line.contains("READ u32")).count(), 1, "{lines:#?}");
}
