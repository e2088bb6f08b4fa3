//! Detectors of small protocols, whose pipelines are recorders.

use bytes::Bytes;
use waterwheel_channel::{ChannelOptions, Edit, Events};
use waterwheel_executor::Error;
use waterwheel_handlers::{Detection, Probe, ProtocolDetector, ProtocolDetectorBuilder};
use waterwheel_testkit::embedded::{Embedded, EmbeddedBuilder};
use waterwheel_testkit::recorder::Log;

/// Matches connections that begin with this text.
pub(crate) fn begins(prefix: &'static str) -> impl Probe {
    move |bytes: &[u8]| Detection::of_prefix(bytes, prefix.as_bytes())
}

/// Returns an initialiser that adds a recorder of inbound events at the back.
pub(crate) fn record(
    log: &Log,
    name: &'static str,
) -> impl Fn(&mut Edit<'_>) -> Result<(), Error> + Send + Sync + 'static {
    let log = log.clone();
    move |edit| {
        edit.add_last(name, log.recorder().interest(inbound()))?;
        Ok(())
    }
}

/// Inbound events without those of the registration.
pub(crate) fn inbound() -> Events {
    Events::ACTIVE
        | Events::INACTIVE
        | Events::READ
        | Events::READ_COMPLETE
        | Events::USER_EVENT
        | Events::ERROR
}

/// Returns a builder with the protocols `red` and `green`, which begin with their names.
pub(crate) fn colours(log: &Log) -> ProtocolDetectorBuilder {
    ProtocolDetector::builder().protocol("red", begins("red"), record(log, "red")).protocol(
        "green",
        begins("green"),
        record(log, "green"),
    )
}

/// A stream channel whose only handler is the detector. Panics and unhandled errors are lines of `faults`.
pub(crate) struct Bench {
    pub(crate) channel: Embedded,
    pub(crate) log: Log,
    pub(crate) faults: Log,
}

impl Bench {
    pub(crate) fn new(make: impl FnOnce(&Log) -> ProtocolDetectorBuilder) -> Self {
        Self::with(Embedded::builder().stream(), make)
    }

    pub(crate) fn with_options(
        options: ChannelOptions,
        make: impl FnOnce(&Log) -> ProtocolDetectorBuilder,
    ) -> Self {
        Self::with(Embedded::builder().stream().options(options), make)
    }

    fn with(builder: EmbeddedBuilder, make: impl FnOnce(&Log) -> ProtocolDetectorBuilder) -> Self {
        let (log, faults) = (Log::new(), Log::new());
        let detector = make(&log).build().unwrap();
        let builder = builder.reporter(std::sync::Arc::new(faults.clone()));
        let channel = builder.build(|edit| {
            edit.add_last("detect", detector)?;
            Ok(())
        });
        Self { channel: channel.unwrap(), log, faults }
    }

    /// Sends bytes as one round of reads.
    pub(crate) fn send(&mut self, bytes: &'static str) {
        self.channel.write_inbound(Bytes::from_static(bytes.as_bytes()));
    }

    /// Takes the lines of the log.
    pub(crate) fn lines(&self) -> Vec<String> {
        self.log.take()
    }

    /// Takes the error that passed all handlers.
    pub(crate) fn error(&mut self) -> String {
        self.channel.read_error().expect("an error").to_string()
    }

    pub(crate) fn is_open(&self) -> bool {
        self.channel.channel().is_open()
    }

    /// Counts the timers of the loop.
    pub(crate) fn timers(&mut self) -> usize {
        self.channel.run();
        self.channel.channel().event_loop().metrics().timers
    }

    pub(crate) fn names(&mut self) -> Vec<String> {
        self.channel.with_pipeline(|pipeline| pipeline.names()).unwrap_or_default()
    }
}

/// Lines of a handler that was added, became active, and read these bytes in a round.
pub(crate) fn taken_over(name: &str, bytes: &str) -> Vec<String> {
    let lines = ["on_added", "on_active", &format!("on_read {bytes}"), "on_read_complete"];
    lines.map(|line| format!("{name} {line}")).into()
}
