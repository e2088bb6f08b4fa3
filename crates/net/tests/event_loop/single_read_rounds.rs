//! Rounds of one read: the driver reports the read and its `ReadComplete` in one event, and handlers see two
//! calls (C09).

use std::cell::RefCell;
use std::io::Write;
use std::os::unix::net::UnixStream;
use std::rc::Rc;
use std::time::Duration;

use waterwheel_channel::driver::OpenDriver;
use waterwheel_channel::{
    Ctx, EventLoopGroup, Handler, HandlerResult, LocalLoop, Msg, NewChannel, Stream,
};
use waterwheel_net::{Epoll, Poll, Socket};

type Log = Rc<RefCell<Vec<&'static str>>>;

/// Logs its calls, and calls `on_read` in each read.
struct LogsCalls {
    log: Log,
    on_read: fn(&Ctx<'_>),
}

impl Handler for LogsCalls {
    fn on_read(&mut self, ctx: &Ctx<'_>, _: Msg) -> HandlerResult {
        self.log.borrow_mut().push("read");
        (self.on_read)(ctx);
        Ok(())
    }

    fn on_read_complete(&mut self, _: &Ctx<'_>) -> HandlerResult {
        self.log.borrow_mut().push("complete");
        Ok(())
    }
}

/// Does not pass `on_read_complete` on.
struct StopsReadComplete;

impl Handler for StopsReadComplete {
    fn on_read_complete(&mut self, _: &Ctx<'_>) -> HandlerResult {
        Ok(())
    }
}

/// Returns the calls of a handler for two messages, each read in a turn of its own.
fn calls(driver: impl OpenDriver + 'static, on_read: fn(&Ctx<'_>)) -> Vec<&'static str> {
    let mut manual = EventLoopGroup::builder(driver).build_manual().unwrap();
    let (mut peer, socket) = UnixStream::pair().unwrap();
    let new = NewChannel::new(Stream::connected(Socket::new(socket).unwrap().into(), None));
    let log = Log::default();
    let logs = LogsCalls { log: log.clone(), on_read };
    let register = |here: &LocalLoop| {
        here.register_with(new, |edit| {
            edit.add_last("logs", logs)?;
            Ok(())
        })
    };
    manual.on_loop(register).unwrap().unwrap();
    for _ in 0..2 {
        // The write fails after the channel was closed.
        let _ = peer.write_all(b"hello");
        for _ in 0..3 {
            manual.turn(Some(Duration::ZERO));
        }
    }
    drop(manual);
    Rc::into_inner(log).unwrap().into_inner()
}

fn over_both(on_read: fn(&Ctx<'_>)) -> Vec<&'static str> {
    let over_epoll = calls(Epoll, on_read);
    assert_eq!(calls(Poll, on_read), over_epoll);
    over_epoll
}

#[test]
fn c09_a_round_of_one_read_ends_with_read_complete() {
    assert_eq!(over_both(|_| ()), ["read", "complete", "read", "complete"]);
}

#[test]
fn c09_turning_reads_off_in_a_read_still_ends_the_round_with_read_complete() {
    let events = over_both(|ctx| ctx.channel().set_auto_read(false));
    assert_eq!(events, ["read", "complete"]);
}

#[test]
fn c02_a_channel_closed_in_its_read_gets_no_read_complete() {
    assert_eq!(over_both(|ctx| ctx.close()), ["read"]);
}

#[test]
fn c04_a_channel_deregistered_in_a_read_still_gets_read_complete() {
    assert_eq!(over_both(|ctx| ctx.deregister()), ["read", "complete"]);
}

#[test]
fn c09_a_handler_that_removes_itself_in_a_read_gets_no_read_complete() {
    let events = over_both(|ctx| ctx.pipeline().remove("logs").unwrap());
    assert_eq!(events, ["read"]);
}

#[test]
fn c09_read_complete_reaches_a_handler_that_was_added_in_the_read() {
    let events = over_both(|ctx| {
        // The second add fails: the name is taken.
        let _ = ctx.pipeline().add_first("stops", StopsReadComplete);
    });
    assert_eq!(events, ["read", "read"]);
}

#[test]
fn c09_read_complete_comes_after_events_fired_during_the_read() {
    let events = over_both(|ctx| ctx.pipeline().fire_read_complete());
    assert_eq!(events, ["read", "complete", "complete", "read", "complete", "complete"]);
}
