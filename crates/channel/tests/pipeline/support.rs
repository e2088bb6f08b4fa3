//! An embedded channel with its log and its reports, and more channels on the same loop.

use std::io;
use std::ops::{Deref, DerefMut};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use waterwheel_channel::driver::{Detach, ReadPlan, Submit};
use waterwheel_channel::transport::{Outbound, Transport, TransportContext};
use waterwheel_channel::{
    Address, Channel, Ctx, Edit, HandlerResult, LocalLoop, Message, NewChannel, Types,
};
use waterwheel_executor::Error;
use waterwheel_testkit::embedded::{Embedded, EmbeddedBuilder};
use waterwheel_testkit::recorder::{Log, show};

/// An embedded channel whose handlers write to a log.
pub(crate) struct PipelineFixture {
    pub(crate) log: Log,
    pub(crate) reports: Log,
    channel: Embedded,
}

/// Builds a channel with this pipeline. The log starts with its opening events.
pub(crate) fn fixture(
    make: impl FnOnce(&mut Edit<'_>, &Log) -> Result<(), Error>,
) -> PipelineFixture {
    fixture_with(Embedded::builder(), make)
}

/// Builds a channel with options of `builder`. The log starts with its opening events.
pub(crate) fn fixture_with(
    builder: EmbeddedBuilder,
    make: impl FnOnce(&mut Edit<'_>, &Log) -> Result<(), Error>,
) -> PipelineFixture {
    let (log, reports) = (Log::new(), Log::new());
    let channel = builder.reporter(Arc::new(reports.clone())).build(|edit| make(edit, &log));
    PipelineFixture { channel: channel.expect("the channel can be built"), log, reports }
}

/// Builds a channel, runs it, and clears the opening events from the log.
pub(crate) fn started_fixture(
    make: impl FnOnce(&mut Edit<'_>, &Log) -> Result<(), Error>,
) -> PipelineFixture {
    let mut fixture = fixture(make);
    fixture.run();
    drop(fixture.log.take());
    fixture
}

impl PipelineFixture {
    /// Takes the messages sent since the last call, as text.
    pub(crate) fn sent(&mut self) -> Vec<String> {
        std::iter::from_fn(|| self.read_outbound_any()).map(|msg| show(&msg)).collect()
    }

    /// Takes the messages that reached the tail since the last call, as text.
    pub(crate) fn passed(&mut self) -> Vec<String> {
        std::iter::from_fn(|| self.read_inbound_any()).map(|msg| show(&msg)).collect()
    }

    /// Takes the errors that reached the tail since the last call, as text.
    pub(crate) fn errors(&mut self) -> Vec<String> {
        std::iter::from_fn(|| self.read_error()).map(|error| error.to_string()).collect()
    }

    /// Registers another channel on the same loop. Each write to its transport is logged as `<label> sends …`.
    pub(crate) fn another(
        &mut self,
        label: &str,
        make: impl FnOnce(&mut Edit<'_>) -> Result<(), Error>,
    ) -> Result<Channel, Error> {
        let sink = LoggingTransport { log: self.log.clone(), label: label.to_owned() };
        let made = self.on_loop(|_| {
            let here = LocalLoop::current().expect("the closure runs on the loop");
            here.register_with(NewChannel::new(sink), make)
        });
        self.run();
        made
    }

    /// Calls `f` with the channel inside one call into it: its operations run before the events they cause.
    pub(crate) fn ask(&mut self, f: impl FnOnce(&Channel, &Log)) {
        let (channel, log) = (self.channel().clone(), self.log.clone());
        self.with_pipeline(|_| f(&channel, &log));
    }

    pub(crate) fn names(&mut self) -> Vec<String> {
        self.with_pipeline(|pipeline| pipeline.names()).unwrap_or_default()
    }
}

impl Deref for PipelineFixture {
    type Target = Embedded;

    fn deref(&self) -> &Embedded {
        &self.channel
    }
}

impl DerefMut for PipelineFixture {
    fn deref_mut(&mut self) -> &mut Embedded {
        &mut self.channel
    }
}

/// Schedules a timer; for a recorder at
/// [`RecordedMethod::Added`](waterwheel_testkit::recorder::RecordedMethod::Added).
pub(crate) fn start_timer(ctx: &Ctx<'_>) -> HandlerResult {
    ctx.schedule(TIMER, 7);
    Ok(())
}

const TIMER: Duration = Duration::from_secs(10);

/// Triggers every method of a handler, if it lives that long. The first handler must hold the disconnect,
/// which would close the channel.
pub(crate) fn trigger_every_method(fixture: &mut PipelineFixture) {
    fixture.write_inbound(text("in"));
    fixture.on_loop(|channel| {
        channel.fire_user_event(text("event"));
        drop(channel.bind(Address::local("here")));
        drop(channel.connect(Address::local("there")));
        // One byte above the high-water mark, so that the writability changes twice.
        drop(channel.write(bytes(64 * 1024 + 1)));
        channel.flush();
        drop(channel.deregister());
        drop(channel.register());
    });
    fixture.on_loop(|channel| drop(channel.shutdown_output()));
    fixture.with_pipeline(|pipeline| pipeline.fire_error(error("error")));
    fixture.advance(TIMER);
    fixture.on_loop(|channel| drop(channel.disconnect()));
    fixture.close();
}

/// Returns a message of bytes.
pub(crate) fn text(text: &'static str) -> Bytes {
    Bytes::from_static(text.as_bytes())
}

/// Returns `len` bytes.
pub(crate) fn bytes(len: usize) -> Bytes {
    Bytes::from(vec![b'x'; len])
}

pub(crate) fn error(text: &str) -> Error {
    Error::new(text.to_owned())
}

/// A message of size zero.
pub(crate) struct ZeroSized;

impl Message for ZeroSized {}

/// A transport that logs its writes and keeps neither unhandled messages nor errors.
struct LoggingTransport {
    log: Log,
    label: String,
}

impl Transport for LoggingTransport {
    fn name(&self) -> &'static str {
        "sink"
    }

    fn reads(&self) -> Types {
        Types::of::<Bytes>()
    }

    fn accepts(&self) -> Types {
        Types::of::<Bytes>()
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
        let sent: Vec<_> = std::iter::from_fn(|| outbound.take()).map(|msg| show(&msg)).collect();
        self.log.push(format!("{} sends {}", self.label, sent.join(" ")));
        Ok(Submit::Done(sent.len()))
    }

    fn close(&mut self, _: &TransportContext) -> Detach {
        Detach::Done
    }
}
