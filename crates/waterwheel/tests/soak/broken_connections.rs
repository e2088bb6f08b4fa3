//! Connections that are reset, refused or cancelled, whose handler panics, or whose loops are shut down.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use waterwheel::channel::driver::SocketOption;
use waterwheel::channel::{
    Bootstrap, ChannelOptions, Ctx, EventLoopGroup, Handler, HandlerResult, ServerBootstrap,
};
use waterwheel::executor::Error;
use waterwheel::net::{Epoll, Poll, Tcp};

use crate::byte_counts::ByteCounts;
use crate::client_connection::{ConnectionEnd, WAIT_LIMIT, get};
use crate::handlers::{Echo, UNCHECKED};
use crate::random::SeededRng;
use crate::reports::Cause;
use crate::soak_setup::{Service, SoakSetup, shut_down_now};

fn unchecked_data(rng: &mut SeededRng, len: usize) -> Bytes {
    let mut data = vec![UNCHECKED];
    data.extend_from_slice(&rng.bytes(len));
    data.into()
}

/// Resets the connection (SO_LINGER 0), with or without data under way.
pub(crate) fn reset(setup: &SoakSetup, rng: &mut SeededRng) {
    let service = Service::TCP[rng.below(Service::TCP.len())];
    let Some(connection) = setup.connect(service, rng, ChannelOptions::default()) else { return };
    let linger = connection.channel.set_option(SocketOption::Linger(Some(Duration::ZERO)));
    let set = get(linger);
    assert!(set.is_ok() || service.may_end_early(), "{set:?}");
    for _ in 0..rng.below(4) {
        let len = rng.below(20_000);
        connection.channel.send(unchecked_data(rng, len));
    }
    connection.close();
}

/// Connects to an address where no socket listens.
pub(crate) fn connect_refused(setup: &SoakSetup, rng: &mut SeededRng) {
    let clients = setup.bootstrap(Service::Boss, rng);
    let error =
        get(clients.connect(setup.refusing_address)).expect_err("no socket listens").to_string();
    let is_expected = error.contains("refused") || error.contains("Too many open files");
    assert!(is_expected, "{error}");
}

/// Cancels a connect at a random moment.
pub(crate) fn cancel_a_connect(setup: &SoakSetup, rng: &mut SeededRng) {
    let service = Service::TCP[rng.below(Service::TCP.len())];
    let clients = setup
        .bootstrap(service, rng)
        .initialiser(|edit| Ok(edit.add_last("ignore errors", IgnoreErrors).map(drop)?));
    let attempt = clients.connect(setup.address(service));
    for _ in 0..rng.below(50) {
        std::thread::yield_now();
    }
    if !attempt.cancel()
        && let Ok(channel) = get(attempt)
    {
        drop(channel.close());
        channel.closed().wait_timeout(WAIT_LIMIT).expect("the channel closes");
    }
}

/// Ignores errors: a server that is drained may reset the connection meanwhile.
struct IgnoreErrors;

impl Handler for IgnoreErrors {
    fn on_error(&mut self, _: &Ctx<'_>, _: Error) -> HandlerResult {
        Ok(())
    }
}

/// A handler panics: its connection is closed, and nothing else is affected.
pub(crate) fn panic(setup: &SoakSetup, rng: &mut SeededRng) {
    let clients = setup.bootstrap(Service::Boss, rng);
    let to = setup.services.fragile.clone();
    let Some(connection) = setup.connect_by(clients, to, ChannelOptions::default()) else { return };
    let panics = setup.common.reports.count(Cause::Panic);
    connection.channel.send(unchecked_data(rng, 0));
    let (read, end) = connection.receive(1);
    assert!(read.is_empty() && end != ConnectionEnd::Open, "{end:?}");
    assert_eq!(setup.common.reports.count(Cause::Panic), panics + 1);
    connection.close();
}

/// Loops are shut down while data flows: every connection ends, and delivers only bytes that were sent.
pub(crate) fn shut_down(setup: &SoakSetup, rng: &mut SeededRng) {
    let can_open = setup.with_descriptors();
    let builder = if rng.below(2) == 0 {
        EventLoopGroup::builder(Epoll)
    } else {
        EventLoopGroup::builder(Poll)
    };
    let group = setup.common.group("short", builder.threads(2));
    let unused_counts = Arc::<ByteCounts>::default();
    let server = ServerBootstrap::new(&group, Tcp).child_initialiser(move |edit| {
        Ok(edit.add_last("echo", Echo::new(&unused_counts)).map(drop)?)
    });
    let server = get(server.bind("127.0.0.1:0")).expect("the server is bound");
    let to = server.local_address().expect("the channel is bound");
    let clients = || Bootstrap::new(&setup.clients[0], Tcp);
    let connections =
        (0..4).filter_map(|_| setup.connect_by(clients(), to.clone(), ChannelOptions::default()));
    let connections: Vec<_> = connections.collect();
    drop(can_open);
    let sent: Vec<_> = connections.iter().map(|_| unchecked_data(rng, 100_000)).collect();
    for (connection, data) in connections.iter().zip(&sent) {
        for piece in rng.cut(data.clone(), 10_000) {
            connection.channel.send(piece);
        }
    }
    let ended = shut_down_now(&group);
    for (connection, data) in connections.into_iter().zip(sent) {
        let (read, end) = connection.receive(usize::MAX);
        assert!(
            data.starts_with(&read) && end != ConnectionEnd::Open,
            "{} bytes, {end:?}",
            read.len()
        );
        connection.close();
    }
    ended.wait_timeout(WAIT_LIMIT).expect("the loops end");
    drop(server);
}
