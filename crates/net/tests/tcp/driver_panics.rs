//! A driver that panics over one connection, and a loop that dies nevertheless (R05).

use std::io::{Result, Write};
use std::net::Shutdown;
use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, Mutex};

use bytes::Bytes;
use waterwheel_channel::driver::{
    Detach, Driver, DriverPanicked, Io, IoEvent, OpenDriver, OutQueue, ReadPlan, Role,
    SocketOption, Submit, WaitSummary,
};
use waterwheel_channel::{
    Channel, Ctx, EventLoopGroup, Handler, HandlerResult, Msg, ServerBootstrap, Token,
};
use waterwheel_executor::{Error, ErrorKind, Nanos};
use waterwheel_net::{Epoll, Poll, Tcp};
use waterwheel_testkit::driver_wrapper::{DriverWrapper, WrappingFactory};
use waterwheel_testkit::loop_suite::panic_quietly;

use crate::loop_rig::{LoopRig, TIME_LIMIT, get};
use crate::probe::{ProbeLog, ProbedServer, connect_and_send, group, ip, read_to_end};

/// The driver call that panics once, and true if the driver names the token.
#[derive(Clone, Default)]
struct Fault(Arc<Mutex<Option<(&'static str, bool)>>>);

impl Fault {
    fn arm(&self, call: &'static str) {
        *self.0.lock().unwrap() = Some((call, true));
    }

    fn arm_without_token(&self, call: &'static str) {
        *self.0.lock().unwrap() = Some((call, false));
    }

    /// Returns `Some` if this call must panic: true if the driver names the token.
    fn strikes(&self, call: &str) -> Option<bool> {
        let mut armed = self.0.lock().unwrap();
        let (_, names) = armed.take_if(|(at, _)| *at == call)?;
        Some(names)
    }
}

/// Panics in the call that `fault` names: in `next_event` at the read of "boom", in `wait` at the first read.
struct Panics {
    inner: Box<dyn Driver>,
    fault: Fault,
    at: Option<Token>,
    /// An event to return before the next event of the inner driver.
    kept: Option<IoEvent>,
}

impl Panics {
    fn strike(&self, call: &'static str) {
        if self.fault.strikes(call).is_some() {
            panic_quietly(call);
        }
    }
}

impl DriverWrapper for Panics {
    fn inner(&self) -> &dyn Driver {
        &*self.inner
    }

    fn inner_mut(&mut self) -> &mut dyn Driver {
        &mut *self.inner
    }

    fn attach(&mut self, token: Token, io: Io, role: Role) -> Result<()> {
        self.inner.attach(token, io, role)?;
        self.strike("attach");
        Ok(())
    }

    fn detach(&mut self, token: Token) -> Detach {
        let detached = self.inner.detach(token);
        self.strike("detach");
        detached
    }

    fn release(&mut self, token: Token) -> Result<Io> {
        self.strike("release");
        self.inner.release(token)
    }

    fn set_option(&mut self, token: Token, option: SocketOption) -> Result<()> {
        self.strike("set_option");
        self.inner.set_option(token, option)
    }

    fn set_read(&mut self, token: Token, plan: Option<ReadPlan>) {
        // Panics only when reads are turned off: the server may turn on its own reads meanwhile.
        if plan.is_none() {
            self.strike("set_read");
        }
        self.inner.set_read(token, plan);
    }

    fn write(&mut self, token: Token, queue: &OutQueue) -> Result<Submit> {
        self.strike("write");
        self.inner.write(token, queue)
    }

    fn shutdown(&mut self, token: Token, how: Shutdown) -> Result<()> {
        self.strike("shutdown");
        self.inner.shutdown(token, how)
    }

    fn wait(&mut self, until: Option<Nanos>) -> Result<WaitSummary> {
        let waited = self.inner.wait(until)?;
        if self.fault.0.lock().unwrap().is_some_and(|(call, _)| call == "wait") {
            self.kept = self.inner.next_event();
            if let Some(IoEvent::LastRead(token, _)) = &self.kept {
                let names = self.fault.strikes("wait").expect("an armed fault");
                self.at = names.then_some(*token);
                panic_quietly("wait");
            }
        }
        Ok(waited)
    }

    fn next_event(&mut self) -> Option<IoEvent> {
        let event = self.kept.take().or_else(|| self.inner.next_event())?;
        if let IoEvent::LastRead(token, bytes) = &event
            && *bytes == "boom"
            && let Some(names) = self.fault.strikes("next_event")
        {
            self.at = names.then_some(*token);
            panic_quietly("next_event");
        }
        Some(event)
    }

    fn working_on(&self) -> Option<Token> {
        self.at
    }
}

fn rig(driver: impl OpenDriver + 'static, fault: &Fault) -> LoopRig {
    let fault = fault.clone();
    let panicking = WrappingFactory::new(driver, move |inner| Panics {
        inner,
        fault: fault.clone(),
        at: None,
        kept: None,
    });
    LoopRig::new(EventLoopGroup::builder(panicking))
}

fn on_every_rig(test: impl Fn(&LoopRig, &Fault)) {
    let fault = Fault::default();
    for rig in [rig(Epoll, &fault), rig(Poll, &fault)] {
        test(&rig, &fault);
        rig.end();
    }
}

/// Fails unless the connection, or the loop, was closed with the panic as the cause, and the panic was
/// reported.
#[track_caller]
fn assert_cause(rig: &LoopRig, error: &str, call: &str) {
    let words = format!("panicked: {call}");
    assert!(error.contains(&words), "{error}");
    let report = rig.wait_for_report("panicked");
    assert!(report.contains(call), "{report}");
}

#[track_caller]
fn closed(channel: &Channel) -> std::result::Result<(), Error> {
    channel.closed().wait_timeout(TIME_LIMIT).expect("the channel is closed");
    channel.closed().join()
}

#[track_caller]
fn assert_served((peer, log): (&mut impl Write, &ProbeLog)) {
    peer.write_all(b"hello").unwrap();
    while log.next() != "read hello" {}
}

#[test]
fn r05_a_driver_panic_over_one_connection_closes_only_that_one() {
    on_every_rig(|rig, fault| {
        let server = ProbedServer::open(rig, |server| server);
        let (_other, mut other_peer, other_notes) = server.connect();
        for call in ["next_event", "wait"] {
            let (channel, mut peer, log) = server.connect();
            fault.arm(call);
            peer.write_all(b"boom").unwrap();
            assert_eq!(closed(&channel).map_err(|error| error.to_string()), Ok(()));
            read_to_end(&mut peer);
            let events = log.until_removed().join(", ");
            assert_cause(rig, &events, call);
            assert_served((&mut other_peer, &other_notes));
            let (_next, mut peer, log) = server.connect();
            assert_served((&mut peer, &log));
        }
        assert!(server.listener.is_active());
    });
}

#[test]
fn r05_a_driver_panic_in_a_call_closes_the_channel_of_that_call() {
    type Act = fn(&Channel) -> Option<Error>;
    let acts: [(&'static str, Act); 5] = [
        ("write", |channel| channel.write_and_flush(Bytes::from("lost")).join().err()),
        ("set_option", |channel| channel.set_option(SocketOption::NoDelay(true)).join().err()),
        ("shutdown", |channel| channel.shutdown_output().join().err()),
        ("release", |channel| channel.deregister().join().err()),
        ("set_read", |channel| {
            channel.set_auto_read(false);
            closed(channel).unwrap();
            channel.write_and_flush(Bytes::from("late")).join().err()
        }),
    ];
    on_every_rig(|rig, fault| {
        let server = ProbedServer::open(rig, |server| server);
        let (_other, mut other_peer, other_notes) = server.connect();
        for (call, act) in acts {
            let (channel, mut peer, log) = server.connect();
            fault.arm(call);
            let error = act(&channel).expect("a failure");
            assert!(closed(&channel).is_ok(), "{call}");
            read_to_end(&mut peer);
            let events = format!("{error}, {}", log.until_removed().join(", "));
            assert_cause(rig, &events, call);
            assert_served((&mut other_peer, &other_notes));
        }
        let (channel, mut peer, _) = server.connect();
        fault.arm("detach");
        get(channel.close());
        read_to_end(&mut peer);
        fault.arm("attach");
        let mut refused = std::net::TcpStream::connect(server.address).unwrap();
        read_to_end(&mut refused);
        assert_served((&mut other_peer, &other_notes));
        let (_next, mut peer, log) = server.connect();
        assert_served((&mut peer, &log));
    });
}

/// Answers with more bytes than the high-water mark, which are written while the handler runs.
struct AnswersALot(Sender<String>);

impl Handler for AnswersALot {
    fn on_read(&mut self, ctx: &Ctx<'_>, _: Msg) -> HandlerResult {
        ctx.write(Bytes::from(vec![b'x'; 1 << 20]));
        ctx.flush();
        let _ = self.0.send("answered".to_owned());
        Ok(())
    }

    fn on_inactive(&mut self, _: &Ctx<'_>) -> HandlerResult {
        let _ = self.0.send("inactive".to_owned());
        Ok(())
    }

    fn on_removed(&mut self, _: &Ctx<'_>) {
        let _ = self.0.send("removed".to_owned());
    }
}

#[test]
fn r05_a_driver_panic_is_not_blamed_on_the_handler_that_flushes() {
    on_every_rig(|rig, fault| {
        let (sender, events) = channel();
        let server = ServerBootstrap::new(&group(rig), Tcp).child_initialiser(move |edit| {
            edit.add_last("a lot", AnswersALot(sender.clone()))?;
            Ok(())
        });
        let server = get(server.bind("127.0.0.1:0"));
        fault.arm("write");
        let mut peer = connect_and_send(ip(server.local_address()));
        read_to_end(&mut peer);
        let events: Vec<_> = (0..3).map_while(|_| events.recv_timeout(TIME_LIMIT).ok()).collect();
        assert_eq!(events, ["answered", "inactive", "removed"]);
        let report = rig.wait_for_report("panicked: write");
        assert!(!report.contains("a lot"), "{report}");
        get(server.close());
    });
}

#[test]
fn r05_a_close_by_a_driver_panic_has_an_error_type_of_its_own() {
    on_every_rig(|rig, fault| {
        let server = ProbedServer::open(rig, |server| server);
        let (channel, _peer, _notes) = server.connect();
        fault.arm("set_option");
        let error = channel.set_option(SocketOption::NoDelay(true)).join().unwrap_err();
        let io = error.find::<std::io::Error>().expect("an io::Error");
        let cause = io.get_ref().and_then(|inner| inner.downcast_ref::<DriverPanicked>());
        assert_eq!(cause.map(|cause| cause.message.as_str()), Some("set_option"));
    });
}

#[test]
fn r05_a_loop_that_dies_fails_its_channels_and_its_group_with_the_cause() {
    for call in ["next_event", "wait"] {
        let fault = Fault::default();
        for rig in [rig(Epoll, &fault), rig(Poll, &fault)] {
            let server = ProbedServer::open(&rig, |server| server);
            let each = ServerBootstrap::new(&group(&rig), Tcp).bind_on_each_loop("127.0.0.1:0");
            let (each, group) = (get(each), group(&rig));
            let all_closed = each.closed();
            let (channel, mut peer, log) = server.connect();
            let waiting = server.listener.closed();
            fault.arm_without_token(call);
            peer.write_all(b"boom").unwrap();
            waiting.wait_timeout(TIME_LIMIT).expect("a server whose loop died is closed");
            let died = |error: Error| {
                assert!(matches!(error.kind(), ErrorKind::LoopDied { .. }), "{error}");
                assert!(error.to_string().contains(call), "{error}");
            };
            died(waiting.join().unwrap_err());
            died(closed(&server.listener).unwrap_err());
            died(closed(&channel).unwrap_err());
            assert!(!server.listener.is_open() && !channel.is_active());
            all_closed.wait_timeout(TIME_LIMIT).expect("all channels are closed");
            let outcome = all_closed.join().unwrap();
            assert!(!outcome.is_success(), "{outcome:?}");
            assert!(log.until_removed().contains(&"inactive".to_owned()));
            read_to_end(&mut peer);
            group.termination().wait_timeout(TIME_LIMIT).expect("the group has terminated");
            died(group.termination().join().unwrap_err());
            channel.write_and_flush(Bytes::from("late")).join().unwrap_err();
        }
    }
}
