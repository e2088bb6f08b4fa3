//! Corner cases of level-triggered readiness: no blocking loop spins (L17).

use std::io::Write;
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

use socket2::SockRef;
use waterwheel_channel::{Channel, ChannelOptions, NewChannel, ServerBootstrap, Stream};
use waterwheel_net::Tcp;

use crate::support::{AnnouncesChannel, Bench, TIME_LIMIT, connect, failure, get, ip};

/// Auto-read off and half closure on: only an error closes the connection.
fn quiet(bench: &Bench) -> (SocketAddr, Receiver<Channel>) {
    let (sender, events) = channel();
    let options =
        ChannelOptions { auto_read: false, allow_half_closure: true, ..Default::default() };
    let server = ServerBootstrap::new(&bench.group, Tcp).child_options(options).child_initialiser(
        move |edit| {
            edit.add_last("shows", AnnouncesChannel(sender.clone()))?;
            Ok(())
        },
    );
    (ip(get(server.bind("127.0.0.1:0")).local_address()), events)
}

#[test]
fn l17_blocking_loops_do_not_spin_over_a_reset_with_reads_off() {
    let bench = Bench::new();
    let (address, events) = quiet(&bench);
    let peer = connect(address);
    let channel = events.recv_timeout(TIME_LIMIT).unwrap();
    SockRef::from(&peer).set_linger(Some(Duration::ZERO)).unwrap();
    drop(peer);
    channel.closed().wait_timeout(TIME_LIMIT).expect("the reset is noticed");
    bench.assert_not_spinning();
}

#[test]
fn l17_blocking_loops_do_not_spin_over_the_peers_end_with_reads_off() {
    let bench = Bench::new();
    let (address, events) = quiet(&bench);
    let mut peer = connect(address);
    let channel = events.recv_timeout(TIME_LIMIT).unwrap();
    peer.write_all(b"last").unwrap();
    drop(peer);
    bench.assert_not_spinning();
    assert!(channel.is_active());
    channel.read();
    channel.read();
    bench.assert_not_spinning();
    get(channel.close());
}

#[test]
fn l17_blocking_loops_do_not_spin_over_the_peers_end_and_a_local_half_close() {
    let bench = Bench::new();
    let (address, events) = quiet(&bench);
    let peer = connect(address);
    let channel = events.recv_timeout(TIME_LIMIT).unwrap();
    peer.shutdown(Shutdown::Write).unwrap();
    get(channel.shutdown_output());
    bench.assert_not_spinning();
    channel.read();
    channel.closed().wait_timeout(TIME_LIMIT).expect("both directions are closed");
    bench.assert_not_spinning();
}

#[test]
fn l17_blocking_loops_do_not_spin_over_sockets_that_are_not_connected() {
    let bench = Bench::new();
    let channel = get(bench.group.register(NewChannel::new(Stream::new(Tcp))));
    channel.read();
    bench.assert_not_spinning();
    get(channel.close());
    let unused = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    drop(failure(bench.client().connect(unused)));
    bench.assert_not_spinning();
    bench.until_channels(0);
}

#[test]
fn l17_blocking_loops_do_not_spin_over_connections_that_are_not_accepted() {
    let bench = Bench::new();
    let off = ChannelOptions { auto_read: false, ..Default::default() };
    let server = ServerBootstrap::new(&bench.group, Tcp).options(off);
    let server = get(server.bind("127.0.0.1:0"));
    let _peers = [0; 3].map(|_| TcpStream::connect(ip(server.local_address())).unwrap());
    bench.assert_not_spinning();
    assert_eq!(bench.channels(), 1);
    server.read();
    bench.until_channels(4);
    bench.assert_not_spinning();
}
