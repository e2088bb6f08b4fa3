//! Unix sockets at the longest path: 108 bytes, without room for a NUL in `sun_path` (C13).
//!
//! The kernel reports the address of such a socket with 111 bytes, one more than `sockaddr_un` has.

use std::io::{Read, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::{UnixDatagram, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};

use bytes::Bytes;
use rustix::net::{AddressFamily, SocketAddrUnix, SocketType, bind, connect, socket};
use waterwheel_channel::driver::SocketOption;
use waterwheel_channel::{
    Address, AncillaryMessage, Bootstrap, Ctx, Datagram, EventLoopGroup, Handler, HandlerResult,
    Msg, ServerBootstrap, UnixAddress,
};
use waterwheel_net::{
    Blocking, Epoll, Poll, Unix, UnixDatagrams, existing_listener, existing_stream,
};

use crate::loop_rig::{TIME_LIMIT, get};

/// The size of `sun_path`.
const LONGEST: usize = 108;

fn on_every_group(test: impl Fn(&EventLoopGroup)) {
    let fixed = |builder: waterwheel_channel::EventLoopGroupBuilder| builder.threads(1).build();
    let groups = [
        ("epoll", fixed(EventLoopGroup::builder(Epoll))),
        ("poll", fixed(EventLoopGroup::builder(Poll))),
        ("blocking", EventLoopGroup::per_channel(Blocking).build()),
    ];
    for (name, group) in groups {
        eprintln!("over {name}");
        let group = group.unwrap();
        test(&group);
        assert!(!group.is_shutting_down(), "the loops are alive");
    }
}

/// A temporary directory, removed with its contents.
struct SocketDirectory(PathBuf);

impl SocketDirectory {
    fn new() -> Self {
        static COUNT: AtomicUsize = AtomicUsize::new(0);
        let count = COUNT.fetch_add(1, Ordering::Relaxed);
        let name = format!("waterwheel-long-{}-{count}", std::process::id());
        let path = std::env::temp_dir().join(name);
        std::fs::create_dir(&path).unwrap();
        Self(path)
    }

    /// Returns a path in the directory that is `len` bytes long and repeats this letter.
    fn path(&self, letter: &str, len: usize) -> PathBuf {
        let path = self.0.join(letter.repeat(len - self.0.as_os_str().len() - 1));
        assert_eq!(path.as_os_str().len(), len);
        path
    }
}

impl Drop for SocketDirectory {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// Binds a socket of this kind with plain system calls.
fn bound(kind: SocketType, at: &Path) -> OwnedFd {
    let socket = socket(AddressFamily::UNIX, kind, None).unwrap();
    bind(&socket, &SocketAddrUnix::new(at).unwrap()).unwrap();
    socket
}

fn connected(socket: impl AsFd, to: &Path) {
    connect(socket, &SocketAddrUnix::new(to).unwrap()).unwrap();
}

/// An echo handler that reports the addresses of its channel and of the sender of each read.
struct SendsAddresses(Sender<[Option<Address>; 3]>);

impl Handler for SendsAddresses {
    fn on_read(&mut self, ctx: &Ctx<'_>, msg: Msg) -> HandlerResult {
        let from = msg.get::<Datagram>().and_then(|datagram| datagram.peer().cloned());
        let from =
            from.or_else(|| msg.get::<AncillaryMessage>().and_then(|message| message.peer.clone()));
        let channel = ctx.channel();
        let _ = self.0.send([channel.local_address(), channel.peer_address(), from]);
        ctx.write_and_flush(msg);
        Ok(())
    }
}

fn address(path: &Path) -> Option<Address> {
    Some(UnixAddress::path(path).into())
}

type Shown = Receiver<[Option<Address>; 3]>;

fn server(group: &EventLoopGroup) -> (ServerBootstrap, Shown) {
    let (show, shown) = channel();
    let server = ServerBootstrap::new(group, Unix).child_initialiser(move |edit| {
        edit.add_last("shows", SendsAddresses(show.clone()))?;
        Ok(())
    });
    (server, shown)
}

fn datagrams(group: &EventLoopGroup) -> (Bootstrap, Shown) {
    let (show, shown) = channel();
    let bootstrap = Bootstrap::new(group, UnixDatagrams).initialiser(move |edit| {
        edit.add_last("shows", SendsAddresses(show.clone()))?;
        Ok(())
    });
    (bootstrap, shown)
}

#[track_caller]
fn echoes(peer: &mut UnixStream) {
    peer.set_read_timeout(Some(TIME_LIMIT)).unwrap();
    peer.write_all(b"hello").unwrap();
    let mut answer = [0; 5];
    peer.read_exact(&mut answer).unwrap();
    assert_eq!(&answer, b"hello");
}

#[test]
fn c13_a_client_bound_to_the_longest_path_is_served() {
    on_every_group(|group| {
        let directory = SocketDirectory::new();
        let (door, long) = (directory.path("d", 60), directory.path("l", LONGEST));
        let (server, shown) = server(group);
        let server = get(server.bind(UnixAddress::path(&door)));
        let client = bound(SocketType::STREAM, &long);
        connected(&client, &door);
        let mut client = UnixStream::from(client);
        echoes(&mut client);
        let [local, peer, _] = shown.recv_timeout(TIME_LIMIT).unwrap();
        assert_eq!((local, peer), (address(&door), address(&long)));
        let mut next = UnixStream::connect(&door).unwrap();
        echoes(&mut next);
        assert!(server.is_active());
    });
}

#[test]
fn c13_a_datagram_from_the_longest_path_is_read_and_answered() {
    on_every_group(|group| {
        let directory = SocketDirectory::new();
        let (here, long) = (directory.path("h", 60), directory.path("l", LONGEST));
        let (bootstrap, shown) = datagrams(group);
        let channel = get(bootstrap.bind(UnixAddress::path(&here)));
        let client = UnixDatagram::from(bound(SocketType::DGRAM, &long));
        client.set_read_timeout(Some(TIME_LIMIT)).unwrap();
        let mut room = [0; 10];
        // Read with `recvmmsg`, and with `recvmsg` for ancillary data.
        for _ in 0..2 {
            client.send_to(b"hello", &here).unwrap();
            assert_eq!(shown.recv_timeout(TIME_LIMIT).unwrap()[2], address(&long));
            assert_eq!(client.recv(&mut room).unwrap(), 5);
            get(channel.set_option(SocketOption::ReceiveCredentials(true)));
        }
    });
}

#[test]
fn c13_channels_are_bound_and_connected_to_the_longest_path() {
    on_every_group(|group| {
        let directory = SocketDirectory::new();
        let (door, from) = (directory.path("d", LONGEST), directory.path("f", LONGEST));
        let (server, shown) = server(group);
        let server = get(server.bind(UnixAddress::path(&door)));
        assert_eq!(server.local_address(), address(&door));
        let client = Bootstrap::new(group, Unix).local_address(UnixAddress::path(&from));
        let client = get(client.connect(UnixAddress::path(&door)));
        assert_eq!(client.local_address(), address(&from));
        assert_eq!(client.peer_address(), address(&door));
        get(client.write_and_flush(Bytes::from("hello")));
        let [local, peer, _] = shown.recv_timeout(TIME_LIMIT).unwrap();
        assert_eq!((local, peer), (address(&door), address(&from)));
        get(client.close());
        get(server.close());
        assert!(!door.exists() && !from.exists(), "the files are removed with their sockets");

        let (bootstrap, shown) = datagrams(group);
        let one = get(bootstrap.bind(UnixAddress::path(&door)));
        assert_eq!(one.local_address(), address(&door));
        let other = Bootstrap::new(group, UnixDatagrams).local_address(UnixAddress::path(&from));
        let other = get(other.connect(UnixAddress::path(&door)));
        get(other.write_and_flush(Datagram::new("hello")));
        assert_eq!(shown.recv_timeout(TIME_LIMIT).unwrap()[2], address(&from));
    });
}

#[test]
fn c13_a_stale_file_at_the_longest_path_is_replaced() {
    on_every_group(|group| {
        let directory = SocketDirectory::new();
        let door = directory.path("d", LONGEST);
        drop(bound(SocketType::STREAM, &door));
        assert!(door.exists());
        let server = get(server(group).0.bind(UnixAddress::path(&door)));
        let error = self::server(group).0.bind(UnixAddress::path(&door)).join().unwrap_err();
        assert!(error.to_string().contains("in use"), "{error}");
        assert!(server.is_active());
    });
}

#[test]
fn c13_existing_sockets_at_the_longest_path_are_adopted() {
    on_every_group(|group| {
        let directory = SocketDirectory::new();
        let (door, from) = (directory.path("d", LONGEST), directory.path("f", LONGEST));
        let listener = bound(SocketType::STREAM, &door);
        rustix::net::listen(&listener, 8).unwrap();
        let (server, shown) = server(group);
        let server = get(server.listen_on(existing_listener(listener).unwrap()));
        assert_eq!(server.local_address(), address(&door));
        let client = bound(SocketType::STREAM, &from);
        connected(&client, &door);
        let client = get(Bootstrap::new(group, Unix).adopt(existing_stream(client).unwrap()));
        assert_eq!(client.peer_address(), address(&door));
        get(client.write_and_flush(Bytes::from("hello")));
        assert_eq!(shown.recv_timeout(TIME_LIMIT).unwrap()[1], address(&from));
    });
}

#[test]
fn c13_a_path_beyond_the_longest_is_refused_with_its_limit() {
    on_every_group(|group| {
        let directory = SocketDirectory::new();
        let long = UnixAddress::path(directory.path("l", LONGEST + 1));
        let limit = "is too long: a path of a Unix socket has at most 108 bytes";
        let refused = server(group).0.bind(long.clone()).join().unwrap_err().to_string();
        assert!(refused.contains(limit), "{refused}");
        let refused = Bootstrap::new(group, Unix).connect(long.clone()).join().unwrap_err();
        assert!(refused.to_string().contains(limit), "{refused}");
        let refused = datagrams(group).0.bind(long.clone()).join().unwrap_err();
        assert!(refused.to_string().contains(limit), "{refused}");
        let channel = get(datagrams(group).0.bind(UnixAddress::Unnamed));
        let refused = channel.write_and_flush(Datagram::to(long, "x")).join().unwrap_err();
        assert!(refused.to_string().contains(limit), "{refused}");
        assert!(channel.is_active());
    });
}
