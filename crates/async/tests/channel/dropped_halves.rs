//! Channels of which one half is dropped, or whose peer or handler is gone, while drains and errors come.

use std::future::pending;
use std::pin::Pin;

use futures_sink::Sink;
use waterwheel_async::AsyncChannel;
use waterwheel_channel::{DrainOptions, Msg};
use waterwheel_executor::Error;

use crate::back_pressure::Gate;
use crate::support::{Record, installed, serving, spawn};

fn text(text: &str) -> Msg {
    Msg::from(text.to_owned())
}

#[test]
fn a01_a_drain_does_not_wait_for_a_reader_that_is_dropped() {
    let (mut channel, connection) = installed::<String, String>();
    let (mut reader, writer) = connection.split();
    let read = spawn(&mut channel, async move { (reader.try_next().await.unwrap(), reader) });
    channel.write_inbound(text("work"));
    channel.run();
    let (_, reader) = read.take().unwrap();
    channel.on_loop(|_| drop(reader));
    let drained = channel.channel().event_loop().drain(DrainOptions::default());
    channel.run();
    assert!(drained.is_done(), "nobody will read again");
    drop(writer);
}

#[test]
fn a01_a_drain_waits_for_the_answer_to_a_peer_that_has_finished() {
    let gate = Gate::default();
    let inner = gate.clone();
    let mut channel = serving(move |mut connection: AsyncChannel<String>| async move {
        let mut upload = String::new();
        while let Some(part) = connection.next().await {
            upload += &part?;
        }
        inner.passed().await;
        connection.send(upload).await
    });
    channel.write_inbound(text("up"));
    channel.write_inbound(text("load"));
    channel.finish_inbound();
    channel.run();
    let drained = channel.channel().event_loop().drain(DrainOptions::default());
    channel.run();
    assert!(!drained.is_done(), "an answer is on its way");
    gate.open();
    channel.run();
    assert_eq!(channel.read_outbound::<String>().as_deref(), Some("upload"));
    assert!(drained.is_done());
}

#[test]
fn a01_an_error_that_has_no_reader_passes_on() {
    let (mut channel, connection) = installed::<String, String>();
    let (reader, _writer) = connection.split();
    channel.on_loop(|_| drop(reader));
    channel.with_pipeline(|pipeline| pipeline.fire_error(Error::new("too long")));
    assert_eq!(channel.read_error().map(|error| error.to_string()).as_deref(), Some("too long"));
}

#[test]
fn a02_removing_the_handler_of_a_connection_drops_its_task_and_the_channel_goes_on() {
    let mut channel = serving(move |connection: AsyncChannel<String>| async move {
        let _connection = connection;
        pending::<()>().await;
    });
    channel.with_pipeline(|pipeline| pipeline.remove("async").unwrap());
    channel.run();
    let cause = channel.channel().close_cause();
    assert!(channel.channel().is_open(), "closed: {cause:?}");
    channel.write_inbound(text("to the next handler"));
    channel.run();
    assert_eq!(channel.read_inbound::<String>().as_deref(), Some("to the next handler"));
}

#[test]
fn a02_a_close_by_others_has_no_cause() {
    let mut channel = serving(move |connection: AsyncChannel<String>| async move {
        let _connection = connection;
        pending::<()>().await;
    });
    channel.close();
    let cause = channel.channel().close_cause();
    assert!(cause.is_none(), "{cause:?}");
}

#[test]
fn a01_a_second_bridge_reads_after_the_first_was_removed() {
    let (mut channel, first) = installed::<String, String>();
    channel.with_pipeline(|pipeline| pipeline.remove("async").unwrap());
    channel.on_loop(|_| drop(first));
    let mut second: AsyncChannel<String> =
        channel.on_loop(|channel| AsyncChannel::of(channel).unwrap());
    channel.write_inbound(text("one"));
    channel.run();
    assert_eq!(channel.unread(), 1, "nobody waits");
    let read = spawn(&mut channel, async move { second.try_next().await.unwrap() });
    assert_eq!(read.take(), Some(Some("one".to_owned())));
}

#[test]
fn a01_a_channel_that_is_registered_again_goes_on() {
    let mut channel =
        serving(move |connection| crate::support::echo(Record::default(), connection));
    channel.write_inbound(text("one"));
    channel.run();
    let left = channel.on_loop(|channel| channel.deregister());
    channel.run();
    left.join().unwrap();
    let back = channel.on_loop(|channel| channel.register());
    channel.run();
    back.join().unwrap();
    channel.write_inbound(text("two"));
    channel.run();
    let answers: Vec<_> = std::iter::from_fn(|| channel.read_outbound::<String>()).collect();
    assert_eq!(answers, ["one", "two"]);
    let drained = channel.channel().event_loop().drain(DrainOptions::default());
    channel.run();
    assert!(drained.is_done());
}

#[test]
fn a01_a_start_send_to_a_closed_channel_says_why() {
    let (mut channel, mut connection) = installed::<String, String>();
    channel.fail(Error::new("reset by the peer"));
    channel.run();
    let error =
        channel.on_loop(|_| Pin::new(&mut connection).start_send("late".to_owned())).unwrap_err();
    assert!(error.is_closed() && error.to_string().contains("reset by the peer"), "{error}");
}
