//! Back-pressure in both directions, and drains.

use std::cell::RefCell;
use std::future::{pending, poll_fn};
use std::pin::{Pin, pin};
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll, Wake, Waker};

use bytes::Bytes;
use waterwheel_async::AsyncChannel;
use waterwheel_channel::Msg;
use waterwheel_executor::Error;

use crate::support::{Record, echo, installed, serving, spawn};

/// A gate that the test opens.
#[derive(Clone, Default)]
pub(crate) struct Gate(Rc<RefCell<(bool, Option<Waker>)>>);

impl Gate {
    pub(crate) fn open(&self) {
        let waker = {
            let mut gate = self.0.borrow_mut();
            gate.0 = true;
            gate.1.take()
        };
        if let Some(waker) = waker {
            waker.wake();
        }
    }

    pub(crate) async fn passed(&self) {
        poll_fn(|context| {
            let mut gate = self.0.borrow_mut();
            if gate.0 {
                return Poll::Ready(());
            }
            gate.1 = Some(context.waker().clone());
            Poll::Pending
        })
        .await;
    }
}

/// A waker that counts its wakes.
#[derive(Default)]
struct CountWakes(AtomicUsize);

impl Wake for CountWakes {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

fn text(text: &str) -> Msg {
    Msg::from(text.to_owned())
}

#[test]
fn a01_nothing_is_read_before_somebody_waits() {
    let (mut channel, mut connection) = installed::<String, String>();
    channel.write_inbound(text("one"));
    channel.run();
    assert_eq!(channel.unread(), 1, "nobody waits");
    let read = spawn(&mut channel, async move { connection.try_next().await.unwrap() });
    channel.run();
    assert_eq!(read.take(), Some(Some("one".to_owned())));
}

#[test]
fn a01_a_future_at_work_is_sent_nothing_more() {
    let (gate, record) = (Gate::default(), Record::default());
    let (inner, noted) = (gate.clone(), record.clone());
    let mut channel = serving(move |mut connection: AsyncChannel<String>| async move {
        while let Some(line) = connection.next().await {
            noted.add(line.unwrap_or_default());
            inner.passed().await;
        }
    });
    channel.write_inbound(text("one"));
    channel.run();
    assert_eq!(record.take(), ["one"]);
    for n in 0..100 {
        channel.write_inbound(text(&n.to_string()));
    }
    channel.run();
    assert_eq!(channel.unread(), 100, "the channel waits until the work is done");
    gate.open();
    channel.run();
    assert_eq!(record.take().len(), 100);
    assert_eq!(channel.unread(), 0);
}

#[test]
fn a01_a_send_waits_until_the_channel_is_writable() {
    let (mut channel, mut connection) = installed::<Bytes, Bytes>();
    channel.set_room(0);
    let sent = Rc::new(RefCell::new(0));
    let count = sent.clone();
    let _all = spawn(&mut channel, async move {
        for _ in 0..10 {
            connection.send(Bytes::from(vec![0; 40_000])).await.unwrap();
            *count.borrow_mut() += 1;
        }
        pending::<()>().await;
    });
    assert_eq!(*sent.borrow(), 2, "64 KiB are the high water mark");
    channel.set_room(usize::MAX);
    channel.run();
    assert_eq!(*sent.borrow(), 10);
}

#[test]
fn a01_a_flush_waits_until_the_transport_has_everything() {
    let (mut channel, mut connection) = installed::<Bytes, Bytes>();
    channel.set_room(0);
    let flushed = spawn(&mut channel, async move {
        connection.feed(Bytes::from_static(b"hello")).await.unwrap();
        connection.flush().await.unwrap();
        connection
    });
    assert!(flushed.borrow().is_none());
    channel.set_room(usize::MAX);
    channel.run();
    assert!(flushed.borrow().is_some());
    assert_eq!(channel.read_outbound::<Bytes>().unwrap(), "hello");
}

#[test]
fn a01_a_drain_waits_for_a_future_at_work_and_not_for_one_that_reads() {
    let gate = Gate::default();
    let inner = gate.clone();
    let mut channel = serving(move |mut connection: AsyncChannel<String>| async move {
        while let Some(line) = connection.next().await {
            inner.passed().await;
            connection.send(line?).await?;
        }
        Ok::<_, Error>(())
    });
    channel.run();
    channel.write_inbound(text("work"));
    channel.run();
    let event_loop = channel.channel().event_loop();
    let drained = event_loop.drain(waterwheel_channel::DrainOptions::default());
    channel.run();
    assert!(!drained.is_done(), "an answer is on its way");
    gate.open();
    channel.run();
    assert_eq!(channel.read_outbound::<String>().as_deref(), Some("work"));
    assert!(drained.is_done());
}

#[test]
fn a01_a_drain_is_told_to_the_future() {
    let record = Record::default();
    let noted = record.clone();
    let mut channel = serving(move |connection: AsyncChannel<String>| async move {
        connection.draining().await;
        noted.add("draining");
    });
    let _drained =
        channel.channel().event_loop().drain(waterwheel_channel::DrainOptions::default());
    channel.run();
    assert_eq!(record.take(), ["draining"]);
}

#[test]
fn a01_a_drain_is_awaited_beside_messages_and_by_several_futures() {
    let record = Record::default();
    let noted = record.clone();
    let mut channel = serving(move |mut connection: AsyncChannel<String>| async move {
        let other = connection.draining();
        let noted_by_other = noted.clone();
        connection.spawn(async move {
            other.await;
            noted_by_other.add("the other future");
        });
        let mut draining = connection.draining();
        loop {
            let drained = poll_fn(|context| {
                if Pin::new(&mut draining).poll(context).is_ready() {
                    return Poll::Ready(None);
                }
                pin!(connection.next()).poll(context).map(Some)
            });
            match drained.await {
                Some(Some(line)) => noted.add(line?),
                Some(None) => return Ok::<_, Error>(()),
                None => break,
            }
        }
        connection.send("good bye".into()).await
    });
    channel.write_inbound(text("one"));
    channel.write_inbound(text("two"));
    channel.run();
    let drained = channel.channel().event_loop().drain(waterwheel_channel::DrainOptions::default());
    channel.run();
    assert_eq!(channel.read_outbound::<String>().as_deref(), Some("good bye"));
    assert!(drained.is_done());
    let mut noted = record.take();
    noted.sort();
    assert_eq!(noted, ["one", "the other future", "two"]);
}

#[test]
fn a06_a_wait_for_a_drain_that_is_dropped_leaves_nothing() {
    let woken = Arc::new(CountWakes::default());
    let (mut channel, connection) = installed::<String, String>();
    let waker = Waker::from(woken.clone());
    let mut draining = connection.draining();
    assert!(Pin::new(&mut draining).poll(&mut Context::from_waker(&waker)).is_pending());
    drop((draining, waker));
    assert_eq!(Arc::strong_count(&woken), 1);
    let _drained =
        channel.channel().event_loop().drain(waterwheel_channel::DrainOptions::default());
    channel.run();
    assert_eq!(woken.0.load(Ordering::Relaxed), 0);
}

#[test]
fn a01_an_echo_under_back_pressure_loses_nothing() {
    let record = Record::default();
    let noted = record.clone();
    let mut channel = serving(move |connection| echo(noted, connection));
    for n in 0..1000 {
        channel.write_inbound(text(&n.to_string()));
    }
    channel.run();
    let answers: Vec<_> = std::iter::from_fn(|| channel.read_outbound::<String>()).collect();
    assert_eq!(answers.len(), 1000);
    assert!(answers.iter().enumerate().all(|(n, answer)| *answer == n.to_string()));
    assert_eq!(record.take().len(), 1000);
}

#[test]
fn a01_feeds_without_end_make_their_own_room() {
    let (mut channel, mut connection) = installed::<Bytes, Bytes>();
    let fed = spawn(&mut channel, async move {
        for _ in 0..100 {
            connection.feed(Bytes::from(vec![0; 10_000])).await.unwrap();
        }
        connection.flush().await.unwrap();
        connection
    });
    assert!(fed.borrow().is_some(), "nobody else flushes what was fed");
    let mut total = 0;
    while let Some(bytes) = channel.read_outbound::<Bytes>() {
        total += bytes.len();
    }
    assert_eq!(total, 1_000_000);
}

#[test]
fn a01_a_drain_does_not_wait_for_a_reader_that_is_gone() {
    let (mut channel, connection) = installed::<String, String>();
    let (mut reader, writer) = connection.split();
    let read = spawn(&mut channel, async move { (reader.next().await.is_some(), reader) });
    channel.write_inbound(text("work"));
    channel.run();
    let drained = channel.channel().event_loop().drain(waterwheel_channel::DrainOptions::default());
    channel.run();
    assert!(!drained.is_done(), "the reader is at work");
    let (_, reader) = read.take().unwrap();
    channel.on_loop(|_| drop(reader));
    channel.run();
    assert!(drained.is_done());
    drop(writer);
}
