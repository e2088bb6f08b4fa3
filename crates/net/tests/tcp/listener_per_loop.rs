//! One listener per loop at one address (SO_REUSEPORT, C12).

use std::collections::HashMap;
use std::io::Write;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::Duration;

use waterwheel_channel::local::Local;
use waterwheel_channel::{
    Address, Channel, ConnectionLimit, Ctx, DrainOptions, EventLoopGroup, EventLoopGroupBuilder,
    Handler, HandlerResult, Msg, ServerBootstrap,
};
use waterwheel_net::{Epoll, Poll, Tcp};

use crate::loop_rig::{TIME_LIMIT, get};
use crate::probe::{assert_echoed, connect_and_send, ip, read_to_end, wait_until};

const LOOPS: usize = 3;

/// Runs a test with three loops over each driver.
fn on_three_loops(test: impl Fn(&EventLoopGroup)) {
    let run = |builder: EventLoopGroupBuilder| {
        let loops = builder.threads(LOOPS).build().unwrap();
        test(&loops);
        let ended = loops.shutdown_gracefully(Duration::ZERO, TIME_LIMIT).unwrap();
        ended.wait_timeout(TIME_LIMIT).unwrap();
    };
    run(EventLoopGroup::builder(Epoll));
    run(EventLoopGroup::builder(Poll));
}

/// An echo handler that announces its channel when it becomes active.
struct AnnouncingEcho(Sender<Channel>);

impl Handler for AnnouncingEcho {
    fn on_active(&mut self, ctx: &Ctx<'_>) -> HandlerResult {
        let _ = self.0.send(ctx.channel());
        Ok(())
    }

    fn on_read(&mut self, ctx: &Ctx<'_>, msg: Msg) -> HandlerResult {
        ctx.write_and_flush(msg);
        Ok(())
    }
}

fn echo(loops: &EventLoopGroup) -> (ServerBootstrap, Receiver<Channel>) {
    let (show, shown) = channel();
    let server = ServerBootstrap::new(loops, Tcp).child_initialiser(move |edit| {
        edit.add_last("echo", AnnouncingEcho(show.clone()))?;
        Ok(())
    });
    (server, shown)
}

/// Returns an address without a listener.
fn unused_address() -> SocketAddr {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap()
}

#[test]
fn c12_each_loop_accepts_at_the_same_address_and_serves_what_it_accepts() {
    on_three_loops(|loops| {
        let (server, shown) = echo(loops);
        let servers = get(server.bind_on_each_loop("127.0.0.1:0"));
        let address = ip(servers.local_address());
        assert_ne!(address.port(), 0);
        let at: Vec<_> =
            servers.channels().iter().map(|server| ip(server.local_address())).collect();
        assert_eq!(at, [address; LOOPS], "the first decides the port");
        let homes: Vec<_> = servers.channels().iter().map(Channel::event_loop).collect();
        assert_eq!(homes, loops.children().collect::<Vec<_>>(), "one per loop, in order");
        let mut peers: Vec<_> = (0..64).map(|_| connect_and_send(address)).collect();
        peers.iter_mut().for_each(assert_echoed);
        let mut per_loop = HashMap::new();
        for _ in &peers {
            let child = shown.recv_timeout(TIME_LIMIT).unwrap();
            let server = child.parent().expect("an accepted channel");
            assert_eq!(
                child.event_loop(),
                server.event_loop(),
                "the channel stays on the loop of its server"
            );
            *per_loop.entry(server.id()).or_insert(0) += 1;
        }
        assert!(per_loop.len() > 1, "the kernel spreads connections: {per_loop:?}");
    });
}

#[test]
fn c12_closing_all_servers_frees_their_address_and_keeps_the_connections() {
    on_three_loops(|loops| {
        let (server, _shown) = echo(loops);
        let servers = get(server.bind_on_each_loop("127.0.0.1:0"));
        let address = ip(servers.local_address());
        let mut peer = connect_and_send(address);
        assert_echoed(&mut peer);
        let ended = servers.closed();
        // One server is closed, the others stay.
        get(servers.channels()[0].close());
        for _ in 0..8 {
            assert_echoed(&mut connect_and_send(address));
        }
        assert!(!ended.is_done());
        assert!(get(servers.close()).is_success());
        assert_eq!(get(ended).len(), LOOPS);
        peer.write_all(b"ping").unwrap();
        assert_echoed(&mut peer);
        assert!(TcpStream::connect(address).is_err());
        // Again, at a given address.
        let again = get(server.bind_on_each_loop(address));
        assert_eq!(ip(again.local_address()), address);
    });
}

#[test]
fn c12_a_bind_that_fails_on_one_loop_leaves_no_listener() {
    on_three_loops(|loops| {
        let (server, _shown) = echo(loops);
        let last = loops.children().last().unwrap();
        drop(last.shutdown());
        let address = unused_address();
        let error = server.bind_on_each_loop(address).join().unwrap_err().to_string();
        assert!(error.contains("shut down"), "{error}");
        TcpListener::bind(address).expect("the address is free");
    });
}

#[test]
fn c12_the_error_of_a_bind_per_loop_names_the_address_or_a_transport_without_reuse_port() {
    on_three_loops(|loops| {
        let (server, _shown) = echo(loops);
        let taken = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = taken.local_addr().unwrap();
        let error = server.bind_on_each_loop(address).join().unwrap_err().to_string();
        assert!(error.contains(&format!("cannot listen at {address}")), "{error}");
        let local = ServerBootstrap::new(loops, Local);
        let error = local.bind_on_each_loop(Address::local("shared")).join().unwrap_err();
        let words = error.to_string();
        assert!(words.contains("`local`") && words.contains("reuse_port"), "{words}");
        get(local.bind(Address::local("shared")));
    });
}

#[test]
fn c12_a_cancelled_bind_per_loop_leaves_no_listener() {
    on_three_loops(|loops| {
        let (server, _shown) = echo(loops);
        for _ in 0..20 {
            let address = unused_address();
            let bound = server.bind_on_each_loop(address);
            if !bound.cancel() {
                get(get(bound).close());
            }
            wait_until("the address is free", || TcpListener::bind(address).is_ok());
        }
    });
}

#[test]
fn c12_servers_on_all_loops_share_one_limit() {
    on_three_loops(|loops| {
        let (server, _shown) = echo(loops);
        let limit = ConnectionLimit::new(2);
        let servers = get(server.connection_limit(&limit).bind_on_each_loop("127.0.0.1:0"));
        let address = ip(servers.local_address());
        std::thread::scope(|scope| {
            for _ in 0..6 {
                scope.spawn(|| {
                    for _ in 0..20 {
                        assert_echoed(&mut connect_and_send(address));
                        assert!(limit.open() <= 2);
                    }
                });
            }
        });
        wait_until("all connections are closed", || limit.open() == 0);
    });
}

#[test]
fn l11_a_drain_closes_the_servers_of_all_loops() {
    on_three_loops(|loops| {
        let (server, _shown) = echo(loops);
        let servers = get(server.bind_on_each_loop("127.0.0.1:0"));
        let address = ip(servers.local_address());
        let mut peer = connect_and_send(address);
        assert_echoed(&mut peer);
        let quick = DrainOptions::default().shutdown(Duration::ZERO, TIME_LIMIT).unwrap();
        let drained = loops.drain(quick);
        servers.closed().wait_timeout(TIME_LIMIT).unwrap();
        drained.wait_timeout(TIME_LIMIT).unwrap();
        assert_eq!(read_to_end(&mut peer), b"");
        assert!(TcpStream::connect(address).is_err());
    });
}
