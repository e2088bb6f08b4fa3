//! A line of the log: time, level, kind, message and fields, as logfmt or JSON.

use std::fmt::{self, Display, Write};
use std::time::{Duration, SystemTime};

use super::gateway_log::LogKind;
use crate::config::settings::{LogFormat, LogLevel};

/// Maximum length of a message in bytes, before escapes.
pub const MAX_MESSAGE: usize = 1024;

/// Maximum length of a field in bytes, before escapes.
pub const MAX_FIELD: usize = 256;

/// Maximum number of fields; more are left out.
pub const MAX_FIELDS: usize = 6;

/// Maximum length of a line (PIPE_BUF): a pipe takes it as a whole.
pub const MAX_LINE: usize = 4096;

/// A field of a line: name and value.
pub type LogField<'a> = (&'static str, &'a dyn Display);

/// The facts of a line.
pub(super) struct LogLine<'a> {
    pub(super) time: SystemTime,
    pub(super) level: LogLevel,
    pub(super) kind: LogKind,
    pub(super) message: &'a dyn Display,
    pub(super) fields: &'a [LogField<'a>],
    /// Lines of this kind that were left out before this one.
    pub(super) suppressed: u64,
}

impl LogLine<'_> {
    /// Returns the line with its end.
    pub(super) fn format(&self, format: LogFormat) -> String {
        // Escapes make a text up to six times as long. A line over the limit is formatted again with a quarter of each text.
        let mut share = 1;
        loop {
            let line = self.format_with(format, MAX_MESSAGE / share, MAX_FIELD / share);
            if line.len() <= MAX_LINE {
                return line;
            }
            share *= 4;
        }
    }

    fn format_with(&self, format: LogFormat, message: usize, field: usize) -> String {
        let mut line = LineWriter { text: String::with_capacity(256), format };
        line.begin();
        line.add("time", &Timestamp(self.time), 64);
        line.add("level", &self.level.name(), 16);
        line.add("kind", &self.kind.name(), 16);
        line.add("message", self.message, message);
        for (name, value) in self.fields.iter().take(MAX_FIELDS) {
            line.add(name, *value, field);
        }
        if self.suppressed > 0 {
            line.add("suppressed", &self.suppressed, 32);
        }
        line.end()
    }
}

impl LogLevel {
    /// Returns the name.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Error => "error",
            Self::Warn => "warn",
            Self::Info => "info",
            Self::Debug => "debug",
        }
    }
}

struct LineWriter {
    text: String,
    format: LogFormat,
}

impl LineWriter {
    fn begin(&mut self) {
        if self.format == LogFormat::Json {
            self.text.push('{');
        }
    }

    fn add(&mut self, name: &str, value: &dyn Display, limit: usize) {
        if self.text.len() > 1 {
            self.text.push(if self.format == LogFormat::Json { ',' } else { ' ' });
        }
        match self.format {
            LogFormat::Json => {
                self.text.extend(["\"", name, "\":\""]);
                self.add_escaped(value, limit);
                self.text.push('"');
            }
            LogFormat::Logfmt => {
                self.text.extend([name, "="]);
                let start = self.text.len();
                self.add_escaped(value, limit);
                let value = &self.text[start..];
                let is_plain = !value.is_empty()
                    && value.chars().all(|c| !c.is_whitespace() && !['=', '"', '\\'].contains(&c));
                if !is_plain {
                    self.text.insert(start, '"');
                    self.text.push('"');
                }
            }
        }
    }

    /// Adds at most `limit` bytes of a value. The value stops being formatted where it is cut off.
    fn add_escaped(&mut self, value: &dyn Display, limit: usize) {
        let mut escaped = Escaped { line: self, left: limit };
        if write!(escaped, "{value}").is_err() {
            self.text.push('…');
        }
    }

    fn end(mut self) -> String {
        if self.format == LogFormat::Json {
            self.text.push('}');
        }
        self.text.push('\n');
        self.text
    }
}

struct Escaped<'a> {
    line: &'a mut LineWriter,
    left: usize,
}

impl Write for Escaped<'_> {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        for c in text.chars() {
            self.left = self.left.checked_sub(c.len_utf8()).ok_or(fmt::Error)?;
            let line = &mut self.line.text;
            match c {
                '"' | '\\' => line.extend(['\\', c]),
                '\n' => line.push_str("\\n"),
                '\r' => line.push_str("\\r"),
                '\t' => line.push_str("\\t"),
                // All of these are below U+10000: four digits, as JSON has them.
                c if needs_escape(c) => write!(line, "\\u{:04x}", u32::from(c))?,
                c => line.push(c),
            }
        }
        Ok(())
    }
}

/// True for control characters, and for those that end a line or change the direction of text.
fn needs_escape(c: char) -> bool {
    let directions = ['\u{200e}'..='\u{200f}', '\u{2028}'..='\u{202e}', '\u{2066}'..='\u{2069}'];
    c.is_control() || directions.iter().any(|range| range.contains(&c))
}

/// A time as RFC 3339 has it, in UTC, with milliseconds.
struct Timestamp(SystemTime);

impl Display for Timestamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let since = self.0.duration_since(SystemTime::UNIX_EPOCH).unwrap_or(Duration::ZERO);
        let (seconds, millis) = (since.as_secs(), since.subsec_millis());
        let (year, month, day) = date_of(seconds / 86_400);
        let [h, m, s] = [seconds / 3600 % 24, seconds / 60 % 60, seconds % 60];
        write!(f, "{year:04}-{month:02}-{day:02}T{h:02}:{m:02}:{s:02}.{millis:03}Z")
    }
}

/// Returns the date of a day since 1970, by eras of 400 years that begin on a 1st of March.
fn date_of(day: u64) -> (u64, u64, u64) {
    const DAYS_FROM_YEAR_0: u64 = 719_468;
    const DAYS_OF_ERA: u64 = 146_097;
    let (era, day) =
        ((day + DAYS_FROM_YEAR_0) / DAYS_OF_ERA, (day + DAYS_FROM_YEAR_0) % DAYS_OF_ERA);
    let year = (day - day / 1460 + day / 36_524 - day / 146_096) / 365;
    let day = day - (365 * year + year / 4 - year / 100);
    let month = (5 * day + 2) / 153;
    let day = day - (153 * month + 2) / 5 + 1;
    let month = if month < 10 { month + 3 } else { month - 9 };
    (era * 400 + year + u64::from(month <= 2), month, day)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(message: &str, fields: &[LogField<'_>], format: LogFormat) -> String {
        let time = SystemTime::UNIX_EPOCH + Duration::from_millis(1_000_000_000_123);
        let (level, kind) = (LogLevel::Warn, LogKind::Unhandled);
        LogLine { time, level, kind, message: &message, fields, suppressed: 0 }.format(format)
    }

    #[test]
    fn g05_a_line_is_logfmt_or_an_object_of_json() {
        let fields: [LogField<'_>; 2] = [("peer", &"192.0.2.1"), ("path", &"/a b")];
        assert_eq!(
            line("it \"failed\"", &fields, LogFormat::Logfmt),
            "time=2001-09-09T01:46:40.123Z level=warn kind=unhandled message=\"it \\\"failed\\\"\" peer=192.0.2.1 \
             path=\"/a b\"\n"
        );
        let json = line("it \"failed\"", &fields, LogFormat::Json);
        let object: serde_json::Value = serde_json::from_str(&json).unwrap();
        assert_eq!(object["message"], "it \"failed\"");
        assert_eq!((&object["level"], &object["path"]), (&"warn".into(), &"/a b".into()));
        assert!(line("", &[], LogFormat::Logfmt).ends_with(" message=\"\"\n"));
    }

    #[test]
    fn r04_peers_cannot_make_lines_or_steer_a_terminal() {
        let evil = "a\nlevel=error\r\x1b[2J\u{7f}\u{9b}\u{202e}gnp\t\0";
        for format in [LogFormat::Logfmt, LogFormat::Json] {
            let line = line(evil, &[("peer", &evil)], format);
            assert_eq!(line.matches('\n').count(), 1, "{line}");
            assert!(line.trim_end().chars().all(|c| !needs_escape(c)), "{line}");
            if format == LogFormat::Json {
                let object: serde_json::Value = serde_json::from_str(&line).unwrap();
                assert_eq!((&object["message"], &object["peer"]), (&evil.into(), &evil.into()));
            }
        }
    }

    #[test]
    fn r04_a_line_has_a_longest_length_whatever_its_texts_are() {
        for text in ["x", "\0", "漢", "\"", "\u{202e}"] {
            let long = text.repeat(1_000_000);
            let fields: Vec<LogField<'_>> =
                (0..20).map(|_| ("field", &long as &dyn Display)).collect();
            for format in [LogFormat::Logfmt, LogFormat::Json] {
                let line = line(&long, &fields, format);
                assert!(line.len() <= MAX_LINE && line.contains('…'), "{} {text:?}", line.len());
                if format == LogFormat::Json {
                    assert!(serde_json::from_str::<serde_json::Value>(&line).is_ok());
                }
            }
        }
    }

    #[test]
    fn g05_dates_are_those_of_the_calendar() {
        let of = [
            (0, (1970, 1, 1)),
            (58, (1970, 2, 28)),
            (59, (1970, 3, 1)),
            (11_016, (2000, 2, 29)),
            (11_017, (2000, 3, 1)),
            (20_776, (2026, 11, 19)),
            (47_540, (2100, 2, 28)),
            (47_541, (2100, 3, 1)),
        ];
        for (day, date) in of {
            assert_eq!(date_of(day), date, "{day}");
        }
    }
}
