//! The test bed of a case: loops, servers, clients, and handlers that send events to the test.

use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, TryRecvError, channel};
use std::time::Duration;

use bytes::Bytes;
use waterwheel::channel::{
    Channel, ChannelId, ChannelOptions, Ctx, Edit, EventLoopGroup, HalfClosed, Handler,
    HandlerResult, Msg, PeerFinished, PipelineError,
};
use waterwheel::executor::{Error, PromiseFuture, SharedFuture};

use crate::cell::Cell;

/// Limit of every wait: far longer than a busy machine needs.
pub(crate) const WAIT_LIMIT: Duration = Duration::from_secs(30);

/// Maximum number of polls of a condition before a case fails.
const MAX_POLLS: usize = 1_000_000;

/// The loops of a case over one cell. Dropping the test bed shuts them down.
pub(crate) struct TestBed<'c> {
    pub(crate) cell: &'c Cell,
    pub(crate) group: EventLoopGroup,
}

impl<'c> TestBed<'c> {
    pub(crate) fn new(cell: &'c Cell, threads: usize) -> Self {
        Self { cell, group: cell.group(threads) }
    }

    /// Binds a server whose accepted channels get this pipeline.
    #[track_caller]
    pub(crate) fn serve(
        &self,
        options: ChannelOptions,
        initialiser: impl Fn(&mut Edit<'_>) -> Result<(), PipelineError> + Send + Sync + 'static,
    ) -> Channel {
        let server = self
            .cell
            .server(&self.group)
            .child_options(options)
            .child_initialiser(move |edit| Ok(initialiser(edit)?));
        get(server.bind(self.cell.unused_address())).expect("the server is bound")
    }

    /// Binds an echo server.
    #[track_caller]
    pub(crate) fn echo(&self) -> Channel {
        self.serve(ChannelOptions::default(), |edit| edit.add_last("echo", Echo).map(drop))
    }

    /// Binds a server whose accepted channels log their events.
    #[track_caller]
    pub(crate) fn tapped(&self, options: ChannelOptions) -> (Channel, EventLog) {
        let (tap, events) = tap();
        (self.serve(options, move |edit| edit.add_last("tap", tap.clone()).map(drop)), events)
    }

    /// Connects a client that logs its events.
    #[track_caller]
    pub(crate) fn client(&self, server: &Channel) -> (Channel, EventLog) {
        self.client_with(server, ChannelOptions::default())
    }

    #[track_caller]
    pub(crate) fn client_with(
        &self,
        server: &Channel,
        options: ChannelOptions,
    ) -> (Channel, EventLog) {
        let (tap, events) = tap();
        let client = self
            .cell
            .client(&self.group)
            .options(options)
            .initialiser(move |edit| Ok(edit.add_last("tap", tap.clone()).map(drop)?));
        let address = server.local_address().expect("the server is bound");
        (get(client.connect(address)).expect("the connection is made"), events)
    }

    /// Waits until the loops have handled every event that is pending now: each loop serves a connection that was made
    /// later. (A loop that polls its channels in a row serves all of them in the turn in which it serves the last.) A
    /// loop with a single channel runs a task instead: it polls for events before it runs tasks.
    #[track_caller]
    pub(crate) fn wait_until_idle(&self) {
        let server = self.echo();
        for _ in 0..2 * self.group.children().len() {
            let (client, mut events) = self.client(&server);
            for _ in 0..3 {
                client.send(Bytes::from_static(b"settled?"));
                assert_eq!(events.bytes(8), "settled?");
            }
            get(client.close()).expect("the channel closes");
        }
        get(server.close()).expect("the channel closes");
        for at in self.group.children() {
            get(at.submit(|| ()).expect("the loop accepts tasks")).expect("the task ran");
        }
    }

    /// Returns how many channels are registered with the loops.
    #[track_caller]
    pub(crate) fn channels(&self) -> usize {
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

/// Shuts loops down without a quiet period.
pub(crate) fn shut_down(group: &EventLoopGroup) -> SharedFuture<()> {
    group.shutdown_gracefully(Duration::ZERO, WAIT_LIMIT).expect("valid shutdown times")
}

/// Waits for a future with a limit, and returns its result.
#[track_caller]
pub(crate) fn get<T: Send + 'static>(future: PromiseFuture<T>) -> Result<T, Error> {
    future.wait_timeout(WAIT_LIMIT).expect("the future completes in time");
    future.join()
}

/// Waits until a condition holds, with a limit.
#[track_caller]
pub(crate) fn wait_until(what: &str, mut holds: impl FnMut() -> bool) {
    for _ in 0..MAX_POLLS {
        if holds() {
            return;
        }
        std::thread::yield_now();
    }
    panic!("timed out waiting until {what}");
}

/// Echoes bytes.
pub(crate) struct Echo;

impl Handler for Echo {
    fn on_read(&mut self, ctx: &Ctx<'_>, msg: Msg) -> HandlerResult {
        ctx.write(msg);
        Ok(())
    }

    fn on_read_complete(&mut self, ctx: &Ctx<'_>) -> HandlerResult {
        ctx.flush();
        Ok(())
    }

    fn on_error(&mut self, _: &Ctx<'_>, _: Error) -> HandlerResult {
        Ok(()) // Resets by the peer are expected.
    }
}

/// An event of a channel.
#[derive(Debug)]
pub(crate) enum ChannelEvent {
    Active(Channel),
    Read(Bytes),
    RoundOver,
    Half(HalfClosed),
    PeerFinished,
    Failed(Error),
    Inactive,
}

/// The last handler of a pipeline: sends the channel's events to the test's [`EventLog`]. Clones share the log.
#[derive(Clone)]
pub(crate) struct EventTap(Arc<Sender<(ChannelId, ChannelEvent)>>);

/// The receiving end of an [`EventTap`].
pub(crate) struct EventLog {
    events: Receiver<(ChannelId, ChannelEvent)>,
    /// Bytes of a read beyond those that the test asked for.
    left: Bytes,
}

pub(crate) fn tap() -> (EventTap, EventLog) {
    let (tap, events) = channel();
    (EventTap(Arc::new(tap)), EventLog { events, left: Bytes::new() })
}

impl EventTap {
    fn send(&self, ctx: &Ctx<'_>, event: ChannelEvent) -> HandlerResult {
        // The test may have dropped the log.
        let _ = self.0.send((ctx.channel().id(), event));
        Ok(())
    }
}

impl Handler for EventTap {
    fn on_active(&mut self, ctx: &Ctx<'_>) -> HandlerResult {
        self.send(ctx, ChannelEvent::Active(ctx.channel()))
    }

    fn on_read(&mut self, ctx: &Ctx<'_>, msg: Msg) -> HandlerResult {
        self.send(ctx, ChannelEvent::Read(msg.into_bytes().expect("the message is bytes")))
    }

    fn on_read_complete(&mut self, ctx: &Ctx<'_>) -> HandlerResult {
        self.send(ctx, ChannelEvent::RoundOver)
    }

    fn on_user_event(&mut self, ctx: &Ctx<'_>, event: Msg) -> HandlerResult {
        match event.get::<HalfClosed>() {
            Some(half) => self.send(ctx, ChannelEvent::Half(*half)),
            None if event.is::<PeerFinished>() => self.send(ctx, ChannelEvent::PeerFinished),
            None => Ok(()),
        }
    }

    fn on_error(&mut self, ctx: &Ctx<'_>, error: Error) -> HandlerResult {
        self.send(ctx, ChannelEvent::Failed(error))
    }

    fn on_inactive(&mut self, ctx: &Ctx<'_>) -> HandlerResult {
        self.send(ctx, ChannelEvent::Inactive)
    }
}

impl EventLog {
    /// Waits for the next event.
    #[track_caller]
    pub(crate) fn next(&mut self) -> (ChannelId, ChannelEvent) {
        self.events.recv_timeout(WAIT_LIMIT).expect("an event within the time limit")
    }

    /// Waits for the next event for which `wanted` returns a value, and skips the others.
    #[track_caller]
    pub(crate) fn find<R>(&mut self, mut wanted: impl FnMut(ChannelEvent) -> Option<R>) -> R {
        loop {
            if let Some(found) = wanted(self.next().1) {
                return found;
            }
        }
    }

    /// Waits for the next channel that becomes active.
    #[track_caller]
    pub(crate) fn channel(&mut self) -> Channel {
        self.find(|event| match event {
            ChannelEvent::Active(channel) => Some(channel),
            _ => None,
        })
    }

    /// Waits for the next `len` bytes and skips other events; panics if the channel fails or closes before.
    #[track_caller]
    pub(crate) fn bytes(&mut self, len: usize) -> Bytes {
        let mut read = std::mem::take(&mut self.left).to_vec();
        while read.len() < len {
            match self.next().1 {
                ChannelEvent::Read(bytes) => read.extend_from_slice(&bytes),
                end @ (ChannelEvent::Failed(_) | ChannelEvent::Inactive) => {
                    panic!("{end:?} after {} of {len} bytes", read.len());
                }
                _ => {}
            }
        }
        let mut read = Bytes::from(read);
        self.left = read.split_off(len);
        read
    }

    /// Returns all bytes until the channel is inactive.
    #[track_caller]
    pub(crate) fn rest(&mut self) -> Bytes {
        let mut read = std::mem::take(&mut self.left).to_vec();
        loop {
            match self.next().1 {
                ChannelEvent::Read(bytes) => read.extend_from_slice(&bytes),
                ChannelEvent::Failed(error) => panic!("{error} after {} bytes", read.len()),
                ChannelEvent::Inactive => return read.into(),
                _ => {}
            }
        }
    }

    /// Waits until the channel is inactive, and returns the half-closes and errors before that.
    #[track_caller]
    pub(crate) fn ending(&mut self) -> Vec<String> {
        let mut seen = Vec::new();
        loop {
            match self.next().1 {
                ChannelEvent::Half(half) => seen.push(format!("{half:?}")),
                ChannelEvent::Failed(error) => seen.push(error.to_string()),
                ChannelEvent::Inactive => return seen,
                ChannelEvent::Active(_)
                | ChannelEvent::Read(_)
                | ChannelEvent::RoundOver
                | ChannelEvent::PeerFinished => {}
            }
        }
    }

    /// Asserts that no bytes were read beyond those the test has taken.
    #[track_caller]
    pub(crate) fn assert_nothing_read(&mut self) {
        assert!(self.left.is_empty(), "{} unexpected bytes were read", self.left.len());
        loop {
            match self.events.try_recv() {
                Ok((_, ChannelEvent::Read(bytes))) => {
                    panic!("{} unexpected bytes were read", bytes.len())
                }
                Ok(_) => {}
                Err(TryRecvError::Empty | TryRecvError::Disconnected) => return,
            }
        }
    }
}
