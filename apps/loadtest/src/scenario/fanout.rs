//! The scenarios `fanout` and `latency`: publications to subscribers, and how long they take.

use std::time::Duration;

use super::audience::trackers_from_the_start;
use super::load_run::LoadRun;
use super::publishing::{PublishingPace, PublishingPlan};
use crate::error::LoadError;
use crate::machine::process_usage::ProcessUsage;
use crate::report::figure::FigureUnit;
use crate::report::scenario_report::{ScenarioReport, TimeSeries};
use crate::wire::command::PublishTemplate;

/// The options of the scenario.
#[derive(Clone, Debug)]
pub(crate) struct FanoutOptions {
    pub(crate) scenario: &'static str,
    pub(crate) subscribers: usize,
    pub(crate) publishers: usize,
    /// Publications per second, all publishers together; none for as fast as they are received.
    pub(crate) rate: Option<u32>,
    /// Publications on their way, if there is no rate.
    pub(crate) window: u32,
    pub(crate) duration: Duration,
}

impl FanoutOptions {
    /// Returns how many connections the scenario needs.
    pub(crate) fn connections(&self) -> usize {
        self.subscribers + self.publishers
    }

    fn pace(&self) -> PublishingPace {
        match self.rate {
            Some(rate) => PublishingPace::Rate(f64::from(rate)),
            None => PublishingPace::Window {
                publications: u64::from(self.window),
                subscribers: self.subscribers as u64,
            },
        }
    }
}

/// Subscribes, publishes, and checks what was received. All subscribers have the same topic.
pub(crate) async fn run(
    run: &LoadRun,
    options: &FanoutOptions,
) -> Result<ScenarioReport, LoadError> {
    let mut report = ScenarioReport::new(options.scenario);
    report.parameter("gateways", run.options.connect.urls.len());
    report.parameter("subscribers", options.subscribers);
    report.parameter("publishers", options.publishers);
    report.parameter(
        "rate",
        options.rate.map_or(String::from("as received"), |rate| rate.to_string()),
    );
    report.parameter("seconds", options.duration.as_secs_f64());
    report.parameter("payload", run.options.payload_bytes);
    let topic = run.topic(0);
    let subscribers = run.subscribers(options.subscribers, |_| {
        (topic.clone(), trackers_from_the_start(options.publishers))
    });
    run.open_subscribers(&subscribers, "connecting", None).await?;
    let publishers = run.open_publishers(options.publishers).await?;
    let template = |index| PublishTemplate::new(&topic, index, run.options.payload_bytes);
    let templates: Vec<_> = (0..options.publishers).map(template).collect();
    let (gateway, own) = (run.gateway_usage()?, ProcessUsage::of_self()?);
    run.meter.begin(options.duration);
    let plan = PublishingPlan {
        pace: options.pace(),
        duration: Some(options.duration),
        is_ended: Default::default(),
    };
    run.publish(&publishers, &templates, &plan).await;
    run.settle(&subscribers, &publishers).await;
    let (gateway_after, own_after) = (run.gateway_usage()?, ProcessUsage::of_self()?);
    let took = run.meter.elapsed();
    run.add_throughput(&mut report);
    if let (Some(before), Some(after)) = (gateway, gateway_after) {
        let percent = after.cpu_percent_since(before, took);
        report.figure("gateway_cpu_percent", "CPU of the gateways", percent, FigureUnit::Percent);
        // Says something on a busy machine too.
        let used = after.cpu.saturating_sub(before.cpu).as_nanos() as f64;
        let each = used / run.meter.received().max(1) as f64;
        let label = "CPU of the gateways per message received";
        report.figure("gateway_cpu_per_message_ns", label, each, FigureUnit::Nanos);
    }
    let percent = own_after.cpu_percent_since(own, took);
    report.figure("own_cpu_percent", "CPU of this program", percent, FigureUnit::Percent);
    run.add_deliveries(&mut report, &subscribers, &publishers);
    let skipped = publishers.iter().map(|publisher| publisher.skipped()).sum();
    report.must_be_zero("publications that could not be sent", skipped);
    run.add_lost_connections(&mut report, 0);
    let points = run.meter.throughput();
    report.series =
        vec![TimeSeries { key: "received_per_s", title: "received per second", points }];
    Ok(report)
}
