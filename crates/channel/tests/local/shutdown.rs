//! Local channels when their loop shuts down (L10).

use std::time::Duration;

use waterwheel_channel::local::{self as transport, Connection};
use waterwheel_channel::{Address, NewChannel};

use crate::support::{LocalFixture, Log, PATIENCE, RecordingHandler, fresh_name};

#[test]
fn l10_a_shutdown_closes_all_channels_at_its_start() {
    LocalFixture::on_one_and_two_loops(|fixture| {
        let (log, name) = (Log::default(), fresh_name("ending"));
        let server = transport::listen(name.as_str()).unwrap();
        let server = fixture.register(0, server, RecordingHandler::new("server", &log));
        let (a, b) =
            fixture.pair(RecordingHandler::new("a", &log), RecordingHandler::new("b", &log));
        fixture.on(0, |_| {
            drop(a.write_and_flush("flushed before".to_owned()));
            log.note("a: wrote", a.write("never flushed".to_owned()));
        });
        // A quiet period long enough for the channels to be closed before the loop ends.
        let quiet = Duration::from_secs(3600);
        drop(fixture.event_loop(0).shutdown_gracefully(quiet, quiet).unwrap());
        for _ in 0..10 {
            fixture.turn();
        }
        let event_loop = fixture.event_loop(0);
        assert!(event_loop.is_shutting_down() && !event_loop.is_shut_down(), "it is quiet");
        for (channel, who) in [(&server, "server"), (&a, "a")] {
            assert!(!channel.is_open() && channel.closed().is_done());
            let told = log.of(who);
            assert_eq!(told[told.len() - 3..], ["inactive", "unregistered", "removed"]);
        }
        assert_eq!(
            log.of("a")[3],
            "wrote failed: the channel is closed: the event loop is shutting down"
        );
        assert_eq!(log.of("b")[3..5], ["read flushed before", "read complete"]);
        assert!(!b.is_open(), "closed with its peer or with the loop");
        // The name is free again.
        drop(transport::listen(name.as_str()).unwrap());
    });
}

#[test]
fn l10_each_operation_pending_at_a_shutdown_completes_once() {
    LocalFixture::on_one_and_two_loops(|fixture| {
        let (log, name) = (Log::default(), fresh_name("refused"));
        let server = transport::listen(name.as_str()).unwrap();
        let _server = fixture.register(1, server, RecordingHandler::new("server", &log));
        let client = NewChannel::new(Connection::new());
        let client = fixture.register(0, client, RecordingHandler::new("client", &log));
        let event_loop = fixture.event_loop(0);
        drop(event_loop.shutdown_gracefully(Duration::ZERO, PATIENCE).unwrap());
        log.note("connected", client.connect(Address::local(name.as_str())));
        log.note("wrote", client.write_and_flush(1_u8));
        log.note("closed", client.close());
        fixture.bench(0).until_over();
        fixture.run();
        let entries = log.take();
        for what in ["connected", "wrote", "closed"] {
            // The calls were made after the shutdown was requested and before the channels were closed.
            let told = entries.iter().filter(|entry| entry.starts_with(what)).count();
            assert_eq!(told, 1, "{what}: {entries:?}");
        }
        assert!(client.closed().is_done());
        let client_told: Vec<_> =
            entries.iter().filter(|entry| entry.starts_with("client: ")).collect();
        let ends = ["client: inactive", "client: unregistered", "client: removed"];
        assert_eq!(client_told[client_told.len() - 3..], ends);
        let late = client.write_and_flush(1_u8).join().unwrap_err();
        assert_eq!(late.to_string(), "the channel is closed");
    });
}
