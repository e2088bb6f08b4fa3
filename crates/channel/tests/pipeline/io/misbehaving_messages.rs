//! C05, C07: messages that write or panic when dropped, or change their `size_hint`.

use std::cell::RefCell;

use bytes::Bytes;
use waterwheel_channel::{Channel, Events, Message};
use waterwheel_testkit::recorder::RecordedMethod;

use crate::support::{error, started_fixture, text};

/// Writes when it is dropped.
struct WritesWhenDropped(Channel);

impl Message for WritesWhenDropped {
    fn size_hint(&self) -> usize {
        5
    }
}

impl Drop for WritesWhenDropped {
    fn drop(&mut self) {
        self.0.send(text("words"));
    }
}

#[test]
fn c07_a_message_may_write_when_it_is_dropped() {
    // One message is cancelled, one is sent, one is dropped with the channel.
    let mut fixture = started_fixture(|_, _| Ok(()));
    let cancelled = fixture.on_loop(|channel| channel.write(WritesWhenDropped(channel.clone())));
    assert!(cancelled.cancel());
    fixture.on_loop(|channel| channel.flush());
    fixture.run();
    assert_eq!(fixture.sent(), ["words"]);
    fixture.on_loop(|channel| drop(channel.write(WritesWhenDropped(channel.clone()))));
    fixture.close();
    assert_eq!(fixture.sent(), Vec::<String>::new());
    assert!(fixture.channel().closed().is_done());
    assert_eq!(fixture.reports.take(), Vec::<String>::new());
}

/// Panics when it is dropped.
struct PanicsWhenDropped;

impl Message for PanicsWhenDropped {}

impl AsRef<[u8]> for PanicsWhenDropped {
    fn as_ref(&self) -> &[u8] {
        b"fragile"
    }
}

impl Drop for PanicsWhenDropped {
    fn drop(&mut self) {
        panic!("broken");
    }
}

#[test]
fn c05_rule_11_messages_may_panic_when_they_are_dropped() {
    let mut fixture = started_fixture(|_, _| Ok(()));
    let cancelled = fixture.on_loop(|channel| channel.write(PanicsWhenDropped));
    assert!(cancelled.cancel());
    fixture.on_loop(|channel| {
        channel.flush();
        drop(channel.write(PanicsWhenDropped));
        drop(channel.write(PanicsWhenDropped));
    });
    assert!(fixture.channel().is_open());
    fixture.fail(error("reset"));
    assert!(fixture.channel().closed().is_done());
    assert_eq!(fixture.reports.take().len(), 3);
}

#[test]
fn c05_rule_11_a_panic_in_the_transport_closes_its_channel() {
    let mut fixture = started_fixture(|_, _| Ok(()));
    let log = fixture.log.clone();
    let other = fixture.another("other", |edit| {
        edit.add_last("app", log.recorder().interest(Events::INACTIVE))?;
        Ok(())
    });
    let other = other.expect("the channel can be built");
    drop(fixture.log.take());
    let first = fixture.channel().clone();
    fixture.on_loop(|_| {
        // The other channel's transport drops the messages after sending them.
        drop(other.write_and_flush(Bytes::from_owner(PanicsWhenDropped)));
        first.send(text("fine"));
    });
    fixture.run();
    assert!(!other.is_open() && other.closed().is_done());
    assert_eq!(fixture.log.take(), ["app on_inactive", "app on_removed", "app dropped"]);
    assert_eq!((fixture.sent().join(""), fixture.reports.take().len()), ("fine".to_owned(), 1));
}

/// Returns another size at each call of `size_hint`.
struct ChangingSizeHint(RefCell<Vec<usize>>);

impl Message for ChangingSizeHint {
    fn size_hint(&self) -> usize {
        self.0.borrow_mut().pop().unwrap_or(0)
    }
}

#[test]
fn c07_a_message_with_a_changing_size_hint_does_not_break_the_accounting() {
    for weights in [vec![1, 1000, 1, 1000, 1, 1000], vec![1000, 1, 1000, 1, 1000, 1]] {
        let busy = weights.clone();
        let mut fixture = started_fixture(|edit, log| {
            edit.add_last(
                "app",
                log.recorder().at(RecordedMethod::Read, move |ctx| {
                    drop(ctx.channel().write(ChangingSizeHint(RefCell::new(busy.clone()))));
                    Ok(())
                }),
            )?;
            Ok(())
        });
        fixture.on_loop(|channel| {
            drop(channel.write_and_flush(ChangingSizeHint(RefCell::new(weights))))
        });
        fixture.write_inbound(text("x"));
        fixture.on_loop(|channel| channel.flush());
        fixture.run();
        assert_eq!(fixture.channel().pending_bytes(), 0);
        assert!(fixture.channel().is_open() && fixture.channel().is_writable());
        assert_eq!(fixture.reports.take(), Vec::<String>::new());
    }
}
