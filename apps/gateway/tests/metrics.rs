//! `/metrics` as Prometheus' own tools read it, and beside the counters of the loops.

use std::collections::{BTreeMap, HashSet};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use waterwheel::channel::{EventLoopGroup, LAG_BUCKETS};
use waterwheel::http::HttpServer;
use waterwheel::net::Auto;
use waterwheel_gateway::client_protocol::ClientProtocol;
use waterwheel_gateway::engine::EngineStatus;
use waterwheel_gateway::error_code::ErrorCode;
use waterwheel_gateway::log::gateway_log::GatewayLog;
use waterwheel_gateway::metrics::counters::GatewayCounters;
use waterwheel_gateway::metrics::exporter::{GatewayFigures, MetricsExporter};
use waterwheel_gateway::metrics::process::{ProcessFigures, unix_time};

/// Figures of loops that have worked, and of everything else.
fn figures() -> GatewayFigures {
    let loops = EventLoopGroup::builder(Auto).threads(2).name("loop").build().unwrap();
    let counters = Arc::new(GatewayCounters::default());
    for event_loop in loops.children() {
        let counters = counters.clone();
        let work = move || {
            let block = counters.on_this_loop();
            block.count_open(ClientProtocol::WebSocket);
            block.count_deliveries(ClientProtocol::WebSocket, 20);
            block.count_publication(7);
            block.count_refusal(ErrorCode::Closing);
        };
        event_loop.submit(work).unwrap().join().unwrap();
    }
    let children: Vec<_> = loops.children().collect();
    loops.shutdown_gracefully(Duration::ZERO, Duration::from_secs(20)).unwrap().join().unwrap();
    GatewayFigures {
        version: "1.2.3",
        started_at: unix_time(),
        is_draining: false,
        loops: children.iter().map(|each| (each.name().to_owned(), each.metrics())).collect(),
        counts: counters.counts(),
        engine_name: "memory",
        engine: EngineStatus { is_available: true, topics: 3, ..EngineStatus::default() },
        http: HttpServer::new(async |_| "").metrics(),
        handshakes: Some((7, 1)),
        log: GatewayLog::new(Default::default()).counts().to_vec(),
        process: ProcessFigures::read(),
    }
}

/// Runs a program with this input. Returns its output; `None`, with a note, if it is not there.
fn run(program: &Path, args: &[&str], input: &str) -> Option<String> {
    let mut command = Command::new(program);
    command.args(args).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let Ok(mut child) = command.spawn() else {
        println!("not tested: {} is not installed", program.display());
        return None;
    };
    let mut stdin = child.stdin.take().unwrap();
    stdin.write_all(input.as_bytes()).unwrap();
    drop(stdin);
    let output = child.wait_with_output().unwrap();
    let told = String::from_utf8_lossy(&output.stdout) + String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{program:?}: {told}");
    Some(told.into_owned())
}

/// Returns a Python with prometheus_client. `scripts/test` installs it beside the build.
fn python_with_parser() -> PathBuf {
    let target = Path::new(env!("CARGO_BIN_EXE_gateway")).ancestors().nth(2);
    target.unwrap_or(Path::new("")).join("prometheus-client/bin/python3")
}

/// Reads the samples by their names and labels, as they are written.
fn samples(text: &str) -> BTreeMap<&str, f64> {
    let lines = text.lines().filter(|line| !line.starts_with('#'));
    let parse = |line| {
        let (name, value): (&str, &str) = str::rsplit_once(line, ' ').unwrap();
        (name, value.parse().unwrap())
    };
    lines.map(parse).collect()
}

#[test]
fn g05_promtool_finds_nothing_wrong_with_the_metrics() {
    let text = MetricsExporter::default().render(&figures());
    // Status 0: readable; 3: readable, but against the conventions.
    if let Some(told) = run(Path::new("promtool"), &["check", "metrics"], &text) {
        assert_eq!(told, "");
    }
}

#[test]
fn g05_the_parser_of_prometheus_client_reads_every_sample() {
    const SCRIPT: &str = "
import sys
from prometheus_client.parser import text_string_to_metric_families
for family in text_string_to_metric_families(sys.stdin.read()):
    assert family.documentation and family.type in ('counter', 'gauge', 'histogram'), family
    for sample in family.samples:
        labels = ','.join(f'{name}=\"{value}\"' for name, value in sample.labels.items())
        print(sample.name + ('{' + labels + '}' if labels else ''), sample.value)
";
    let text = MetricsExporter::default().render(&figures());
    let read = run(&python_with_parser(), &["-c", SCRIPT], &text);
    if let Some(read) = read {
        assert_eq!(samples(&read), samples(&text));
    }
}

#[test]
fn o01_the_metrics_agree_with_the_counters_of_the_loops() {
    let figures = figures();
    let text = MetricsExporter::default().render(&figures);
    let samples = samples(&text);
    let of = |name: &str, label: &str, value: &str| {
        samples[format!("waterwheel_loop_{name}{{loop=\"{value}\"{label}}}").as_str()]
    };
    assert_eq!(figures.loops.len(), 2);
    for (name, metrics) in &figures.loops {
        assert!(metrics.turns > 0 && metrics.time_in_tasks > Duration::ZERO, "the loop has worked");
        let counts = [
            ("turns_total", metrics.turns),
            ("ready_events_total", metrics.ready_events),
            ("tasks_total", metrics.tasks),
            ("future_polls_total", metrics.futures_polled),
            ("read_bytes_total", metrics.bytes_read),
            ("written_bytes_total", metrics.bytes_written),
            ("queue_depth", metrics.queue_depth as u64),
            ("timers", metrics.timers as u64),
            ("channels", metrics.channels as u64),
            ("lag_seconds_count", metrics.lag.iter().sum()),
        ];
        for (family, count) in counts {
            assert_eq!(of(family, "", name), count as f64, "{family}");
        }
        let phases = [
            ("wait", metrics.time_waiting),
            ("io", metrics.time_in_io),
            ("tasks", metrics.time_in_tasks),
        ];
        for (phase, time) in phases {
            let label = format!(",phase=\"{phase}\"");
            assert_eq!(of("time_seconds_total", &label, name), time.as_secs_f64());
        }
        let causes = [("io", metrics.wake_ups_by_io), ("task", metrics.wake_ups_by_task)];
        for (cause, count) in causes {
            assert_eq!(of("wakeups_total", &format!(",cause=\"{cause}\""), name), count as f64);
        }
        // Each bound has all turns of the buckets below it: bucket n ends at 2ⁿ⁺¹ ns.
        for bits in (12..=34).step_by(2) {
            let bound = Duration::from_nanos(1 << bits).as_secs_f64();
            let below: u64 = metrics.lag[..bits].iter().sum();
            let label = format!(",le=\"{bound}\"");
            assert_eq!(of("lag_seconds_bucket", &label, name), below as f64, "{bound}");
        }
        let sum = metrics.time_in_io + metrics.time_in_tasks;
        assert_eq!(of("lag_seconds_sum", "", name), sum.as_secs_f64());
    }
    assert_eq!(samples["waterwheel_clients{protocol=\"websocket\"}"], 2.0);
    assert_eq!(samples["waterwheel_deliveries_total{protocol=\"websocket\"}"], 40.0);
    assert_eq!(samples["waterwheel_publication_bytes_total"], 14.0);
    assert_eq!(samples["waterwheel_refusals_total{error=\"closing\"}"], 2.0);
    assert_eq!(samples["waterwheel_engine_topics{engine=\"memory\"}"], 3.0);
    assert_eq!(samples["waterwheel_tls_handshakes_total{result=\"failed\"}"], 1.0);
}

#[test]
fn g08_the_metrics_tell_the_lag_and_the_reconnects_of_an_engine_with_a_server() {
    let mut figures = figures();
    let exporter = MetricsExporter::default();
    assert!(!exporter.render(&figures).contains("engine_lag"), "the memory has none");
    figures.engine_name = "redis";
    figures.engine.lag = Some(Duration::from_micros(1_500));
    figures.engine.reconnects = 4;
    let text = exporter.render(&figures);
    assert!(text.contains("# TYPE waterwheel_engine_lag_seconds gauge\n"), "{text}");
    let samples = samples(&text);
    assert_eq!(samples["waterwheel_engine_lag_seconds{engine=\"redis\"}"], 0.0015);
    assert_eq!(samples["waterwheel_engine_reconnects_total{engine=\"redis\"}"], 4.0);
}

/// Monitoring keeps a time series for each set of labels: a peer must not be able to make new ones.
#[test]
fn r04_the_number_of_time_series_is_that_of_loops_and_of_names_in_the_code() {
    let figures = figures();
    let text = MetricsExporter::default().render(&figures);
    let samples = samples(&text);
    let names: HashSet<&str> = samples
        .keys()
        .flat_map(|sample| sample.split(['{', ',']).skip(1))
        .map(|label| label.split('=').next().unwrap())
        .collect();
    let known = [
        "loop", "phase", "cause", "class", "protocol", "error", "engine", "kind", "result",
        "version", "le",
    ];
    assert!(names.iter().all(|name| known.contains(name)), "{names:?}");
    let per_loop = samples.keys().filter(|sample| sample.contains("{loop=\"")).count();
    assert_eq!(per_loop % figures.loops.len(), 0);
    assert!(per_loop / figures.loops.len() < 30 + LAG_BUCKETS / 4, "{per_loop}");
    assert!(samples.len() - per_loop < 130, "{}", samples.len() - per_loop);
    assert!(text.len() < 32 * 1024, "{} bytes", text.len());
}

#[test]
fn o01_the_time_waiting_never_sinks() {
    let exporter = MetricsExporter::default();
    let mut figures = figures();
    let name = &figures.loops[0].0.clone();
    let wait = format!("waterwheel_loop_time_seconds_total{{loop=\"{name}\",phase=\"wait\"}}");
    figures.loops[0].1.time_waiting = Duration::from_secs(5);
    assert_eq!(samples(&exporter.render(&figures))[wait.as_str()], 5.0);
    figures.loops[0].1.time_waiting = Duration::from_secs(4);
    assert_eq!(samples(&exporter.render(&figures))[wait.as_str()], 5.0);
    figures.loops[0].1.time_waiting = Duration::from_secs(6);
    assert_eq!(samples(&exporter.render(&figures))[wait.as_str()], 6.0);
}
