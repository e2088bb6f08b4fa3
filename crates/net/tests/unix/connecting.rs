//! Connecting Unix streams (C12, C13).

use std::io::Read;
use std::os::unix::net::UnixListener;
use std::path::Path;
use std::time::Duration;

use socket2::{Domain, SockAddr, Socket, Type};
use waterwheel_channel::{ChannelOptions, UnixAddress};

use crate::loop_rig::{SPIN_TURNS, WATCH_TIME, get, on_every_loop};
use crate::probe::wait_until;
use crate::support::{SocketDirectory, client};

/// Returns a listener whose backlog is full.
fn full(path: &Path) -> (UnixListener, Vec<Socket>) {
    let at = SockAddr::unix(path).unwrap();
    let listener = Socket::new(Domain::UNIX, Type::STREAM, None).unwrap();
    listener.bind(&at).unwrap();
    listener.listen(0).unwrap();
    let mut waiting = Vec::new();
    loop {
        let socket = Socket::new(Domain::UNIX, Type::STREAM, None).unwrap();
        socket.set_nonblocking(true).unwrap();
        match socket.connect(&at) {
            Ok(()) => waiting.push(socket),
            Err(_) => return (listener.into(), waiting),
        }
    }
}

#[test]
fn c13_a_connect_to_a_full_unix_backlog_succeeds_when_there_is_room() {
    on_every_loop(|rig| {
        let directory = SocketDirectory::new();
        let (listener, waiting) = full(&directory.path("door"));
        let connected = client(rig).connect(UnixAddress::path(directory.path("door")));
        let turns = rig.turns_in(WATCH_TIME);
        // Eight attempts with growing pauses, then ten per second.
        assert!(turns < SPIN_TURNS + 10, "{turns} turns in {WATCH_TIME:?}");
        assert!(!connected.is_done());
        for _ in &waiting {
            listener.accept().unwrap();
        }
        let channel = get(connected);
        let (mut peer, _) = listener.accept().unwrap();
        get(channel.close());
        assert_eq!(peer.read(&mut [0]).unwrap(), 0);
        wait_until("no timers", || rig.event_loop.metrics().timers == 0);
    });
}

#[test]
fn c13_a_connect_to_a_full_unix_backlog_times_out_or_is_cancelled() {
    on_every_loop(|rig| {
        let directory = SocketDirectory::new();
        let (_listener, _waiting) = full(&directory.path("door"));
        let to = UnixAddress::path(directory.path("door"));
        let brief = ChannelOptions {
            connect_timeout: Some(Duration::from_millis(50)),
            ..Default::default()
        };
        let error = client(rig).options(brief).connect(to.clone()).join().unwrap_err().to_string();
        assert!(error.contains("door") && error.contains("after"), "{error}");
        let nothing_left = || {
            let metrics = rig.event_loop.metrics();
            (metrics.registrations, metrics.channels, metrics.timers) == (0, 0, 0)
        };
        wait_until("the connect is given up", nothing_left);
        let connected = client(rig).connect(to);
        wait_until("the connect is being retried", || rig.event_loop.metrics().timers == 2);
        assert!(connected.cancel());
        wait_until("the connect is given up", nothing_left);
    });
}

#[test]
fn c13_a_full_unix_server_that_closes_refuses_waiting_connects() {
    on_every_loop(|rig| {
        let directory = SocketDirectory::new();
        let (listener, _waiting) = full(&directory.path("door"));
        let connected = client(rig).connect(UnixAddress::path(directory.path("door")));
        wait_until("the connect is being retried", || rig.event_loop.metrics().timers == 2);
        drop(listener);
        let error = connected.join().unwrap_err().to_string();
        assert!(error.contains("door") && error.contains("refused"), "{error}");
        wait_until("unregistered", || rig.event_loop.metrics().timers == 0);
    });
}

#[test]
fn c13_a_connect_to_an_unbound_path_fails_with_the_path() {
    on_every_loop(|rig| {
        let directory = SocketDirectory::new();
        let path = directory.path("door");
        let error = client(rig).connect(UnixAddress::path(&path)).join().unwrap_err().to_string();
        assert!(error.contains("door") && error.contains("No such file"), "{error}");
        drop(UnixListener::bind(&path).unwrap());
        let error = client(rig).connect(UnixAddress::path(&path)).join().unwrap_err().to_string();
        assert!(error.contains("door") && error.contains("refused"), "{error}");
    });
}
