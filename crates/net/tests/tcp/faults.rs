//! Peers and handlers that misbehave (C02).

use std::io::{Read, Write};
use std::net::TcpStream;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};

use waterwheel_channel::{Ctx, Handler, HandlerResult, Msg, ServerBootstrap};
use waterwheel_net::Tcp;
use waterwheel_testkit::loop_suite::panic_quietly;

use crate::loop_rig::{get, on_every_loop, on_loop};
use crate::probe::{ProbedServer, echo, group, ip, read_to_end, reset, wait_until};

#[track_caller]
fn assert_echoes(address: std::net::SocketAddr) {
    let mut peer = TcpStream::connect(address).unwrap();
    peer.write_all(b"ping").unwrap();
    let mut back = [0; 4];
    peer.read_exact(&mut back).unwrap();
    assert_eq!(&back, b"ping");
}

#[test]
fn c02_ten_thousand_connections_that_are_reset_at_once_leave_nothing_behind() {
    on_loop(
        "epoll",
        waterwheel_net::Epoll,
        |builder| builder,
        |rig| {
            let (_server, address) = echo(rig);
            for n in 0..10_000 {
                let mut peer = TcpStream::connect(address).unwrap();
                if n % 3 == 0 {
                    peer.write_all(b"unregistered").unwrap();
                }
                reset(peer);
            }
            assert_echoes(address);
            wait_until("all channels are closed", || {
                let left = rig.event_loop.metrics();
                (left.channels, left.registrations) == (1, 1)
            });
            rig.assert_not_spinning();
        },
    );
}

/// Panics when it reads "bad".
struct PanicsOnRead;

impl Handler for PanicsOnRead {
    fn on_read(&mut self, ctx: &Ctx<'_>, msg: Msg) -> HandlerResult {
        if msg.get::<bytes::Bytes>().is_some_and(|bytes| bytes.starts_with(b"bad")) {
            panic_quietly("too bad");
        }
        ctx.write_and_flush(msg);
        Ok(())
    }
}

#[test]
fn c02_a_panicking_handler_closes_only_its_channel_and_is_named_in_the_report() {
    on_every_loop(|rig| {
        let server = ServerBootstrap::new(&group(rig), Tcp).child_initialiser(|edit| {
            edit.add_last("touchy", PanicsOnRead)?;
            Ok(())
        });
        let server = get(server.bind("127.0.0.1:0"));
        let address = ip(server.local_address());
        let mut good = TcpStream::connect(address).unwrap();
        let mut bad = TcpStream::connect(address).unwrap();
        bad.write_all(b"bad").unwrap();
        assert_eq!(read_to_end(&mut bad), b"");
        let report = rig.wait_for_report("panicked");
        assert!(report.contains("`touchy`") && report.contains("too bad"), "{report}");
        good.write_all(b"fine").unwrap();
        let mut back = [0; 4];
        good.read_exact(&mut back).unwrap();
        assert_eq!(&back, b"fine");
        assert_echoes(address);
        assert!(server.is_active());
    });
}

/// The peers' side of the next test, in a process of its own.
const PEERS_OF: &str = "WATERWHEEL_PEERS_OF";

#[test]
fn c02_peers_whose_process_is_killed_are_closed() {
    if let Ok(address) = std::env::var(PEERS_OF) {
        let mut peers: Vec<_> =
            (0..50).map(|_| TcpStream::connect(address.as_str()).unwrap()).collect();
        for peer in &mut peers {
            peer.write_all(b"here").unwrap();
        }
        // Sleeps until it is killed.
        let _ = std::io::stdin().read(&mut [0]);
        return;
    }
    on_loop(
        "epoll",
        waterwheel_net::Epoll,
        |builder| builder,
        |rig| {
            let server = ProbedServer::open(rig, |server| server);
            let mut peers = Command::new(std::env::current_exe().unwrap())
                .args(["--exact", "faults::c02_peers_whose_process_is_killed_are_closed"])
                .env(PEERS_OF, server.address.to_string())
                .stdin(Stdio::piped())
                .stdout(Stdio::null())
                .spawn()
                .unwrap();
            let children: Vec<_> = (0..50).map(|_| server.accepted()).collect();
            for (_, log) in &children {
                assert_eq!(log.next(), "read here");
            }
            peers.kill().unwrap();
            peers.wait().unwrap();
            for (channel, log) in children {
                let events = log.until_removed();
                assert_eq!(events[events.len() - 3..], ["inactive", "unregistered", "removed"]);
                assert!(!channel.is_open());
            }
            rig.assert_not_spinning();
            assert_eq!(rig.event_loop.metrics().channels, 1);
        },
    );
}

#[test]
fn c02_a_handler_that_fails_while_its_peer_resets_gets_inactive_once() {
    static ENDS: AtomicUsize = AtomicUsize::new(0);
    struct Ends;
    impl Handler for Ends {
        fn on_read(&mut self, ctx: &Ctx<'_>, _: Msg) -> HandlerResult {
            ctx.close();
            drop(ctx.channel().close());
            ctx.shutdown_output();
            Err(waterwheel_executor::Error::new("no more"))
        }

        fn on_error(&mut self, ctx: &Ctx<'_>, _: waterwheel_executor::Error) -> HandlerResult {
            ctx.close();
            Ok(())
        }

        fn on_inactive(&mut self, _: &Ctx<'_>) -> HandlerResult {
            ENDS.fetch_add(1, Ordering::Relaxed);
            Ok(())
        }
    }
    on_every_loop(|rig| {
        ENDS.store(0, Ordering::Relaxed);
        let server = ServerBootstrap::new(&group(rig), Tcp).child_initialiser(|edit| {
            edit.add_last("ends", Ends)?;
            Ok(())
        });
        let server = get(server.bind("127.0.0.1:0"));
        let address = ip(server.local_address());
        for _ in 0..100 {
            let mut peer = TcpStream::connect(address).unwrap();
            peer.write_all(b"x").unwrap();
            reset(peer);
        }
        wait_until("all channels are closed", || {
            ENDS.load(Ordering::Relaxed) == 100 && rig.event_loop.metrics().channels == 1
        });
        rig.assert_not_spinning();
        assert_eq!(ENDS.load(Ordering::Relaxed), 100);
    });
}
