//! A table of event loop statistics (O01).
//!
//! ```text
//! 2 clients, 2 users, 1 topic; 120 lines/s in, 240 out, 0 missed
//! loop       turns/s   io %  task %  by io  by task  by timer  queue  timers  channels     in/s    out/s
//! loop-1         361    1.2     0.4    120      240         1      0       3         2    2.4 K    4.7 K
//! ```
//!
//! With TLS, the first line also counts the handshakes so far: `; 2 TLS handshakes, 0 failed`.
//!
//! `turns/s` and the wake-ups by cause are counts of the last second. `io %` and `task %` are the shares of that second
//! spent on I/O events and on tasks; the rest was spent waiting. The other columns are current values.

use std::fmt::Write;
use std::time::Duration;

use waterwheel::channel::{EventLoop, EventLoopGroup};

use crate::gateway::Gateway;
use crate::line_counters::LineCounts;
use crate::registry::ClientCounts;
use crate::tls::handshake_monitor::HandshakeCounts;

/// The counters of the gateway at one time.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct GatewaySnapshot {
    /// Clients, users and topics.
    pub client_counts: ClientCounts,
    /// Lines so far.
    pub lines: LineCounts,
    /// Handshakes so far; `None` without TLS.
    pub handshakes: Option<HandshakeCounts>,
    /// Counters of each event loop.
    pub loops: Vec<LoopSnapshot>,
}

/// The counters of an event loop at one time.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct LoopSnapshot {
    /// Name of the loop.
    pub name: String,
    /// Turns so far.
    pub turns: u64,
    /// Time spent on I/O events.
    pub in_io: Duration,
    /// Time spent on tasks.
    pub in_tasks: Duration,
    /// Waits ended by I/O events.
    pub by_io: u64,
    /// Waits ended by tasks.
    pub by_task: u64,
    /// Waits ended by timers.
    pub by_timer: u64,
    /// Queued commands.
    pub queue: usize,
    /// Pending timers.
    pub timers: usize,
    /// Registered channels.
    pub channels: usize,
    /// Bytes read.
    pub bytes_in: u64,
    /// Bytes written.
    pub bytes_out: u64,
}

impl GatewaySnapshot {
    /// Reads the counters of a gateway.
    #[must_use]
    pub fn of(gateway: &Gateway) -> Self {
        Self {
            client_counts: gateway.client_counts(),
            lines: gateway.lines(),
            handshakes: gateway.tls().map(|tls| tls.handshakes()),
            loops: loop_snapshots(gateway.loops()),
        }
    }
}

fn loop_snapshots(loops: &EventLoopGroup) -> Vec<LoopSnapshot> {
    loops.children().map(|each| LoopSnapshot::of(&each)).collect()
}

impl LoopSnapshot {
    /// Reads the counters of an event loop.
    #[must_use]
    pub fn of(event_loop: &EventLoop) -> Self {
        let metrics = event_loop.metrics();
        Self {
            name: event_loop.name().to_owned(),
            turns: metrics.turns,
            in_io: metrics.time_in_io,
            in_tasks: metrics.time_in_tasks,
            by_io: metrics.wake_ups_by_io,
            by_task: metrics.wake_ups_by_task,
            by_timer: metrics.wake_ups_by_timer,
            queue: metrics.queue_depth,
            timers: metrics.timers,
            channels: metrics.channels,
            bytes_in: metrics.bytes_read,
            bytes_out: metrics.bytes_written,
        }
    }
}

/// Formats the difference of two snapshots, taken `elapsed` apart: a heading, a line of titles, a line for each loop.
#[must_use]
pub fn table(before: &GatewaySnapshot, now: &GatewaySnapshot, elapsed: Duration) -> String {
    let rate = |before: u64, now: u64| per_second(now.saturating_sub(before), elapsed);
    let ClientCounts { clients, users, topics } = now.client_counts;
    let received = rate(before.lines.received, now.lines.received);
    let delivered = rate(before.lines.delivered, now.lines.delivered);
    let missed = now.lines.missed;
    let handshakes = now.handshakes.map(|handshakes| format!("; {handshakes}")).unwrap_or_default();
    let mut table = format!(
        "{}, {}, {}; {received} lines/s in, {delivered} out, {missed} missed{handshakes}\n\
         {:<10} {:>7} {:>6} {:>7} {:>6} {:>8} {:>9} {:>6} {:>7} {:>9} {:>8} {:>8}\n",
        count(clients, "client"),
        count(users, "user"),
        count(topics, "topic"),
        "loop",
        "turns/s",
        "io %",
        "task %",
        "by io",
        "by task",
        "by timer",
        "queue",
        "timers",
        "channels",
        "in/s",
        "out/s",
    );
    let unknown = LoopSnapshot::default();
    for (at, now) in now.loops.iter().enumerate() {
        let before = before.loops.get(at).unwrap_or(&unknown);
        let written = writeln!(
            table,
            "{:<10} {:>7} {:>6.1} {:>7.1} {:>6} {:>8} {:>9} {:>6} {:>7} {:>9} {:>8} {:>8}",
            now.name,
            rate(before.turns, now.turns),
            percent(before.in_io, now.in_io, elapsed),
            percent(before.in_tasks, now.in_tasks, elapsed),
            rate(before.by_io, now.by_io),
            rate(before.by_task, now.by_task),
            rate(before.by_timer, now.by_timer),
            now.queue,
            now.timers,
            now.channels,
            bytes(rate(before.bytes_in, now.bytes_in)),
            bytes(rate(before.bytes_out, now.bytes_out)),
        );
        debug_assert!(written.is_ok(), "a string takes everything");
    }
    table
}

fn count(n: usize, what: &str) -> String {
    format!("{n} {what}{}", if n == 1 { "" } else { "s" })
}

fn per_second(n: u64, elapsed: Duration) -> u64 {
    (n as f64 / elapsed.as_secs_f64().max(0.001)).round() as u64
}

fn percent(before: Duration, now: Duration, elapsed: Duration) -> f64 {
    100.0 * now.saturating_sub(before).as_secs_f64() / elapsed.as_secs_f64().max(0.001)
}

/// Formats a number of bytes in units of 1024, with one decimal if a unit is shown.
fn bytes(n: u64) -> String {
    let units = ["K", "M", "G", "T"];
    let mut value = n as f64;
    if n < 1024 {
        return n.to_string();
    }
    for unit in units {
        value /= 1024.0;
        if value < 1024.0 || unit == "T" {
            return format!("{value:.1} {unit}");
        }
    }
    unreachable!("the last unit takes everything")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_have_units() {
        let of =
            [(0, "0"), (1023, "1023"), (1024, "1.0 K"), (1 << 20, "1.0 M"), (3 << 29, "1.5 G")];
        for (n, shown) in of {
            assert_eq!(bytes(n), shown);
        }
        assert_eq!(bytes(u64::MAX), "16777216.0 T");
    }

    #[test]
    fn o01_the_table_shows_the_difference_of_two_snapshots() {
        let before = GatewaySnapshot {
            client_counts: ClientCounts::default(),
            lines: LineCounts { received: 100, delivered: 100, missed: 0 },
            handshakes: None,
            loops: vec![LoopSnapshot { turns: 1000, by_io: 10, ..LoopSnapshot::default() }],
        };
        let now = GatewaySnapshot {
            client_counts: ClientCounts { clients: 2, users: 2, topics: 1 },
            lines: LineCounts { received: 220, delivered: 340, missed: 12 },
            handshakes: None,
            loops: vec![
                LoopSnapshot {
                    name: "loop-1".into(),
                    turns: 1361,
                    in_io: Duration::from_millis(12),
                    in_tasks: Duration::from_millis(4),
                    by_io: 130,
                    by_task: 240,
                    by_timer: 1,
                    queue: 0,
                    timers: 3,
                    channels: 2,
                    bytes_in: 2458,
                    bytes_out: 4813,
                },
                LoopSnapshot { name: "loop-2".into(), channels: 1, ..LoopSnapshot::default() },
            ],
        };
        let expected = "\
2 clients, 2 users, 1 topic; 120 lines/s in, 240 out, 12 missed
loop       turns/s   io %  task %  by io  by task  by timer  queue  timers  channels     in/s    out/s
loop-1         361    1.2     0.4    120      240         1      0       3         2    2.4 K    4.7 K
loop-2           0    0.0     0.0      0        0         0      0       0         1        0        0
";
        assert_eq!(table(&before, &now, Duration::from_secs(1)), expected);
        let slow = table(&before, &now, Duration::from_secs(2));
        assert!(slow.contains("60 lines/s in, 120 out, 12 missed\n"), "{slow}");
        let handshakes = Some(HandshakeCounts { done: 7, failed: 1 });
        let tls = table(&before, &GatewaySnapshot { handshakes, ..now }, Duration::from_secs(1));
        assert!(tls.contains(" 12 missed; 7 TLS handshakes, 1 failed\n"), "{tls}");
    }
}
