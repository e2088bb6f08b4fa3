//! Figures of the engine: how fast publications go from one gateway through NATS to another. They are printed, by
//! `cargo test --release -p waterwheel-gateway --test engines figures -- --nocapture`, and kept above generous bounds.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use waterwheel_gateway::engine::{Engine, EngineFuture};

use super::server::{NatsServer, has_nats};
use super::test_gateway::Gateway;
use crate::engine_suite::{json, number, wait};

/// Publishes one after the other, each when the one before has reached the other gateway.
#[test]
#[allow(clippy::disallowed_methods, reason = "a measurement")]
fn g08_figures_of_the_way_through_nats_to_another_gateway() {
    if !has_nats() {
        return;
    }
    const COUNT: u64 = 500;
    let server = NatsServer::start();
    let (one, two) = (Gateway::start(&server), Gateway::start(&server));
    two.subscribe("a");
    let mut acknowledged = Vec::new();
    let mut delivered = Vec::new();
    for n in 0..COUNT {
        let begin = Instant::now();
        one.publish("a", n);
        acknowledged.push(begin.elapsed());
        two.sink.wait_count(n as usize + 1);
        delivered.push(begin.elapsed());
    }
    let [acknowledged, delivered] = [acknowledged, delivered].map(percentiles);
    println!("acknowledged after p50 {:?}, p99 {:?}", acknowledged.0, acknowledged.1);
    println!("at the other gateway after p50 {:?}, p99 {:?}", delivered.0, delivered.1);
    assert!(delivered.0 < Duration::from_millis(250));
}

/// Publishes batches of a hundred, eight of them at a time.
#[test]
#[allow(clippy::disallowed_methods, reason = "a measurement")]
fn g08_figures_of_many_publications_through_nats() {
    if !has_nats() {
        return;
    }
    const BATCHES: u64 = 400;
    const AT_ONCE: usize = 8;
    let server = NatsServer::start();
    let (one, two) = (Gateway::start(&server), Gateway::start(&server));
    two.subscribe("t.*");
    let begin = Instant::now();
    let mut under_way: VecDeque<EngineFuture<_>> = VecDeque::new();
    for batch in 0..BATCHES {
        if under_way.len() == AT_ONCE
            && let Some(oldest) = under_way.pop_front()
        {
            wait(oldest).unwrap();
        }
        let batch = (0..100).map(|n| json(&format!("t.{}", n % 10), batch * 100 + n)).collect();
        under_way.push_back(one.engine.publish(batch));
    }
    for results in under_way {
        wait(results).unwrap();
    }
    let acknowledged = begin.elapsed();
    let last = BATCHES * 100 - 1;
    two.sink.wait_for("t.9", last);
    let delivered = begin.elapsed();
    let received = two.sink.publications();
    assert!(received.iter().map(|p| number(p)).eq(0..=last));
    let rate = |time: Duration| (last + 1) as f64 / time.as_secs_f64();
    println!(
        "{:.0} acknowledged a second, {:.0} at the other gateway",
        rate(acknowledged),
        rate(delivered)
    );
    assert!(rate(delivered) > 1_000.0);
}

/// Returns the median and the 99th percentile.
fn percentiles(mut times: Vec<Duration>) -> (Duration, Duration) {
    times.sort_unstable();
    (times[times.len() / 2], times[times.len() * 99 / 100])
}
