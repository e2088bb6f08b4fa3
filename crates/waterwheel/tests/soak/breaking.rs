//! Connections that are torn, refused, given up, or end with their loops.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use waterwheel::channel::driver::SocketOption;
use waterwheel::channel::{
    Bootstrap, ChannelOptions, Ctx, EventLoopGroup, Handler, HandlerResult, ServerBootstrap,
};
use waterwheel::executor::Error;
use waterwheel::net::{Epoll, Poll, Tcp};

use crate::handlers::{CARELESS, Echo};
use crate::ledger::Ledger;
use crate::line::{End, PATIENCE, get};
use crate::random::SeededRng;
use crate::reports::Cause;
use crate::world::{Service, World, end};

fn careless(dice: &mut SeededRng, len: usize) -> Bytes {
    let mut data = vec![CARELESS];
    data.extend_from_slice(&dice.bytes(len));
    data.into()
}

/// Resets the connection, with something under way or not.
pub(crate) fn reset(world: &World, dice: &mut SeededRng) {
    let service = Service::TCP[dice.below(Service::TCP.len())];
    let Some(line) = world.connect(service, dice, ChannelOptions::default()) else { return };
    let lingers = line.channel.set_option(SocketOption::Linger(Some(Duration::ZERO)));
    let set = get(lingers);
    assert!(set.is_ok() || service.may_leave(), "{set:?}");
    for _ in 0..dice.below(4) {
        let len = dice.below(20_000);
        line.channel.send(careless(dice, len));
    }
    line.close();
}

/// Connects to nobody.
pub(crate) fn connect_to_nobody(world: &World, dice: &mut SeededRng) {
    let clients = world.bootstrap(Service::Boss, dice);
    let error = get(clients.connect(world.nobody_at)).expect_err("nobody is there").to_string();
    let told = error.contains("refused") || error.contains("Too many open files");
    assert!(told, "{error}");
}

/// Connects, and does not want to after all.
pub(crate) fn cancel_a_connect(world: &World, dice: &mut SeededRng) {
    let service = Service::TCP[dice.below(Service::TCP.len())];
    let clients = world
        .bootstrap(service, dice)
        .initialiser(|edit| Ok(edit.add_last("resigned", Resigned).map(drop)?));
    let attempt = clients.connect(world.address(service));
    for _ in 0..dice.below(50) {
        std::thread::yield_now();
    }
    if !attempt.cancel()
        && let Ok(channel) = get(attempt)
    {
        drop(channel.close());
        channel.closed().wait_timeout(PATIENCE).expect("it closes");
    }
}

/// A server that leaves may reset it meanwhile.
struct Resigned;

impl Handler for Resigned {
    fn on_error(&mut self, _: &Ctx<'_>, _: Error) -> HandlerResult {
        Ok(())
    }
}

/// A handler panics: its connection is closed, and that is all.
pub(crate) fn panic(world: &World, dice: &mut SeededRng) {
    let clients = world.bootstrap(Service::Boss, dice);
    let to = world.services.fragile.clone();
    let Some(line) = world.connect_by(clients, to, ChannelOptions::default()) else { return };
    let panics = world.common.reports.count(Cause::Panic);
    line.channel.send(careless(dice, 0));
    let (read, end) = line.hear(1);
    assert!(read.is_empty() && end != End::Open, "{end:?}");
    assert_eq!(world.common.reports.count(Cause::Panic), panics + 1);
    line.close();
}

/// Loops are shut down in the middle of conversations: these end, and nothing that was not sent comes.
pub(crate) fn shut_down(world: &World, dice: &mut SeededRng) {
    let can_open = world.with_descriptors();
    let builder = if dice.below(2) == 0 {
        EventLoopGroup::builder(Epoll)
    } else {
        EventLoopGroup::builder(Poll)
    };
    let group = world.common.group("short", builder.threads(2));
    let unchecked = Arc::<Ledger>::default();
    let server = ServerBootstrap::new(&group, Tcp).child_initialiser(move |edit| {
        Ok(edit.add_last("echo", Echo::new(&unchecked)).map(drop)?)
    });
    let server = get(server.bind("127.0.0.1:0")).expect("a server");
    let to = server.local_address().expect("it is bound");
    let clients = || Bootstrap::new(&world.clients[0], Tcp);
    let lines =
        (0..4).filter_map(|_| world.connect_by(clients(), to.clone(), ChannelOptions::default()));
    let lines: Vec<_> = lines.collect();
    drop(can_open);
    let sent: Vec<_> = lines.iter().map(|_| careless(dice, 100_000)).collect();
    for (line, data) in lines.iter().zip(&sent) {
        for piece in dice.cut(data.clone(), 10_000) {
            line.channel.send(piece);
        }
    }
    let ended = end(&group);
    for (line, data) in lines.into_iter().zip(sent) {
        let (read, end) = line.hear(usize::MAX);
        assert!(data.starts_with(&read) && end != End::Open, "{} bytes, {end:?}", read.len());
        line.close();
    }
    ended.wait_timeout(PATIENCE).expect("the loops end");
    drop(server);
}
