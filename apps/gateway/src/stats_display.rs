//! Prints the statistics table once a second.

use std::sync::Arc;
use std::time::Duration;

use waterwheel::executor::{Clock, EventExecutor, MissedTicks, Nanos};
use waterwheel_gateway::gateway::Gateway;
use waterwheel_gateway::stats::{GatewaySnapshot, table};

use crate::console::Console;

const REFRESH_INTERVAL: Duration = Duration::from_secs(1);

/// Prints the table from a thread of its own until [`stop`](Self::stop).
pub(crate) struct StatsDisplay {
    executor: EventExecutor,
}

struct StatsPrinter {
    gateway: Arc<Gateway>,
    console: Console,
    /// True on a terminal, where each table overwrites the previous one.
    in_place: bool,
    clock: Clock,
    at: Nanos,
    before: GatewaySnapshot,
    /// Lines of the last table.
    lines_shown: usize,
    /// Other lines on the console when the last table was printed.
    other_lines: usize,
}

impl StatsDisplay {
    pub(crate) fn start(gateway: &Arc<Gateway>, console: &Console, in_place: bool) -> Option<Self> {
        let executor = EventExecutor::builder().name("board").build().ok()?;
        let clock = Clock::Monotonic;
        let mut printer = StatsPrinter {
            gateway: gateway.clone(),
            console: console.clone(),
            in_place,
            at: clock.now(),
            clock,
            before: GatewaySnapshot::of(gateway),
            lines_shown: 0,
            other_lines: console.lines(),
        };
        let print = move || printer.print_table();
        drop(
            executor
                .schedule_at_fixed_rate_with(
                    MissedTicks::Skip,
                    REFRESH_INTERVAL,
                    REFRESH_INTERVAL,
                    print,
                )
                .ok()?,
        );
        Some(Self { executor })
    }

    /// Stops the thread; nothing is printed after this returns.
    pub(crate) fn stop(self) {
        // Fails only if the thread has died.
        let _ = self.executor.shutdown().join();
    }
}

impl StatsPrinter {
    fn print_table(&mut self) {
        let (now, at) = (GatewaySnapshot::of(&self.gateway), self.clock.now());
        let text = table(&self.before, &now, at.since(self.at));
        (self.before, self.at) = (now, at);
        // A line that was printed below the last table stays, and the new table comes below it.
        let others = self.console.lines();
        let up = if others == self.other_lines { self.lines_shown } else { 0 };
        (self.lines_shown, self.other_lines) = (text.lines().count(), others);
        self.console.print(if self.in_place { overwrite(up, &text) } else { text });
    }
}

/// Returns terminal output that moves the cursor `up` lines and overwrites what is below with a table.
fn overwrite(up: usize, table: &str) -> String {
    // Cursor up (CUU), then erase to the end of the screen (ED).
    let erase = if up > 0 { format!("\x1b[{up}A\x1b[J") } else { String::new() };
    // Line wrap off (DECAWM) while the table is printed: a wrapped line would take two rows, and `up` would be too
    // small the next time.
    format!("{erase}\x1b[?7l{table}\x1b[?7h")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_table_overwrites_the_previous_one() {
        let printed = overwrite(0, "a\nb\n") + &overwrite(2, "c\nd\n");
        assert_eq!(printed, "\x1b[?7la\nb\n\x1b[?7h\x1b[2A\x1b[J\x1b[?7lc\nd\n\x1b[?7h");
    }
}
