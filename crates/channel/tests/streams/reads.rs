//! How a stream reads (C09).

use std::cell::RefCell;
use std::rc::Rc;

use waterwheel_channel::{
    ChannelOptions, Ctx, Handler, HandlerResult, Msg, NewChannel, ReceiveSizes, Stream,
};
use waterwheel_testkit::loop_suite::Bench;

use crate::support::{Line, both};

fn sizes(line: &Line) -> Vec<usize> {
    let log = line.taken_log();
    log.iter().filter_map(|entry| entry.strip_prefix("read ")?.parse().ok()).collect()
}

fn small_reads(size: usize) -> ChannelOptions {
    let receive_sizes = ReceiveSizes::new(size, size, size).unwrap();
    ChannelOptions { receive_sizes, ..ChannelOptions::default() }
}

#[test]
fn c09_the_read_size_grows_after_full_reads_and_shrinks_after_small_ones() {
    both(|manual| {
        let mut line = Line::new(&manual);
        line.peer.send([7; 200 * 1024]);
        line.run();
        let full = 200 * 1024 - 2048 - 32 * 1024 - 2 * 64 * 1024;
        assert_eq!(sizes(&line), [2048, 32 * 1024, 64 * 1024, 64 * 1024, full]);

        let mut line = Line::new(&manual);
        for _ in 0..2 {
            line.peer.send([7; 10]);
            line.run();
        }
        line.peer.send([7; 5000]);
        line.run();
        assert_eq!(sizes(&line), [10, 10, 1024, 3976]);
    });
}

#[test]
fn c09_two_flooding_peers_alternate_after_sixteen_reads() {
    struct Counts(Rc<RefCell<Vec<usize>>>, usize);
    impl Handler for Counts {
        fn on_read(&mut self, _: &Ctx<'_>, _: Msg) -> HandlerResult {
            self.0.borrow_mut()[self.1] += 1;
            Ok(())
        }
    }
    both(|manual| {
        let mut bench = Bench::new(&manual);
        let counts = Rc::new(RefCell::new(vec![0; 2]));
        let mut peers = Vec::new();
        for which in 0..2 {
            let (io, peer) = manual.pair();
            let new = NewChannel::new(Stream::connected(io, None)).options(small_reads(64));
            let handler = Counts(counts.clone(), which);
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
    both(|manual| {
        let options = ChannelOptions { auto_read: false, ..small_reads(64) };
        let mut line = Line::with(&manual, &manual, options, |_, _| ());
        line.peer.send("hello");
        line.run();
        assert_eq!((line.peer.unread(), sizes(&line)), (5, vec![]));
        line.here(|channel| channel.read());
        line.run();
        assert_eq!((line.peer.unread(), sizes(&line)), (0, vec![5]));
        line.peer.send("again");
        line.run();
        assert_eq!((line.peer.unread(), sizes(&line)), (5, vec![]), "one round was asked for");
        line.here(|channel| channel.set_auto_read(true));
        line.run();
        line.peer.send("more");
        line.run();
        assert_eq!((line.peer.unread(), sizes(&line)), (0, vec![5, 4]));
    });
}

#[test]
fn c09_auto_read_switched_off_by_a_handler_ends_the_round() {
    both(|manual| {
        let mut line = Line::with(&manual, &manual, small_reads(4), |ctx, _| {
            ctx.channel().set_auto_read(false);
        });
        line.peer.send("twelve bytes");
        line.run();
        assert_eq!((line.peer.unread(), sizes(&line)), (8, vec![4]));
        line.peer.finish();
        line.run();
        assert!(line.channel.is_open(), "nobody asked whether there is an end");
    });
}

#[test]
fn c09_without_auto_read_the_end_is_reported_by_the_read_that_reaches_it() {
    both(|manual| {
        let options = ChannelOptions { auto_read: false, ..ChannelOptions::default() };
        let mut line = Line::with(&manual, &manual, options, |_, _| ());
        line.run();
        line.taken_log();
        line.peer.send("last");
        line.peer.finish();
        line.run();
        assert!(matches!(&line.taken_log()[..], [one] if one.ends_with("PeerFinished")), "no more");
        line.here(|channel| channel.read());
        line.run();
        let first = line.taken_log();
        assert_eq!(first[..2], ["read 4", "read complete"]);
        if line.channel.is_open() {
            line.here(|channel| channel.read());
            line.run();
            let log = line.taken_log();
            assert_eq!(log[log.len() - 3..], ["inactive", "unregistered", "removed"]);
        }
        assert!(line.channel.closed().is_done());
    });
}
