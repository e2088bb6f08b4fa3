//! Embedded channels whose other end is a channel too, or a plug in the test's hand (O04).

use std::cell::RefCell;
use std::io;
use std::rc::Rc;
use std::sync::mpsc::{self, Sender};
use std::time::Duration;

use bytes::Bytes;
use waterwheel_channel::driver::{SocketOption, TaskOnly};
use waterwheel_channel::{
    Address, Bootstrap, Channel, ChannelOptions, Ctx, EventLoopGroup, Handler, HandlerResult,
    ManualEventLoop, Msg, NewChannel, ServerBootstrap,
};
use waterwheel_executor::{Error, PromiseFuture};
use waterwheel_testkit::embedded::{EmbeddedNetwork, connected_pair};
use waterwheel_testkit::manual::Manual;

/// Longer than anything here takes.
const PATIENCE: Duration = Duration::from_secs(20);

/// What a channel was told, in words.
type Heard = Rc<RefCell<Vec<String>>>;

struct Listen(Heard);

impl Handler for Listen {
    fn on_read(&mut self, _: &Ctx<'_>, msg: Msg) -> HandlerResult {
        let bytes = msg.into_bytes().expect("a stream is read as bytes");
        self.0.borrow_mut().push(String::from_utf8_lossy(&bytes).into_owned());
        Ok(())
    }

    fn on_error(&mut self, _: &Ctx<'_>, error: Error) -> HandlerResult {
        self.0.borrow_mut().push(format!("error: {error}"));
        Ok(())
    }

    fn on_inactive(&mut self, _: &Ctx<'_>) -> HandlerResult {
        self.0.borrow_mut().push("inactive".to_owned());
        Ok(())
    }
}

/// Two ends on a loop that the test turns.
struct Bench {
    event_loop: ManualEventLoop,
    ends: [(Channel, Heard); 2],
}

impl Bench {
    fn new(options: ChannelOptions) -> Self {
        let event_loop = EventLoopGroup::builder(Manual::readiness()).build_manual();
        let mut event_loop = event_loop.unwrap();
        let (one, other) = connected_pair();
        let ends = [one, other].map(|new| register(&mut event_loop, new.options(options)));
        Self { event_loop, ends }
    }

    fn run(&mut self) {
        while !self.event_loop.is_idle() {
            self.event_loop.turn(Some(Duration::ZERO));
        }
    }

    /// Asks something of an end, and lets come what comes of it.
    fn with(&mut self, end: usize, f: impl FnOnce(&Channel)) {
        f(&self.ends[end].0);
        self.run();
    }

    fn heard(&self, end: usize) -> Vec<String> {
        self.ends[end].1.take()
    }
}

fn register(event_loop: &mut ManualEventLoop, new: NewChannel) -> (Channel, Heard) {
    let heard = Heard::default();
    let listen = Listen(heard.clone());
    let channel = event_loop.on_loop(|here| {
        here.register_with(new, |edit| Ok(edit.add_last("listen", listen).map(drop)?))
    });
    (channel.unwrap().unwrap(), heard)
}

fn send(channel: &Channel, text: &'static str) -> PromiseFuture<()> {
    channel.write_and_flush(Bytes::from_static(text.as_bytes()))
}

#[test]
fn o04_what_one_of_two_joined_ends_writes_the_other_reads() {
    let mut bench = Bench::new(ChannelOptions::default());
    bench.with(0, |one| drop((send(one, "ping"), send(one, "again"))));
    bench.with(1, |other| drop(send(other, "pong")));
    assert_eq!(bench.heard(1).concat(), "pingagain");
    assert_eq!(bench.heard(0), ["pong"]);
}

#[test]
fn o04_a_joined_end_that_does_not_read_holds_its_writer_back() {
    const BLOCK: Bytes = Bytes::from_static(&[b'x'; 8 * 1024]);
    let mut bench = Bench::new(ChannelOptions { auto_read: false, ..ChannelOptions::default() });
    let mut written = Vec::new();
    bench.with(0, |one| written.extend((0..20).map(|_| one.write_and_flush(BLOCK))));
    let done = |written: &[PromiseFuture<()>]| written.iter().filter(|it| it.is_done()).count();
    assert_eq!((done(&written), bench.ends[0].0.pending_bytes()), (8, 12 * BLOCK.len()));
    bench.with(1, |other| other.set_auto_read(true));
    assert_eq!((done(&written), bench.ends[0].0.pending_bytes()), (20, 0));
    assert_eq!(bench.heard(1).concat().len(), 20 * BLOCK.len());
}

#[test]
fn o04_a_joined_end_may_say_that_it_sends_no_more() {
    let options = ChannelOptions { allow_half_closure: true, ..ChannelOptions::default() };
    let mut bench = Bench::new(options);
    bench.with(0, |one| drop((send(one, "question"), one.shutdown_output())));
    assert_eq!(bench.heard(1), ["question"]);
    bench.with(1, |other| drop((send(other, "answer"), other.shutdown_output())));
    assert_eq!(bench.heard(0), ["answer", "inactive"]);
    assert_eq!(bench.heard(1), ["inactive"]);
}

#[test]
fn o04_a_joined_end_that_is_closed_closes_the_other_which_hears_it_out() {
    let mut bench = Bench::new(ChannelOptions::default());
    bench.with(0, |one| drop((send(one, "last words"), one.close())));
    assert_eq!(bench.heard(1), ["last words", "inactive"]);
    let (one, other) = connected_pair();
    let (lonely, heard) = register(&mut bench.event_loop, one);
    bench.run();
    assert!(lonely.is_open());
    drop(other);
    bench.run();
    assert_eq!(heard.take(), ["inactive"]);
}

#[test]
fn o04_writing_to_a_joined_end_that_is_gone_is_a_broken_pipe() {
    let mut bench = Bench::new(ChannelOptions { auto_read: false, ..ChannelOptions::default() });
    bench.with(1, |other| drop(other.close()));
    let mut late = None;
    bench.with(0, |one| late = Some(send(one, "late")));
    let error = late.unwrap().try_take().unwrap().unwrap_err();
    assert!(error.to_string().contains("the peer has closed the connection"), "{error}");
    assert!(!bench.ends[0].0.is_open());
}

#[test]
fn o04_a_joined_end_that_leaves_its_loop_finds_everything_when_it_is_back() {
    let mut bench = Bench::new(ChannelOptions::default());
    bench.with(1, |other| drop(other.deregister()));
    bench.with(0, |one| drop((send(one, "meanwhile"), one.close())));
    assert_eq!(bench.heard(1), [""; 0]);
    bench.with(1, |other| drop(other.register()));
    assert_eq!(bench.heard(1), ["meanwhile", "inactive"]);
}

/// A server among wires, at this name, and the loop it is on.
fn server(
    wires: &EmbeddedNetwork,
    options: ChannelOptions,
) -> (EventLoopGroup, PromiseFuture<Channel>) {
    let group = EventLoopGroup::builder(TaskOnly).threads(1).build().unwrap();
    let bound = ServerBootstrap::new(&group, wires.clone())
        .options(options)
        .socket_option(SocketOption::Backlog(1))
        .bind(Address::local("here"));
    (group, bound)
}

#[test]
fn o04_a_name_belongs_to_one_server_of_its_wires() {
    let (wires, apart) = (EmbeddedNetwork::new(), EmbeddedNetwork::new());
    let (_group, first) = server(&wires, ChannelOptions::default());
    let first = first.join().unwrap();
    let (_group, second) = server(&wires, ChannelOptions::default());
    assert_eq!(second.join().unwrap_err().to_string(), "the name local:here is in use");
    let (_group, other) = server(&apart, ChannelOptions::default());
    assert_eq!(other.join().unwrap().local_address(), first.local_address());
    first.close().join().unwrap();
    let (_group, again) = server(&wires, ChannelOptions::default());
    again.join().unwrap();
}

#[test]
fn o04_a_full_backlog_lets_clients_wait_and_plugs_not() {
    let wires = EmbeddedNetwork::new();
    let (group, bound) =
        server(&wires, ChannelOptions { auto_read: false, ..ChannelOptions::default() });
    let bound = bound.join().unwrap();
    let here = bound.local_address().unwrap();
    let plug = wires.connect_peer(&here).unwrap();
    let full = wires.connect_peer(&here).unwrap_err().to_string();
    assert_eq!(full, "the backlog of local:here is full: 1 connections wait to be accepted");
    let waits = Bootstrap::new(&group, wires.clone()).connect(here.clone());
    let asked = bound.event_loop().submit(|| ()).unwrap();
    asked.join().unwrap();
    assert!(!waits.is_done());
    bound.set_auto_read(true);
    let client = waits.join().unwrap();
    bound.close().join().unwrap();
    let refused = wires.connect_peer(&here).unwrap_err().to_string();
    assert_eq!(refused, "no server listens at local:here");
    drop(plug);
    client.close().join().unwrap();
}

#[test]
fn o04_a_plug_is_the_other_end_of_a_channel_that_was_accepted() {
    /// Sends back what it gets, and closes when it is told to.
    struct Echo(Sender<Channel>, Sender<String>);

    impl Handler for Echo {
        fn on_active(&mut self, ctx: &Ctx<'_>) -> HandlerResult {
            self.0.send(ctx.channel()).expect("the test listens");
            Ok(())
        }

        fn on_read(&mut self, ctx: &Ctx<'_>, msg: Msg) -> HandlerResult {
            let bytes = msg.into_bytes().expect("a stream is read as bytes");
            let over = bytes == "over";
            ctx.write_and_flush(bytes);
            if over {
                ctx.close();
            }
            Ok(())
        }

        fn on_error(&mut self, _: &Ctx<'_>, error: Error) -> HandlerResult {
            self.1.send(error.to_string()).expect("the test listens");
            Ok(())
        }
    }

    let (wires, group) =
        (EmbeddedNetwork::new(), EventLoopGroup::builder(TaskOnly).threads(1).build().unwrap());
    let (told, children) = mpsc::channel();
    let (failed, errors) = mpsc::channel();
    let server = ServerBootstrap::new(&group, wires.clone())
        .child_initialiser(move |edit| {
            Ok(edit.add_last("echo", Echo(told.clone(), failed.clone())).map(drop)?)
        })
        .bind(Address::local("echo"));
    let at = server.join().unwrap().local_address().unwrap();
    let next = || children.recv_timeout(PATIENCE).unwrap();

    let plug = wires.connect_peer(&at).unwrap();
    let child = next();
    assert_eq!((child.local_address(), child.peer_address()), (Some(at.clone()), None));
    plug.send("hello");
    plug.send("over");
    child.closed().wait_timeout(PATIENCE).unwrap();
    assert!(plug.is_ended());
    let received: Vec<Bytes> = std::iter::from_fn(|| plug.receive()).collect();
    assert_eq!(received.concat(), b"helloover");

    let plug = wires.connect_peer(&at).unwrap();
    let child = next();
    plug.fail(Error::new(io::Error::from(io::ErrorKind::ConnectionReset)));
    child.closed().wait_timeout(PATIENCE).unwrap();
    let told = errors.recv_timeout(PATIENCE).unwrap();
    assert_eq!(told, "connection reset");

    let unplugged = wires.connect_peer(&at).unwrap();
    let child = next();
    drop(unplugged);
    child.closed().wait_timeout(PATIENCE).unwrap();
    group.shutdown_gracefully(Duration::ZERO, PATIENCE).unwrap().join().unwrap();
}
