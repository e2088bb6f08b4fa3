//! The order of what happens to the two ends of a local connection (C02, C04, C05, C06).

use std::cell::RefCell;
use std::rc::Rc;

use bytes::Bytes;
use waterwheel_channel::local::{self as transport, Connection, Listener};
use waterwheel_channel::{Address, Message, NewChannel};

use crate::support::{Log, Record, Stage, accept_with, fresh_name};

fn text(text: &str) -> String {
    text.to_owned()
}

#[test]
fn c02_lifecycle_events_of_a_server_a_client_and_an_accepted_channel_come_in_order() {
    Stage::each(|stage| {
        let (log, name) = (Log::default(), fresh_name("life"));
        let (notes, other) = (log.clone(), stage.event_loop(1));
        let accepted = move || {
            Record::new("accepted", &notes).on_read(|ctx, msg| {
                ctx.write_and_flush(msg);
                Ok(())
            })
        };
        let accept = Record::new("server", &log).on_read(accept_with(accepted, Some(other)));
        let server = stage.register(0, NewChannel::new(Listener::new()), accept);
        // From outside: whoever asks on the loop hears of it when the call returns.
        log.note("server: bound", server.bind(Address::local(name.as_str())));
        let client = NewChannel::new(Connection::new());
        let client = stage.register(0, client, Record::new("client", &log));
        log.note("client: connected", client.connect(Address::local(name.as_str())));
        stage.run();
        log.note("client: wrote", client.write_and_flush(text("hello")));
        stage.run();
        let closed = log.clone();
        client.closed().add_listener(move |_| closed.add("client: close future"));
        log.note("client: closed", client.close());
        stage.run();
        log.note("server: closed", server.close());
        stage.run();
        assert_eq!(
            log.of("server"),
            [
                "added",
                "registered",
                "bound",
                "active",
                "read waterwheel_channel::channel::new_channel::NewChannel",
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
        assert_eq!(stage.reports(), [""; 0]);
    });
}

#[test]
fn c02_pending_writes_fail_before_the_close_completes() {
    Stage::each(|stage| {
        let log = Log::default();
        let (a, _b) = stage.pair(Record::new("a", &log), Record::new("b", &log));
        log.note("a: wrote", a.write(text("never flushed")));
        log.note("a: closed", a.close());
        stage.run();
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
    Stage::each(|stage| {
        let log = Log::default();
        let (a, b) = stage.pair(Record::new("a", &log), Record::new("b", &log));
        stage.on(0, |_| {
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
    Stage::each(|stage| {
        let log = Log::default();
        let (a, _b) = stage.pair(Record::new("a", &log), Record::new("b", &log));
        drop(a.write(text("1")));
        drop(a.write_and_flush(text("2")));
        stage.outcome(a.close()).unwrap();
        let read = ["read 1", "read 2", "read complete", "inactive", "unregistered", "removed"];
        assert_eq!(log.of("b")[3..], read);
    });
}

#[test]
fn c05_a_close_in_the_listener_of_a_write_is_seen_after_the_data() {
    Stage::each(|stage| {
        let log = Log::default();
        let (a, _b) = stage.pair(Record::new("a", &log), Record::new("b", &log));
        let closes = a.clone();
        stage.on(0, |_| {
            a.write_and_flush(text("last")).on_complete(move |result| {
                result.expect("it was written");
                drop(closes.close());
            });
        });
        let read = ["read last", "read complete", "inactive", "unregistered", "removed"];
        assert_eq!(log.of("b")[3..], read);
    });
}

#[test]
fn c05_a_close_by_the_reader_of_the_first_message_leaves_the_second_unread() {
    Stage::each(|stage| {
        let log = Log::default();
        let closes = Record::new("b", &log).on_read(|ctx, _| {
            ctx.close();
            Ok(())
        });
        let (a, _b) = stage.pair(Record::new("a", &log), closes);
        stage.on(0, |_| {
            drop(a.write(text("1")));
            drop(a.write_and_flush(text("2")));
        });
        assert_eq!(log.of("b")[3..], ["read 1", "inactive", "unregistered", "removed"]);
        assert_eq!(log.of("a")[3..], ["inactive", "unregistered", "removed"]);
    });
}

#[test]
fn c05_writing_to_a_closed_peer_fails_and_closes_the_channel() {
    Stage::each(|stage| {
        let log = Log::default();
        let (a, b) = stage.pair(Record::new("a", &log), Record::new("b", &log));
        // Not reading, it does not learn from the end of the stream.
        stage.on(0, |_| a.set_auto_read(false));
        stage.outcome(b.close()).unwrap();
        assert!(a.is_active(), "it has not looked");
        let error = stage.outcome(a.write_and_flush(text("too late"))).unwrap_err();
        assert_eq!(error.to_string(), "the channel is closed: the peer has closed the connection");
        assert!(!a.is_open());
        assert_eq!(log.of("a")[3..], ["inactive", "unregistered", "removed"]);
    });
}

#[test]
fn c06_messages_of_any_type_move_by_value() {
    struct Plain(Box<u64>);
    impl Message for Plain {}

    Stage::each(|stage| {
        let log = Log::default();
        let seen = Rc::new(RefCell::new(Vec::new()));
        let keeps = seen.clone();
        let keeps = Record::new("b", &log).on_read(move |_, msg| {
            keeps.borrow_mut().push(msg);
            Ok(())
        });
        let (a, _b) = stage.pair(Record::new("a", &log), keeps);
        let plain = Plain(Box::new(7));
        let address: *const u64 = &*plain.0;
        stage.on(0, |_| {
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
    Stage::each(|stage| {
        let log = Log::default();
        let (a, b) = stage.pair(Record::new("a", &log), Record::new("b", &log));
        a.send(text("1"));
        stage.run();
        stage.outcome(b.deregister()).unwrap();
        assert!(!b.is_registered() && b.is_active());
        a.send(text("2"));
        a.send(text("3"));
        stage.run();
        let before = ["read 1", "read complete", "unregistered"];
        assert_eq!(log.of("b")[3..], before);
        b.read();
        stage.run();
        assert_eq!(log.of("b")[3..], before, "not even if it is asked to");
        stage.outcome(b.register()).unwrap();
        let after = ["registered", "read 2", "read 3", "read complete"];
        assert_eq!(log.of("b")[6..], after, "and it is not active anew");
        a.send(text("4"));
        stage.run();
        assert_eq!(log.of("b")[10..], ["read 4", "read complete"], "and goes on");
    });
}

#[test]
fn c04_the_end_of_the_stream_waits_for_a_deregistered_channel() {
    Stage::each(|stage| {
        let log = Log::default();
        let (a, b) = stage.pair(Record::new("a", &log), Record::new("b", &log));
        stage.outcome(b.deregister()).unwrap();
        a.send(text("last words"));
        stage.outcome(a.close()).unwrap();
        assert!(b.is_open());
        stage.outcome(b.register()).unwrap();
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
    Stage::each(|stage| {
        let log = Log::default();
        let (a, b) = stage.pair(Record::new("a", &log), Record::new("b", &log));
        stage.outcome(b.deregister()).unwrap();
        stage.outcome(b.close()).unwrap();
        assert_eq!(log.of("b")[3..], ["unregistered", "inactive", "removed"], "unregistered once");
        assert!(!a.is_open());
    });
}

#[test]
fn c13_dropping_an_unregistered_channel_closes_its_peer() {
    Stage::each(|stage| {
        let log = Log::default();
        let (one, other) = transport::pair();
        let b = stage.register(1, other, Record::new("b", &log));
        stage.on(0, |_| drop(one));
        assert!(!b.is_open());
        assert_eq!(log.of("b")[3..], ["inactive", "unregistered", "removed"]);
    });
}
