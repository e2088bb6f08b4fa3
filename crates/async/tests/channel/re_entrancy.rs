//! Calls into a channel from inside of its own calls: from wakers, destructors, polls and other channels.

use std::cell::RefCell;
use std::future::{pending, poll_fn};
use std::pin::pin;
use std::rc::Rc;
use std::sync::{Arc, Mutex};
use std::task::{Context, Wake, Waker};
use std::thread::ThreadId;
use std::time::Duration;

use bytes::Bytes;
use waterwheel_async::{AsyncChannel, serve_channel};
use waterwheel_channel::{Channel, EventLoopGroup, LocalLoop, Message, Msg, sleep};
use waterwheel_executor::Error;
use waterwheel_testkit::embedded::connected_pair;
use waterwheel_testkit::manual::Manual;

use crate::support::{Record, installed, serving, spawn};

fn text(text: &str) -> Msg {
    Msg::from(text.to_owned())
}

/// A waker that runs a closure on the thread that has made it.
struct Calls(ThreadId, Mutex<Option<OnThread>>);

struct OnThread(Box<dyn FnOnce() + Send>);

impl Wake for Calls {
    fn wake(self: Arc<Self>) {
        assert_eq!(std::thread::current().id(), self.0);
        let call = self.1.lock().unwrap().take();
        if let Some(OnThread(call)) = call {
            call();
        }
    }
}

fn calls(f: impl FnOnce() + Send + 'static) -> Waker {
    let call = Mutex::new(Some(OnThread(Box::new(f))));
    Waker::from(Arc::new(Calls(std::thread::current().id(), call)))
}

thread_local! {
    static KEPT: RefCell<Option<AsyncChannel<String>>> = const { RefCell::new(None) };
}

#[test]
fn a01_a_channel_that_is_dropped_by_its_own_waker_is_closed() {
    let (mut channel, mut connection) = installed::<String, String>();
    channel.on_loop(|_| {
        let waker = calls(|| drop(KEPT.take()));
        let next = pin!(connection.next()).as_mut().poll(&mut Context::from_waker(&waker));
        assert!(next.is_pending());
        KEPT.set(Some(connection));
    });
    channel.write_inbound(text("one"));
    channel.run();
    assert!(!channel.channel().is_open());
}

#[test]
fn a01_a_waker_that_panics_closes_its_channel_only() {
    let (mut channel, mut connection) = installed::<String, String>();
    channel.on_loop(|_| {
        let waker = calls(|| panic!("a defect"));
        let next = pin!(connection.next()).as_mut().poll(&mut Context::from_waker(&waker));
        assert!(next.is_pending());
    });
    channel.write_inbound(text("one"));
    channel.run();
    assert!(!channel.channel().is_open());
    let read = spawn(&mut channel, async move { connection.next().await.unwrap().unwrap() });
    assert_eq!(read.take().as_deref(), Some("one"), "what was read is not lost");
}

/// A message whose destructor closes its channel and fires an error in its pipeline.
struct ClosesOnDrop(Channel);

impl Message for ClosesOnDrop {}

impl Drop for ClosesOnDrop {
    fn drop(&mut self) {
        let here = LocalLoop::current().unwrap();
        here.with_pipeline(&self.0, |pipeline| {
            pipeline.fire_error(Error::new("from a destructor"))
        });
        self.0.close_without_future();
    }
}

#[test]
fn a01_messages_whose_destructors_close_the_channel_are_dropped_outside_of_every_borrow() {
    let (mut channel, mut connection) = installed::<ClosesOnDrop, String>();
    let handle = channel.channel().clone();
    let first = spawn(&mut channel, async move { (connection.next().await, connection) });
    let message = || Msg::new(ClosesOnDrop(handle.clone()));
    channel.write_inbound_all([message(), message(), message()]);
    channel.run();
    let (first, connection) = first.take().unwrap();
    channel.on_loop(|_| drop(connection));
    channel.run();
    channel.on_loop(|_| drop(first));
    channel.run();
    assert!(!channel.channel().is_open());
}

/// An error whose destructor fires another.
#[derive(Debug)]
struct FiresOnDrop(Option<Channel>);

impl std::error::Error for FiresOnDrop {}

impl std::fmt::Display for FiresOnDrop {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("an error with a destructor")
    }
}

impl Drop for FiresOnDrop {
    fn drop(&mut self) {
        if let (Some(channel), Some(here)) = (self.0.take(), LocalLoop::current()) {
            here.with_pipeline(&channel, |pipeline| pipeline.fire_error(Error::new("the next")));
        }
    }
}

#[test]
fn a01_errors_whose_destructors_fire_others_are_dropped_outside_of_every_borrow() {
    let record = Record::default();
    let noted = record.clone();
    let mut channel = serving(move |mut connection: AsyncChannel<String>| async move {
        while let Some(item) = connection.next().await {
            noted.add(item.unwrap_or_else(|error| error.to_string()));
        }
    });
    let handle = channel.channel().clone();
    channel.with_pipeline(|pipeline| {
        pipeline.fire_error(Error::new(FiresOnDrop(Some(handle))));
    });
    channel.with_pipeline(|pipeline| pipeline.fire_error(Error::new("another")));
    channel.run();
    assert_eq!(record.take(), ["an error with a destructor", "another", "the next"]);
    assert!(channel.channel().is_open());
}

#[test]
fn a01_a_message_that_the_task_itself_causes_is_read() {
    let record = Record::default();
    let noted = record.clone();
    let mut channel = serving(move |mut connection: AsyncChannel<String>| async move {
        let here = LocalLoop::current().unwrap();
        let handle = connection.channel().clone();
        while let Some(line) = connection.next().await {
            let line = line?;
            noted.add(line.clone());
            if line.len() < 5 {
                // Fired while this task is polled, inside of the bridge's own call.
                here.with_pipeline(&handle, |pipeline| {
                    pipeline.fire_read(format!("{line}x"));
                    pipeline.fire_read_complete();
                });
            }
        }
        Ok::<_, Error>(())
    });
    channel.write_inbound(text("a"));
    channel.run();
    assert_eq!(record.take(), ["a", "ax", "axx", "axxx", "axxxx"]);
}

/// Wakes another waker, as the parts of a `FuturesUnordered` do.
struct Passes(Waker);

impl Wake for Passes {
    fn wake(self: Arc<Self>) {
        self.0.wake_by_ref();
    }
}

#[test]
fn a01_a_task_whose_parts_have_wakers_of_their_own_reads_every_message() {
    let mut channel = serving(move |mut connection: AsyncChannel<String>| async move {
        let mut reading = pin!(async move {
            while let Some(Ok(line)) = connection.next().await {
                connection.send(line).await.unwrap();
            }
        });
        let mut ticking = pin!(sleep(Duration::from_secs(1)));
        poll_fn(|context| {
            let own = Waker::from(Arc::new(Passes(context.waker().clone())));
            if ticking.as_mut().poll(context).is_ready() {
                ticking.set(sleep(Duration::from_secs(1)));
                context.waker().wake_by_ref();
            }
            reading.as_mut().poll(&mut Context::from_waker(&own))
        })
        .await;
    });
    for n in 0..50 {
        channel.write_inbound(text(&n.to_string()));
        if n % 7 == 0 {
            channel.advance(Duration::from_secs(1));
        }
    }
    channel.run();
    let answers: Vec<_> = std::iter::from_fn(|| channel.read_outbound::<String>()).collect();
    assert_eq!(answers, (0..50).map(|n| n.to_string()).collect::<Vec<_>>());
    channel.finish_inbound();
    channel.run();
    assert!(!channel.channel().is_open(), "the function has returned");
}

#[test]
fn a01_two_tasks_that_read_in_turn_lose_nothing() {
    let (mut channel, connection) = installed::<String, String>();
    let shared = Rc::new(RefCell::new(connection));
    let record = Record::default();
    for _ in 0..2 {
        let (shared, noted) = (shared.clone(), record.clone());
        let reading = async move {
            loop {
                let item = poll_fn(|context| {
                    let mut connection = shared.borrow_mut();
                    pin!(connection.next()).poll(context)
                });
                let Some(Ok(line)) = item.await else { return };
                noted.add(line);
                waterwheel_channel::yield_now().await;
            }
        };
        spawn(&mut channel, reading);
    }
    for n in 0..20 {
        channel.write_inbound(text(&n.to_string()));
    }
    channel.run();
    assert_eq!(record.take(), (0..20).map(|n| n.to_string()).collect::<Vec<_>>());
}

#[test]
fn a02_a_task_that_removes_its_own_handler_ends_there() {
    let record = Record::default();
    let noted = record.clone();
    let mut channel = serving(move |mut connection: AsyncChannel<String>| async move {
        connection.next().await;
        let here = LocalLoop::current().unwrap();
        here.with_pipeline(connection.channel(), |pipeline| pipeline.remove("async").unwrap());
        noted.add("removed");
        assert!(connection.next().await.is_none());
        noted.add("end");
        pending::<()>().await;
    });
    channel.write_inbound(text("go"));
    channel.run();
    assert_eq!(record.take(), ["removed", "end"]);
    assert!(channel.channel().is_open(), "{:?}", channel.channel().close_cause());
}

#[test]
fn a02_a_pair_that_never_stops_leaves_the_loop_to_timers_and_others() {
    let mut event_loop = EventLoopGroup::builder(Manual::readiness()).build_manual().unwrap();
    let (one, other) = connected_pair();
    let record = Record::default();
    let noted = record.clone();
    event_loop.on_loop(|here| {
        let echo = |mut connection: AsyncChannel<Bytes>| async move {
            connection.send(Bytes::from_static(b"ball")).await?;
            while let Some(ball) = connection.next().await {
                connection.send(ball?).await?;
            }
            Ok::<_, Error>(())
        };
        here.register_with(one, |edit| serve_channel(edit, echo)).unwrap();
        here.register_with(other, |edit| serve_channel(edit, echo)).unwrap();
        here.spawn_local(async move {
            for _ in 0..3 {
                waterwheel_channel::yield_now().await;
            }
            noted.add("another task");
        });
    });
    for _ in 0..10 {
        event_loop.turn(Some(Duration::ZERO)); // Each ends, though a ball is always on its way.
    }
    assert!(!event_loop.is_idle());
    assert_eq!(record.take(), ["another task"]);
}
