//! Channel groups (C14) under load: many members, many threads.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, mpsc};
use std::thread;

use bytes::Bytes;
use waterwheel_channel::local as transport;
use waterwheel_channel::{
    Channel, ChannelGroup, Ctx, EventLoopGroup, Handler, HandlerResult, Msg, NewChannel,
};

use crate::support::{PATIENCE, shut_down, threaded_group};

/// Counts reads and reports when all channels together have made enough.
struct CountsReads {
    read: Arc<AtomicUsize>,
    enough: usize,
    told: mpsc::Sender<()>,
}

impl Handler for CountsReads {
    fn on_read(&mut self, _: &Ctx<'_>, msg: Msg) -> HandlerResult {
        assert_eq!(msg.into_bytes().expect("the message is bytes"), "news");
        if self.read.fetch_add(1, Ordering::Relaxed) + 1 == self.enough {
            let _ = self.told.send(());
        }
        Ok(())
    }
}

fn with_handler<H: Handler>(
    new: NewChannel,
    handler: impl FnOnce() -> H + Send + 'static,
) -> NewChannel {
    new.initialiser(|edit| {
        edit.add_last("handler", handler())?;
        Ok(())
    })
}

#[test]
fn c14_ten_thousand_channels_receive_a_broadcast_and_close_together() {
    const CHANNELS: usize = 10_000;
    let loops = threaded_group(3);
    let group = ChannelGroup::new("many");
    let read = Arc::new(AtomicUsize::new(0));
    let (told, all_read) = mpsc::channel();
    let mut joined = Vec::new();
    for _ in 0..CHANNELS {
        let (ours, theirs) = transport::pair();
        joined.push(loops.register(ours));
        let (read, told) = (read.clone(), told.clone());
        let count = || CountsReads { read, enough: 2 * CHANNELS, told };
        drop(loops.register(with_handler(theirs, count)));
    }
    for joined in joined {
        assert!(group.add(&joined.join().unwrap()));
    }
    assert_eq!(group.len(), CHANNELS);
    let told = group.write_and_flush(Bytes::from_static(b"news")).join().unwrap();
    assert_eq!((told.len(), told.failures().len()), (CHANNELS, 0));
    // A write on a loop reaches the channels of that loop at once; every other loop receives one command.
    let asked = group.clone();
    let on_loop = loops.next().submit(move || asked.send(Bytes::from_static(b"news")));
    on_loop.unwrap().join().unwrap();
    all_read.recv_timeout(PATIENCE).expect("all have read both");
    assert!(group.close().join().unwrap().is_success());
    assert!(group.is_empty());
    shut_down(&loops);
}

/// Adds and closes channels until `stop` is set; returns how many.
fn add_and_close_channels(
    loops: &EventLoopGroup,
    group: &ChannelGroup,
    stop: &AtomicBool,
) -> usize {
    let mut made = 0;
    while made < 20 || !stop.load(Ordering::Relaxed) {
        let (ours, theirs) = transport::pair();
        let (ours, theirs) = (loops.register(ours), loops.register(theirs));
        let (ours, theirs) = (ours.join().unwrap(), theirs.join().unwrap());
        // The close happens before, during or after the add: from this thread or from the peer's loop.
        if made % 2 == 0 {
            drop(theirs.close());
            group.add(&ours);
        } else {
            group.add(&ours);
            drop(ours.close());
        }
        if made % 3 == 0 {
            group.remove(&ours);
            group.add(&ours);
        }
        made += 1;
    }
    made
}

#[test]
fn c14_concurrent_adds_closes_and_broadcasts_leave_no_member_and_every_broadcast_completes() {
    const BROADCASTS: usize = 400;
    let loops = threaded_group(3);
    let group = ChannelGroup::new("turmoil");
    let stop = AtomicBool::new(false);
    thread::scope(|scope| {
        let comers: Vec<_> =
            (0..2).map(|_| scope.spawn(|| add_and_close_channels(&loops, &group, &stop))).collect();
        let mut outcomes = Vec::new();
        for n in 0..BROADCASTS {
            outcomes.push(match n % 4 {
                0 => group.write_and_flush(Bytes::from_static(b"news")),
                1 => group.matching(Channel::is_open).write(Bytes::from_static(b"late")),
                2 => group.closed(),
                _ => group.close(),
            });
            group.send(Bytes::from_static(b"news"));
        }
        stop.store(true, Ordering::Relaxed);
        let made: usize = comers.into_iter().map(|comer| comer.join().unwrap()).sum();
        assert!(made >= 40, "{made}");
        for outcome in outcomes {
            outcome.wait_timeout(PATIENCE).expect("the broadcast completes");
        }
    });
    assert!(group.close().join().unwrap().is_success());
    let last = group.closed();
    last.wait_timeout(PATIENCE).expect("all are closed");
    assert!(group.is_empty(), "{:?}", group.channels());
    shut_down(&loops);
}
