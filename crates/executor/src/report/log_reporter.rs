//! The default reporter: writes to `tracing`, or to standard error without a subscriber.
//!
//! 1. Reports are written to the `tracing` subscriber of this thread; without one, to standard error, so that
//!    a program that installed nothing still shows its faults. This is checked for each report, because a
//!    subscriber may be installed at any time.
//! 2. Reports of each kind of fault are limited by [`BURST`] and [`INTERVAL`] in both cases: a fault that a peer
//!    can cause over and over must neither fill a log nor hide another kind of fault.
//! 3. A report is one line of at most [`MAX_LINE`] bytes with control characters escaped, because an error may
//!    quote bytes that a peer sent.
//! 4. Nothing here panics, and nothing waits for standard error: a line that does not fit into the pipe is
//!    dropped, and counted.

use std::fmt::{self, Write};
use std::io;
use std::os::fd::AsFd;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use tracing::dispatcher;
use tracing::subscriber::NoSubscriber;

use crate::clock::Clock;
use crate::report::burst_limit::BurstLimit;
use crate::report::{Fault, Report, Reporter};

/// How many reports of one kind are written in a burst.
const BURST: u32 = 32;

/// The interval between reports of one kind after the burst: at most 86,400 lines a day, about 20 MB.
const INTERVAL: Duration = Duration::from_secs(1);

/// The longest line. A pipe that has room for anything has room for 4 KiB (PIPE_BUF), so a line never blocks
/// and is never torn.
const MAX_LINE: usize = 1024;

/// Writes reports to `tracing` (target `waterwheel`; [slow](Fault::Slow) work as a warning, everything else as
/// an error), or to standard error while no `tracing` subscriber is installed. The default of every executor.
///
/// At most 32 reports of a kind are written at once, and one a second after that; the next line that is written
/// says how many were left out. A line has at most 1 KiB, with control characters escaped.
///
/// To see reports elsewhere, install a subscriber or give the builder your own [`Reporter`]. A reporter that does
/// nothing silences them:
///
/// ```
/// use std::sync::Arc;
/// use waterwheel_executor::{EventExecutor, Report};
///
/// let silent = EventExecutor::builder().reporter(Arc::new(|_: &Report<'_>| {})).build()?;
/// # drop(silent);
/// # Ok::<(), waterwheel_executor::BuildError>(())
/// ```
#[derive(Clone, Copy, Debug, Default)]
pub struct LogReporter;

impl Reporter for LogReporter {
    fn report(&self, report: &Report<'_>) {
        let Report { executor, fault } = report;
        let limit = limit_of(fault);
        let Some(suppressed) = limit.admit(Clock::Monotonic.now()) else { return };
        let line = OneLine::of(fault, suppressed);
        if !has_subscriber() {
            if !write_to_stderr(executor, &line) {
                limit.add_suppressed(suppressed + 1);
            }
        } else if matches!(fault, Fault::Slow(_)) {
            tracing::warn!(target: "waterwheel", executor, "{line}");
        } else {
            tracing::error!(target: "waterwheel", executor, "{line}");
        }
    }
}

/// Returns the rate limit for this kind of fault.
fn limit_of(fault: &Fault) -> &'static BurstLimit {
    static PANICKED: BurstLimit = BurstLimit::new(BURST, INTERVAL);
    static UNHANDLED: BurstLimit = BurstLimit::new(BURST, INTERVAL);
    static SLOW: BurstLimit = BurstLimit::new(BURST, INTERVAL);
    static OTHER: BurstLimit = BurstLimit::new(BURST, INTERVAL);
    match fault {
        Fault::Panicked { .. } => &PANICKED,
        Fault::Unhandled(_) => &UNHANDLED,
        Fault::Slow(_) => &SLOW,
        _ => &OTHER,
    }
}

/// True if this thread has a `tracing` subscriber.
fn has_subscriber() -> bool {
    dispatcher::get_default(|subscriber| !subscriber.is::<NoSubscriber>())
}

/// Writes a line if poll says that standard error has room for it. One write call carries the whole line. Does
/// not take the lock of [`io::Stderr`], which another thread may hold while it waits for room.
fn write_to_stderr(executor: &str, line: &OneLine) -> bool {
    let text = format!("waterwheel: {executor}: {line}\n");
    let stderr = io::stderr();
    let mut ready = [PollFd::new(&stderr, PollFlags::OUT)];
    let at_once = Timespec { tv_sec: 0, tv_nsec: 0 };
    let has_room =
        poll(&mut ready, Some(&at_once)).is_ok() && ready[0].revents().contains(PollFlags::OUT);
    has_room && rustix::io::write(stderr.as_fd(), text.as_bytes()).is_ok()
}

/// A text with line ends and control characters escaped, cut off at [`MAX_LINE`] bytes.
struct OneLine(String);

impl OneLine {
    fn of(fault: &Fault, suppressed: u64) -> Self {
        let mut line = Self(String::new());
        // The write fails where the text is cut off.
        let _ = write!(line, "{fault}");
        if suppressed > 0 {
            line.0 += &format!(" ({suppressed} reports before this one were not shown)");
        }
        line
    }
}

impl Write for OneLine {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        for c in text.chars() {
            let before = self.0.len();
            if needs_escape(c) {
                self.0.extend(c.escape_default());
            } else {
                self.0.push(c);
            }
            if self.0.len() > MAX_LINE {
                self.0.truncate(before);
                self.0.push('…');
                return Err(fmt::Error);
            }
        }
        Ok(())
    }
}

impl fmt::Display for OneLine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// True for control characters, and for those that end a line or change the direction of text.
fn needs_escape(c: char) -> bool {
    let directions = ['\u{200e}'..='\u{200f}', '\u{2028}'..='\u{202e}', '\u{2066}'..='\u{2069}'];
    c.is_control() || directions.iter().any(|range| range.contains(&c))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(text: impl Into<String>) -> String {
        OneLine::of(&Fault::Unhandled(text.into()), 0).to_string()
    }

    #[test]
    fn r04_what_a_peer_sent_is_escaped_in_a_report() {
        assert_eq!(line("a\nb\r\x1b[2J\u{7f}\u{9b}"), "a\\nb\\r\\u{1b}[2J\\u{7f}\\u{9b}");
        assert_eq!(line("\u{202e}gnp.exe\u{2028}"), "\\u{202e}gnp.exe\\u{2028}");
        assert_eq!(line("\"größer\" \\ 'als' 漢字"), "\"größer\" \\ 'als' 漢字");
    }

    #[test]
    fn r04_a_report_is_cut_off_at_the_longest_line() {
        const LONG: usize = if cfg!(miri) { 2 * MAX_LINE } else { 1_000_000 };
        assert_eq!(line("x".repeat(MAX_LINE)).len(), MAX_LINE);
        let cut = line("x".repeat(LONG));
        assert!(cut.ends_with("x…") && cut.chars().count() == MAX_LINE + 1, "{}", cut.len());
        let cut = line("\n".repeat(LONG));
        assert!(cut.ends_with("\\n…") && cut.len() <= MAX_LINE + '…'.len_utf8(), "{}", cut.len());
        assert!(line("漢".repeat(LONG)).len() <= MAX_LINE + '…'.len_utf8());
    }

    #[test]
    fn r04_a_report_says_how_many_before_it_were_not_shown() {
        let line = OneLine::of(&Fault::Unhandled(String::from("no")), 7).to_string();
        assert_eq!(line, "no (7 reports before this one were not shown)");
    }
}
