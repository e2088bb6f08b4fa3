//! Libraries log through `tracing`; their events become lines of the log.

use std::fmt::{self, Debug, Write};

use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Level, Metadata, Subscriber};

use super::gateway_log::{GatewayLog, LogKind};
use super::line::MAX_MESSAGE;
use crate::config::settings::LogLevel;

/// Writes events to the log. Spans are ignored: the libraries have none.
#[derive(Debug)]
pub struct LogSubscriber(GatewayLog);

impl LogSubscriber {
    /// Creates a subscriber, for [`tracing::subscriber::set_global_default`].
    #[must_use]
    pub fn new(log: GatewayLog) -> Self {
        Self(log)
    }
}

impl Subscriber for LogSubscriber {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        level_of(metadata.level()).is_some_and(|level| self.0.is_enabled(level))
    }

    fn event(&self, event: &Event<'_>) {
        let Some(level) = level_of(event.metadata().level()) else { return };
        let mut text = EventText { text: String::new() };
        event.record(&mut text);
        self.0.write(
            level,
            LogKind::Library,
            &text.text,
            &[("target", &event.metadata().target())],
        );
    }

    fn new_span(&self, _: &Attributes<'_>) -> Id {
        Id::from_u64(1) // Never recorded; zero is not allowed.
    }

    fn record(&self, _: &Id, _: &Record<'_>) {}

    fn record_follows_from(&self, _: &Id, _: &Id) {}

    fn enter(&self, _: &Id) {}

    fn exit(&self, _: &Id) {}
}

/// Returns the level of the log; `None` for traces, which are written for developers of the libraries.
fn level_of(level: &Level) -> Option<LogLevel> {
    match *level {
        Level::ERROR => Some(LogLevel::Error),
        Level::WARN => Some(LogLevel::Warn),
        Level::INFO => Some(LogLevel::Info),
        Level::DEBUG => Some(LogLevel::Debug),
        _ => None,
    }
}

/// The message of an event, and its other fields behind it. Cut off at the longest message.
struct EventText {
    text: String,
}

impl Visit for EventText {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        let name = field.name();
        let written = match (name, self.text.is_empty()) {
            ("message", true) => write!(self, "{value:?}"),
            ("message", false) => {
                let others = std::mem::take(&mut self.text);
                write!(self, "{value:?} {others}")
            }
            (_, is_first) => {
                let gap = if is_first { "" } else { " " };
                write!(self, "{gap}{name}={value:?}")
            }
        };
        // Fails where the text is cut off.
        let _ = written;
    }
}

impl Write for EventText {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        let room = MAX_MESSAGE.saturating_sub(self.text.len());
        let cut = text.floor_char_boundary(room);
        self.text.push_str(&text[..cut]);
        if cut < text.len() { Err(fmt::Error) } else { Ok(()) }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Mutex};

    use super::super::sink::LogSink;
    use super::*;
    use crate::config::settings::LogSettings;

    #[derive(Clone, Debug, Default)]
    struct Lines(Arc<Mutex<Vec<String>>>);

    impl LogSink for Lines {
        fn write(&self, line: &str) -> bool {
            self.0.lock().unwrap().push(line.to_owned());
            true
        }
    }

    #[test]
    fn g05_events_of_libraries_are_lines_of_the_log() {
        let lines = Lines::default();
        let log = GatewayLog::with_sink(LogSettings::default(), lines.clone());
        tracing::subscriber::with_default(LogSubscriber::new(log), || {
            tracing::warn!(target: "waterwheel", executor = "loop-1", "epoll_pwait2 {}", "unavailable");
            tracing::debug!("below the level");
            tracing::trace!("never");
            tracing::info!(long = "x".repeat(100_000), "cut");
        });
        let lines = lines.0.lock().unwrap();
        assert_eq!(lines.len(), 2, "{lines:?}");
        let rest = lines[0].split_once(" level=").unwrap().1;
        assert_eq!(
            rest,
            "warn kind=library message=\"epoll_pwait2 unavailable executor=\\\"loop-1\\\"\" target=waterwheel\n"
        );
        assert!(lines[1].len() < 2 * MAX_MESSAGE, "{}", lines[1].len());
    }
}
