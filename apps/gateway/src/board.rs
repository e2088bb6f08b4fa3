//! The table on the terminal, once a second.

use std::sync::Arc;
use std::time::Duration;

use waterwheel::executor::{Clock, EventExecutor, MissedTicks, Nanos};
use waterwheel_gateway::gateway::Gateway;
use waterwheel_gateway::stats::{Snapshot, table};

use crate::console::Console;

const EVERY: Duration = Duration::from_secs(1);

/// Shows the table, from a thread of its own, until it is taken down.
pub(crate) struct Board {
    executor: EventExecutor,
}

struct Page {
    gateway: Arc<Gateway>,
    console: Console,
    /// On a terminal a table takes the place of the one before.
    in_place: bool,
    clock: Clock,
    at: Nanos,
    before: Snapshot,
    lines_shown: usize,
}

impl Board {
    pub(crate) fn show(gateway: &Arc<Gateway>, console: &Console, in_place: bool) -> Option<Self> {
        let executor = EventExecutor::builder().name("board").build().ok()?;
        let clock = Clock::Monotonic;
        let mut page = Page {
            gateway: gateway.clone(),
            console: console.clone(),
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
        let lines = shown.lines().count();
        self.console.print(if self.in_place { over(self.lines_shown, &shown) } else { shown });
        self.lines_shown = lines;
    }
}

/// A table for a terminal, so many lines further up.
fn over(up: usize, table: &str) -> String {
    // Up, and everything below is wiped out.
    let wipe = if up > 0 { format!("\x1b[{up}A\x1b[J") } else { String::new() };
    // Cut off at the edge meanwhile: on a narrow terminal a line would take two, and up would be too short.
    format!("{wipe}\x1b[?7l{table}\x1b[?7h")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_table_takes_the_place_of_the_one_before() {
        let printed = over(0, "a\nb\n") + &over(2, "c\nd\n");
        assert_eq!(printed, "\x1b[?7la\nb\n\x1b[?7h\x1b[2A\x1b[J\x1b[?7lc\nd\n\x1b[?7h");
    }
}
