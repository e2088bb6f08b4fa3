//! Corners of a channel's life that were found by trying.

use std::cell::RefCell;
use std::io;
use std::rc::Rc;

use bytes::Bytes;
use waterwheel_channel::driver::{Detach, ReadPlan, Submit, TaskOnly};
use waterwheel_channel::transport::{Outbound, Transport, Upcalls};
use waterwheel_channel::{
    Channel, Completion, Ctx, Edit, EventLoopGroup, Events, Handler, HandlerResult, LocalLoop,
    ManualEventLoop, Msg, NewChannel, Types,
};
use waterwheel_executor::Error;
use waterwheel_testkit::embedded::Embedded;

/// Takes everything and says nothing, so that several channels can share a loop.
struct Nowhere;

impl Transport for Nowhere {
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

    fn register(&mut self, _: &Upcalls) -> Result<bool, Error> {
        Ok(true)
    }

    fn deregister(&mut self, _: &Upcalls) -> Result<(), Error> {
        Ok(())
    }

    fn set_read(&mut self, _: &Upcalls, _: Option<ReadPlan>) {}

    fn write(&mut self, _: &Upcalls, outbound: &mut Outbound) -> io::Result<Submit> {
        Ok(Submit::Done(std::iter::from_fn(|| outbound.take()).count()))
    }

    fn close(&mut self, _: &Upcalls) -> Detach {
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
    here.register_with(NewChannel::new(Nowhere), initialiser).unwrap()
}

/// Does as it is told when an event of the user's comes.
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
        panic!("as planned")
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
    assert!(second.is_open(), "it only called");
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
fn c02_a_channel_closed_in_on_active_tells_its_writes_before_its_end() {
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
fn c07_a_write_from_elsewhere_that_is_refused_does_not_leave_the_channel_unwritable() {
    let mut channel = Embedded::builder().stream().build(|_| Ok(())).unwrap();
    channel.set_room(0);
    channel.on_loop(|channel| channel.send(Bytes::from(vec![0; 70 * 1024])));
    assert!(!channel.channel().is_writable());
    // Still on its way to the loop when the buffer empties: so much keeps the channel unwritable.
    let refused = channel.channel().write_and_flush("text".repeat(10 * 1024));
    channel.set_room(usize::MAX);
    assert!(refused.join().is_err(), "a stream takes no text");
    assert_eq!(channel.channel().pending_bytes(), 0);
    assert!(channel.channel().is_writable());
}

struct GreetsWhenAdded;

impl Handler for GreetsWhenAdded {
    fn on_added(&mut self, ctx: &Ctx<'_>) -> HandlerResult {
        ctx.write_and_flush(Bytes::from_static(b"hello"));
        Ok(())
    }
}

#[test]
fn c02_what_a_handler_writes_when_it_is_added_is_sent_once_the_channel_is_there() {
    let mut channel = Embedded::new(|edit| {
        edit.add_last("greeter", GreetsWhenAdded)?;
        Ok(())
    })
    .unwrap();
    assert_eq!(channel.read_outbound::<Bytes>().unwrap(), "hello");
}
