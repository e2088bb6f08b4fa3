//! The scenario `storm`: all clients lose their connections at once, come back, and resume by position.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::time::Duration;

use waterwheel::channel::{LocalLoop, interval, sleep};
use waterwheel::executor::{Clock, Error, Nanos};

use super::audience::trackers_from_the_start;
use super::load_run::LoadRun;
use super::publishing::{PublishingPace, PublishingPlan};
use crate::client::connector::LoadConnector;
use crate::client::publisher::LoadPublisher;
use crate::client::subscriber::LoadSubscriber;
use crate::error::LoadError;
use crate::report::figure::FigureUnit;
use crate::report::scenario_report::{ScenarioReport, TimeSeries};
use crate::stop::StopFlag;
use crate::wire::command::PublishTemplate;

/// The time between two looks at the number of connections.
const SAMPLE: Duration = Duration::from_millis(25);

/// Maximum number of such looks.
const MAX_SAMPLES: usize = 20_000;

/// The pause of a publisher that cannot connect.
const PUBLISHER_PAUSE: Duration = Duration::from_millis(100);

/// The options of the scenario.
#[derive(Clone, Debug)]
pub(crate) struct StormOptions {
    pub(crate) clients: usize,
    pub(crate) publishers: usize,
    /// Publications per second, all publishers together, all the time.
    pub(crate) rate: u32,
    /// The time before the storm, and after it.
    pub(crate) calm: Duration,
    /// True if the gateway ends the connections, because somebody kills or restarts it.
    pub(crate) is_cut_by_gateway: bool,
    /// Longest time until all clients are back; and until the gateway has ended the connections, if it does.
    pub(crate) back_limit: Duration,
}

impl StormOptions {
    /// Returns how many connections the scenario needs.
    pub(crate) fn connections(&self) -> usize {
        self.clients + self.publishers
    }
}

/// Subscribes, publishes all the time, ends all connections, and counts what was lost when all are back.
pub(crate) async fn run(
    run: &Rc<LoadRun>,
    options: &StormOptions,
) -> Result<ScenarioReport, LoadError> {
    let here = LocalLoop::current().ok_or_else(|| Error::closed("no event loop runs here"))?;
    let mut report = ScenarioReport::new("storm");
    report.parameter("gateways", run.options.connect.urls.len());
    report.parameter("clients", options.clients);
    report.parameter("rate", options.rate);
    report.parameter("in flight", run.options.in_flight);
    report
        .parameter("cut by", if options.is_cut_by_gateway { "the gateway" } else { "the clients" });
    let topic = run.topic(0);
    let subscribers = run.subscribers(options.clients, |_| {
        (topic.clone(), trackers_from_the_start(options.publishers))
    });
    run.open_subscribers(&subscribers, "connecting", None).await?;
    let publishers = run.open_publishers(options.publishers).await?;
    let ended = Rc::new(Cell::new(false));
    let rejoined = publishers.iter().map(|publisher| {
        let (publisher, connector) = (publisher.clone(), run.connector.clone());
        here.spawn_local(keep_connected(publisher, connector, ended.clone(), run.stop.clone()))
    });
    let rejoined: Vec<_> = rejoined.collect();
    let samples = Rc::new(RefCell::new(Vec::new()));
    let sampling =
        here.spawn_local(sample_connections(run.clone(), samples.clone(), ended.clone()));
    let publishing = here.spawn_local({
        let (run, publishers, ended) = (run.clone(), publishers.clone(), ended.clone());
        let pace = PublishingPace::Rate(f64::from(options.rate));
        let plan = PublishingPlan { pace, duration: None, is_ended: ended };
        let template = |index| PublishTemplate::new(&topic, index, run.options.payload_bytes);
        let templates: Vec<_> = (0..publishers.len()).map(template).collect();
        async move { run.publish(&publishers, &templates, &plan).await }
    });
    run.stop.pause(options.calm).await;
    let storm = weather(run, options, &subscribers, &mut report).await;
    if storm.is_ok() {
        run.stop.pause(options.calm).await;
    }
    ended.set(true);
    publishing.await?;
    sampling.await?;
    for rejoining in rejoined {
        rejoining.await?;
    }
    storm?;
    run.settle(&subscribers, &publishers).await;
    run.add_deliveries(&mut report, &subscribers, &publishers);
    let gaps = subscribers.iter().map(|subscriber| subscriber.gaps()).sum();
    report.count("gaps", "gaps told", gaps);
    let cut = if options.is_cut_by_gateway { options.clients as u64 } else { 0 };
    run.add_lost_connections(&mut report, cut);
    let points = samples.take();
    report.series = vec![TimeSeries { key: "connections", title: "clients connected", points }];
    Ok(report)
}

/// Ends all connections, or waits until the gateway has, and opens them again.
async fn weather(
    run: &LoadRun,
    options: &StormOptions,
    subscribers: &[Rc<LoadSubscriber>],
    report: &mut ScenarioReport,
) -> Result<(), LoadError> {
    if !options.is_cut_by_gateway {
        subscribers.iter().for_each(|subscriber| subscriber.cut());
    }
    run.progress.note("waiting for the end of the connections", 0, 0);
    let is_cut = run.stop.pause_until(options.back_limit, || run.counts.open() == 0).await;
    if !is_cut && !run.stop.is_set() {
        let limit = options.back_limit;
        let why = format!("{} connections did not end within {limit:?}", run.counts.open());
        return Err(Error::new(why).into());
    }
    let cut_at = Clock::Monotonic.now();
    let until = cut_at.plus(options.back_limit);
    let failed = run.open_subscribers(subscribers, "coming back", Some(until)).await?;
    let took = Clock::Monotonic.now().since(cut_at).as_secs_f64();
    report.figure("back_s", "all clients back after", took, FigureUnit::Seconds);
    report.figure(
        "returns_per_s",
        "returns per second",
        options.clients as f64 / took,
        FigureUnit::PerSecond,
    );
    report.count("failed_attempts", "attempts that failed", failed);
    let absent = subscribers.iter().filter(|subscriber| !subscriber.is_open()).count();
    report.must_be_zero("clients that did not come back", absent as u64);
    Ok(())
}

/// Connects a publisher again whenever its connection has ended.
async fn keep_connected(
    publisher: Rc<LoadPublisher>,
    connector: Rc<LoadConnector>,
    is_ended: Rc<Cell<bool>>,
    stop: StopFlag,
) {
    while !is_ended.get() && !stop.is_set() {
        if publisher.channel().is_some() || publisher.open(&connector).await.is_err() {
            sleep(PUBLISHER_PAUSE).await;
        }
    }
}

/// Notes the number of open connections, from time to time.
async fn sample_connections(
    run: Rc<LoadRun>,
    samples: Rc<RefCell<Vec<(f64, f64)>>>,
    is_ended: Rc<Cell<bool>>,
) {
    let began: Nanos = Clock::Monotonic.now();
    let mut ticks = interval(SAMPLE);
    while !is_ended.get() && !run.stop.is_set() && samples.borrow().len() < MAX_SAMPLES {
        let at = ticks.tick().await.since(began).as_secs_f64();
        samples.borrow_mut().push((at, run.counts.open() as f64));
    }
}
