//! Where a case plays: loops, channels, and handlers that tell the test what happens.

use std::sync::mpsc::{Receiver, Sender, channel};

use waterwheel::channel::{
    Address, Bootstrap, Channel, ChannelOptions, Ctx, Datagram, Edit, EventLoopGroup, Handler,
    HandlerResult, Msg, PipelineError,
};
use waterwheel::executor::{Error, PromiseFuture};

use super::cell::Cell;
use crate::test_bed::{WAIT_LIMIT, end, get};

/// The loops of a case over one cell. They are shut down at its end.
pub(super) struct TestBed<'c> {
    pub(super) cell: &'c Cell,
    pub(super) group: EventLoopGroup,
}

impl<'c> TestBed<'c> {
    pub(super) fn new(cell: &'c Cell, threads: usize) -> Self {
        Self { cell, group: cell.group(threads) }
    }

    /// Channels with this pipeline.
    pub(super) fn bootstrap(
        &self,
        initialiser: impl Fn(&mut Edit<'_>) -> Result<(), PipelineError> + Send + Sync + 'static,
    ) -> Bootstrap {
        self.cell.bootstrap(&self.group).initialiser(move |edit| Ok(initialiser(edit)?))
    }

    /// A channel that sends everything back to where it came from.
    #[track_caller]
    pub(super) fn echo(&self) -> Channel {
        let echo = self.bootstrap(|edit| edit.add_last("echo", Echo).map(drop));
        get(echo.bind(self.cell.kind().free_address())).expect("a place")
    }

    /// A channel that tells what happens to it.
    #[track_caller]
    pub(super) fn bound(&self) -> Post {
        self.bound_with(ChannelOptions::default())
    }

    #[track_caller]
    pub(super) fn bound_with(&self, options: ChannelOptions) -> Post {
        self.post(options, |channels| channels.bind(self.cell.kind().free_address()))
    }

    /// One that begins to read when it is told to.
    #[track_caller]
    pub(super) fn silent(&self) -> Post {
        self.bound_with(ChannelOptions { auto_read: false, ..ChannelOptions::default() })
    }

    /// One that is connected, and bound: of some transports, who is not bound cannot be answered.
    #[track_caller]
    pub(super) fn connected(&self, to: Address) -> Post {
        self.post(ChannelOptions::default(), |channels| {
            channels.local_address(self.cell.kind().free_address()).connect(to)
        })
    }

    #[track_caller]
    fn post(
        &self,
        options: ChannelOptions,
        open: impl FnOnce(Bootstrap) -> PromiseFuture<Channel>,
    ) -> Post {
        let (tell, told) = channel();
        let tapped =
            self.bootstrap(move |edit| edit.add_last("tap", EventTap(tell.clone())).map(drop));
        Post { channel: get(open(tapped.options(options))).expect("a channel"), told }
    }

    /// Everything that has happened by now to the channels of these loops is dealt with: each loop has
    /// answered somebody who asked later; one that serves none but its own has run a task since.
    #[track_caller]
    pub(super) fn wait_until_idle(&self) {
        for _ in 0..2 * self.group.children().len() {
            let echo = self.echo();
            let post = self.connected(address(&echo));
            for _ in 0..3 {
                post.send("settled?");
                assert_eq!(post.text(), "settled?");
            }
            get(post.channel.close()).expect("it closes");
            get(echo.close()).expect("it closes");
        }
        for at in self.group.children() {
            get(at.submit(|| ()).expect("it runs")).expect("it was run");
        }
    }

    /// How many channels its loops have.
    #[track_caller]
    pub(super) fn channels(&self) -> usize {
        self.group.children().map(|at| get(at.registered_channels()).expect("channels").len()).sum()
    }
}

impl Drop for TestBed<'_> {
    fn drop(&mut self) {
        let ended = end(&self.group);
        if !std::thread::panicking() {
            ended.wait_timeout(WAIT_LIMIT).expect("the loops end");
        }
    }
}

/// Where a channel is bound.
#[track_caller]
pub(super) fn address(of: &Channel) -> Address {
    of.local_address().expect("it is bound")
}

/// Sends back what it gets.
pub(super) struct Echo;

impl Handler for Echo {
    fn on_read(&mut self, ctx: &Ctx<'_>, msg: Msg) -> HandlerResult {
        let datagram = msg.take::<Datagram>().expect("datagrams are read here");
        ctx.write(datagram.answer(datagram.bytes().clone()));
        Ok(())
    }

    fn on_read_complete(&mut self, ctx: &Ctx<'_>) -> HandlerResult {
        ctx.flush();
        Ok(())
    }

    fn on_error(&mut self, _: &Ctx<'_>, _: Error) -> HandlerResult {
        Ok(()) // A peer may go as it likes.
    }
}

/// What happened to a channel.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum ChannelEvent {
    Read(Datagram),
    RoundOver,
    Failed(String),
    Inactive,
}

/// The last handler of a pipeline: tells the test what happens.
struct EventTap(Sender<ChannelEvent>);

impl EventTap {
    fn tell(&self, told: ChannelEvent) -> HandlerResult {
        // A test that does not listen any more has its reasons.
        let _ = self.0.send(told);
        Ok(())
    }
}

impl Handler for EventTap {
    fn on_read(&mut self, ctx: &Ctx<'_>, msg: Msg) -> HandlerResult {
        let datagram = msg.take::<Datagram>().expect("datagrams are read here");
        // What a case sends so is to be the last for now.
        if datagram.bytes() == "off" {
            ctx.channel().set_auto_read(false);
        }
        self.tell(ChannelEvent::Read(datagram))
    }

    fn on_read_complete(&mut self, _: &Ctx<'_>) -> HandlerResult {
        self.tell(ChannelEvent::RoundOver)
    }

    fn on_error(&mut self, _: &Ctx<'_>, error: Error) -> HandlerResult {
        self.tell(ChannelEvent::Failed(error.to_string()))
    }

    fn on_inactive(&mut self, _: &Ctx<'_>) -> HandlerResult {
        self.tell(ChannelEvent::Inactive)
    }
}

/// A channel, and what it was told.
pub(super) struct Post {
    pub(super) channel: Channel,
    told: Receiver<ChannelEvent>,
}

impl Post {
    pub(super) fn address(&self) -> Address {
        address(&self.channel)
    }

    /// Sends to whom it is connected, and waits until it is sent.
    #[track_caller]
    pub(super) fn send(&self, text: &'static str) {
        get(self.channel.write_and_flush(Datagram::new(text))).expect("it is sent");
    }

    /// Sends to a channel, and waits until it is sent.
    #[track_caller]
    pub(super) fn send_to(&self, to: &Post, text: &'static str) {
        let datagram = Datagram::to(to.address(), text);
        get(self.channel.write_and_flush(datagram)).expect("it is sent");
    }

    #[track_caller]
    pub(super) fn next(&self) -> ChannelEvent {
        self.told.recv_timeout(WAIT_LIMIT).expect("something is told in time")
    }

    /// The next datagram; rounds that end meanwhile are passed over.
    #[track_caller]
    pub(super) fn datagram(&self) -> Datagram {
        loop {
            match self.next() {
                ChannelEvent::Read(datagram) => return datagram,
                ChannelEvent::RoundOver => {}
                other => panic!("{other:?} instead of a datagram"),
            }
        }
    }

    /// What is in the next.
    #[track_caller]
    pub(super) fn text(&self) -> String {
        String::from_utf8_lossy(self.datagram().bytes()).into_owned()
    }

    #[track_caller]
    pub(super) fn texts(&self, n: usize) -> Vec<String> {
        (0..n).map(|_| self.text()).collect()
    }

    /// What was told and not asked for yet, but the ends of rounds.
    pub(super) fn rest(&self) -> Vec<ChannelEvent> {
        self.told.try_iter().filter(|told| *told != ChannelEvent::RoundOver).collect()
    }
}
