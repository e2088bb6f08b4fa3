//! Small runs of every scenario against gateways.

use std::process::id;

use crate::support::load_process::{LoadProcess, TempFile, run_with_json};
use crate::support::real_gateway::RealGateway;

/// Options that keep a run short where it waits for nothing.
const SHORT: &str = "--in-flight 20 --settle 60 --quiet";

#[test]
fn g09_connections_are_opened_held_and_reached() {
    let gateway = RealGateway::start(|_| {});
    let args =
        format!("connections --clients 100 --hold 0.2 --url {} --pid {}", gateway.url(), id());
    let (outcome, json) = run_with_json(&format!("{args} {SHORT}"));
    let outcome = outcome.expect_success();
    assert!(outcome.table.contains("memory per connection"), "{}", outcome.table);
    let figures = &json["figures"];
    assert_eq!((&figures["connected"], &figures["held"]), (&100.0.into(), &100.0.into()));
    assert!(figures["connects_per_s"].as_f64().unwrap() > 0.0, "{figures}");
    gateway.end();
}

#[test]
fn g09_a_fanout_at_a_rate_reaches_every_subscriber() {
    let gateway = RealGateway::start(|_| {});
    let plot = TempFile::new("svg");
    let args = format!("fanout --subscribers 100 --rate 50 --seconds 1 --url {}", gateway.url());
    let (outcome, json) = run_with_json(&format!("{args} {SHORT} --svg {}", plot.0));
    outcome.expect_success();
    let figures = &json["figures"];
    assert_eq!((&figures["published"], &figures["received"]), (&50.0.into(), &5_000.0.into()));
    assert_eq!((&figures["lost_silently"], &figures["duplicates"]), (&0.0.into(), &0.0.into()));
    assert!(figures["latency_p99_ns"].as_f64() <= figures["latency_max_ns"].as_f64(), "{figures}");
    assert!(json["latency_ns"].as_array().unwrap().len() > 10, "{json}");
    let svg = std::fs::read_to_string(&plot.0).unwrap();
    assert!(svg.starts_with("<svg ") && svg.ends_with("</svg>\n"), "{svg}");
    gateway.end();
}

#[test]
fn g09_a_fanout_as_fast_as_received_keeps_within_the_queues() {
    let gateway = RealGateway::start(|_| {});
    let args = format!("fanout --subscribers 100 --seconds 1 --window 16 --url {}", gateway.url());
    let (outcome, json) = run_with_json(&format!("{args} {SHORT}"));
    outcome.expect_success();
    let published = json["figures"]["published"].as_f64().unwrap();
    assert!(published > 16.0, "{published}");
    assert_eq!(json["figures"]["received"].as_f64(), Some(100.0 * published));
    gateway.end();
}

#[test]
fn g09_latency_is_measured_at_a_rate() {
    let gateway = RealGateway::start(|_| {});
    let args = format!("latency --subscribers 5 --rate 200 --seconds 1 --url {}", gateway.url());
    let (outcome, json) = run_with_json(&format!("{args} {SHORT}"));
    outcome.expect_success();
    assert_eq!(json["figures"]["received"], 1_000.0);
    gateway.end();
}

#[test]
fn g09_a_storm_loses_nothing_within_the_history() {
    // Long enough for a machine that is busy with other tests.
    let gateway = RealGateway::start(|settings| settings.history.topic_publications = 100_000);
    let args = format!("storm --clients 100 --rate 100 --seconds 0.3 --url {}", gateway.url());
    let (outcome, json) = run_with_json(&format!("{args} {SHORT}"));
    outcome.expect_success();
    let figures = &json["figures"];
    assert_eq!((&figures["gaps"], &figures["lost_told"]), (&0.0.into(), &0.0.into()));
    assert_eq!(figures["received"].as_f64(), figures["published"].as_f64().map(|all| 100.0 * all));
    let connected: Vec<_> = json["series"]["connections"].as_array().unwrap().iter().collect();
    assert_eq!(connected.first().unwrap()[1], 100.0);
    assert_eq!(connected.last().unwrap()[1], 100.0);
    gateway.end();
}

#[test]
fn g09_a_storm_survives_a_restart_of_the_gateway_and_its_gaps_are_told() {
    // An address of its own: nobody else takes the port while nobody listens there.
    let bind = "127.23.9.1";
    let gateway = RealGateway::start(|settings| settings.bind = bind.into());
    let port = gateway.port();
    let args = "storm --clients 50 --rate 100 --seconds 0.3 --await-cut --allow-gaps --in-flight 20 --settle 60";
    let mut load = LoadProcess::start(&format!("{args} --url {}", gateway.url()));
    load.wait_for("waiting for the end of the connections");
    gateway.end();
    let gateway =
        RealGateway::start(|settings| (settings.bind, settings.port) = (bind.into(), port));
    let outcome = load.wait().expect_success();
    let gaps = outcome.table.lines().find(|line| line.trim_start().starts_with("gaps told"));
    assert_eq!(
        gaps.and_then(|line| line.split_whitespace().last()),
        Some("50"),
        "{}",
        outcome.table
    );
    gateway.end();
}

#[test]
fn g09_churn_leaves_nothing_behind() {
    let gateway = RealGateway::start(|_| {});
    // The limit of growth is for runs that are long enough; this one begins with an empty heap.
    let args = "churn --clients 20 --life 50 --seconds 1 --rate 100 --growth 1000";
    let args = format!("{args} --url {} --pid {}", gateway.url(), id());
    let (outcome, json) = run_with_json(&format!("{args} {SHORT}"));
    outcome.expect_success();
    let figures = &json["figures"];
    assert!(figures["connections"].as_f64().unwrap() > 20.0, "{figures}");
    assert!(figures["received"].as_f64().unwrap() > 20.0, "{figures}");
    assert!(figures["memory_end_kib"].as_f64().unwrap() > 0.0, "{figures}");
    gateway.end();
}
