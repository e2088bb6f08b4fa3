//! The table on the terminal, once a second.

use std::io::{self, Write};
use std::sync::Arc;
use std::time::Duration;

use waterwheel::executor::{Clock, EventExecutor, MissedTicks, Nanos};
use waterwheel_gateway::gateway::Gateway;
use waterwheel_gateway::stats::{Snapshot, table};

const EVERY: Duration = Duration::from_secs(1);

/// Shows the table, from a thread of its own, until it is taken down.
pub(crate) struct Board {
    executor: EventExecutor,
}

struct Page {
    gateway: Arc<Gateway>,
    /// On a terminal a table takes the place of the one before.
    in_place: bool,
    clock: Clock,
    at: Nanos,
    before: Snapshot,
    lines_shown: usize,
}

impl Board {
    pub(crate) fn show(gateway: &Arc<Gateway>, in_place: bool) -> Option<Self> {
        let executor = EventExecutor::builder().name("board").build().ok()?;
        let clock = Clock::Monotonic;
        let mut page = Page {
            gateway: gateway.clone(),
            in_place,
            at: clock.now(),
            clock,
            before: Snapshot::of(gateway),
            lines_shown: 0,
        };
        let turn = move || page.turn();
        drop(executor.schedule_at_fixed_rate_with(MissedTicks::Skip, EVERY, EVERY, turn).ok()?);
        Some(Self { executor })
    }

    /// Nothing more is shown when this returns.
    pub(crate) fn take_down(self) {
        // It fails only if the thread has died.
        let _ = self.executor.shutdown().join();
    }
}

impl Page {
    fn turn(&mut self) {
        let (now, at) = (Snapshot::of(&self.gateway), self.clock.now());
        let shown = table(&self.before, &now, at.since(self.at));
        (self.before, self.at) = (now, at);
        let mut out = io::stdout().lock();
        let up = if self.in_place { self.lines_shown } else { 0 };
        self.lines_shown = shown.lines().count();
        // Whoever does not listen any more is not told.
        let _ = print(&mut out, up, &shown);
    }
}

/// Prints a table, so many lines further up.
fn print(out: &mut impl Write, up: usize, table: &str) -> io::Result<()> {
    if up > 0 {
        write!(out, "\x1b[{up}A\x1b[J")?; // Up, and everything below is wiped out.
    }
    out.write_all(table.as_bytes())?;
    out.flush()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_table_takes_the_place_of_the_one_before() {
        let mut out = Vec::new();
        print(&mut out, 0, "a\nb\n").unwrap();
        print(&mut out, 2, "c\nd\n").unwrap();
        assert_eq!(String::from_utf8(out).unwrap(), "a\nb\n\x1b[2A\x1b[Jc\nd\n");
    }
}
