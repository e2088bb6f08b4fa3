//! A subscriber that keeps the lines of a wire log, and a scenario in which every event occurs.

use std::fmt::{self, Write};
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, OnceLock};

use bytes::Bytes;
use tracing::field::{Field, Visit};
use tracing::{Event, Level, Metadata, Subscriber, span};
use waterwheel_channel::{ChannelOptions, ConnectTarget, WaterMarks};
use waterwheel_executor::Error;
use waterwheel_handlers::{WireLog, WireLogBuilder};
use waterwheel_testkit::embedded::{Embedded, EmbeddedBuilder};
use waterwheel_testkit::recorder::{Log, RecordedMethod};

/// Keeps the lines of one target, up to a level: `LEVEL target: field=value … message`, the channel's id as `N`.
#[derive(Clone)]
pub(crate) struct LineCollector {
    lines: Arc<Mutex<Vec<String>>>,
    max_level: Level,
    target: &'static str,
}

impl LineCollector {
    pub(crate) fn new(max_level: Level, target: &'static str) -> Self {
        drop(builder());
        Self { lines: Arc::default(), max_level, target }
    }

    pub(crate) fn take(&self) -> Vec<String> {
        std::mem::take(&mut *self.lines.lock().unwrap())
    }

    /// Calls `f` with this collector as the subscriber of the thread, and returns the lines.
    pub(crate) fn lines_of(&self, f: impl FnOnce()) -> Vec<String> {
        tracing::subscriber::with_default(self.clone(), f);
        self.take()
    }
}

impl Subscriber for LineCollector {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        metadata.target() == self.target && *metadata.level() <= self.max_level
    }

    fn new_span(&self, _: &span::Attributes<'_>) -> span::Id {
        span::Id::from_u64(1)
    }

    fn record(&self, _: &span::Id, _: &span::Record<'_>) {}

    fn record_follows_from(&self, _: &span::Id, _: &span::Id) {}

    fn event(&self, event: &Event<'_>) {
        let metadata = event.metadata();
        let mut line = FieldText(format!("{} {}:", metadata.level(), metadata.target()));
        event.record(&mut line);
        self.lines.lock().unwrap().push(line.0);
    }

    fn enter(&self, _: &span::Id) {}

    fn exit(&self, _: &span::Id) {}
}

struct FieldText(String);

impl Visit for FieldText {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        match field.name() {
            "message" => write!(self.0, " {value:?}").unwrap(),
            "channel" => {
                assert!(format!("{value:?}").parse::<u64>().is_ok(), "the id of a channel");
                self.0 += " channel=N";
            }
            name => write!(self.0, " {name}={value:?}").unwrap(),
        }
    }
}

pub(crate) const TARGET: &str = "wire test";

/// Returns a builder of wire logs for [`TARGET`].
///
/// `tracing` asks only the subscriber of the calling thread when a place is registered while one subscriber exists, so
/// a test without a subscriber could disable the log of another test. Therefore all places are registered once, before
/// the first subscriber of this program is installed.
pub(crate) fn builder() -> WireLogBuilder {
    static REGISTERED: OnceLock<()> = OnceLock::new();
    REGISTERED.get_or_init(|| {
        for level in [Level::ERROR, Level::WARN, Level::INFO, Level::DEBUG, Level::TRACE] {
            drop(WireLog::builder().level(level).target(TARGET).build());
        }
    });
    WireLog::builder().target(TARGET)
}

pub(crate) fn wire_log() -> WireLog {
    builder().build()
}

/// Returns the messages that a channel with this wire log alone logs: the lines without level, target and fields.
pub(crate) fn messages_of(wire_log: WireLog, f: impl FnOnce(&mut Embedded)) -> Vec<String> {
    let collector = LineCollector::new(Level::TRACE, TARGET);
    let lines = collector.lines_of(|| {
        let mut channel = Embedded::new(|edit| {
            edit.add_last("log", wire_log)?;
            Ok(())
        })
        .unwrap();
        collector.take();
        f(&mut channel);
    });
    let prefix = format!("DEBUG {TARGET}: channel=N ");
    lines.iter().map(|line| line.strip_prefix(&prefix).unwrap().to_owned()).collect()
}

pub(crate) fn address(text: &str) -> SocketAddr {
    text.parse().unwrap()
}

/// Lets every event of a channel occur, with `wire_log` between two recorders; returns the recorders' lines.
pub(crate) fn run_every_event(wire_log: Option<WireLog>) -> Vec<String> {
    let log = Log::new();
    let mut channel = unconnected().build(|edit| {
        // A disconnect would close the channel, and nothing would be left to close.
        edit.add_last("first", log.recorder().holds(RecordedMethod::Disconnect))?;
        if let Some(wire_log) = wire_log {
            edit.add_last("log", wire_log)?;
        }
        edit.add_last("last", log.recorder())?;
        Ok(())
    });
    let channel = channel.as_mut().unwrap();
    let target = ConnectTarget::from(address("192.0.2.7:80")).from_local(address("192.0.2.1:4000"));
    channel.on_loop(|channel| {
        channel.bind(address("192.0.2.1:4000")).add_listener(log.listener("bind"));
        channel.connect(target).add_listener(log.listener("connect"));
    });
    channel.run();
    channel.write_inbound(Bytes::from_static(b"hello"));
    channel.fire_user_event(7u32);
    channel.with_pipeline(|pipeline| pipeline.fire_error(Error::new("wrong")));
    channel.set_room(0);
    channel
        .write_outbound(Bytes::from_static(b"more than eight"))
        .add_listener(log.listener("write"));
    channel.set_room(usize::MAX);
    channel.on_loop(|channel| {
        channel.shutdown_output().add_listener(log.listener("shutdown_output"));
        channel.deregister().add_listener(log.listener("deregister"));
        channel.register().add_listener(log.listener("register"));
    });
    channel.run();
    channel.on_loop(|channel| {
        channel.disconnect().add_listener(log.listener("disconnect"));
        channel.close().add_listener(log.listener("close"));
    });
    channel.run();
    while let Some(message) = channel.read_outbound::<Bytes>() {
        log.push(format!("sent {}", message.escape_ascii()));
    }
    while let Some(message) = channel.read_inbound::<Bytes>() {
        log.push(format!("read {}", message.escape_ascii()));
    }
    log.push(format!("errors: {:?}", channel.read_error().map(|error| error.to_string())));
    log.take()
}

fn unconnected() -> EmbeddedBuilder {
    let options = ChannelOptions {
        water_marks: WaterMarks::new(4, 8).unwrap(),
        allow_half_closure: true,
        ..ChannelOptions::default()
    };
    Embedded::builder().unconnected().options(options)
}
