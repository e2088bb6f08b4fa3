//! Attempts to connect.

use std::pin::pin;
use std::task::{Context, Poll, Waker};

use waterwheel_async::{ConnectAsync, RemoteAsyncChannel};
use waterwheel_channel::{Address, Bootstrap, ServerBootstrap, local};
use waterwheel_testkit::embedded::Embedded;

use crate::support::drive;

/// A server on the loop of an embedded channel, and a client's bootstrap.
fn network(name: &'static str) -> (Embedded, Bootstrap) {
    let mut channel = Embedded::new(|_| Ok(())).unwrap();
    let event_loop = channel.channel().event_loop();
    let mut bound = ServerBootstrap::new(&event_loop, local::Local)
        .child_initialiser(|_| Ok(()))
        .bind(Address::local(name));
    channel.run();
    bound.try_take().unwrap().unwrap();
    (channel, Bootstrap::new(&event_loop, local::Local).initialiser(|_| Ok(())))
}

/// The server and the embedded channel are left.
fn check_closed(channel: &mut Embedded) {
    channel.run();
    assert_eq!(channel.channel().event_loop().metrics().channels, 2);
    let servers = channel.channel().event_loop().registered_channels();
    channel.run();
    let mut servers = servers;
    for server in servers.try_take().unwrap().unwrap() {
        server.close_without_future();
    }
    channel.run();
}

/// The local transport connects within the call: the connection is there when the future is dropped.
#[test]
fn a06_a_dropped_attempt_leaves_no_connection() {
    let (mut channel, bootstrap) = network("a06 local");
    let to = || Address::local("a06 local");
    channel.on_loop(|_| drop(bootstrap.connect_async::<u32, u32>(to())));
    check_closed(&mut channel);

    let (mut channel, bootstrap) = network("a06 local, polled");
    let to = Address::local("a06 local, polled");
    let connected = drive(&mut channel, async { bootstrap.connect_async::<u32, u32>(to).await });
    channel.on_loop(|_| drop(connected.unwrap()));
    check_closed(&mut channel);
}

/// Polled off the loop, so that each step is a command.
#[test]
fn a06_a_dropped_attempt_from_elsewhere_leaves_no_connection() {
    for polls in 0..10 {
        let (mut channel, bootstrap) = network("a06 remote");
        let mut connecting =
            Box::pin(bootstrap.connect_remote::<u32, u32>(Address::local("a06 remote")));
        let mut context = Context::from_waker(Waker::noop());
        let mut is_done = false;
        for _ in 0..polls {
            if let Poll::Ready(connected) = connecting.as_mut().poll(&mut context) {
                drop(connected.unwrap());
                is_done = true;
                break;
            }
            channel.run();
        }
        drop(connecting);
        check_closed(&mut channel);
        if is_done {
            assert!(polls > 2, "it waits for the connection, then for its handle");
            return;
        }
    }
    panic!("the attempt never completes");
}

#[test]
fn a06_a_takeover_that_was_not_polled_leaves_the_channel_and_one_that_is_given_up_closes_it() {
    let mut channel = Embedded::new(|_| Ok(())).unwrap();
    let handle = channel.channel().clone();
    drop(RemoteAsyncChannel::<u32>::of(&handle));
    channel.run();
    assert!(handle.is_open());
    let mut context = Context::from_waker(Waker::noop());
    let polled = pin!(RemoteAsyncChannel::<u32>::of(&handle)).as_mut().poll(&mut context);
    assert!(polled.is_pending(), "a command is on its way");
    channel.run();
    assert!(!handle.is_open(), "nobody has taken the handle");
    assert_eq!(handle.event_loop().metrics().channels, 0);
    let late = drive(&mut channel, RemoteAsyncChannel::<u32>::of(&handle));
    assert!(late.unwrap_err().is_closed());
}
