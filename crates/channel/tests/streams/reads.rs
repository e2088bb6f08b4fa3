//! Reads of a stream (C09).

use std::cell::RefCell;
use std::rc::Rc;

use waterwheel_channel::{
    ChannelOptions, Ctx, Handler, HandlerResult, Msg, NewChannel, ReceiveSizes, Stream,
};
use waterwheel_testkit::loop_suite::Bench;

use crate::support::{StreamFixture, over_both_drivers};

fn sizes(fixture: &StreamFixture) -> Vec<usize> {
    let log = fixture.take_log();
    log.iter().filter_map(|entry| entry.strip_prefix("read ")?.parse().ok()).collect()
}

fn small_reads(size: usize) -> ChannelOptions {
    let receive_sizes = ReceiveSizes::new(size, size, size).unwrap();
    ChannelOptions { receive_sizes, ..ChannelOptions::default() }
}

#[test]
fn c09_the_read_size_grows_after_full_reads_and_shrinks_after_small_ones() {
    over_both_drivers(|manual| {
        let mut fixture = StreamFixture::new(&manual);
        fixture.peer.send([7; 200 * 1024]);
        fixture.run();
        let full = 200 * 1024 - 2048 - 32 * 1024 - 2 * 64 * 1024;
        assert_eq!(sizes(&fixture), [2048, 32 * 1024, 64 * 1024, 64 * 1024, full]);

        let mut fixture = StreamFixture::new(&manual);
        for _ in 0..2 {
            fixture.peer.send([7; 10]);
            fixture.run();
        }
        fixture.peer.send([7; 5000]);
        fixture.run();
        assert_eq!(sizes(&fixture), [10, 10, 1024, 3976]);
    });
}

#[test]
fn c09_two_flooding_peers_alternate_after_sixteen_reads() {
    struct CountsReads(Rc<RefCell<Vec<usize>>>, usize);
    impl Handler for CountsReads {
        fn on_read(&mut self, _: &Ctx<'_>, _: Msg) -> HandlerResult {
            self.0.borrow_mut()[self.1] += 1;
            Ok(())
        }
    }
    over_both_drivers(|manual| {
        let mut bench = Bench::new(&manual);
        let counts = Rc::new(RefCell::new(vec![0; 2]));
        let mut peers = Vec::new();
        for which in 0..2 {
            let (io, peer) = manual.pair();
            let new = NewChannel::new(Stream::connected(io, None)).options(small_reads(64));
            let handler = CountsReads(counts.clone(), which);
            let add = |edit: &mut waterwheel_channel::Edit<'_>| {
                Ok(edit.add_last("counts", handler).map(drop)?)
            };
            bench.here(|here| here.register_with(new, add)).unwrap();
            peer.send([7; 64 * 40]);
            peers.push(peer);
        }
        let mut seen = Vec::new();
        for _ in 0..4 {
            bench.turn();
            seen.push(counts.borrow().clone());
        }
        assert_eq!(seen, [[16, 16], [32, 32], [40, 40], [40, 40]]);
    });
}

#[test]
fn c09_a_stream_without_auto_read_reads_only_on_request() {
    over_both_drivers(|manual| {
        let options = ChannelOptions { auto_read: false, ..small_reads(64) };
        let mut fixture = StreamFixture::with(&manual, &manual, options, |_, _| ());
        fixture.peer.send("hello");
        fixture.run();
        assert_eq!((fixture.peer.unread(), sizes(&fixture)), (5, vec![]));
        fixture.on_loop(|channel| channel.read());
        fixture.run();
        assert_eq!((fixture.peer.unread(), sizes(&fixture)), (0, vec![5]));
        fixture.peer.send("again");
        fixture.run();
        assert_eq!(
            (fixture.peer.unread(), sizes(&fixture)),
            (5, vec![]),
            "one round was requested"
        );
        fixture.on_loop(|channel| channel.set_auto_read(true));
        fixture.run();
        fixture.peer.send("more");
        fixture.run();
        assert_eq!((fixture.peer.unread(), sizes(&fixture)), (0, vec![5, 4]));
    });
}

#[test]
fn c09_auto_read_switched_off_by_a_handler_ends_the_round() {
    over_both_drivers(|manual| {
        let mut fixture = StreamFixture::with(&manual, &manual, small_reads(4), |ctx, _| {
            ctx.channel().set_auto_read(false);
        });
        fixture.peer.send("twelve bytes");
        fixture.run();
        assert_eq!((fixture.peer.unread(), sizes(&fixture)), (8, vec![4]));
        fixture.peer.finish();
        fixture.run();
        assert!(fixture.channel.is_open(), "no read was requested that would see the end");
    });
}

#[test]
fn c09_without_auto_read_the_end_is_reported_by_the_read_that_reaches_it() {
    over_both_drivers(|manual| {
        let options = ChannelOptions { auto_read: false, ..ChannelOptions::default() };
        let mut fixture = StreamFixture::with(&manual, &manual, options, |_, _| ());
        fixture.run();
        fixture.take_log();
        fixture.peer.send("last");
        fixture.peer.finish();
        fixture.run();
        assert!(
            matches!(&fixture.take_log()[..], [one] if one.ends_with("PeerFinished")),
            "no more"
        );
        fixture.on_loop(|channel| channel.read());
        fixture.run();
        let first = fixture.take_log();
        assert_eq!(first[..2], ["read 4", "read complete"]);
        if fixture.channel.is_open() {
            fixture.on_loop(|channel| channel.read());
            fixture.run();
            let log = fixture.take_log();
            assert_eq!(log[log.len() - 3..], ["inactive", "unregistered", "removed"]);
        }
        assert!(fixture.channel.closed().is_done());
    });
}
