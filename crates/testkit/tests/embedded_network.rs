//! Embedded channels whose other end is another channel, or the test (O04).

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

/// How long a test waits for something that must happen.
const TIMEOUT: Duration = Duration::from_secs(20);

/// The events of a channel, as text.
type EventLog = Rc<RefCell<Vec<String>>>;

struct EventLogger(EventLog);

impl Handler for EventLogger {
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

/// A connected pair on a manual loop.
struct ConnectedPair {
    event_loop: ManualEventLoop,
    ends: [(Channel, EventLog); 2],
}

impl ConnectedPair {
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

    /// Calls `f` with an end, and runs the loop until it is idle.
    fn with(&mut self, end: usize, f: impl FnOnce(&Channel)) {
        f(&self.ends[end].0);
        self.run();
    }

    fn events(&self, end: usize) -> Vec<String> {
        self.ends[end].1.take()
    }
}

fn register(event_loop: &mut ManualEventLoop, new: NewChannel) -> (Channel, EventLog) {
    let events = EventLog::default();
    let listen = EventLogger(events.clone());
    let channel = event_loop.on_loop(|here| {
        here.register_with(new, |edit| Ok(edit.add_last("listen", listen).map(drop)?))
    });
    (channel.unwrap().unwrap(), events)
}

fn send(channel: &Channel, text: &'static str) -> PromiseFuture<()> {
    channel.write_and_flush(Bytes::from_static(text.as_bytes()))
}

#[test]
fn o04_one_end_of_a_pair_reads_what_the_other_writes() {
    let mut pair = ConnectedPair::new(ChannelOptions::default());
    pair.with(0, |one| drop((send(one, "ping"), send(one, "again"))));
    pair.with(1, |other| drop(send(other, "pong")));
    assert_eq!(pair.events(1).concat(), "pingagain");
    assert_eq!(pair.events(0), ["pong"]);
}

#[test]
fn o04_an_end_of_a_pair_that_does_not_read_blocks_its_writer() {
    const BLOCK: Bytes = Bytes::from_static(&[b'x'; 8 * 1024]);
    let mut pair =
        ConnectedPair::new(ChannelOptions { auto_read: false, ..ChannelOptions::default() });
    let mut written = Vec::new();
    pair.with(0, |one| written.extend((0..20).map(|_| one.write_and_flush(BLOCK))));
    let done = |written: &[PromiseFuture<()>]| written.iter().filter(|it| it.is_done()).count();
    assert_eq!((done(&written), pair.ends[0].0.pending_bytes()), (8, 12 * BLOCK.len()));
    pair.with(1, |other| other.set_auto_read(true));
    assert_eq!((done(&written), pair.ends[0].0.pending_bytes()), (20, 0));
    assert_eq!(pair.events(1).concat().len(), 20 * BLOCK.len());
}

#[test]
fn o04_an_end_of_a_pair_can_half_close() {
    let options = ChannelOptions { allow_half_closure: true, ..ChannelOptions::default() };
    let mut pair = ConnectedPair::new(options);
    pair.with(0, |one| drop((send(one, "question"), one.shutdown_output())));
    assert_eq!(pair.events(1), ["question"]);
    pair.with(1, |other| drop((send(other, "answer"), other.shutdown_output())));
    assert_eq!(pair.events(0), ["answer", "inactive"]);
    assert_eq!(pair.events(1), ["inactive"]);
}

#[test]
fn o04_closing_one_end_of_a_pair_closes_the_other_after_it_has_read_the_rest() {
    let mut pair = ConnectedPair::new(ChannelOptions::default());
    pair.with(0, |one| drop((send(one, "last words"), one.close())));
    assert_eq!(pair.events(1), ["last words", "inactive"]);
    let (one, other) = connected_pair();
    let (lonely, events) = register(&mut pair.event_loop, one);
    pair.run();
    assert!(lonely.is_open());
    drop(other);
    pair.run();
    assert_eq!(events.take(), ["inactive"]);
}

#[test]
fn o04_writing_to_a_closed_end_of_a_pair_is_a_broken_pipe() {
    let mut pair =
        ConnectedPair::new(ChannelOptions { auto_read: false, ..ChannelOptions::default() });
    pair.with(1, |other| drop(other.close()));
    let mut late = None;
    pair.with(0, |one| late = Some(send(one, "late")));
    let error = late.unwrap().try_take().unwrap().unwrap_err();
    assert!(error.to_string().contains("the peer has closed the connection"), "{error}");
    assert!(!pair.ends[0].0.is_open());
}

#[test]
fn o04_an_end_of_a_pair_loses_nothing_while_it_is_deregistered() {
    let mut pair = ConnectedPair::new(ChannelOptions::default());
    pair.with(1, |other| drop(other.deregister()));
    pair.with(0, |one| drop((send(one, "meanwhile"), one.close())));
    assert_eq!(pair.events(1), [""; 0]);
    pair.with(1, |other| drop(other.register()));
    assert_eq!(pair.events(1), ["meanwhile", "inactive"]);
}

/// Binds a server with a backlog of 1 to the name "here", on a group of its own.
fn server(
    network: &EmbeddedNetwork,
    options: ChannelOptions,
) -> (EventLoopGroup, PromiseFuture<Channel>) {
    let group = EventLoopGroup::builder(TaskOnly).threads(1).build().unwrap();
    let bound = ServerBootstrap::new(&group, network.clone())
        .options(options)
        .socket_option(SocketOption::Backlog(1))
        .bind(Address::local("here"));
    (group, bound)
}

#[test]
fn o04_a_name_belongs_to_one_server_of_its_network() {
    let (network, apart) = (EmbeddedNetwork::new(), EmbeddedNetwork::new());
    let (_group, first) = server(&network, ChannelOptions::default());
    let first = first.join().unwrap();
    let (_group, second) = server(&network, ChannelOptions::default());
    assert_eq!(second.join().unwrap_err().to_string(), "the name local:here is in use");
    let (_group, other) = server(&apart, ChannelOptions::default());
    assert_eq!(other.join().unwrap().local_address(), first.local_address());
    first.close().join().unwrap();
    let (_group, again) = server(&network, ChannelOptions::default());
    again.join().unwrap();
}

#[test]
fn o04_a_full_backlog_makes_clients_wait_and_refuses_peers() {
    let network = EmbeddedNetwork::new();
    let (group, bound) =
        server(&network, ChannelOptions { auto_read: false, ..ChannelOptions::default() });
    let bound = bound.join().unwrap();
    let here = bound.local_address().unwrap();
    let peer = network.connect_peer(&here).unwrap();
    let full = network.connect_peer(&here).unwrap_err().to_string();
    assert_eq!(full, "the backlog of local:here is full: 1 connections wait to be accepted");
    let waits = Bootstrap::new(&group, network.clone()).connect(here.clone());
    let asked = bound.event_loop().submit(|| ()).unwrap();
    asked.join().unwrap();
    assert!(!waits.is_done());
    bound.set_auto_read(true);
    let client = waits.join().unwrap();
    bound.close().join().unwrap();
    let refused = network.connect_peer(&here).unwrap_err().to_string();
    assert_eq!(refused, "no server listens at local:here");
    drop(peer);
    client.close().join().unwrap();
}

#[test]
fn o04_a_peer_is_the_other_end_of_an_accepted_channel() {
    /// A handler that echoes what it reads, and closes at a certain message.
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

    let (network, group) =
        (EmbeddedNetwork::new(), EventLoopGroup::builder(TaskOnly).threads(1).build().unwrap());
    let (sender, children) = mpsc::channel();
    let (failed, errors) = mpsc::channel();
    let server = ServerBootstrap::new(&group, network.clone())
        .child_initialiser(move |edit| {
            Ok(edit.add_last("echo", Echo(sender.clone(), failed.clone())).map(drop)?)
        })
        .bind(Address::local("echo"));
    let at = server.join().unwrap().local_address().unwrap();
    let next = || children.recv_timeout(TIMEOUT).unwrap();

    let peer = network.connect_peer(&at).unwrap();
    let child = next();
    assert_eq!((child.local_address(), child.peer_address()), (Some(at.clone()), None));
    peer.send("hello");
    peer.send("over");
    child.closed().wait_timeout(TIMEOUT).unwrap();
    assert!(peer.is_ended());
    let received: Vec<Bytes> = std::iter::from_fn(|| peer.receive()).collect();
    assert_eq!(received.concat(), b"helloover");

    let peer = network.connect_peer(&at).unwrap();
    let child = next();
    peer.fail(Error::new(io::Error::from(io::ErrorKind::ConnectionReset)));
    child.closed().wait_timeout(TIMEOUT).unwrap();
    let error_text = errors.recv_timeout(TIMEOUT).unwrap();
    assert_eq!(error_text, "connection reset");

    let dropped_peer = network.connect_peer(&at).unwrap();
    let child = next();
    drop(dropped_peer);
    child.closed().wait_timeout(TIMEOUT).unwrap();
    group.shutdown_gracefully(Duration::ZERO, TIMEOUT).unwrap().join().unwrap();
}
