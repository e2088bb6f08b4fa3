//! The log: levels, kinds, and a throttle for each kind.

use std::fmt::{self, Display};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError, RwLock};
use std::time::SystemTime;

use waterwheel::executor::{Clock, Fault, Nanos, Report, Reporter};

use super::line::{LogField, LogLine};
use super::sink::{LogSink, StandardError};
use crate::access::rate::{RateLimit, TokenBucket};
use crate::config::settings::{LogLevel, LogSettings};

/// The limit of each kind of line that a peer can cause: 86,400 lines a day, about 20 MB.
const THROTTLE: RateLimit = RateLimit { per_second: 1, burst: 32 };

/// The kinds of lines. Each is limited by itself, so that none hides another.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum LogKind {
    /// Start, take-over, drain, end.
    Lifecycle,
    /// The configuration, and its reload.
    Config,
    /// User code that panicked.
    Panicked,
    /// An error that nobody handled, of a connection or a client.
    Unhandled,
    /// Something that is not available, and that the gateway does without.
    Degraded,
    /// Work that holds a loop.
    Slow,
    /// The events of libraries, through `tracing`.
    Library,
}

impl LogKind {
    /// All kinds, in the order of their declaration.
    pub const ALL: [Self; 7] = [
        Self::Lifecycle,
        Self::Config,
        Self::Panicked,
        Self::Unhandled,
        Self::Degraded,
        Self::Slow,
        Self::Library,
    ];

    /// Returns the name.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Lifecycle => "lifecycle",
            Self::Config => "config",
            Self::Panicked => "panicked",
            Self::Unhandled => "unhandled",
            Self::Degraded => "degraded",
            Self::Slow => "slow",
            Self::Library => "library",
        }
    }
}

/// The log of a gateway. Clones write to the same log.
///
/// Any thread writes. The settings are copied under a lock for reading; each throttle has a lock, held for a few instructions;
/// values are formatted and written without a lock.
#[derive(Clone)]
pub struct GatewayLog(Arc<LogShared>);

struct LogShared {
    sink: Box<dyn LogSink>,
    settings: RwLock<LogSettings>,
    kinds: [KindState; LogKind::ALL.len()],
}

struct KindState {
    throttle: Mutex<Throttle>,
    written: AtomicU64,
    suppressed: AtomicU64,
}

struct Throttle {
    bucket: TokenBucket,
    /// Lines that were left out since the last one that was written.
    suppressed: u64,
}

/// The number of lines of one kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LogCounts {
    /// The kind.
    pub kind: LogKind,
    /// Lines that were written.
    pub written: u64,
    /// Lines that were left out: too many, or no room.
    pub suppressed: u64,
}

impl GatewayLog {
    /// Creates a log on standard error.
    #[must_use]
    pub fn new(settings: LogSettings) -> Self {
        Self::with_sink(settings, StandardError)
    }

    /// Creates a log whose lines go to a sink.
    #[must_use]
    pub fn with_sink(settings: LogSettings, sink: impl LogSink + 'static) -> Self {
        let kinds = LogKind::ALL.map(|_| KindState {
            throttle: Mutex::new(Throttle { bucket: TokenBucket::new(THROTTLE), suppressed: 0 }),
            written: AtomicU64::new(0),
            suppressed: AtomicU64::new(0),
        });
        Self(Arc::new(LogShared { sink: Box::new(sink), settings: RwLock::new(settings), kinds }))
    }

    /// Replaces the settings.
    pub fn set(&self, settings: LogSettings) {
        *self.0.settings.write().unwrap_or_else(PoisonError::into_inner) = settings;
    }

    /// True if lines of this level are written.
    #[must_use]
    pub fn is_enabled(&self, level: LogLevel) -> bool {
        level <= self.settings().level
    }

    /// Writes a line, unless its level is not enabled or there were too many of its kind.
    pub fn write(
        &self,
        level: LogLevel,
        kind: LogKind,
        message: &dyn Display,
        fields: &[LogField<'_>],
    ) {
        let settings = self.settings();
        if level > settings.level {
            return;
        }
        let state = &self.0.kinds[kind as usize];
        let Some(suppressed) = state.admit(Clock::Monotonic.now()) else { return };
        #[allow(clippy::disallowed_methods, reason = "the time of day, for people; orders nothing")]
        let time = SystemTime::now();
        let line = LogLine { time, level, kind, message, fields, suppressed };
        match self.0.sink.write(&line.format(settings.format)) {
            true => state.count_written(),
            false => state.count_dropped(suppressed + 1),
        }
    }

    /// Returns the numbers of lines of each kind.
    #[must_use]
    pub fn counts(&self) -> [LogCounts; LogKind::ALL.len()] {
        LogKind::ALL.map(|kind| {
            let state = &self.0.kinds[kind as usize];
            let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
            LogCounts { kind, written: read(&state.written), suppressed: read(&state.suppressed) }
        })
    }

    fn settings(&self) -> LogSettings {
        *self.0.settings.read().unwrap_or_else(PoisonError::into_inner)
    }
}

impl KindState {
    /// Returns the number of lines that were left out before this one; `None` if this one is left out too.
    fn admit(&self, now: Nanos) -> Option<u64> {
        let mut throttle = self.throttle.lock().unwrap_or_else(PoisonError::into_inner);
        if throttle.bucket.try_take(1, now).is_err() {
            throttle.suppressed += 1;
            self.suppressed.fetch_add(1, Ordering::Relaxed);
            return None;
        }
        Some(std::mem::take(&mut throttle.suppressed))
    }

    fn count_written(&self) {
        self.written.fetch_add(1, Ordering::Relaxed);
    }

    /// Counts a line that had no room, and those that it was to tell of.
    fn count_dropped(&self, lines: u64) {
        self.suppressed.fetch_add(1, Ordering::Relaxed);
        self.throttle.lock().unwrap_or_else(PoisonError::into_inner).suppressed += lines;
    }
}

/// The faults that loops survive, as lines.
impl Reporter for GatewayLog {
    fn report(&self, report: &Report<'_>) {
        let Report { executor, fault } = report;
        let (level, kind) = match fault {
            Fault::Panicked { .. } => (LogLevel::Error, LogKind::Panicked),
            Fault::Unhandled(_) => (LogLevel::Warn, LogKind::Unhandled),
            Fault::Slow(_) => (LogLevel::Warn, LogKind::Slow),
            Fault::Degraded(_) => (LogLevel::Warn, LogKind::Degraded),
            _ => (LogLevel::Error, LogKind::Degraded),
        };
        self.write(level, kind, fault, &[("executor", executor)]);
    }
}

impl fmt::Debug for GatewayLog {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("GatewayLog").field("settings", &self.settings()).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicBool;

    use super::*;
    use crate::config::settings::LogFormat;

    /// Keeps the lines; refuses them while it is full.
    #[derive(Clone, Debug, Default)]
    struct KeptLines {
        lines: Arc<Mutex<Vec<String>>>,
        is_full: Arc<AtomicBool>,
    }

    impl LogSink for KeptLines {
        fn write(&self, line: &str) -> bool {
            let has_room = !self.is_full.load(Ordering::Relaxed);
            if has_room {
                self.lines.lock().unwrap().push(line.to_owned());
            }
            has_room
        }
    }

    fn log() -> (GatewayLog, KeptLines) {
        let kept = KeptLines::default();
        (GatewayLog::with_sink(LogSettings::default(), kept.clone()), kept)
    }

    #[test]
    fn g05_lines_below_the_level_are_not_written_until_it_is_changed() {
        let (log, kept) = log();
        log.write(LogLevel::Debug, LogKind::Lifecycle, &"first", &[]);
        assert!(!log.is_enabled(LogLevel::Debug) && log.is_enabled(LogLevel::Info));
        log.set(LogSettings { format: LogFormat::Json, level: LogLevel::Debug });
        log.write(LogLevel::Debug, LogKind::Lifecycle, &"second", &[]);
        let lines = kept.lines.lock().unwrap();
        assert!(lines.len() == 1 && lines[0].contains("\"message\":\"second\""), "{lines:?}");
    }

    #[test]
    fn r04_a_flood_of_one_kind_is_cut_off_counted_and_hides_no_other_kind() {
        let (log, kept) = log();
        for n in 0..10_000 {
            let fault = Fault::Unhandled(format!("connection of 192.0.2.1:{n} closed"));
            log.report(&Report { executor: "loop-1", fault });
        }
        // The burst, and one line for each second that the test takes.
        let written = kept.lines.lock().unwrap().len();
        assert!((32..60).contains(&written), "{written}");
        log.report(&Report { executor: "loop-1", fault: Fault::Degraded("epoll_pwait2".into()) });
        assert!(kept.lines.lock().unwrap().last().unwrap().contains("kind=degraded"));
        let counts = log.counts()[LogKind::Unhandled as usize];
        assert_eq!(counts.kind, LogKind::Unhandled);
        assert_eq!(counts.written + counts.suppressed, 10_000);
    }

    #[test]
    fn r04_a_line_tells_how_many_of_its_kind_were_left_out() {
        let kind = KindState {
            throttle: Mutex::new(Throttle { bucket: TokenBucket::new(THROTTLE), suppressed: 0 }),
            written: AtomicU64::new(0),
            suppressed: AtomicU64::new(0),
        };
        let second = |n: u64| Nanos(n * 1_000_000_000);
        let admitted = (0..100).filter(|_| kind.admit(second(5)) == Some(0)).count();
        assert_eq!(admitted, 32);
        assert_eq!(kind.admit(second(6)), Some(68));
        assert_eq!(kind.admit(second(6)), None);
        assert_eq!(kind.admit(second(7)), Some(1));
    }

    #[test]
    fn r04_a_line_without_room_is_dropped_and_told_of_later() {
        let (log, kept) = log();
        kept.is_full.store(true, Ordering::Relaxed);
        log.write(LogLevel::Info, LogKind::Config, &"lost", &[]);
        kept.is_full.store(false, Ordering::Relaxed);
        log.write(LogLevel::Info, LogKind::Config, &"kept", &[]);
        let lines = kept.lines.lock().unwrap();
        assert!(lines[0].ends_with(" message=kept suppressed=1\n"), "{lines:?}");
        let counts = log.counts()[LogKind::Config as usize];
        assert_eq!((counts.written, counts.suppressed), (1, 1));
    }
}
