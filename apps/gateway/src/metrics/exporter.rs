//! The families of `/metrics`.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use waterwheel::channel::LoopMetrics;
use waterwheel::http::HttpMetrics;

use super::counters::GatewayCounts;
use super::process::ProcessFigures;
use super::prometheus::FamilyType::{Counter, Gauge, Histogram};
use super::prometheus::{HistogramFigures, PrometheusText};
use crate::client_protocol::ClientProtocol;
use crate::engine::EngineStatus;
use crate::error_code::ErrorCode;
use crate::log::gateway_log::LogCounts;

/// The figures of a gateway at one time.
#[derive(Clone, Debug)]
pub struct GatewayFigures {
    /// The version of the program.
    pub version: &'static str,
    /// The start of the gateway, since 1970.
    pub started_at: Duration,
    /// True while the gateway drains.
    pub is_draining: bool,
    /// The names and counters of the loops.
    pub loops: Vec<(String, LoopMetrics)>,
    /// Clients, commands and publications.
    pub counts: GatewayCounts,
    /// The name of the engine.
    pub engine_name: &'static str,
    /// The state of the engine.
    pub engine: EngineStatus,
    /// Requests of HTTP.
    pub http: HttpMetrics,
    /// TLS handshakes that succeeded and that failed; `None` without TLS.
    pub handshakes: Option<(u64, u64)>,
    /// Lines of the log.
    pub log: Vec<LogCounts>,
    /// The process.
    pub process: ProcessFigures,
}

/// Renders figures as text.
///
/// Keeps the highest time that each loop has spent waiting: the loop computes it from counters that are read one after the
/// other, and it may look a little smaller the next time; monitoring would take a counter that sinks for a restart. Any thread
/// renders; the lock is held for a comparison per loop.
#[derive(Debug, Default)]
pub struct MetricsExporter {
    waited: Mutex<Vec<Duration>>,
}

impl MetricsExporter {
    /// Returns the text of `/metrics`.
    #[must_use]
    pub fn render(&self, figures: &GatewayFigures) -> String {
        let mut text = PrometheusText::default();
        add_process(&mut text, figures);
        add_loops(&mut text, &figures.loops, &self.waited(&figures.loops));
        add_http(&mut text, &figures.http);
        add_clients(&mut text, &figures.counts);
        add_engine(&mut text, figures.engine_name, &figures.engine);
        if let Some((done, failed)) = figures.handshakes {
            text.family("waterwheel_tls_handshakes_total", Counter, "TLS handshakes by result")
                .sample(&[("result", "done")], done)
                .sample(&[("result", "failed")], failed);
        }
        add_log(&mut text, &figures.log);
        text.into_text()
    }

    fn waited(&self, loops: &[(String, LoopMetrics)]) -> Vec<Duration> {
        let mut waited = self.waited.lock().unwrap_or_else(PoisonError::into_inner);
        let known = waited.len();
        waited.resize(loops.len().max(known), Duration::ZERO);
        for (waited, (_, now)) in waited.iter_mut().zip(loops) {
            *waited = now.time_waiting.max(*waited);
        }
        waited.clone()
    }
}

fn add_process(text: &mut PrometheusText, figures: &GatewayFigures) {
    text.family("waterwheel_build_info", Gauge, "The version of the gateway; always 1")
        .sample(&[("version", figures.version)], 1);
    text.family("waterwheel_draining", Gauge, "1 while the gateway drains")
        .sample(&[], u8::from(figures.is_draining));
    let process = &figures.process;
    text.family("process_start_time_seconds", Gauge, "Start of the gateway since 1970")
        .seconds(&[], figures.started_at);
    text.family("process_cpu_seconds_total", Counter, "CPU time of all threads")
        .seconds(&[], process.cpu);
    let known = [
        ("process_resident_memory_bytes", "Resident memory", process.resident_bytes),
        ("process_open_fds", "Open file descriptors", process.open_descriptors),
        ("process_max_fds", "Limit of file descriptors", process.max_descriptors),
    ];
    for (name, help, value) in known {
        if let Some(value) = value {
            text.family(name, Gauge, help).sample(&[], value);
        }
    }
}

/// A family with a sample for each loop: name, help, value.
type LoopFamily = (&'static str, &'static str, fn(&LoopMetrics) -> u64);

const LOOP_COUNTERS: [LoopFamily; 10] = [
    ("waterwheel_loop_turns_total", "Turns of the loop", |of| of.turns),
    (
        "waterwheel_loop_premature_series_total",
        "Times that more than three waits in a row ended early",
        |of| of.premature_series,
    ),
    ("waterwheel_loop_selector_rebuilds_total", "Times that the selector was replaced", |of| {
        of.rebuilds
    }),
    ("waterwheel_loop_ready_events_total", "Events dispatched", |of| of.ready_events),
    ("waterwheel_loop_tasks_total", "Tasks and timers run", |of| of.tasks),
    ("waterwheel_loop_future_polls_total", "Polls of futures", |of| of.futures_polled),
    (
        "waterwheel_loop_refused_connections_total",
        "Accepted connections that a guard has refused",
        |of| of.refused_connections,
    ),
    ("waterwheel_loop_read_bytes_total", "Bytes that channels have read", |of| of.bytes_read),
    ("waterwheel_loop_written_bytes_total", "Bytes that channels have written", |of| {
        of.bytes_written
    }),
    (
        "waterwheel_loop_slow_works_total",
        "Pieces of work that held the loop beyond the limit of the watchdog",
        |of| of.slow_works,
    ),
];

const LOOP_GAUGES: [LoopFamily; 4] = [
    ("waterwheel_loop_queue_depth", "Commands that wait for the loop", |of| of.queue_depth as u64),
    ("waterwheel_loop_timers", "Pending timers", |of| of.timers as u64),
    ("waterwheel_loop_registrations", "Registrations with the driver", |of| {
        of.registrations as u64
    }),
    ("waterwheel_loop_channels", "Channels", |of| of.channels as u64),
];

fn add_loops(text: &mut PrometheusText, loops: &[(String, LoopMetrics)], waited: &[Duration]) {
    let mut times = text.family(
        "waterwheel_loop_time_seconds_total",
        Counter,
        "Time of the loop by what it was spent on",
    );
    for ((name, of), waited) in loops.iter().zip(waited) {
        times
            .seconds(&[("loop", name), ("phase", "wait")], *waited)
            .seconds(&[("loop", name), ("phase", "io")], of.time_in_io)
            .seconds(&[("loop", name), ("phase", "tasks")], of.time_in_tasks);
    }
    let mut wakeups = text.family(
        "waterwheel_loop_wakeups_total",
        Counter,
        "Waits of the loop by what ended them",
    );
    for (name, of) in loops {
        let causes = [
            ("io", of.wake_ups_by_io),
            ("task", of.wake_ups_by_task),
            ("timer", of.wake_ups_by_timer),
            ("premature", of.premature_returns),
            ("failed", of.failed_waits),
        ];
        for (cause, count) in causes {
            wakeups.sample(&[("loop", name), ("cause", cause)], count);
        }
    }
    let counters = LOOP_COUNTERS.map(|family| (Counter, family));
    let gauges = LOOP_GAUGES.map(|family| (Gauge, family));
    for (family_type, (name, help, value)) in counters.into_iter().chain(gauges) {
        let mut family = text.family(name, family_type, help);
        for (name, of) in loops {
            family.sample(&[("loop", name)], value(of));
        }
    }
    let mut longest = text.family(
        "waterwheel_loop_longest_hold_seconds",
        Gauge,
        "Longest time that work has held the loop",
    );
    for (name, of) in loops {
        longest.seconds(&[("loop", name)], of.longest_hold);
    }
    let mut lag = text.family(
        "waterwheel_loop_lag_seconds",
        Histogram,
        "Time from the end of the wait of a turn to the end of the turn",
    );
    for (name, of) in loops {
        lag.histogram(&[("loop", name)], &lag_histogram(of));
    }
}

/// The first and the last bucket of lag that are shown, as powers of two of nanoseconds: 4 µs and 17 s, each bound four times
/// the one before.
const LAG_BITS: std::ops::RangeInclusive<usize> = 12..=34;

/// Adds up the buckets of lag. The sum is exact: the lag of a turn is its time on events and on tasks.
fn lag_histogram(of: &LoopMetrics) -> HistogramFigures {
    let (mut buckets, mut next) = (Vec::new(), 0);
    for bits in LAG_BITS.step_by(2) {
        // The bucket `n` ends at 2ⁿ⁺¹.
        let count = of.lag[next..bits].iter().sum();
        buckets.push((Duration::from_nanos(1 << bits).as_secs_f64(), count));
        next = bits;
    }
    let beyond = of.lag[next..].iter().sum();
    HistogramFigures { buckets, beyond, sum: of.time_in_io + of.time_in_tasks }
}

fn add_http(text: &mut PrometheusText, http: &HttpMetrics) {
    let counters = [
        ("waterwheel_http_connections_total", "Connections that spoke HTTP", http.connections),
        ("waterwheel_http_requests_total", "Requests that were begun", http.requests),
        (
            "waterwheel_http_refused_requests_total",
            "Requests refused as malformed or beyond a limit",
            http.refused,
        ),
        ("waterwheel_http_panics_total", "Requests whose service panicked", http.panics),
        ("waterwheel_http_read_bytes_total", "Bytes read by HTTP", http.bytes_in),
        ("waterwheel_http_written_bytes_total", "Bytes written by HTTP", http.bytes_out),
    ];
    for (name, help, value) in counters {
        text.family(name, Counter, help).sample(&[], value);
    }
    let gauges = [
        ("waterwheel_http_connections", "Open connections that speak HTTP", http.open_connections),
        (
            "waterwheel_http_requests_in_flight",
            "Requests that are not answered yet",
            http.in_flight,
        ),
    ];
    for (name, help, value) in gauges {
        text.family(name, Gauge, help).sample(&[], value);
    }
    let mut responses = text.family(
        "waterwheel_http_responses_total",
        Counter,
        "Responses by class of their status",
    );
    for (class, count) in ["1xx", "2xx", "3xx", "4xx", "5xx"].into_iter().zip(http.responses) {
        responses.sample(&[("class", class)], count);
    }
    let bounds = |at| HttpMetrics::latency_bound(at).map(|bound| bound.as_secs_f64());
    let bounded = http.latency.iter().enumerate();
    let buckets = bounded.filter_map(|(at, count)| Some((bounds(at)?, *count))).collect();
    let beyond = http.latency.last().copied().unwrap_or_default();
    text.family(
        "waterwheel_http_request_duration_seconds",
        Histogram,
        "Time from the head of a request to the end of its response",
    )
    .histogram(&[], &HistogramFigures { buckets, beyond, sum: http.latency_sum });
}

fn add_clients(text: &mut PrometheusText, counts: &GatewayCounts) {
    let families = [
        ("waterwheel_clients", Gauge, "Clients", counts.clients),
        ("waterwheel_clients_opened_total", Counter, "Clients that have come", counts.opened),
        ("waterwheel_commands_total", Counter, "Commands of clients", counts.commands),
        (
            "waterwheel_deliveries_total",
            Counter,
            "Publications queued for a client",
            counts.delivered,
        ),
        (
            "waterwheel_missed_deliveries_total",
            Counter,
            "Publications dropped because their client was too slow",
            counts.missed,
        ),
    ];
    for (name, family_type, help, values) in families {
        let mut family = text.family(name, family_type, help);
        for (protocol, value) in ClientProtocol::ALL.into_iter().zip(values) {
            family.sample(&[("protocol", protocol.name())], value);
        }
    }
    text.family("waterwheel_subscriptions", Gauge, "Subscriptions")
        .sample(&[], counts.subscriptions);
    let counters = [
        ("waterwheel_publications_total", "Publications of clients", counts.published),
        (
            "waterwheel_publication_bytes_total",
            "Bytes of publications of clients",
            counts.published_bytes,
        ),
        (
            "waterwheel_recovered_publications_total",
            "Publications recovered from the history",
            counts.recovered,
        ),
        ("waterwheel_gaps_total", "Subscriptions that were told of a gap", counts.gaps),
    ];
    for (name, help, value) in counters {
        text.family(name, Counter, help).sample(&[], value);
    }
    let mut refusals =
        text.family("waterwheel_refusals_total", Counter, "Refused commands and clients by error");
    for (code, count) in ErrorCode::ALL.into_iter().zip(counts.refused) {
        refusals.sample(&[("error", code.name())], count);
    }
}

fn add_engine(text: &mut PrometheusText, name: &'static str, engine: &EngineStatus) {
    let labels = [("engine", name)];
    let gauges = [
        (
            "waterwheel_engine_available",
            "1 while the engine can publish",
            u64::from(engine.is_available),
        ),
        ("waterwheel_engine_calls_in_flight", "Calls that wait for the engine", engine.in_flight),
        ("waterwheel_engine_topics", "Topics that the engine holds", engine.topics),
        (
            "waterwheel_engine_publications",
            "Publications that the engine holds",
            engine.held_publications,
        ),
        ("waterwheel_engine_publication_bytes", "Bytes of those publications", engine.held_bytes),
    ];
    for (name, help, value) in gauges {
        text.family(name, Gauge, help).sample(&labels, value);
    }
    if let Some(lag) = engine.lag {
        let help = "Time that the engine takes to answer, or that its oldest call has waited";
        text.family("waterwheel_engine_lag_seconds", Gauge, help).seconds(&labels, lag);
    }
    text.family(
        "waterwheel_engine_reconnects_total",
        Counter,
        "Connections to the engine made anew",
    )
    .sample(&labels, engine.reconnects);
}

/// A family with a sample for each kind of line: name, help, value.
type LogFamily = (&'static str, &'static str, fn(&LogCounts) -> u64);

fn add_log(text: &mut PrometheusText, counts: &[LogCounts]) {
    let families: [LogFamily; 2] = [
        ("waterwheel_log_lines_total", "Lines of the log", |of| of.written),
        ("waterwheel_log_suppressed_lines_total", "Lines of the log that were left out", |of| {
            of.suppressed
        }),
    ];
    for (name, help, value) in families {
        let mut family = text.family(name, Counter, help);
        for of in counts {
            family.sample(&[("kind", of.kind.name())], value(of));
        }
    }
}
