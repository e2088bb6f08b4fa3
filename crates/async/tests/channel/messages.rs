//! Reading and writing messages, splitting, taking over.

use std::cell::Cell;
use std::future::pending;
use std::rc::Rc;

use waterwheel_async::AsyncChannel;
use waterwheel_channel::{Ctx, Handler, HandlerResult, LocalLoop, Msg};
use waterwheel_executor::Error;
use waterwheel_testkit::embedded::Embedded;

use crate::support::{Record, echo, installed, serving, spawn};

fn text(text: &str) -> Msg {
    Msg::from(text.to_owned())
}

#[test]
fn a02_an_async_function_serves_a_connection() {
    let record = Record::default();
    let mut channel = serving({
        let record = record.clone();
        move |connection| echo(record, connection)
    });
    channel.write_inbound(text("one"));
    channel.write_inbound_all([text("two"), text("three")]);
    channel.run();
    let answers: Vec<_> = std::iter::from_fn(|| channel.read_outbound::<String>()).collect();
    assert_eq!(answers, ["one", "two", "three"]);
    channel.finish_inbound();
    channel.run();
    assert_eq!(record.take(), ["one", "two", "three", "end"]);
    assert!(!channel.channel().is_open(), "the function has returned");
}

#[test]
fn a01_the_task_of_a_connection_answers_within_the_round() {
    let mut channel = serving(move |connection| echo(Record::default(), connection));
    // One call into the channel, without a turn of the loop after it.
    channel.with_pipeline(|pipeline| {
        pipeline.fire_read("hello".to_owned());
        pipeline.fire_read_complete();
    });
    assert_eq!(channel.read_outbound::<String>().as_deref(), Some("hello"));
}

#[test]
fn a01_messages_that_come_without_the_end_of_a_round_are_not_lost() {
    let mut channel = serving(move |connection| echo(Record::default(), connection));
    channel.with_pipeline(|pipeline| pipeline.fire_read("hello".to_owned()));
    channel.run();
    assert_eq!(channel.read_outbound::<String>().as_deref(), Some("hello"));
}

#[test]
fn a01_a_message_of_another_type_passes_on() {
    let record = Record::default();
    let noted = record.clone();
    let mut channel = serving(move |connection| echo(noted, connection));
    channel.write_inbound(7_u32);
    channel.write_inbound(text("seven"));
    channel.run();
    assert_eq!(record.take(), ["seven"]);
    assert_eq!(channel.read_inbound::<u32>(), Some(7), "it reached the end of the pipeline");
}

#[test]
fn a01_halves_are_used_by_two_futures() {
    let (mut channel, whole) = installed::<String, String>();
    let (mut reader, mut writer) = whole.split();
    let read = spawn(&mut channel, async move { reader.try_next().await.unwrap() });
    let written = spawn(&mut channel, async move {
        writer.send("hello".into()).await.unwrap();
        pending::<()>().await;
    });
    assert_eq!(channel.read_outbound::<String>().as_deref(), Some("hello"));
    channel.write_inbound(text("hi"));
    channel.run();
    assert_eq!(read.take(), Some(Some("hi".to_owned())));
    assert!(written.take().is_none());
}

#[test]
fn a01_a_running_channel_is_taken_over_without_loss() {
    let mut channel = Embedded::builder()
        .options(waterwheel_channel::ChannelOptions { auto_read: false, ..Default::default() })
        .build(|_| Ok(()))
        .unwrap();
    channel.write_inbound_all([text("one"), text("two")]);
    let mut taken: AsyncChannel<String> =
        channel.on_loop(|channel| AsyncChannel::of(channel).unwrap());
    let read = spawn(&mut channel, async move {
        let one = taken.try_next().await.unwrap();
        (one, taken.try_next().await.unwrap())
    });
    channel.run();
    assert_eq!(read.take(), Some((Some("one".into()), Some("two".into()))));
}

#[test]
fn a01_a_channel_of_another_loop_is_refused() {
    let (channel, _kept) = installed::<String, String>();
    let error = AsyncChannel::<String>::of(channel.channel()).unwrap_err();
    assert!(error.to_string().contains("belongs to another event loop"), "{error}");
}

#[test]
fn a02_tasks_of_the_scope_end_with_the_channel_before_it_is_unregistered() {
    struct NotesUnregistered(Record);
    impl Handler for NotesUnregistered {
        fn on_unregistered(&mut self, ctx: &Ctx<'_>) -> HandlerResult {
            self.0.add("unregistered");
            ctx.fire_unregistered();
            Ok(())
        }
    }
    struct NotesDrop(Record, &'static str);
    impl Drop for NotesDrop {
        fn drop(&mut self) {
            self.0.add(format!(
                "{} dropped on its loop: {}",
                self.1,
                LocalLoop::current().is_some()
            ));
        }
    }
    let record = Record::default();
    let noted = record.clone();
    let mut channel = serving(move |connection: AsyncChannel<String>| async move {
        for name in ["first", "second"] {
            let guard = NotesDrop(noted.clone(), name);
            connection.spawn(async move {
                let _guard = guard;
                pending::<()>().await;
            });
        }
        let _guard = NotesDrop(noted, "own");
        let _connection = connection;
        pending::<()>().await;
    });
    channel.with_pipeline(|pipeline| pipeline.add_last("notes", NotesUnregistered(record.clone())));
    channel.run();
    channel.fail(Error::new("reset by the peer"));
    channel.run();
    let mut noted = record.take();
    assert_eq!(noted.pop().as_deref(), Some("unregistered"));
    noted.sort();
    let dropped = |name| format!("{name} dropped on its loop: true");
    assert_eq!(noted, [dropped("first"), dropped("own"), dropped("second")]);
}

#[test]
fn a02_the_function_is_polled_once_more_when_the_channel_is_closed() {
    let record = Record::default();
    let noted = record.clone();
    let mut channel = serving(move |mut connection: AsyncChannel<String>| async move {
        while let Some(item) = connection.next().await {
            noted.add(item.unwrap_or_else(|error| error.to_string()));
        }
        noted.add("end");
    });
    channel.fail(Error::new("reset by the peer"));
    channel.run();
    assert_eq!(record.take(), ["reset by the peer", "end"]);
}

#[test]
fn a01_the_queue_is_read_to_its_end_after_the_close() {
    let (mut channel, mut connection) = installed::<String, String>();
    let begun = Rc::new(Cell::new(false));
    let go = begun.clone();
    let first = spawn(&mut channel, async move {
        let first = connection.next().await.unwrap().unwrap();
        go.set(true);
        (first, connection)
    });
    channel.write_inbound_all([text("one"), text("two"), text("three")]);
    channel.run();
    assert!(begun.get());
    channel.close();
    let (_, mut connection) = first.take().unwrap();
    let rest = spawn(&mut channel, async move {
        let mut rest = Vec::new();
        while let Some(item) = connection.next().await {
            rest.push(item.unwrap());
        }
        rest
    });
    assert_eq!(rest.take().unwrap(), ["two", "three"]);
}

#[test]
fn a01_a_channel_is_a_stream_and_a_sink() {
    use std::future::poll_fn;
    use std::pin::Pin;

    use futures_core::Stream;
    use futures_sink::Sink;

    let (mut channel, mut connection) = installed::<String, String>();
    let done = spawn(&mut channel, async move {
        let item = poll_fn(|context| Stream::poll_next(Pin::new(&mut connection), context)).await;
        let line = item.unwrap().unwrap();
        poll_fn(|context| Sink::poll_ready(Pin::new(&mut connection), context)).await.unwrap();
        Sink::start_send(Pin::new(&mut connection), line).unwrap();
        poll_fn(|context| Sink::poll_flush(Pin::new(&mut connection), context)).await.unwrap();
        let end = poll_fn(|context| Stream::poll_next(Pin::new(&mut connection), context)).await;
        assert!(end.is_none());
        poll_fn(|context| Sink::poll_close(Pin::new(&mut connection), context)).await.unwrap();
    });
    channel.write_inbound(text("hello"));
    channel.run();
    assert_eq!(channel.read_outbound::<String>().as_deref(), Some("hello"));
    channel.finish_inbound();
    channel.run();
    assert!(done.take().is_some());
}
