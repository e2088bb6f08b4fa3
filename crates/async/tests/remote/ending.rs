//! Ends, errors and half-closure.

use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;

use bytes::Bytes;
use waterwheel_async::{AsyncChannel, AsyncError};
use waterwheel_channel::{Completion, Ctx, Handler, HandlerResult, Msg};
use waterwheel_executor::Error;
use waterwheel_testkit::embedded::Embedded;

use crate::support::{WakeCount, drive, installed, poll_counted, poll_once};

#[test]
fn a01_dropping_it_closes_the_channel_after_what_was_written() {
    let (mut channel, mut remote) = installed::<String, String>();
    assert!(poll_once(pin!(remote.feed("good bye".into()))).is_ready());
    let before = channel.channel().event_loop().stats().queue_depth;
    drop(remote);
    assert_eq!(channel.channel().event_loop().stats().queue_depth, before + 1, "one command");
    channel.run();
    assert_eq!(channel.read_outbound::<String>().as_deref(), Some("good bye"));
    assert!(!channel.channel().is_open());
}

#[test]
fn a01_dropping_it_writes_what_waits_for_room() {
    let (mut channel, mut remote) = installed::<Bytes, Bytes>();
    channel.set_room(0);
    let part = || Bytes::from(vec![0; 40_000]);
    while poll_once(pin!(remote.send(part()))).is_ready() {
        channel.run();
    }
    drop(remote);
    channel.set_room(usize::MAX);
    channel.run();
    let mut parts = 0;
    while channel.read_outbound::<Bytes>().is_some() {
        parts += 1;
    }
    assert_eq!(parts, 3);
    assert!(!channel.channel().is_open());
}

#[test]
fn a01_dropping_the_writer_shuts_down_the_output_and_reading_goes_on() {
    let (mut channel, remote) = installed::<String, String>();
    let (mut reader, mut writer) = remote.split();
    drive(&mut channel, writer.feed("last".into())).unwrap();
    writer.finish();
    channel.run();
    assert!(channel.channel().is_open());
    assert_eq!(channel.read_outbound::<String>().as_deref(), Some("last"));
    let error = channel.write_outbound("late".to_owned()).join().unwrap_err();
    assert!(error.to_string().contains("shut down"), "{error}");
    channel.write_inbound("still there".to_owned());
    assert_eq!(drive(&mut channel, reader.try_next()).unwrap().as_deref(), Some("still there"));
    drop(reader);
    channel.run();
    assert!(!channel.channel().is_open());
}

#[test]
fn a01_dropping_the_reader_leaves_the_writer_and_releases_the_drain() {
    let (mut channel, remote) = installed::<String, String>();
    let (mut reader, mut writer) = remote.split();
    channel.write_inbound("work".to_owned());
    drive(&mut channel, reader.next()).unwrap().unwrap();
    drop(reader);
    channel.run();
    assert!(channel.channel().is_open());
    drive(&mut channel, writer.send("answer".into())).unwrap();
    channel.run();
    assert_eq!(channel.read_outbound::<String>().as_deref(), Some("answer"));
    let drained = channel.channel().event_loop().drain(waterwheel_channel::DrainOptions::default());
    channel.run();
    assert!(drained.is_done(), "nobody works on a message");
}

#[test]
fn a01_the_end_of_the_peers_data_ends_the_input_and_writes_go_on() {
    let (mut channel, mut remote) = installed::<String, String>();
    channel.write_inbound("one".to_owned());
    channel.finish_inbound();
    assert_eq!(drive(&mut channel, remote.try_next()).unwrap().as_deref(), Some("one"));
    assert!(drive(&mut channel, remote.next()).is_none());
    assert!(drive(&mut channel, remote.next()).is_none(), "the end stays");
    drive(&mut channel, remote.send("last words".into())).unwrap();
    drop(remote);
    channel.run();
    assert_eq!(channel.read_outbound::<String>().as_deref(), Some("last words"));
}

#[test]
fn a01_errors_of_the_pipeline_are_items_and_the_cause_of_the_close_comes_last() {
    let (mut channel, mut remote) = installed::<String, String>();
    channel.with_pipeline(|pipeline| pipeline.fire_error(Error::new("too long")));
    let mut next = || drive(&mut channel, remote.next()).unwrap();
    assert_eq!(next().unwrap_err().to_string(), "too long");
    channel.fail(Error::new("reset by the peer"));
    let error = drive(&mut channel, remote.next()).unwrap().unwrap_err();
    assert_eq!(error.to_string(), "reset by the peer");
    assert!(drive(&mut channel, remote.next()).is_none());
    let error = drive(&mut channel, remote.send("late".into())).unwrap_err();
    assert!(error.is_closed() && error.to_string().contains("reset by the peer"), "{error}");
}

#[test]
fn a01_what_was_read_before_the_close_is_not_lost() {
    let (mut channel, mut remote) = installed::<String, String>();
    {
        let mut next = pin!(remote.next());
        assert!(poll_once(next.as_mut()).is_pending());
        channel.run();
    }
    channel.write_inbound_all(["one", "two", "three"].map(|text| Msg::from(text.to_owned())));
    channel.close();
    let mut rest = Vec::new();
    while let Some(item) = drive(&mut channel, remote.next()) {
        rest.push(item.unwrap());
    }
    assert_eq!(rest, ["one", "two", "three"]);
}

#[test]
fn a01_a_refused_message_fails_a_later_call_and_the_channel_goes_on() {
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
        kept = Some(AsyncChannel::<String>::install(edit)?.into_remote());
        Ok(())
    })
    .unwrap();
    let mut remote = kept.unwrap();
    drive(&mut channel, remote.send(String::new())).unwrap();
    let error = drive(&mut channel, remote.flush()).unwrap_err();
    assert_eq!(error.to_string(), "an empty line");
    drive(&mut channel, remote.send("fine".into())).unwrap();
    drive(&mut channel, remote.flush()).unwrap();
    assert_eq!(channel.read_outbound::<String>().as_deref(), Some("fine"));
}

/// Every call that waits when the loop ends, and the same calls afterwards.
#[test]
fn a01_every_call_completes_when_the_loop_ends_and_says_so() {
    let (mut channel, remote) = installed::<Bytes, Bytes>();
    let (mut reader, mut writer) = remote.split();
    channel.set_room(0);
    while poll_once(pin!(writer.send(Bytes::from(vec![0; 70_000])))).is_ready() {
        channel.run();
    }
    let wakes = Arc::new(WakeCount::default());
    {
        let (mut next, mut send) = (pin!(reader.next()), pin!(writer.send(Bytes::new())));
        assert!(poll_counted(next.as_mut(), &wakes).is_pending());
        assert!(poll_counted(send.as_mut(), &wakes).is_pending());
        drop(channel);
        assert_eq!(wakes.get(), 2);
        let Poll::Ready(Some(Err(error))) = poll_once(next.as_mut()) else { panic!("it ended") };
        assert!(error.to_string().contains("loop"), "{error}");
        let Poll::Ready(Err(error)) = poll_once(send.as_mut()) else { panic!("it ended") };
        assert!(error.to_string().contains("loop"), "{error}");
    }
    assert!(matches!(poll_once(pin!(reader.next())), Poll::Ready(None)), "the end stays");
    assert!(poll_once(pin!(reader.draining())).is_ready());
    assert!(matches!(poll_once(pin!(writer.send(Bytes::new()))), Poll::Ready(Err(_))));
    assert!(matches!(poll_once(pin!(writer.flush())), Poll::Ready(Err(_))), "not all was written");
}

#[test]
fn a01_a_relay_that_is_dropped_with_its_scope_says_so() {
    let mut kept = None;
    let mut channel = Embedded::new(|edit| {
        let local = AsyncChannel::<String>::install(edit)?;
        let scope = local.scope().clone();
        kept = Some((local.into_remote(), scope));
        Ok(())
    })
    .unwrap();
    let (mut remote, scope) = kept.unwrap();
    channel.on_loop(|_| scope.end());
    let error = drive(&mut channel, remote.next()).unwrap().unwrap_err();
    assert!(matches!(error.find(), Some(AsyncError::LoopEnded { .. })), "{error}");
    channel.run();
    assert!(!channel.channel().is_open(), "nobody serves it");
}
