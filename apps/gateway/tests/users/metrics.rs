//! `/metrics` of the running program, as promtool and Prometheus' own parser read it, beside what its clients have done and
//! what its page shows.

use std::collections::BTreeMap;
use std::time::Duration;

use serde_json::Value;

use crate::gateway::Gateway;
use crate::tools::{Player, installed, node_script, python_with, script};

/// Prints the samples as an object of values by name and labels.
const PARSER: &str = "
import json, sys
from prometheus_client.parser import text_string_to_metric_families
samples = {}
for family in text_string_to_metric_families(sys.stdin.read()):
    assert family.documentation and family.type in ('counter', 'gauge', 'histogram'), family
    for sample in family.samples:
        labels = ','.join(f'{name}={value}' for name, value in sorted(sample.labels.items()))
        samples[f'{sample.name}{{{labels}}}'] = sample.value
print(json.dumps(samples))
";

fn samples(gateway: &Gateway) -> BTreeMap<String, f64> {
    let text = gateway.curl_text("/metrics", &[]);
    let mut promtool = Player::start(installed("promtool").args(["check", "metrics"]));
    promtool.say(text.trim_end());
    assert_eq!(promtool.finish(), [""; 0]);
    let mut parser = Player::start(python_with("prometheus-client").args(["-c", PARSER]));
    parser.say(text.trim_end());
    serde_json::from_str(&parser.finish().concat()).unwrap()
}

/// Returns the second snapshot of the page: it has rates.
fn snapshot(gateway: &Gateway) -> Value {
    let mut curl = installed("curl");
    curl.args(["--silent", "--no-buffer", "--noproxy", "*", &gateway.url("/api/live")]);
    let mut curl = Player::start(&mut curl);
    let mut next = || loop {
        if let Some(data) = curl.line().strip_prefix("data:") {
            return serde_json::from_str::<Value>(data).unwrap();
        }
    };
    next();
    next()
}

#[test]
fn g05_the_metrics_agree_with_what_clients_did_and_with_the_page() {
    let gateway = Gateway::start(&[]);
    let mut clients: Vec<Player> = (0..3)
        .map(|_| {
            let mut command = python_with("websockets");
            command.arg(script("python_client.py")).args([&gateway.websocket_url(), "counted"]);
            Player::start(&mut command)
        })
        .collect();
    let mut node = node_script("node_client.js", &["ws"]);
    clients.push(Player::start(node.args([&gateway.websocket_url(), "counted"])));
    clients.iter_mut().for_each(|client| client.expect("subscribed gap=false"));
    let mut events = installed("curl");
    events.args(["--silent", "--no-buffer", "--noproxy", "*"]);
    let mut events = Player::start(events.arg(gateway.url("/events?topic=counted")));
    while !events.line().starts_with("event: open") {}
    for number in 0..7 {
        let text = format!("number {number}");
        gateway.curl("/topics/counted", &["-H", "content-type: text/plain", "-d", &text]);
        clients.iter_mut().for_each(|client| client.expect(&format!("message {text}")));
        while !events.line().contains(&text) {}
    }
    gateway.curl("/topics/counted.*", &["-d", "refused"]);
    let page = snapshot(&gateway);
    let samples = samples(&gateway);
    let sample = |name: &str| samples.get(name).copied().unwrap_or_else(|| panic!("no {name}"));
    let traffic = &page["gateway"];
    let pairs = [
        ("waterwheel_clients{protocol=websocket}", 4.0, &traffic["clients"]["websocket"]),
        ("waterwheel_clients{protocol=events}", 1.0, &traffic["clients"]["events"]),
        ("waterwheel_subscriptions{}", 5.0, &traffic["subscriptions"]),
        ("waterwheel_publications_total{}", 7.0, &traffic["published"]),
        (
            "waterwheel_refusals_total{error=invalid_topic}",
            1.0,
            &traffic["refused"]["invalid_topic"],
        ),
        ("waterwheel_missed_deliveries_total{protocol=websocket}", 0.0, &traffic["missed"]),
        ("waterwheel_engine_topics{engine=memory}", 1.0, &page["engine"]["topics"]),
    ];
    for (name, done, shown) in pairs {
        assert_eq!(sample(name), done, "{name}");
        assert_eq!(shown.as_f64(), Some(done), "{name} on the page");
    }
    assert_eq!(sample("waterwheel_deliveries_total{protocol=websocket}"), 28.0);
    assert_eq!(sample("waterwheel_deliveries_total{protocol=events}"), 7.0);
    assert_eq!(traffic["delivered"], 35);
    for event_loop in page["loops"].as_array().unwrap() {
        let name = event_loop["name"].as_str().unwrap();
        assert!(sample(&format!("waterwheel_loop_turns_total{{loop={name}}}")) > 0.0);
        let phases = ["io", "tasks", "wait"].map(|phase| {
            sample(&format!("waterwheel_loop_time_seconds_total{{loop={name},phase={phase}}}"))
        });
        // A wait counts when it ends, so the sum may be less than the time.
        let sum: f64 = phases.iter().sum();
        let uptime = page["uptime"].as_f64().unwrap();
        assert!(phases[1] > 0.0 && sum < uptime + 60.0, "{name}: {phases:?} in {uptime}");
    }
}

/// Half a percent of a core, of an optimised build: `cargo test --release … -- --ignored`.
#[test]
#[ignore = "measures for forty seconds, and an optimised build"]
fn g04_the_page_costs_at_most_half_a_percent_of_a_core_for_one_viewer() {
    let gateway = Gateway::start(&[]);
    let at_rest = processor_time_of_twenty_seconds(&gateway);
    let mut curl = installed("curl");
    curl.args(["--silent", "--no-buffer", "--noproxy", "*", &gateway.url("/api/live")]);
    let mut viewer = Player::start(&mut curl);
    while !viewer.line().starts_with("data:") {}
    let with_a_viewer = processor_time_of_twenty_seconds(&gateway);
    println!("of 20 s: {at_rest:?} at rest, {with_a_viewer:?} with a viewer");
    assert!(with_a_viewer < Duration::from_millis(100), "{with_a_viewer:?}");
}

/// Returns the processor time that a gateway takes in twenty seconds, which another program counts.
fn processor_time_of_twenty_seconds(gateway: &Gateway) -> Duration {
    let before = gateway.processor_time();
    Player::start(installed("sleep").arg("20")).finish();
    gateway.processor_time() - before
}
