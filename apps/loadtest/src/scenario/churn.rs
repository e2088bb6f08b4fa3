//! The scenario `churn`: connections come and go, and the memory of the gateway stays what it was.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::time::Duration;

use waterwheel::channel::LocalLoop;
use waterwheel::executor::{Clock, Error, Nanos};

use super::load_run::LoadRun;
use super::publishing::{PublishingPace, PublishingPlan};
use crate::client::publisher::LoadPublisher;
use crate::delivery::tracker::SequenceTracker;
use crate::error::LoadError;
use crate::report::figure::FigureUnit;
use crate::report::latency::LatencyCurve;
use crate::report::scenario_report::{ScenarioReport, TimeSeries};
use crate::wire::command::PublishTemplate;

/// Maximum number of looks at the memory; in a longer run they are further apart.
const MAX_SAMPLES: u32 = 600;

/// The share of the run that is the beginning, after a warm-up of the same length; and the share that is the end.
const SHARE: f64 = 0.2;

/// The options of the scenario.
#[derive(Clone, Debug)]
pub(crate) struct ChurnOptions {
    /// Clients at the same time.
    pub(crate) clients: usize,
    /// How long a client stays, from half of it to one and a half.
    pub(crate) life: Duration,
    pub(crate) duration: Duration,
    /// Publications per second, to all clients.
    pub(crate) rate: u32,
    /// By how many percent the memory may grow.
    pub(crate) growth: f64,
}

impl ChurnOptions {
    /// Returns how many connections the scenario needs: a client that was closed may still have its descriptor.
    pub(crate) fn connections(&self) -> usize {
        2 * self.clients + 1
    }
}

/// Counts of all clients of the scenario.
#[derive(Default)]
struct ChurnCounts {
    lives: Cell<u64>,
    lost: Cell<u64>,
    failed: Cell<u64>,
    last_failure: RefCell<Option<String>>,
}

/// Lets clients come and go, and compares the memory of the gateway at the beginning and at the end.
pub(crate) async fn run(
    run: &Rc<LoadRun>,
    options: &ChurnOptions,
) -> Result<ScenarioReport, LoadError> {
    let here = LocalLoop::current().ok_or_else(|| Error::closed("no event loop runs here"))?;
    let mut report = ScenarioReport::new("churn");
    report.parameter("clients", options.clients);
    report.parameter("life", format!("{:?}", options.life));
    report.parameter("seconds", options.duration.as_secs_f64());
    let publishers = run.open_publishers(1).await?;
    let counts = Rc::new(ChurnCounts::default());
    let began = Clock::Monotonic.now();
    let end = began.plus(options.duration);
    let places: Vec<_> = (0..options.clients)
        .map(|place| {
            let (run, options) = (run.clone(), options.clone());
            let (counts, publisher) = (counts.clone(), publishers[0].clone());
            here.spawn_local(async move {
                come_and_go(&run, &options, place, end, &counts, &publisher).await
            })
        })
        .collect();
    let publishing = here.spawn_local({
        let (run, publishers) = (run.clone(), publishers.clone());
        let template = PublishTemplate::new(&run.topic(0), 0, run.options.payload_bytes);
        let pace = PublishingPace::Rate(f64::from(options.rate));
        let plan =
            PublishingPlan { pace, duration: Some(options.duration), is_ended: Rc::default() };
        async move { run.publish(&publishers, &[template], &plan).await }
    });
    let memory = watch_memory(run, options, began).await?;
    for place in places {
        place.await?;
    }
    publishing.await?;
    let lives = counts.lives.get();
    let per_second = lives as f64 / Clock::Monotonic.now().since(began).as_secs_f64();
    report.count("connections", "connections opened and ended", lives);
    report.figure("connections_per_s", "connections per second", per_second, FigureUnit::PerSecond);
    report.count("received", "received, all clients", run.meter.received());
    report.count("lost", "lost while connected", counts.lost.get());
    add_memory(&mut report, options, memory);
    report.latency = LatencyCurve::of(&run.meter.times());
    report.must_be_zero("publications lost while a client was connected", counts.lost.get());
    run.add_violations(&mut report);
    run.add_lost_connections(&mut report, 0);
    if let Some(why) = counts.last_failure.take() {
        report
            .failures
            .push(format!("attempts that failed: {}, the last: {why}", counts.failed.get()));
    }
    Ok(report)
}

/// Lets one client after the other take this place. Half of them leave with a Close, the others just go.
async fn come_and_go(
    run: &LoadRun,
    options: &ChurnOptions,
    place: usize,
    end: Nanos,
    counts: &ChurnCounts,
    publisher: &LoadPublisher,
) {
    let mut random = Lcg(place as u64 + 1);
    while Clock::Monotonic.now() < end && !run.stop.is_set() {
        let trackers = vec![SequenceTracker::starting_anywhere()];
        let client = run.subscriber(place, (run.topic(0), trackers));
        if let Err(error) = client.open(&run.connector).await {
            counts.failed.set(counts.failed.get() + 1);
            counts.last_failure.replace(Some(error.to_string()));
            run.stop.pause(options.life).await;
            continue;
        }
        let life = options.life.mul_f64(0.5 + random.next_share());
        let left = end.since(Clock::Monotonic.now());
        run.stop.pause(life.min(left)).await;
        match random.next_share() < 0.5 {
            true => client.close().await,
            false => client.cut(),
        }
        let lost = client.with_trackers(|trackers| {
            trackers.iter().map(|one| one.count_lost_between(&publisher.ledger())).sum::<u64>()
        });
        counts.lost.set(counts.lost.get() + lost);
        counts.lives.set(counts.lives.get() + 1);
    }
}

/// Notes the memory of the gateway until the end of the run: seconds and KiB. Empty if it is not of interest.
async fn watch_memory(
    run: &LoadRun,
    options: &ChurnOptions,
    began: Nanos,
) -> Result<Vec<(f64, f64)>, LoadError> {
    let pause = (options.duration / MAX_SAMPLES).max(Duration::from_millis(50));
    let mut samples = Vec::new();
    loop {
        let at = Clock::Monotonic.now().since(began);
        if at >= options.duration || run.stop.is_set() {
            return Ok(samples);
        }
        if let Some(usage) = run.gateway_usage()? {
            samples.push((at.as_secs_f64(), usage.memory_kib as f64));
        }
        run.stop.pause(pause.min(options.duration.saturating_sub(at))).await;
    }
}

/// Adds the memory at the beginning and at the end, and the failure if it has grown.
fn add_memory(report: &mut ScenarioReport, options: &ChurnOptions, samples: Vec<(f64, f64)>) {
    let seconds = options.duration.as_secs_f64();
    let median_between = |from: f64, to: f64| {
        let within = |sample: &&(f64, f64)| (from * seconds..to * seconds).contains(&sample.0);
        median(samples.iter().filter(within).map(|sample| sample.1).collect())
    };
    let (first, last) = (median_between(SHARE, 2.0 * SHARE), median_between(1.0 - SHARE, 1.0));
    if let (Some(first), Some(last)) = (first, last) {
        let growth = 100.0 * (last - first) / first;
        report.figure("memory_begin_kib", "memory at the beginning", first, FigureUnit::KiB);
        report.figure("memory_end_kib", "memory at the end", last, FigureUnit::KiB);
        report.figure("memory_growth_percent", "growth", growth, FigureUnit::Percent);
        if growth > options.growth {
            let limit = options.growth;
            report
                .failures
                .push(format!("the memory has grown by {growth:.1} %, more than {limit} %"));
        }
    }
    let title = "memory of the gateway, KiB";
    report.series = vec![TimeSeries { key: "memory_kib", title, points: samples }];
}

fn median(mut values: Vec<f64>) -> Option<f64> {
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied()
}

/// A generator of numbers that look random: the lives of clients differ, and a run can be repeated.
struct Lcg(u64);

impl Lcg {
    /// Returns a number from zero to below one.
    fn next_share(&mut self) -> f64 {
        self.0 =
            self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 40) as f64 / (1_u64 << 24) as f64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn report(samples: Vec<(f64, f64)>) -> ScenarioReport {
        let options = ChurnOptions {
            clients: 1,
            life: Duration::from_secs(1),
            duration: Duration::from_secs(100),
            rate: 1,
            growth: 10.0,
        };
        let mut report = ScenarioReport::new("churn");
        add_memory(&mut report, &options, samples);
        report
    }

    #[test]
    fn g09_memory_that_grows_is_a_failure_and_a_warm_up_is_none() {
        let of = |memory: fn(f64) -> f64| {
            report((0..100).map(|at| (f64::from(at), memory(f64::from(at)))).collect())
        };
        let flat = of(|at| if at < 15.0 { 100.0 * at } else { 1_500.0 });
        assert_eq!(flat.failures, Vec::<String>::new());
        assert_eq!(flat.figures[2].value, 0.0);
        let growing = of(|at| 1_000.0 + 10.0 * at);
        assert_eq!(growing.failures.len(), 1, "{:?}", growing.failures);
        assert!(growing.failures[0].ends_with("more than 10 %"), "{:?}", growing.failures);
        assert_eq!(report(Vec::new()).figures, []);
    }

    #[test]
    fn g09_lives_differ() {
        let mut random = Lcg(1);
        let shares: Vec<_> = (0..1_000).map(|_| random.next_share()).collect();
        let mean = shares.iter().sum::<f64>() / 1_000.0;
        assert!(
            (0.45..0.55).contains(&mean) && shares.iter().all(|share| (0.0..1.0).contains(share))
        );
    }
}
