//! The order of events at the two ends of a local connection (C02, C04, C05, C06).

use std::cell::RefCell;
use std::rc::Rc;

use bytes::Bytes;
use waterwheel_channel::local::{self as transport, Connection, LocalListener};
use waterwheel_channel::{Address, Message, NewChannel};

use crate::support::{LocalFixture, Log, RecordingHandler, accept_with, fresh_name};

fn text(text: &str) -> String {
    text.to_owned()
}

#[test]
fn c02_lifecycle_events_of_a_server_a_client_and_an_accepted_channel_come_in_order() {
    LocalFixture::on_one_and_two_loops(|fixture| {
        let (log, name) = (Log::default(), fresh_name("life"));
        let (notes, other) = (log.clone(), fixture.event_loop(1));
        let accepted = move || {
            RecordingHandler::new("accepted", &notes).on_read(|ctx, msg| {
                ctx.write_and_flush(msg);
                Ok(())
            })
        };
        let accept =
            RecordingHandler::new("server", &log).on_read(accept_with(accepted, Some(other)));
        let server = fixture.register(0, NewChannel::new(LocalListener::new()), accept);
        // The bind is made off the loop: on the loop its outcome would be known when the call returns.
        log.note("server: bound", server.bind(Address::local(name.as_str())));
        let client = NewChannel::new(Connection::new());
        let client = fixture.register(0, client, RecordingHandler::new("client", &log));
        log.note("client: connected", client.connect(Address::local(name.as_str())));
        fixture.run();
        log.note("client: wrote", client.write_and_flush(text("hello")));
        fixture.run();
        let closed = log.clone();
        client.closed().add_listener(move |_| closed.add("client: close future"));
        log.note("client: closed", client.close());
        fixture.run();
        log.note("server: closed", server.close());
        fixture.run();
        assert_eq!(
            log.of("server"),
            [
                "added",
                "registered",
                "bound",
                "active",
                &*format!("read {}", std::any::type_name::<NewChannel>()),
                "read complete",
                "closed",
                "inactive",
                "unregistered",
                "removed",
            ]
        );
        assert_eq!(
            log.of("client"),
            [
                "added",
                "registered",
                "connected",
                "active",
                "wrote",
                "read hello",
                "read complete",
                "close future",
                "closed",
                "inactive",
                "unregistered",
                "removed",
            ]
        );
        assert_eq!(
            log.of("accepted"),
            [
                "added",
                "registered",
                "active",
                "read hello",
                "read complete",
                "inactive",
                "unregistered",
                "removed",
            ]
        );
        assert_eq!(fixture.reports(), [""; 0]);
    });
}

#[test]
fn c02_pending_writes_fail_before_the_close_completes() {
    LocalFixture::on_one_and_two_loops(|fixture| {
        let log = Log::default();
        let (a, _b) =
            fixture.pair(RecordingHandler::new("a", &log), RecordingHandler::new("b", &log));
        log.note("a: wrote", a.write(text("never flushed")));
        log.note("a: closed", a.close());
        fixture.run();
        assert_eq!(
            log.of("a")[3..],
            [
                "wrote failed: the channel is closed",
                "closed",
                "inactive",
                "unregistered",
                "removed"
            ]
        );
        assert_eq!(log.of("b")[3..], ["inactive", "unregistered", "removed"]);
    });
}

#[test]
fn c05_a_message_written_before_a_close_is_read() {
    LocalFixture::on_one_and_two_loops(|fixture| {
        let log = Log::default();
        let (a, b) =
            fixture.pair(RecordingHandler::new("a", &log), RecordingHandler::new("b", &log));
        fixture.on(0, |_| {
            drop(a.write(text("1")));
            drop(a.write_and_flush(text("2")));
            drop(a.close());
        });
        let read = ["read 1", "read 2", "read complete", "inactive", "unregistered", "removed"];
        assert_eq!(log.of("b")[3..], read);
        assert!(!b.is_open());
    });
}

#[test]
fn c05_a_message_written_before_a_close_from_another_thread_is_read() {
    LocalFixture::on_one_and_two_loops(|fixture| {
        let log = Log::default();
        let (a, _b) =
            fixture.pair(RecordingHandler::new("a", &log), RecordingHandler::new("b", &log));
        drop(a.write(text("1")));
        drop(a.write_and_flush(text("2")));
        fixture.outcome(a.close()).unwrap();
        let read = ["read 1", "read 2", "read complete", "inactive", "unregistered", "removed"];
        assert_eq!(log.of("b")[3..], read);
    });
}

#[test]
fn c05_a_close_in_the_listener_of_a_write_is_seen_after_the_data() {
    LocalFixture::on_one_and_two_loops(|fixture| {
        let log = Log::default();
        let (a, _b) =
            fixture.pair(RecordingHandler::new("a", &log), RecordingHandler::new("b", &log));
        let closes = a.clone();
        fixture.on(0, |_| {
            a.write_and_flush(text("last")).on_complete(move |result| {
                result.expect("the write succeeds");
                drop(closes.close());
            });
        });
        let read = ["read last", "read complete", "inactive", "unregistered", "removed"];
        assert_eq!(log.of("b")[3..], read);
    });
}

#[test]
fn c05_a_close_by_the_reader_of_the_first_message_leaves_the_second_unread() {
    LocalFixture::on_one_and_two_loops(|fixture| {
        let log = Log::default();
        let closes = RecordingHandler::new("b", &log).on_read(|ctx, _| {
            ctx.close();
            Ok(())
        });
        let (a, _b) = fixture.pair(RecordingHandler::new("a", &log), closes);
        fixture.on(0, |_| {
            drop(a.write(text("1")));
            drop(a.write_and_flush(text("2")));
        });
        assert_eq!(log.of("b")[3..], ["read 1", "inactive", "unregistered", "removed"]);
        assert_eq!(log.of("a")[3..], ["inactive", "unregistered", "removed"]);
    });
}

#[test]
fn c05_writing_to_a_closed_peer_fails_and_closes_the_channel() {
    LocalFixture::on_one_and_two_loops(|fixture| {
        let log = Log::default();
        let (a, b) =
            fixture.pair(RecordingHandler::new("a", &log), RecordingHandler::new("b", &log));
        // A channel that does not read does not see the end of the stream.
        fixture.on(0, |_| a.set_auto_read(false));
        fixture.outcome(b.close()).unwrap();
        assert!(a.is_active(), "the channel has not read");
        let error = fixture.outcome(a.write_and_flush(text("too late"))).unwrap_err();
        assert_eq!(error.to_string(), "the channel is closed: the peer has closed the connection");
        assert!(!a.is_open());
        assert_eq!(log.of("a")[3..], ["inactive", "unregistered", "removed"]);
    });
}

#[test]
fn c06_messages_of_any_type_move_by_value() {
    struct Plain(Box<u64>);
    impl Message for Plain {}

    LocalFixture::on_one_and_two_loops(|fixture| {
        let log = Log::default();
        let seen = Rc::new(RefCell::new(Vec::new()));
        let keeps = seen.clone();
        let keeps = RecordingHandler::new("b", &log).on_read(move |_, msg| {
            keeps.borrow_mut().push(msg);
            Ok(())
        });
        let (a, _b) = fixture.pair(RecordingHandler::new("a", &log), keeps);
        let plain = Plain(Box::new(7));
        let address: *const u64 = &*plain.0;
        fixture.on(0, |_| {
            drop(a.write(Bytes::from_static(b"bytes")));
            drop(a.write(plain));
            drop(a.write_and_flush(42_u32));
        });
        let mut seen = seen.take().into_iter();
        assert_eq!(seen.next().unwrap().take::<Bytes>().unwrap(), "bytes");
        let plain = seen.next().unwrap().take::<Plain>().unwrap();
        assert_eq!((std::ptr::from_ref(&*plain.0), *plain.0), (address, 7));
        assert_eq!(seen.next().unwrap().take::<u32>().unwrap(), 42);
    });
}

#[test]
fn c04_a_deregistered_channel_reads_nothing_until_it_is_registered_again() {
    LocalFixture::on_one_and_two_loops(|fixture| {
        let log = Log::default();
        let (a, b) =
            fixture.pair(RecordingHandler::new("a", &log), RecordingHandler::new("b", &log));
        a.send(text("1"));
        fixture.run();
        fixture.outcome(b.deregister()).unwrap();
        assert!(!b.is_registered() && b.is_active());
        a.send(text("2"));
        a.send(text("3"));
        fixture.run();
        let before = ["read 1", "read complete", "unregistered"];
        assert_eq!(log.of("b")[3..], before);
        b.read();
        fixture.run();
        assert_eq!(log.of("b")[3..], before, "a read request does not help");
        fixture.outcome(b.register()).unwrap();
        let after = ["registered", "read 2", "read 3", "read complete"];
        assert_eq!(log.of("b")[6..], after, "and it is not active anew");
        a.send(text("4"));
        fixture.run();
        assert_eq!(log.of("b")[10..], ["read 4", "read complete"], "and goes on");
    });
}

#[test]
fn c04_the_end_of_the_stream_waits_for_a_deregistered_channel() {
    LocalFixture::on_one_and_two_loops(|fixture| {
        let log = Log::default();
        let (a, b) =
            fixture.pair(RecordingHandler::new("a", &log), RecordingHandler::new("b", &log));
        fixture.outcome(b.deregister()).unwrap();
        a.send(text("last words"));
        fixture.outcome(a.close()).unwrap();
        assert!(b.is_open());
        fixture.outcome(b.register()).unwrap();
        assert_eq!(
            log.of("b")[4..],
            [
                "registered",
                "read last words",
                "read complete",
                "inactive",
                "unregistered",
                "removed"
            ]
        );
    });
}

#[test]
fn c04_a_deregistered_channel_can_be_closed() {
    LocalFixture::on_one_and_two_loops(|fixture| {
        let log = Log::default();
        let (a, b) =
            fixture.pair(RecordingHandler::new("a", &log), RecordingHandler::new("b", &log));
        fixture.outcome(b.deregister()).unwrap();
        fixture.outcome(b.close()).unwrap();
        assert_eq!(log.of("b")[3..], ["unregistered", "inactive", "removed"], "unregistered once");
        assert!(!a.is_open());
    });
}

#[test]
fn c13_dropping_an_unregistered_channel_closes_its_peer() {
    LocalFixture::on_one_and_two_loops(|fixture| {
        let log = Log::default();
        let (one, other) = transport::pair();
        let b = fixture.register(1, other, RecordingHandler::new("b", &log));
        fixture.on(0, |_| drop(one));
        assert!(!b.is_open());
        assert_eq!(log.of("b")[3..], ["inactive", "unregistered", "removed"]);
    });
}
