//! Where a case plays: loops, a server, clients, and handlers that tell the test what happens.

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

/// Longer than anything here takes, on a busy machine too; a case that waits so long fails.
pub(crate) const WAIT_LIMIT: Duration = Duration::from_secs(30);

/// So often a loop is asked whether something is as it should be, before that is given up.
const MAX_POLLS: usize = 1_000_000;

/// The loops of a case over one cell. They are shut down at its end.
pub(crate) struct TestBed<'c> {
    pub(crate) cell: &'c Cell,
    pub(crate) group: EventLoopGroup,
}

impl<'c> TestBed<'c> {
    pub(crate) fn new(cell: &'c Cell, threads: usize) -> Self {
        Self { cell, group: cell.group(threads) }
    }

    /// A server whose connections have this pipeline.
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
        get(server.bind(self.cell.unused_address())).expect("a server")
    }

    /// A server that sends everything back.
    #[track_caller]
    pub(crate) fn echo(&self) -> Channel {
        self.serve(ChannelOptions::default(), |edit| edit.add_last("echo", Echo).map(drop))
    }

    /// A server whose connections tell what happens to them.
    #[track_caller]
    pub(crate) fn tapped(&self, options: ChannelOptions) -> (Channel, EventLog) {
        let (tap, ear) = tap();
        (self.serve(options, move |edit| edit.add_last("tap", tap.clone()).map(drop)), ear)
    }

    /// A client that tells what happens to it.
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
        let (tap, ear) = tap();
        let client = self
            .cell
            .client(&self.group)
            .options(options)
            .initialiser(move |edit| Ok(edit.add_last("tap", tap.clone()).map(drop)?));
        let address = server.local_address().expect("a server is bound");
        (get(client.connect(address)).expect("a connection"), ear)
    }

    /// Everything that has happened by now to the channels of these loops is dealt with: each loop has
    /// served a connection that was made later. (One that watches its channels in a row serves them all
    /// in the turn in which it serves the last.) A loop that serves none but its own has run a task since: it
    /// looks for events before it does.
    #[track_caller]
    pub(crate) fn wait_until_idle(&self) {
        let server = self.echo();
        for _ in 0..2 * self.group.children().len() {
            let (client, mut ear) = self.client(&server);
            for _ in 0..3 {
                client.send(Bytes::from_static(b"settled?"));
                assert_eq!(ear.bytes(8), "settled?");
            }
            get(client.close()).expect("it closes");
        }
        get(server.close()).expect("it closes");
        for at in self.group.children() {
            get(at.submit(|| ()).expect("it runs")).expect("it was run");
        }
    }

    /// How many channels its loops have.
    #[track_caller]
    pub(crate) fn channels(&self) -> usize {
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

/// Shuts loops down.
pub(crate) fn end(group: &EventLoopGroup) -> SharedFuture<()> {
    group.shutdown_gracefully(Duration::ZERO, WAIT_LIMIT).expect("a sound shutdown")
}

/// Waits for a future, with a limit.
#[track_caller]
pub(crate) fn get<T: Send + 'static>(future: PromiseFuture<T>) -> Result<T, Error> {
    future.wait_timeout(WAIT_LIMIT).expect("it completes in time");
    future.join()
}

/// Waits until something is so, with a limit.
#[track_caller]
pub(crate) fn until(what: &str, mut holds: impl FnMut() -> bool) {
    for _ in 0..MAX_POLLS {
        if holds() {
            return;
        }
        std::thread::yield_now();
    }
    panic!("not in time: {what}");
}

/// Sends back what it gets, and ends when its peer does.
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
        Ok(()) // A peer may go as it likes.
    }
}

/// What happened to a channel.
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

/// The last handler of a pipeline: tells the test what happens. Clones tell the same one.
#[derive(Clone)]
pub(crate) struct EventTap(Arc<Sender<(ChannelId, ChannelEvent)>>);

/// The test's end of a [`EventTap`].
pub(crate) struct EventLog {
    told: Receiver<(ChannelId, ChannelEvent)>,
    /// Of a read that was longer than what was asked for.
    left: Bytes,
}

pub(crate) fn tap() -> (EventTap, EventLog) {
    let (tap, told) = channel();
    (EventTap(Arc::new(tap)), EventLog { told, left: Bytes::new() })
}

impl EventTap {
    fn tell(&self, ctx: &Ctx<'_>, told: ChannelEvent) -> HandlerResult {
        // A test that does not listen any more has its reasons.
        let _ = self.0.send((ctx.channel().id(), told));
        Ok(())
    }
}

impl Handler for EventTap {
    fn on_active(&mut self, ctx: &Ctx<'_>) -> HandlerResult {
        self.tell(ctx, ChannelEvent::Active(ctx.channel()))
    }

    fn on_read(&mut self, ctx: &Ctx<'_>, msg: Msg) -> HandlerResult {
        self.tell(ctx, ChannelEvent::Read(msg.into_bytes().expect("bytes are sent here")))
    }

    fn on_read_complete(&mut self, ctx: &Ctx<'_>) -> HandlerResult {
        self.tell(ctx, ChannelEvent::RoundOver)
    }

    fn on_user_event(&mut self, ctx: &Ctx<'_>, event: Msg) -> HandlerResult {
        match event.get::<HalfClosed>() {
            Some(half) => self.tell(ctx, ChannelEvent::Half(*half)),
            None if event.is::<PeerFinished>() => self.tell(ctx, ChannelEvent::PeerFinished),
            None => Ok(()),
        }
    }

    fn on_error(&mut self, ctx: &Ctx<'_>, error: Error) -> HandlerResult {
        self.tell(ctx, ChannelEvent::Failed(error))
    }

    fn on_inactive(&mut self, ctx: &Ctx<'_>) -> HandlerResult {
        self.tell(ctx, ChannelEvent::Inactive)
    }
}

impl EventLog {
    /// What is told next.
    #[track_caller]
    pub(crate) fn next(&mut self) -> (ChannelId, ChannelEvent) {
        self.told.recv_timeout(WAIT_LIMIT).expect("something is told in time")
    }

    /// What is told next, of what `wanted` finds something in.
    #[track_caller]
    pub(crate) fn find<R>(&mut self, mut wanted: impl FnMut(ChannelEvent) -> Option<R>) -> R {
        loop {
            if let Some(found) = wanted(self.next().1) {
                return found;
            }
        }
    }

    /// The next channel that becomes active.
    #[track_caller]
    pub(crate) fn channel(&mut self) -> Channel {
        self.find(|told| match told {
            ChannelEvent::Active(channel) => Some(channel),
            _ => None,
        })
    }

    /// The next so many bytes. Anything else that is told meanwhile is forgotten, but an end.
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

    /// All bytes until the channel is inactive.
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

    /// Waits until the channel is inactive, and tells what else there was, but reads.
    #[track_caller]
    pub(crate) fn ending(&mut self) -> Vec<String> {
        let mut told = Vec::new();
        loop {
            match self.next().1 {
                ChannelEvent::Half(half) => told.push(format!("{half:?}")),
                ChannelEvent::Failed(error) => told.push(error.to_string()),
                ChannelEvent::Inactive => return told,
                ChannelEvent::Active(_)
                | ChannelEvent::Read(_)
                | ChannelEvent::RoundOver
                | ChannelEvent::PeerFinished => {}
            }
        }
    }

    /// Nothing was read that has not been asked for here.
    #[track_caller]
    pub(crate) fn assert_nothing_read(&mut self) {
        assert!(self.left.is_empty(), "{} bytes were read", self.left.len());
        loop {
            match self.told.try_recv() {
                Ok((_, ChannelEvent::Read(bytes))) => panic!("{} bytes were read", bytes.len()),
                Ok(_) => {}
                Err(TryRecvError::Empty | TryRecvError::Disconnected) => return,
            }
        }
    }
}
