//! Unix stream channels (C13).

use std::io::{Read, Write};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixStream};

use bytes::Bytes;
use waterwheel_channel::driver::SocketOption;
use waterwheel_channel::{Address, Channel, Ctx, HandlerResult, In, InboundHandler, UnixAddress};

use crate::loop_rig::{LoopRig, TIME_LIMIT, get, on_every_loop};
use crate::probe::Probe;
use crate::support::{ProbedServer, SocketDirectory, client, dial, echo};

#[track_caller]
fn answers(peer: &mut UnixStream, question: &str) {
    peer.set_read_timeout(Some(TIME_LIMIT)).unwrap();
    peer.write_all(question.as_bytes()).unwrap();
    let mut answer = vec![0; question.len()];
    peer.read_exact(&mut answer).unwrap();
    assert_eq!(answer, question.as_bytes());
}

/// Connects a client with a probe; returns its channel and its log.
fn probing(rig: &LoopRig, to: impl Into<Address>) -> (Channel, crate::probe::ProbeLog) {
    let (sender, events) = std::sync::mpsc::channel();
    let client = client(rig).initialiser(move |edit| {
        edit.add_last("probe", Probe::announcing(sender.clone()))?;
        Ok(())
    });
    get(client.connect(to.into()));
    events.recv_timeout(TIME_LIMIT).expect("active in time")
}

#[test]
fn c13_a_unix_server_at_a_path_answers_its_peers() {
    on_every_loop(|rig| {
        let directory = SocketDirectory::new();
        let path = directory.path("door");
        let server = get(echo(rig).bind(UnixAddress::path(&path)));
        assert_eq!(server.local_address(), Some(UnixAddress::path(&path).into()));
        let mut peers = [dial(&path), dial(&path)];
        for peer in &mut peers {
            answers(peer, "hello");
            answers(peer, &"long ".repeat(10_000));
        }
        rig.assert_not_spinning();
    });
}

#[test]
fn c13_a_unix_client_talks_to_a_unix_server() {
    on_every_loop(|rig| {
        let directory = SocketDirectory::new();
        let path = directory.path("door");
        let server = get(echo(rig).bind(format!("unix:{}", path.display())));
        let (channel, notes) = probing(rig, UnixAddress::path(&path));
        assert_eq!(channel.peer_address(), server.local_address());
        assert_eq!(channel.local_address(), None, "an unbound client");
        get(channel.write_and_flush(Bytes::from("to and fro")));
        assert_eq!(notes.next(), "read to and fro");
        get(channel.close());
    });
}

/// Answers in upper case; accepts bytes and does not handle ancillary messages.
struct AnswersInUpperCase;

impl InboundHandler for AnswersInUpperCase {
    type In = Bytes;

    fn on_read(&mut self, ctx: &Ctx<'_>, bytes: Bytes) -> HandlerResult {
        ctx.write_and_flush(Bytes::from(bytes.to_ascii_uppercase()));
        Ok(())
    }
}

#[test]
fn c13_byte_handlers_serve_unix_streams_unchanged() {
    on_every_loop(|rig| {
        let directory = SocketDirectory::new();
        let server = crate::support::server(rig).child_initialiser(|edit| {
            edit.add_last("upper case", In(AnswersInUpperCase))?;
            Ok(())
        });
        get(server.bind(UnixAddress::path(directory.path("door"))));
        let mut peer = dial(&directory.path("door"));
        peer.write_all(b"hello").unwrap();
        let mut answer = [0; 5];
        peer.read_exact(&mut answer).unwrap();
        assert_eq!(&answer, b"HELLO");
    });
}

#[test]
fn c13_an_abstract_name_may_be_any_bytes_and_is_free_after_the_close() {
    on_every_loop(|rig| {
        let name = format!("waterwheel\0\u{ff}-{}", std::process::id());
        let address = UnixAddress::abstract_name(&name);
        let server = get(echo(rig).bind(address.clone()));
        assert_eq!(server.local_address(), Some(address.clone().into()));
        let at = SocketAddr::from_abstract_name(&name).unwrap();
        answers(&mut UnixStream::connect_addr(&at).unwrap(), "hello");
        let error = echo(rig).bind(address.clone()).join().unwrap_err().to_string();
        let start = format!("cannot listen at {}: ", Address::from(address.clone()));
        assert!(error.starts_with(&start) && error.contains("in use"), "{error}");
        get(server.close());
        get(echo(rig).bind(address));
    });
}

#[test]
fn c13_a_unix_server_bound_to_unnamed_gets_an_abstract_name() {
    on_every_loop(|rig| {
        let server = get(echo(rig).bind(UnixAddress::Unnamed));
        let Some(Address::Unix(UnixAddress::Abstract(name))) = server.local_address() else {
            panic!("no name: {:?}", server.local_address());
        };
        let at = SocketAddr::from_abstract_name(&name).unwrap();
        answers(&mut UnixStream::connect_addr(&at).unwrap(), "hello");
    });
}

#[test]
fn c13_an_accepted_unix_stream_has_the_address_of_a_bound_peer() {
    on_every_loop(|rig| {
        let server = ProbedServer::open(rig, |server| server);
        let (accepted, _peer, _) = server.connect();
        assert_eq!(accepted.peer_address(), Some(UnixAddress::Unnamed.into()));
        assert_eq!(accepted.local_address(), server.listener.local_address());

        let directory = SocketDirectory::new();
        let from = UnixAddress::path(directory.path("from"));
        let to = UnixAddress::path(&server.path);
        let channel = get(client(rig).local_address(from.clone()).connect(to));
        assert_eq!(channel.local_address(), Some(from.clone().into()));
        let (accepted, _) = server.accepted();
        assert_eq!(accepted.peer_address(), Some(from.into()));
        assert!(directory.path("from").exists());
        get(channel.close());
        assert!(!directory.path("from").exists());
    });
}

#[test]
fn c13_an_address_of_another_kind_is_refused_by_unix_sockets() {
    on_every_loop(|rig| {
        let error = echo(rig).bind("127.0.0.1:0").join().unwrap_err().to_string();
        assert_eq!(error, "127.0.0.1:0 is not an address of a Unix socket");
        let error = client(rig).connect(Address::local("door")).join().unwrap_err().to_string();
        assert!(error.contains("local:door is not an address of a Unix socket"), "{error}");
        let error = client(rig).connect(UnixAddress::Unnamed).join().unwrap_err().to_string();
        assert!(error.contains("cannot connect or send to unix:(unnamed)"), "{error}");
        let error = client(rig).connect("localhost:80").join().unwrap_err().to_string();
        assert!(error.contains("localhost:80"), "{error}");
    });
}

#[test]
fn c13_tcp_options_are_refused_by_unix_sockets_and_named() {
    on_every_loop(|rig| {
        let directory = SocketDirectory::new();
        let address = UnixAddress::path(directory.path("door"));
        let refused = [
            SocketOption::NoDelay(true),
            SocketOption::ReusePort(true),
            SocketOption::OnlyV6(true),
            SocketOption::KeepAliveCount(3),
            SocketOption::UserTimeout(TIME_LIMIT),
            SocketOption::FastOpen(1),
            SocketOption::DeferAccept(TIME_LIMIT),
            SocketOption::NotSentLowWater(1),
            SocketOption::TypeOfService(1),
        ];
        for option in refused {
            let bound = echo(rig).socket_option(option).bind(address.clone());
            let error = bound.join().unwrap_err().to_string();
            assert!(error.contains(option.name()), "{error}");
            assert!(!directory.path("door").exists(), "after {option}");
        }
        let sized = echo(rig).socket_option(SocketOption::Backlog(3));
        let server = get(sized.child_socket_option(SocketOption::SendBuffer(8192)).bind(address));
        answers(&mut dial(&directory.path("door")), "hello");
        let to = server.local_address().unwrap();
        let plain = client(rig).socket_option(SocketOption::ReceiveBuffer(8192));
        let channel = get(plain.connect(to));
        let error = channel.set_option(SocketOption::NoDelay(true)).join().unwrap_err();
        assert!(error.to_string().contains("no_delay"), "{error}");
        assert!(channel.is_active());
    });
}
