//! Panics during a read and during the work it defers (rule 11). None may hold up other channels on the loop
//! or leave the loop busy for ever.

use std::cell::RefCell;
use std::rc::Rc;

use bytes::Bytes;
use waterwheel_channel::{Channel, Ctx, Handler, HandlerResult, Msg, NewChannel, Stream};
use waterwheel_testkit::loop_suite::{Bench, panic_quietly};
use waterwheel_testkit::manual::{Manual, Peer};

use crate::support::over_both_drivers;

/// Bytes whose destructor writes to a channel and panics.
struct PanicsWhenDropped(Option<Channel>);

impl AsRef<[u8]> for PanicsWhenDropped {
    fn as_ref(&self) -> &[u8] {
        b"sent"
    }
}

impl Drop for PanicsWhenDropped {
    fn drop(&mut self) {
        if let Some(channel) = self.0.take() {
            drop(channel.write_and_flush(Bytes::from("wish")));
        }
        panic_quietly("destructor panics");
    }
}

fn bytes_that_panic(channel: Option<Channel>) -> Bytes {
    Bytes::from_owner(PanicsWhenDropped(channel))
}

type OnRead = Box<dyn FnMut(&Ctx<'_>)>;

struct ActsOnRead(OnRead);

impl Handler for ActsOnRead {
    fn on_read(&mut self, ctx: &Ctx<'_>, _: Msg) -> HandlerResult {
        (self.0)(ctx);
        Ok(())
    }
}

/// A loop with three channels. The first runs a closure in `on_read`.
struct ThreeChannels {
    bench: Bench,
    manual: Manual,
    channels: Vec<(Channel, Peer)>,
}

impl ThreeChannels {
    fn new(manual: &Manual, on_read: impl FnMut(&Ctx<'_>, &[Channel]) + 'static) -> Self {
        let mut bench = Bench::new(manual);
        let others: Rc<RefCell<Vec<Channel>>> = Rc::default();
        let (known, mut on_read) = (others.clone(), on_read);
        let first: OnRead = Box::new(move |ctx| {
            let known = known.borrow().clone();
            on_read(ctx, &known);
        });
        let acts = [first, Box::new(|_| ()), Box::new(|_| ())];
        let mut channels = Vec::new();
        for act in acts {
            let (io, peer) = manual.pair();
            let new = NewChannel::new(Stream::connected(io, None));
            let channel = bench
                .here(|here| {
                    here.register_with(new, |edit| {
                        Ok(edit.add_last("acts", ActsOnRead(act)).map(drop)?)
                    })
                })
                .unwrap();
            channels.push((channel, peer));
        }
        others.borrow_mut().extend(channels.iter().map(|(channel, _)| channel.clone()));
        Self { bench, manual: manual.clone(), channels }
    }

    /// Sends bytes to the first channel; returns what each peer received when the loop is idle.
    fn run(&mut self) -> Vec<String> {
        self.bench.turns(3);
        self.channels[0].1.send("go");
        let (mut quiet, mut events) = (0, 0);
        for _ in 0..1000 {
            self.bench.turn();
            let now = self.manual.counts().events;
            quiet = if now == events && self.bench.manual.is_idle() { quiet + 1 } else { 0 };
            events = now;
            if quiet == 3 {
                let text = |bytes: Bytes| String::from_utf8(bytes.into()).unwrap();
                return self.channels.iter().map(|(_, peer)| text(peer.take_received())).collect();
            }
        }
        panic!("the loop never becomes idle");
    }

    fn open(&self) -> Vec<bool> {
        self.channels.iter().map(|(channel, _)| channel.is_open()).collect()
    }
}

#[test]
fn c05_rule_11_a_handler_that_closes_its_channel_and_panics_leaves_the_loop_idle() {
    over_both_drivers(|manual| {
        let mut channels_fixture = ThreeChannels::new(&manual, |ctx, all| {
            ctx.write(Bytes::from("mine"));
            ctx.flush();
            drop(all[1].write_and_flush(Bytes::from("other")));
            drop(all[0].close());
            panic_quietly("after its end");
        });
        assert_eq!(channels_fixture.run()[1], "other");
        assert_eq!(channels_fixture.open(), [false, true, true]);
        assert!(channels_fixture.channels[0].1.is_closed());
    });
}

#[test]
fn c05_rule_11_sent_bytes_that_panic_when_they_are_dropped_do_not_hold_up_other_channels() {
    over_both_drivers(|manual| {
        let mut channels_fixture = ThreeChannels::new(&manual, |ctx, all| {
            ctx.write(bytes_that_panic(None));
            ctx.flush();
            for other in &all[1..] {
                drop(other.write_and_flush(bytes_that_panic(None)));
            }
        });
        for _ in 0..3 {
            assert_eq!(channels_fixture.run(), ["sent", "sent", "sent"]);
        }
        assert_eq!(channels_fixture.open(), [true, true, true]);
    });
}

#[test]
fn c05_rule_11_a_write_from_a_panicking_destructor_of_sent_bytes_is_sent() {
    over_both_drivers(|manual| {
        let mut channels_fixture = ThreeChannels::new(&manual, |ctx, all| {
            ctx.write(bytes_that_panic(Some(all[0].clone())));
            ctx.flush();
            drop(all[1].write_and_flush(bytes_that_panic(Some(all[0].clone()))));
            drop(all[2].write_and_flush(bytes_that_panic(Some(all[1].clone()))));
        });
        assert_eq!(channels_fixture.run(), ["sentwishwish", "sentwish", "sent"]);
        assert_eq!(channels_fixture.open(), [true, true, true]);
    });
}
