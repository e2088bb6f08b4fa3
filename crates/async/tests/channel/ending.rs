//! Ends, errors, half-closure and panics.

use std::sync::Arc;

use bytes::Bytes;
use waterwheel_async::{AsyncChannel, AsyncError, serve_channel};
use waterwheel_channel::{Completion, Ctx, Events, Handler, HandlerResult, Msg};
use waterwheel_executor::Error;
use waterwheel_testkit::embedded::Embedded;
use waterwheel_testkit::loop_suite::Reports;

use crate::support::{Record, half_closure, installed, serving, serving_with, spawn};

#[test]
fn a01_dropping_the_channel_closes_it_after_what_was_written() {
    let mut channel = serving(|mut connection: AsyncChannel<String>| async move {
        connection.feed("good bye".to_owned()).await.unwrap();
    });
    assert_eq!(channel.read_outbound::<String>().as_deref(), Some("good bye"));
    assert!(!channel.channel().is_open());
}

#[test]
fn a01_dropping_it_before_the_handler_is_added_closes_the_channel() {
    let registered = Embedded::new(|edit| {
        drop(AsyncChannel::<String>::install(edit)?);
        Ok(())
    });
    assert!(registered.err().is_some_and(|error| error.is_closed()));
}

#[test]
fn a01_dropping_the_writer_shuts_down_the_output_and_reading_goes_on() {
    let (mut channel, connection) = installed::<String, String>();
    let (mut reader, writer) = connection.split();
    channel.on_loop(|_| writer.finish());
    channel.run();
    assert!(channel.channel().is_open());
    let error = channel.write_outbound("late".to_owned()).join().unwrap_err();
    assert!(error.to_string().contains("shut down"), "{error}");
    let read = spawn(&mut channel, async move { (reader.try_next().await.unwrap(), reader) });
    channel.write_inbound("still there".to_owned());
    channel.run();
    let (line, reader) = read.take().unwrap();
    assert_eq!(line.as_deref(), Some("still there"));
    channel.on_loop(|_| drop(reader));
    channel.run();
    assert!(!channel.channel().is_open());
}

#[test]
fn a01_the_end_of_the_peers_data_ends_the_input_and_writes_go_on() {
    let mut channel = serving(|mut connection: AsyncChannel<String>| async move {
        assert!(connection.next().await.is_none());
        assert!(connection.next().await.is_none(), "the end stays");
        connection.send("last words".to_owned()).await.unwrap();
    });
    channel.finish_inbound();
    channel.run();
    assert_eq!(channel.read_outbound::<String>().as_deref(), Some("last words"));
    assert!(!channel.channel().is_open());
}

#[test]
fn a01_an_error_of_the_pipeline_is_an_item_and_the_channel_goes_on() {
    let record = Record::default();
    let noted = record.clone();
    let mut channel = serving(move |mut connection: AsyncChannel<String>| async move {
        while let Some(item) = connection.next().await {
            noted.add(item.unwrap_or_else(|error| format!("error: {error}")));
        }
    });
    channel.with_pipeline(|pipeline| pipeline.fire_error(Error::new("too long")));
    channel.write_inbound("fine".to_owned());
    channel.run();
    assert_eq!(record.take(), ["error: too long", "fine"]);
}

#[test]
fn a01_errors_that_nobody_reads_are_limited() {
    let (mut channel, mut connection) = installed::<String, String>();
    channel.with_pipeline(|pipeline| {
        for n in 0..20 {
            pipeline.fire_error(Error::new(format!("error {n}")));
        }
    });
    let passed_on: Vec<_> = std::iter::from_fn(|| channel.read_error()).collect();
    assert_eq!(passed_on.len(), 4, "16 wait for the reader");
    let _first = spawn(&mut channel, async move { (connection.next().await, connection) });
    channel.with_pipeline(|pipeline| {
        pipeline.fire_error(Error::new("takes the place of the first"));
        pipeline.fire_error(Error::new("one too many"));
    });
    assert_eq!(channel.read_error().unwrap().to_string(), "one too many");
    assert!(channel.read_error().is_none());
}

#[test]
fn a01_a_message_that_a_handler_refuses_fails_its_send() {
    struct Refuses;
    impl Handler for Refuses {
        fn write(&mut self, ctx: &Ctx<'_>, msg: Msg, done: &mut Completion) -> HandlerResult {
            if msg.get::<String>().is_some_and(|text| text.is_empty()) {
                return Err(Error::new("an empty line"));
            }
            ctx.write_with(msg, done.take());
            Ok(())
        }
    }
    let mut kept = None;
    let mut channel = Embedded::new(|edit| {
        edit.add_last("refuses", Refuses)?;
        kept = Some(AsyncChannel::<String>::install(edit)?);
        Ok(())
    })
    .unwrap();
    let mut connection = kept.unwrap();
    let sent = spawn(&mut channel, async move {
        let refused = connection.send(String::new()).await;
        (refused, connection.send("fine".into()).await, connection)
    });
    let (refused, sent, _connection) = sent.take().unwrap();
    assert_eq!(refused.unwrap_err().to_string(), "an empty line");
    sent.unwrap();
    assert_eq!(channel.read_outbound::<String>().as_deref(), Some("fine"));
}

#[test]
fn a01_a_send_to_a_closed_channel_says_why() {
    let (mut channel, mut connection) = installed::<String, String>();
    channel.fail(Error::new("reset by the peer"));
    channel.run();
    let sent = spawn(&mut channel, async move { connection.send("late".into()).await });
    let error = sent.take().unwrap().unwrap_err();
    assert!(error.is_closed() && error.to_string().contains("reset by the peer"), "{error}");
}

#[test]
fn a02_an_error_of_the_function_closes_the_channel_with_the_cause() {
    let mut channel = serving(|_connection: AsyncChannel<String>| async move {
        Err::<(), _>(Error::new("no such user"))
    });
    assert_eq!(channel.read_error().unwrap().to_string(), "no such user");
    assert!(!channel.channel().is_open());
    assert_eq!(channel.channel().close_cause().unwrap().to_string(), "no such user");
}

#[test]
fn a02_a_function_that_returns_the_end_of_its_channel_has_not_failed() {
    let read = |mut connection: AsyncChannel<String>| async move {
        connection.try_next().await?;
        Ok::<_, Error>(())
    };
    let write = |mut connection: AsyncChannel<String>| async move {
        let _ = connection.next().await;
        connection.send("late".into()).await
    };
    for mut channel in [serving(read), serving(write)] {
        channel.fail(Error::new("the event loop is shutting down"));
        channel.run();
        assert!(!channel.channel().is_open());
        let passed_on = channel.read_error().map(|error| error.to_string());
        assert_eq!(passed_on, None, "it would be reported for every connection of a server");
    }
}

#[test]
fn a02_an_error_of_the_function_after_the_close_is_an_error_of_the_pipeline() {
    let mut channel = serving(|mut connection: AsyncChannel<String>| async move {
        let _ = connection.next().await;
        Err::<(), _>(Error::new("an upload was cut off"))
    });
    channel.fail(Error::new("reset by the peer"));
    channel.run();
    assert_eq!(channel.read_error().unwrap().to_string(), "an upload was cut off");
}

#[test]
fn a02_a_function_that_panics_closes_its_channel_and_is_reported_with_its_name() {
    let reports = Arc::new(Reports::default());
    let mut channel = Embedded::builder()
        .options(half_closure())
        .reporter(reports.clone())
        .build(|edit| {
            serve_channel(edit, |mut connection: AsyncChannel<String>| async move {
                assert!(connection.next().await.is_none(), "a defect");
            })
        })
        .unwrap();
    channel.write_inbound("go".to_owned());
    channel.run();
    assert!(!channel.channel().is_open());
    let cause = channel.channel().close_cause().unwrap();
    assert!(cause.find::<AsyncError>().is_some(), "{cause}");
    let reports = reports.take_texts();
    let names = |report: &String| report.contains("ending.rs") && report.contains("a defect");
    assert!(reports.iter().any(names), "{reports:?}");
}

#[test]
fn a01_without_half_closure_the_end_of_the_peers_data_closes() {
    let record = Record::default();
    let noted = record.clone();
    let mut channel =
        serving_with(Default::default(), move |mut connection: AsyncChannel<Bytes>| async move {
            noted.add(format!("{:?}", connection.next().await));
            noted.add(format!("{}", connection.send(Bytes::new()).await.unwrap_err()));
        });
    channel.finish_inbound();
    channel.run();
    assert_eq!(record.take(), ["None", "the channel is closed"]);
}

#[test]
fn a01_removing_the_handler_ends_the_handles() {
    let (mut channel, mut connection) = installed::<String, String>();
    channel.with_pipeline(|pipeline| pipeline.remove("async").unwrap());
    let ended = spawn(&mut channel, async move {
        let next = connection.next().await.is_none();
        (next, connection.send("late".into()).await.is_err())
    });
    assert_eq!(ended.take(), Some((true, true)));
    assert!(channel.channel().is_open(), "the channel has other handlers");
}

/// Holds a close back until the peer has said `bye`; says why it closes.
#[derive(Default)]
struct ClosesAfterBye(Option<Completion>);

impl Handler for ClosesAfterBye {
    fn interest(&self) -> Events {
        Events::READ | Events::CLOSE
    }

    fn on_read(&mut self, ctx: &Ctx<'_>, msg: Msg) -> HandlerResult {
        if msg.get::<String>().is_some_and(|line| line == "bye")
            && let Some(done) = self.0.take()
        {
            ctx.close_with(done);
        } else {
            ctx.fire_read(msg);
        }
        Ok(())
    }

    fn close(&mut self, ctx: &Ctx<'_>, done: &mut Completion) -> HandlerResult {
        let cause = ctx.close_cause().map_or("bye".to_owned(), |cause| cause.to_string());
        ctx.write_and_flush(cause);
        self.0 = Some(done.take());
        Ok(())
    }
}

#[test]
fn a01_a_close_that_a_handler_holds_back_gets_the_answer_of_the_peer() {
    for (outcome, said) in [(Ok(()), "bye"), (Err(Error::new("no room")), "no room")] {
        let mut channel = Embedded::builder()
            .options(half_closure())
            .build(|edit| {
                edit.add_last("closer", ClosesAfterBye::default())?;
                serve_channel(edit, move |mut connection: AsyncChannel<String>| async move {
                    connection.next().await;
                    outcome
                })
            })
            .unwrap();
        channel.write_inbound("go".to_owned());
        channel.run();
        assert_eq!(channel.read_outbound::<String>().as_deref(), Some(said));
        assert!(channel.channel().is_open(), "the close is held back");
        assert!(channel.channel().close_cause().is_none(), "nobody is told before it has closed");
        for line in ["for nobody", "for nobody either", "bye"] {
            channel.write_inbound(line.to_owned());
            channel.run();
        }
        assert!(!channel.channel().is_open());
        assert!(channel.read_inbound::<String>().is_none(), "unread messages are dropped");
    }
}
