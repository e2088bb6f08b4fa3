//! Names, backlogs and connects of local channels (C13, C02).

use std::io;
use std::net::SocketAddr;

use waterwheel_channel::local::LocalError;
use waterwheel_channel::local::{self as transport, Connection, DEFAULT_BACKLOG, LocalListener};
use waterwheel_channel::{
    Address, Channel, ChannelOptions, ConnectTarget, InvalidOption, NewChannel,
};
use waterwheel_executor::{Error, ErrorKind};

use crate::support::{LocalFixture, Log, RecordingHandler, accept_with, fresh_name};

fn local_error(error: &Error) -> LocalError {
    match error.kind() {
        ErrorKind::Other(error) => error.downcast_ref::<LocalError>().expect("one").clone(),
        other => panic!("not a local error: {other}"),
    }
}

fn client(fixture: &mut LocalFixture, at: usize, log: &Log) -> Channel {
    fixture.register(at, NewChannel::new(Connection::new()), RecordingHandler::new("client", log))
}

/// Registers a server without auto-read, which accepts only on request.
fn server_without_auto_read(
    fixture: &mut LocalFixture,
    listener: LocalListener,
    log: &Log,
) -> Channel {
    let options = ChannelOptions { auto_read: false, ..ChannelOptions::default() };
    fixture.register(
        0,
        NewChannel::new(listener).options(options),
        RecordingHandler::new("server", log),
    )
}

#[test]
fn c13_an_unknown_name_is_refused_by_name_and_may_be_tried_again() {
    LocalFixture::on_one_and_two_loops(|fixture| {
        let (log, name) = (Log::default(), fresh_name("later"));
        let client = client(fixture, 1, &log);
        let address = Address::local(name.as_str());
        let error = fixture.outcome(client.connect(address.clone())).unwrap_err();
        assert_eq!(error.to_string(), format!("no server listens at local:{name}"));
        assert_eq!(local_error(&error).kind(), io::ErrorKind::ConnectionRefused);
        assert!(client.is_open() && !client.is_active());
        let listener = LocalListener::new().listen(name.as_str()).unwrap();
        let server = server_without_auto_read(fixture, listener, &log);
        fixture.outcome(client.connect(address.clone())).unwrap();
        assert!(client.is_active());
        assert_eq!((client.peer_address(), client.local_address()), (Some(address.clone()), None));
        assert_eq!(server.local_address(), Some(address));
    });
}

#[test]
fn c13_a_name_in_use_is_refused_by_name_and_free_once_its_server_is_closed() {
    LocalFixture::on_one_and_two_loops(|fixture| {
        let (log, name) = (Log::default(), fresh_name("one-at-a-time"));
        let address = Address::local(name.as_str());
        let listener = || NewChannel::new(LocalListener::new());
        let first = fixture.register(0, listener(), RecordingHandler::new("first", &log));
        let second = fixture.register(1, listener(), RecordingHandler::new("second", &log));
        fixture.outcome(first.bind(address.clone())).unwrap();
        let error = fixture.outcome(second.bind(address.clone())).unwrap_err();
        assert_eq!(error.to_string(), format!("the name local:{name} is in use"));
        assert_eq!(local_error(&error).kind(), io::ErrorKind::AddrInUse);
        assert!(second.is_open() && !second.is_active());
        fixture.outcome(first.close()).unwrap();
        fixture.outcome(second.bind(address)).unwrap();
        assert!(second.is_active());
    });
}

#[test]
fn c13_a_full_backlog_refuses_and_has_room_after_an_accept() {
    LocalFixture::on_one_and_two_loops(|fixture| {
        let (log, name) = (Log::default(), fresh_name("full"));
        let address = Address::local(name.as_str());
        let listener = LocalListener::new().backlog(2).unwrap().listen(name.as_str()).unwrap();
        let server = server_without_auto_read(fixture, listener, &log);
        let clients: Vec<_> = (0..3).map(|_| client(fixture, 1, &log)).collect();
        fixture.outcome(clients[0].connect(address.clone())).unwrap();
        fixture.outcome(clients[1].connect(address.clone())).unwrap();
        let error = fixture.outcome(clients[2].connect(address.clone())).unwrap_err();
        assert_eq!(
            error.to_string(),
            format!("the backlog of local:{name} is full: 2 connections wait to be accepted")
        );
        assert_eq!(local_error(&error).kind(), io::ErrorKind::ConnectionRefused);
        server.read();
        fixture.run();
        assert_eq!(log.of("server").iter().filter(|entry| entry.starts_with("read ")).count(), 3);
        fixture.outcome(clients[2].connect(address)).unwrap();
    });
}

#[test]
fn c13_the_default_backlog_is_as_documented_and_a_backlog_of_zero_is_refused() {
    assert_eq!(LocalListener::new().backlog(0).unwrap_err(), InvalidOption::Backlog);
    LocalFixture::on_one_and_two_loops(|fixture| {
        let (log, name) = (Log::default(), fresh_name("default"));
        let _server = transport::listen(name.as_str()).unwrap();
        let mut connect = || {
            let client = client(fixture, 1, &log);
            fixture.outcome(client.connect(Address::local(name.as_str())))
        };
        for _ in 0..DEFAULT_BACKLOG {
            connect().unwrap();
        }
        let error = connect().unwrap_err();
        assert!(matches!(local_error(&error), LocalError::BacklogFull { backlog: 128, .. }));
    });
}

#[test]
fn c13_clients_in_the_backlog_of_a_closing_server_are_closed() {
    LocalFixture::on_one_and_two_loops(|fixture| {
        let (log, name) = (Log::default(), fresh_name("closing"));
        let address = Address::local(name.as_str());
        let listener = LocalListener::new().listen(name.as_str()).unwrap();
        let server = server_without_auto_read(fixture, listener, &log);
        let waiting = client(fixture, 1, &log);
        fixture.outcome(waiting.connect(address.clone())).unwrap();
        waiting.send("never read".to_owned());
        fixture.run();
        assert!(waiting.is_active(), "it is connected, and may write");
        fixture.outcome(server.close()).unwrap();
        assert!(!waiting.is_open());
        assert_eq!(log.of("client")[2..], ["active", "inactive", "unregistered", "removed"]);
        let late = client(fixture, 1, &log);
        let error = fixture.outcome(late.connect(address)).unwrap_err();
        assert!(matches!(local_error(&error), LocalError::Refused { .. }));
    });
}

#[test]
fn c13_dropping_an_accepted_channel_closes_its_peer() {
    LocalFixture::on_one_and_two_loops(|fixture| {
        let (log, name) = (Log::default(), fresh_name("dropped"));
        let server = transport::listen(name.as_str()).unwrap();
        let drops = RecordingHandler::new("server", &log).on_read(|_, msg| {
            drop(msg);
            Ok(())
        });
        fixture.register(0, server, drops);
        let client = client(fixture, 1, &log);
        fixture.outcome(client.connect(Address::local(name.as_str()))).unwrap();
        assert!(!client.is_open());
        assert_eq!(log.of("client")[2..], ["active", "inactive", "unregistered", "removed"]);
    });
}

#[test]
fn c13_addresses_of_other_transports_are_refused() {
    LocalFixture::on_one_and_two_loops(|fixture| {
        let log = Log::default();
        let ip = Address::from(SocketAddr::from(([127, 0, 0, 1], 80)));
        let client = client(fixture, 0, &log);
        let error = fixture.outcome(client.connect(ip.clone())).unwrap_err();
        assert_eq!(error.to_string(), "127.0.0.1:80 is not a local address");
        let from = ConnectTarget::from(Address::local("anything")).from_local(ip.clone());
        let error = fixture.outcome(client.connect(from)).unwrap_err();
        assert!(matches!(local_error(&error), LocalError::NotLocal { .. }));
        let server = NewChannel::new(LocalListener::new());
        let server = fixture.register(0, server, RecordingHandler::new("server", &log));
        let error = fixture.outcome(server.bind(ip)).unwrap_err();
        assert_eq!(local_error(&error).kind(), io::ErrorKind::InvalidInput);
        let error = fixture.outcome(client.bind(Address::local("anything"))).unwrap_err();
        assert_eq!(error.to_string(), "the transport `local` cannot be bound");
        let error = fixture.outcome(server.connect(Address::local("anything"))).unwrap_err();
        assert_eq!(error.to_string(), "the transport `local` cannot be connected");
    });
}

#[test]
fn c13_an_accepted_channel_knows_its_addresses_and_its_server() {
    LocalFixture::on_one_and_two_loops(|fixture| {
        let (log, name) = (Log::default(), fresh_name("known"));
        let notes = log.clone();
        let made = move || RecordingHandler::new("accepted", &notes);
        let other = fixture.event_loop(1);
        let accept =
            RecordingHandler::new("server", &log).on_read(accept_with(made, Some(other.clone())));
        let server = fixture.register(0, transport::listen(name.as_str()).unwrap(), accept);
        let client = client(fixture, 0, &log);
        let target = ConnectTarget::from(Address::local(name.as_str()))
            .from_local(Address::local("somewhere"));
        fixture.outcome(client.connect(target)).unwrap();
        let listed = fixture.outcome(other.registered_channels()).unwrap();
        let accepted = listed.iter().find(|channel| channel.parent() == Some(&server));
        let accepted = accepted.expect("a channel was accepted");
        assert_eq!(accepted.local_address(), Some(Address::local(name.as_str())));
        assert_eq!(accepted.peer_address(), Some(Address::local("somewhere")));
        assert_eq!(client.local_address(), accepted.peer_address());
        assert_eq!(client.peer_address(), accepted.local_address());
    });
}

#[test]
fn c13_a_server_cannot_be_written_to() {
    LocalFixture::on_one_and_two_loops(|fixture| {
        let (log, name) = (Log::default(), fresh_name("deaf"));
        let server = transport::listen(name.as_str()).unwrap();
        let server = fixture.register(0, server, RecordingHandler::new("server", &log));
        let error = fixture.outcome(server.write_and_flush("hello".to_owned())).unwrap_err();
        assert!(error.to_string().contains("cannot be written"), "{error}");
        assert!(server.is_active(), "the failed write has no other effect");
    });
}

#[test]
fn c09_accepting_obeys_auto_read_and_the_reads_of_a_round() {
    LocalFixture::on_one_and_two_loops(|fixture| {
        let (log, name) = (Log::default(), fresh_name("slow"));
        let listener = LocalListener::new().listen(name.as_str()).unwrap();
        let options =
            ChannelOptions { auto_read: false, reads_per_round: 2, ..ChannelOptions::default() };
        let server = NewChannel::new(listener).options(options);
        let server = fixture.register(0, server, RecordingHandler::new("server", &log));
        for _ in 0..5 {
            let client = client(fixture, 1, &log);
            fixture.outcome(client.connect(Address::local(name.as_str()))).unwrap();
        }
        let accepted = &*format!("read {}", std::any::type_name::<NewChannel>());
        assert_eq!(log.of("server")[3..], [""; 0], "no accept without a read request");
        server.read();
        fixture.run();
        assert_eq!(log.of("server")[3..], [accepted, accepted, "read complete"]);
        server.set_auto_read(true);
        fixture.run();
        assert_eq!(log.count(&format!("server: {accepted}")), 5);
        assert_eq!(log.count("server: read complete"), 3);
    });
}

#[test]
fn c04_a_deregistered_server_accepts_nothing_until_it_is_registered_again() {
    LocalFixture::on_one_and_two_loops(|fixture| {
        let (log, name) = (Log::default(), fresh_name("away"));
        let server = transport::listen(name.as_str()).unwrap();
        let server = fixture.register(0, server, RecordingHandler::new("server", &log));
        fixture.outcome(server.deregister()).unwrap();
        let client = client(fixture, 1, &log);
        fixture.outcome(client.connect(Address::local(name.as_str()))).unwrap();
        assert_eq!(log.of("server").last().unwrap(), "unregistered");
        assert!(client.is_active(), "the write waits");
        fixture.outcome(server.register()).unwrap();
        assert_eq!(log.of("server").last().unwrap(), "read complete", "{:?}", log.of("server"));
    });
}
