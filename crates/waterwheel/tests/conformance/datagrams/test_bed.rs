//! The test bed of a datagram case: loops, channels, and handlers that send events to the test.

use std::sync::mpsc::{Receiver, Sender, channel};

use waterwheel::channel::{
    Address, Bootstrap, Channel, ChannelOptions, Ctx, Datagram, Edit, EventLoopGroup, Handler,
    HandlerResult, Msg, PipelineError,
};
use waterwheel::executor::{Error, PromiseFuture};

use super::cell::Cell;
use crate::test_bed::{WAIT_LIMIT, get, shut_down};

/// The loops of a case over one cell. Dropping the test bed shuts them down.
pub(super) struct TestBed<'c> {
    pub(super) cell: &'c Cell,
    pub(super) group: EventLoopGroup,
}

impl<'c> TestBed<'c> {
    pub(super) fn new(cell: &'c Cell, threads: usize) -> Self {
        Self { cell, group: cell.group(threads) }
    }

    /// Returns a bootstrap for channels with this pipeline.
    pub(super) fn bootstrap(
        &self,
        initialiser: impl Fn(&mut Edit<'_>) -> Result<(), PipelineError> + Send + Sync + 'static,
    ) -> Bootstrap {
        self.cell.bootstrap(&self.group).initialiser(move |edit| Ok(initialiser(edit)?))
    }

    /// Binds a channel that echoes datagrams to their senders.
    #[track_caller]
    pub(super) fn echo(&self) -> Channel {
        let echo = self.bootstrap(|edit| edit.add_last("echo", Echo).map(drop));
        get(echo.bind(self.cell.kind().unused_address())).expect("the address is free")
    }

    /// Binds a channel that logs its events.
    #[track_caller]
    pub(super) fn bound(&self) -> TestChannel {
        self.bound_with(ChannelOptions::default())
    }

    #[track_caller]
    pub(super) fn bound_with(&self, options: ChannelOptions) -> TestChannel {
        self.open(options, |channels| channels.bind(self.cell.kind().unused_address()))
    }

    /// Binds a channel without auto-read.
    #[track_caller]
    pub(super) fn bound_without_auto_read(&self) -> TestChannel {
        self.bound_with(ChannelOptions { auto_read: false, ..ChannelOptions::default() })
    }

    /// Opens a connected channel. It is bound too, because some transports cannot answer an unbound sender.
    #[track_caller]
    pub(super) fn connected(&self, to: Address) -> TestChannel {
        self.open(ChannelOptions::default(), |channels| {
            channels.local_address(self.cell.kind().unused_address()).connect(to)
        })
    }

    #[track_caller]
    fn open(
        &self,
        options: ChannelOptions,
        open: impl FnOnce(Bootstrap) -> PromiseFuture<Channel>,
    ) -> TestChannel {
        let (sender, events) = channel();
        let tapped =
            self.bootstrap(move |edit| edit.add_last("tap", EventTap(sender.clone())).map(drop));
        TestChannel {
            channel: get(open(tapped.options(options))).expect("the channel opens"),
            events,
        }
    }

    /// Waits until the loops have handled every event that is pending now: each loop answers a datagram that was sent
    /// later; a loop with a single channel runs a task instead.
    #[track_caller]
    pub(super) fn wait_until_idle(&self) {
        for _ in 0..2 * self.group.children().len() {
            let echo = self.echo();
            let client = self.connected(address(&echo));
            for _ in 0..3 {
                client.send("settled?");
                assert_eq!(client.text(), "settled?");
            }
            get(client.channel.close()).expect("the channel closes");
            get(echo.close()).expect("the channel closes");
        }
        for at in self.group.children() {
            get(at.submit(|| ()).expect("the loop accepts tasks")).expect("the task ran");
        }
    }

    /// Returns how many channels are registered with the loops.
    #[track_caller]
    pub(super) fn channels(&self) -> usize {
        self.group.children().map(|at| get(at.registered_channels()).expect("channels").len()).sum()
    }
}

impl Drop for TestBed<'_> {
    fn drop(&mut self) {
        let ended = shut_down(&self.group);
        if !std::thread::panicking() {
            ended.wait_timeout(WAIT_LIMIT).expect("the loops end");
        }
    }
}

/// Returns the address at which a channel is bound.
#[track_caller]
pub(super) fn address(channel: &Channel) -> Address {
    channel.local_address().expect("the channel is bound")
}

/// Echoes datagrams to their senders.
pub(super) struct Echo;

impl Handler for Echo {
    fn on_read(&mut self, ctx: &Ctx<'_>, msg: Msg) -> HandlerResult {
        let datagram = msg.take::<Datagram>().expect("the message is a datagram");
        ctx.write(datagram.answer(datagram.bytes().clone()));
        Ok(())
    }

    fn on_read_complete(&mut self, ctx: &Ctx<'_>) -> HandlerResult {
        ctx.flush();
        Ok(())
    }

    fn on_error(&mut self, _: &Ctx<'_>, _: Error) -> HandlerResult {
        Ok(()) // A peer may be closed already.
    }
}

/// An event of a channel.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum ChannelEvent {
    Read(Datagram),
    RoundOver,
    Failed(String),
    Inactive,
}

/// The last handler of a pipeline: sends the channel's events to the test.
struct EventTap(Sender<ChannelEvent>);

impl EventTap {
    fn send(&self, event: ChannelEvent) -> HandlerResult {
        // The test may have dropped the receiver.
        let _ = self.0.send(event);
        Ok(())
    }
}

impl Handler for EventTap {
    fn on_read(&mut self, ctx: &Ctx<'_>, msg: Msg) -> HandlerResult {
        let datagram = msg.take::<Datagram>().expect("the message is a datagram");
        // A case sends this to switch auto-read off within a batch.
        if datagram.bytes() == "off" {
            ctx.channel().set_auto_read(false);
        }
        self.send(ChannelEvent::Read(datagram))
    }

    fn on_read_complete(&mut self, _: &Ctx<'_>) -> HandlerResult {
        self.send(ChannelEvent::RoundOver)
    }

    fn on_error(&mut self, _: &Ctx<'_>, error: Error) -> HandlerResult {
        self.send(ChannelEvent::Failed(error.to_string()))
    }

    fn on_inactive(&mut self, _: &Ctx<'_>) -> HandlerResult {
        self.send(ChannelEvent::Inactive)
    }
}

/// A channel, and its events.
pub(super) struct TestChannel {
    pub(super) channel: Channel,
    events: Receiver<ChannelEvent>,
}

impl TestChannel {
    pub(super) fn address(&self) -> Address {
        address(&self.channel)
    }

    /// Sends to the connected peer, and waits until the datagram is sent.
    #[track_caller]
    pub(super) fn send(&self, text: &'static str) {
        get(self.channel.write_and_flush(Datagram::new(text))).expect("the datagram is sent");
    }

    /// Sends to a channel, and waits until the datagram is sent.
    #[track_caller]
    pub(super) fn send_to(&self, to: &TestChannel, text: &'static str) {
        let datagram = Datagram::to(to.address(), text);
        get(self.channel.write_and_flush(datagram)).expect("the datagram is sent");
    }

    #[track_caller]
    pub(super) fn next(&self) -> ChannelEvent {
        self.events.recv_timeout(WAIT_LIMIT).expect("an event within the time limit")
    }

    /// Waits for the next datagram, and skips ends of rounds.
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

    /// Waits for the next datagram, and returns its text.
    #[track_caller]
    pub(super) fn text(&self) -> String {
        String::from_utf8_lossy(self.datagram().bytes()).into_owned()
    }

    #[track_caller]
    pub(super) fn texts(&self, n: usize) -> Vec<String> {
        (0..n).map(|_| self.text()).collect()
    }

    /// Returns the events that the test has not taken yet, without ends of rounds.
    pub(super) fn rest(&self) -> Vec<ChannelEvent> {
        self.events.try_iter().filter(|event| *event != ChannelEvent::RoundOver).collect()
    }
}
