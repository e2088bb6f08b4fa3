//! Files between the bytes of a stream (C07).

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use waterwheel_channel::driver::{FILE_COPY_CHUNK, TaskOnly};
use waterwheel_channel::{
    Address, Bootstrap, Ctx, EventLoopGroup, FileRegion, Handler, HandlerResult, Msg, Offloaded,
    RemoteCtx, RemoteHandler, ServerBootstrap, local,
};
use waterwheel_executor::{Clock, EventExecutor, VirtualClock};
use waterwheel_testkit::embedded::Embedded;
use waterwheel_testkit::manual::Manual;
use waterwheel_testkit::temp_file::TempFile;

use crate::support::{StreamFixture, over_both_drivers};

/// Runs the loop and reads at the peer until no more bytes arrive.
fn receive_all(fixture: &mut StreamFixture) -> Vec<u8> {
    let mut all = Vec::new();
    loop {
        fixture.run();
        let more = fixture.peer.take_received();
        if more.is_empty() {
            return all;
        }
        all.extend(more);
    }
}

#[test]
fn c07_files_and_bytes_arrive_in_the_order_they_were_written() {
    let temp_file = TempFile::new(3 * FILE_COPY_CHUNK + 17);
    for limit in [1000, 64 * 1024, 1 << 20] {
        over_both_drivers(|manual| {
            let mut fixture = StreamFixture::new(&manual);
            fixture.peer.set_limit(limit);
            fixture.write(0, "head ", false);
            fixture.write_msg(1, temp_file.region(5..), false);
            fixture.write(2, " between ", false);
            fixture.write_msg(3, temp_file.region(0..10), false);
            fixture.write_msg(4, temp_file.region(7..7), false);
            fixture.write_msg(5, temp_file.region(20..21), false);
            fixture.write(6, " tail", true);
            let text = temp_file.contents();
            let parts: [&[u8]; 6] =
                [b"head ", &text[5..], b" between ", &text[..10], &text[20..21], b" tail"];
            assert!(receive_all(&mut fixture) == parts.concat(), "at a limit of {limit}");
            assert_eq!(
                fixture.write_outcomes(),
                (0..7).map(|number| (number, true)).collect::<Vec<_>>()
            );
            assert_eq!(fixture.channel.pending_bytes(), 0);
            let sent = parts.concat().len() as u64;
            assert_eq!(fixture.channel.event_loop().metrics().bytes_written, sent);
        });
    }
}

#[test]
fn c07_the_pending_bytes_of_a_file_stay_the_same_until_its_last_byte_is_sent() {
    let temp_file = TempFile::new(100_000);
    over_both_drivers(|manual| {
        let mut fixture = StreamFixture::new(&manual);
        fixture.peer.set_limit(10_000);
        for number in 0..8 {
            fixture.write_msg(number, temp_file.region(0..100_000), false);
        }
        let eight = 8 * FileRegion::PENDING_BYTES;
        assert_eq!((fixture.channel.pending_bytes(), fixture.channel.is_writable()), (eight, true));
        fixture.write_msg(8, temp_file.region(0..100_000), true);
        assert!(!fixture.channel.is_writable());
        let mut read = 0;
        while read < 90_000 {
            assert_eq!(
                (fixture.write_outcomes().len(), fixture.channel.pending_bytes()),
                (0, 9 * FileRegion::PENDING_BYTES)
            );
            fixture.run();
            read += fixture.peer.take_received().len();
            fixture.run();
        }
        assert_eq!(fixture.write_outcomes(), [(0, true)]);
        fixture.peer.set_limit(1 << 20);
        assert_eq!(read + receive_all(&mut fixture).len(), 900_000);
        assert!(fixture.channel.is_writable());
    });
}

#[test]
fn c07_a_file_that_is_cancelled_before_its_flush_is_not_sent() {
    let temp_file = TempFile::new(1000);
    over_both_drivers(|manual| {
        let mut fixture = StreamFixture::new(&manual);
        let cancelled = fixture.on_loop(|channel| {
            drop(channel.write(Bytes::from_static(b"a")));
            let first = channel.write(temp_file.region(0..10));
            drop(channel.write(Bytes::from_static(b"b")));
            drop(channel.write(temp_file.region(10..20)));
            let last = channel.write(temp_file.region(0..1000));
            (first.cancel(), last.cancel())
        });
        assert_eq!(cancelled, (true, true));
        fixture.write(0, "c", true);
        assert_eq!(
            receive_all(&mut fixture),
            [b"ab", &temp_file.contents()[10..20], b"c"].concat()
        );
        assert_eq!(
            (fixture.write_outcomes(), fixture.channel.pending_bytes()),
            (vec![(0, true)], 0)
        );
    });
}

#[test]
fn c07_a_truncated_file_fails_its_write_and_closes_the_channel() {
    let cases: [(u64, usize); 3] = [(0, 0), (3000, 3000), (4999, 4999)];
    for (cut, sent) in cases {
        over_both_drivers(|manual| {
            let mut fixture = StreamFixture::new(&manual);
            let temp_file = TempFile::new(5000);
            let written = fixture.on_loop(|channel| channel.write(temp_file.region(..)));
            fixture.write(1, "behind it", false);
            temp_file.set_len(cut);
            fixture.on_loop(|channel| channel.flush());
            let arrived = receive_all(&mut fixture);
            assert_eq!((arrived.len(), fixture.write_outcomes()), (sent, vec![(1, false)]));
            assert!(fixture.channel.closed().is_done() && fixture.peer.is_closed());
            let said = written.join().unwrap_err().to_string();
            let place = format!(
                "it ends at or before {cut}, {} bytes of the region are missing",
                5000 - cut
            );
            assert!(said.contains("waterwheel-temp-file") && said.contains(&place), "{said}");
        });
    }
}

#[test]
fn c10_the_output_is_shut_down_after_a_file() {
    let temp_file = TempFile::new(200_000);
    over_both_drivers(|manual| {
        let mut fixture = StreamFixture::new(&manual);
        fixture.peer.set_limit(1000);
        fixture.write_msg(0, temp_file.region(0..200_000), true);
        let over = fixture.on_loop(|channel| channel.shutdown_output());
        fixture.run();
        assert!(!over.is_done() && !fixture.peer.is_ended());
        fixture.peer.set_limit(1 << 20);
        assert!(receive_all(&mut fixture) == temp_file.contents());
        assert!(over.join().is_ok() && fixture.peer.is_ended());
        assert_eq!(fixture.write_outcomes(), [(0, true)]);
    });
}

#[test]
fn c05_a_close_waits_for_a_file_that_the_network_has_room_for() {
    let temp_file = TempFile::new(3 * FILE_COPY_CHUNK);
    over_both_drivers(|manual| {
        let mut fixture = StreamFixture::new(&manual);
        fixture.peer.set_limit(1 << 20);
        fixture.write(0, "head ", true);
        fixture.write_msg(1, temp_file.region(0..3 * FILE_COPY_CHUNK as u64), true);
        fixture.on_loop(|channel| drop(channel.close()));
        fixture.run();
        assert_eq!(fixture.peer.take_received().len(), 5 + 3 * FILE_COPY_CHUNK);
        assert_eq!(fixture.write_outcomes(), [(0, true), (1, true)]);
        assert!(fixture.channel.closed().is_done() && fixture.peer.is_closed());
    });
}

#[test]
fn c05_a_close_does_not_wait_for_a_peer_that_reads_no_more_of_a_file() {
    let temp_file = TempFile::new(10_000);
    over_both_drivers(|manual| {
        let mut fixture = StreamFixture::new(&manual);
        fixture.peer.set_limit(1000);
        fixture.write_msg(0, temp_file.region(0..10_000), true);
        fixture.on_loop(|channel| drop(channel.close()));
        fixture.run();
        assert_eq!(fixture.peer.take_received(), &temp_file.contents()[..1000]);
        assert_eq!(fixture.write_outcomes(), [(0, false)]);
        assert!(fixture.channel.closed().is_done() && fixture.channel.pending_bytes() == 0);
    });
}

#[test]
fn c07_a_file_in_many_parts_does_not_starve_tasks() {
    let temp_file = TempFile::new(40);
    let mut channel = Embedded::builder().stream().build(|_| Ok(())).unwrap();
    channel.short_writes(1);
    let seen = channel.on_loop(|channel| {
        channel.send(temp_file.region(0..40));
        let waiting = channel.clone();
        channel.event_loop().submit(move || waiting.pending_bytes()).unwrap()
    });
    channel.run();
    assert_eq!(seen.join().unwrap(), FileRegion::PENDING_BYTES, "it is not all sent by then");
    let sent: Vec<Bytes> = std::iter::from_fn(|| channel.read_outbound()).collect();
    assert_eq!((sent.len(), sent.concat().as_slice()), (40, temp_file.contents()));
}

#[test]
fn c03_an_offloaded_handler_may_write_a_file() {
    struct WritesFile(FileRegion);

    impl RemoteHandler for WritesFile {
        fn on_read(&mut self, ctx: &RemoteCtx, _: Msg) -> HandlerResult {
            ctx.write_and_flush(self.0.clone());
            Ok(())
        }
    }

    let temp_file = TempFile::new(300);
    let clock = Clock::Virtual(VirtualClock::new());
    let mut library = EventExecutor::builder().name("library").build_manual(clock).unwrap();
    let (executor, region) = (library.executor().clone(), temp_file.region(100..300));
    let mut channel = Embedded::builder()
        .stream()
        .build(|edit| {
            edit.add_last("librarian", Offloaded::on(&executor, || WritesFile(region)))?;
            Ok(())
        })
        .unwrap();
    channel.write_inbound(Bytes::from_static(b"?"));
    while library.run_now() > 0 {
        channel.run();
    }
    assert_eq!(channel.read_outbound::<Bytes>().unwrap(), &temp_file.contents()[100..]);
}

#[test]
fn c07_a_transport_of_messages_delivers_a_file_unchanged() {
    struct Reader(std::sync::mpsc::Sender<FileRegion>);

    impl Handler for Reader {
        fn on_read(&mut self, _: &Ctx<'_>, msg: Msg) -> HandlerResult {
            let _ = msg.take().map(|file| self.0.send(file));
            Ok(())
        }
    }

    let temp_file = TempFile::new(50);
    let group = EventLoopGroup::builder(TaskOnly).threads(1).build().unwrap();
    let (heard, files) = std::sync::mpsc::channel();
    let heard = Arc::new(std::sync::Mutex::new(heard));
    let server = ServerBootstrap::new(&group, local::Local)
        .child_initialiser(move |edit| {
            edit.add_last("reader", Reader(heard.lock().unwrap().clone()))?;
            Ok(())
        })
        .bind(Address::local("c07-files"))
        .join()
        .unwrap();
    let client = Bootstrap::new(&group, local::Local);
    let client = client.connect(server.local_address().unwrap()).join().unwrap();
    client.write_and_flush(temp_file.region(10..30)).join().unwrap();
    let file = files.recv_timeout(Duration::from_secs(60)).unwrap();
    assert_eq!(file.read(100).unwrap(), &temp_file.contents()[10..30]);
    group.shutdown_gracefully(Duration::ZERO, Duration::from_secs(5)).unwrap().join().unwrap();
}

#[test]
fn c07_a_file_that_waits_for_room_is_sent_when_there_is_room() {
    let temp_file = TempFile::new(100);
    over_both_drivers(|manual: Manual| {
        let mut fixture = StreamFixture::new(&manual);
        fixture.peer.set_limit(0);
        fixture.write_msg(0, temp_file.region(0..100), true);
        fixture.run();
        let tried = manual.counts().writes;
        fixture.bench.turns(3);
        assert_eq!(
            (fixture.write_outcomes().len(), manual.counts().writes),
            (0, tried),
            "the loop does not spin"
        );
        fixture.peer.set_limit(1000);
        assert!(receive_all(&mut fixture) == temp_file.contents());
        assert_eq!(fixture.write_outcomes(), [(0, true)]);
    });
}
