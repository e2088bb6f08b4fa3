//! A close, a task, a timer and a shutdown interrupt a loop that waits for its peer (L13, L10): without that the wait
//! would last until the peer says something, and the limit of each step is reached.

use std::sync::mpsc::channel;
use std::time::Duration;

use bytes::Bytes;
use waterwheel_channel::driver::SocketOption;
use waterwheel_channel::{Channel, ServerBootstrap};
use waterwheel_net::Tcp;

use crate::support::{
    AnnouncesChannel, Bench, TIME_LIMIT, connect, failure, get, ip, read_to_end, wait_until,
};

/// Waits until the loop of a channel has run its tasks and sleeps in poll(2), waiting for its peer.
fn wait_until_asleep(channel: &Channel) {
    let at = channel.event_loop();
    let own = at.clone();
    let awake = get(at.submit(move || own.stats().sleeps).unwrap());
    wait_until("asleep", || at.stats().sleeps > awake);
}

#[test]
fn l13_a_close_from_another_thread_interrupts_a_read() {
    let bench = Bench::new();
    let (sender, events) = channel();
    let (_server, address) = bench.server(move || AnnouncesChannel(sender.clone()));
    for _ in 0..20 {
        let mut peer = connect(address);
        let channel = events.recv_timeout(TIME_LIMIT).unwrap();
        wait_until_asleep(&channel);
        get(channel.close());
        assert_eq!(read_to_end(&mut peer), b"");
    }
}

#[test]
fn l13_a_close_of_the_server_interrupts_its_accept() {
    let bench = Bench::new();
    let (sender, _told) = channel();
    let (server, address) = bench.server(move || AnnouncesChannel(sender.clone()));
    wait_until_asleep(&server);
    get(server.close());
    assert!(std::net::TcpStream::connect(address).is_err());
}

/// A server whose connections have small socket buffers.
fn narrow(bench: &Bench) -> (Channel, std::net::SocketAddr, std::sync::mpsc::Receiver<Channel>) {
    let (sender, events) = channel();
    let server = ServerBootstrap::new(&bench.group, Tcp)
        .child_socket_option(SocketOption::SendBuffer(8 * 1024))
        .child_initialiser(move |edit| {
            edit.add_last("shows", AnnouncesChannel(sender.clone()))?;
            Ok(())
        });
    let server = get(server.bind("127.0.0.1:0"));
    let address = ip(server.local_address());
    (server, address, events)
}

#[test]
fn l13_a_close_interrupts_a_write_to_a_peer_that_does_not_read() {
    let bench = Bench::new();
    let (_server, address, events) = narrow(&bench);
    let peer = connect(address);
    let channel = events.recv_timeout(TIME_LIMIT).unwrap();
    let written = channel.write_and_flush(Bytes::from(vec![7; 16 << 20]));
    wait_until("full", || channel.event_loop().metrics().bytes_written > 0);
    wait_until_asleep(&channel);
    assert!(!written.is_done());
    get(channel.close());
    drop(failure(written));
    drop(peer);
}

#[test]
fn l13_tasks_and_timers_run_while_the_peer_is_silent() {
    let bench = Bench::new();
    let (_server, address, events) = narrow(&bench);
    let peer = connect(address);
    let channel = events.recv_timeout(TIME_LIMIT).unwrap();
    let written = channel.write_and_flush(Bytes::from(vec![7; 16 << 20]));
    wait_until_asleep(&channel);
    let at = channel.event_loop();
    assert_eq!(get(at.submit(|| 42).unwrap()), 42);
    get(at.schedule(Duration::from_millis(1), || ()).unwrap());
    assert!(!written.is_done());
    bench.assert_not_spinning();
    drop(peer);
}

#[test]
fn l10_a_shutdown_interrupts_reads_writes_and_accepts_at_once() {
    let bench = Bench::new();
    let (server, address, events) = narrow(&bench);
    let mut peers: Vec<_> = (0..10).map(|_| connect(address)).collect();
    let channels: Vec<_> = (0..10).map(|_| events.recv_timeout(TIME_LIMIT).unwrap()).collect();
    let writes: Vec<_> = channels
        .iter()
        .step_by(2)
        .map(|channel| channel.write_and_flush(Bytes::from(vec![7; 16 << 20])))
        .collect();
    channels.iter().for_each(wait_until_asleep);
    bench.end();
    for written in writes {
        drop(failure(written));
    }
    assert!(!server.is_open() && channels.iter().all(|channel| !channel.is_open()));
    for peer in &mut peers {
        read_to_end(peer);
    }
    assert!(std::net::TcpStream::connect(address).is_err(), "the listener is closed");
}

#[test]
fn l13_an_unanswered_connect_is_interrupted_by_its_cancel_and_by_a_shutdown() {
    // A full backlog does not answer.
    let listener =
        socket2::Socket::new(socket2::Domain::IPV4, socket2::Type::STREAM, None).unwrap();
    let any: std::net::SocketAddr = "127.0.0.1:0".parse().unwrap();
    listener.bind(&any.into()).unwrap();
    listener.listen(0).unwrap();
    let address = listener.local_addr().unwrap().as_socket().unwrap();
    let mut waiting = Vec::new();
    while let Ok(peer) = std::net::TcpStream::connect_timeout(&address, Duration::from_millis(100))
    {
        waiting.push(peer);
    }
    let bench = Bench::with(waterwheel_net::Blocking, |builder| builder.max_channels(1));
    for _ in 0..5 {
        let connected = bench.client().connect(address);
        bench.until_channels(1);
        assert!(connected.cancel());
        bench.until_channels(0);
    }
    let connected = bench.client().connect(address);
    bench.until_channels(1);
    bench.end();
    drop(failure(connected));
}
