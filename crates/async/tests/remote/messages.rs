//! Messages in both directions.

use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::Poll;

use futures_core::Stream;
use futures_sink::Sink;
use waterwheel_async::{AsyncChannel, RemoteAsyncChannel, serve_channel};
use waterwheel_channel::{ChannelOptions, Msg};
use waterwheel_executor::Error;
use waterwheel_testkit::embedded::Embedded;

use crate::support::{WakeCount, drive, installed, poll_counted, poll_once};

fn text(text: &str) -> Msg {
    Msg::from(text.to_owned())
}

#[test]
fn a01_messages_are_read_and_written_off_the_loop() {
    let (mut channel, mut remote) = installed::<String, String>();
    channel.write_inbound_all([text("one"), text("two")]);
    channel.write_inbound(text("three"));
    for expected in ["one", "two", "three"] {
        let line = drive(&mut channel, remote.try_next()).unwrap().unwrap();
        assert_eq!(line, expected);
        drive(&mut channel, remote.send(line)).unwrap();
    }
    drive(&mut channel, remote.flush()).unwrap();
    let answers: Vec<_> = std::iter::from_fn(|| channel.read_outbound::<String>()).collect();
    assert_eq!(answers, ["one", "two", "three"]);
}

#[test]
fn a01_a_round_wakes_the_reader_once() {
    let (mut channel, mut remote) = installed::<String, String>();
    let wakes = Arc::new(WakeCount::default());
    {
        let mut next = pin!(remote.next());
        assert!(poll_counted(next.as_mut(), &wakes).is_pending());
        channel.write_inbound_all((0..10).map(|n| text(&n.to_string())));
        channel.run();
        assert_eq!(wakes.get(), 1);
    }
    for n in 0..10 {
        let mut next = pin!(remote.next());
        let Poll::Ready(Some(Ok(line))) = poll_once(next.as_mut()) else {
            panic!("message {n} of the round is there")
        };
        assert_eq!(line, n.to_string());
    }
}

#[test]
fn a01_halves_are_used_by_two_tasks() {
    let (mut channel, remote) = installed::<String, String>();
    let (mut reader, mut writer) = remote.split();
    let mut next = pin!(reader.next());
    assert!(poll_once(next.as_mut()).is_pending());
    drive(&mut channel, writer.send("hello".into())).unwrap();
    channel.run();
    assert_eq!(channel.read_outbound::<String>().as_deref(), Some("hello"));
    channel.write_inbound(text("hi"));
    let Poll::Ready(Some(Ok(line))) = poll_once(next.as_mut()) else { panic!("it was read") };
    assert_eq!(line, "hi");
}

#[test]
fn a01_a_connection_that_was_served_here_goes_on_elsewhere() {
    let (give, given) = std::sync::mpsc::channel();
    let mut channel = Embedded::new(|edit| {
        serve_channel(edit, move |mut connection: AsyncChannel<String>| async move {
            let hello = connection.try_next().await?.unwrap();
            connection.feed(format!("{hello} you")).await?;
            give.send(connection.into_remote()).unwrap();
            Ok::<_, Error>(())
        })
    })
    .unwrap();
    channel.run();
    channel.write_inbound_all([text("hello"), text("one"), text("two")]);
    channel.run();
    let mut remote = given.try_recv().unwrap();
    assert!(channel.channel().is_open(), "the function has returned, and its channel is elsewhere");
    for expected in ["one", "two"] {
        assert_eq!(drive(&mut channel, remote.try_next()).unwrap().as_deref(), Some(expected));
    }
    drive(&mut channel, remote.flush()).unwrap();
    drive(&mut channel, remote.send("bye".into())).unwrap();
    channel.run();
    let answers: Vec<_> = std::iter::from_fn(|| channel.read_outbound::<String>()).collect();
    assert_eq!(answers, ["hello you", "bye"]);
}

#[test]
fn a01_a_running_channel_is_taken_over_from_elsewhere_without_loss() {
    let mut channel = Embedded::builder()
        .options(ChannelOptions { auto_read: false, ..ChannelOptions::default() })
        .build(|_| Ok(()))
        .unwrap();
    channel.write_inbound_all([text("one"), text("two")]);
    let handle = channel.channel().clone();
    let taken = drive(&mut channel, RemoteAsyncChannel::<String>::of(&handle));
    let mut taken = taken.unwrap();
    for expected in ["one", "two"] {
        assert_eq!(drive(&mut channel, taken.try_next()).unwrap().as_deref(), Some(expected));
    }
}

#[test]
fn a01_it_is_a_stream_and_a_sink() {
    async fn through_the_traits(mut remote: RemoteAsyncChannel<String>) -> Option<String> {
        let line = std::future::poll_fn(|context| Pin::new(&mut remote).poll_next(context)).await;
        let line = line?.unwrap();
        std::future::poll_fn(|context| Pin::new(&mut remote).poll_ready(context)).await.unwrap();
        Pin::new(&mut remote).start_send(line.clone()).unwrap();
        std::future::poll_fn(|context| Sink::poll_close(Pin::new(&mut remote), context))
            .await
            .unwrap();
        Some(line)
    }
    let (mut channel, remote) = installed::<String, String>();
    channel.write_inbound(text("hello"));
    assert_eq!(drive(&mut channel, through_the_traits(remote)).as_deref(), Some("hello"));
    assert_eq!(channel.read_outbound::<String>().as_deref(), Some("hello"));
}
