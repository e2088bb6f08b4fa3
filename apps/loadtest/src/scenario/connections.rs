//! The scenario `connections`: opens many, holds them, and calls the roll.

use std::rc::Rc;
use std::time::Duration;

use waterwheel::executor::Clock;

use super::load_run::LoadRun;
use crate::client::subscriber::LoadSubscriber;
use crate::delivery::tracker::SequenceTracker;
use crate::error::LoadError;
use crate::report::figure::FigureUnit;
use crate::report::latency::LatencyCurve;
use crate::report::scenario_report::ScenarioReport;
use crate::wire::command::PublishTemplate;

/// Time for the gateway to come to rest after the last connect.
const REST: Duration = Duration::from_secs(1);

/// The options of the scenario.
#[derive(Clone, Debug)]
pub(crate) struct ConnectionsOptions {
    pub(crate) clients: usize,
    /// Clients that share a topic.
    pub(crate) per_topic: usize,
    /// How long the connections are held without traffic.
    pub(crate) hold: Duration,
}

impl ConnectionsOptions {
    /// Returns how many connections the scenario needs.
    pub(crate) fn connections(&self) -> usize {
        self.clients + 1
    }
}

/// Opens the connections, holds them, and publishes one message for each topic, which every client has to receive.
pub(crate) async fn run(
    run: &LoadRun,
    options: &ConnectionsOptions,
) -> Result<ScenarioReport, LoadError> {
    let mut report = ScenarioReport::new("connections");
    report.parameter("clients", options.clients);
    report.parameter("clients per topic", options.per_topic);
    report.parameter("in flight", run.options.in_flight);
    // The publication for topic 7 is number 7 of its publisher: what a client of that topic waits for.
    let describe = |index: usize| {
        let topic = index / options.per_topic;
        (run.topic(topic), vec![SequenceTracker::starting_at(topic as u64)])
    };
    let subscribers = run.subscribers(options.clients, describe);
    let (before, began) = (run.gateway_usage()?, Clock::Monotonic.now());
    run.open_subscribers(&subscribers, "connecting", None).await?;
    let took = Clock::Monotonic.now().since(began).as_secs_f64();
    run.stop.pause(REST).await;
    let (held, at_rest) = (run.gateway_usage()?, Clock::Monotonic.now());
    report.count("connected", "connected and subscribed", run.counts.opened());
    let rate = run.counts.opened() as f64 / took;
    report.figure("connects_per_s", "connects per second", rate, FigureUnit::PerSecond);
    if let (Some(before), Some(held)) = (before, held) {
        let grown = held.memory_kib as f64 - before.memory_kib as f64;
        let each = grown / options.clients as f64;
        report.figure(
            "memory_kib",
            "memory of the gateway",
            held.memory_kib as f64,
            FigureUnit::KiB,
        );
        report.figure("memory_per_connection_kib", "memory per connection", each, FigureUnit::KiB);
    }
    run.progress.note("holding", 0, 0);
    run.stop.pause(options.hold).await;
    if let (Some(held), Some(after)) = (held, run.gateway_usage()?) {
        let percent = after.cpu_percent_since(held, Clock::Monotonic.now().since(at_rest));
        report.figure(
            "idle_cpu_percent",
            "CPU of the gateway at rest",
            percent,
            FigureUnit::Percent,
        );
    }
    call_the_roll(run, options).await?;
    let received = |client: &Rc<LoadSubscriber>| {
        client.with_trackers(|trackers| trackers.iter().map(SequenceTracker::count_received).sum())
    };
    let present = subscribers.iter().map(received).filter(|count: &u64| *count == 1).count() as u64;
    report.count("held", "held, and reached by a publication", present);
    report.latency = LatencyCurve::of(&run.meter.times());
    report.must_be_zero("clients that were not reached", options.clients as u64 - present);
    run.add_violations(&mut report);
    run.add_lost_connections(&mut report, 0);
    Ok(report)
}

/// Publishes one message for each topic, and waits until they are received.
async fn call_the_roll(run: &LoadRun, options: &ConnectionsOptions) -> Result<(), LoadError> {
    // With a look each 50 ms, below the rate that a gateway permits to a client by default: 1,000 in a second.
    const AT_A_TIME: u64 = 40;
    let publishers = run.open_publishers(1).await?;
    let publisher = &publishers[0];
    let topics = options.clients.div_ceil(options.per_topic);
    for number in 0..topics {
        if run.stop.is_set() {
            break;
        }
        let template = PublishTemplate::new(&run.topic(number), 0, run.options.payload_bytes);
        publisher.publish(&template, Clock::Monotonic.now());
        run.progress.note("calling the roll", number as u64 + 1, topics as u64);
        let is_answered = || publisher.ledger().unanswered() < AT_A_TIME;
        run.stop.pause_until(run.options.settle, is_answered).await;
    }
    let all = options.clients as u64;
    run.stop.pause_until(run.options.settle, || run.meter.received() >= all).await;
    Ok(())
}
