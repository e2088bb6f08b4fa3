//! Registration of a channel, calls from other threads, and regressions in its lifecycle.

use std::cell::RefCell;
use std::io;
use std::rc::Rc;
use std::sync::mpsc;
use std::thread::{self, ThreadId};
use std::time::Duration;

use bytes::Bytes;
use waterwheel_channel::driver::{Detach, ReadPlan, Submit, TaskOnly};
use waterwheel_channel::transport::{Outbound, Transport, TransportContext};
use waterwheel_channel::{
    Address, Channel, Completion, Ctx, Edit, EventLoopGroup, Events, Handler, HandlerResult,
    LocalLoop, ManualEventLoop, Message, Msg, NewChannel, Types,
};
use waterwheel_executor::Error;
use waterwheel_testkit::embedded::Embedded;

/// A transport that discards every write, so that several channels can share a loop.
struct DiscardingTransport;

impl Transport for DiscardingTransport {
    fn name(&self) -> &'static str {
        "nowhere"
    }

    fn reads(&self) -> Types {
        Types::Unknown
    }

    fn accepts(&self) -> Types {
        Types::Unknown
    }

    fn writes_stream(&self) -> bool {
        false
    }

    fn register(&mut self, _: &TransportContext) -> Result<bool, Error> {
        Ok(true)
    }

    fn deregister(&mut self, _: &TransportContext) -> Result<(), Error> {
        Ok(())
    }

    fn set_read(&mut self, _: &TransportContext, _: Option<ReadPlan>) {}

    fn write(&mut self, _: &TransportContext, outbound: &mut Outbound) -> io::Result<Submit> {
        Ok(Submit::Done(std::iter::from_fn(|| outbound.take()).count()))
    }

    fn close(&mut self, _: &TransportContext) -> Detach {
        Detach::Done
    }
}

fn manual_loop() -> ManualEventLoop {
    EventLoopGroup::builder(TaskOnly).build_manual().unwrap()
}

fn register(
    here: &LocalLoop,
    initialiser: impl FnOnce(&mut Edit<'_>) -> Result<(), Error>,
) -> Channel {
    here.register_with(NewChannel::new(DiscardingTransport), initialiser).unwrap()
}

/// Calls a closure for each user event.
struct OnEvent<F>(F);

impl<F: FnMut(&Ctx<'_>) + 'static> Handler for OnEvent<F> {
    fn interest(&self) -> Events {
        Events::USER_EVENT
    }

    fn on_user_event(&mut self, ctx: &Ctx<'_>, _: Msg) -> HandlerResult {
        (self.0)(ctx);
        Ok(())
    }
}

struct PanicsOnWrite;

impl Handler for PanicsOnWrite {
    fn interest(&self) -> Events {
        Events::WRITE
    }

    fn write(&mut self, _: &Ctx<'_>, _: Msg, _: &mut Completion) -> HandlerResult {
        panic!("write panics")
    }
}

#[test]
fn c05_a_panic_closes_the_channel_whose_handler_panicked_and_not_the_one_that_called_it() {
    let mut manual = manual_loop();
    let (first, second) = manual
        .on_loop(|here| {
            let callee = Rc::new(RefCell::new(None::<Channel>));
            let asked = callee.clone();
            let ask = move |_: &Ctx<'_>| {
                let callee = asked.borrow().clone();
                callee.unwrap().fire_user_event(());
            };
            let first = register(here, |edit| {
                edit.add_last("asks", OnEvent(ask))?;
                edit.add_last("panics", PanicsOnWrite)?;
                Ok(())
            });
            let back = first.clone();
            let second = register(here, |edit| {
                edit.add_last("answers", OnEvent(move |_: &Ctx<'_>| back.send(())))?;
                Ok(())
            });
            *callee.borrow_mut() = Some(second.clone());
            // first.asks ──► second.answers ──► first.panics
            first.fire_user_event(());
            (first, second)
        })
        .unwrap();
    assert!(!first.is_open(), "its handler panicked");
    assert!(second.is_open(), "the caller did not panic");
    let names = manual.on_loop(|here| here.with_pipeline(&second, |pipeline| pipeline.names()));
    assert_eq!(names.flatten().unwrap(), ["answers"]);
}

type Log = Rc<RefCell<Vec<&'static str>>>;

struct ClosesWhenActive(Log);

impl Handler for ClosesWhenActive {
    fn on_active(&mut self, ctx: &Ctx<'_>) -> HandlerResult {
        let (written, closed) = (self.0.clone(), self.0.clone());
        ctx.write_then((), move |result| {
            written.borrow_mut().push(if result.is_ok() { "written" } else { "not written" });
        });
        ctx.close_then(move |_| closed.borrow_mut().push("closed"));
        Ok(())
    }

    fn on_inactive(&mut self, _: &Ctx<'_>) -> HandlerResult {
        self.0.borrow_mut().push("inactive");
        Ok(())
    }

    fn on_removed(&mut self, _: &Ctx<'_>) {
        self.0.borrow_mut().push("removed");
    }
}

#[test]
fn c02_a_channel_closed_in_on_active_fails_its_writes_before_on_inactive() {
    let log = Log::default();
    let handler = ClosesWhenActive(log.clone());
    let mut manual = manual_loop();
    manual.on_loop(|here| {
        register(here, |edit| {
            edit.add_last("hasty", handler)?;
            Ok(())
        })
    });
    assert_eq!(*log.borrow(), ["not written", "closed", "inactive", "removed"]);
}

#[test]
fn c07_a_refused_write_from_another_thread_does_not_leave_the_channel_unwritable() {
    let mut channel = Embedded::builder().stream().build(|_| Ok(())).unwrap();
    channel.set_room(0);
    channel.on_loop(|channel| channel.send(Bytes::from(vec![0; 70 * 1024])));
    assert!(!channel.channel().is_writable());
    // This write is still queued for the loop when the buffer empties: its bytes keep the channel unwritable.
    let refused = channel.channel().write_and_flush("text".repeat(10 * 1024));
    channel.set_room(usize::MAX);
    assert!(refused.join().is_err(), "a stream takes no text");
    assert_eq!(channel.channel().pending_bytes(), 0);
    assert!(channel.channel().is_writable());
}

struct WritesWhenAdded;

impl Handler for WritesWhenAdded {
    fn on_added(&mut self, ctx: &Ctx<'_>) -> HandlerResult {
        ctx.write_and_flush(Bytes::from_static(b"hello"));
        Ok(())
    }
}

#[test]
fn c02_a_write_in_on_added_is_sent_once_the_channel_is_active() {
    let mut channel = Embedded::new(|edit| {
        edit.add_last("greeter", WritesWhenAdded)?;
        Ok(())
    })
    .unwrap();
    assert_eq!(channel.read_outbound::<Bytes>().unwrap(), "hello");
}

/// Reports the thread of each of its calls.
struct ReportsThread {
    not_send: Rc<()>,
    told: mpsc::Sender<(&'static str, ThreadId)>,
}

impl ReportsThread {
    fn tell(&self, what: &'static str) -> HandlerResult {
        assert_eq!(Rc::strong_count(&self.not_send), 1);
        self.told.send((what, thread::current().id())).map_err(Error::new)
    }
}

impl Handler for ReportsThread {
    fn on_active(&mut self, _: &Ctx<'_>) -> HandlerResult {
        self.tell("active")
    }

    fn on_user_event(&mut self, _: &Ctx<'_>, _: Msg) -> HandlerResult {
        self.tell("event")
    }

    fn on_removed(&mut self, _: &Ctx<'_>) {
        let _ = self.tell("removed");
    }
}

#[test]
fn c01_handlers_that_are_not_send_are_called_on_their_loop_whichever_thread_uses_the_channel() {
    let group = EventLoopGroup::builder(TaskOnly).threads(1).build().unwrap();
    let (told, calls) = mpsc::channel();
    let new = NewChannel::new(DiscardingTransport).initialiser(|edit| {
        edit.add_last("here", ReportsThread { not_send: Rc::new(()), told })?;
        Ok(())
    });
    let channel = group.register(new).join().unwrap();
    let other = channel.clone();
    thread::spawn(move || other.fire_user_event(())).join().unwrap();
    channel.close().join().unwrap();
    let home = group.submit(|| thread::current().id()).unwrap().join().unwrap();
    let calls: Vec<_> = calls.iter().collect();
    assert_eq!(calls, [("active", home), ("event", home), ("removed", home)]);
    assert_ne!(home, thread::current().id());
}

#[test]
fn c08_a_call_from_another_thread_queues_one_command_and_a_call_on_the_loop_none() {
    let mut manual = manual_loop();
    let channel = manual.on_loop(|here| register(here, |_| Ok(()))).unwrap();
    let event_loop = manual.event_loop();
    let queued = || event_loop.stats().queue_depth;
    assert_eq!(queued(), 0);
    manual.on_loop(|_| channel.send(()));
    manual.on_loop(|_| channel.fire_user_event(()));
    assert_eq!(queued(), 0, "made at once");
    channel.send(());
    assert_eq!(queued(), 1, "a write and a flush");
    let closed = channel.close();
    assert_eq!((queued(), closed.is_done()), (2, false));
    manual.turn(Some(Duration::ZERO));
    assert!(closed.is_done() && !channel.is_open());
}

#[test]
fn l01_a_channel_is_registered_from_any_thread_and_listed_until_it_is_closed() {
    let group = EventLoopGroup::builder(TaskOnly).threads(1).build().unwrap();
    let event_loop = group.next();
    let channel = event_loop.register(NewChannel::new(DiscardingTransport)).join().unwrap();
    assert!(channel.is_registered() && channel.is_active());
    assert_eq!(channel.event_loop(), event_loop);
    let listed = event_loop.registered_channels().join().unwrap();
    assert_eq!(listed, std::slice::from_ref(&channel));
    channel.close().join().unwrap();
    assert!(event_loop.registered_channels().join().unwrap().is_empty());
}

/// Reports when its transport is dropped.
struct ReportsDrop(mpsc::Sender<()>);

impl Drop for ReportsDrop {
    fn drop(&mut self) {
        let _ = self.0.send(());
    }
}

#[test]
fn l01_a_loop_that_is_shut_down_refuses_and_closes_a_channel() {
    let group = EventLoopGroup::builder(TaskOnly).threads(1).build().unwrap();
    group.shutdown_gracefully(Duration::ZERO, Duration::from_secs(5)).unwrap().join().unwrap();
    let (dropped, gone) = mpsc::channel();
    let dropped = ReportsDrop(dropped);
    let new = NewChannel::new(DiscardingTransport).initialiser(move |_| {
        drop(dropped);
        unreachable!("the loop is shut down")
    });
    assert!(group.register(new).join().is_err());
    gone.try_recv().expect("the transport was dropped");
}

#[test]
fn l01_an_initialiser_that_fails_closes_the_channel_and_fails_the_registration() {
    let group = EventLoopGroup::builder(TaskOnly).threads(1).build().unwrap();
    let (told, calls) = mpsc::channel();
    let new = NewChannel::new(DiscardingTransport).initialiser(|edit| {
        edit.add_last("here", ReportsThread { not_send: Rc::new(()), told })?;
        edit.add_last("here", OnEvent(|_: &Ctx<'_>| {}))?;
        Ok(())
    });
    let refused = group.register(new).join().unwrap_err().to_string();
    assert!(refused.contains("already has a handler named `here`"), "{refused}");
    assert_eq!(calls.iter().count(), 0, "handlers that were rolled back received no event");
    assert!(group.next().registered_channels().join().unwrap().is_empty());
}

#[test]
fn l10_a_shutdown_closes_channels_at_its_start_and_tells_their_handlers() {
    let log = Log::default();
    let (written, handler) = (log.clone(), LogsEnd(log.clone()));
    let mut manual = manual_loop();
    let channel = manual
        .on_loop(|here| {
            register(here, |edit| {
                edit.add_last("told", handler)?;
                Ok(())
            })
        })
        .unwrap();
    let ended = manual.event_loop().shutdown_gracefully(Duration::ZERO, Duration::from_secs(5));
    manual.on_loop(|here| {
        here.with_pipeline(&channel, |pipeline| {
            let done = Completion::local(move |result| {
                written.borrow_mut().push(if result.is_ok() { "written" } else { "not written" });
            });
            pipeline.write_with((), done); // Not flushed.
        })
    });
    while manual.turn(Some(Duration::ZERO)) {}
    assert_eq!(*log.borrow(), ["not written", "inactive", "unregistered", "removed"]);
    assert!(ended.unwrap().is_done() && channel.closed().is_done());
}

struct LogsEnd(Log);

impl Handler for LogsEnd {
    fn on_inactive(&mut self, _: &Ctx<'_>) -> HandlerResult {
        self.0.borrow_mut().push("inactive");
        Ok(())
    }

    fn on_unregistered(&mut self, _: &Ctx<'_>) -> HandlerResult {
        self.0.borrow_mut().push("unregistered");
        Ok(())
    }

    fn on_removed(&mut self, _: &Ctx<'_>) {
        self.0.borrow_mut().push("removed");
    }
}

/// A message that writes another one when it is dropped.
struct WritesWhenDropped(Channel);

impl Message for WritesWhenDropped {}

impl Drop for WritesWhenDropped {
    fn drop(&mut self) {
        drop(self.0.write(String::from("last word")));
    }
}

#[test]
fn c07_a_message_that_is_not_written_may_write_when_it_is_dropped() {
    let mut channel = Embedded::builder().unconnected().build(|_| Ok(())).unwrap();
    // This write is refused because the channel is not connected.
    let refused =
        channel.on_loop(|channel| channel.write_and_flush(WritesWhenDropped(channel.clone())));
    assert!(refused.join().is_err());
    assert!(channel.channel().is_open());
    assert_eq!(channel.channel().pending_bytes(), "last word".len());
    // This write is cancelled before it is flushed.
    let cancelled = channel.on_loop(|channel| channel.write(WritesWhenDropped(channel.clone())));
    assert!(cancelled.cancel());
    channel.on_loop(|channel| channel.flush());
    channel.run();
    assert!(channel.channel().is_open());
}

/// Panics when it is dropped.
struct PanicsWhenDropped;

impl Message for PanicsWhenDropped {}

impl Drop for PanicsWhenDropped {
    fn drop(&mut self) {
        panic!("destructor panics")
    }
}

#[test]
fn c07_writes_that_panic_when_they_are_dropped_do_not_keep_a_channel_from_closing() {
    let mut channel = Embedded::new(|_| Ok(())).unwrap();
    channel.on_loop(|channel| {
        drop(channel.write(PanicsWhenDropped));
        drop(channel.write(PanicsWhenDropped));
    });
    channel.close();
    assert!(channel.channel().closed().is_done());
}

#[test]
fn c02_errors_name_the_cause_of_a_close_for_as_long_as_a_handle_exists() {
    let mut embedded = Embedded::new(|_| Ok(())).unwrap();
    let channel = embedded.channel().clone();
    embedded.fail(Error::new("cut"));
    embedded.fail(Error::new("late"));
    embedded.run();
    assert!(embedded.with_pipeline(|_| ()).is_none(), "the channel is deregistered");
    type Ask = fn(&Channel) -> waterwheel_channel::ChannelFuture;
    let asks: [(&str, Ask); 7] = [
        ("write", |channel| channel.write(Bytes::from_static(b"late"))),
        ("bind", |channel| channel.bind(Address::local("here"))),
        ("connect", |channel| channel.connect(Address::local("there"))),
        ("disconnect", |channel| channel.disconnect()),
        ("deregister", |channel| channel.deregister()),
        ("register", |channel| channel.register()),
        ("shutdown_output", |channel| channel.shutdown_output()),
    ];
    for (what, ask) in asks {
        let (here, elsewhere) = (embedded.on_loop(ask), ask(&channel));
        embedded.run();
        for late in [here, elsewhere] {
            let error = late.join().expect_err("the channel is closed").to_string();
            assert_eq!(error, "the channel is closed: cut", "{what}");
        }
    }
    drop(embedded);
    let error = channel.write(Bytes::from_static(b"later")).join().unwrap_err().to_string();
    assert_eq!(error, "the channel is closed: cut", "the loop is dropped too");
}

#[test]
fn c02_a_requested_close_is_seen_before_the_loop_performs_it() {
    type Ask = fn(&Channel);
    let asks: [Ask; 3] = [
        |channel| drop(channel.close()),
        |channel| channel.close_without_future(),
        |channel| drop(channel.disconnect()),
    ];
    for ask in asks {
        let mut embedded = Embedded::new(|_| Ok(())).unwrap();
        let channel = embedded.channel().clone();
        assert!(!channel.is_close_requested());
        ask(&channel);
        assert!(channel.is_open() && channel.is_close_requested());
        embedded.run();
        assert!(!channel.is_open() && channel.is_close_requested());
    }
    let mut embedded = Embedded::new(|_| Ok(())).unwrap();
    let channel = embedded.channel().clone();
    embedded.fail(Error::new("cut"));
    embedded.run();
    assert!(channel.is_close_requested(), "nobody asked, but it is closed");
}

#[test]
fn c02_channels_are_numbered_in_the_order_of_their_creation() {
    let [first, second] = [(); 2].map(|()| Embedded::new(|_| Ok(())).unwrap());
    let [first, second] = [first.channel().id(), second.channel().id()];
    assert!(0 < first.as_u64() && first.as_u64() < second.as_u64());
    assert_eq!(first.to_string(), first.as_u64().to_string());
}
