//! How far a scenario is: a bar on a terminal, plain lines elsewhere. On standard error, by the main thread.

use std::io::{self, IsTerminal, Write};
use std::sync::mpsc::SyncSender;
use std::time::Duration;

use waterwheel::executor::{Clock, Nanos};

use crate::report::figure::with_separators;

/// Cells of the bar.
const BAR_CELLS: usize = 24;

/// The least time between two pictures of the bar.
const REDRAW: Duration = Duration::from_millis(100);

/// The least time between two plain lines of the same phase.
const NEXT_LINE: Duration = Duration::from_secs(5);

/// A step of a scenario. One phase at a time sends notes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ProgressNote {
    /// The name of the step, such as "connecting".
    pub(crate) phase: &'static str,
    pub(crate) done: u64,
    /// Zero if there is nothing to count.
    pub(crate) all: u64,
}

/// Sends notes from the loop to the thread that shows them. Notes that it does not take in time are dropped.
#[derive(Clone, Debug)]
pub(crate) struct ProgressSender(SyncSender<ProgressNote>);

impl ProgressSender {
    /// Returns the end for the scenario.
    pub(crate) fn new(notes: SyncSender<ProgressNote>) -> Self {
        Self(notes)
    }

    /// Notes a step.
    pub(crate) fn note(&self, phase: &'static str, done: u64, all: u64) {
        let _ = self.0.try_send(ProgressNote { phase, done, all });
    }
}

/// Shows notes.
pub(crate) struct ProgressDisplay {
    is_quiet: bool,
    is_terminal: bool,
    shown: Option<(ProgressNote, Nanos)>,
}

impl ProgressDisplay {
    /// Returns a display on standard error; a quiet one shows nothing.
    pub(crate) fn new(is_quiet: bool) -> Self {
        Self { is_quiet, is_terminal: io::stderr().is_terminal(), shown: None }
    }

    /// Shows a note, if the last one was shown long enough ago or was of another phase.
    pub(crate) fn show(&mut self, note: &ProgressNote) {
        let now = Clock::Monotonic.now();
        let pause = if self.is_terminal { REDRAW } else { NEXT_LINE };
        let is_due = self.shown.as_ref().is_none_or(|(last, at)| {
            let is_news = last.phase != note.phase || note.done == note.all;
            (is_news && last != note) || now.since(*at) >= pause
        });
        if self.is_quiet || !is_due {
            return;
        }
        self.shown = Some((note.clone(), now));
        let line = if self.is_terminal { bar(note) } else { format!("{}\n", plain(note)) };
        // Fails if nobody reads; the results are what counts.
        let _ = io::stderr().write_all(line.as_bytes());
    }

    /// Removes the bar.
    pub(crate) fn end(&mut self) {
        if !self.is_quiet && self.is_terminal && self.shown.is_some() {
            let _ = io::stderr().write_all(b"\r\x1b[K");
        }
    }
}

fn plain(note: &ProgressNote) -> String {
    if note.all == 0 {
        return note.phase.to_owned();
    }
    let (done, all) = (with_separators(note.done as f64), with_separators(note.all as f64));
    format!("{}: {done} of {all}", note.phase)
}

/// Returns the text that replaces the line of the terminal.
fn bar(note: &ProgressNote) -> String {
    if note.all == 0 {
        return format!("\r\x1b[K{}", note.phase);
    }
    let share = note.done as f64 / note.all as f64;
    let full = ((share * BAR_CELLS as f64) as usize).min(BAR_CELLS);
    let cells = format!("{}{}", "#".repeat(full), ".".repeat(BAR_CELLS - full));
    format!("\r\x1b[K[{cells}] {}", plain(note))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn g09_the_bar_fills_with_what_is_done() {
        let note = |done| ProgressNote { phase: "connecting", done, all: 2_000 };
        assert!(bar(&note(0)).ends_with("[........................] connecting: 0 of 2,000"));
        assert!(bar(&note(1_000)).contains("[############............]"));
        assert!(bar(&note(3_000)).contains("[########################]"));
        assert_eq!(plain(&note(1_500)), "connecting: 1,500 of 2,000");
        let uncounted = ProgressNote { phase: "holding", done: 0, all: 0 };
        assert_eq!(
            (plain(&uncounted), bar(&uncounted)),
            ("holding".into(), "\r\x1b[Kholding".into())
        );
    }
}
