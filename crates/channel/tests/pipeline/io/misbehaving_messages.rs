//! C05, C07: messages with a will of their own, which write, panic or change their weight.

use std::cell::RefCell;

use bytes::Bytes;
use waterwheel_channel::{Channel, Events, Message};
use waterwheel_testkit::recorder::HandlerMethod;

use crate::support::{error, quiet, text};

/// Writes when it is dropped.
struct LastWords(Channel);

impl Message for LastWords {
    fn size_hint(&self) -> usize {
        5
    }
}

impl Drop for LastWords {
    fn drop(&mut self) {
        self.0.send(text("words"));
    }
}

#[test]
fn c07_a_message_may_write_when_it_is_dropped() {
    // Cancelled, sent, given up with the channel.
    let mut bench = quiet(|_, _| Ok(()));
    let cancelled = bench.on_loop(|channel| channel.write(LastWords(channel.clone())));
    assert!(cancelled.cancel());
    bench.on_loop(|channel| channel.flush());
    bench.run();
    assert_eq!(bench.sent(), ["words"]);
    bench.on_loop(|channel| drop(channel.write(LastWords(channel.clone()))));
    bench.close();
    assert_eq!(bench.sent(), Vec::<String>::new());
    assert!(bench.channel().closed().is_done());
    assert_eq!(bench.reports.take(), Vec::<String>::new());
}

/// Panics when it is dropped.
struct Fragile;

impl Message for Fragile {}

impl AsRef<[u8]> for Fragile {
    fn as_ref(&self) -> &[u8] {
        b"fragile"
    }
}

impl Drop for Fragile {
    fn drop(&mut self) {
        panic!("broken");
    }
}

#[test]
fn c05_rule_11_messages_may_panic_when_they_are_dropped() {
    let mut bench = quiet(|_, _| Ok(()));
    let cancelled = bench.on_loop(|channel| channel.write(Fragile));
    assert!(cancelled.cancel());
    bench.on_loop(|channel| {
        channel.flush();
        drop(channel.write(Fragile));
        drop(channel.write(Fragile));
    });
    assert!(bench.channel().is_open());
    bench.fail(error("reset"));
    assert!(bench.channel().closed().is_done());
    assert_eq!(bench.reports.take().len(), 3);
}

#[test]
fn c05_rule_11_a_panic_in_the_transport_closes_its_channel() {
    let mut bench = quiet(|_, _| Ok(()));
    let log = bench.log.clone();
    let other = bench.another("other", |edit| {
        edit.add_last("app", log.recorder().interest(Events::INACTIVE))?;
        Ok(())
    });
    let other = other.expect("it can be made");
    drop(bench.log.take());
    let first = bench.channel().clone();
    bench.on_loop(|_| {
        // The other channel's transport drops them when it has sent them.
        drop(other.write_and_flush(Bytes::from_owner(Fragile)));
        first.send(text("fine"));
    });
    bench.run();
    assert!(!other.is_open() && other.closed().is_done());
    assert_eq!(bench.log.take(), ["app on_inactive", "app on_removed", "app dropped"]);
    assert_eq!((bench.sent().join(""), bench.reports.take().len()), ("fine".to_owned(), 1));
}

/// Weighs something else each time it is asked.
struct Fickle(RefCell<Vec<usize>>);

impl Message for Fickle {
    fn size_hint(&self) -> usize {
        self.0.borrow_mut().pop().unwrap_or(0)
    }
}

#[test]
fn c07_a_message_with_a_changing_size_hint_does_not_break_the_accounting() {
    for weights in [vec![1, 1000, 1, 1000, 1, 1000], vec![1000, 1, 1000, 1, 1000, 1]] {
        let busy = weights.clone();
        let mut bench = quiet(|edit, log| {
            edit.add_last(
                "app",
                log.recorder().at(HandlerMethod::Read, move |ctx| {
                    drop(ctx.channel().write(Fickle(RefCell::new(busy.clone()))));
                    Ok(())
                }),
            )?;
            Ok(())
        });
        bench.on_loop(|channel| drop(channel.write_and_flush(Fickle(RefCell::new(weights)))));
        bench.write_inbound(text("x"));
        bench.on_loop(|channel| channel.flush());
        bench.run();
        assert_eq!(bench.channel().pending_bytes(), 0);
        assert!(bench.channel().is_open() && bench.channel().is_writable());
        assert_eq!(bench.reports.take(), Vec::<String>::new());
    }
}
